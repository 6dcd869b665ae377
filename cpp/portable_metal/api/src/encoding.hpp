// What the files of the encoders share.
#pragma once

#include "commands.hpp"
#include "validation.hpp"

namespace metalki::api {

// The address that a kernel's argument slot gets, and what tells it apart from others.
struct BoundArgument {
    void* address = nullptr;
    std::uint64_t digest = 0;
    std::uint32_t length = 0; // of what was given as bytes
};

inline bool is_open(const EncoderState& encoder, const char* call) {
    return require(!encoder.ended, call, "endEncoding has been called already");
}

inline bool is_usable(const ResourceState& resource, const char* call) {
    return require(!resource.is_lost.load(std::memory_order_relaxed), call,
                   "the contents of a private buffer were lost when the device was made ready again after a fault");
}

// Retains the resource as long as the commands, where the command buffer does so.
inline void keep(EncoderState& encoder, const ResourceState& resource) {
    CommandBufferState& owner = *encoder.buffer;
    if (!owner.retains || resource.last_holder.load(std::memory_order_relaxed) == owner.serial)
        return;
    resource.last_holder.store(owner.serial, std::memory_order_relaxed);
    owner.keep(resource);
}

bool check_threadgroup_size(const PipelineState& pipeline, MTL::Size size, const char* call);
bool check_grid(MTL::Size threads, const char* call);

bool check_texture_or_sampler(const EncoderState& encoder, const ArgumentPlan& plan, const char* call);
// The check has passed.
BoundArgument bound_texture_or_sampler(const EncoderState& encoder, const ArgumentPlan& plan);

inline compiler::Uint3 uint3(MTL::Size size) {
    return {static_cast<std::uint32_t>(size.width), static_cast<std::uint32_t>(size.height),
            static_cast<std::uint32_t>(size.depth)};
}

// Digests tell dispatches apart. They are hints: a collision makes an estimate of time wrong, nothing else.
inline std::uint64_t mix(std::uint64_t digest, std::uint64_t value) {
    digest = (digest ^ value) * 0x9e3779b97f4a7c15u;
    return digest ^ digest >> 29;
}
std::uint64_t digest_of_bytes(const void* bytes, std::size_t length);
inline std::uint64_t digest_of_geometry(const PipelineState& pipeline, MTL::Size grid, MTL::Size threadgroup) {
    const std::uint64_t digest = mix(reinterpret_cast<std::uintptr_t>(pipeline.code.get()), grid.width);
    return mix(mix(digest, grid.height << 32 ^ grid.depth),
               threadgroup.width << 40 ^ threadgroup.height << 20 ^ threadgroup.depth);
}

} // namespace metalki::api
