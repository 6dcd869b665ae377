// MTL::CommandQueue and MTL::CommandBuffer.
#include <algorithm>
#include <cstring>
#include <new>

#include "Metal/MetalkiExtensions.hpp"
#include "commands.hpp"
#include "validation.hpp"

namespace metalki::api {
namespace {

constexpr std::size_t block_size = 16 * 1024;
constexpr std::size_t most_spare_blocks = 8; // those of 128 launches with 60 numbers each

class QueueDescriptorState final : public ObjectState {
public:
    const char* class_name() const override { return "MTL::CommandQueueDescriptor"; }
    ObjectState* copy() const override {
        auto* other = new QueueDescriptorState;
        other->limit = limit;
        other->log_state = log_state;
        return other;
    }
    NS::UInteger limit = 64;
    Reference<LogStateState> log_state;
};

class BufferDescriptorState final : public ObjectState {
public:
    const char* class_name() const override { return "MTL::CommandBufferDescriptor"; }
    ObjectState* copy() const override {
        auto* other = new BufferDescriptorState;
        other->retains = retains;
        other->options = options;
        other->log_state = log_state;
        return other;
    }
    bool retains = true;
    Reference<LogStateState> log_state;
    MTL::CommandBufferErrorOption options = MTL::CommandBufferErrorOptionNone;
};

std::atomic<std::uint64_t> next_serial{1};

CommandBufferState& buffer_of(const MTL::CommandBuffer* buffer) {
    return state_of<CommandBufferState>(buffer);
}
QueueState& queue_of(const MTL::CommandQueue* queue) {
    return state_of<QueueState>(queue);
}

bool can_encode(const CommandBufferState& buffer, const char* call) {
    return require(!buffer.committed, call, "the command buffer has been committed already") &&
           require(!buffer.open_encoder, call, "another encoder of the command buffer has not ended yet");
}

bool can_commit(const CommandBufferState& buffer) {
    constexpr const char* call = "MTL::CommandBuffer::commit";
    return require(!buffer.committed, call, "the command buffer has been committed already") &&
           require(!buffer.open_encoder, call, "an encoder of the command buffer has not ended yet") &&
           require(!buffer.abandoned_encoder, call, "an encoder of the command buffer was released without endEncoding");
}

MTL::CommandBuffer* new_buffer(const MTL::CommandQueue* queue, bool retains) {
    return autoreleased<MTL::CommandBuffer>(new CommandBufferState(queue_of(queue), retains));
}

Reference<LogStateState> shared_log_state(const MTL::LogState* state) {
    return state ? Reference<LogStateState>::share(&state_of<LogStateState>(state)) : Reference<LogStateState>();
}

template <class Encoder>
Encoder* new_encoder(CommandBufferState& buffer, bool compute, MTL::DispatchType type, const char* call) {
    return can_encode(buffer, call) ? autoreleased<Encoder>(new EncoderState(buffer, compute, type)) : nullptr;
}

void encode_event(CommandBufferState& buffer, Command::Kind kind, const MTL::Event* event, std::uint64_t value) {
    Command command{kind};
    command.event = &state_of<EventState>(event);
    command.size = value;
    // Events must outlive the wait even when the buffer retains nothing else.
    command.event->retain();
    buffer.storage->retained.push_back(command.event);
    buffer.storage->commands.push_back(command);
}

} // namespace

void CommandStorage::next_block() {
    if (blocks_used == blocks.size()) {
        blocks.push_back(nullptr);
        blocks.back() = device.allocate(block_size, MTL::StorageModeShared);
        if (!blocks.back()) {
            blocks.pop_back();
            throw std::bad_alloc();
        }
    }
    cursor = blocks[blocks_used++];
    block_end = cursor + block_size;
}

void CommandStorage::keep_blocks(std::size_t count) {
    for (; blocks.size() > count; blocks.pop_back())
        device.deallocate(blocks.back(), block_size, MTL::StorageModeShared);
}

void CommandStorage::clear() {
    commands.clear();
    arguments.clear();
    lengths.clear();
    threadgroup_arguments.clear();
    for (const ObjectState* object : retained)
        object->release();
    retained.clear();
    blocks_used = 0;
    cursor = block_end = nullptr;
    keep_blocks(most_spare_blocks);
}

CommandBufferState::CommandBufferState(QueueState& owner, bool retains)
    : queue(Reference<QueueState>::share(&owner)), serial(next_serial.fetch_add(1, std::memory_order_relaxed)),
      retains(retains) {
    use_log_state(owner.log_state);
    std::lock_guard lock(owner.mutex);
    if (owner.spare.empty()) {
        storage = std::make_unique<CommandStorage>(owner.device);
    } else {
        storage = std::move(owner.spare.back());
        owner.spare.pop_back();
    }
}

CommandBufferState::~CommandBufferState() {
    if (storage)
        storage->clear();
    if (error)
        error->release();
    if (committed || status.load(std::memory_order_relaxed) != MTL::CommandBufferStatusEnqueued)
        return;
    // Enqueued but never committed: make way for the buffers behind it.
    {
        std::lock_guard lock(queue->mutex);
        queue->buffers.remove(this);
    }
    wake_if_runnable(*queue);
}

void CommandBufferState::keep(const ObjectState& object) {
    object.retain();
    storage->retained.push_back(&object);
}

void CommandBufferState::use_log_state(const Reference<LogStateState>& state) {
    if (!state)
        return;
    log_state = state;
    log.configure(state->capacity, static_cast<compiler::LogTarget>(std::max<NS::Integer>(state->level, 1)));
}

QueueState::QueueState(DeviceState& device) : device(device) {
    device_queue = device.make_queue(*this);
}

QueueState::~QueueState() = default;

} // namespace metalki::api

namespace MTL {

using namespace metalki::api;

CommandQueue* Device::newCommandQueue() {
    return newCommandQueue(64);
}
CommandQueue* Device::newCommandQueue(NS::UInteger maxCommandBufferCount) {
    if (!require(maxCommandBufferCount > 0, "MTL::Device::newCommandQueue", "maxCommandBufferCount is 0"))
        return nullptr;
    auto* state = new QueueState(device_of(this));
    state->limit = maxCommandBufferCount;
    return public_of<CommandQueue>(state);
}
CommandQueue* Device::newCommandQueue(const CommandQueueDescriptor* descriptor) {
    if (!require(descriptor, "MTL::Device::newCommandQueue", "descriptor is null"))
        return nullptr;
    CommandQueue* queue = newCommandQueue(descriptor->maxCommandBufferCount());
    if (queue)
        queue_of(queue).log_state = state_of<QueueDescriptorState>(descriptor).log_state;
    return queue;
}

CommandQueueDescriptor* CommandQueueDescriptor::alloc() {
    return public_of<CommandQueueDescriptor>(new QueueDescriptorState);
}
CommandQueueDescriptor* CommandQueueDescriptor::init() {
    return this;
}
NS::UInteger CommandQueueDescriptor::maxCommandBufferCount() const {
    return state_of<QueueDescriptorState>(this).limit;
}
void CommandQueueDescriptor::setMaxCommandBufferCount(NS::UInteger count) {
    state_of<QueueDescriptorState>(this).limit = count;
}

LogState* CommandQueueDescriptor::logState() const {
    return autoreleased<LogState>(state_of<QueueDescriptorState>(this).log_state);
}
void CommandQueueDescriptor::setLogState(const LogState* logState) {
    state_of<QueueDescriptorState>(this).log_state = shared_log_state(logState);
}

CommandBuffer* CommandQueue::commandBuffer() {
    return new_buffer(this, true);
}
CommandBuffer* CommandQueue::commandBuffer(const CommandBufferDescriptor* descriptor) {
    if (!require(descriptor, "MTL::CommandQueue::commandBuffer", "descriptor is null"))
        return nullptr;
    CommandBuffer* buffer = new_buffer(this, descriptor->retainedReferences());
    buffer_of(buffer).use_log_state(state_of<BufferDescriptorState>(descriptor).log_state);
    return buffer;
}
CommandBuffer* CommandQueue::commandBufferWithUnretainedReferences() {
    return new_buffer(this, false);
}
Device* CommandQueue::device() const {
    return public_of<Device>(&queue_of(this).device);
}
void CommandQueue::insertDebugCaptureBoundary() {}
NS::String* CommandQueue::label() const {
    return autoreleased<NS::String>(queue_of(this).label);
}
void CommandQueue::setLabel(const NS::String* label) {
    queue_of(this).label = label_of(label);
}

CommandBufferDescriptor* CommandBufferDescriptor::alloc() {
    return public_of<CommandBufferDescriptor>(new BufferDescriptorState);
}
CommandBufferDescriptor* CommandBufferDescriptor::init() {
    return this;
}
CommandBufferErrorOption CommandBufferDescriptor::errorOptions() const {
    return state_of<BufferDescriptorState>(this).options;
}
LogState* CommandBufferDescriptor::logState() const {
    return autoreleased<LogState>(state_of<BufferDescriptorState>(this).log_state);
}
void CommandBufferDescriptor::setLogState(const LogState* logState) {
    state_of<BufferDescriptorState>(this).log_state = shared_log_state(logState);
}
bool CommandBufferDescriptor::retainedReferences() const {
    return state_of<BufferDescriptorState>(this).retains;
}
void CommandBufferDescriptor::setErrorOptions(CommandBufferErrorOption options) {
    state_of<BufferDescriptorState>(this).options = options;
}
void CommandBufferDescriptor::setRetainedReferences(bool retains) {
    state_of<BufferDescriptorState>(this).retains = retains;
}

CFTimeInterval CommandBuffer::GPUEndTime() const {
    return status() >= CommandBufferStatusCompleted ? buffer_of(this).end : 0;
}
CFTimeInterval CommandBuffer::GPUStartTime() const {
    return status() >= CommandBufferStatusScheduled ? buffer_of(this).start : 0;
}
CFTimeInterval CommandBuffer::kernelEndTime() const {
    return GPUStartTime();
}
CFTimeInterval CommandBuffer::kernelStartTime() const {
    return GPUStartTime();
}

void CommandBuffer::addCompletedHandler(const HandlerFunction& function) {
    constexpr const char* call = "MTL::CommandBuffer::addCompletedHandler";
    auto& state = buffer_of(this);
    if (require(!state.committed, call, "the command buffer has been committed already") &&
        require(static_cast<bool>(function), call, "the handler is empty"))
        state.completed_handlers.add(function);
}
void CommandBuffer::addScheduledHandler(const HandlerFunction& function) {
    constexpr const char* call = "MTL::CommandBuffer::addScheduledHandler";
    auto& state = buffer_of(this);
    if (require(!state.committed, call, "the command buffer has been committed already") &&
        require(static_cast<bool>(function), call, "the handler is empty"))
        state.scheduled_handlers.add(function);
}

BlitCommandEncoder* CommandBuffer::blitCommandEncoder() {
    return new_encoder<BlitCommandEncoder>(buffer_of(this), false, DispatchTypeSerial,
                                           "MTL::CommandBuffer::blitCommandEncoder");
}
ComputeCommandEncoder* CommandBuffer::computeCommandEncoder() {
    return computeCommandEncoder(DispatchTypeSerial);
}
ComputeCommandEncoder* CommandBuffer::computeCommandEncoder(DispatchType dispatchType) {
    return new_encoder<ComputeCommandEncoder>(buffer_of(this), true, dispatchType, "MTL::CommandBuffer::computeCommandEncoder");
}

CommandQueue* CommandBuffer::commandQueue() const {
    return public_of<CommandQueue>(buffer_of(this).queue.get());
}
Device* CommandBuffer::device() const {
    return public_of<Device>(&buffer_of(this).queue->device);
}

void CommandBuffer::enqueue() {
    constexpr const char* call = "MTL::CommandBuffer::enqueue";
    auto& state = buffer_of(this);
    if (!require(!state.committed, call, "the command buffer has been committed already") ||
        !require(status() == CommandBufferStatusNotEnqueued, call, "the command buffer has been enqueued already"))
        return;
    std::lock_guard lock(state.queue->mutex);
    state.queue->buffers.push_back(&state);
    state.status.store(CommandBufferStatusEnqueued, std::memory_order_release);
}

void CommandBuffer::commit() {
    if (can_commit(buffer_of(this)))
        metalki::api::commit(buffer_of(this));
}

void Portable::setPriority(CommandQueue* queue, Priority priority) {
    queue_of(queue).priority.store(static_cast<int>(priority), std::memory_order_relaxed);
}

void Portable::setTimeLimit(CommandQueue* queue, std::chrono::nanoseconds limit) {
    queue_of(queue).time_limit.store(limit.count(), std::memory_order_relaxed);
}

void Portable::cancel(CommandQueue* queue) {
    metalki::api::cancel(queue_of(queue));
}

bool Portable::commitAndRun(CommandBuffer* commandBuffer, std::chrono::nanoseconds limit) {
    return can_commit(buffer_of(commandBuffer)) && commit_and_run(buffer_of(commandBuffer), limit);
}

void CommandBuffer::encodeSignalEvent(const Event* event, std::uint64_t value) {
    constexpr const char* call = "MTL::CommandBuffer::encodeSignalEvent";
    if (!can_encode(buffer_of(this), call) || !require(event, call, "event is null"))
        return;
    const auto current = state_of<EventState>(event).value.load(std::memory_order_acquire);
    if (require(value > current, call, [&] {
            return "value " + std::to_string(value) + " is not above the current value " + std::to_string(current) +
                   " of the event";
        }))
        encode_event(buffer_of(this), Command::Kind::signal, event, value);
}
void CommandBuffer::encodeWait(const Event* event, std::uint64_t value) {
    constexpr const char* call = "MTL::CommandBuffer::encodeWait";
    if (can_encode(buffer_of(this), call) && require(event, call, "event is null"))
        encode_event(buffer_of(this), Command::Kind::wait, event, value);
}

bool Portable::encodeWaitForStream(CommandBuffer* commandBuffer, std::uint64_t stream) {
    CommandBufferState& buffer = buffer_of(commandBuffer);
    if (!can_encode(buffer, "MTL::Portable::encodeWaitForStream"))
        return false;
    DeviceState& device = buffer.queue->device;
    auto point = device.mark_stream(stream);
    if (!point)
        return false;
    const auto event = Reference<EventState>::adopt(new EventState(device, false));
    event->is_foreign = true;
    event->announce(1, std::move(point));
    encode_event(buffer, Command::Kind::wait, public_of<Event>(event.get()), 1);
    return true;
}

NS::Error* CommandBuffer::error() const {
    return status() == CommandBufferStatusError ? buffer_of(this).error : nullptr;
}
CommandBufferErrorOption CommandBuffer::errorOptions() const {
    return CommandBufferErrorOptionNone;
}
NS::String* CommandBuffer::label() const {
    return autoreleased<NS::String>(buffer_of(this).label);
}
void CommandBuffer::setLabel(const NS::String* label) {
    buffer_of(this).label = label_of(label);
}
void CommandBuffer::pushDebugGroup(const NS::String* string) {
    if (require(string, "MTL::CommandBuffer::pushDebugGroup", "string is null"))
        ++buffer_of(this).debug_groups;
}
void CommandBuffer::popDebugGroup() {
    if (require(buffer_of(this).debug_groups > 0, "MTL::CommandBuffer::popDebugGroup", "no debug group is open"))
        --buffer_of(this).debug_groups;
}
bool CommandBuffer::retainedReferences() const {
    return buffer_of(this).retains;
}
CommandBufferStatus CommandBuffer::status() const {
    return static_cast<CommandBufferStatus>(buffer_of(this).status.load(std::memory_order_acquire));
}

void CommandBuffer::waitUntilCompleted() {
    if (require(buffer_of(this).committed, "MTL::CommandBuffer::waitUntilCompleted",
                "the command buffer has not been committed"))
        wait_completed(buffer_of(this));
}
void CommandBuffer::waitUntilScheduled() {
    auto& state = buffer_of(this);
    if (!require(state.committed, "MTL::CommandBuffer::waitUntilScheduled", "the command buffer has not been committed"))
        return;
    for (auto now = state.status.load(); now < CommandBufferStatusScheduled; now = state.status.load())
        state.status.wait(now);
}

} // namespace MTL
