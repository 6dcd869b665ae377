// Sums that take a product computed in another block.
#pragma once

#include "llvm/IR/Module.h"

namespace metalki::compiler::ptx {

// Product and sum become one instruction where they may be contracted: the code generator does that within a block only.
// After optimisation.
void fuse_sums(llvm::Module& module);

} // namespace metalki::compiler::ptx
