// Textures and samplers of kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "metalki/device.hpp"
#include "metalki/kernel.hpp"

namespace metalki {

namespace detail {
class TextureImpl;
class SamplerImpl;
} // namespace detail

/// A format of pixels, named as MTLPixelFormat does, in lower case: "rgba8unorm", "r32float".
struct PixelFormat {
    std::string_view name;
    unsigned number;     ///< MTLPixelFormat's
    std::uint8_t nbytes; ///< of a pixel
    unsigned channels;   ///< elements of a pixel in memory; 1 for packed formats
    ScalarType element;  ///< of memory: uint8 for "rgba8unorm", uint32 for packed formats
};

/// All formats that kernels can use.
METALKI_API std::span<const PixelFormat> pixel_formats();
/// The format of that name. Throws ArgumentError listing those there are.
METALKI_API const PixelFormat& find_pixel_format(std::string_view name);

/// What a new texture is like.
struct TextureOptions {
    std::string format = "rgba8unorm";
    TextureType type = TextureType::d2;
    std::size_t width = 1, height = 1, depth = 1; ///< texels of the first level; 1 where the type has no such axis
    std::size_t array_length = 1;                 ///< layers of an array; cubes of a cube array
    std::size_t mip_levels = 1;
    Access access = Access::read_write; ///< what kernels may do with it; sampling is reading
    std::string label;                  ///< appears in messages
};

/// An image in device memory. Cheap to copy; copies name the same image, which lives until the last of them and the last
/// launch that uses it are gone.
class METALKI_API Texture {
public:
    /// A texture of zeros. Throws ArgumentError for an unknown format or sizes that the device does not have, and
    /// OutOfMemoryError.
    Texture(const Device& device, const TextureOptions& options);

    const TextureOptions& options() const;
    const PixelFormat& format() const;
    Device device() const;
    std::size_t width() const { return options().width; }
    std::size_t height() const { return options().height; }
    std::size_t depth() const { return options().depth; }
    /// Bytes of a level: all rows, images and layers (or faces), tightly packed in that order.
    std::size_t nbytes(std::size_t level = 0) const;

    /// Replaces a level by `bytes` bytes, tightly packed. Waits for the device first. Throws ArgumentError when the size is
    /// not nbytes(level).
    void write(const void* pixels, std::size_t bytes, std::size_t level = 0) const;
    /// Reads a level, tightly packed. Waits for the device first, and throws what it reported. Throws as write() does.
    void read(void* pixels, std::size_t bytes, std::size_t level = 0) const;

    const std::shared_ptr<detail::TextureImpl>& impl() const { return impl_; }

private:
    std::shared_ptr<detail::TextureImpl> impl_;
};

enum class Filter : std::uint8_t { nearest, linear };
enum class MipFilter : std::uint8_t { none, nearest, linear };
/// What lies beyond the edge, with MTLSamplerAddressMode's numbers.
enum class AddressMode : std::uint8_t {
    clamp_to_edge,
    mirror_clamp_to_edge,
    repeat,
    mirrored_repeat,
    clamp_to_zero,
    clamp_to_border,
};
enum class BorderColor : std::uint8_t { transparent_black, opaque_black, opaque_white };

/// What a new sampler is like.
struct SamplerOptions {
    Filter filter = Filter::nearest; ///< between texels, for minification and magnification
    MipFilter mip_filter = MipFilter::none;
    AddressMode address = AddressMode::clamp_to_edge; ///< along all axes
    BorderColor border_color = BorderColor::transparent_black;
    bool normalized = true; ///< coordinates from 0 to 1 rather than in pixels
};

/// How kernels look up a texture. Cheap to copy.
class METALKI_API Sampler {
public:
    /// Throws ArgumentError for what Metal does not have: pixel coordinates with repeating addresses or with mip levels.
    Sampler(const Device& device, const SamplerOptions& options);

    const SamplerOptions& options() const;
    Device device() const;

    const std::shared_ptr<detail::SamplerImpl>& impl() const { return impl_; }

private:
    std::shared_ptr<detail::SamplerImpl> impl_;
};

} // namespace metalki
