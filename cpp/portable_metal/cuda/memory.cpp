// Allocation on the device and of host memory that the device reaches.
#include "cuda/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace metalki::cuda {
namespace {

constexpr std::size_t smallest = 256;
constexpr std::size_t largest_cut = 256 << 10; // larger blocks come from the system one by one
constexpr std::size_t piece_bytes = 4 << 20;
constexpr std::size_t most_kept_of_host = 128 << 20;

void* pointer_to(Address address) {
    return reinterpret_cast<void*>(address);
}

} // namespace

// Four sizes between powers of two, but never more than a page of the device is lost.
std::size_t BlockCache::rounded(std::size_t bytes) {
    if (bytes <= smallest)
        return smallest;
    constexpr std::size_t device_page = 2 << 20;
    const std::size_t step = std::clamp(std::bit_floor(bytes - 1) / 4, smallest, device_page);
    return (bytes + step - 1) / step * step;
}

void* BlockCache::from_system(std::size_t bytes) {
    void* block = allocate_(bytes);
    if (block)
        return block;
    for (auto& [size, list] : blocks_) {
        if (size <= largest_cut)
            continue;
        for (void* kept : list)
            free_(kept, size);
        list.clear();
    }
    kept_ = 0;
    return allocate_(bytes);
}

BlockCache::Block BlockCache::cut(std::size_t bytes) {
    if (bytes > static_cast<std::size_t>(piece_end_ - piece_)) {
        auto* made = static_cast<std::byte*>(from_system(piece_bytes));
        if (!made)
            return {};
        piece_ = made;
        piece_end_ = made + piece_bytes;
    }
    return {std::exchange(piece_, piece_ + bytes), true};
}

BlockCache::Block BlockCache::take(std::size_t bytes) {
    const std::size_t size = rounded(bytes);
    const std::lock_guard lock(mutex_);
    auto& list = blocks_[size];
    if (!list.empty()) {
        void* block = list.back();
        list.pop_back();
        kept_ -= size > largest_cut ? size : 0;
        return {block, false};
    }
    return size <= largest_cut ? cut(size) : Block{from_system(size), true};
}

void BlockCache::give_back(void* address, std::size_t bytes) {
    const std::size_t size = rounded(bytes);
    const std::lock_guard lock(mutex_);
    if (size > largest_cut) {
        if (kept_ + size > most_kept_)
            return free_(address, size);
        kept_ += size;
    }
    blocks_[size].push_back(address);
}

void BlockCache::forget() {
    const std::lock_guard lock(mutex_);
    blocks_.clear();
    kept_ = 0;
    piece_ = piece_end_ = nullptr;
}

Memory::Memory(Device& device)
    : device_(device),
      device_blocks_([this](std::size_t bytes) { return device_piece(bytes); },
                     [](void* address, std::size_t) { driver().memory_free(address_of(address)); }, device.facts().memory / 8),
      host_blocks_([this](std::size_t bytes) { return host_piece(bytes); },
                   [this](void* address, std::size_t bytes) { free_host_piece(address, bytes); }, most_kept_of_host) {
    device.on_renewal([this] { renewed(); });
}

void* Memory::device_piece(std::size_t bytes) {
    Address address = 0;
    const Result code = driver().memory_allocate(&address, bytes);
    if (code != Result::out_of_memory)
        check(code, "cuMemAlloc of " + std::to_string(bytes) + " bytes");
    return code == Result::success ? pointer_to(address) : nullptr;
}

// Pages of our own, which stay when the context goes.
void* Memory::host_piece(std::size_t bytes) {
    void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED)
        return nullptr;
    if (register_range(address, bytes))
        return address;
    munmap(address, bytes);
    return nullptr;
}

void Memory::free_host_piece(void* address, std::size_t bytes) {
    remove_host_range(address);
    munmap(address, bytes);
}

bool Memory::register_range(void* address, std::size_t bytes) {
    const Result code = driver().host_register(address, bytes, host_register_portable | host_register_mapped);
    if (code == Result::out_of_memory)
        return false;
    check(code, "cuMemHostRegister of " + std::to_string(bytes) + " bytes");
    const std::lock_guard lock(ranges_mutex_);
    ranges_[address] = bytes;
    return true;
}

bool Memory::add_host_range(void* address, std::size_t bytes) {
    const Use use(device_);
    return register_range(address, bytes);
}

void Memory::remove_host_range(void* address) {
    {
        const std::lock_guard lock(ranges_mutex_);
        ranges_.erase(address);
    }
    try {
        const Use use(device_);
        driver().host_unregister(address);
    } catch (const std::exception&) {
        // Without its context the driver knows nothing of the range.
    }
}

void Memory::renewed() {
    device_blocks_.forget();
    check(driver().stream_create(&stream_, stream_non_blocking, 0), "cuStreamCreate");
    const std::lock_guard lock(ranges_mutex_);
    for (const auto& [address, bytes] : ranges_)
        check(driver().host_register(address, bytes, host_register_portable | host_register_mapped), "cuMemHostRegister");
}

void Memory::clear(Address address, std::size_t bytes) {
    check(driver().fill_bytes_async(address, 0, bytes, stream_), "cuMemsetD8Async");
    check(driver().stream_synchronize(stream_), "cuStreamSynchronize");
}

Address Memory::allocate_on_device(std::size_t bytes, bool zeroed) {
    const Use use(device_);
    const BlockCache::Block block = device_blocks_.take(bytes);
    if (block.address && zeroed)
        clear(address_of(block.address), bytes);
    return address_of(block.address);
}

void Memory::free_on_device(Address address, std::size_t bytes, std::uint64_t generation) {
    try {
        const Use use(device_);
        if (generation == device_.generation())
            device_blocks_.give_back(pointer_to(address), bytes);
    } catch (const std::exception&) {
        // With the context the memory is gone as well.
    }
}

std::byte* Memory::allocate_on_host(std::size_t bytes, bool zeroed) {
    const Use use(device_);
    const BlockCache::Block block = host_blocks_.take(bytes);
    if (block.address && zeroed && !block.fresh)
        std::memset(block.address, 0, bytes);
    return static_cast<std::byte*>(block.address);
}

void Memory::free_on_host(std::byte* address, std::size_t bytes) {
    try {
        const Use use(device_);
        host_blocks_.give_back(address, bytes);
    } catch (const std::exception&) {
        // Lost devices keep the memory: kernels that never end may still write to it.
    }
}

} // namespace metalki::cuda
