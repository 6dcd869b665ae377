// A dispatch with all its arguments in one call: what a launch consists of, without going through the encoder's bindings.
#include <cstring>

#include "Metal/MetalkiExtensions.hpp"
#include "encoding.hpp"

namespace metalki::api {
namespace {

constexpr const char* call = "MTL::Portable::dispatch";

using Argument = MTL::Portable::DispatchArgument;

// What the arguments of one dispatch add up to.
struct Totals {
    std::uint64_t digest;
    std::size_t threadgroup_memory;
    std::uint64_t multiplier = 0x9e3779b97f4a7c15u;

    // Sums of products, as these do not wait for each other.
    void add(std::uint64_t value) {
        digest += value * multiplier;
        multiplier += 0x9e3779b97f4a7c16u; // stays odd, and no two positions share one
    }
};

[[gnu::cold, gnu::noinline]] void refuse(const PipelineState& pipeline, std::size_t position, const std::string& problem) {
    const auto& function = pipeline.code->function;
    violation(call, "kernel \"" + function.name + "\", argument \"" + function.arguments[position].name + "\": " + problem);
}

std::byte* stored_bytes(EncoderState& encoder, std::size_t position, const Argument& argument, Totals& totals) {
    const std::size_t length = argument.length;
    if (length == 0 || length > max_set_bytes) [[unlikely]] {
        refuse(*encoder.pipeline, position,
               std::to_string(length) + " bytes were given; 1 to " + std::to_string(max_set_bytes) + " can be given so");
        return nullptr;
    }
    std::byte* place = encoder.buffer->storage->allocate(length);
    std::memcpy(place, argument.data, length);
    totals.add(digest_of_bytes(argument.data, length));
    return place;
}

// What most numbers are.
std::byte* stored_word(CommandStorage& storage, const Argument& argument, Totals& totals) {
    std::byte* place = storage.allocate(sizeof(std::uint32_t));
    std::uint32_t word;
    std::memcpy(&word, argument.data, sizeof word);
    std::memcpy(place, &word, sizeof word);
    totals.add(word);
    return place;
}

bool store_threadgroup_length(EncoderState& encoder, const ArgumentPlan& plan, std::size_t position, const Argument& argument,
                              Totals& totals) {
    const std::size_t length = argument.length;
    const std::size_t limit = encoder.pipeline->device.facts().max_threadgroup_memory;
    if (length == 0 || length % 16 != 0 || length > limit) {
        refuse(*encoder.pipeline, position,
               std::to_string(length) + " bytes of threadgroup memory were given; a positive multiple of 16 up to " +
                   std::to_string(limit) + " is expected");
        return false;
    }
    totals.threadgroup_memory += length;
    encoder.buffer->storage->threadgroup_arguments.push_back({plan.slot, static_cast<std::uint32_t>(length)});
    return true;
}

// One argument into its slot. False: reported.
inline bool store(EncoderState& encoder, std::size_t position, const Argument& argument, Totals& totals, void*& slot) {
    switch (argument.kind) {
    case Argument::Kind::address:
        totals.add(reinterpret_cast<std::uintptr_t>(argument.data));
        slot = const_cast<void*>(argument.data);
        return true;
    case Argument::Kind::bytes:
        slot = argument.length == sizeof(std::uint32_t) ? stored_word(*encoder.buffer->storage, argument, totals)
                                                        : stored_bytes(encoder, position, argument, totals);
        return slot != nullptr;
    default:
        slot = nullptr;
        break;
    }
    const ArgumentPlan& plan = encoder.pipeline->plan[position];
    if (!plan.active)
        return true;
    if (argument.kind == Argument::Kind::threadgroup && plan.kind == compiler::ArgumentKind::threadgroup)
        return store_threadgroup_length(encoder, plan, position, argument, totals);
    refuse(*encoder.pipeline, position, "nothing is bound");
    return false;
}

bool takes_only_memory(const PipelineState& pipeline) {
    for (const ArgumentPlan& plan : pipeline.plan)
        if (plan.kind != compiler::ArgumentKind::buffer && plan.kind != compiler::ArgumentKind::threadgroup)
            return false;
    return true;
}

void encode(EncoderState& encoder, std::span<const Argument> arguments, MTL::Size grid, MTL::Size threadgroup) {
    CommandStorage& storage = *encoder.buffer->storage;
    const PipelineState& pipeline = *encoder.pipeline;
    const std::size_t first = storage.arguments.size(), first_threadgroup = storage.threadgroup_arguments.size();
    const auto give_up = [&] {
        storage.arguments.resize(first);
        storage.threadgroup_arguments.resize(first_threadgroup);
    };
    Totals totals{digest_of_geometry(pipeline, grid, threadgroup), pipeline.code->static_threadgroup_memory};
    storage.arguments.resize(first + arguments.size());
    void** slots = storage.arguments.data() + first;
    for (std::size_t i = 0; i < arguments.size(); ++i)
        if (!store(encoder, i, arguments[i], totals, slots[i]))
            return give_up();
    const std::size_t limit = pipeline.device.facts().max_threadgroup_memory;
    if (!require(totals.threadgroup_memory <= limit, call, [&] {
            return "threadgroup memory of " + std::to_string(totals.threadgroup_memory) + " bytes is over the limit of " +
                   std::to_string(limit);
        }))
        return give_up();
    if (encoder.buffer->queue->device_queue)
        for (const Argument& argument : arguments)
            storage.lengths.push_back(argument.kind == Argument::Kind::bytes ? argument.length : 0);
    Command& command = storage.commands.emplace_back(Command::Kind::dispatch);
    command.pipeline = &pipeline;
    command.grid = uint3(grid);
    command.threadgroup = uint3(threadgroup);
    command.first_argument = static_cast<std::uint32_t>(first);
    command.argument_count = static_cast<std::uint32_t>(arguments.size());
    command.first_threadgroup = static_cast<std::uint32_t>(first_threadgroup);
    command.threadgroup_count = static_cast<std::uint32_t>(storage.threadgroup_arguments.size() - first_threadgroup);
    command.digest = mix(totals.digest, arguments.size());
}

} // namespace
} // namespace metalki::api

namespace MTL {

using namespace metalki::api;

bool Portable::canDispatch(const ComputePipelineState* pipeline) {
    return takes_only_memory(state_of<PipelineState>(pipeline));
}

void Portable::dispatch(ComputeCommandEncoder* commandEncoder, const ComputePipelineState* state,
                        std::span<const DispatchArgument> arguments, Size threadsPerGrid, Size threadsPerThreadgroup) {
    auto& encoder = state_of<EncoderState>(commandEncoder);
    const auto& pipeline = state_of<PipelineState>(state);
    if (!is_open(encoder, call) ||
        !require(arguments.size() == pipeline.plan.size(), call, "not as many arguments as the kernel has") ||
        !check_threadgroup_size(pipeline, threadsPerThreadgroup, call) || !check_grid(threadsPerGrid, call))
        return;
    if (encoder.pipeline != &pipeline) {
        encoder.buffer->keep(pipeline);
        encoder.pipeline = &pipeline;
    }
    encode(encoder, arguments, threadsPerGrid, threadsPerThreadgroup);
}

} // namespace MTL
