// One NVIDIA GPU: facts, its primary context (which other CUDA libraries of the process share), and how it comes back after a
// fault.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/driver.hpp"

namespace metalki::cuda {

struct DeviceFacts {
    std::string name;
    DeviceNumber number = 0;   // as the driver counts
    unsigned architecture = 0; // compute capability: major * 10 + minor
    unsigned multiprocessors = 0, max_threads_per_threadgroup = 0;
    std::size_t max_threadgroup_memory = 0, memory = 0; // bytes
    bool writes_from_streams = false;
    std::uint64_t pci = 0; // bus << 8 | device
};

// The device cannot be used.
class Lost : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// Lives as long as the process.
class Device {
public:
    // Throws Error.
    explicit Device(DeviceNumber number);
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    const DeviceFacts& facts() const { return facts_; }

    // Changes when the context was made anew: what belonged to the old one is gone.
    std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
    // To be told of every failure: after one that ends the context, the next Use makes it anew. Gives the message.
    std::string note(const Error& error);
    // The process ends: no thread may be in the driver when that ends as well. Uses throw from now on. False: one is, still.
    [[nodiscard]] bool close();
    // A kernel that never ends holds the device: it is of no use until the process ends. Uses throw from now on.
    void give_up(const std::string& reason);

    // Functions to call when the context has been made anew, inside it; they live as long as the process.
    void on_renewal(std::function<void()> function);

private:
    friend class Use;
    void enter();
    void leave();
    void renew();

    DeviceFacts facts_;
    Context context_ = nullptr;
    std::shared_mutex mutex_; // shared: the context is in use
    std::atomic<std::uint64_t> generation_{0};
    std::atomic<bool> broken_{false}, closed_{false};
    bool is_shut_ = false; // closed, and nobody is in the driver
    std::mutex state_mutex_;
    std::string lost_; // why the device cannot be used any more
    std::vector<std::function<void()>> renewals_;
};

// The device's context is the calling thread's as long as this lives; it is made anew first when a fault ended it. Within
// another Use of the same device it does nothing.
class Use {
public:
    // Throws Error or Lost.
    explicit Use(Device& device);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

private:
    Device* const outer_;
    Device* device_ = nullptr; // null: it does nothing
};

// All GPUs that the driver shows and that can be used, in its order. Made once; empty without a driver.
const std::vector<Device*>& devices();

} // namespace metalki::cuda
