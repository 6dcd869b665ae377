// Numbers the places where threads wait for each other, so that the lanes of a SIMD-group meet again after divergence.
#pragma once

#include "llvm/IR/Module.h"

namespace metalki::compiler {

// Before optimisation, which may move branches but not what each thread calls one after the other: replaces the calls of the
// standard headers in `entry` by those of the executor (kernel_abi.hpp) with site numbers that grow along the code, and adds
// meeting points at the ends of loop iterations that lanes may leave at different places.
void number_synchronization_sites(llvm::Module& module, llvm::Function& entry);

// Afterwards: throws std::runtime_error when a barrier or a SIMD-group function is called outside of `entry`.
void refuse_synchronization_elsewhere(llvm::Module& module, llvm::Function& entry);

} // namespace metalki::compiler
