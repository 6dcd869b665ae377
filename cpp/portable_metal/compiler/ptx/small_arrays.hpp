// Elements that are chosen at run time, of vectors and small arrays of a thread's own.
#pragma once

#include "llvm/IR/Module.h"

namespace metalki::compiler::ptx {

// Makes a register of each element: an access at a place that is only known at run time goes through all of them and selects
// one. Otherwise they would lie in device memory.
void spread_small_arrays(llvm::Module& module);

// The same for extractelement and insertelement, and for bytes and words that are looked at as one number.
void spread_vector_indices(llvm::Module& module);

} // namespace metalki::compiler::ptx
