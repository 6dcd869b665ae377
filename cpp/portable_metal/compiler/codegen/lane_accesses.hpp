// Accesses to memory by lanes that the machine has no instruction for.
#pragma once

#include "llvm/IR/Function.h"
#include "llvm/Target/TargetMachine.h"

namespace metalki::compiler {

// Numbers of less than 32 bits are gathered in words; all other masked accesses that the machine does not know become a loop
// over the lanes that are on, those to consecutive places an ordinary access while all lanes are on. LLVM would write a branch
// for each lane, and take minutes for large kernels.
void lower_lane_accesses(llvm::Function& function, llvm::TargetMachine& machine);

} // namespace metalki::compiler
