// Loops over a thread's own arrays: unrolled, the elements become values.
#pragma once

#include "llvm/IR/PassManager.h"

namespace metalki::compiler {

// Asks for loops to be unrolled that have few iterations and index an array of the thread by them.
class UnrollOverPrivateArrays : public llvm::PassInfoMixin<UnrollOverPrivateArrays> {
public:
    llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses);
};

} // namespace metalki::compiler
