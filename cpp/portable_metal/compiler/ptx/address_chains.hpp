// Addresses in a loop that lie at the same distances from each other.
#pragma once

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace metalki::compiler::ptx {

// Rows of a matrix that are read side by side need an address and a distance, in place of an address each: registers are short
// where many loads wait. After optimisation.
void chain_addresses(llvm::Module& module, llvm::TargetMachine& machine);

} // namespace metalki::compiler::ptx
