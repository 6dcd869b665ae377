// See the header.
#include "ptx/fused_sums.hpp"

#include <utility>

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"

namespace metalki::compiler::ptx {
namespace {

bool may_fuse(const llvm::Instruction& instruction, unsigned opcode) {
    return instruction.getOpcode() == opcode && instruction.getType()->isFloatTy() && instruction.hasAllowContract();
}

llvm::Instruction* product(llvm::Value* value) {
    auto* instruction = llvm::dyn_cast<llvm::Instruction>(value);
    return instruction && may_fuse(*instruction, llvm::Instruction::FMul) ? instruction : nullptr;
}

// Null: it stays. With two products one is computed by itself anyway.
llvm::Value* fused(llvm::Instruction& sum) {
    const bool is_difference = may_fuse(sum, llvm::Instruction::FSub);
    if (!is_difference && !may_fuse(sum, llvm::Instruction::FAdd)) {
        return nullptr;
    }
    llvm::Value *first = sum.getOperand(0), *second = sum.getOperand(1);
    const bool is_second = product(second) != nullptr;
    if (is_second == (product(first) != nullptr)) {
        return nullptr;
    }
    const llvm::Instruction& taken = *product(is_second ? second : first);
    if (taken.getParent() == sum.getParent()) {
        return nullptr;
    }
    llvm::IRBuilder<> builder(&sum);
    builder.setFastMathFlags(sum.getFastMathFlags());
    llvm::Value *factor = taken.getOperand(0), *rest = is_second ? first : second;
    if (is_difference) {
        llvm::Value*& negative = is_second ? factor : rest;
        negative = builder.CreateFNeg(negative);
    }
    return builder.CreateIntrinsic(llvm::Intrinsic::fma, {sum.getType()}, {factor, taken.getOperand(1), rest});
}

} // namespace

void fuse_sums(llvm::Module& module) {
    for (llvm::Function& function : module) {
        for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
            if (llvm::Value* one = fused(instruction)) {
                instruction.replaceAllUsesWith(one);
                instruction.eraseFromParent();
            }
        }
    }
}

} // namespace metalki::compiler::ptx
