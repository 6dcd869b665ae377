// Queues and events: thin handles over the back end's.
#include "metalki/queue.hpp"

#include <utility>
#include <vector>

#include "kernel_interface/backend.hpp"
#include "kernel_interface/messages.hpp"
#include "kernel_interface/process.hpp"
#include "metalki/task.hpp"

namespace metalki {

Queue::Queue(const Device& device, std::string_view label) {
    detail::check_device();
    impl_ = device.impl()->new_queue(label);
}

Queue::Queue(const Device& device, const QueueOptions& options) : Queue(device, options.label) {
    set_priority(options.priority);
    set_time_limit(options.time_limit);
}

Device Queue::device() const {
    return Device(impl_->device);
}
const std::string& Queue::label() const {
    return impl_->label;
}
Priority Queue::priority() const {
    return impl_->priority.load();
}
void Queue::set_priority(Priority priority) const {
    impl_->set_priority(priority);
    impl_->priority.store(priority);
}
std::chrono::nanoseconds Queue::time_limit() const {
    return std::chrono::nanoseconds(impl_->time_limit.load());
}

void Queue::set_time_limit(std::chrono::nanoseconds limit) const {
    if (limit.count() < 0)
        throw ArgumentError("set_time_limit: a limit may not be negative, " + std::to_string(limit.count()) +
                            " nanoseconds were given; 0 means none");
    if (limit.count() != impl_->time_limit.load() && !impl_->set_time_limit(limit))
        throw ArgumentError("set_time_limit: device " + impl_->device->info.title() + " cannot stop kernels");
    impl_->time_limit.store(limit.count());
}

void Queue::cancel() const {
    detail::use_device();
    impl_->cancel();
}
void Queue::synchronize() const {
    detail::use_device();
    if (impl_->idle())
        return detail::deliver_messages(impl_.get());
    detail::wait_and_deliver(impl_.get(), [&] { return impl_->synchronize(std::nullopt); });
}
bool Queue::synchronize_for(std::chrono::nanoseconds timeout) const {
    detail::use_device();
    if (impl_->idle()) {
        detail::deliver_messages(impl_.get());
        return true;
    }
    return detail::wait_and_deliver(impl_.get(), [&] { return impl_->synchronize(timeout); });
}
bool Queue::is_idle() const noexcept {
    return impl_->idle();
}
void Queue::flush() const {
    detail::use_device();
    impl_->flush();
}
Event Queue::record_event() const {
    detail::use_device();
    return impl_->record_event();
}

void Queue::wait_event(const Event& event) const {
    detail::use_device();
    if (event.impl()->device != impl_->device)
        throw ArgumentError("wait_event: the event was recorded on device " + event.impl()->device->info.title() +
                            ", the queue is on " + impl_->device->info.title());
    impl_->wait_event(event);
}

void Queue::wait_stream(std::uint64_t stream) const {
    detail::use_device();
    if (!impl_->wait_stream(stream))
        throw ArgumentError("wait_stream: device " + impl_->device->info.id + " has no CUDA streams");
}

void Queue::let_stream_wait(std::uint64_t stream) const {
    detail::use_device();
    if (!impl_->let_stream_wait(stream))
        throw ArgumentError("let_stream_wait: device " + impl_->device->info.id + " has no CUDA streams");
}

void Queue::on_complete(std::function<void()> function) const {
    if (!function)
        throw ArgumentError("on_complete: the function is empty");
    detail::use_device();
    impl_->on_complete(std::move(function));
}

bool Event::is_complete() const {
    return impl_->reached(value_);
}

const Queue& global_queue(const Device& device) {
    // Pointers, so that references stay valid when the list grows.
    thread_local std::vector<std::unique_ptr<Queue>> queues;
    for (const auto& queue : queues)
        if (queue->impl()->device == device.impl())
            return *queue;
    queues.push_back(std::make_unique<Queue>(device, "global"));
    return *queues.back();
}

namespace detail {

std::vector<Event> record_all() {
    std::vector<Event> events;
    for (const Device& device : devices())
        events.push_back(global_queue(device).record_event());
    return events;
}

void wait_for_all(const std::vector<Event>& events) {
    for (const Event& event : events)
        global_queue(Device(event.impl()->device)).wait_event(event);
}

} // namespace detail
} // namespace metalki
