// What SIMD-group and quad-group functions compute, given what every active lane brought.
#pragma once

#include <array>
#include <cstdint>

#include "compiler/kernel_abi.hpp"

namespace metalki::cpu {

// What one lane waits for. Matrix multiplications and plain meetings use the same queue as the SimdOps.
struct LaneRequest {
    enum class Kind : std::uint8_t { simd, matrix, converge };

    std::uint32_t site;
    Kind kind;
    compiler::SimdOp op;
    compiler::SimdType type;
    std::uint32_t width;
    std::uint32_t operand;
    std::uint32_t modulo;
    std::uint64_t value;
    std::uint64_t fill;
    std::uint64_t result;
    const float* abc;
    float* d;
};

using LaneRequests = std::array<LaneRequest, compiler::simd_width>;

// Fills `result` (or `d`) of the lanes in `active`, which all wait for the same operation. `lanes`: how many lanes this
// SIMD-group has at all; below 32 only in the last SIMD-group of a threadgroup.
//
// Choices where the language leaves the value undefined: a source lane that is inactive or does not exist gives 0;
// shuffle_up and shuffle_down keep the lane's own value where the distance leads out of the SIMD-group or quad;
// rotations run over the lanes that exist.
void evaluate(LaneRequests& requests, std::uint32_t active, std::uint32_t lanes);

} // namespace metalki::cpu
