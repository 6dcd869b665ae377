// Moves threadgroup variables from static storage into the block of memory that each running threadgroup gets.
#pragma once

#include <cstddef>

#include "llvm/IR/Module.h"

namespace metalki::compiler {

// Before optimisation: replaces the variables by addresses in the block. Returns the size of the block in bytes.
std::size_t place_threadgroup_variables(llvm::Module& module);

} // namespace metalki::compiler
