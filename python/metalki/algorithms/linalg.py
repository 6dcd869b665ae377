"""mk.matmul: on simdgroup matrices, or with lanes along columns on a CPU; and the products of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _array
from .._array import Array
from .._kernel import Kernel
from ..errors import ArgumentError
from . import _common as c
from .arranging import broadcast_to, permute_dims, strided
from .geometry import contiguous_strides

__all__ = ["matmul", "outer", "tensordot", "vecdot"]

# A SIMD-group's tile of the result, in rows and columns of 8 x 8 matrices.
_TILE = 4
# Rows of a lane where lanes are columns.
_ROWS = 8

_TILES = """
// A SIMD-group makes a tile of the result. All sizes are multiples of the tile's, K of 8.
kernel void ki_tiles(device float* out, device const ki_t* a, device const ki_t* b, constant uint& columns,
                     constant uint& depth, constant ulong& a_batch, constant ulong& b_batch, constant ulong& out_batch,
                     uint3 group [[threadgroup_position_in_grid]]) {
    device const ki_t* rows = a + group.z * a_batch + (ulong)group.y * (8 * KI_TILE) * depth;
    device const ki_t* strip = b + group.z * b_batch + group.x * (8 * KI_TILE);
    simdgroup_float8x8 sum[KI_TILE][KI_TILE];
    for (int i = 0; i < KI_TILE; ++i)
        for (int j = 0; j < KI_TILE; ++j) sum[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    for (uint k = 0; k < depth; k += 8) {
        simdgroup_matrix<ki_t, 8, 8> left[KI_TILE], right[KI_TILE];
        for (int i = 0; i < KI_TILE; ++i) simdgroup_load(left[i], rows + (ulong)(8 * i) * depth + k, depth);
        for (int j = 0; j < KI_TILE; ++j) simdgroup_load(right[j], strip + (ulong)k * columns + 8 * j, columns);
        for (int i = 0; i < KI_TILE; ++i)
            for (int j = 0; j < KI_TILE; ++j)
                simdgroup_multiply_accumulate(sum[i][j], left[i], right[j], sum[i][j]);
    }
    device float* target = out + group.z * out_batch + (ulong)group.y * (8 * KI_TILE) * columns + group.x * (8 * KI_TILE);
    for (int i = 0; i < KI_TILE; ++i)
        for (int j = 0; j < KI_TILE; ++j)
            simdgroup_store(sum[i][j], target + (ulong)(8 * i) * columns + 8 * j, columns);
}
"""

_COLUMNS = """
// Lanes are 32 columns of the result, each with KI_ROWS rows; `b` lies in strips of 32 columns, one row after the other.
kernel void ki_columns(device ki_o* out, device const ki_t* a, device const float* b, constant uint& rows,
                       constant uint& columns, constant uint& depth, constant ulong& a_batch, constant ulong& b_batch,
                       uint3 group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
    const uint first = group.x * KI_ROWS, column = group.y * 32 + lane;
    device const float* strip = b + group.z * b_batch + (ulong)group.y * 32 * depth;
    device const ki_t* row[KI_ROWS];
    float sum[KI_ROWS];
    for (uint i = 0; i < KI_ROWS; ++i) {
        row[i] = a + group.z * a_batch + (ulong)min(first + i, rows - 1) * depth;
        sum[i] = 0.0f;
    }
    for (uint k = 0; k < depth; ++k) {
        const float v = strip[k * 32 + lane];
        for (uint i = 0; i < KI_ROWS; ++i) sum[i] = fma((float)row[i][k], v, sum[i]);
    }
    for (uint i = 0; i < KI_ROWS; ++i)
        if (first + i < rows && column < columns)
            out[((ulong)group.z * rows + first + i) * columns + column] = (ki_o)sum[i];
}
"""

_GENERAL = """
// A thread for every element of the result: x is the column, y the row, z the batch.
kernel void ki_general(device ki_o* out, device const ki_l* a, device const ki_r* b, constant ix& columns, constant ix& depth,
                       constant ix& rows, constant ix& a_batch, constant ix& b_batch,
                       uint3 at [[thread_position_in_grid]]) {
    device const ki_l* row = a + (ix)at.z * a_batch + (ix)at.y * depth;
    device const ki_r* column = b + (ix)at.z * b_batch + at.x;
    ki_a sum = 0;
    for (ix k = 0; k < depth; ++k) sum += (ki_a)(ki_c)row[k] * (ki_a)(ki_c)column[k * columns];
    out[((ix)at.z * rows + at.y) * columns + at.x] = (ki_o)sum;
}
// A SIMD-group for every row, for results of one column.
kernel void ki_dot(device ki_o* out, device const ki_l* a, device const ki_r* b, constant ix& depth, constant ix& rows,
                   constant ix& a_batch, constant ix& b_batch, uint2 group [[threadgroup_position_in_grid]],
                   uint lane [[thread_index_in_simdgroup]]) {
    device const ki_l* row = a + (ix)group.y * a_batch + (ix)group.x * depth;
    device const ki_r* column = b + (ix)group.y * b_batch;
    ki_a s0 = 0, s1 = 0;
    ix at = 0;
    for (; at + 64 <= depth; at += 64) {
        s0 += (ki_a)(ki_c)row[at + lane] * (ki_a)(ki_c)column[at + lane];
        s1 += (ki_a)(ki_c)row[at + lane + 32] * (ki_a)(ki_c)column[at + lane + 32];
    }
    for (; at < depth; at += 32)
        if (at + lane < depth) s0 += (ki_a)(ki_c)row[at + lane] * (ki_a)(ki_c)column[at + lane];
    ki_a sum = s0 + s1;
    for (ushort n = 16; n > 0; n /= 2) sum += ki_shift_down(sum, n);
    if (lane == 0) out[(ix)group.y * rows + group.x] = (ki_o)sum;
}
"""


def matmul(x1: Any, x2: Any, /) -> Array:
    """The matrix product over the last two axes, broadcast over the others; 1-D operands are a row or a column, as numpy
    has it. float16 and bfloat16 are summed in float32, integers in their own type, wrapping around.

    Raises ArgumentError in numpy's words for operands without axes and for depths that differ."""
    a, b = c.as_operand(x1, "matmul"), c.as_operand(x2, "matmul")
    for i, x in enumerate((a, b)):
        if x.ndim == 0:
            raise ArgumentError(f"matmul: Input operand {i} does not have enough dimensions (has 0, gufunc core with "
                                "signature (n?,k),(k,m?)->(n?,m?) requires 1)")  # fmt: skip
    left = a.reshape(1, a.shape[0]) if a.ndim == 1 else a
    right = b.reshape(b.shape[0], 1) if b.ndim == 1 else b
    rows, depth, columns = left.shape[-2], left.shape[-1], right.shape[-1]
    if right.shape[-2] != depth:
        raise ArgumentError(
            f"matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature "
            f"(n?,k),(k,m?)->(n?,m?) (size {right.shape[-2]} is different from {depth})"
        )
    batch = c.broadcast_shapes([left.shape[:-2], right.shape[:-2]], "matmul")
    kind = c.promote([a.dtype, b.dtype], "matmul")
    shape = batch + (() if a.ndim == 1 else (rows,)) + (() if b.ndim == 1 else (columns,))
    out = c.result_like(shape, kind, a)
    if out.size == 0:
        return out
    if depth == 0:
        return _array.zeros(shape, kind, device=a.device)
    count = c.elements(batch)
    left, right = _batched(left, batch), _batched(right, batch)
    if c.is_float(kind) and min(rows, columns) >= 8 and depth >= 8 and rows * columns * depth >= 16384:
        # A GPU multiplies simdgroup matrices in hardware; on a CPU their layout costs more than it gives.
        product = _by_columns if a.device.kind == "cpu" else _tiles
        return product(left, right, out, kind, count, rows, depth, columns)
    _general(left, right, out, kind, count, rows, depth, columns)
    return out


def _batched(x: Array, batch: tuple[int, ...]) -> Array:
    """`x` with the batch's axes; a single matrix stays one, and is read for every batch."""
    if c.elements(x.shape[:-2]) == 1 or x.shape[:-2] == batch:
        return x
    return broadcast_to(x, batch + x.shape[-2:])


def _step(x: Array) -> int:
    return 0 if c.elements(x.shape[:-2]) == 1 else x.shape[-2] * x.shape[-1]


def _padded(x: Array, rows: int, columns: int, kind: np.dtype[Any]) -> Array:
    """`x` in `kind` with zeros after its last rows and columns."""
    if x.shape[-2:] == (rows, columns) and x.dtype == kind:
        return x
    whole = (c.elements(x.shape[:-2]), rows, columns)
    out = _array.zeros(whole, kind, device=x.device)
    part = (whole[0], *x.shape[-2:])
    strided(x, part, contiguous_strides(part), 0, out, contiguous_strides(whole))
    return out


def _tiles(
    left: Array, right: Array, out: Array, kind: np.dtype[Any], count: int, rows: int, depth: int, columns: int
) -> Array:
    side = 8 * _TILE
    wide = (c.round_up(rows, side), c.round_up(depth, 8), c.round_up(columns, side))
    a, b = _padded(left, wide[0], wide[1], kind), _padded(right, wide[1], wide[2], kind)
    exact = kind == c.FLOAT32 and (wide[0], wide[2]) == (rows, columns)
    target = out if exact else c.result_like((count, wide[0], wide[2]), c.FLOAT32, out)
    kernel: Kernel = c.cached(
        ("tiles", kind, out.device),
        lambda: c.compiled(
            f"{c.PRELUDE}typedef {c.msl(kind, 'matmul')} ki_t;\n#define KI_TILE {_TILE}\n"
            f"#include <metal_simdgroup_matrix>\n{_TILES}",
            "ki_tiles",
        ),
    )
    a_step, b_step = _step(a) if left.ndim > 2 else 0, _step(b) if right.ndim > 2 else 0
    grid = (wide[2] // side, wide[0] // side, count)
    kernel(target, a, b, wide[2], wide[1], a_step, b_step, wide[0] * wide[2], numworkgroups=grid, workgroupsize=32)
    if not exact:
        shape = (count, rows, columns)
        moved = contiguous_strides(target.shape)
        strided(target, shape, moved, 0, out.reshape(shape))
    return out


def _by_columns(
    left: Array, right: Array, out: Array, kind: np.dtype[Any], count: int, rows: int, depth: int, columns: int
) -> Array:
    strips, rest = divmod(columns, 32)
    batch = c.elements(right.shape[:-2])
    size = (strips + (rest > 0)) * depth * 32  # of a batch's strips
    packed = c.result_like((batch, size), c.FLOAT32, right)
    if rest:
        packed = _array.zeros((batch, size), c.FLOAT32, device=right.device)
    step = depth * columns
    if strips:
        shape = (batch, strips, depth, 32)
        strided(right, shape, (step, 32, columns, 1), 0, packed, (size, depth * 32, 32, 1))
    if rest:
        part = (batch, depth, rest)
        strided(right, part, (step, columns, 1), strips * 32, packed, (size, 32, 1), strips * depth * 32)
    kernel: Kernel = c.cached(
        ("columns", left.dtype, kind, out.device),
        lambda: c.compiled(
            f"{c.PRELUDE}typedef {c.msl(left.dtype, 'matmul')} ki_t; typedef {c.msl(kind, 'matmul')} ki_o;\n"
            f"#define KI_ROWS {_ROWS}u\n{_COLUMNS}",
            "ki_columns",
        ),
    )
    grid = (c.ceil_div(rows, _ROWS), strips + (rest > 0), count)
    steps = _step(left), size if batch > 1 else 0
    kernel(out, left, packed, rows, columns, depth, *steps, numworkgroups=grid, workgroupsize=32)
    return out


def _general(
    left: Array, right: Array, out: Array, kind: np.dtype[Any], count: int, rows: int, depth: int, columns: int
) -> None:
    from .reductions import SHIFT_DOWN

    wide = max(left.size, right.size, out.size) >= c.NARROW
    types = (left.dtype, right.dtype, kind)
    name = "ki_dot" if columns == 1 else "ki_general"
    # Integers wrap around in unsigned types; bool is true where a product is.
    acc = "float" if c.is_float(kind) else "ulong" if kind.itemsize == 8 else "uint"
    kernel: Kernel = c.cached(
        (name, types, wide, out.device),
        lambda: c.compiled(
            f"{c.PRELUDE}typedef {'long' if wide else 'int'} ix; typedef {acc} ki_a;\n"
            + "".join(f"typedef {c.msl(d, 'matmul')} ki_{n};\n" for n, d in zip("lro", types, strict=True))
            + f"typedef ki_o ki_c;\n{SHIFT_DOWN}{_GENERAL}",
            name,
        ),
    )
    steps = _step(left), _step(right)
    if columns == 1:
        kernel(out, left, right, depth, rows, *steps, numworkgroups=(rows, count), workgroupsize=32)
    else:
        kernel(out, left, right, columns, depth, rows, *steps, ndrange=(columns, rows, count))


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """The sum of products along `axis` of two arrays that broadcast."""
    from .reductions import sum as sum_of

    a, b = c.as_operand(x1, "vecdot"), c.as_operand(x2, "vecdot")
    kind = c.promote([a.dtype, b.dtype], "vecdot")
    if not -min(a.ndim, b.ndim) <= axis < 0:
        axis = c.normal_axis(axis, max(a.ndim, b.ndim)) - max(a.ndim, b.ndim)
    if a.shape[axis] != b.shape[axis]:
        raise ArgumentError(f"vecdot: the axes have {a.shape[axis]} and {b.shape[axis]} elements, which must match")
    return sum_of(a * b, axis=axis, dtype=kind)


def outer(x1: Any, x2: Any, /) -> Array:
    """All products of an element of `x1` and one of `x2`, both flattened."""
    a, b = c.as_operand(x1, "outer").reshape(-1, 1), c.as_operand(x2, "outer").reshape(1, -1)
    product: Array = a * b
    return product


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Array:
    """The sum of products over several axes: the last `axes` of `x1` with the first of `x2`, or the axes that a pair of
    sequences names. Raises ArgumentError when their sizes differ."""
    a, b = c.as_operand(x1, "tensordot"), c.as_operand(x2, "tensordot")
    if isinstance(axes, (tuple, list)):
        one, two = ([c.normal_axis(i, x.ndim) for i in s] for x, s in zip((a, b), axes, strict=True))
    else:
        count = int(axes)
        one, two = list(range(a.ndim - count, a.ndim)), list(range(count))
    if len(one) != len(two) or any(a.shape[i] != b.shape[j] for i, j in zip(one, two, strict=True)):
        raise ArgumentError("shape-mismatch for sum")
    kept_a, kept_b = [i for i in range(a.ndim) if i not in one], [i for i in range(b.ndim) if i not in two]
    depth = c.elements([a.shape[i] for i in one])
    left = permute_dims(a, kept_a + one).reshape(c.elements([a.shape[i] for i in kept_a]), depth)
    right = permute_dims(b, two + kept_b).reshape(depth, c.elements([b.shape[i] for i in kept_b]))
    return matmul(left, right).reshape((*[a.shape[i] for i in kept_a], *[b.shape[i] for i in kept_b]))
