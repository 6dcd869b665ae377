// Which code runs the parts of a grid.
#pragma once

#include <array>

#include "cpu/executor.hpp"

namespace metalki::cpu {

// Units are what workers claim: threadgroups, or pieces of the grid's rows where the kernel does not ask for its threadgroup.
struct Plan {
    explicit Plan(const Dispatch& dispatch);

    // Code for a threadgroup that is cut off at the end of the grid along some axes.
    const compiler::KernelCode& code(bool cut_x, bool cut_y, bool cut_z) const {
        return *codes[(cut_x ? 1u : 0u) | (cut_y ? 2u : 0u) | (cut_z ? 4u : 0u)];
    }
    bool by_rows() const { return codes[0]->run_rows != nullptr; }
    bool contains(std::uintptr_t address) const; // of machine code

    std::array<const compiler::KernelCode*, 8> codes{};
    compiler::Uint3 groups{};     // threadgroups per grid
    compiler::Uint3 units{};      // per grid
    std::uint32_t row_length = 0; // by rows: threads of a unit
    std::size_t stack_size = 0;   // largest of all codes
};

} // namespace metalki::cpu
