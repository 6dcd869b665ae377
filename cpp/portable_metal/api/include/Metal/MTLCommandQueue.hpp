// Command buffers of one queue run in the order in which they were enqueued.
#pragma once

#include "MTLDefines.hpp"

namespace MTL {

class CommandBuffer;
class CommandBufferDescriptor;
class Device;
class LogState;

class METALKI_API CommandQueue : public NS::Referencing<CommandQueue> {
public:
    CommandBuffer* commandBuffer();
    CommandBuffer* commandBuffer(const CommandBufferDescriptor* descriptor);
    CommandBuffer* commandBufferWithUnretainedReferences();
    Device* device() const;
    void insertDebugCaptureBoundary();
    NS::String* label() const;
    void setLabel(const NS::String* label);
};

class METALKI_API CommandQueueDescriptor : public NS::Copying<CommandQueueDescriptor> {
public:
    static CommandQueueDescriptor* alloc();
    CommandQueueDescriptor* init();
    LogState* logState() const;
    NS::UInteger maxCommandBufferCount() const;
    void setLogState(const LogState* logState);
    void setMaxCommandBufferCount(NS::UInteger maxCommandBufferCount);
};

} // namespace MTL
