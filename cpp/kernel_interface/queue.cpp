// Queues and events: thin handles over the back end's.
#include "metalki/queue.hpp"

#include <utility>
#include <vector>

#include "kernel_interface/backend.hpp"

namespace metalki {

Queue::Queue(const Device& device, std::string_view label) : impl_(device.impl()->new_queue(label)) {}

Device Queue::device() const {
    return Device(impl_->device);
}
const std::string& Queue::label() const {
    return impl_->label;
}
void Queue::synchronize() const {
    impl_->synchronize(std::nullopt);
}
bool Queue::synchronize_for(std::chrono::nanoseconds timeout) const {
    return impl_->synchronize(std::chrono::steady_clock::now() + timeout);
}
void Queue::flush() const {
    impl_->flush();
}
Event Queue::record_event() const {
    return impl_->record_event();
}

void Queue::wait_event(const Event& event) const {
    if (event.impl()->device != impl_->device)
        throw ArgumentError("wait_event: the event was recorded on device " + event.impl()->device->info.name +
                            ", the queue is on " + impl_->device->info.name);
    impl_->wait_event(event);
}

void Queue::on_complete(std::function<void()> function) const {
    if (!function)
        throw ArgumentError("on_complete: the function is empty");
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

} // namespace metalki
