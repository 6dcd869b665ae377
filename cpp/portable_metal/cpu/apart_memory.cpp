// Chooses addresses for mmap.
#include "cpu/apart_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>

#include <sys/mman.h>
#include <unistd.h>

#if defined(MAP_FIXED_NOREPLACE) && UINTPTR_MAX > UINT32_MAX
#define METALKI_CHOOSES_ADDRESSES 1
// There in a program under ThreadSanitizer, which this file itself may be built without.
extern "C" [[gnu::weak]] void __tsan_init();
#endif

namespace metalki::cpu {

namespace {

// Systems put programs, libraries, heaps and stacks terabytes above, and old runtimes their heaps below.
constexpr std::uintptr_t first_address = 0x1000'0000'0000, end_address = 0x5000'0000'0000;
// No power of two: indices that are wrong by one bit are frequent.
constexpr std::uintptr_t slot_bytes = (std::uintptr_t{2} << 30) + (std::uintptr_t{232} << 20);
constexpr std::uintptr_t gap_bytes = std::uintptr_t{3} << 29;
constexpr std::uintptr_t slots = (end_address - first_address) / slot_bytes;

// Memory of equal alignment everywhere would fight for the same few entries of the caches of translations.
constexpr std::uintptr_t colours = 64;

// Each such block is a mapping of its own, and Linux allows 65530 in a process. Neighbours elsewhere become one.
constexpr std::size_t most_blocks = 16384;
constexpr int most_attempts = 64;

constexpr int protection = PROT_READ | PROT_WRITE, anonymous = MAP_PRIVATE | MAP_ANONYMOUS;

std::atomic<std::uintptr_t> next_slot{0};
std::atomic<std::size_t> blocks{0};

#if METALKI_CHOOSES_ADDRESSES
std::byte* map_at(std::uintptr_t address, std::size_t size, int flags) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the address is the point.
    void* wanted = reinterpret_cast<void*>(address);
    void* mapped = mmap(wanted, size, protection, anonymous | MAP_FIXED_NOREPLACE | flags, -1, 0);
    if (mapped == MAP_FAILED)
        return nullptr;
    if (mapped == wanted)
        return static_cast<std::byte*>(mapped);
    munmap(mapped, size); // a system that does not know the flag
    errno = ENOSYS;
    return nullptr;
}

// What was freed leaves holes, so that the next place can be taken once all have had their turn.
std::byte* map_in_a_slot(std::size_t size, std::size_t alignment, int flags) {
    const std::uintptr_t needed = (size + gap_bytes + slot_bytes - 1) / slot_bytes;
    if (size > end_address - first_address || needed > slots / 2)
        return nullptr;
    if (&__tsan_init != nullptr) // it takes other addresses for its own, and asks the system for address 0 in their place
        return nullptr;
    if (blocks.fetch_add(1, std::memory_order_relaxed) < most_blocks)
        for (int attempt = 0; attempt < most_attempts; ++attempt) {
            const std::uintptr_t slot = next_slot.fetch_add(needed, std::memory_order_relaxed) % slots;
            const std::uintptr_t address = first_address + slot * slot_bytes + slot % colours * alignment;
            if (slot + needed > slots)
                continue;
            if (std::byte* memory = map_at(address, size, flags))
                return memory;
            if (errno != EEXIST)
                break;
        }
    blocks.fetch_sub(1, std::memory_order_relaxed);
    return nullptr;
}
#else
std::byte* map_in_a_slot(std::size_t, std::size_t, int) {
    return nullptr;
}
#endif

std::size_t page_size() {
    static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return size;
}

std::byte* map_anywhere(std::size_t size, std::size_t alignment, int flags) {
    const std::size_t more = alignment > page_size() ? alignment : 0;
    void* mapped = size > SIZE_MAX - more ? MAP_FAILED : mmap(nullptr, size + more, protection, anonymous | flags, -1, 0);
    if (mapped == MAP_FAILED)
        return nullptr;
    auto* start = static_cast<std::byte*>(mapped);
    if (more == 0)
        return start;
    const std::size_t before = (alignment - reinterpret_cast<std::uintptr_t>(start) % alignment) % alignment;
    if (before != 0)
        munmap(start, before);
    if (before != more)
        munmap(start + before + size, more - before);
    return start + before;
}

} // namespace

bool is_apart(const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) - first_address < end_address - first_address;
}

std::byte* map_apart(std::size_t size, std::size_t alignment, int flags) {
    alignment = std::max(alignment, page_size());
    std::byte* memory = map_in_a_slot(size, alignment, flags);
    return memory ? memory : map_anywhere(size, alignment, flags);
}

void unmap_apart(std::byte* memory, std::size_t size) {
    munmap(memory, size);
    if (is_apart(memory))
        blocks.fetch_sub(1, std::memory_order_relaxed);
}

} // namespace metalki::cpu
