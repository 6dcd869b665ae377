// Masks of lanes on processors whose vector registers are too short for a byte a lane.
#pragma once

#include "llvm/IR/Function.h"
#include "llvm/Target/TargetMachine.h"

namespace metalki::compiler {

// From block to block a mask goes as a number a lane, and what it is as a number of bits is found once. The code generator
// would pass each lane in a register of its own. After all passes that combine instructions.
void keep_masks_as_numbers(llvm::Function& function, llvm::TargetMachine& machine);

} // namespace metalki::compiler
