// What is known about a value across the 32 lanes of a SIMD-group: the same everywhere, a scalar plus a constant a lane, or the
// same for each of a few sets of lanes, as the rows that the lanes of a tile lie in.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

#include "llvm/IR/DataLayout.h"
#include "llvm/IR/Instructions.h"

#include "compiler/kernel_abi.hpp"

namespace metalki::compiler::vectorize {

constexpr unsigned lanes = simd_width;
constexpr unsigned lane_bits = std::countr_zero(lanes);
using LaneOffsets = std::array<std::int64_t, lanes>;

// Sets of lanes, numbered in the order of their first lanes.
struct Partition {
    static constexpr unsigned most = 8;

    unsigned count = 1;
    std::array<std::uint8_t, lanes> part{};

    unsigned first_lane(unsigned index) const;
    bool operator==(const Partition&) const = default;
};

struct Shape {
    enum class Kind : std::uint8_t { unknown, uniform, affine, parts, varying };

    Kind kind = Kind::unknown;
    std::uint8_t zeros = 0; // low bits of the scalar parts that are known to be zero
    bool no_wrap = false;   // scalar part + offset does not exceed the unsigned range of the type
    LaneOffsets offsets{};  // value of a lane = its scalar part + its offset; pointers: in bytes
    Partition partition;    // parts: lanes that share a scalar part; the offset of the first of them is 0

    static Shape uniform(unsigned zeros = 0);
    static Shape affine(const LaneOffsets& offsets, unsigned zeros = 0, bool no_wrap = false);
    static Shape parts(const Partition& partition, unsigned zeros = 0);
    static Shape varying();
    // Offsets 0, step, 2 * step, ...
    static Shape linear(std::int64_t step, unsigned zeros = 0, bool no_wrap = false);

    bool is_uniform() const { return kind == Kind::uniform; }
    bool is_varying() const { return kind == Kind::varying; }
    bool has_scalar() const { return kind == Kind::uniform || kind == Kind::affine; }
    bool is_parts() const { return kind == Kind::parts; }
    // The scalar part has zeros where the offsets have bits: each lane is the bitwise or of both.
    bool is_disjoint() const;
    bool is_compact() const { return has_scalar() || is_parts(); }
    // The same with a scalar part for each set of a finer partition.
    Shape in_parts(const Partition& finer) const;
    bool operator==(const Shape&) const = default;
};

// How the threads of a threadgroup lie in its SIMD-groups; code is generated for one of these.
enum class LaneLayout : std::uint8_t {
    flat,    // rows of 32 along x of the whole grid; no threadgroups
    rows,    // a SIMD-group lies in one row of x (width a multiple of 32, or a threadgroup of one row)
    columns, // the width is a power of two below 32, SIMD-groups are blocks of whole rows
    table,   // anything: the positions are read from a table
};

struct Geometry {
    LaneLayout layout = LaneLayout::rows;
    unsigned width = 32;  // columns: threads along x
    bool full = true;     // every lane of every SIMD-group exists
    bool aligned = false; // flat: SIMD-groups begin at multiples of their width
    bool stream = false;  // flat: stores go past the caches where that is possible
    bool operator==(const Geometry&) const = default;
};

// Shape of a position input.
Shape shape_of_input(ThreadInput group, unsigned axis, const Geometry& geometry);

// x & 0xffffffff on 64 bits, with or without low bits that x does not have: how a product of 32 bits looks once it was made
// wider. Only where it does nothing but address memory: a lane that wraps round gets a value far outside.
bool is_truncating_mask(const llvm::Instruction& operation, const Shape& shape);

// What holds of both: of a phi or a choice between the two.
Shape join(const Shape& a, const Shape& b);

// Shape of what is computed from nothing but these, in any way: the same for lanes among which none of them differs.
Shape constant_in_parts(const std::vector<Shape>& operands, unsigned zeros = 0);

// Nothing is done with the value but to address memory with it. An address far outside of any buffer may then differ, as no
// lane that is on uses it.
bool only_addresses(const llvm::Value& value);

using ShapeLookup = std::function<Shape(const llvm::Value*)>;

// Shape of the result of anything but a phi, a call or an alloca, from the shapes of its operands.
Shape shape_of_operation(const llvm::Instruction& instruction, const ShapeLookup& shape_of, const llvm::DataLayout& layout);

} // namespace metalki::compiler::vectorize
