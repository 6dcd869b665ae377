// The order of instructions in long blocks, where it decides how many values wait in memory for their use.
#pragma once

#include "llvm/IR/Function.h"

namespace metalki::compiler {

// In long blocks: moves loads and shuffles down to their first use, and keeps the code generator's scheduler, which brings
// loads forward, from mixing distant parts.
void order_long_blocks(llvm::Function& function);

} // namespace metalki::compiler
