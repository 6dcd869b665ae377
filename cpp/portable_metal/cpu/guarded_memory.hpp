// Zeroed memory straight from the system, with inaccessible pages around it. Costs nothing until touched.
#pragma once

#include <cstddef>
#include <utility>

namespace metalki::cpu {

class GuardedMemory {
public:
    GuardedMemory() = default;
    // Reserves `blocks` blocks of `block_bytes` (rounded up to pages) with a guard below each and one at the end.
    // Throws std::bad_alloc when the system refuses.
    GuardedMemory(std::size_t blocks, std::size_t block_bytes);
    ~GuardedMemory();
    GuardedMemory(GuardedMemory&& other) noexcept { swap(other); }
    GuardedMemory& operator=(GuardedMemory&& other) noexcept {
        GuardedMemory taken(std::move(other));
        swap(taken);
        return *this;
    }

    std::size_t blocks() const { return blocks_; }
    std::size_t block_bytes() const { return block_bytes_; }
    std::byte* block(std::size_t index) const;
    // Whether the address lies in a guard.
    bool guards(const void* address) const;
    // Gives the pages back to the system; the content is zero again.
    void release_pages();

private:
    void swap(GuardedMemory& other) noexcept;

    std::byte* base_ = nullptr;
    std::size_t reserved_ = 0;
    std::size_t blocks_ = 0;
    std::size_t block_bytes_ = 0;
    std::size_t counted_guards_ = 0;
};

} // namespace metalki::cpu
