// Gives a meaning to operations that LLVM leaves undefined and that must not stop a kernel.
#pragma once

#include "llvm/IR/Module.h"

namespace metalki::compiler {

// What accesses may assume of addresses: that vectors lie as MSL wants them, or only as their elements do, which is how kernels
// load them in practice.
enum class Alignment { as_declared, of_elements };

// Before optimisation. Integer division by zero and overflow do not trap, shift amounts count modulo the width.
void define_behaviour(llvm::Module& module, Alignment alignment);

} // namespace metalki::compiler
