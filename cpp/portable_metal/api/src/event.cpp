// MTL::Event, SharedEvent and Fence.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "Metal/MetalkiExtensions.hpp"
#include "commands.hpp"
#include "validation.hpp"

namespace metalki::api {
namespace {

class FenceState final : public ObjectState {
public:
    explicit FenceState(DeviceState& device) : device(device) {}
    const char* class_name() const override { return "MTL::Fence"; }
    DeviceState& device;
    Reference<StringState> label;
};

class ListenerState final : public ObjectState {
public:
    const char* class_name() const override { return "MTL::SharedEventListener"; }
};

void notify(EventState& event, const EventState::Listener& listener) {
    try {
        listener.function(public_of<MTL::SharedEvent>(&event), listener.value);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "metalki: a listener of a shared event threw: %s\n", error.what());
    } catch (...) {
        std::fprintf(stderr, "metalki: a listener of a shared event threw\n");
    }
}

EventState& event_of(const MTL::Event* event) {
    return state_of<EventState>(event);
}

} // namespace

void EventState::signal(std::uint64_t new_value) {
    std::vector<std::pair<std::uint64_t, Reference<QueueState>>> resumed;
    std::vector<Listener> called;
    {
        std::lock_guard lock(mutex);
        if (new_value <= value.load(std::memory_order_relaxed))
            return;
        value.store(new_value, std::memory_order_release);
        const auto due =
            std::stable_partition(waiting.begin(), waiting.end(), [&](const auto& w) { return w.first > new_value; });
        std::move(due, waiting.end(), std::back_inserter(resumed));
        waiting.erase(due, waiting.end());
        const auto heard =
            std::stable_partition(listeners.begin(), listeners.end(), [&](const auto& l) { return l.value > new_value; });
        std::move(heard, listeners.end(), std::back_inserter(called));
        listeners.erase(heard, listeners.end());
        std::erase_if(announcements, [&](const auto& a) { return a.first <= new_value; });
        changed.notify_all();
    }
    for (auto& [needed, queue] : resumed)
        resume(*queue);
    if (called.empty())
        return;
    ScopedPool pool;
    for (const Listener& listener : called)
        notify(*this, listener);
}

bool EventState::reached_or_wait(std::uint64_t needed, QueueState& queue) {
    std::lock_guard lock(mutex);
    if (value.load(std::memory_order_relaxed) >= needed)
        return true;
    const bool is_announced = queue.device_queue && !announcements.empty() && announcements.back().first >= needed;
    if (!is_announced)
        waiting.emplace_back(needed, Reference<QueueState>::share(&queue));
    return is_announced;
}

void EventState::announce(std::uint64_t new_value, std::shared_ptr<DevicePoint> point) {
    std::vector<Reference<QueueState>> resumed;
    {
        std::lock_guard lock(mutex);
        if (!announcements.empty() && announcements.back().first >= new_value)
            return;
        announcements.emplace_back(new_value, std::move(point));
        const auto due = std::stable_partition(waiting.begin(), waiting.end(),
                                               [&](const auto& w) { return w.first > new_value || !w.second->device_queue; });
        for (auto it = due; it != waiting.end(); ++it)
            resumed.push_back(std::move(it->second));
        waiting.erase(due, waiting.end());
    }
    for (auto& queue : resumed)
        resume(*queue);
}

std::shared_ptr<DevicePoint> EventState::announced(std::uint64_t needed) {
    std::lock_guard lock(mutex);
    for (const auto& [there, point] : announcements)
        if (there >= needed)
            return point;
    return nullptr;
}

} // namespace metalki::api

namespace MTL {

using namespace metalki::api;

Event* Device::newEvent() {
    return public_of<Event>(new EventState(device_of(this), false));
}
SharedEvent* Device::newSharedEvent() {
    return public_of<SharedEvent>(new EventState(device_of(this), true));
}
Fence* Device::newFence() {
    return public_of<Fence>(new FenceState(device_of(this)));
}

bool Portable::letStreamWait(const Event* event, std::uint64_t value, std::uint64_t stream) {
    EventState& state = event_of(event);
    for (;;) {
        if (state.value.load(std::memory_order_acquire) >= value)
            return true;
        if (const auto point = state.announced(value)) {
            state.device.let_stream_wait(stream, *point);
            return true;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(20)); // a thread is about to hand the signal over
    }
}

MTL::Device* Event::device() const {
    return public_of<Device>(&event_of(this).device);
}
NS::String* Event::label() const {
    return autoreleased<NS::String>(event_of(this).label);
}
void Event::setLabel(const NS::String* label) {
    event_of(this).label = label_of(label);
}

SharedEventListener* SharedEventListener::alloc() {
    return public_of<SharedEventListener>(new ListenerState);
}
SharedEventListener* SharedEventListener::init() {
    return this;
}
SharedEventListener* SharedEventListener::sharedListener() {
    static ListenerState* const listener = [] {
        auto* state = new ListenerState;
        state->make_immortal();
        return state;
    }();
    return public_of<SharedEventListener>(listener);
}

void SharedEvent::notifyListener(const SharedEventListener* listener, std::uint64_t value,
                                 const SharedEventNotificationFunction& function) {
    constexpr const char* call = "MTL::SharedEvent::notifyListener";
    if (!require(listener, call, "listener is null") || !require(static_cast<bool>(function), call, "function is empty"))
        return;
    EventState& event = event_of(this);
    {
        std::lock_guard lock(event.mutex);
        if (event.value.load(std::memory_order_relaxed) < value) {
            event.listeners.push_back({value, function});
            return;
        }
    }
    notify(event, {value, function});
}

void SharedEvent::setSignaledValue(std::uint64_t signaledValue) {
    EventState& event = event_of(this);
    const auto current = event.value.load(std::memory_order_acquire);
    if (require(signaledValue >= current, "MTL::SharedEvent::setSignaledValue", [&] {
            return "value " + std::to_string(signaledValue) + " is below the current value " + std::to_string(current);
        }))
        event.signal(signaledValue);
}

std::uint64_t SharedEvent::signaledValue() const {
    return event_of(this).value.load(std::memory_order_acquire);
}

bool SharedEvent::waitUntilSignaledValue(std::uint64_t value, std::uint64_t milliseconds) {
    EventState& event = event_of(this);
    const auto reached = [&] { return event.value.load(std::memory_order_relaxed) >= value; };
    // More than a year counts as for ever: larger times overflow the clock.
    constexpr std::uint64_t year = 31'536'000'000;
    std::unique_lock lock(event.mutex);
    return event.changed.wait_for(lock, std::chrono::milliseconds(std::min(milliseconds, year)), reached);
}

MTL::Device* Fence::device() const {
    return public_of<Device>(&state_of<FenceState>(this).device);
}
NS::String* Fence::label() const {
    return autoreleased<NS::String>(state_of<FenceState>(this).label);
}
void Fence::setLabel(const NS::String* label) {
    state_of<FenceState>(this).label = label_of(label);
}

} // namespace MTL
