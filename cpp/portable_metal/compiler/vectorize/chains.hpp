// Long sums, where their order may be chosen.
#pragma once

#include "llvm/IR/Function.h"

namespace metalki::compiler::vectorize {

// On a prepared kernel, before it is widened.
void split_chains(llvm::Function& kernel);

} // namespace metalki::compiler::vectorize
