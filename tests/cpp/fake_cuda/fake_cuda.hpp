// A CUDA driver of its own for tests: memory is the host's, streams are threads, and kernels are functions of the test. Loaded
// in place of libcuda.so.1; the test talks to it through these.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace fake_cuda {

struct Launch {
    std::string entry;
    unsigned grid[3], block[3], shared_bytes;
    std::vector<std::byte> parameters;
};

// Runs for each launch, on the stream's thread. What it returns other than 0 ends the context, as a fault would.
using Kernel = std::function<int(const Launch&)>;

struct Control {
    virtual void on_launch(Kernel kernel) = 0;
    // The `nth` call of `function` from now on (1: the next) gives `code`.
    virtual void fail(const std::string& function, int nth, int code) = 0;
    virtual void forget_failures() = 0;
    // Calls since the last one, in order, with what matters of their arguments: "cuMemcpyAsync 16".
    virtual std::vector<std::string> take_calls() = 0;
    // Whose memory the driver says that all of it is.
    virtual void memory_is_of(int device) = 0;
    virtual std::size_t device_bytes() const = 0; // allocated
    virtual std::size_t registered_ranges() const = 0;
    virtual ~Control() = default;
};

// Found with dlsym as "fake_cuda_control".
using GetControl = Control* (*)();

} // namespace fake_cuda
