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
inline bool ki_before(ki_a a, ix i, ki_a b, ix j) { return ki_better(a, b) || (!ki_better(b, a) && i < j); }
"""

_STEP = "#define KI_STEP(n) { const ki_a v = ki_shift_xor(best, n); best = v KI_SIGN best ? v : best; }\n"

_ROWS = """
kernel void ki_rows(device ki_s* values, device ki_p* places, device const ki_t* x, device const ix* given,
                    constant ix& length, constant ix& chunk, uint2 group [[threadgroup_position_in_grid]],
                    uint2 groups [[threadgroups_per_grid]], uint lane [[thread_index_in_simdgroup]]) {
    const ix start = (ix)group.y * length, first = start + (ix)group.x * chunk;
    const ix last = min(first + chunk, start + length);
    // The value first, then the first place where it is: cheaper than carrying both along.
    const ki_a any = x[first];
    ki_a v0 = any, v1 = any, v2 = any, v3 = any;
    bool has_nan = false;
    ix at = first;
    for (; at + 128 <= last; at += 128) {
        const ix i = at + lane;
        const ki_a a0 = x[i], a1 = x[i + 32], a2 = x[i + 64], a3 = x[i + 96];
        v0 = a0 KI_SIGN v0 ? a0 : v0;
        v1 = a1 KI_SIGN v1 ? a1 : v1;
        v2 = a2 KI_SIGN v2 ? a2 : v2;
        v3 = a3 KI_SIGN v3 ? a3 : v3;
        has_nan = has_nan || KI_UNORDERED(a0, a1) || KI_UNORDERED(a2, a3);
    }
    for (; at < last; at += 32) {
        if (at + lane < last) {
            const ki_a a0 = x[at + lane];
            v0 = a0 KI_SIGN v0 ? a0 : v0;
            has_nan = has_nan || KI_UNORDERED(a0, a0);
        }
    }
    v0 = v1 KI_SIGN v0 ? v1 : v0;
    v2 = v3 KI_SIGN v2 ? v3 : v2;
    ki_a best = v2 KI_SIGN v0 ? v2 : v0;
    KI_STEP(16) KI_STEP(8) KI_STEP(4) KI_STEP(2) KI_STEP(1)
    if (simd_any(has_nan)) best = KI_NAN;
    ix place = first;
    for (at = first; at < last; at += 32) {
        const ix i = at + lane;
        bool here = false;
        if (i < last) {
            const ki_a v = x[i];
            here = v == best || ki_both_nan(v, best);
        }
        if (simd_any(here)) {
            place = at + simd_min(here ? lane : 32u) - start;
            break;
        }
    }
    if (lane == 0) {
        const ix o = (ix)group.y * groups.x + group.x;
        values[o] = (ki_s)best;
        places[o] = (ki_p)place;
    }
}
"""

_LOCATE = """
// A SIMD-group for every row: which of its chunks has the best value, and where in that chunk it is first.
kernel void ki_locate(device ki_s* values, device ki_p* places, device const ki_t* x, device const ki_a* given,
                      constant ix& length, constant ix& chunk, constant ix& chunks,
                      uint row [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
    device const ki_a* own = given + (ix)row * chunks;
    ki_a best = own[0];
    bool has_nan = false;
    for (ix at = 0; at < chunks; at += 32) {
        const ki_a v = own[min(at + (ix)lane, chunks - 1)];
        best = v KI_SIGN best ? v : best;
        has_nan = has_nan || KI_UNORDERED(v, v);
    }
    KI_STEP(16) KI_STEP(8) KI_STEP(4) KI_STEP(2) KI_STEP(1)
    if (simd_any(has_nan)) best = KI_NAN;
    ix first = 0;
    for (ix at = 0; at < chunks; at += 32) {
        const ki_a v = own[min(at + (ix)lane, chunks - 1)];
        const bool here = v == best || ki_both_nan(v, best);
        if (simd_any(here)) {
            first = (at + (ix)simd_min(here ? lane : 32u)) * chunk;
            break;
        }
    }
    const ix start = (ix)row * length, last = start + min(first + chunk, length);
    for (ix at = start + first; at < last; at += 32) {
        const ki_a v = x[min(at + (ix)lane, last - 1)];
        const bool here = v == best || ki_both_nan(v, best);
        if (simd_any(here)) {
            first = at + (ix)simd_min(here ? lane : 32u) - start;
            break;
        }
    }
    if (lane == 0) {
        values[row] = (ki_s)best;
        places[row] = (ki_p)first;
    }
}
"""

_COLUMNS = """
kernel void ki_columns(device ki_s* values, device ki_p* places, device const ki_t* x, device const ix* given,
                       constant ix& inner, constant ix& length, constant ix& chunk,
                       uint3 at [[thread_position_in_grid]], uint3 grid [[threads_per_grid]]) {
    const ix row = (ix)at.y * chunk, last = min(row + chunk, length);
    ix i = ((ix)at.z * length + row) * inner + at.x;
    ki_a best = x[i];
    ix place = KI_PLACE(i, row);
    i += inner;
    for (ix k = row + 1; k < last; ++k, i += inner) {
        const ki_a v = x[i];
        const bool wins = ki_better(v, best);
        best = wins ? v : best;
        place = wins ? KI_PLACE(i, k) : place;
    }
    const ix o = ((ix)at.z * grid.y + at.y) * inner + at.x;
    values[o] = (ki_s)best;
    places[o] = (ki_p)place;
}
"""


def _kernel(
    kind: str, sign: str, element: np.dtype[Any], acc: np.dtype[Any], result: np.dtype[Any], pairs: bool, wide: bool,
    last: bool, device: Any,
) -> Kernel:  # fmt: skip
    def make() -> Kernel:
        ix = "long" if wide else "int"
        nan = "a != a && b == b" if c.is_float(acc) else "false"
        types = {"t": element, "a": acc, "s": result}
        text = [c.PRELUDE, f"typedef {ix} ix;\n", r.HELPERS]
        text += [f"typedef {c.msl(d, 'findmin')} ki_{n};\n" for n, d in types.items()]
        text.append(f"typedef {'long' if last else ix} ki_p;\n#define KI_SIGN {sign}\n")
        text.append(f"inline bool ki_isnan(ki_a a, ki_a b) {{ return {nan}; }}\n")
        both = "a != a && b != b" if c.is_float(acc) else "false"
        text.append(f"inline bool ki_both_nan(ki_a a, ki_a b) {{ return {both}; }}\n")
        is_float = c.is_float(acc)
        text.append(f"#define KI_UNORDERED(a, b) {'isunordered(a, b)' if is_float else 'false'}\n")
        text.append(f"#define KI_NAN {'(ki_a)NAN' if is_float else 'best'}\n")
        text.append(f"#define KI_PLACE(i, k) {'given[i]' if pairs else '(ix)(k)'}\n")
        return c.compiled(
            "".join([*text, _HELPERS, _STEP, {"rows": _ROWS, "columns": _COLUMNS, "locate": _LOCATE}[kind]]),
            "ki_" + kind,
        )

    kernel: Kernel = c.cached(("extrema", kind, sign, element, acc, result, pairs, wide, last, device), make)
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
    acc = r._element_types("min", value.dtype)[0]
    sizes = c.elements(shape[:at]), shape[at], c.elements(shape[at + 1 :])
    places = c.INT64 if value.size >= c.NARROW - 1024 else c.INT32
    chunked: r.Step | None = None
    steps: list[_Step]
    if sizes[2] == 1 and sizes[1] > c.chunk_of(value.device) and sizes[0] < r._MOST_CHUNKS:
        chunked, steps = _long_rows(sign, value.dtype, acc, sizes[0], sizes[1], places, value.device)
    else:
        steps = _plan(sign, value.dtype, acc, sizes, places, value.device)
    known = _Known(steps, places, value.dtype, kept, chunked, sign == "<")
    if len(_known) >= c._MOST_CACHED:
        _known.clear()
    if axis is None or type(axis) is int:
        _known[sign, value.dtype, value.shape, value.device, axis, keepdims] = known
    return _execute(known, value)


class _Step(NamedTuple):
    """One launch: the kernel, its numbers and grid, and what it leaves: values and places of `size` elements."""

    kernel: Kernel
    numbers: tuple[int, ...]
    ndrange: tuple[int, ...] | None
    groups: tuple[int, ...] | None
    size: int
    dtype: np.dtype[Any]


class _Known(NamedTuple):
    """The launches of a search, and the result's dtypes and shape."""

    steps: list[_Step]
    places: np.dtype[Any]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    chunked: r.Step | None  # of long rows: the reduction of chunks, whose results the only step takes
    least: bool


_known: dict[Any, _Known] = {}


def _execute(known: _Known, x: Array) -> tuple[Array, Array]:
    if known.chunked is not None:
        partial = c.result_like((known.chunked.size,), known.chunked.dtype, x)
        r._launch(known.chunked, partial, [x], r.identity("min" if known.least else "max", known.chunked.dtype))
        step = known.steps[0]
        out = c.result_like(known.shape, known.dtype, x), c.result_like(known.shape, c.INT64, x)
        step.kernel(*out, x, partial, *step.numbers, numworkgroups=step.groups, workgroupsize=32)
        return out
    values, given = x, c.result_like((1,), known.places, x)
    for number, step in enumerate(known.steps):
        if number == len(known.steps) - 1:
            out = c.result_like(known.shape, known.dtype, x), c.result_like(known.shape, c.INT64, x)
        else:
            out = c.result_like((step.size,), step.dtype, x), c.result_like((step.size,), known.places, x)
        if step.groups is None:
            step.kernel(*out, values, given, *step.numbers, ndrange=step.ndrange)
        else:
            step.kernel(*out, values, given, *step.numbers, numworkgroups=step.groups, workgroupsize=32)
        values, given = out
    return values, given


def _long_rows(
    sign: str, dtype: np.dtype[Any], acc: np.dtype[Any], rows: int, length: int, places: np.dtype[Any], device: Any
) -> tuple[r.Step, list[_Step]]:
    """The best values of chunks, then the search in the chunk that has the row's."""
    chunks = min(c.ceil_div(length, c.chunk_of(device)), max(1, r._MOST_CHUNKS // rows))
    chunk = c.round_up(c.ceil_div(length, chunks), 32)
    chunks = c.ceil_div(length, chunk)
    op, what = "min" if sign == "<" else "max", r.Map("x", ("x",), (dtype,), (False,))
    reduced = r._kernel("rows", op, what, (acc, acc), True, places == c.INT64, 1, device)
    first = r.Step(reduced, (length, chunk), None, (chunks, rows), chunks * rows, acc)
    kernel = _kernel("locate", sign, dtype, acc, dtype, False, places == c.INT64, True, device)
    return first, [_Step(kernel, (length, chunk, chunks), None, (rows,), rows, dtype)]


def _plan(
    sign: str, dtype: np.dtype[Any], acc: np.dtype[Any], sizes: tuple[int, int, int], places: np.dtype[Any], device: Any
) -> list[_Step]:
    """The launches that search the middle of (outer, length, inner)."""
    outer, length, inner = sizes
    steps: list[_Step] = []
    element = dtype
    while True:
        if inner == 1:
            chunks = min(-(-length // c.chunk_of(device)), max(1, r._MOST_CHUNKS // outer))
            chunk = c.round_up(-(-length // chunks), 32)
        else:
            chunks = 1 if inner * outer >= 2048 else min(-(-length // 64), max(1, 2048 // (inner * outer)))
            chunk = -(-length // chunks)
        chunks = -(-length // chunk)
        last = chunks == 1
        kind = "rows" if inner == 1 else "columns"
        result = dtype if last else acc
        kernel = _kernel(kind, sign, element, acc, result, bool(steps), places == c.INT64, last, device)
        size = outer * chunks * inner
        if kind == "rows":
            steps.append(_Step(kernel, (length, chunk), None, (chunks, outer), size, result))
        else:
            steps.append(_Step(kernel, (inner, length, chunk), (inner, chunks, outer), None, size, result))
        if last:
            return steps
        element, length = acc, chunks


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
