// Threads that exchange numbers with those whose position differs in a few bits: `a[i ^ j]`.
#pragma once

#include "llvm/IR/Function.h"

namespace metalki::compiler::vectorize {

// Computes addresses that lead through an exclusive or again in each block that reads or writes there, so that what they are
// made of is at hand when the access is widened.
void bring_exchanges_near(llvm::Function& kernel);

} // namespace metalki::compiler::vectorize
