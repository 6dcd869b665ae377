// Names and memory layouts of the pixel formats.
#include "metalki/error.hpp"
#include "metalki/texture.hpp"

#include <algorithm>

namespace metalki {

namespace {

constexpr PixelFormat formats[] = {
    {"a8unorm", 1, 1, 1, ScalarType::uint8},          {"r8unorm", 10, 1, 1, ScalarType::uint8},
    {"r8unorm_srgb", 11, 1, 1, ScalarType::uint8},    {"r8snorm", 12, 1, 1, ScalarType::int8},
    {"r8uint", 13, 1, 1, ScalarType::uint8},          {"r8sint", 14, 1, 1, ScalarType::int8},
    {"r16unorm", 20, 2, 1, ScalarType::uint16},       {"r16snorm", 22, 2, 1, ScalarType::int16},
    {"r16uint", 23, 2, 1, ScalarType::uint16},        {"r16sint", 24, 2, 1, ScalarType::int16},
    {"r16float", 25, 2, 1, ScalarType::float16},      {"rg8unorm", 30, 2, 2, ScalarType::uint8},
    {"rg8unorm_srgb", 31, 2, 2, ScalarType::uint8},   {"rg8snorm", 32, 2, 2, ScalarType::int8},
    {"rg8uint", 33, 2, 2, ScalarType::uint8},         {"rg8sint", 34, 2, 2, ScalarType::int8},
    {"r32uint", 53, 4, 1, ScalarType::uint32},        {"r32sint", 54, 4, 1, ScalarType::int32},
    {"r32float", 55, 4, 1, ScalarType::float32},      {"rg16unorm", 60, 4, 2, ScalarType::uint16},
    {"rg16snorm", 62, 4, 2, ScalarType::int16},       {"rg16uint", 63, 4, 2, ScalarType::uint16},
    {"rg16sint", 64, 4, 2, ScalarType::int16},        {"rg16float", 65, 4, 2, ScalarType::float16},
    {"rgba8unorm", 70, 4, 4, ScalarType::uint8},      {"rgba8unorm_srgb", 71, 4, 4, ScalarType::uint8},
    {"rgba8snorm", 72, 4, 4, ScalarType::int8},       {"rgba8uint", 73, 4, 4, ScalarType::uint8},
    {"rgba8sint", 74, 4, 4, ScalarType::int8},        {"bgra8unorm", 80, 4, 4, ScalarType::uint8},
    {"bgra8unorm_srgb", 81, 4, 4, ScalarType::uint8}, {"rgb10a2unorm", 90, 4, 1, ScalarType::uint32},
    {"rgb10a2uint", 91, 4, 1, ScalarType::uint32},    {"rg11b10float", 92, 4, 1, ScalarType::uint32},
    {"bgr10a2unorm", 94, 4, 1, ScalarType::uint32},   {"rg32uint", 103, 8, 2, ScalarType::uint32},
    {"rg32sint", 104, 8, 2, ScalarType::int32},       {"rg32float", 105, 8, 2, ScalarType::float32},
    {"rgba16unorm", 110, 8, 4, ScalarType::uint16},   {"rgba16snorm", 112, 8, 4, ScalarType::int16},
    {"rgba16uint", 113, 8, 4, ScalarType::uint16},    {"rgba16sint", 114, 8, 4, ScalarType::int16},
    {"rgba16float", 115, 8, 4, ScalarType::float16},  {"rgba32uint", 123, 16, 4, ScalarType::uint32},
    {"rgba32sint", 124, 16, 4, ScalarType::int32},    {"rgba32float", 125, 16, 4, ScalarType::float32},
    {"depth16unorm", 250, 2, 1, ScalarType::uint16},  {"depth32float", 252, 4, 1, ScalarType::float32},
};

} // namespace

std::span<const PixelFormat> pixel_formats() {
    return formats;
}

const PixelFormat& find_pixel_format(std::string_view name) {
    const auto* found =
        std::find_if(std::begin(formats), std::end(formats), [name](const PixelFormat& f) { return f.name == name; });
    if (found != std::end(formats))
        return *found;
    std::string names;
    for (const PixelFormat& format : formats)
        names += (names.empty() ? "" : ", ") + std::string(format.name);
    throw ArgumentError("Texture: there is no pixel format \"" + std::string(name) + "\"; there are " + names);
}

} // namespace metalki
