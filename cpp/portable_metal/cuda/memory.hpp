// Memory of a GPU and memory of the host that it can reach. Freed blocks wait for their next use: the driver takes long.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "cuda/device.hpp"

namespace metalki::cuda {

// Blocks by their size. Small ones are cut out of larger pieces.
class BlockCache {
public:
    // From the system: null when there is none.
    using Allocate = std::function<void*(std::size_t)>;
    using Free = std::function<void(void*, std::size_t)>;
    BlockCache(Allocate allocate, Free free, std::size_t most_kept)
        : allocate_(std::move(allocate)), free_(std::move(free)), most_kept_(most_kept) {}

    struct Block {
        void* address = nullptr; // null: there is none
        bool fresh = false;      // comes from the system just now
    };
    Block take(std::size_t bytes);
    void give_back(void* address, std::size_t bytes);
    // All blocks are gone with the context.
    void forget();

    // Blocks of `bytes` have this size.
    static std::size_t rounded(std::size_t bytes);

private:
    void* from_system(std::size_t bytes);
    Block cut(std::size_t bytes);

    const Allocate allocate_;
    const Free free_;
    const std::size_t most_kept_;
    std::mutex mutex_;
    std::map<std::size_t, std::vector<void*>> blocks_;
    std::size_t kept_ = 0; // bytes of the large ones in blocks_
    std::byte *piece_ = nullptr, *piece_end_ = nullptr;
};

// Safe to use from several threads. Lives as long as the process.
class Memory {
public:
    explicit Memory(Device& device);

    // 0 when there is not enough. Throws Error for other failures.
    Address allocate_on_device(std::size_t bytes, bool zeroed = true);
    // `generation`: the device's when the memory was allocated.
    void free_on_device(Address address, std::size_t bytes, std::uint64_t generation);

    // Host memory at one address for host and device. It outlives faults of the device. Null when there is not
    // enough.
    std::byte* allocate_on_host(std::size_t bytes, bool zeroed = true);
    void free_on_host(std::byte* address, std::size_t bytes);

    // Lets the device reach memory of the caller; whole pages. False when it cannot.
    bool add_host_range(void* address, std::size_t bytes);
    void remove_host_range(void* address);

private:
    void* device_piece(std::size_t bytes);
    void* host_piece(std::size_t bytes);
    void free_host_piece(void* address, std::size_t bytes);
    bool register_range(void* address, std::size_t bytes);
    void clear(Address address, std::size_t bytes);
    void renewed();

    Device& device_;
    BlockCache device_blocks_, host_blocks_;
    StreamHandle stream_ = nullptr; // for clearing; others need not wait for it
    std::mutex ranges_mutex_;
    std::map<void*, std::size_t> ranges_; // registered; to be registered again in a new context
};

} // namespace metalki::cuda
