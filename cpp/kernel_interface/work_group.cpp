// Groups as large as the device allows save the cost of starting groups, but leave cores idle when there is little work, and
// threads idle where the work is no multiple of them. So the sizes that may be best are compared by what they should cost.
#include "kernel_interface/work_group.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <memory>
#include <optional>

#include "kernel_interface/backend.hpp"
#include "kernel_interface/group_cost.hpp"

namespace metalki::detail {

namespace {

// Fewer threads than this are not worth several groups for a core.
constexpr std::uint64_t little_work = 8192;
constexpr std::uint64_t groups_for_a_core = 4;

constexpr GroupWork usual_work{10, 11, 0.13, 2, 0, false, true, false};

// Nanoseconds of work that no other core is woken for.
constexpr double short_work = 20000;

constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
    return a / b + (a % b != 0);
}
constexpr std::uint64_t round_up(std::uint64_t a, std::uint64_t b) {
    return divide_up(a, b) * b;
}

// What the choice depends on.
struct Request {
    std::array<std::uint64_t, 3> work{};
    std::uint64_t limit = 0; // threads of a group
    std::uint64_t width = 0; // of a SIMD-group
    std::uint64_t cores = 0;
    bool shares_memory = false; // between the threads of a group: it may halve the group again and again
    GroupWork group_work;
    friend bool operator==(const Request&, const Request&) = default;
};

std::uint64_t product(const Sizes& sizes) {
    return volume(Extents(sizes[0], sizes[1], sizes[2]));
}

bool is_short(const Request& request) {
    const GroupWork& work = request.group_work;
    const auto simdgroups = static_cast<double>(divide_up(product(request.work), request.width));
    return !work.loops && work.of_group + simdgroups * work.of_simdgroup < short_work;
}

// Threads that a group should have: whole SIMD-groups, and enough groups for the cores.
std::uint64_t wanted_threads(const Request& request) {
    const std::uint64_t work = product(request.work);
    if (is_short(request))
        return std::min(request.limit, round_up(work, request.width));
    const std::uint64_t most_groups = work <= little_work ? request.cores : request.cores * groups_for_a_core;
    const std::uint64_t groups = std::clamp<std::uint64_t>(work / (2 * request.width), 1, most_groups);
    if (groups > 1 && groups < most_groups)
        return std::min(request.limit, 2 * request.width); // rounded up, they would be too few
    return std::min(request.limit, round_up(divide_up(work, groups), request.width));
}

// Lengths of groups along one axis: powers of two, and the whole axis where that is allowed.
class Lengths {
public:
    Lengths(std::uint64_t size, std::uint64_t most, bool whole) {
        for (std::uint64_t length = 1; length <= std::min(size, most) && count_ < lengths_.size(); length *= 2)
            lengths_[count_++] = length;
        if (whole && size <= most && !std::has_single_bit(size) && count_ < lengths_.size())
            lengths_[count_++] = size;
    }
    const std::uint64_t* begin() const { return lengths_.data(); }
    const std::uint64_t* end() const { return lengths_.data() + count_; }

private:
    std::array<std::uint64_t, 16> lengths_{};
    std::size_t count_ = 0;
};

// Of the groups with more than half of `fewest` threads; nothing where there are none.
std::optional<Sizes> cheapest(const Request& request, std::uint64_t most, std::uint64_t fewest, bool whole) {
    const GroupCost cost(request.work, request.width, request.group_work);
    std::optional<Sizes> best;
    double lowest = std::numeric_limits<double>::max();
    for (const std::uint64_t x : Lengths(request.work[0], most, whole))
        for (const std::uint64_t y : Lengths(request.work[1], most / x, whole))
            for (const std::uint64_t z : Lengths(request.work[2], most / x / y, whole)) {
                const Sizes group{x, y, z};
                if (2 * product(group) <= fewest)
                    continue;
                if (const double found = cost.of(group, lowest); found < lowest) {
                    lowest = found;
                    best = group;
                }
            }
    return best;
}

Sizes choose(const Request& request) {
    if (product(request.work) <= std::min(request.width, request.limit))
        return request.work;
    const std::uint64_t most = wanted_threads(request);
    const bool fits = most >= product(request.work); // in one group, whose size may be odd then
    if (fits && product(request.work) < 4 * request.width)
        return request.work;
    // What shares memory may halve its group again and again, or take its rows for powers of two.
    const bool whole = fits || !request.shares_memory;
    for (std::uint64_t fewest = std::min({most, product(request.work), 2 * request.width});; fewest /= 2)
        if (const auto found = cheapest(request, most, fewest, whole))
            return *found;
}

// Programs launch over few ndranges again and again.
const Sizes& remembered_choice(const Request& request) {
    struct Entry {
        Request request;
        Sizes group;
    };
    constexpr std::size_t entries = 16;
    // On the heap: what a thread has from the start is scarce in libraries that are loaded late.
    thread_local const auto made = std::make_unique<std::array<Entry, entries>>();
    thread_local std::size_t last = 0;
    std::array<Entry, entries>& memory = *made;
    for (std::size_t i = 0; i < entries; ++i) {
        const std::size_t at = (last + i) % entries;
        if (memory[at].request == request) {
            last = at;
            return memory[at].group;
        }
    }
    last = (last + entries - 1) % entries;
    memory[last] = {request, choose(request)};
    return memory[last].group;
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
    const std::uint64_t cores = std::max(1u, kernel.device->info.multiprocessor_count);
    Extents group;
    const std::uint64_t most = kernel.preferred_threads == 0 ? limit : std::min(limit, kernel.preferred_threads);
    const bool known = kernel.group_work.of_group > 0, shares = kernel.uses_threadgroup_memory;
    group.size = remembered_choice({work.size, most, width, cores, shares, known ? kernel.group_work : usual_work});
    group.rank = std::max<std::uint8_t>(1, work.rank);
    return group;
}

} // namespace metalki::detail
