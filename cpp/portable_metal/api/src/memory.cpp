// See memory.hpp.
#include "memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "cpu/apart_memory.hpp"
#include "device.hpp"
#include "small_blocks.hpp"

namespace metalki::api {
namespace {

constexpr std::size_t huge_page = 2 << 20;

// What a large block takes: few enough sizes that a freed block fits the next buffer of about that length.
std::size_t capacity(std::size_t length) {
    const std::size_t unit = std::bit_floor(length) / 16;
    return (length + unit - 1) / unit * unit;
}

std::byte* new_pages(std::size_t size) {
    std::byte* memory = cpu::map_apart(size, size < huge_page ? 1 : huge_page);
#ifdef MADV_HUGEPAGE
    // A sixth of the time for first touches, and fewer translations to look up.
    if (memory && size >= huge_page)
        madvise(memory, size, MADV_HUGEPAGE);
#endif
    return memory;
}

// Blocks of pages that were given back. Touching fresh pages costs several times what is done with them then.
class KeptBlocks {
public:
    std::byte* take(std::size_t size) {
        const std::unique_lock lock(mutex_, std::try_to_lock); // a forked child may find it locked for ever
        const auto found = lock ? blocks_.find(size) : blocks_.end();
        if (!lock || found == blocks_.end() || found->second.empty())
            return nullptr;
        std::byte* block = found->second.back();
        found->second.pop_back();
        bytes_ -= size;
        return block;
    }

    bool keep(std::byte* block, std::size_t size) {
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock || size > most_of_one || bytes_ + size > most_of_all)
            return false;
        try {
            blocks_[size].push_back(block);
        } catch (const std::bad_alloc&) {
            return false;
        }
        bytes_ += size;
        return true;
    }

    // False when there was nothing to give back to the system.
    bool drop() {
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock || bytes_ == 0)
            return false;
        for (const auto& [size, blocks] : blocks_)
            for (std::byte* block : blocks)
                cpu::unmap_apart(block, size);
        blocks_.clear();
        bytes_ = 0;
        return true;
    }

private:
    static constexpr std::size_t most_of_one = 32 << 20;
    const std::size_t most_of_all = std::min<std::uint64_t>(128 << 20, physical_memory() / 64);
    std::mutex mutex_;
    std::unordered_map<std::size_t, std::vector<std::byte*>> blocks_;
    std::size_t bytes_ = 0;
};

KeptBlocks& kept_blocks() {
    static KeptBlocks* const blocks = new KeptBlocks; // buffers may outlive static objects
    return *blocks;
}

// Large blocks come as fresh pages that the system zeroes on first touch.
std::byte* memory_of(std::size_t length, Contents contents) {
    const bool is_small = length <= largest_small_block;
    std::byte* used = is_small ? small_blocks().allocate(length) : kept_blocks().take(capacity(length));
    if (used && contents == Contents::zero)
        std::memset(used, 0, length);
    return used || is_small ? used : new_pages(capacity(length));
}

} // namespace

std::byte* allocate_memory(std::size_t length, Contents contents) {
    if (!promise_host_memory(length) && !(kept_blocks().drop() && promise_host_memory(length)))
        return nullptr;
    std::byte* memory = memory_of(length, contents);
    if (!memory && kept_blocks().drop())
        memory = memory_of(length, contents);
    if (!memory)
        give_back_host_memory(length);
    return memory;
}

void deallocate_memory(std::byte* memory, std::size_t length) {
    give_back_host_memory(length);
    if (length <= largest_small_block)
        small_blocks().deallocate(memory);
    else if (!kept_blocks().keep(memory, capacity(length)))
        cpu::unmap_apart(memory, capacity(length));
}

void copy_memory(void* destination, const void* source, std::size_t length) {
#if defined(__SSE2__)
    auto* to = static_cast<std::byte*>(destination);
    const auto* from = static_cast<const std::byte*>(source);
    constexpr std::size_t worth_while = 3 << 19, line = 64; // what fits a core's cache twice stays there
    if (length >= worth_while) {
        const std::size_t before = (line - reinterpret_cast<std::uintptr_t>(destination) % line) % line;
        std::memcpy(to, from, before);
        std::size_t at = before;
        for (; at + line <= length; at += line) {
            const auto* read = reinterpret_cast<const __m128i*>(from + at);
            auto* written = reinterpret_cast<__m128i*>(to + at);
            const __m128i a = _mm_loadu_si128(read), b = _mm_loadu_si128(read + 1);
            const __m128i c = _mm_loadu_si128(read + 2), d = _mm_loadu_si128(read + 3);
            _mm_stream_si128(written, a);
            _mm_stream_si128(written + 1, b);
            _mm_stream_si128(written + 2, c);
            _mm_stream_si128(written + 3, d);
        }
        _mm_sfence();
        std::memcpy(to + at, from + at, length - at);
        return;
    }
#endif
    std::memcpy(destination, source, length);
}

} // namespace metalki::api
