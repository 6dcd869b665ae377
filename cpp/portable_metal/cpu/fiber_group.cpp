// Schedules the fibers of a threadgroup.
#include "cpu/fiber_group.hpp"

#include <algorithm>
#include <bit>
#include <new>

namespace metalki::cpu {

namespace {

// Neighbouring stacks start in different cache sets: without this, 1024 fibers fight for the same few.
constexpr std::uint32_t colours = 64;
constexpr std::size_t colour_bytes = 128;

// Stacks that large are given back after a dispatch.
constexpr std::size_t large_total = std::size_t{64} << 20;
constexpr std::size_t huge_total = std::size_t{4} << 30;
constexpr std::size_t largest_stack = std::size_t{1} << 32;

// Read in a signal handler, where only the initial-exec model is safe from lazy allocation.
__attribute__((tls_model("initial-exec"))) constinit thread_local FiberGroup* current_group = nullptr;

std::uint32_t lane_mask(std::uint32_t lanes) {
    return lanes == 32 ? UINT32_MAX : (1u << lanes) - 1;
}

} // namespace

void FiberGroup::reserve(std::uint32_t threads, std::size_t stack_bytes) {
    if (stack_bytes > largest_stack)
        throw std::bad_alloc();
    const std::size_t needed = stack_bytes + colours * colour_bytes;
    if (threads <= stacks_.blocks() && needed <= stacks_.block_bytes())
        return;
    const std::size_t blocks = std::max<std::size_t>(threads, stacks_.blocks());
    const std::size_t bytes = std::max(needed, stacks_.block_bytes());
    give_up_stacks();
    stacks_ = GuardedMemory(std::bit_ceil(blocks), bytes);
    fibers_.resize(stacks_.blocks());
}

void FiberGroup::give_up_stacks() {
    fibers_.clear();
    stacks_ = GuardedMemory();
    size_ = {};
}

// Only the fibers that this group needs: small threadgroups do not touch the stacks of large ones.
void FiberGroup::prepare_fibers() {
    for (std::uint32_t i = 0; i < threads_; ++i) {
        Fiber& fiber = fibers_[i];
        if (fiber.context.stack_pointer != nullptr)
            continue;
        fiber.group = this;
        std::byte* bottom = stacks_.block(i);
        std::byte* top = bottom + stacks_.block_bytes() - i % colours * colour_bytes;
        prepare_context(fiber.context, bottom, top, &FiberGroup::fiber_main, &fiber);
    }
}

void FiberGroup::place_threads(const compiler::Uint3& size) {
    if (size.x == size_.x && size.y == size_.y && size.z == size_.z)
        return;
    size_ = size;
    threads_ = size.x * size.y * size.z;
    std::uint32_t index = 0;
    for (std::uint32_t z = 0; z < size.z; ++z)
        for (std::uint32_t y = 0; y < size.y; ++y)
            for (std::uint32_t x = 0; x < size.x; ++x)
                fibers_[index++].position = {x, y, z};
}

FiberGroup* FiberGroup::current() {
    return current_group;
}

bool FiberGroup::run(const compiler::ThreadgroupContext& context, compiler::ThreadEntry entry) {
    place_threads(context.threads_in_this_threadgroup);
    prepare_fibers();
    threadgroup_ = &context;
    entry_ = entry;
    const std::uint32_t count = (threads_ + 31) / 32;
    for (std::uint32_t g = 0; g < count; ++g) {
        const std::uint32_t lanes = std::min<std::uint32_t>(32, threads_ - g * 32);
        groups_[g] = {lanes, lane_mask(lanes), 0, 0};
    }
    pending_simd_groups_ = lane_mask(count);
    current_simd_group_ = 0;
    current_ = next_runnable();
    outside_ = {};
    current_group = this;
    leave_context(outside_, fibers_[current_].context);
    arrived_in_context(outside_, outside_);
    current_group = nullptr;
    if (!abandoned_)
        return true;
    abandoned_ = false;
    forget_fibers();
    stacks_.release_pages();
    return false;
}

void FiberGroup::forget_fibers() {
    for (Fiber& fiber : fibers_)
        fiber.context = {};
}

METALKI_NO_ADDRESS_SANITIZER void FiberGroup::fiber_main(void* argument) {
    // No thread-local variable here: the next threadgroup may find this fiber on another thread.
    auto& fiber = *static_cast<Fiber*>(argument);
    FiberGroup& group = *fiber.group;
    arrived_in_context(fiber.context, group.outside_);
    for (;;) {
        group.entry_(group.threadgroup_, fiber.position.x, fiber.position.y, fiber.position.z);
        group.end_of_thread();
    }
}

std::uint32_t FiberGroup::next_runnable() {
    for (;;) {
        SimdGroup& group = groups_[current_simd_group_];
        if (group.runnable != 0) {
            const auto lane = static_cast<std::uint32_t>(std::countr_zero(group.runnable));
            group.runnable &= group.runnable - 1;
            return current_simd_group_ * 32 + lane;
        }
        if (group.at_operation != 0) {
            serve_lowest_site(current_simd_group_);
            continue;
        }
        pending_simd_groups_ &= ~(1u << current_simd_group_);
        if (pending_simd_groups_ == 0)
            open_barrier();
        if (pending_simd_groups_ == 0)
            return nobody;
        current_simd_group_ = static_cast<std::uint32_t>(std::countr_zero(pending_simd_groups_));
    }
}

void FiberGroup::serve_lowest_site(std::uint32_t index) {
    SimdGroup& group = groups_[index];
    LaneRequests& requests = requests_[index];
    std::uint32_t lowest = UINT32_MAX, chosen = 0;
    for (std::uint32_t waiting = group.at_operation; waiting != 0; waiting &= waiting - 1) {
        const auto lane = static_cast<std::size_t>(std::countr_zero(waiting));
        const std::uint32_t bit = waiting & (~waiting + 1);
        if (chosen == 0 || requests[lane].site < lowest) {
            lowest = requests[lane].site;
            chosen = bit;
        } else if (requests[lane].site == lowest) {
            chosen |= bit;
        }
    }
    evaluate(requests, chosen, group.lanes);
    group.at_operation &= ~chosen;
    group.runnable = chosen;
}

void FiberGroup::open_barrier() {
    const std::uint32_t count = (threads_ + 31) / 32;
    for (std::uint32_t g = 0; g < count; ++g) {
        if (groups_[g].at_barrier == 0)
            continue;
        groups_[g].runnable = groups_[g].at_barrier;
        groups_[g].at_barrier = 0;
        pending_simd_groups_ |= 1u << g;
    }
}

void FiberGroup::wait() {
    const std::uint32_t self = current_;
    const std::uint32_t next = next_runnable();
    if (next == self)
        return;
    current_ = next;
    Context& here = fibers_[self].context;
    leave_context(here, fibers_[next].context);
    arrived_in_context(here, outside_);
}

void FiberGroup::wait_at_barrier() {
    groups_[current_ / 32].at_barrier |= 1u << current_ % 32;
    wait();
}

std::uint64_t FiberGroup::wait_for_lanes(const LaneRequest& request) {
    LaneRequest& mine = requests_[current_ / 32][current_ % 32];
    mine = request;
    groups_[current_ / 32].at_operation |= 1u << current_ % 32;
    wait();
    return mine.result;
}

METALKI_NO_ADDRESS_SANITIZER void FiberGroup::end_of_thread() {
    Context& here = fibers_[current_].context;
    const std::uint32_t next = next_runnable();
    if (next != nobody)
        current_ = next;
    leave_context(here, next == nobody ? outside_ : fibers_[next].context, true);
    arrived_in_context(here, outside_);
}

void FiberGroup::abandon() {
    abandoned_ = true;
    Context lost;
    leave_context(lost, outside_, true);
    __builtin_unreachable();
}

void FiberGroup::trim() {
    const std::size_t total = stacks_.blocks() * stacks_.block_bytes();
    if (total > huge_total) {
        give_up_stacks();
    } else if (total > large_total) {
        forget_fibers();
        stacks_.release_pages();
    }
}

} // namespace metalki::cpu
