// Calls through pointers, turned into calls by name: a kernel's module holds every function a pointer can name.
#pragma once

#include "llvm/IR/Module.h"

namespace metalki::compiler {

// Replaces each call through a pointer by a choice among the functions of its type whose address is taken. Only so can
// functions with barriers and SIMD-group functions be inlined into the kernel.
void resolve_function_pointers(llvm::Module& module);

} // namespace metalki::compiler
