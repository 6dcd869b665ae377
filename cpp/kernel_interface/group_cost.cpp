// The constants are nanoseconds of a processor with vectors of 64 bytes, caches of 32 KiB and 1 MiB and elements of 4 bytes,
// fitted to the times of some 25 kernels over 50 grids. GPUs differ less from size to size.
#include "kernel_interface/group_cost.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace metalki::detail {

namespace {

// An access of a SIMD-group that covers several rows takes one vector for each, or goes lane by lane; in a group whose rows are
// no power of two the lanes look their places up as well.
constexpr double of_narrow_row = 0.9, lane_by_lane = 8, by_table = 12;
// The store or load that only threads along y have neighbours for.
constexpr double scattered = 14, scattered_beyond_caches = 40;
// A row that does not go on where the last one ended: the processor's look-ahead begins anew, and it follows one way through
// each page.
constexpr double of_new_row = 0.6, of_row_on_same_page = 1, of_row_on_same_page_beyond_caches = 6;
constexpr std::uint64_t page = 1024; // elements
constexpr double most_new_rows = 4;  // of a SIMD-group: its others are close by
// What memory lets a single look-ahead wait; several on pages of their own wait together. More than it can keep are lost.
constexpr double of_waiting = 8, most_ways_ahead = 6, of_lost_way = 0.1, ways_kept = 8;
// Where it looks far ahead along one way only (measured on a Zen 5; a Zen 4 and a Sapphire Rapids do as above): a piece of a
// row behind which another row follows.
constexpr double of_lone_piece = 17;
constexpr double busy = 20;       // time of a SIMD-group that begins to hide it
constexpr double in_caches = 0.1; // of that, where the farther caches answer
// One more row where all rows fall on the same places of the nearest cache.
constexpr double of_row_in_place = 1;
constexpr double places_for_rows = 3;
// A SIMD-group whose lines of the cache are lost before its neighbours have used the rest of them.
constexpr double lost_row = 20, lost_column = 80, lost_to_memory = 15;
// A SIMD-group of narrow slices touches more lines, the more of each slice is left to other groups.
constexpr double of_lines_left_out = 3;
// The same at each end of a column in a group, where the neighbours beyond belong to a group that runs later, unless the
// grid's rows are short enough for that to be soon.
constexpr double later_column = 35, end_of_column = 140;
constexpr std::uint64_t soon = 320;
// Of the time of a SIMD-group: lanes that are off have to be masked.
constexpr double masks = 0.27;

constexpr std::uint64_t line = 16; // elements
constexpr double ways = 8;
constexpr std::uint64_t near_way = 4096, far_way = 262144; // bytes of a cache for each of its ways
// More threads in a group gain little: what they keep meanwhile, and read and write between, fills the nearest cache.
constexpr double enough_threads = 256, growth_beyond_caches = 2.5;
// Of that, what fewer threads save while memory is waited for.
constexpr double shrinking = 0.7, most_halvings = 2;

std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
    return a / b + (a % b != 0);
}

// 0 below `first`, 1 from `first` times 2^doublings.
double ramp(double number, double first, double doublings) {
    return std::clamp(std::log2(number / first) / doublings, 0.0, 1.0);
}

// How many lines that lie `distance` elements apart fall on one place of a cache.
double pressure(std::uint64_t lines, std::uint64_t distance, std::uint64_t way) {
    const std::uint64_t apart = std::max(4 * line, std::gcd(4 * distance, way));
    return static_cast<double>(lines * apart) / static_cast<double>(way);
}

// How far that many push each other out: 0 to 1.
double collisions(double pressure) {
    return std::clamp(pressure / ways - 1, 0.0, 1.0);
}

} // namespace

GroupCost::GroupCost(const Sizes& grid, std::uint64_t width, const GroupWork& work) : grid_(grid), width_(width), work_(work) {
    const double threads = static_cast<double>(grid[0]) * static_cast<double>(grid[1]) * static_cast<double>(grid[2]);
    beyond_near_cache_ = ramp(threads, 1 << 14, 4);
    beyond_caches_ = ramp(threads, 1 << 21, 2);
    growth_ = work.growth * (work.halves ? 1 : ramp(threads, 1 << 13, 3)) * (1 + growth_beyond_caches * beyond_caches_);
}

double GroupCost::of(const Sizes& group, double most) const {
    double total = 0;
    for (unsigned cut = 0; cut < 8 && total <= most; ++cut) { // groups at the ends of the axes are smaller
        Sizes part = group;
        double count = 1;
        for (unsigned axis = 0; axis < 3; ++axis) {
            const std::uint64_t rest = grid_[axis] % group[axis];
            const bool at_end = (cut >> axis & 1) != 0;
            part[axis] = at_end ? rest : group[axis];
            count *= at_end ? static_cast<double>(rest != 0) : static_cast<double>(grid_[axis] / group[axis]);
        }
        if (count > 0)
            total += count * of_part(part);
    }
    return total;
}

double GroupCost::of_part(const Sizes& part) const {
    const std::uint64_t threads = part[0] * part[1] * part[2];
    const auto simdgroups = static_cast<double>(divide_up(threads, width_));
    double of_simdgroup = work_.of_simdgroup;
    if (threads % width_ != 0)
        of_simdgroup *= 1 + masks;
    const double doublings = std::max(-most_halvings, std::log2(static_cast<double>(threads) / enough_threads));
    of_simdgroup *= 1 + doublings * growth_ * (doublings > 0 ? 1 : work_.halves ? 0 : shrinking * beyond_caches_);
    of_simdgroup += work_.row_accesses * of_row_access(part, simdgroups) + work_.column_accesses * of_column_access(part);
    return work_.of_group + simdgroups * of_simdgroup;
}

double GroupCost::of_row_access(const Sizes& part, double simdgroups) const {
    const std::uint64_t length = part[0], rows = part[1] * part[2];
    double cost = 0;
    if (length % width_ != 0 && rows > 1) {
        const bool whole = part[2] == 1 || length * part[1] % width_ == 0;
        cost = std::has_single_bit(length) && whole
                   ? std::min(lane_by_lane, of_narrow_row * (static_cast<double>(width_) / static_cast<double>(length) - 1))
                   : by_table;
    }
    cost += work_.one_way_ahead ? beyond_caches_ * of_lone_pieces(part, simdgroups)
                                : (beyond_caches_ + in_caches * beyond_near_cache_) * of_waiting_in(part);
    if (length < line)
        return cost + of_narrow_rows(part, simdgroups);
    cost += of_new_row_of(part) * static_cast<double>(new_rows(part)) / simdgroups;
    double in_place = 0;
    if (4 * grid_[0] % near_way == 0)
        in_place += std::max(0.0, static_cast<double>(part[1]) - places_for_rows) * static_cast<double>(part[2]);
    if (4 * grid_[0] * grid_[1] % near_way == 0)
        in_place += std::max(0.0, static_cast<double>(part[2]) - places_for_rows) * static_cast<double>(part[1]);
    return cost + of_row_in_place * beyond_near_cache_ * in_place / simdgroups;
}

// Each takes a part of a line of the cache.
double GroupCost::of_narrow_rows(const Sizes& part, double simdgroups) const {
    const std::uint64_t rows = part[1] * part[2], apart = std::min(grid_[0], line);
    const double in_slice = pressure(divide_up(part[1] * apart, line), grid_[0], near_way);
    const double in_place = in_slice * std::max(1.0, pressure(part[2], grid_[0] * grid_[1], near_way));
    const double in_all = 2 * pressure(divide_up(rows * apart, line), line, near_way); // and what is written
    const double used = static_cast<double>(part[0] * part[1]) / static_cast<double>(grid_[0] * grid_[1]);
    const double left_out = grid_[0] * grid_[1] <= 4 * line ? of_lines_left_out * (1 - used) : 0;
    return left_out + lost_row * collisions(std::max(in_place, in_all)) +
           lost_to_memory * collisions(pressure(part[1], grid_[0], far_way)) +
           of_new_row * beyond_near_cache_ * std::min(static_cast<double>(new_rows(part)) / simdgroups, most_new_rows);
}

// Those that do not go on where another ends.
std::uint64_t GroupCost::new_rows(const Sizes& part) const {
    if (part[0] != grid_[0])
        return part[1] * part[2];
    return part[1] != grid_[1] && part[2] > 1 ? part[2] : 0;
}

double GroupCost::of_lone_pieces(const Sizes& part, double simdgroups) const {
    const std::uint64_t pieces = part[1] * part[2] == 1 ? 0 : new_rows(part);
    return of_lone_piece * std::min(1.0, static_cast<double>(pieces) / simdgroups);
}

double GroupCost::of_waiting_in(const Sizes& part) const {
    const auto slice = static_cast<double>(grid_[0] * grid_[1]);
    const double pages = slice < page
                             ? std::max(1.0, static_cast<double>(part[2]) * slice / page)
                             : static_cast<double>(part[2]) * std::max(1.0, static_cast<double>(part[1] * grid_[0]) / page);
    const double ahead = std::min(pages, static_cast<double>(std::max<std::uint64_t>(1, new_rows(part))));
    const double idle = std::clamp(2 - work_.of_simdgroup / busy, 0.0, 1.0);
    return idle * of_waiting / std::min(ahead, most_ways_ahead) + of_lost_way * std::max(0.0, ahead - ways_kept);
}

double GroupCost::of_new_row_of(const Sizes& part) const {
    const bool on_same_page = part[1] > 1 && grid_[0] < page;
    return on_same_page ? of_row_on_same_page * beyond_near_cache_ + of_row_on_same_page_beyond_caches * beyond_caches_
                        : of_new_row * beyond_near_cache_;
}

double GroupCost::of_column_access(const Sizes& part) const {
    const bool whole_lines = part[1] == grid_[1] || (part[1] % line == 0 && grid_[1] % line == 0);
    if (part[0] == 1 && part[1] > line) // lanes lie along y
        return whole_lines ? 0 : end_of_column / static_cast<double>(part[1]);
    const double ends = static_cast<double>(!whole_lines) + static_cast<double>(part[1] < line);
    const double later = grid_[0] > soon ? later_column : later_column / 4;
    return scattered + scattered_beyond_caches * beyond_caches_ +
           lost_column * collisions(pressure(part[0], grid_[1], near_way)) + later * ends / static_cast<double>(part[1]);
}

} // namespace metalki::detail
