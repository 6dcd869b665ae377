// Two threadgroups that do their work together.
#pragma once

#include "llvm/IR/Module.h"

namespace metalki::compiler::ptx {

// Lets a block do the work of the threadgroups 2n and 2n + 1 of a row, step by step, where its loops read much that is the same
// for both: that is read once. False: it is no gain, or threads depend on each other, and nothing is changed. For whole grids
// with an even number of threadgroups along x. After optimisation.
bool pair_threadgroups(llvm::Function& entry);

// Afterwards, when LLVM has simplified the numbers of both: those that are known to be a distance apart are made so in 64 bits,
// so that both find their memory with one address.
void relate_numbers(llvm::Function& entry);

} // namespace metalki::compiler::ptx
