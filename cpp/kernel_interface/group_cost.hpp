// What a grid costs with work-groups of one size: of use only beside that of another size.
#pragma once

#include <array>
#include <cstdint>

#include "kernel_interface/backend.hpp"

namespace metalki::detail {

using Sizes = std::array<std::uint64_t, 3>;

// Of the grid and the kernel, whatever the group.
class GroupCost {
public:
    GroupCost(const Sizes& grid, std::uint64_t width, const GroupWork& work);

    // In the unit of `work`; some number above `most` where it is more than that.
    double of(const Sizes& group, double most) const;

private:
    double of_part(const Sizes& part) const;
    double of_row_access(const Sizes& part, double simdgroups) const;
    double of_narrow_rows(const Sizes& part, double simdgroups) const;
    std::uint64_t new_rows(const Sizes& part) const;
    double of_waiting_in(const Sizes& part) const;
    double of_lone_pieces(const Sizes& part, double simdgroups) const;
    double of_new_row_of(const Sizes& part) const;
    double of_column_access(const Sizes& part) const;

    Sizes grid_;
    std::uint64_t width_; // of a SIMD-group
    GroupWork work_;
    double beyond_near_cache_ = 0; // 0: the nearest cache holds what the kernel touches, 1: it does not by far
    double beyond_caches_ = 0;     // the same of all caches
    double growth_ = 0;            // what is left of the kernel's
};

} // namespace metalki::detail
