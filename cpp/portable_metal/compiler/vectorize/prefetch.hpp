// Asks for what the next iteration of a long loop reads, while this one computes.
#pragma once

#include "llvm/IR/Function.h"

namespace metalki::compiler::vectorize {

// On a prepared kernel, before it is widened: adds llvm.prefetch, for each lane.
void prefetch_next_iterations(llvm::Function& kernel);

} // namespace metalki::compiler::vectorize
