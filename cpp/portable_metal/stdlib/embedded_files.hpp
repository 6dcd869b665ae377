// The headers of the MSL standard library, embedded in the library: no file is read at run time.
#pragma once

#include <span>
#include <string_view>

namespace metalki::stdlib {

// `name` is what a program includes, for example "metal_math" or "simd/simd.h".
struct EmbeddedFile {
    std::string_view name;
    std::string_view text;
};

std::span<const EmbeddedFile> embedded_files();

} // namespace metalki::stdlib
