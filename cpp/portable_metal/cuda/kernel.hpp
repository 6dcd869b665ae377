// A kernel's code on a GPU.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "compiler/gpu_code.hpp"
#include "cuda/device.hpp"

namespace metalki::cuda {

// Safe to use from several threads.
class Kernel {
public:
    // Loads the code. Throws Error, with what the driver's assembler says.
    Kernel(Device& device, std::shared_ptr<const compiler::GpuCode> code);
    ~Kernel();
    Kernel(const Kernel&) = delete;
    Kernel& operator=(const Kernel&) = delete;

    const compiler::GpuCode& code() const { return *code_; }
    unsigned max_threads() const { return max_threads_; }
    // Threads of a threadgroup with which the most threads run at once: the smallest number of those up to `limit`.
    unsigned preferred_threads() const { return preferred_threads_; }

    // Within a Use: the function, allowed to have `dynamic_memory` bytes of threadgroup memory. Loaded again in a new context.
    Function function(std::size_t dynamic_memory);

private:
    void load();
    unsigned best_threads() const;
    int attribute(FunctionAttribute which) const;

    Device& device_;
    const std::shared_ptr<const compiler::GpuCode> code_;
    std::mutex mutex_;
    std::string image_; // machine code
    Module module_ = nullptr;
    Function function_ = nullptr;
    std::atomic<std::uint64_t> generation_{0};   // of the context that function_ belongs to
    std::atomic<std::size_t> allowed_memory_{0}; // bytes of dynamic threadgroup memory
    unsigned max_threads_ = 0, preferred_threads_ = 0;
    std::size_t static_memory_ = 0;
};

} // namespace metalki::cuda
