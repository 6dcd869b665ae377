// Loops that step through a small array of a thread's own.
#pragma once

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace metalki::compiler::ptx {

// Unrolls them whole, so that the array's elements become values: memory of a thread's own is slow on a GPU, because it is
// device memory.
void unroll_indexing_loops(llvm::Module& module, llvm::TargetMachine& machine);

} // namespace metalki::compiler::ptx
