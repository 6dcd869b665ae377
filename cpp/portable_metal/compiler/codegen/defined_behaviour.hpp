// Gives a meaning to operations that LLVM leaves undefined and that must not stop a kernel.
#pragma once

#include "llvm/IR/Module.h"

namespace metalki::compiler {

// Before optimisation. Integer division by zero and overflow do not trap, shift amounts count modulo the width, and no
// access assumes more alignment than its element has (kernels load vectors at addresses aligned to their elements only).
void define_behaviour(llvm::Module& module);

} // namespace metalki::compiler
