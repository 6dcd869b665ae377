// Gives a meaning to operations that LLVM leaves undefined and that must not stop a kernel.
#pragma once

#include "llvm/IR/Module.h"

namespace metalki::compiler {

// What accesses may assume of addresses. Vectors lie only as their elements do, which is how kernels load them in practice; or
// those of less than 8 bytes as MSL wants them, where it is dear to find out.
enum class Alignment { of_elements, of_elements_if_wide };

// Before optimisation. Integer division by zero and overflow do not trap, shift amounts count modulo the width.
void define_behaviour(llvm::Module& module, Alignment alignment);

} // namespace metalki::compiler
