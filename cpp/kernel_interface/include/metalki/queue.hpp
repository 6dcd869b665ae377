// Queues: work given to one runs in order.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "metalki/device.hpp"
#include "metalki/event.hpp"

namespace metalki {

namespace detail {
class QueueImpl;
}

/// Which queue's work starts first where several wait for the device. Devices without priorities ignore it.
enum class Priority : std::int8_t { low = -1, normal = 0, high = 1 };

struct QueueOptions {
    std::string label; ///< appears in messages and profiles
    Priority priority = Priority::normal;
    std::chrono::nanoseconds time_limit{0}; ///< see Queue::set_time_limit
};

/// An ordered stream of launches and copies. Cheap to copy; safe to share between threads.
class METALKI_API Queue {
public:
    explicit Queue(const Device& device, std::string_view label = {});
    /// Throws ArgumentError as set_time_limit does.
    Queue(const Device& device, const QueueOptions& options);
    explicit Queue(std::shared_ptr<detail::QueueImpl> impl) : impl_(std::move(impl)) {}

    Device device() const;
    const std::string& label() const;

    Priority priority() const;
    /// For what is given to the queue from now on.
    void set_priority(Priority priority) const;

    std::chrono::nanoseconds time_limit() const;
    /// A launch that runs for longer is stopped, and the next wait throws DeviceError; 0 (the default): no limit. Throws
    /// ArgumentError for a negative limit, and on devices that cannot stop kernels (Apple's Metal, which has limits of its
    /// own).
    void set_time_limit(std::chrono::nanoseconds limit) const;
    /// Stops the running kernel and drops what waits in the queue; the next wait throws DeviceError. Does not wait. Where the
    /// device cannot stop kernels, it does nothing.
    void cancel() const;

    /// Waits for everything given to the queue so far. Throws DeviceError, once, when the device reported a fault.
    void synchronize() const;
    /// The same with a time limit: false when work is still running.
    bool synchronize_for(std::chrono::nanoseconds timeout) const;
    /// Whether synchronize() has nothing to wait for and nothing to report.
    bool is_idle() const noexcept;
    /// Hands what was launched so far to the device without waiting.
    void flush() const;

    /// Marks what was given to this queue so far.
    Event record_event() const;
    /// What is given to this queue from now on runs after the event; the device waits, not the caller.
    void wait_event(const Event& event) const;

    /// What is given to this queue from now on runs after what a CUDA stream (a CUstream as a number) has been given so far.
    /// Throws ArgumentError on devices without such streams.
    void wait_stream(std::uint64_t stream) const;
    /// What the CUDA stream is given from now on runs after what was given to this queue so far.
    void let_stream_wait(std::uint64_t stream) const;

    /// Calls `function` when everything given so far is complete, whether it succeeded or not, on a thread of the device;
    /// synchronize() returns after it. It must not wait for the device. What it throws becomes a DeviceError.
    void on_complete(std::function<void()> function) const;

    const std::shared_ptr<detail::QueueImpl>& impl() const { return impl_; }
    friend bool operator==(const Queue& a, const Queue& b) { return a.impl_ == b.impl_; }

private:
    std::shared_ptr<detail::QueueImpl> impl_;
};

/// The calling thread's queue of `device`. The reference stays valid until the thread ends.
METALKI_API const Queue& global_queue(const Device& device);

} // namespace metalki
