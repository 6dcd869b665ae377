// Memory of kernels, in a part of the address space where the process has nothing else: what a kernel writes far past an array
// meets nothing there, and becomes an error of that kernel.
#pragma once

#include <cstddef>

namespace metalki::cpu {

// Zeroed pages, at least a gigabyte away from any others where the system allows that; null when it refuses. The address is a
// multiple of the page size and of `alignment`, a power of two. `flags`: further ones of mmap.
std::byte* map_apart(std::size_t size, std::size_t alignment = 1, int flags = 0);
void unmap_apart(std::byte* memory, std::size_t size);

// Whether the address lies in that part.
bool is_apart(const void* address);

} // namespace metalki::cpu
