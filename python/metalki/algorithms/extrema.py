"""The smallest and the largest element and where they are: findmin, findmax, argmin, argmax.

The same cuts as in reductions, on pairs of value and index; the first of equal elements wins, and the first NaN before all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._array import Array
from .._kernel import Kernel
from ..errors import ArgumentError
from . import _common as c
from . import reductions as r

__all__ = ["argmax", "argmin", "findmax", "findmin"]

_HELPERS = """
template <typename T> inline T ki_shift_xor(T v, ushort n) { return simd_shuffle_xor(v, n); }
template <> inline long ki_shift_xor(long v, ushort n) { return as_type<long>(simd_shuffle_xor(as_type<uint2>(v), n)); }
template <> inline ulong ki_shift_xor(ulong v, ushort n) { return as_type<ulong>(simd_shuffle_xor(as_type<uint2>(v), n)); }
inline bool ki_better(ki_a a, ki_a b) { return a KI_SIGN b || ki_isnan(a, b); }
"""

_STEP = "#define KI_STEP(n) { const ki_a v = ki_shift_xor(best, n); best = v KI_SIGN best ? v : best; }\n"

# Elements after which the best of a lane is compared with what it was before.
_BLOCK = 4096

_ROWS = """
// A SIMD-group for every chunk of every row.
kernel void ki_rows(device ki_t* values, device long* places, device const ki_t* x, device const long* given,
                    constant int& is_given, constant ix& length, constant ix& chunk,
                    uint2 group [[threadgroup_position_in_grid]], uint2 groups [[threadgroups_per_grid]],
                    uint lane [[thread_index_in_simdgroup]]) {
    const ix start = (ix)group.y * length, first = start + (ix)group.x * chunk;
    const ix last = min(first + chunk, start + length);
    // The value first, and the block where each lane has it; then its place in there: cheaper than carrying that along.
    ki_a best = x[first];
    ix where = first;
    bool has_nan = false;
    for (ix block = first; block < last; block += KI_BLOCK) {
        const ix end = min(block + (ix)KI_BLOCK, last);
        ki_a v0 = best, v1 = best, v2 = best, v3 = best;
        ix at = block;
        for (; at + 128 <= end; at += 128) {
            const ix i = at + lane;
            const ki_a a0 = x[i], a1 = x[i + 32], a2 = x[i + 64], a3 = x[i + 96];
            v0 = a0 KI_SIGN v0 ? a0 : v0;
            v1 = a1 KI_SIGN v1 ? a1 : v1;
            v2 = a2 KI_SIGN v2 ? a2 : v2;
            v3 = a3 KI_SIGN v3 ? a3 : v3;
            has_nan = has_nan || KI_UNORDERED(a0, a1) || KI_UNORDERED(a2, a3);
        }
        for (; at < end; at += 32) {
            if (at + lane < end) {
                const ki_a a0 = x[at + lane];
                v0 = a0 KI_SIGN v0 ? a0 : v0;
                has_nan = has_nan || KI_UNORDERED(a0, a0);
            }
        }
        v0 = v1 KI_SIGN v0 ? v1 : v0;
        v2 = v3 KI_SIGN v2 ? v3 : v2;
        v0 = v2 KI_SIGN v0 ? v2 : v0;
        where = v0 KI_SIGN best ? block : where;
        best = v0 KI_SIGN best ? v0 : best;
    }
    const ki_a own = best;
    KI_STEP(16) KI_STEP(8) KI_STEP(4) KI_STEP(2) KI_STEP(1)
    const int block_number = (int)((where - first) / KI_BLOCK);
    ix from = first + (ix)simd_min(own == best ? block_number : INT_MAX) * KI_BLOCK;
    if (simd_any(has_nan)) {
        best = KI_NAN;
        from = first;
    }
    ix place = first;
    for (ix at = from; at < last; at += 32) {
        const ix i = at + lane;
        bool here = false;
        if (i < last) {
            const ki_a v = x[i];
            here = v == best || ki_both_nan(v, best);
        }
        if (simd_any(here)) {
            place = at + simd_min(here ? lane : 32u);
            break;
        }
    }
    if (lane == 0) {
        const ix o = (ix)group.y * groups.x + group.x;
        values[o] = (ki_t)best;
        places[o] = is_given ? given[place] : (long)(place - start);
    }
}
"""

_COLUMNS = """
// A thread for every chunk of every column.
kernel void ki_columns(device ki_t* values, device long* places, device const ki_t* x, device const long* given,
                       constant int& is_given, constant ix& inner, constant ix& length, constant ix& chunk,
                       uint3 at [[thread_position_in_grid]], uint3 grid [[threads_per_grid]]) {
    const ix row = (ix)at.y * chunk, last = min(row + chunk, length);
    const ix column = (ix)at.z * length * inner + at.x;
    ix i = column + row * inner;
    ki_a best = x[i];
    ix place = row;
    i += inner;
    for (ix k = row + 1; k < last; ++k, i += inner) {
        const ki_a v = x[i];
        const bool wins = ki_better(v, best);
        best = wins ? v : best;
        place = wins ? k : place;
    }
    const ix o = ((ix)at.z * grid.y + at.y) * inner + at.x;
    values[o] = (ki_t)best;
    places[o] = is_given ? given[column + place * inner] : (long)place;
}
"""


def _kernel(kind: str, sign: str, dtype: np.dtype[Any], wide: bool, device: Any) -> Kernel:
    def make() -> Kernel:
        acc = r._element_types("min", dtype)[0]
        is_float = c.is_float(acc)
        text = [c.PRELUDE, f"typedef {'long' if wide else 'int'} ix;\n"]
        text += [f"typedef {c.msl(d, 'findmin')} ki_{n};\n" for n, d in (("t", dtype), ("a", acc))]
        text.append(f"#define KI_SIGN {sign}\n#define KI_BLOCK {_BLOCK}\n")
        text.append(
            f"inline bool ki_isnan(ki_a a, ki_a b) {{ return {'a != a && b == b' if is_float else 'false'}; }}\n"
        )
        both = "a != a && b != b" if is_float else "false"
        text.append(f"inline bool ki_both_nan(ki_a a, ki_a b) {{ return {both}; }}\n")
        text.append(f"#define KI_UNORDERED(a, b) {'isunordered(a, b)' if is_float else 'false'}\n")
        text.append(f"#define KI_NAN {'(ki_a)NAN' if is_float else 'best'}\n")
        body = {"rows": _ROWS, "columns": _COLUMNS}[kind]
        return c.compiled("".join([*text, _HELPERS, _STEP, body]), "ki_" + kind)

    kernel: Kernel = c.cached(("extrema", kind, sign, dtype, wide, device), make)
    return kernel


def _find(sign: str, x: Any, axis: Any, keepdims: bool, what: str) -> tuple[Array, Array]:
    if type(x) is Array:
        known = _known.get((sign, x.dtype, x.shape, x.device, axis, keepdims))
        if known is not None:
            return _execute(known, x)
    value = c.as_operand(x, what)
    if value.ndim == 0 and c.with_axis(value, axis) is not value:
        axis = None
    whole: tuple[int, ...] = value.shape
    shape = whole
    if axis is None:
        at, shape = 0, (value.size,)
    else:
        at = c.normal_axis(axis, value.ndim)
    name = {"find": "arg", "argm": "argm"}.get(what[:4], what[:4]) + what[4:]
    if shape[at] == 0:
        raise ArgumentError(f"attempt to get {name} of an empty sequence")
    kept = (*shape[:at], *shape[at + 1 :])
    if keepdims:
        kept = (1,) * len(whole) if axis is None else (*shape[:at], 1, *shape[at + 1 :])
    if value.size == 0:
        return c.result_like(kept, value.dtype, value), c.result_like(kept, c.INT64, value)
    sizes = c.elements(shape[:at]), shape[at], c.elements(shape[at + 1 :])
    known = _Known(_plan(sign, value.dtype, sizes, value.device), value.dtype, kept)
    if len(_known) >= c._MOST_CACHED:
        _known.clear()
    if axis is None or type(axis) is int:
        _known[sign, value.dtype, value.shape, value.device, axis, keepdims] = known
    return _execute(known, value)


class _Step(NamedTuple):
    """One launch: the kernel, its numbers and grid, and of how many elements it leaves values and places."""

    kernel: Kernel
    numbers: tuple[int, ...]
    ndrange: tuple[int, ...] | None
    groups: tuple[int, ...] | None
    size: int


class _Known(NamedTuple):
    """The launches of a search, and the result's dtype and shape."""

    steps: list[_Step]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


_known: dict[Any, _Known] = {}


def _execute(known: _Known, x: Array) -> tuple[Array, Array]:
    values, given = x, None
    for step in known.steps:
        shape = known.shape if step is known.steps[-1] else (step.size,)
        out = c.result_like(shape, known.dtype, x), c.result_like(shape, c.INT64, x)
        # There is nothing to read of places that were not found yet; any array will do.
        arguments = (*out, values, out[1] if given is None else given, int(given is not None), *step.numbers)
        if step.groups is None:
            step.kernel(*arguments, ndrange=step.ndrange)
        else:
            step.kernel(*arguments, numworkgroups=step.groups, workgroupsize=32)
        values, given = out
    assert given is not None
    return values, given


def _plan(sign: str, dtype: np.dtype[Any], sizes: tuple[int, int, int], device: Any) -> list[_Step]:
    """The launches that search the middle of (outer, length, inner)."""
    outer, length, inner = sizes
    wide = outer * length * inner >= c.NARROW - 1024
    kind = "rows" if inner == 1 else "columns"
    kernel = _kernel(kind, sign, dtype, wide, device)
    steps: list[_Step] = []
    while True:
        if inner == 1:
            chunks = min(c.exact_chunks(device, length), max(1, r._MOST_CHUNKS // outer))
            chunk = c.round_up(-(-length // chunks), 32)
        else:
            chunks = 1 if inner * outer >= 2048 else min(-(-length // 64), max(1, 2048 // (inner * outer)))
            chunk = -(-length // chunks)
        chunks = -(-length // chunk)
        size = outer * chunks * inner
        if kind == "rows":
            steps.append(_Step(kernel, (length, chunk), None, (chunks, outer), size))
        else:
            steps.append(_Step(kernel, (inner, length, chunk), (inner, chunks, outer), None, size))
        if chunks == 1:
            return steps
        length = chunks


def findmin(x: Any, /, axis: int | None = None, keepdims: bool = False) -> tuple[Array, Array]:
    """The smallest element along `axis` (of the flattened array for None) and its index (int64), the first of equal ones.

    NaN counts as smallest. Raises ArgumentError for nothing."""
    return _find("<", x, axis, keepdims, "findmin")


def findmax(x: Any, /, axis: int | None = None, keepdims: bool = False) -> tuple[Array, Array]:
    """The largest element along `axis` (of the flattened array for None) and its index (int64), the first of equal ones.

    NaN counts as largest. Raises ArgumentError for nothing."""
    return _find(">", x, axis, keepdims, "findmax")


def argmin(x: Any, /, axis: int | None = None, keepdims: bool = False) -> Array:
    """The index of the smallest element along `axis`, as int64; see findmin."""
    return _find("<", x, axis, keepdims, "argmin")[1]


def argmax(x: Any, /, axis: int | None = None, keepdims: bool = False) -> Array:
    """The index of the largest element along `axis`, as int64; see findmax."""
    return _find(">", x, axis, keepdims, "argmax")[1]
