// Order between command buffers of different queues, and between them and the host.
#pragma once

#include <cstdint>
#include <functional>

#include "MTLDefines.hpp"

namespace MTL {

class Device;
class SharedEvent;

using SharedEventNotificationFunction = std::function<void(SharedEvent* pEvent, std::uint64_t value)>;

class METALKI_API Event : public NS::Referencing<Event> {
public:
    Device* device() const;
    NS::String* label() const;
    void setLabel(const NS::String* label);
};

class METALKI_API SharedEventListener : public NS::Referencing<SharedEventListener> {
public:
    static SharedEventListener* alloc();
    SharedEventListener* init();
    static SharedEventListener* sharedListener();
};

class METALKI_API SharedEvent : public NS::Referencing<SharedEvent, Event> {
public:
    // Calls `function` once, on an unspecified thread, when the event reaches `value`; at once when it already has.
    void notifyListener(const SharedEventListener* listener, std::uint64_t value,
                        const SharedEventNotificationFunction& function);
    // Values only grow; a lower one is a violation.
    void setSignaledValue(std::uint64_t signaledValue);
    std::uint64_t signaledValue() const;
    // False when the time ran out first.
    bool waitUntilSignaledValue(std::uint64_t value, std::uint64_t milliseconds);
};

} // namespace MTL
