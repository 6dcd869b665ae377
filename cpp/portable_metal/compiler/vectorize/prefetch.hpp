// Asks for what later iterations of a loop read, while this one computes.
#pragma once

#include "llvm/IR/Function.h"
#include "llvm/IR/PassManager.h"

namespace metalki::compiler::vectorize {

// On a prepared kernel, before it is widened: adds llvm.prefetch, for each lane.
void prefetch_later_iterations(llvm::Function& kernel, llvm::FunctionAnalysisManager& analyses);

} // namespace metalki::compiler::vectorize
