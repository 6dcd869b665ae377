// Neighbours in memory that a thread loads one by one, as few wide loads.
#pragma once

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace metalki::compiler::ptx {

// Loads of a block at constant distances from one address become loads of 16, 8 or 4 bytes where the address allows. The
// address is looked at, before the loop if it stays aligned in it; the single loads remain for where it is not. After
// optimisation.
void merge_loads(llvm::Module& module, llvm::TargetMachine& machine);

} // namespace metalki::compiler::ptx
