// What a texture descriptor says.
#pragma once

#include "Metal/MTLTexture.hpp"

namespace metalki::api {

struct TextureValues {
    MTL::TextureType type = MTL::TextureType2D;
    MTL::PixelFormat format = MTL::PixelFormatRGBA8Unorm;
    NS::UInteger width = 1, height = 1, depth = 1, array_length = 1, mip_levels = 1, samples = 1;
    MTL::ResourceOptions options = MTL::ResourceStorageModeShared;
    MTL::TextureUsage usage = MTL::TextureUsageShaderRead;
    bool optimized = true;
};

TextureValues& values_of(const MTL::TextureDescriptor* descriptor);
// Levels down to one texel.
NS::UInteger most_levels(const TextureValues& values);

} // namespace metalki::api
