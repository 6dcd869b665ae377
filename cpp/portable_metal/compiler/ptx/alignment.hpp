// Vectors at addresses that are aligned to their elements only.
#pragma once

#include "llvm/IR/Module.h"

namespace metalki::compiler::ptx {

// A GPU stops at a wide load from an address that is not a multiple of its width. Kernels do such loads: where the address is
// not known to be aligned, it is looked at, and the vector is loaded (or stored) in pieces if need be. After optimisation.
void guard_alignment(llvm::Module& module);

// Copies of a few bytes become loads and stores as wide as can be; they may be guarded later.
void widen_copies(llvm::Module& module);

} // namespace metalki::compiler::ptx
