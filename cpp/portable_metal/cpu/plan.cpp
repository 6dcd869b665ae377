// See the header.
#include "cpu/plan.hpp"

#include <algorithm>
#include <limits>

namespace metalki::cpu {

namespace {

// Long enough that the loop inside the kernel pays, short enough to be shared: threads may compute for long, however few.
constexpr std::uint64_t longest_piece = 8192, shortest_piece = 1024, pieces_to_share = 16;

std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
    return a / b + (a % b != 0 ? 1 : 0);
}

std::uint32_t groups_along(std::uint32_t grid, std::uint32_t threads) {
    return static_cast<std::uint32_t>(divide_up(grid, threads));
}

} // namespace

// The numbers along a row have 32 bits: units along y are such parts of a row that is longer.
void Plan::take_rows(const compiler::Uint3& grid) {
    constexpr std::uint64_t longest_part = std::uint64_t{1} << 32;
    const unsigned axes = codes[0]->axes_in_row;
    const std::uint64_t in_slice = std::uint64_t{grid.x} * grid.y;
    std::uint64_t all = 0;
    if (__builtin_mul_overflow(in_slice, grid.z, &all))
        all = std::numeric_limits<std::uint64_t>::max(); // nobody sees its end
    row_threads = axes > 2 ? all : axes > 1 ? in_slice : grid.x;
    const std::uint64_t part = std::min(row_threads, longest_part);
    const std::uint64_t share = divide_up(all / pieces_to_share, shortest_piece) * shortest_piece;
    const std::uint64_t piece = std::clamp(share, shortest_piece, longest_piece);
    row_length = static_cast<std::uint32_t>(std::min(part, piece));
    units = {static_cast<std::uint32_t>(divide_up(part, row_length)),
             axes > 1 ? static_cast<std::uint32_t>(divide_up(row_threads, longest_part)) : grid.y, axes > 2 ? 1 : grid.z};
}

Plan::Plan(const Dispatch& dispatch) {
    const compiler::Uint3& grid = dispatch.grid;
    const compiler::Uint3& threads = dispatch.threadgroup;
    groups = {groups_along(grid.x, threads.x), groups_along(grid.y, threads.y), groups_along(grid.z, threads.z)};
    units = groups;
    const compiler::VectorVariants* variants = dispatch.code->variants.get();
    codes.fill(variants == nullptr ? dispatch.code : variants->rows());
    if (codes[0] != nullptr && by_rows()) {
        take_rows(grid);
    } else if (codes[0] == nullptr) {
        const compiler::Uint3 rest{grid.x % threads.x, grid.y % threads.y, grid.z % threads.z};
        for (unsigned cut = 0; cut < codes.size(); ++cut) {
            const bool x = (cut & 1) != 0, y = (cut & 2) != 0, z = (cut & 4) != 0;
            const bool occurs = (x ? rest.x != 0 : grid.x >= threads.x) && (y ? rest.y != 0 : grid.y >= threads.y) &&
                                (z ? rest.z != 0 : grid.z >= threads.z);
            if (occurs)
                codes[cut] = variants->threadgroups({x ? rest.x : threads.x, y ? rest.y : threads.y, z ? rest.z : threads.z});
            if (occurs && codes[cut] == nullptr) {
                codes.fill(&variants->scalar());
                break;
            }
        }
        const auto any = std::ranges::find_if(codes, [](const auto* code) { return code != nullptr; });
        std::ranges::replace(codes, nullptr, *any);
    }
    for (const compiler::KernelCode* code : codes)
        stack_size = std::max(stack_size, code->stack_size);
}

bool Plan::contains(std::uintptr_t address) const {
    return std::ranges::any_of(codes, [&](const compiler::KernelCode* code) {
        return reinterpret_cast<std::uintptr_t>(code->code_begin) <= address &&
               address < reinterpret_cast<std::uintptr_t>(code->code_end);
    });
}

} // namespace metalki::cpu
