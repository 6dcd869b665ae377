// Loops that are worth more code than the optimiser would give them.
#pragma once

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace metalki::compiler::ptx {

// Unrolls loops that step through a small array of a thread's own whole, so that the array's elements become values: memory of
// a thread's own is slow on a GPU, because it is device memory.
void unroll_indexing_loops(llvm::Module& module, llvm::TargetMachine& machine);

// Has short loops made four times as long by the optimiser: those that only calculate and of which nobody knows how often they
// run, and those that read memory.
void unroll_open_loops(llvm::Module& module, llvm::TargetMachine& machine);

} // namespace metalki::compiler::ptx
