// `#include <kernel_interface>`: what kernels may use beside plain MSL, the same text for Apple's compiler and the portable
// one.
#pragma once

#include <string_view>

namespace metalki::detail {

inline constexpr std::string_view device_header_name = "kernel_interface";

std::string_view device_header();

// True when `source` asks for the header.
bool includes_device_header(std::string_view source);

} // namespace metalki::detail
