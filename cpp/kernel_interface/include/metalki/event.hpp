// Order between queues, kept on the device.
#pragma once

#include <cstdint>
#include <memory>

#include "metalki/export.hpp"

namespace metalki {

namespace detail {
class EventImpl;
}

/// A point in a queue's work, made by Queue::record_event(). Cheap to copy.
class METALKI_API Event {
public:
    Event(std::shared_ptr<detail::EventImpl> impl, std::uint64_t value) : impl_(std::move(impl)), value_(value) {}

    /// Whether the work before the event is done.
    bool is_complete() const;

    const std::shared_ptr<detail::EventImpl>& impl() const { return impl_; }
    std::uint64_t value() const { return value_; }

private:
    std::shared_ptr<detail::EventImpl> impl_;
    std::uint64_t value_;
};

} // namespace metalki
