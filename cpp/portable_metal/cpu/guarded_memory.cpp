// Memory apart from everything else, with guards made by mprotect.
#include "cpu/guarded_memory.hpp"

#include <atomic>
#include <cstdint>
#include <limits>
#include <new>

#include <sys/mman.h>
#include <unistd.h>

#include "cpu/apart_memory.hpp"
#include "cpu/context.hpp"

namespace metalki::cpu {

namespace {

// Wide enough that a frame of ordinary size cannot step over it.
constexpr std::size_t guard_bytes = 16384;

// Every inner guard splits a mapping in two, and Linux allows 65530 mappings in a process; the rest is for others.
constexpr std::size_t most_guards = 16384;
std::atomic<std::size_t> guards_in_use{0};

bool count_guards(std::size_t count) {
    if (guards_in_use.fetch_add(count, std::memory_order_relaxed) + count <= most_guards)
        return true;
    guards_in_use.fetch_sub(count, std::memory_order_relaxed);
    return false;
}

std::size_t round_to_pages(std::size_t bytes) {
    static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return (bytes + page - 1) / page * page;
}

} // namespace

GuardedMemory::GuardedMemory(std::size_t blocks, std::size_t block_bytes) {
    const std::size_t largest = std::numeric_limits<std::ptrdiff_t>::max();
    if (blocks == 0 || block_bytes > largest / 2 ||
        round_to_pages(block_bytes) + guard_bytes > (largest - guard_bytes) / blocks)
        throw std::bad_alloc();
    const std::size_t rounded = round_to_pages(block_bytes);
    const std::size_t reserved = blocks * (rounded + guard_bytes) + guard_bytes;
    base_ = map_apart(reserved, 1, MAP_NORESERVE);
    if (base_ == nullptr)
        throw std::bad_alloc();
    reserved_ = reserved;
    blocks_ = blocks;
    block_bytes_ = rounded;
    madvise(base_, reserved, MADV_NOHUGEPAGE);

    // A guard that cannot be had is only a missing safety net: the outer two always come first.
    mprotect(base_, guard_bytes, PROT_NONE);
    mprotect(base_ + reserved - guard_bytes, guard_bytes, PROT_NONE);
    if (blocks > 1 && count_guards(blocks - 1)) {
        counted_guards_ = blocks - 1;
        for (std::size_t i = 1; i < blocks; ++i)
            if (mprotect(block(i) - guard_bytes, guard_bytes, PROT_NONE) != 0)
                break;
    }
}

GuardedMemory::~GuardedMemory() {
    if (base_ == nullptr)
        return;
#ifdef METALKI_ADDRESS_SANITIZER
    __asan_unpoison_memory_region(base_, reserved_);
#endif
    unmap_apart(base_, reserved_);
    guards_in_use.fetch_sub(counted_guards_, std::memory_order_relaxed);
}

std::byte* GuardedMemory::block(std::size_t index) const {
    return base_ + guard_bytes + index * (block_bytes_ + guard_bytes);
}

bool GuardedMemory::guards(const void* address) const {
    const auto offset = reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(base_);
    return base_ != nullptr && offset < reserved_ && offset % (block_bytes_ + guard_bytes) < guard_bytes;
}

void GuardedMemory::release_pages() {
#ifdef METALKI_ADDRESS_SANITIZER
    __asan_unpoison_memory_region(base_, reserved_);
#endif
    if (base_ != nullptr)
        madvise(base_, reserved_, MADV_DONTNEED);
}

void GuardedMemory::swap(GuardedMemory& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(reserved_, other.reserved_);
    std::swap(blocks_, other.blocks_);
    std::swap(block_bytes_, other.block_bytes_);
    std::swap(counted_guards_, other.counted_guards_);
}

} // namespace metalki::cpu
