// Functions that call themselves: how deep they go is bounded by the thread's stack alone.
#pragma once

#include <cstddef>

#include "llvm/IR/Module.h"

namespace metalki::compiler {

// The bytes of stack that recursion gets beyond one frame of each function; 0 when nothing calls itself. Makes frames of any
// size meet the guard below the stack.
std::size_t prepare_recursion(llvm::Module& module);

} // namespace metalki::compiler
