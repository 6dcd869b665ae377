// Queues: work given to one runs in order.
#pragma once

#include <chrono>
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

/// An ordered stream of launches and copies. Cheap to copy; safe to share between threads.
class METALKI_API Queue {
public:
    explicit Queue(const Device& device, std::string_view label = {});
    explicit Queue(std::shared_ptr<detail::QueueImpl> impl) : impl_(std::move(impl)) {}

    Device device() const;
    const std::string& label() const;

    /// Waits for everything given to the queue so far. Throws DeviceError, once, when the device reported a fault.
    void synchronize() const;
    /// The same with a time limit: false when work is still running.
    bool synchronize_for(std::chrono::nanoseconds timeout) const;
    /// Hands what was launched so far to the device without waiting.
    void flush() const;

    /// Marks what was given to this queue so far.
    Event record_event() const;
    /// What is given to this queue from now on runs after the event; the device waits, not the caller.
    void wait_event(const Event& event) const;

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
