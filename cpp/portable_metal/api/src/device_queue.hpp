// What runs the commands of a queue on a device that goes on by itself once it has them. Queues of the CPU have none: there
// the scheduler's threads do the work.
#pragma once

#include <memory>
#include <string>

#include "cuda/progress.hpp"

namespace metalki::api {

struct Command;
class CommandBufferState;

using cuda::Progress;

// A place in a queue's work on its device.
class DevicePoint {
public:
    virtual ~DevicePoint() = default;
    // Cheap. False tells nothing of failures.
    virtual bool is_passed() const = 0;
    // After `failed`, `failure` says why.
    virtual Progress look(std::string& failure) const = 0;
};

// What the device needs for one command buffer until it is completed.
struct DeviceRun {
    virtual ~DeviceRun() = default;
};

// Called by one thread at a time. Everything may throw std::exception.
class DeviceQueue {
public:
    virtual ~DeviceQueue() = default;

    // Around whatever one thread hands over without a break.
    virtual void enter() = 0;
    virtual void leave() noexcept = 0;

    // Sets the buffer's device_run.
    virtual void begin(CommandBufferState& buffer) = 0;
    // A dispatch, copy or fill.
    virtual void run(CommandBufferState& buffer, const Command& command) = 0;
    virtual std::shared_ptr<DevicePoint> mark() = 0;
    // What is handed over later waits on the device.
    virtual void wait_for(const DevicePoint& point) = 0;
    virtual std::shared_ptr<DevicePoint> end(CommandBufferState& buffer) = 0;

    // The device is done with the buffer: sets its times and reads its messages. From any thread, not within enter().
    virtual void completed(CommandBufferState& buffer) = 0;
    // What runs will not end: the device is of no use any more. From any thread.
    virtual void give_up(const std::string& reason) = 0;
};

// enter() and leave().
class HandingOver {
public:
    explicit HandingOver(DeviceQueue& queue) : queue_(queue) { queue_.enter(); }
    ~HandingOver() { queue_.leave(); }
    HandingOver(const HandingOver&) = delete;
    HandingOver& operator=(const HandingOver&) = delete;

private:
    DeviceQueue& queue_;
};

} // namespace metalki::api
