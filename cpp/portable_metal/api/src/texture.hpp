// State of textures and samplers, and what a dispatch checks of them.
#pragma once

#include <array>

#include "compiler/texture_abi.hpp"
#include "device.hpp"

namespace metalki::api {

constexpr NS::UInteger texture_slots = 128;
constexpr NS::UInteger sampler_slots = 16;

class TextureState final : public ResourceState {
public:
    using ResourceState::ResourceState;
    const char* class_name() const override { return "MTL::Texture"; }

    MTL::TextureType type = MTL::TextureType2D;
    MTL::TextureUsage usage = MTL::TextureUsageShaderRead;
    compiler::TextureDescriptor descriptor{};
    Reference<BufferState> memory;            // of the texels
    Reference<BufferState> descriptor_memory; // a copy of the descriptor, for kernels
};

class SamplerObjectState final : public ObjectState {
public:
    explicit SamplerObjectState(DeviceState& device) : device(device) {}
    const char* class_name() const override { return "MTL::SamplerState"; }

    DeviceState& device;
    compiler::SamplerState sampler{};
    Reference<StringState> label;
};

// What an encoder has bound; made when the first texture or sampler is set.
struct TextureBindings {
    struct Sampler {
        const void* state = nullptr; // in the command buffer's storage
        std::uint64_t bits = 0;
    };
    std::array<const TextureState*, texture_slots> textures{};
    std::array<Sampler, sampler_slots> samplers{};
};

// Sampler bits with another range of levels.
compiler::SamplerState with_lod_range(compiler::SamplerState sampler, float minimum, float maximum);

// What an argument's declaration asks of a texture.
TextureNeeds texture_needs(const compiler::Argument& argument);
// Why the texture cannot be what the declaration asks for; empty when it can.
std::string texture_problem(const TextureState& texture, const TextureNeeds& needs);

} // namespace metalki::api
