// Sums of many numbers whose order does not matter.
#pragma once

#include "llvm/IR/PassManager.h"

namespace metalki::compiler {

// Adds every second number of a long sum by itself: an addition waits for the one before it, and a processor that computes
// several at once for both. Under fast mathematics only.
class SplitLongSums : public llvm::PassInfoMixin<SplitLongSums> {
public:
    llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager&);
};

} // namespace metalki::compiler
