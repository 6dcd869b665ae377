// MTL::Texture: memory, copies to and from the host, and whether it fits what a kernel declares.
#include "texture.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "Metal/MTLTexture.hpp"
#include "texture_descriptor.hpp"
#include "validation.hpp"

namespace metalki::api {
namespace {

constexpr NS::UInteger largest_side = 16384, largest_volume_side = 2048, most_layers = 2048;
constexpr NS::UInteger longest_texture_buffer = NS::UInteger{1} << 28;

std::string text(NS::UInteger value) {
    return std::to_string(value);
}

bool is_cube(MTL::TextureType type) {
    return type == MTL::TextureTypeCube || type == MTL::TextureTypeCubeArray;
}
bool is_array(MTL::TextureType type) {
    return type == MTL::TextureType1DArray || type == MTL::TextureType2DArray || type == MTL::TextureTypeCubeArray;
}
bool is_line(MTL::TextureType type) {
    return type == MTL::TextureType1D || type == MTL::TextureType1DArray || type == MTL::TextureTypeTextureBuffer;
}

bool valid_sizes(const TextureValues& v, const char* call) {
    const bool volume = v.type == MTL::TextureType3D;
    const NS::UInteger limit = volume                                    ? largest_volume_side
                               : v.type == MTL::TextureTypeTextureBuffer ? longest_texture_buffer
                                                                         : largest_side;
    const auto side = [&](const char* name, NS::UInteger size, bool free) {
        return require(size >= 1 && size <= (free ? limit : 1), call, [&] {
            return std::string(name) + " is " + text(size) + "; it is 1 to " + text(free ? limit : 1) +
                   " for this texture type";
        });
    };
    return side("width", v.width, true) && side("height", v.height, !is_line(v.type)) && side("depth", v.depth, volume) &&
           require(!is_cube(v.type) || v.width == v.height, call, "width and height of a cube differ") &&
           require(v.array_length >= 1 && v.array_length <= (is_array(v.type) ? most_layers : 1), call,
                   [&] {
                       return "arrayLength is " + text(v.array_length) + "; it is 1 to " +
                              text(is_array(v.type) ? most_layers : 1) + " for this texture type";
                   }) &&
           require(v.mip_levels >= 1 && v.mip_levels <= most_levels(v), call, [&] {
               return "mipmapLevelCount is " + text(v.mip_levels) + "; it is 1 to " + text(most_levels(v)) + " for this size";
           });
}

bool valid_texture(const TextureValues& v, const char* call) {
    return require(compiler::pixel_bytes(static_cast<std::uint32_t>(v.format)) != 0, call,
                   [&] { return "kernels cannot use pixel format " + text(v.format); }) &&
           require(v.type != MTL::TextureType2DMultisample && v.type <= MTL::TextureTypeTextureBuffer &&
                       v.type != MTL::TextureType2DMultisampleArray && v.samples == 1,
                   call, "multisample textures are not supported") &&
           require((v.options >> 4 & 15) <= MTL::StorageModePrivate, call, "memoryless storage is not supported") &&
           require((v.options & ~NS::UInteger{0x331}) == 0, call, "unknown resource options") &&
           require((v.usage & ~MTL::TextureUsage{0x37}) == 0, call, "unknown usage") && valid_sizes(v, call);
}

NS::UInteger at_level(NS::UInteger size, NS::UInteger level) {
    return std::max<NS::UInteger>(1, size >> level);
}

// Fills the descriptor with offsets in place of addresses; returns the bytes that all levels take.
NS::UInteger lay_out(const TextureValues& v, compiler::TextureDescriptor& d) {
    const auto number = [](NS::UInteger value) { return static_cast<std::uint32_t>(value); };
    d = {number(v.format),
         number(v.width),
         number(v.height),
         number(v.depth),
         number(v.array_length),
         number(v.mip_levels),
         1,
         0,
         {}};
    const NS::UInteger pixel = compiler::pixel_bytes(d.format);
    NS::UInteger end = 0;
    for (NS::UInteger level = 0; level < v.mip_levels; ++level) {
        const NS::UInteger row = at_level(v.width, level) * pixel, image = row * at_level(v.height, level);
        d.levels[level] = {reinterpret_cast<void*>(end), row, image};
        end += image * at_level(v.depth, level) * v.array_length * (is_cube(v.type) ? 6 : 1);
        end = (end + 255) / 256 * 256;
    }
    return end;
}

const TextureState& texture(const MTL::Texture* texture) {
    return state_of<TextureState>(texture);
}

// The pixels of a checked region.
struct Pixels {
    std::byte* first = nullptr;
    std::size_t row_bytes = 0, rows = 0, images = 0;
    std::size_t bytes_per_row = 0, bytes_per_image = 0;
};

bool inside(NS::UInteger origin, NS::UInteger size, NS::UInteger limit) {
    return size > 0 && origin <= limit && size <= limit - origin;
}

bool find_pixels(const TextureState& t, MTL::Region region, NS::UInteger level, NS::UInteger slice, Pixels& out,
                 const char* call) {
    const auto& d = t.descriptor;
    const NS::UInteger slices = d.array_length * (is_cube(t.type) ? 6u : 1u);
    if (!require(t.storage() != MTL::StorageModePrivate, call, "the texture has private storage") ||
        !require(level < d.mip_count, call, [&] { return "level " + text(level) + " of " + text(d.mip_count) + " levels"; }) ||
        !require(slice < slices, call, [&] { return "slice " + text(slice) + " of " + text(slices) + " slices"; }))
        return false;
    const MTL::Size size(at_level(d.width, level), at_level(d.height, level), at_level(d.depth, level));
    const auto& [origin, extent] = region;
    if (!require(inside(origin.x, extent.width, size.width) && inside(origin.y, extent.height, size.height) &&
                     inside(origin.z, extent.depth, size.depth),
                 call, [&] {
                     return "the region at (" + text(origin.x) + ", " + text(origin.y) + ", " + text(origin.z) + ") of size (" +
                            text(extent.width) + ", " + text(extent.height) + ", " + text(extent.depth) +
                            ") is empty or beyond the level's size (" + text(size.width) + ", " + text(size.height) + ", " +
                            text(size.depth) + ")";
                 }))
        return false;
    const std::size_t pixel = compiler::pixel_bytes(d.format);
    const auto& l = d.levels[level];
    out = {static_cast<std::byte*>(l.base) + (slice + origin.z) * l.bytes_per_image + origin.y * l.bytes_per_row +
               origin.x * pixel,
           extent.width * pixel,
           extent.height,
           extent.depth,
           l.bytes_per_row,
           l.bytes_per_image};
    return true;
}

// Strides of the host's pixels count only where there is a second row or image.
bool valid_strides(const Pixels& pixels, NS::UInteger bytes_per_row, NS::UInteger bytes_per_image, const char* call) {
    const bool rows = pixels.rows > 1 || pixels.images > 1;
    return require(!rows || bytes_per_row >= pixels.row_bytes, call,
                   [&] {
                       return "bytesPerRow " + text(bytes_per_row) + " is less than the " + text(pixels.row_bytes) +
                              " bytes of a row of the region";
                   }) &&
           require(pixels.images == 1 || bytes_per_image >= bytes_per_row * pixels.rows, call, [&] {
               return "bytesPerImage " + text(bytes_per_image) + " is less than the " + text(bytes_per_row * pixels.rows) +
                      " bytes of an image of the region";
           });
}

template <class Copy>
void for_each_row(const Pixels& pixels, NS::UInteger bytes_per_row, NS::UInteger bytes_per_image, Copy copy) {
    for (std::size_t image = 0; image < pixels.images; ++image)
        for (std::size_t row = 0; row < pixels.rows; ++row)
            copy(pixels.first + image * pixels.bytes_per_image + row * pixels.bytes_per_row,
                 image * bytes_per_image + row * bytes_per_row, pixels.row_bytes);
}

TextureNeeds::Component component_of(std::uint32_t format) {
    const bool plain = format >= 10 && format < 130 && format / 10 != 9;
    if (format == MTL::PixelFormatRGB10A2Uint || (plain && format % 10 == 3))
        return TextureNeeds::Component::unsigned_integer;
    return plain && format % 10 == 4 ? TextureNeeds::Component::signed_integer : TextureNeeds::Component::real;
}

TextureNeeds::Component component_of(compiler::ScalarType type) {
    using Scalar = compiler::ScalarType;
    if (type == Scalar::uint || type == Scalar::ushort)
        return TextureNeeds::Component::unsigned_integer;
    return type == Scalar::int_ || type == Scalar::short_ ? TextureNeeds::Component::signed_integer
                                                          : TextureNeeds::Component::real;
}

const char* name_of(MTL::TextureType type) {
    static const char* const names[] = {"1D",
                                        "1D array",
                                        "2D",
                                        "2D array",
                                        "2D multisample",
                                        "cube",
                                        "cube array",
                                        "3D",
                                        "2D multisample array",
                                        "texture buffer"};
    return names[type];
}

const char* name_of(TextureNeeds::Component component) {
    static const char* const names[] = {"floating-point or normalized", "signed integer", "unsigned integer"};
    return names[static_cast<std::size_t>(component)];
}

MTL::TextureType type_of(std::string_view name) {
    const bool array = name.ends_with("_array");
    if (name == "texture_buffer")
        return MTL::TextureTypeTextureBuffer;
    if (name.starts_with("texture1d"))
        return array ? MTL::TextureType1DArray : MTL::TextureType1D;
    if (name.starts_with("texture3d"))
        return MTL::TextureType3D;
    if (name.starts_with("texturecube") || name.starts_with("depthcube"))
        return array ? MTL::TextureTypeCubeArray : MTL::TextureTypeCube;
    return array ? MTL::TextureType2DArray : MTL::TextureType2D;
}

} // namespace

NS::UInteger most_levels(const TextureValues& v) {
    return is_line(v.type) ? 1 : static_cast<NS::UInteger>(std::bit_width(std::max({v.width, v.height, v.depth})));
}

TextureNeeds texture_needs(const compiler::Argument& argument) {
    const std::string_view full = argument.type.name, name = full.substr(0, full.find('<'));
    TextureNeeds needs;
    needs.type = type_of(name);
    needs.usage = argument.access == compiler::Access::read    ? MTL::TextureUsageShaderRead
                  : argument.access == compiler::Access::write ? MTL::TextureUsageShaderWrite
                                                               : MTL::TextureUsageShaderRead | MTL::TextureUsageShaderWrite;
    needs.component = component_of(argument.type.scalar);
    needs.depth = name.starts_with("depth");
    return needs;
}

std::string texture_problem(const TextureState& texture, const TextureNeeds& needs) {
    if (texture.type != needs.type)
        return std::string("a ") + name_of(texture.type) + " texture is bound, a " + name_of(needs.type) +
               " texture is declared";
    if (texture.usage != MTL::TextureUsageUnknown && (needs.usage & ~texture.usage) != 0) {
        const bool write = (needs.usage & ~texture.usage & MTL::TextureUsageShaderWrite) != 0;
        return write ? "the kernel writes it, but its usage lacks ShaderWrite"
                     : "the kernel reads it, but its usage lacks ShaderRead";
    }
    const auto component = component_of(texture.descriptor.format);
    if (component != needs.component)
        return std::string("the kernel declares ") + name_of(needs.component) + " values, pixel format " +
               text(texture.descriptor.format) + " has " + name_of(component) + " ones";
    const bool depth =
        texture.descriptor.format == MTL::PixelFormatDepth16Unorm || texture.descriptor.format == MTL::PixelFormatDepth32Float;
    if (needs.depth && !depth)
        return "the kernel declares a depth texture, pixel format " + text(texture.descriptor.format) + " is none";
    return {};
}

} // namespace metalki::api

namespace MTL {

using namespace metalki::api;

Texture* Device::newTexture(const TextureDescriptor* descriptor) {
    constexpr const char* call = "MTL::Device::newTexture";
    if (!require(descriptor, call, "descriptor is null"))
        return nullptr;
    const TextureValues& v = values_of(descriptor);
    if (!valid_texture(v, call))
        return nullptr;
    auto state = Reference<TextureState>::adopt(new TextureState(device_of(this)));
    const NS::UInteger length = lay_out(v, state->descriptor), limit = maxBufferLength();
    if (!require(length <= limit, call,
                 [&] { return "the texture takes " + text(length) + " bytes, the limit is " + text(limit); }))
        return nullptr;
    Buffer* memory = newBuffer(length, v.options);
    if (!memory)
        return nullptr;
    state->memory = Reference<BufferState>::adopt(&state_of<BufferState>(memory));
    for (NS::UInteger level = 0; level < v.mip_levels; ++level) {
        auto& base = state->descriptor.levels[level].base;
        base = state->memory->address + reinterpret_cast<std::uintptr_t>(base);
    }
    Buffer* copy = newBuffer(&state->descriptor, sizeof state->descriptor, ResourceStorageModeShared);
    if (!copy)
        return nullptr;
    state->descriptor_memory = Reference<BufferState>::adopt(&state_of<BufferState>(copy));
    state->type = v.type;
    state->usage = v.usage;
    state->length = length;
    state->options = v.options;
    return public_of<Texture>(state.hand_out());
}

bool Texture::allowGPUOptimizedContents() const {
    return false;
}
NS::UInteger Texture::arrayLength() const {
    return texture(this).descriptor.array_length;
}
Buffer* Texture::buffer() const {
    return nullptr;
}
NS::UInteger Texture::bufferBytesPerRow() const {
    return 0;
}
NS::UInteger Texture::bufferOffset() const {
    return 0;
}
NS::UInteger Texture::depth() const {
    return texture(this).descriptor.depth;
}
ResourceID Texture::gpuResourceID() const {
    return {reinterpret_cast<std::uintptr_t>(texture(this).descriptor_memory->address)};
}
NS::UInteger Texture::height() const {
    return texture(this).descriptor.height;
}
bool Texture::isFramebufferOnly() const {
    return false;
}
bool Texture::isShareable() const {
    return false;
}
NS::UInteger Texture::mipmapLevelCount() const {
    return texture(this).descriptor.mip_count;
}
Texture* Texture::parentTexture() const {
    return nullptr;
}
PixelFormat Texture::pixelFormat() const {
    return static_cast<PixelFormat>(texture(this).descriptor.format);
}
NS::UInteger Texture::sampleCount() const {
    return 1;
}
TextureType Texture::textureType() const {
    return texture(this).type;
}
TextureUsage Texture::usage() const {
    return texture(this).usage;
}
NS::UInteger Texture::width() const {
    return texture(this).descriptor.width;
}

void Texture::getBytes(void* pixelBytes, NS::UInteger bytesPerRow, NS::UInteger bytesPerImage, Region region,
                       NS::UInteger level, NS::UInteger slice) {
    constexpr const char* call = "MTL::Texture::getBytes";
    Pixels pixels;
    if (!require(pixelBytes, call, "pixelBytes is null") || !find_pixels(texture(this), region, level, slice, pixels, call) ||
        !valid_strides(pixels, bytesPerRow, bytesPerImage, call))
        return;
    for_each_row(pixels, bytesPerRow, bytesPerImage, [&](const std::byte* texel, std::size_t offset, std::size_t bytes) {
        std::memcpy(static_cast<std::byte*>(pixelBytes) + offset, texel, bytes);
    });
}
void Texture::getBytes(void* pixelBytes, NS::UInteger bytesPerRow, Region region, NS::UInteger level) {
    getBytes(pixelBytes, bytesPerRow, 0, region, level, 0);
}
void Texture::replaceRegion(Region region, NS::UInteger level, NS::UInteger slice, const void* pixelBytes,
                            NS::UInteger bytesPerRow, NS::UInteger bytesPerImage) {
    constexpr const char* call = "MTL::Texture::replaceRegion";
    Pixels pixels;
    if (!require(pixelBytes, call, "pixelBytes is null") || !find_pixels(texture(this), region, level, slice, pixels, call) ||
        !valid_strides(pixels, bytesPerRow, bytesPerImage, call))
        return;
    for_each_row(pixels, bytesPerRow, bytesPerImage, [&](std::byte* texel, std::size_t offset, std::size_t bytes) {
        std::memcpy(texel, static_cast<const std::byte*>(pixelBytes) + offset, bytes);
    });
}
void Texture::replaceRegion(Region region, NS::UInteger level, const void* pixelBytes, NS::UInteger bytesPerRow) {
    replaceRegion(region, level, 0, pixelBytes, bytesPerRow, 0);
}

} // namespace MTL
