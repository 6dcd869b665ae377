// The .entry function around a kernel: parameters of the launch in, the calls for a thread's place answered.
#pragma once

#include <cstdint>
#include <vector>

#include "llvm/IR/Module.h"

#include "compiler/gpu_code.hpp"

namespace metalki::compiler::ptx {

struct Entry {
    llvm::Function* function = nullptr;
    llvm::Value* log = nullptr; // address of the log buffer; an i64
    std::vector<std::uint32_t> parameter_offsets;
    std::uint32_t parameter_bytes = 0;
};

// Puts `thread`, a simplified thread entry point, into a new function of the given name. Afterwards no position input, lane
// number or threadgroup memory is asked for any more.
Entry make_entry(llvm::Function& thread, const std::string& name, const FunctionInfo& function,
                 std::size_t static_threadgroup_memory, const GpuRequest& request);

} // namespace metalki::compiler::ptx
