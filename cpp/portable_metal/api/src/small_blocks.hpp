// Memory of small buffers: blocks of one size lie in runs, and nothing of the book-keeping lies where kernels write.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace metalki::api {

constexpr std::size_t largest_small_block = 65535;

class SmallBlocks {
public:
    // Null when memory is short. What the block holds is undefined; its address is a multiple of 256.
    std::byte* allocate(std::size_t length);
    void deallocate(std::byte* block);

private:
    static constexpr std::size_t least_block = 256;
    static constexpr std::size_t run_bytes = 256 * 1024;
    static constexpr std::size_t classes = 48;

    struct Run {
        std::byte* start = nullptr; // of the first block
        std::uint32_t stride = 0;
        std::uint16_t blocks = 0, used = 0;
        std::uint16_t size_class = 0;
        std::uint16_t first_word = 0; // none before it has a free block
        std::size_t place = 0;        // among the runs of its class that have a free block
        std::array<std::uint64_t, run_bytes / least_block / 64> free{};
    };

    bool add_runs();
    Run* open_run(std::size_t size_class);
    void close(Run& run);
    void open(Run& run);
    void give_back(Run& run);

    std::mutex mutex_;
    std::array<std::vector<Run*>, classes> open_;
    std::vector<std::byte*> unused_;               // places for runs
    std::unordered_map<std::uintptr_t, Run> runs_; // by address
};

// Never destroyed: buffers may outlive static objects.
SmallBlocks& small_blocks();

} // namespace metalki::api
