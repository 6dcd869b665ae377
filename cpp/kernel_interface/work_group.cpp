// Groups as large as the device allows save the cost of starting groups, but leave cores idle when there is little work, and
// threads idle where the work is no multiple of them. So the sizes that may be best are compared by what they should cost.
#include "kernel_interface/work_group.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>

#include "kernel_interface/backend.hpp"

namespace metalki::detail {

namespace {

// Fewer threads than this are not worth several groups for a core.
constexpr std::uint64_t little_work = 8192;
constexpr std::uint64_t groups_for_a_core = 4;

// More threads in a group gain little: what they keep meanwhile, and read and write between, fills the nearest cache.
constexpr std::uint64_t enough_threads = 256;
constexpr GroupWork usual_work{10, 11, 0.13, false, true};

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
    bool shares_memory = false;  // between the threads of a group: it may halve the group again and again
    bool runs_by_groups = false; // what it does, or what is known of it, is a matter of groups
    GroupWork group_work;
    friend bool operator==(const Request&, const Request&) = default;
};

using Sizes = std::array<std::uint64_t, 3>;

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

// Of the sizes up to `most`, one that divides the axis into equal parts.
std::uint64_t even_part(std::uint64_t size, std::uint64_t most) {
    return divide_up(size, divide_up(size, most));
}

// What a thread of a group with several rows costs, as a multiple of one in a group of a single row. SIMD-groups that run over
// the ends of rows are slow: what their lanes address does not lie side by side.
double cost_in_rows_of(std::uint64_t length, std::uint64_t width) {
    if (length % width == 0)
        return 1.15;
    if (!std::has_single_bit(length))
        return 3;
    return length >= width / 2 ? 1.3 : length >= width / 4 ? 1.5 : 2.4;
}

// Parts of rows that lie this close together, where the caches do not hold all there is, keep a processor from seeing ahead
// where it will read: it follows one way through each page.
constexpr std::uint64_t close_rows = 1024, held_by_caches = 1 << 20, most_rows = 8;

bool are_close(const Request& request, const Sizes& group, std::size_t row) {
    std::uint64_t distance = 1;
    for (std::size_t axis = row; axis < 2; ++axis) {
        distance *= request.work[axis];
        if (group[axis + 1] > 1)
            return distance < close_rows && product(request.work) > held_by_caches;
    }
    return false;
}

// Parts of rows that do not start at whole lines of a cache touch one line more each.
double cost_of_cut_lines(const Request& request, std::size_t row, std::uint64_t part) {
    constexpr std::uint64_t line = 16; // elements of a common size
    const bool cut = request.runs_by_groups && part >= request.width && request.work[row] % line != 0;
    return cut ? 1 + 6 / static_cast<double>(part) : 1;
}

// The same for kernels that run by groups.
double cost_in_rows_of_group(std::uint64_t length, std::uint64_t whole_row, std::uint64_t width) {
    if (length % width == 0)
        return length == 2 * width ? 0.92 : 0.95;
    if (length < width / 4) // whole rows lie side by side, if their length is a power of two
        return !std::has_single_bit(length) ? 2.6 : length == whole_row ? 1.5 : length == 1 ? 1.8 : 2;
    return !std::has_single_bit(length) ? 2.5 : length >= width / 2 ? 1 : 1.3;
}

// What is left at the end of each row makes a group of odd size, in which halves and steps between threads do not come out
// even.
double cost_of_single_row(const Request& request, std::uint64_t length, std::uint64_t group) {
    const std::uint64_t rest = length % group;
    const double odd = request.shares_memory && !std::has_single_bit(rest) ? 1.5 : 1;
    const double odd_group = request.shares_memory && !std::has_single_bit(group) ? 1.3 : 1;
    return static_cast<double>(length / group * round_up(group, request.width)) * odd_group +
           static_cast<double>(round_up(rest, request.width)) * odd;
}

// What the start of a group costs, in threads.
double start_of_a_group(const Request& request) {
    if (!request.runs_by_groups)
        return 80;
    return request.group_work.of_group / request.group_work.of_simdgroup * static_cast<double>(request.width);
}

// What more a thread costs in a group with many of them.
double cost_in_large_group(const Request& request, std::uint64_t threads) {
    if (!request.runs_by_groups || threads <= enough_threads)
        return 1;
    const double doublings = std::log2(static_cast<double>(threads) / static_cast<double>(enough_threads));
    return 1 + doublings * request.group_work.growth;
}

// What the whole grid costs with groups of this size, in threads of an ideal one. Measured on processors; GPUs differ less
// from size to size.
double cost(const Request& request, const Sizes& group, std::size_t row) {
    const double start = start_of_a_group(request), in_group = cost_in_large_group(request, product(group));
    double groups = 1, rows = 1;
    for (std::size_t axis = 0; axis < 3; ++axis)
        groups *= static_cast<double>(divide_up(request.work[axis], group[axis]));
    for (std::size_t axis = row + 1; axis < 3; ++axis)
        rows *= static_cast<double>(request.work[axis]);
    const std::uint64_t length = request.work[row], rest = length % group[row];
    if (product(group) == group[row])
        return rows * cost_of_single_row(request, length, group[row]) * in_group * cost_of_cut_lines(request, row, group[row]) +
               start * groups;
    const auto of_part = [&](std::uint64_t part) {
        return request.runs_by_groups ? cost_in_rows_of_group(part, length, request.width)
                                      : cost_in_rows_of(part, request.width);
    };
    const double in_whole_parts = static_cast<double>(length - rest) * of_part(group[row]);
    const double in_the_rest = rest == 0 ? 0 : static_cast<double>(rest) * of_part(rest);
    const double for_distance = request.runs_by_groups && are_close(request, group, row) ? 1.4 : 1;
    const double for_many_rows = request.runs_by_groups && product(group) / group[row] > most_rows ? 1.05 : 1;
    const double for_lines = cost_of_cut_lines(request, row, group[row]);
    return rows * (in_whole_parts + in_the_rest) * in_group * for_distance * for_many_rows * for_lines + start * groups;
}

// The sizes compared for one length of a row: the row alone, and as many rows as fit.
class Search {
public:
    Search(const Request& request, std::uint64_t threads, std::size_t row)
        : request_(request), threads_(threads), row_(row),
          powers_of_two_(request.shares_memory && product(request.work) > threads), best_(request.work) {}

    void consider(std::uint64_t length) {
        if (length == 0 || length > threads_)
            return;
        Sizes group{1, 1, 1};
        group[row_] = length;
        compare(group);
        const std::uint64_t fewest = request_.runs_by_groups ? std::min(threads_, enough_threads) : threads_;
        for (std::uint64_t threads = threads_; threads >= fewest && threads > length; threads /= 2)
            consider_rows(group, threads / length);
    }
    const Sizes& best() const { return best_; }

private:
    void consider_rows(Sizes group, std::uint64_t rest) {
        if (rest <= 1)
            return;
        // Where caches do not hold it all, far apart is better than close together; rows shorter than a SIMD-group fill it
        // together.
        const bool far_first = product(request_.work) > held_by_caches && group[row_] >= request_.width;
        for (std::size_t step = row_ + 1; step < 3; ++step) {
            const std::size_t axis = far_first ? row_ + 3 - step : step;
            const std::uint64_t size = request_.work[axis];
            const std::uint64_t part = size <= rest ? size : even_part(size, rest);
            group[axis] = powers_of_two_ ? std::bit_floor(std::min(size, rest)) : part;
            rest = std::max<std::uint64_t>(1, rest / group[axis]);
        }
        compare(group);
    }

    void compare(const Sizes& group) {
        const double found = cost(request_, group, row_);
        if (found < lowest_) {
            lowest_ = found;
            best_ = group;
        }
    }

    const Request& request_;
    const std::uint64_t threads_;
    const std::size_t row_; // the axis whose threads lie side by side
    const bool powers_of_two_;
    Sizes best_;
    double lowest_ = std::numeric_limits<double>::max();
};

Sizes choose(const Request& request) {
    if (product(request.work) <= std::min(request.width, request.limit))
        return request.work;
    const bool is_flat = request.work[0] == 1;
    const std::size_t row = !is_flat ? 0 : request.work[1] > 1 ? 1 : 2;
    const std::uint64_t wanted = wanted_threads(request);
    const bool fits = wanted >= product(request.work); // in one group, whose size may be odd then
    if (fits && product(request.work) < 4 * request.width)
        return request.work;
    const std::uint64_t most = request.group_work.halves ? std::min(wanted, enough_threads) : wanted;
    const std::uint64_t threads = request.shares_memory && !(fits && most == wanted) ? std::bit_floor(most) : wanted;
    const std::uint64_t length = request.work[row], width = request.width;
    Search search(request, threads, row);
    if (!request.shares_memory || product(request.work) <= threads)
        search.consider(length);
    if (!request.shares_memory && length > threads && threads >= width)
        search.consider(std::min(round_up(even_part(length, threads), width), threads / width * width));
    for (std::uint64_t size = std::bit_floor(std::min(length, threads)); size >= width; size /= 2)
        search.consider(size);
    for (std::uint64_t size = std::bit_floor(std::min(length, threads)); size > 0 && size < width; size /= 2)
        search.consider(size);
    return search.best();
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
    group.size =
        remembered_choice({work.size, most, width, cores, shares, known || shares, known ? kernel.group_work : usual_work});
    group.rank = std::max<std::uint8_t>(1, work.rank);
    return group;
}

} // namespace metalki::detail
