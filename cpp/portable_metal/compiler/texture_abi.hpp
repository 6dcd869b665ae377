// How textures and samplers reach compiled kernels. Mirrored for MSL in stdlib/include/metalki_texel.h and
// metalki_sampler.h. A texture argument's slot holds the address of a TextureDescriptor; a sampler argument's slot holds the
// address of a SamplerState. In argument buffers a texture is the 8-byte address of its descriptor and a sampler is its state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace metalki::compiler {

constexpr std::size_t max_mip_levels = 15; // of a side of 16384 texels

struct TextureLevel {
    void* base;                    // texel (0, 0) of the first image
    std::uint64_t bytes_per_row;   // between neighbours in y
    std::uint64_t bytes_per_image; // between slices of a 3D texture, layers of an array, faces of a cube
};

struct TextureDescriptor {
    std::uint32_t format;                 // MTL::PixelFormat
    std::uint32_t width, height, depth;   // of level 0; unused ones are 1
    std::uint32_t array_length;           // layers; of cubes, not multiplied by six
    std::uint32_t mip_count;              // entries of `levels` in use, at least 1
    std::uint32_t sample_count, reserved; // 1, 0
    TextureLevel levels[max_mip_levels];
};
static_assert(sizeof(TextureLevel) == 24 && sizeof(TextureDescriptor) == 8 * 4 + max_mip_levels * 24);

// Bytes of one pixel of an MTL::PixelFormat, or 0 if kernels cannot read and write it. The numbers follow a rule:
// tens give the channels and their width, ones the kind (0 unorm, 1 sRGB, 2 snorm, 3 uint, 4 sint, 5 float).
constexpr std::size_t pixel_bytes(std::uint32_t format) {
    switch (format) {
    case 1: // A8Unorm
        return 1;
    case 90: // RGB10A2Unorm
    case 91: // RGB10A2Uint
    case 92: // RG11B10Float
    case 94: // BGR10A2Unorm
        return 4;
    case 250: // Depth16Unorm
        return 2;
    case 252: // Depth32Float
        return 4;
    default:
        break;
    }
    const std::uint32_t kind = format % 10;
    const bool narrow = kind <= 4, no_srgb = (kind <= 5 && kind != 1), wide = kind >= 3 && kind <= 5;
    switch (format / 10) {
    case 1: // R8
        return narrow ? 1 : 0;
    case 2: // R16
        return no_srgb ? 2 : 0;
    case 3: // RG8
        return narrow ? 2 : 0;
    case 5: // R32
        return wide ? 4 : 0;
    case 6: // RG16
        return no_srgb ? 4 : 0;
    case 7: // RGBA8
        return narrow ? 4 : 0;
    case 8: // BGRA8
        return kind <= 1 ? 4 : 0;
    case 10: // RG32
        return wide ? 8 : 0;
    case 11: // RGBA16
        return no_srgb ? 8 : 0;
    case 12: // RGBA32
        return wide ? 16 : 0;
    default:
        return 0;
    }
}

// A sampler in 64 bits. All zero is what a fresh MTL::SamplerDescriptor asks for, apart from the upper end of the level range.
struct SamplerState {
    std::uint64_t bits;
};
static_assert(sizeof(SamplerState) == 8);

// Lowest bit of each field; values are those of the MTL:: enumerations.
namespace sampler_bits {
constexpr unsigned min_filter = 0; // 1 bit, MTL::SamplerMinMagFilter
constexpr unsigned mag_filter = 1; // 1 bit
constexpr unsigned mip_filter = 2; // 2 bits, MTL::SamplerMipFilter
constexpr unsigned s_address = 4;  // 3 bits each, MTL::SamplerAddressMode
constexpr unsigned t_address = 7;
constexpr unsigned r_address = 10;
constexpr unsigned pixel_coordinates = 13; // 1 bit: coordinates are not normalized
constexpr unsigned compare = 14;           // 3 bits, MTL::CompareFunction
constexpr unsigned border_color = 17;      // 2 bits, MTL::SamplerBorderColor
constexpr unsigned max_anisotropy = 19;    // 4 bits, value - 1
constexpr unsigned lod_min = 32;           // 16 bits, in 1/256 of a level
constexpr unsigned lod_max = 48;           // 16 bits, 0xffff: no limit
} // namespace sampler_bits

} // namespace metalki::compiler
