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
from . import networks
from .arranging import moveaxis
from .scans import accumulate

__all__ = ["argsort", "sort"]

_BITS = 8
# Rows up to this length are sorted by a thread each where there are enough of them; chunks are at least as long.
_CHUNK = 2048
_ROWS = 64

_PASSES = """
inline uint ki_digit(ki_k key, uint shift) { return (uint)(key >> (ki_k)shift) & (KI_RADIX - 1); }

kernel void ki_count(device uint* counts, device const KI_IN* keys, constant ix& length, constant ix& chunk,
                     constant uint& chunks, constant uint& shift, uint2 at [[thread_position_in_grid]]) {
    device uint* own = counts + (ix)at.y * KI_RADIX * chunks + at.x;
    for (uint d = 0; d < KI_RADIX; ++d) own[d * chunks] = 0;
    const ix start = (ix)at.y * length, first = start + (ix)at.x * chunk, last = min(first + chunk, start + length);
    for (ix i = first; i < last; ++i) own[ki_digit(KI_READ(keys[i]), shift) * chunks] += 1;
}

kernel void ki_move(device KI_OUT* sorted, device KI_INDEX_OUT* places, device const KI_IN* keys, device const uint* indices,
                    device uint* counts, constant ix& length, constant ix& chunk, constant uint& chunks,
                    constant uint& shift, uint2 at [[thread_position_in_grid]]) {
    device uint* own = counts + (ix)at.y * KI_RADIX * chunks + at.x;
    const ix start = (ix)at.y * length, first = start + (ix)at.x * chunk, last = min(first + chunk, start + length);
    for (ix i = first; i < last; ++i) {
        const ki_k key = KI_READ(keys[i]);
        const uint d = ki_digit(key, shift) * chunks;
        const uint place = own[d];
        own[d] = place + 1;
#if !KI_ARGSORT || !KI_LAST
        sorted[start + place] = KI_WRITE(key);
#endif
#if KI_ARGSORT
        places[start + place] = KI_FIRST ? (KI_INDEX_OUT)(i - start) : (KI_INDEX_OUT)indices[i];
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


def _source(dtype: np.dtype[Any], index: bool, descending: bool, first: bool, last: bool, wide: bool) -> str:
    read = "ki_key(v)" if first else "v"
    write = "ki_value(k)" if last else "k"
    return (
        f"{_keys(dtype, index, descending, wide)}#define KI_RADIX {1 << _BITS}u\n"
        f"#define KI_IN {'ki_t' if first else 'ki_k'}\n#define KI_OUT {'ki_t' if last else 'ki_k'}\n"
        f"#define KI_INDEX_OUT {'long' if last else 'uint'}\n"
        f"#define KI_READ(v) {read}\n#define KI_WRITE(k) {write}\n"
        f"#define KI_ARGSORT {int(index)}\n#define KI_FIRST {int(first)}\n#define KI_LAST {int(last)}\n{_PASSES}"
    )


def _kernels(
    dtype: np.dtype[Any], index: bool, descending: bool, first: bool, last: bool, wide: bool, device: Any
) -> tuple[Kernel, Kernel]:
    def make() -> tuple[Kernel, Kernel]:
        source = _source(dtype, index, descending, first, last, wide)
        return c.compiled(source, "ki_count"), c.compiled(source, "ki_move")

    found: tuple[Kernel, Kernel] = c.cached(("sort", dtype, index, descending, first, last, wide, device), make)
    return found


def _sorted_rows(x: Array, rows: int, length: int, index: bool, descending: bool) -> Array:
    """The rows of `x` sorted, or the places of their elements."""
    dtype = x.dtype
    passes = -(-dtype.itemsize * 8 // _BITS) if dtype.kind != "b" else 1
    chunks = max(1, min(-(-length // _CHUNK), 4096 // rows if rows < _ROWS else 1))
    chunk = -(-length // chunks)
    chunks = -(-length // chunk)
    wide = x.size >= c.NARROW - 1024 or rows * chunks << _BITS >= c.NARROW
    unsigned = np.dtype(f"uint{dtype.itemsize * 8}")
    counts = c.result_like((rows, chunks << _BITS), c.UINT32, x)
    nothing = c.result_like((1,), c.UINT32, x)
    keys, indices = x, nothing
    for number in range(passes):
        first, last = number == 0, number == passes - 1
        count, move = _kernels(dtype, index, descending, first, last, wide, x.device)
        grid = (chunks, rows)
        count(counts, keys, length, chunk, chunks, number * _BITS, ndrange=grid)
        starts = accumulate("+", counts, 1, exclusive=True, dtype=c.UINT32)
        places = c.result_like((x.size,), c.INT64 if last else c.UINT32, x) if index else nothing
        size = 1 if index and last else x.size
        target = c.result_like((size,), dtype if last else unsigned, x)
        if not index and last:
            places = c.result_like((1,), c.INT64, x)
        move(target, places, keys, indices, starts, length, chunk, chunks, number * _BITS, ndrange=grid)
        keys, indices = target, places if index and not last else nothing
    return places if index else target


def _along(x: Any, axis: Any, index: bool, descending: bool, what: str) -> Array:
    value = c.as_operand(x, what)
    c.msl(value.dtype, what)
    if axis is None:
        value, axis = value.reshape(-1), 0
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
    if not index and networks.fits(value.dtype, length):
        keys = _keys(value.dtype, False, descending, moved.size >= c.NARROW)
        result = networks.sorted_rows(moved, rows, length, keys, descending)
        return result if moved is value else moveaxis(result, -1, at)
    result = _sorted_rows(moved, rows, length, index, descending).reshape(moved.shape)
    if moved is not value:
        result = moveaxis(result, -1, at)
    return result


def sort(x: Any, /, *, axis: int | None = -1, descending: bool = False, stable: bool = True) -> Array:
    """The elements in ascending (or descending) order along `axis`, of the flattened array for None; NaN comes last
    (first when descending). The sort is stable in any case. Raises AxisError as numpy does."""
    return _along(x, axis, False, bool(descending), "sort")


def argsort(x: Any, /, *, axis: int | None = -1, descending: bool = False, stable: bool = True) -> Array:
    """The places (int64) of the elements in the order of sort(); equal elements keep their order."""
    return _along(x, axis, True, bool(descending), "argsort")
