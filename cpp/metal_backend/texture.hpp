// Textures and samplers: kernel_interface's abstract classes over Metal's.
#pragma once

#include "metal_backend/objects.hpp"

namespace metalki::metal {

class MetalTexture final : public detail::TextureImpl {
public:
    void write(const std::byte* pixels, std::size_t level) override;
    void read(std::byte* pixels, std::size_t level) const override;

    NS::SharedPtr<MTL::Texture> texture;
};

class MetalSampler final : public detail::SamplerImpl {
public:
    NS::SharedPtr<MTL::SamplerState> sampler;
};

// The `data` of an ArgumentValue.
void set_texture(MTL::ComputeCommandEncoder& encoder, const void* texture, unsigned index);
void set_sampler(MTL::ComputeCommandEncoder& encoder, const void* sampler, unsigned index);

// The type_name, scalar and texture facts of a texture argument.
void read_texture(ArgumentInfo& info, const MTL::TextureBinding* binding);

} // namespace metalki::metal
