// Which code runs the parts of a grid.
#pragma once

#include <array>

#include "cpu/executor.hpp"

namespace metalki::cpu {

// Units are what workers claim: threadgroups, or pieces of the grid's rows where the kernel does not ask for its threadgroup.
struct Plan {
    explicit Plan(const Dispatch& dispatch);

    // Where `codes` has the code of a threadgroup that is cut off at the end of the grid along some axes.
    static unsigned cut(bool x, bool y, bool z) { return (x ? 1u : 0u) | (y ? 2u : 0u) | (z ? 4u : 0u); }
    bool by_rows() const { return codes[0]->run_rows != nullptr; }
    bool contains(std::uintptr_t address) const; // of machine code

    std::array<const compiler::KernelCode*, 8> codes{};
    compiler::Uint3 groups{};      // threadgroups per grid
    compiler::Uint3 units{};       // per grid
    std::uint32_t row_length = 0;  // by rows: threads of a unit
    std::uint64_t row_threads = 0; // by rows: of a whole row, which may be the whole grid
    std::size_t stack_size = 0;    // largest of all codes

private:
    void take_rows(const compiler::Uint3& grid);
};

} // namespace metalki::cpu
