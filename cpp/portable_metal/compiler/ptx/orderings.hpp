// min and max as one instruction.
#pragma once

#include "llvm/IR/Module.h"

namespace metalki::compiler::ptx {

// The headers spell min and max of floats as two comparisons and a choice, because a NaN gives way to a number; so does the
// instruction of a GPU.
void use_minimum_and_maximum(llvm::Module& module);

} // namespace metalki::compiler::ptx
