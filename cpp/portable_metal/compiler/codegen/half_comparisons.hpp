// Comparisons of vectors of half and bfloat for targets that have none.
#pragma once

#include "llvm/IR/PassManager.h"

namespace metalki::compiler {

// Compares floats instead, which gives the same. Left to the code generator, each lane is converted and compared by itself.
// To be run last: InstCombine would turn it round.
class WidenHalfComparisons : public llvm::PassInfoMixin<WidenHalfComparisons> {
public:
    llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager&);
};

} // namespace metalki::compiler
