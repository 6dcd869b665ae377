// Loads before the arithmetic they do not depend on.
#pragma once

#include "llvm/IR/Module.h"

namespace metalki::compiler::ptx {

// A GPU's thread goes on after a load until the value is used, and what it waits for then is the memory's latency. Inside of
// loops the loads of a block are asked for together, as far as registers go. After optimisation. True when what is under way
// then takes so many registers that the driver should be told to spend them.
bool hoist_loads(llvm::Module& module);

} // namespace metalki::compiler::ptx
