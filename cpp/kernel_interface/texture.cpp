// Textures and samplers: what may be made, and whole levels to and from the host.
#include "metalki/texture.hpp"

#include <algorithm>
#include <bit>

#include "kernel_interface/backend.hpp"
#include "kernel_interface/process.hpp"

namespace metalki {

namespace {

// Metal's limits on every GPU.
constexpr std::size_t largest_side = 16384, largest_volume_side = 2048, most_layers = 2048;

[[noreturn]] void refuse(const std::string& why) {
    throw ArgumentError("Texture: " + why);
}

bool is_array(TextureType type) {
    return type == TextureType::d1_array || type == TextureType::d2_array || type == TextureType::cube_array;
}
bool is_cube(TextureType type) {
    return type == TextureType::cube || type == TextureType::cube_array;
}
bool is_line(TextureType type) {
    return type == TextureType::d1 || type == TextureType::d1_array;
}

void need_size(const char* what, std::size_t size, std::size_t limit) {
    if (size < 1 || size > limit)
        refuse(std::string(what) + " is " + std::to_string(size) + "; for this type it is 1 to " + std::to_string(limit));
}

void check(const TextureOptions& options) {
    const bool volume = options.type == TextureType::d3;
    const std::size_t limit = volume ? largest_volume_side : largest_side;
    need_size("width", options.width, limit);
    need_size("height", options.height, is_line(options.type) ? 1 : limit);
    need_size("depth", options.depth, volume ? limit : 1);
    need_size("array_length", options.array_length, is_array(options.type) ? most_layers : 1);
    const std::size_t largest = std::max({options.width, options.height, options.depth});
    need_size("mip_levels", options.mip_levels, is_line(options.type) ? 1 : static_cast<std::size_t>(std::bit_width(largest)));
    if (is_cube(options.type) && options.width != options.height)
        refuse("a cube has square faces, width " + std::to_string(options.width) + " and height " +
               std::to_string(options.height) + " were given");
}

std::size_t bytes_of_level(const TextureOptions& o, const PixelFormat& format, std::size_t level) {
    auto side = [level](std::size_t size) { return level < 64 ? std::max<std::size_t>(1, size >> level) : 1; };
    return side(o.width) * side(o.height) * side(o.depth) * o.array_length * (is_cube(o.type) ? 6 : 1) * format.nbytes;
}

void need_bytes(const char* call, const Texture& texture, std::size_t level, const void* pixels, std::size_t bytes) {
    if (level >= texture.options().mip_levels)
        throw ArgumentError(std::string(call) + ": level " + std::to_string(level) + " of a texture with " +
                            std::to_string(texture.options().mip_levels) + " levels");
    if (bytes != texture.nbytes(level) || !pixels)
        throw ArgumentError(std::string(call) + ": level " + std::to_string(level) + " has " +
                            std::to_string(texture.nbytes(level)) + " bytes, " + std::to_string(bytes) + " were given");
}

} // namespace

Texture::Texture(const Device& device, const TextureOptions& options) {
    const PixelFormat& format = find_pixel_format(options.format);
    check(options);
    detail::check_device();
    // A third more for the smaller levels.
    const std::size_t level = bytes_of_level(options, format, 0), bytes = options.mip_levels > 1 ? level / 3 * 4 : level;
    if (bytes <= device.info().max_buffer_length)
        impl_ = device.impl()->make_texture(options, format);
    if (!impl_)
        throw OutOfMemoryError("Texture: the memory of " + std::to_string(options.width) + " x " +
                               std::to_string(options.height) + " x " + std::to_string(options.depth) + " x " +
                               std::to_string(options.array_length) + " pixels of " + options.format + " could not be had");
}

const TextureOptions& Texture::options() const {
    return impl_->options;
}
const PixelFormat& Texture::format() const {
    return *impl_->format;
}
Device Texture::device() const {
    return Device(impl_->device);
}

std::size_t Texture::nbytes(std::size_t level) const {
    return bytes_of_level(options(), format(), level);
}

void Texture::write(const void* pixels, std::size_t bytes, std::size_t level) const {
    need_bytes("Texture::write", *this, level, pixels, bytes);
    device().synchronize();
    impl_->write(static_cast<const std::byte*>(pixels), level);
}

void Texture::read(void* pixels, std::size_t bytes, std::size_t level) const {
    need_bytes("Texture::read", *this, level, pixels, bytes);
    device().synchronize();
    impl_->read(static_cast<std::byte*>(pixels), level);
}

Sampler::Sampler(const Device& device, const SamplerOptions& options) {
    const bool stays = options.address == AddressMode::clamp_to_edge || options.address == AddressMode::clamp_to_zero ||
                       options.address == AddressMode::clamp_to_border;
    if (!options.normalized && !stays)
        throw ArgumentError("Sampler: pixel coordinates (not normalized) need clamp_to_edge, clamp_to_zero or clamp_to_border");
    if (!options.normalized && options.mip_filter != MipFilter::none)
        throw ArgumentError("Sampler: pixel coordinates (not normalized) allow no mip filter");
    detail::check_device();
    impl_ = device.impl()->make_sampler(options);
}

const SamplerOptions& Sampler::options() const {
    return impl_->options;
}
Device Sampler::device() const {
    return Device(impl_->device);
}

} // namespace metalki
