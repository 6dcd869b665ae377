// MTL::ComputeCommandEncoder and MTL::BlitCommandEncoder: checks, then compact commands with raw addresses.
#include <algorithm>
#include <cstring>

#include "encoding.hpp"
#include "validation.hpp"

namespace metalki::api {
namespace {

EncoderState& encoder_of(const MTL::CommandEncoder* encoder) {
    return state_of<EncoderState>(encoder);
}
const BufferState& buffer_of(const MTL::Buffer* buffer) {
    return state_of<BufferState>(buffer);
}
std::string text(NS::UInteger value) {
    return std::to_string(value);
}

bool open(const EncoderState& encoder, const char* call) {
    return is_open(encoder, call);
}

bool valid_index(NS::UInteger index, const char* call) {
    return require(index < buffer_slots, call, [&] { return "index " + text(index) + " is over the limit of 30"; });
}
bool valid_offset(const BufferState& buffer, NS::UInteger offset, const char* call) {
    return require(offset < buffer.length, call,
                   [&] { return "offset " + text(offset) + " is not below the buffer's length " + text(buffer.length); });
}
bool valid_range(const BufferState& buffer, const char* what, NS::UInteger offset, NS::UInteger size, const char* call) {
    const auto problem = [&] { return std::string(what) + " offset " + text(offset) + " and size " + text(size); };
    return require(offset % 4 == 0 && size % 4 == 0, call, [&] { return problem() + " are not both multiples of 4"; }) &&
           require(size > 0, call, "size is 0") &&
           require(offset <= buffer.length && size <= buffer.length - offset, call,
                   [&] { return problem() + " reach beyond the buffer's length " + text(buffer.length); });
}

std::string argument_name(const PipelineState& pipeline, const ArgumentPlan& plan) {
    const auto& argument = pipeline.code->function.arguments[plan.slot];
    return "kernel \"" + pipeline.code->function.name + "\", argument \"" + argument.name + "\" at buffer index " +
           text(plan.index);
}

bool check_buffer(const EncoderState& encoder, const ArgumentPlan& plan, const char* call) {
    const auto name = [&] { return argument_name(*encoder.pipeline, plan); };
    const auto& binding = encoder.bindings[plan.index];
    const std::size_t alignment = plan.constant_space ? std::max<std::size_t>(plan.alignment, 4) : plan.alignment;
    const std::size_t left = binding.length - binding.offset;
    return require(binding.address, call, [&] { return name() + ": no buffer is bound"; }) &&
           require(binding.offset % alignment == 0, call,
                   [&] { return name() + ": offset " + text(binding.offset) + " is not a multiple of " + text(alignment); }) &&
           require(left >= plan.minimum, call,
                   [&] { return name() + ": " + text(left) + " bytes are bound, the argument needs " + text(plan.minimum); });
}

bool check_arguments(const EncoderState& encoder, const char* call) {
    std::size_t memory = encoder.pipeline->code->static_threadgroup_memory;
    for (const ArgumentPlan& plan : encoder.pipeline->plan) {
        if (!plan.active)
            continue;
        if (plan.kind == compiler::ArgumentKind::buffer) {
            if (!check_buffer(encoder, plan, call))
                return false;
            continue;
        }
        if (plan.kind != compiler::ArgumentKind::threadgroup) {
            if (!check_texture_or_sampler(encoder, plan, call))
                return false;
            continue;
        }
        const std::uint32_t length = plan.index < buffer_slots ? encoder.threadgroup_lengths[plan.index] : 0;
        if (!require(length > 0, call, [&] {
                return "kernel \"" + encoder.pipeline->code->function.name + "\" uses threadgroup memory at index " +
                       text(plan.index) + ", but no length is set";
            }))
            return false;
        memory += length;
    }
    const std::size_t limit = encoder.pipeline->device.facts().max_threadgroup_memory;
    return require(memory <= limit, call,
                   [&] { return "threadgroup memory of " + text(memory) + " bytes is over the limit of " + text(limit); });
}

bool check_threadgroup(const EncoderState& encoder, MTL::Size size, const char* call) {
    return open(encoder, call) && require(encoder.pipeline, call, "no compute pipeline state is set") &&
           check_threadgroup_size(*encoder.pipeline, size, call) && check_arguments(encoder, call);
}

BoundArgument bound_argument(const EncoderState& encoder, const ArgumentPlan& plan) {
    if (!plan.active || plan.kind == compiler::ArgumentKind::threadgroup)
        return {};
    if (plan.kind != compiler::ArgumentKind::buffer)
        return bound_texture_or_sampler(encoder, plan);
    const auto& binding = encoder.bindings[plan.index];
    const std::size_t length = binding.is_bytes ? binding.length - binding.offset : 0;
    return {binding.address + binding.offset, binding.digest + binding.offset, static_cast<std::uint32_t>(length)};
}

// The checks have passed.
Command& encode_dispatch(EncoderState& encoder, Command::Kind kind, MTL::Size grid, MTL::Size threadgroup) {
    CommandStorage& storage = *encoder.buffer->storage;
    const PipelineState& pipeline = *encoder.pipeline;
    Command command{kind};
    command.pipeline = &pipeline;
    command.grid = uint3(grid);
    command.threadgroup = uint3(threadgroup);
    command.first_argument = static_cast<std::uint32_t>(storage.arguments.size());
    command.argument_count = static_cast<std::uint32_t>(pipeline.plan.size());
    command.first_threadgroup = static_cast<std::uint32_t>(storage.threadgroup_arguments.size());
    std::uint64_t digest = digest_of_geometry(pipeline, grid, threadgroup);
    const bool for_device = encoder.buffer->queue->device_queue != nullptr;
    for (const ArgumentPlan& plan : pipeline.plan) {
        const BoundArgument bound = bound_argument(encoder, plan);
        storage.arguments.push_back(bound.address);
        if (for_device)
            storage.lengths.push_back(bound.length);
        if (bound.address)
            digest = mix(digest, bound.digest);
        if (plan.active && plan.kind == compiler::ArgumentKind::threadgroup)
            storage.threadgroup_arguments.push_back({plan.slot, encoder.threadgroup_lengths[plan.index]});
    }
    command.threadgroup_count = static_cast<std::uint32_t>(storage.threadgroup_arguments.size()) - command.first_threadgroup;
    command.digest = digest;
    return storage.commands.emplace_back(command);
}

} // namespace

bool check_threadgroup_size(const PipelineState& pipeline, MTL::Size size, const char* call) {
    const NS::UInteger limit = pipeline.max_threads;
    const bool fits =
        size.width <= limit && size.height <= limit && size.depth <= limit && size.width * size.height * size.depth <= limit;
    return require(size.width && size.height && size.depth, call, "a size of threadsPerThreadgroup is 0") &&
           require(fits, call, [&] {
               return "threadsPerThreadgroup " + text(size.width) + " x " + text(size.height) + " x " + text(size.depth) +
                      " is over the limit of " + text(limit) + " threads of kernel \"" + pipeline.code->function.name + "\"";
           });
}

bool check_grid(MTL::Size threads, const char* call) {
    return require(threads.width && threads.height && threads.depth, call, "a size of the grid is 0") &&
           require(threads.width <= UINT32_MAX && threads.height <= UINT32_MAX && threads.depth <= UINT32_MAX, call,
                   "the grid has more than 4294967295 threads along one axis");
}

std::uint64_t digest_of_bytes(const void* bytes, std::size_t length) {
    std::uint64_t digest = length;
    for (const auto* at = static_cast<const std::byte*>(bytes); length > 0;) {
        std::uint64_t word = 0;
        const std::size_t part = std::min(length, sizeof word);
        std::memcpy(&word, at, part);
        digest = mix(digest, word);
        at += part;
        length -= part;
    }
    return digest;
}

EncoderState::EncoderState(CommandBufferState& owner, bool compute, MTL::DispatchType type)
    : buffer(Reference<CommandBufferState>::share(&owner)), compute(compute), dispatch_type(type) {
    owner.open_encoder = true;
}

void EncoderState::last_reference_gone() {
    if (ended)
        return;
    ended = true;
    buffer->open_encoder = false;
    buffer->abandoned_encoder = true;
    violation(class_name(), "the encoder was released without endEncoding");
}

} // namespace metalki::api

namespace MTL {

using namespace metalki::api;

Device* CommandEncoder::device() const {
    return public_of<Device>(&encoder_of(this).buffer->queue->device);
}
void CommandEncoder::endEncoding() {
    constexpr const char* call = "MTL::CommandEncoder::endEncoding";
    auto& state = encoder_of(this);
    if (!open(state, call) || !require(state.debug_groups == 0, call, "a debug group is still open"))
        return;
    state.ended = true;
    state.buffer->open_encoder = false;
}
void CommandEncoder::insertDebugSignpost(const NS::String* string) {
    require(string, "MTL::CommandEncoder::insertDebugSignpost", "string is null");
}
NS::String* CommandEncoder::label() const {
    return autoreleased<NS::String>(encoder_of(this).label);
}
void CommandEncoder::setLabel(const NS::String* label) {
    encoder_of(this).label = label_of(label);
}
void CommandEncoder::pushDebugGroup(const NS::String* string) {
    constexpr const char* call = "MTL::CommandEncoder::pushDebugGroup";
    if (open(encoder_of(this), call) && require(string, call, "string is null"))
        ++encoder_of(this).debug_groups;
}
void CommandEncoder::popDebugGroup() {
    constexpr const char* call = "MTL::CommandEncoder::popDebugGroup";
    if (open(encoder_of(this), call) && require(encoder_of(this).debug_groups > 0, call, "no debug group is open"))
        --encoder_of(this).debug_groups;
}

DispatchType ComputeCommandEncoder::dispatchType() const {
    return encoder_of(this).dispatch_type;
}

void ComputeCommandEncoder::setComputePipelineState(const ComputePipelineState* state) {
    constexpr const char* call = "MTL::ComputeCommandEncoder::setComputePipelineState";
    auto& encoder = encoder_of(this);
    if (!open(encoder, call) || !require(state, call, "state is null"))
        return;
    const auto& pipeline = state_of<PipelineState>(state);
    if (encoder.pipeline == &pipeline)
        return;
    // Code must outlive the commands even when the buffer retains nothing else.
    encoder.buffer->keep(pipeline);
    encoder.pipeline = &pipeline;
}

void ComputeCommandEncoder::setBuffer(const Buffer* buffer, NS::UInteger offset, NS::UInteger index) {
    constexpr const char* call = "MTL::ComputeCommandEncoder::setBuffer";
    auto& encoder = encoder_of(this);
    if (!open(encoder, call) || !valid_index(index, call))
        return;
    if (!buffer) {
        encoder.bindings[index] = {};
        return;
    }
    const BufferState& state = buffer_of(buffer);
    if (!valid_offset(state, offset, call) || !is_usable(state, call))
        return;
    keep(encoder, state);
    encoder.bindings[index] = {state.address, offset, state.length, reinterpret_cast<std::uintptr_t>(state.address)};
}

void ComputeCommandEncoder::setBufferOffset(NS::UInteger offset, NS::UInteger index) {
    constexpr const char* call = "MTL::ComputeCommandEncoder::setBufferOffset";
    auto& encoder = encoder_of(this);
    if (!open(encoder, call) || !valid_index(index, call))
        return;
    auto& binding = encoder.bindings[index];
    if (require(binding.address, call, [&] { return "no buffer is bound at index " + text(index); }) &&
        require(offset < binding.length, call,
                [&] { return "offset " + text(offset) + " is not below the buffer's length " + text(binding.length); }))
        binding.offset = offset;
}

void ComputeCommandEncoder::setBuffers(const Buffer* const buffers[], const NS::UInteger offsets[], NS::Range range) {
    constexpr const char* call = "MTL::ComputeCommandEncoder::setBuffers";
    if (!open(encoder_of(this), call) || !require(buffers && offsets, call, "buffers or offsets is null") ||
        !require(range.location <= buffer_slots && range.length <= buffer_slots - range.location, call, [&] {
            return "range " + text(range.location) + " + " + text(range.length) + " reaches over the limit of index 30";
        }))
        return;
    // All are checked before the first is bound.
    for (NS::UInteger i = 0; i < range.length; ++i)
        if (buffers[i] && !valid_offset(buffer_of(buffers[i]), offsets[i], call))
            return;
    for (NS::UInteger i = 0; i < range.length; ++i)
        setBuffer(buffers[i], offsets[i], range.location + i);
}

void ComputeCommandEncoder::setBytes(const void* bytes, NS::UInteger length, NS::UInteger index) {
    constexpr const char* call = "MTL::ComputeCommandEncoder::setBytes";
    auto& encoder = encoder_of(this);
    if (!open(encoder, call) || !valid_index(index, call) || !require(bytes, call, "bytes is null") ||
        !require(length > 0, call, "length is 0") || !require(length <= max_set_bytes, call, [&] {
            return "length " + text(length) + " is over the limit of " + text(max_set_bytes) + " bytes";
        }))
        return;
    std::byte* place = encoder.buffer->storage->allocate(length);
    std::memcpy(place, bytes, length);
    encoder.bindings[index] = {place, 0, length, digest_of_bytes(bytes, length), true};
}

void ComputeCommandEncoder::setThreadgroupMemoryLength(NS::UInteger length, NS::UInteger index) {
    constexpr const char* call = "MTL::ComputeCommandEncoder::setThreadgroupMemoryLength";
    auto& encoder = encoder_of(this);
    const NS::UInteger limit = encoder.buffer->queue->device.facts().max_threadgroup_memory;
    if (open(encoder, call) && valid_index(index, call) &&
        require(length % 16 == 0, call, [&] { return "length " + text(length) + " is not a multiple of 16"; }) &&
        require(length <= limit, call, [&] { return "length " + text(length) + " is over the limit of " + text(limit); }))
        encoder.threadgroup_lengths[index] = static_cast<std::uint32_t>(length);
}

void ComputeCommandEncoder::dispatchThreads(Size threadsPerGrid, Size threadsPerThreadgroup) {
    constexpr const char* call = "MTL::ComputeCommandEncoder::dispatchThreads";
    auto& encoder = encoder_of(this);
    if (check_threadgroup(encoder, threadsPerThreadgroup, call) && check_grid(threadsPerGrid, call))
        encode_dispatch(encoder, Command::Kind::dispatch, threadsPerGrid, threadsPerThreadgroup);
}

void ComputeCommandEncoder::dispatchThreadgroups(Size threadgroupsPerGrid, Size threadsPerThreadgroup) {
    constexpr const char* call = "MTL::ComputeCommandEncoder::dispatchThreadgroups";
    auto& encoder = encoder_of(this);
    if (!check_threadgroup(encoder, threadsPerThreadgroup, call) || !check_grid(threadgroupsPerGrid, call))
        return;
    const Size threads(threadgroupsPerGrid.width * threadsPerThreadgroup.width,
                       threadgroupsPerGrid.height * threadsPerThreadgroup.height,
                       threadgroupsPerGrid.depth * threadsPerThreadgroup.depth);
    if (check_grid(threads, call))
        encode_dispatch(encoder, Command::Kind::dispatch, threads, threadsPerThreadgroup);
}

void ComputeCommandEncoder::dispatchThreadgroups(const Buffer* indirectBuffer, NS::UInteger indirectBufferOffset,
                                                 Size threadsPerThreadgroup) {
    constexpr const char* call = "MTL::ComputeCommandEncoder::dispatchThreadgroups";
    auto& encoder = encoder_of(this);
    if (!check_threadgroup(encoder, threadsPerThreadgroup, call) || !require(indirectBuffer, call, "indirectBuffer is null") ||
        !valid_range(buffer_of(indirectBuffer), "indirect", indirectBufferOffset, sizeof(DispatchThreadgroupsIndirectArguments),
                     call))
        return;
    keep(encoder, buffer_of(indirectBuffer));
    Command& command = encode_dispatch(encoder, Command::Kind::dispatch_indirect, Size(0, 0, 0), threadsPerThreadgroup);
    command.source = buffer_of(indirectBuffer).address + indirectBufferOffset;
}

// Commands of one queue run one after the other: barriers and fences have nothing left to do but be checked.
void ComputeCommandEncoder::memoryBarrier(BarrierScope scope) {
    constexpr const char* call = "MTL::ComputeCommandEncoder::memoryBarrier";
    if (open(encoder_of(this), call))
        require(scope != 0 && (scope & ~BarrierScope{7}) == 0, call, "unknown scope");
}
void ComputeCommandEncoder::memoryBarrier(const Resource* const resources[], NS::UInteger count) {
    constexpr const char* call = "MTL::ComputeCommandEncoder::memoryBarrier";
    if (open(encoder_of(this), call))
        require(resources || count == 0, call, "resources is null");
}
void ComputeCommandEncoder::updateFence(const Fence* fence) {
    constexpr const char* call = "MTL::ComputeCommandEncoder::updateFence";
    if (open(encoder_of(this), call))
        require(fence, call, "fence is null");
}
void ComputeCommandEncoder::waitForFence(const Fence* fence) {
    constexpr const char* call = "MTL::ComputeCommandEncoder::waitForFence";
    if (open(encoder_of(this), call))
        require(fence, call, "fence is null");
}
void ComputeCommandEncoder::useResource(const Resource* resource, ResourceUsage usage) {
    useResources(&resource, 1, usage);
}
void ComputeCommandEncoder::useResources(const Resource* const resources[], NS::UInteger count, ResourceUsage usage) {
    constexpr const char* call = "MTL::ComputeCommandEncoder::useResources";
    auto& encoder = encoder_of(this);
    if (!open(encoder, call) || !require(resources || count == 0, call, "resources is null") ||
        !require(usage != 0 && (usage & ~ResourceUsage{7}) == 0, call, "unknown usage") ||
        !require(std::find(resources, resources + count, nullptr) == resources + count, call, "a resource is null"))
        return;
    for (NS::UInteger i = 0; i < count; ++i)
        if (const auto& state = state_of<ResourceState>(resources[i]); is_usable(state, call))
            keep(encoder, state);
}

void BlitCommandEncoder::copyFromBuffer(const Buffer* sourceBuffer, NS::UInteger sourceOffset, const Buffer* destinationBuffer,
                                        NS::UInteger destinationOffset, NS::UInteger size) {
    constexpr const char* call = "MTL::BlitCommandEncoder::copyFromBuffer";
    auto& encoder = encoder_of(this);
    if (!open(encoder, call) || !require(sourceBuffer, call, "sourceBuffer is null") ||
        !require(destinationBuffer, call, "destinationBuffer is null") ||
        !valid_range(buffer_of(sourceBuffer), "source", sourceOffset, size, call) ||
        !valid_range(buffer_of(destinationBuffer), "destination", destinationOffset, size, call))
        return;
    if (!is_usable(buffer_of(sourceBuffer), call) || !is_usable(buffer_of(destinationBuffer), call))
        return;
    const bool apart = sourceOffset + size <= destinationOffset || destinationOffset + size <= sourceOffset;
    if (!require(sourceBuffer != destinationBuffer || apart, call, "source and destination overlap within one buffer"))
        return;
    keep(encoder, buffer_of(sourceBuffer));
    keep(encoder, buffer_of(destinationBuffer));
    Command command{Command::Kind::copy};
    command.source = buffer_of(sourceBuffer).address + sourceOffset;
    command.destination = buffer_of(destinationBuffer).address + destinationOffset;
    command.size = size;
    encoder.buffer->storage->commands.push_back(command);
}

void BlitCommandEncoder::fillBuffer(const Buffer* buffer, NS::Range range, std::uint8_t value) {
    constexpr const char* call = "MTL::BlitCommandEncoder::fillBuffer";
    auto& encoder = encoder_of(this);
    if (!open(encoder, call) || !require(buffer, call, "buffer is null") ||
        !valid_range(buffer_of(buffer), "range", range.location, range.length, call) || !is_usable(buffer_of(buffer), call))
        return;
    keep(encoder, buffer_of(buffer));
    Command command{Command::Kind::fill};
    command.fill_value = value;
    command.destination = buffer_of(buffer).address + range.location;
    command.size = range.length;
    encoder.buffer->storage->commands.push_back(command);
}

void BlitCommandEncoder::synchronizeResource(const Resource* resource) {
    constexpr const char* call = "MTL::BlitCommandEncoder::synchronizeResource";
    if (open(encoder_of(this), call) && require(resource, call, "resource is null"))
        require(resource->storageMode() == StorageModeManaged, call, "the resource does not have managed storage");
}
void BlitCommandEncoder::updateFence(const Fence* fence) {
    constexpr const char* call = "MTL::BlitCommandEncoder::updateFence";
    if (open(encoder_of(this), call))
        require(fence, call, "fence is null");
}
void BlitCommandEncoder::waitForFence(const Fence* fence) {
    constexpr const char* call = "MTL::BlitCommandEncoder::waitForFence";
    if (open(encoder_of(this), call))
        require(fence, call, "fence is null");
}

} // namespace MTL
