// Memory of buffers, apart from all other memory: small blocks together, large ones in pages, some kept for the next buffer.
#pragma once

#include <cstddef>

namespace metalki::api {

enum class Contents { zero, undefined };

// Null when memory is short. Pages are had when they are touched, which is too late to say no: so what is promised counts.
std::byte* allocate_memory(std::size_t length, Contents contents);
void deallocate_memory(std::byte* memory, std::size_t length);

// memcpy that does not read the destination's cache lines before it replaces them, where the size makes that worth while.
void copy_memory(void* destination, const void* source, std::size_t length);

} // namespace metalki::api
