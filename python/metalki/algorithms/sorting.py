"""mk.sort and mk.argsort: a stable radix sort along an axis, least significant digit first.

Every thread counts the digits of a chunk of a row and later moves the chunk's elements in order; between the two a scan of
all counts gives each chunk its places (Satish, Harris and Garland, "Designing efficient sorting algorithms for manycore
GPUs", 2009). Floats are sorted by their bits, made monotonic (Herf, "Radix tricks", 2001); NaN comes last.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._array import Array
from .._kernel import Kernel
from ..errors import ArgumentError
from . import _common as c
from . import networks, partitioning
from .arranging import moveaxis

__all__ = ["argsort", "sort"]

# Bits of a digit, and of those of long rows, whose counts are worth their memory.
_BITS, _LONG_BITS, _LONG = 8, 11, 65536
# Rows up to this length are sorted by a thread each where there are enough of them; chunks are at least as long.
_CHUNK, _LONG_CHUNK = 2048, 8192
_ROWS = 64

# The first pass makes keys of the elements, the last one makes elements of the keys.
_FIRST, _LAST = 1, 2

_PASSES = """
inline uint ki_digit(ki_k key, uint shift) { return (uint)(key >> (ki_k)shift) & (KI_RADIX - 1); }

kernel void ki_count(device uint* counts, device const ki_k* keys, constant ix& length, constant ix& chunk,
                     constant uint& chunks, constant uint& shift, constant uint& flags,
                     uint2 at [[thread_position_in_grid]]) {
    device uint* own = counts + (ix)at.y * KI_RADIX * chunks + at.x;
    for (uint d = 0; d < KI_RADIX; ++d) own[d * chunks] = 0;
    const ix start = (ix)at.y * length, first = start + (ix)at.x * chunk, last = min(first + chunk, start + length);
    for (ix i = first; i < last; ++i) {
        const ki_k key = flags & KI_FIRST ? ki_key(as_type<ki_u>(keys[i])) : keys[i];
        own[ki_digit(key, shift) * chunks] += 1;
    }
}

// A SIMD-group for every row: where the elements of each digit and chunk go.
kernel void ki_places(device uint* counts, constant ix& size, uint row [[threadgroup_position_in_grid]],
                      uint lane [[thread_index_in_simdgroup]]) {
    device uint* own = counts + (ix)row * size;
    uint before = 0;
    for (ix at = 0; at < size; at += 32) {
        const bool inside = at + lane < size;
        const uint n = inside ? own[at + lane] : 0;
        const uint place = before + simd_prefix_exclusive_sum(n);
        if (inside) own[at + lane] = place;
        before += simd_sum(n);
    }
}

kernel void ki_move(device ki_k* sorted, device long* places, device const ki_k* keys, device const long* indices,
                    device uint* counts, constant ix& length, constant ix& chunk, constant uint& chunks,
                    constant uint& shift, constant uint& flags, uint2 at [[thread_position_in_grid]]) {
    device uint* own = counts + (ix)at.y * KI_RADIX * chunks + at.x;
    const ix start = (ix)at.y * length, first = start + (ix)at.x * chunk, last = min(first + chunk, start + length);
    for (ix i = first; i < last; ++i) {
        const ki_k key = flags & KI_FIRST ? ki_key(as_type<ki_u>(keys[i])) : keys[i];
        const uint d = ki_digit(key, shift) * chunks;
        const uint place = own[d];
        own[d] = place + 1;
        sorted[start + place] = flags & KI_LAST ? as_type<ki_k>(ki_value(key)) : key;
#if KI_ARGSORT
        places[start + place] = flags & KI_FIRST ? (long)(i - start) : indices[i];
#endif
    }
}
"""


def _keys(dtype: np.dtype[Any], index: bool, descending: bool, wide: bool) -> str:
    """The types, and the functions between elements and unsigned keys of the same order."""
    t = c.msl(dtype, "sort")
    bits = dtype.itemsize * 8
    key = {8: "uchar", 16: "ushort", 32: "uint", 64: "ulong"}[bits]
    top = f"((ki_k)1 << {bits - 1})"
    ones = "(ki_k)~(ki_k)0"
    if c.is_float(dtype):
        zero = "b = b == KI_TOP ? (ki_k)0 : b;" if index else ""
        to_key = f"ki_k b = as_type<ki_k>(v); {zero} return v != v ? {ones} : (ki_k)(b & KI_TOP ? ~b : b | KI_TOP);"
        from_key = "return as_type<ki_t>((ki_k)(k & KI_TOP ? k ^ KI_TOP : ~k));"
    elif dtype.kind == "i":
        to_key, from_key = "return (ki_k)v ^ KI_TOP;", "return (ki_t)(ki_k)(k ^ KI_TOP);"
    else:
        to_key, from_key = "return (ki_k)v;", "return (ki_t)k;"
    if descending:
        to_key = f"struct {{ ki_k of(ki_t v) {{ {to_key} }} }} made; return (ki_k)~made.of(v);"
        from_key = f"k = (ki_k)~k; {from_key}"
    return (
        f"{c.PRELUDE}typedef {'long' if wide else 'int'} ix; typedef {t} ki_t; typedef {key} ki_k;\n#define KI_TOP {top}\n"
        f"inline ki_k ki_key(ki_t v) {{ {to_key} }}\ninline ki_t ki_value(ki_k k) {{ {from_key} }}\n"
    )


def _kernels(
    dtype: np.dtype[Any], index: bool, descending: bool, bits: int, wide: bool, device: Any
) -> tuple[Kernel, Kernel, Kernel]:
    def make() -> tuple[Kernel, Kernel, Kernel]:
        text = (
            f"{_keys(dtype, index, descending, wide)}typedef {'uchar' if dtype.kind == 'b' else 'ki_t'} ki_u;\n"
            f"#define KI_RADIX {1 << bits}u\n#define KI_ARGSORT {int(index)}\n"
            f"#define KI_FIRST {_FIRST}\n#define KI_LAST {_LAST}\n{_PASSES}"
        )
        count, places, move = (c.compiled(text, f"ki_{n}") for n in ("count", "places", "move"))
        return count, places, move

    found: tuple[Kernel, Kernel, Kernel] = c.cached(("sort", dtype, index, descending, bits, wide, device), make)
    return found


def _sorted_rows(x: Array, rows: int, length: int, index: bool, descending: bool) -> Array:
    """The rows of `x` sorted, or the places of their elements."""
    dtype = x.dtype
    is_long = length >= _LONG and dtype.itemsize >= 4
    bits, least = (_LONG_BITS, _LONG_CHUNK) if is_long else (_BITS, _CHUNK)
    passes = c.ceil_div(dtype.itemsize * 8, bits)
    chunks = max(1, min(c.ceil_div(length, least), 4096 // rows if rows < _ROWS else 1))
    chunk = c.ceil_div(length, chunks)
    chunks = c.ceil_div(length, chunk)
    wide = x.size >= c.NARROW - 1024 or rows * chunks << bits >= c.NARROW
    count, places, move = _kernels(dtype, index, descending, bits, wide, x.device)
    unsigned = np.dtype(f"uint{dtype.itemsize * 8}")
    counts = c.result_like((rows, chunks << bits), c.UINT32, x)
    nothing = c.result_like((1,), c.INT64, x)
    # Passes go to and fro between two arrays; the last one ends in the first of them.
    targets = [c.result_like((x.size,), unsigned, x) for _ in range(min(passes, 2))]
    orders = [c.result_like((x.size,), c.INT64, x) for _ in targets] if index else [nothing, nothing]
    keys, indices = x.view(unsigned), nothing
    for number in range(passes):
        flags = _FIRST * (number == 0) + _LAST * (number == passes - 1)
        numbers, grid = (length, chunk, chunks, number * bits, flags), (chunks, rows)
        count(counts, keys, *numbers, ndrange=grid)
        places(counts, chunks << bits, numworkgroups=rows, workgroupsize=32)
        side = (passes - 1 - number) % 2
        move(targets[side], orders[side], keys, indices, counts, *numbers, ndrange=grid)
        keys, indices = targets[side], orders[side]
    return indices if index else keys.view(dtype)


def _along(x: Any, axis: Any, index: bool, descending: bool, what: str) -> Array:
    value = c.as_operand(x, what)
    c.msl(value.dtype, what)
    if axis is None:
        value, axis = value.reshape(-1), 0
    if index:
        value = c.with_axis(value, axis)
    if value.ndim == 0:
        c.axis_error(axis, 0)
    at = c.normal_axis(axis, value.ndim)
    if value.size == 0:
        return c.result_like(value.shape, c.INT64 if index else value.dtype, value)
    moved = value
    if at != value.ndim - 1:
        moved = moveaxis(value, at, -1)
    length = moved.shape[-1]
    if length >= 2**32:
        raise ArgumentError(f"{what}: at most 4294967295 elements along the axis, {length} were given")
    rows = moved.size // length
    if not index and networks.fits(moved, length):
        result = networks.sorted_rows(moved, rows, length, descending)
        return result if moved is value else moveaxis(result, -1, at)
    if not index and partitioning.fits(moved):
        result = partitioning.sorted_rows(moved, rows, length, descending)
    else:
        result = _sorted_rows(moved, rows, length, index, descending).reshape(moved.shape)
    if moved is not value:
        result = moveaxis(result, -1, at)
    return result


def sort(x: Any, /, axis: int | None = -1, descending: bool = False, stable: bool = True) -> Array:
    """The elements in ascending (or descending) order along `axis`, of the flattened array for None; NaN comes last
    (first when descending). The sort is stable in any case. Raises AxisError as numpy does."""
    return _along(x, axis, False, bool(descending), "sort")


def argsort(x: Any, /, axis: int | None = -1, descending: bool = False, stable: bool = True) -> Array:
    """The places (int64) of the elements in the order of sort(); equal elements keep their order."""
    return _along(x, axis, True, bool(descending), "argsort")
