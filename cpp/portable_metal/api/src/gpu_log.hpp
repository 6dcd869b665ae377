// What the kernels of one command buffer print on a GPU.
#pragma once

#include "cpu/message_log.hpp"
#include "cuda/stream.hpp"

namespace metalki::api {

class GpuLog {
public:
    // As large as `log`. On the stream, so that kernels behind it find an empty log. Throws cuda::Error or std::runtime_error.
    GpuLog(cuda::Gpu& gpu, cuda::Stream& stream, const cpu::MessageLog& log);
    ~GpuLog();
    GpuLog(const GpuLog&) = delete;
    GpuLog& operator=(const GpuLog&) = delete;

    cuda::Address address() const { return device_; }
    // Brings it to the host.
    void fetch(cuda::Stream& stream);
    // After that: formats the messages into `log`.
    void deliver(cpu::MessageLog& log) const;

private:
    cuda::Gpu& gpu_;
    std::size_t bytes_;
    std::uint64_t generation_;
    cuda::Address device_ = 0;
    std::byte* host_ = nullptr;
};

} // namespace metalki::api
