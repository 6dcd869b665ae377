// See half_comparisons.hpp.
#include "codegen/half_comparisons.hpp"

#include <vector>

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"

namespace metalki::compiler {

llvm::PreservedAnalyses WidenHalfComparisons::run(llvm::Function& function, llvm::FunctionAnalysisManager&) {
    std::vector<llvm::FCmpInst*> found;
    for (llvm::Instruction& instruction : llvm::instructions(function)) {
        auto* comparison = llvm::dyn_cast<llvm::FCmpInst>(&instruction);
        if (comparison && comparison->getType()->isVectorTy() &&
            comparison->getOperand(0)->getType()->getScalarSizeInBits() == 16) {
            found.push_back(comparison);
        }
    }
    for (llvm::FCmpInst* comparison : found) {
        llvm::IRBuilder<> builder(comparison);
        auto* type = llvm::cast<llvm::VectorType>(comparison->getType());
        llvm::Type* floats = llvm::VectorType::get(builder.getFloatTy(), type->getElementCount());
        for (unsigned side : {0u, 1u}) {
            comparison->setOperand(side, builder.CreateFPExt(comparison->getOperand(side), floats));
        }
    }
    return found.empty() ? llvm::PreservedAnalyses::all() : llvm::PreservedAnalyses::none();
}

} // namespace metalki::compiler
