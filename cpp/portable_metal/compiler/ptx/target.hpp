// LLVM's code generator for NVIDIA GPUs; registered when the first kernel asks for it.
#pragma once

#include <memory>

#include "llvm/Target/TargetMachine.h"

#include "compiler/gpu_code.hpp"

namespace metalki::compiler::ptx {

// What code is made for: the newest architecture and PTX version that LLVM knows and the driver reads.
struct Dialect {
    unsigned architecture = 0;
    unsigned version = 0;
};
// Throws SpecializationError when the target is older than what we support.
Dialect dialect_of(const GpuTarget& target);

std::unique_ptr<llvm::TargetMachine> make_target_machine(const GpuTarget& target);

} // namespace metalki::compiler::ptx
