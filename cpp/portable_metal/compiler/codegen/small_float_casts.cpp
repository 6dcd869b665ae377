// See the header.
#include "codegen/small_float_casts.hpp"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"

namespace metalki::compiler {
namespace {

bool is_small(const llvm::Type* type) {
    return type->getScalarType()->isHalfTy() || type->getScalarType()->isBFloatTy();
}

} // namespace

void replace_small_float_casts(llvm::Module& module) {
    for (llvm::Function& function : module) {
        for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
            const bool resizes = llvm::isa<llvm::FPExtInst, llvm::FPTruncInst>(instruction);
            if (!resizes || !is_small(instruction.getType()) || !is_small(instruction.getOperand(0)->getType())) {
                continue;
            }
            llvm::IRBuilder<> builder(&instruction);
            llvm::Type* wide = instruction.getType()->getWithNewType(builder.getFloatTy());
            llvm::Value* value = builder.CreateFPExt(instruction.getOperand(0), wide);
            instruction.replaceAllUsesWith(builder.CreateFPTrunc(value, instruction.getType()));
            instruction.eraseFromParent();
        }
    }
}

} // namespace metalki::compiler
