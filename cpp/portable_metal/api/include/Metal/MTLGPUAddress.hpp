// Addresses as kernels see them.
#pragma once

#include <cstdint>

namespace MTL {
using GPUAddress = std::uint64_t;
} // namespace MTL
