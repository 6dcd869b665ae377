// See small_blocks.hpp.
#include "small_blocks.hpp"

#include <bit>
#include <new>
#include <thread>

#include <sys/mman.h>

#include "commands.hpp"
#include "cpu/apart_memory.hpp"

namespace metalki::api {
namespace {

// Mapped at once: one mapping for many blocks.
constexpr std::size_t slab_bytes = 8 << 20;

// Runs start in different cache sets.
constexpr std::size_t colours = 16, colour_bytes = 256;

// Every 256 bytes up to 4 KiB, eight sizes between powers of two beyond.
constexpr std::size_t even_sizes = 16;

std::size_t class_of(std::size_t length) {
    const std::size_t last = length - 1;
    if (last < even_sizes * 256)
        return last / 256;
    const auto octave = static_cast<std::size_t>(std::bit_width(last)) - 13;
    return even_sizes + 8 * octave + (last - (std::size_t{4096} << octave)) / (std::size_t{512} << octave);
}

std::size_t size_of(std::size_t size_class) {
    if (size_class < even_sizes)
        return (size_class + 1) * 256;
    const std::size_t octave = (size_class - even_sizes) / 8;
    return (std::size_t{4096} << octave) + ((size_class - even_sizes) % 8 + 1) * (std::size_t{512} << octave);
}

// Arrays at multiples of 4096 bytes fight for the same cache sets, and stores are taken for loads of another.
std::size_t stride_of(std::size_t size_class) {
    const std::size_t size = size_of(size_class);
    return size < 4096 ? size : size | 256;
}

// Without a lock in a forked child where another thread had the mutex: nobody unlocks it there.
std::unique_lock<std::mutex> lock_of(std::mutex& mutex) {
    std::unique_lock lock(mutex, std::try_to_lock);
    while (!lock && !forked_after_use()) {
        std::this_thread::yield();
        static_cast<void>(lock.try_lock());
    }
    return lock;
}

} // namespace

SmallBlocks& small_blocks() {
    static SmallBlocks* const blocks = new SmallBlocks;
    return *blocks;
}

bool SmallBlocks::add_runs() {
    std::byte* slab = cpu::map_apart(slab_bytes, run_bytes);
    if (!slab)
        return false;
    for (std::size_t at = slab_bytes; at > 0; at -= run_bytes)
        unused_.push_back(slab + at - run_bytes);
    return true;
}

void SmallBlocks::open(Run& run) {
    std::vector<Run*>& runs = open_[run.size_class];
    run.place = runs.size();
    runs.push_back(&run);
}

void SmallBlocks::close(Run& run) {
    std::vector<Run*>& runs = open_[run.size_class];
    runs.back()->place = run.place;
    runs[run.place] = runs.back();
    runs.pop_back();
}

SmallBlocks::Run* SmallBlocks::open_run(std::size_t size_class) {
    if (!open_[size_class].empty())
        return open_[size_class].back();
    if (unused_.empty() && !add_runs())
        return nullptr;
    std::byte* place = unused_.back();
    const std::uintptr_t key = reinterpret_cast<std::uintptr_t>(place) / run_bytes;
    Run& run = runs_[key];
    run = {};
    run.size_class = static_cast<std::uint16_t>(size_class);
    run.stride = static_cast<std::uint32_t>(stride_of(size_class));
    run.start = place + key % colours * colour_bytes;
    run.blocks = static_cast<std::uint16_t>((run_bytes - colours * colour_bytes) / run.stride);
    for (std::size_t i = 0; i < run.blocks; ++i)
        run.free[i / 64] |= std::uint64_t{1} << i % 64;
    open(run);
    unused_.pop_back();
    return &run;
}

std::byte* SmallBlocks::allocate(std::size_t length) {
    const auto lock = lock_of(mutex_);
    if (!lock)
        return nullptr;
    try {
        Run* run = open_run(class_of(length));
        if (!run)
            return nullptr;
        while (run->free[run->first_word] == 0)
            ++run->first_word;
        std::uint64_t& word = run->free[run->first_word];
        const std::size_t index = run->first_word * std::size_t{64} + static_cast<std::size_t>(std::countr_zero(word));
        word &= word - 1;
        if (++run->used == run->blocks)
            close(*run);
        return run->start + index * run->stride;
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

void SmallBlocks::deallocate(std::byte* block) {
    const auto lock = lock_of(mutex_);
    if (!lock)
        return;
    Run& run = runs_.at(reinterpret_cast<std::uintptr_t>(block) / run_bytes);
    const std::size_t index = static_cast<std::size_t>(block - run.start) / run.stride;
    run.free[index / 64] |= std::uint64_t{1} << index % 64;
    run.first_word = std::min<std::uint16_t>(run.first_word, static_cast<std::uint16_t>(index / 64));
    if (run.used-- == run.blocks)
        open(run);
    // One run of a size stays, or a program that makes and frees one buffer would fetch its pages each time.
    if (run.used == 0 && open_[run.size_class].size() > 1)
        give_back(run);
}

void SmallBlocks::give_back(Run& run) {
    const std::uintptr_t key = reinterpret_cast<std::uintptr_t>(run.start) / run_bytes;
    auto* place = run.start - key % colours * colour_bytes;
    close(run);
    madvise(place, run_bytes, MADV_FREE); // taken by the system when it needs them, and no page faults until then
    unused_.push_back(place);
    runs_.erase(key);
}

} // namespace metalki::api
