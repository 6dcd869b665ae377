// A list of commands that is committed as one and then runs on the device.
#pragma once

#include <cstdint>
#include <functional>

#include "MTLDefines.hpp"

namespace MTL {

class BlitCommandEncoder;
class CommandBuffer;
class CommandQueue;
class ComputeCommandEncoder;
class Device;
class Event;
class LogState;

enum CommandBufferStatus : NS::UInteger {
    CommandBufferStatusNotEnqueued = 0,
    CommandBufferStatusEnqueued = 1,
    CommandBufferStatusCommitted = 2,
    CommandBufferStatusScheduled = 3,
    CommandBufferStatusCompleted = 4,
    CommandBufferStatusError = 5,
};

enum CommandBufferError : NS::UInteger {
    CommandBufferErrorNone = 0,
    CommandBufferErrorInternal = 1,
    CommandBufferErrorTimeout = 2,
    CommandBufferErrorPageFault = 3,
    CommandBufferErrorBlacklisted = 4,
    CommandBufferErrorAccessRevoked = 4,
    CommandBufferErrorNotPermitted = 7,
    CommandBufferErrorOutOfMemory = 8,
    CommandBufferErrorInvalidResource = 9,
    CommandBufferErrorMemoryless = 10,
    CommandBufferErrorDeviceRemoved = 11,
    CommandBufferErrorStackOverflow = 12,
};

enum DispatchType : NS::UInteger {
    DispatchTypeSerial = 0,
    DispatchTypeConcurrent = 1,
};

using CommandBufferErrorOption = NS::UInteger;
enum : CommandBufferErrorOption {
    CommandBufferErrorOptionNone = 0,
    CommandBufferErrorOptionEncoderExecutionStatus = 1,
};

using HandlerFunction = std::function<void(CommandBuffer*)>;

class METALKI_API CommandBufferDescriptor : public NS::Copying<CommandBufferDescriptor> {
public:
    static CommandBufferDescriptor* alloc();
    CommandBufferDescriptor* init();
    CommandBufferErrorOption errorOptions() const;
    // Null: that of the queue.
    LogState* logState() const;
    bool retainedReferences() const;
    void setErrorOptions(CommandBufferErrorOption errorOptions);
    void setLogState(const LogState* logState);
    void setRetainedReferences(bool retainedReferences);
};

class METALKI_API CommandBuffer : public NS::Referencing<CommandBuffer> {
public:
    // Seconds on a clock that only runs forward; 0 until the commands have started or ended.
    CFTimeInterval GPUEndTime() const;
    CFTimeInterval GPUStartTime() const;
    CFTimeInterval kernelEndTime() const;
    CFTimeInterval kernelStartTime() const;

    // Handlers run on a thread of the library or on one that waits for the buffer, in order of completion per queue.
    void addCompletedHandler(const HandlerFunction& function);
    void addScheduledHandler(const HandlerFunction& function);

    BlitCommandEncoder* blitCommandEncoder();
    ComputeCommandEncoder* computeCommandEncoder();
    ComputeCommandEncoder* computeCommandEncoder(DispatchType dispatchType);

    CommandQueue* commandQueue() const;
    Device* device() const;

    // Takes a place in the queue before committing.
    void enqueue();
    void commit();

    void encodeSignalEvent(const Event* event, std::uint64_t value);
    // Commands that follow wait on the device; the host goes on.
    void encodeWait(const Event* event, std::uint64_t value);

    NS::Error* error() const;
    CommandBufferErrorOption errorOptions() const;
    NS::String* label() const;
    void setLabel(const NS::String* label);
    void popDebugGroup();
    void pushDebugGroup(const NS::String* string);
    bool retainedReferences() const;
    CommandBufferStatus status() const;

    void waitUntilCompleted();
    void waitUntilScheduled();
};

} // namespace MTL
