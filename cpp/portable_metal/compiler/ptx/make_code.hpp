// From a kernel's simplified thread function to PTX.
#pragma once

#include <string>

#include "llvm/Target/TargetMachine.h"

#include "codegen/kernel_module.hpp"
#include "compiler/gpu_code.hpp"

namespace metalki::compiler::ptx {

// `thread` names the entry point in `kernel`, which is used up. The result's function is `function`.
GpuCode make_code(KernelModule& kernel, const std::string& thread, const FunctionInfo& function,
                  std::size_t static_threadgroup_memory, const GpuRequest& request, llvm::TargetMachine& machine);

} // namespace metalki::compiler::ptx
