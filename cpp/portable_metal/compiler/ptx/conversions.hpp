// Small integers that become floats.
#pragma once

#include "llvm/IR/Module.h"

namespace metalki::compiler::ptx {

// Integers of 8 and 16 bits go by way of 32 bits: a GPU has a fast instruction for those only. After optimisation.
void widen_conversions(llvm::Module& module);

} // namespace metalki::compiler::ptx
