// What kernels call and the GPU has no instruction for: mathematics and messages.
#pragma once

#include "llvm/IR/Module.h"

#include "compiler/gpu_code.hpp"

namespace metalki::compiler::ptx {

// Resolves all such calls and adds the functions that answer them. `log`: where messages go.
void add_device_functions(llvm::Module& module, llvm::Value& log, const GpuTarget& target);

} // namespace metalki::compiler::ptx
