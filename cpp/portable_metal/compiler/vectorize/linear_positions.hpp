// A kernel that asks for its position only to number the threads of the grid in the order of memory, x + width * (y + height *
// z), does not see where a row ends: rows may be run as one, however short or odd they are.
#pragma once

#include "llvm/IR/Function.h"

namespace metalki::compiler::vectorize {

// Takes the position along x for the thread's number, where that is possible. How many axes are numbered so: 1 where nothing
// was changed; 2 where rows, 3 where slices too, are one row now, in which y (and z) are 0.
unsigned number_threads_along_x(llvm::Function& kernel);

} // namespace metalki::compiler::vectorize
