// Brings a scalar kernel into the form that the vectoriser reads.
#pragma once

#include "llvm/IR/Function.h"
#include "llvm/Target/TargetMachine.h"

namespace metalki::compiler::vectorize {

// Two-way branches only, reducible loops with preheader and single latch, one return, LCSSA, vectors taken apart, every barrier
// at the end of its block.
void prepare(llvm::Function& kernel, llvm::TargetMachine& machine);

} // namespace metalki::compiler::vectorize
