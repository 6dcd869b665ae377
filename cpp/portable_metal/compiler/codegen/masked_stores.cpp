// See the header.
#include "codegen/masked_stores.hpp"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"

namespace metalki::compiler {
namespace {

constexpr unsigned value_of = 0, place_of = 1, alignment_of = 2, mask_of = 3;

llvm::IntrinsicInst* as_masked_store(llvm::Instruction& instruction) {
    auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    return call && call->getIntrinsicID() == llvm::Intrinsic::masked_store ? call : nullptr;
}

bool write_one_place(const llvm::IntrinsicInst& a, const llvm::IntrinsicInst& b) {
    return a.getArgOperand(place_of) == b.getArgOperand(place_of) &&
           a.getArgOperand(alignment_of) == b.getArgOperand(alignment_of) &&
           a.getArgOperand(value_of)->getType() == b.getArgOperand(value_of)->getType();
}

// Into the later one; a lane of both keeps what that writes.
void merge(llvm::IntrinsicInst& first, llvm::IntrinsicInst& second) {
    llvm::IRBuilder<> builder(&second);
    llvm::Value* mask = second.getArgOperand(mask_of);
    second.setArgOperand(value_of, builder.CreateSelect(mask, second.getArgOperand(value_of), first.getArgOperand(value_of)));
    second.setArgOperand(mask_of, builder.CreateOr(mask, first.getArgOperand(mask_of)));
    first.eraseFromParent();
}

} // namespace

llvm::PreservedAnalyses MergeMaskedStores::run(llvm::Function& function, llvm::FunctionAnalysisManager&) {
    bool changed = false;
    for (llvm::BasicBlock& block : function) {
        llvm::IntrinsicInst* last = nullptr; // nothing is read or written behind it
        for (llvm::Instruction& instruction : llvm::make_early_inc_range(block)) {
            if (llvm::IntrinsicInst* store = as_masked_store(instruction)) {
                if (last && write_one_place(*last, *store)) {
                    merge(*last, *store);
                    changed = true;
                }
                last = store;
            } else if (instruction.mayReadOrWriteMemory()) {
                last = nullptr;
            }
        }
    }
    return changed ? llvm::PreservedAnalyses::none() : llvm::PreservedAnalyses::all();
}

} // namespace metalki::compiler
