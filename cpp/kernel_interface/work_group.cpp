// Groups as large as the device allows save the cost of starting groups, but leave cores idle when there is little work, and
// threads idle where the work is no multiple of them.
#include "kernel_interface/work_group.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "kernel_interface/backend.hpp"

namespace metalki::detail {

namespace {

// Fewer threads than this are not worth several groups for a core.
constexpr std::uint64_t little_work = 8192;
constexpr std::uint64_t groups_for_a_core = 4;

constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
    return a / b + (a % b != 0);
}
constexpr std::uint64_t round_up(std::uint64_t a, std::uint64_t b) {
    return divide_up(a, b) * b;
}

// Threads that a group should have: whole SIMD-groups, and enough groups for the cores.
std::uint64_t wanted_threads(std::uint64_t work, std::uint64_t cores, std::uint64_t width, std::uint64_t limit) {
    const std::uint64_t most_groups = work <= little_work ? cores : cores * groups_for_a_core;
    const std::uint64_t groups = std::clamp<std::uint64_t>(work / width, 1, most_groups);
    return std::min(limit, round_up(divide_up(work, groups), width));
}

// Of the sizes up to `most`, one that divides the axis into equal parts.
std::uint64_t even_part(std::uint64_t size, std::uint64_t most) {
    return divide_up(size, divide_up(size, most));
}

} // namespace

std::uint64_t volume(const Extents& extents) {
    std::uint64_t product = 1;
    for (const std::uint64_t size : extents.size)
        if (__builtin_mul_overflow(product, size, &product))
            return std::numeric_limits<std::uint64_t>::max();
    return product;
}

Extents choose_work_group(const KernelImpl& kernel, const Extents& work, std::uint64_t cap) {
    const std::uint64_t limit = cap == 0 ? kernel.max_total_threads : std::min(cap, kernel.max_total_threads);
    const std::uint64_t width = std::max<std::uint64_t>(1, kernel.execution_width);
    const std::uint64_t all = volume(work);
    Extents group = work;
    group.rank = std::max<std::uint8_t>(1, work.rank);
    if (all <= std::min(width, limit))
        return group;
    const std::uint64_t cores = std::max(1u, kernel.device->info.multiprocessor_count);
    std::uint64_t threads = wanted_threads(all, cores, width, limit);
    if (kernel.uses_threadgroup_memory)
        threads = std::bit_floor(threads); // what such kernels halve again and again when they reduce

    std::uint64_t& x = group.size[0];
    if (x > threads) {
        // A part of the row in whole SIMD-groups, all parts alike.
        const std::uint64_t part = kernel.uses_threadgroup_memory ? threads : even_part(x, threads);
        x = threads < width ? threads : std::min(round_up(part, width), threads / width * width);
    } else if (all > x && x > width && x % width != 0) {
        // SIMD-groups that run over the ends of rows are slow: rather two parts of a row.
        x = kernel.uses_threadgroup_memory ? std::bit_floor(x) : round_up(divide_up(x, 2), width);
    }
    threads = std::max<std::uint64_t>(1, threads / x);
    for (const std::size_t axis : {1, 2}) {
        std::uint64_t& size = group.size[axis];
        size = size <= threads ? size : even_part(size, threads);
        threads = std::max<std::uint64_t>(1, threads / size);
    }
    return group;
}

} // namespace metalki::detail
