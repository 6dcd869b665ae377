// Numbers of few bits that are taken out of words and become floats.
#pragma once

#include "llvm/IR/PassManager.h"
#include "llvm/Target/TargetMachine.h"

namespace metalki::compiler {

// What AVX-512 does in one instruction instead of two: up to four bits to a float (looked up in a register), a byte of a word
// with its sign (a product with a byte that is one, and three that are zero). To be run last: InstCombine knows neither.
class ConvertSmallNumbers : public llvm::PassInfoMixin<ConvertSmallNumbers> {
public:
    explicit ConvertSmallNumbers(llvm::TargetMachine& machine);
    llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager&);

private:
    bool looks_up_, multiplies_bytes_;
};

} // namespace metalki::compiler
