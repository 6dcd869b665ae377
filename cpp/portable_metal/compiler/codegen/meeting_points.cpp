// A mark is a call that LLVM can neither copy nor pass by.
#include "codegen/meeting_points.hpp"

#include <set>

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/PostDominators.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"

#include "codegen/runtime_names.hpp"
#include "codegen/simd_calls.hpp"

namespace metalki::compiler {
namespace {

// Several ways of one iteration lead here.
bool is_join(const llvm::BasicBlock& block, const llvm::Loop& loop) {
    unsigned ways = 0;
    for (const llvm::BasicBlock* before : llvm::predecessors(&block)) {
        ways += loop.contains(before);
    }
    return ways > 1;
}

// The first join behind `block` in each of the loops around it.
void add_joins(llvm::BasicBlock& block, const llvm::LoopInfo& loops, const llvm::PostDominatorTree& post_dominators,
               std::set<llvm::BasicBlock*>& joins) {
    const llvm::Loop* loop = loops.getLoopFor(&block);
    bool found = false;
    const auto* node = post_dominators.getNode(&block);
    while (loop && (node = node ? node->getIDom() : nullptr)) {
        llvm::BasicBlock* behind = node->getBlock();
        if (!behind) {
            return; // different ends
        }
        while (loop && !loop->contains(behind)) {
            loop = loop->getParentLoop();
            found = false;
        }
        if (loop && !found && is_join(*behind, *loop)) {
            joins.insert(behind);
            found = true;
        }
    }
}

llvm::FunctionCallee declare_mark(llvm::Module& module) {
    llvm::LLVMContext& context = module.getContext();
    auto mark =
        module.getOrInsertFunction(runtime::meeting_point, llvm::FunctionType::get(llvm::Type::getVoidTy(context), false));
    auto* function = llvm::cast<llvm::Function>(mark.getCallee());
    function->addFnAttr(llvm::Attribute::Convergent);
    function->addFnAttr(llvm::Attribute::NoUnwind);
    function->addFnAttr(llvm::Attribute::WillReturn);
    function->addFnAttr(llvm::Attribute::NoMerge);
    function->setMemoryEffects(llvm::MemoryEffects::inaccessibleMemOnly());
    return mark;
}

} // namespace

void mark_meeting_points(llvm::Module& module) {
    const SimdCalls calls(module);
    for (llvm::Function* function : calls.callers()) {
        llvm::DominatorTree dominators(*function);
        llvm::LoopInfo loops(dominators);
        if (loops.empty()) {
            continue;
        }
        llvm::PostDominatorTree post_dominators(*function);
        std::set<llvm::BasicBlock*> joins;
        for (llvm::BasicBlock& block : *function) {
            if (loops.getLoopFor(&block) && calls.are_in(block)) {
                add_joins(block, loops, post_dominators, joins);
            }
        }
        for (llvm::BasicBlock* join : joins) {
            llvm::IRBuilder<>(join, join->getFirstInsertionPt()).CreateCall(declare_mark(module));
        }
    }
}

void forget_meeting_points(llvm::Module& module) {
    llvm::Function* mark = module.getFunction(runtime::meeting_point);
    if (!mark) {
        return;
    }
    for (llvm::User* call : llvm::make_early_inc_range(mark->users())) {
        llvm::cast<llvm::CallInst>(call)->eraseFromParent();
    }
    mark->eraseFromParent();
}

} // namespace metalki::compiler
