// Stores of lanes to one place.
#pragma once

#include "llvm/IR/PassManager.h"

namespace metalki::compiler {

// Two masked stores to one place, one behind the other, become one of what both leave there: lanes that exchange numbers
// within their SIMD-group write its block twice.
class MergeMaskedStores : public llvm::PassInfoMixin<MergeMaskedStores> {
public:
    llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager&);
};

} // namespace metalki::compiler
