// See the header.
#include "ptx/loop_versions.hpp"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"

namespace metalki::compiler::ptx {
namespace {

// Products on tensor cores are of the whole SIMD-group.
bool wants_all_lanes(const llvm::CallBase& call) {
    switch (call.getIntrinsicID()) {
    case llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_bf16:
    case llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_f32_f32:
        return true;
    default:
        return false;
    }
}

void join_exits(const llvm::Loop& loop, const llvm::ValueToValueMapTy& copies) {
    llvm::SmallVector<llvm::BasicBlock*, 4> exits;
    loop.getUniqueExitBlocks(exits);
    for (llvm::BasicBlock* exit : exits) {
        for (llvm::PHINode& phi : exit->phis()) {
            for (unsigned i = 0, count = phi.getNumIncomingValues(); i < count; ++i) {
                if (loop.contains(phi.getIncomingBlock(i))) {
                    llvm::Value* value = copies.lookup(phi.getIncomingValue(i));
                    phi.addIncoming(value ? value : phi.getIncomingValue(i),
                                    llvm::cast<llvm::BasicBlock>(copies.lookup(phi.getIncomingBlock(i))));
                }
            }
        }
    }
}

} // namespace

Agreement agreement_on(const llvm::Loop& loop, const llvm::DominatorTree& dominators) {
    bool has_convergent = false;
    for (const llvm::BasicBlock* block : loop.blocks()) {
        for (const llvm::Instruction& instruction : *block) {
            const auto* call = llvm::dyn_cast<llvm::CallBase>(&instruction);
            if (call && wants_all_lanes(*call) && loop.getLoopLatch() && dominators.dominates(block, loop.getLoopLatch())) {
                return Agreement::possible;
            }
            has_convergent |= call && call->isConvergent();
        }
    }
    return has_convergent ? Agreement::impossible : Agreement::not_needed;
}

void version_loop(llvm::Loop& loop, llvm::Value* condition, llvm::LoopInfo& loops, llvm::DominatorTree& dominators) {
    llvm::BasicBlock* before = loop.getLoopPreheader();
    llvm::BasicBlock* preheader = llvm::SplitBlock(before, before->getTerminator(), &dominators, &loops, nullptr, "version");
    llvm::ValueToValueMapTy copies;
    llvm::SmallVector<llvm::BasicBlock*, 8> blocks;
    const llvm::Loop* copy =
        llvm::cloneLoopWithPreheader(preheader, before, &loop, copies, ".other", &loops, &dominators, blocks);
    llvm::remapInstructionsInBlocks(blocks, copies);
    llvm::ReplaceInstWithInst(before->getTerminator(),
                              llvm::BranchInst::Create(preheader, copy->getLoopPreheader(), condition));
    join_exits(loop, copies);
    dominators.recalculate(*before->getParent());
}

} // namespace metalki::compiler::ptx
