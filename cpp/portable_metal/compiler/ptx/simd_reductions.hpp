// Sums, products, minima and their prefixes over the active lanes of a SIMD-group or quad-group.
#pragma once

#include "compiler/kernel_abi.hpp"
#include "ptx/builder.hpp"

namespace metalki::compiler::ptx {

struct Lanes {
    llvm::Value* active; // a bit for each lane of the SIMD-group
    llvm::Value* own;    // number of this lane
    unsigned width;      // of the span: simd_width or quad_width
    unsigned architecture;
};

// `value` and the result are raw bits of `type`. Floating-point numbers are combined by halves (lane i with lane i + 16, then
// + 8, ...) whichever lanes are active, in float, and rounded once. The builder ends up in another block.
llvm::Value* reduce_lanes(WarpBuilder& builder, SimdOp op, SimdType type, llvm::Value* value, const Lanes& lanes);

} // namespace metalki::compiler::ptx
