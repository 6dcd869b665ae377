// Lanes that store their values one after the other, each to the place of its rank among those that store.
#pragma once

#include "llvm/IR/PassManager.h"

namespace metalki::compiler {

// Scatters to start[popcount(ballot & lanes below)] become compressing stores: a stream of values in place of single ones.
class CompressScatters : public llvm::PassInfoMixin<CompressScatters> {
public:
    llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager&);
};

} // namespace metalki::compiler
