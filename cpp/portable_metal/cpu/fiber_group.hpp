// The threads of one threadgroup as fibers: who runs, who waits for whom.
//
// A fiber runs until it waits at a threadgroup barrier or a SIMD-group operation, or ends. Then the next runnable lane of
// the same SIMD-group runs. When a SIMD-group has none left, the lanes that wait at its lowest site are served and go on.
// When no SIMD-group has anything left to run or serve, all fibers have ended or wait at a barrier: the barrier opens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/kernel_abi.hpp"
#include "cpu/context.hpp"
#include "cpu/guarded_memory.hpp"
#include "cpu/simd_operations.hpp"

namespace metalki::cpu {

class FiberGroup {
public:
    FiberGroup() = default;
    FiberGroup(const FiberGroup&) = delete;
    FiberGroup& operator=(const FiberGroup&) = delete;

    // Makes room for `threads` fibers with at least `stack_bytes` of stack each. Throws std::bad_alloc.
    void reserve(std::uint32_t threads, std::size_t stack_bytes);

    // Runs all threads of the group that `context` describes and returns when the last has ended.
    // False: abandon() was called.
    bool run(const compiler::ThreadgroupContext& context, compiler::ThreadEntry entry);

    // Called on a fiber: waits until all other fibers have ended or wait as well.
    void wait_at_barrier();
    // Called on a fiber: waits for the other lanes of the SIMD-group; returns the result.
    std::uint64_t wait_for_lanes(const LaneRequest& request);

    // Called on a fiber that must not go on (from a signal handler): run() returns false. All fibers are given up.
    [[noreturn]] void abandon();

    // Gives back memory that only very large stacks needed.
    void trim();

    // The group whose fibers run on this thread now, or null.
    static FiberGroup* current();

    // The thread that runs now.
    compiler::Uint3 current_thread() const { return fibers_[current_].position; }
    std::size_t stack_bytes() const { return stacks_.block_bytes(); }
    bool guards(const void* address) const { return stacks_.guards(address); }

private:
    struct Fiber {
        Context context;
        FiberGroup* group = nullptr;
        compiler::Uint3 position{};
    };
    struct SimdGroup {
        std::uint32_t lanes = 0; // how many exist
        std::uint32_t runnable = 0;
        std::uint32_t at_barrier = 0;
        std::uint32_t at_operation = 0;
    };
    static constexpr std::uint32_t simd_groups = 32;
    static constexpr std::uint32_t nobody = UINT32_MAX;

    static void fiber_main(void* fiber);
    void prepare_fibers();
    void forget_fibers();
    void give_up_stacks();
    void place_threads(const compiler::Uint3& size);
    std::uint32_t next_runnable();
    void serve_lowest_site(std::uint32_t simd_group);
    void open_barrier();
    void wait();
    void end_of_thread();

    GuardedMemory stacks_;
    std::vector<Fiber> fibers_;
    bool abandoned_ = false;
    compiler::Uint3 size_{};
    std::uint32_t threads_ = 0;

    Context outside_;
    const compiler::ThreadgroupContext* threadgroup_ = nullptr;
    compiler::ThreadEntry entry_ = nullptr;
    std::uint32_t current_ = 0;
    std::uint32_t current_simd_group_ = 0;
    std::uint32_t pending_simd_groups_ = 0; // bit g: SIMD-group g may have something to run or serve
    std::array<SimdGroup, simd_groups> groups_{};
    std::array<LaneRequests, simd_groups> requests_{};
};

} // namespace metalki::cpu
