// Constants whose initialisers Clang leaves to the start of a program, which kernels do not have.
#pragma once

#include "llvm/IR/Module.h"

namespace metalki::compiler {

// Gives constants the values that can be computed now. Must run before anything is optimised: what may be evaluated branch by
// branch is no longer so once branches have become selects.
void evaluate_initialisers(llvm::Module& module);

// What is left, such as sums of many terms, each thread computes before it enters the kernel; all of them store the same
// values.
void call_initialisers(llvm::Module& module, llvm::Function& entry);

} // namespace metalki::compiler
