"""The smallest and the largest element and where they are: findmin, findmax, argmin, argmax.

The same cuts as in reductions, on pairs of value and index; the first of equal elements wins, and the first NaN before all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._array import Array
from .._kernel import Kernel
from ..errors import ArgumentError
from . import _common as c
from . import reductions as r

__all__ = ["argmax", "argmin", "findmax", "findmin"]

_HELPERS = """
inline bool ki_better(ki_a a, ki_a b) { return a KI_SIGN b || ki_isnan(a, b); }
inline bool ki_before(ki_a a, ix i, ki_a b, ix j) { return ki_better(a, b) || (!ki_better(b, a) && i < j); }
"""

_ROWS = """
kernel void ki_rows(device ki_s* values, device ki_p* places, device const ki_t* x, device const ix* given,
                    constant ix& length, constant ix& chunk, uint2 group [[threadgroup_position_in_grid]],
                    uint2 groups [[threadgroups_per_grid]], uint lane [[thread_index_in_simdgroup]]) {
    const ix start = (ix)group.y * length, first = start + (ix)group.x * chunk;
    const ix last = min(first + chunk, start + length);
    const ix own = min(first + (ix)lane, last - 1);
    ki_a best = x[own];
    ix place = KI_PLACE(own, own - start);
    ix at = first + 32;
    for (; at + 32 <= last; at += 32) {
        const ix i = at + lane;
        const ki_a v = x[i];
        const bool wins = ki_better(v, best);
        best = wins ? v : best;
        place = wins ? KI_PLACE(i, i - start) : place;
    }
    if (at + lane < last) {
        const ix i = at + lane;
        const ki_a v = x[i];
        const bool wins = ki_better(v, best);
        best = wins ? v : best;
        place = wins ? KI_PLACE(i, i - start) : place;
    }
    for (ushort n = 16; n > 0; n /= 2) {
        const ki_a v = ki_shift_down(best, n);
        const ix i = ki_shift_down(place, n);
        const bool wins = ki_before(v, i, best, place);
        best = wins ? v : best;
        place = wins ? i : place;
    }
    if (lane == 0) {
        const ix o = (ix)group.y * groups.x + group.x;
        values[o] = (ki_s)best;
        places[o] = (ki_p)place;
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
        text.append(f"#define KI_PLACE(i, k) {'given[i]' if pairs else '(ix)(k)'}\n")
        return c.compiled("".join([*text, _HELPERS, _ROWS if kind == "rows" else _COLUMNS]), "ki_" + kind)

    kernel: Kernel = c.cached(("extrema", kind, sign, element, acc, result, pairs, wide, last, device), make)
    return kernel


def _find(sign: str, x: Any, axis: Any, keepdims: bool, what: str) -> tuple[Array, Array]:
    value = c.as_operand(x, what)
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
    out = c.result_like(kept, value.dtype, value), c.result_like(kept, c.INT64, value)
    if value.size == 0:
        return out
    acc = r._element_types("min", value.dtype)[0]
    _reduce(sign, value, None, out, acc, c.elements(shape[:at]), shape[at], c.elements(shape[at + 1 :]))
    return out


def _reduce(
    sign: str, x: Array, given: Array | None, out: tuple[Array, Array], acc: np.dtype[Any], outer: int, length: int,
    inner: int,
) -> None:  # fmt: skip
    wide = outer * length * inner >= c.NARROW - 1024 if given is None else given.dtype == c.INT64
    if inner == 1:
        chunks = min(-(-length // r._CHUNK), max(1, r._MOST_CHUNKS // outer))
        chunk = -(-length // chunks)
        chunk = -(-chunk // 32) * 32
    else:
        chunks = 1 if inner * outer >= 2048 else min(-(-length // 64), max(1, 2048 // (inner * outer)))
        chunk = -(-length // chunks)
    chunks = -(-length // chunk)
    last = chunks == 1
    kind = "rows" if inner == 1 else "columns"
    kernel = _kernel(kind, sign, x.dtype, acc, out[0].dtype if last else acc, given is not None, wide, last, x.device)
    targets = out
    if not last:
        places = c.INT64 if wide else c.INT32
        targets = (
            c.result_like((outer, chunks, inner), acc, x),
            c.result_like((outer, chunks, inner), places, x),
        )
    if given is None:
        given = c.result_like((1,), c.INT64 if wide else c.INT32, x)
    if kind == "rows":
        kernel(*targets, x, given, length, chunk, numworkgroups=(chunks, outer), workgroupsize=32)
    else:
        kernel(*targets, x, given, inner, length, chunk, ndrange=(inner, chunks, outer))
    if not last:
        _reduce(sign, targets[0], targets[1], out, acc, outer, chunks, inner)


def findmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> tuple[Array, Array]:
    """The smallest element along `axis` (of the flattened array for None) and its index (int64), the first of equal ones.

    NaN counts as smallest. Raises ArgumentError for nothing."""
    return _find("<", x, axis, keepdims, "findmin")


def findmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> tuple[Array, Array]:
    """The largest element along `axis` (of the flattened array for None) and its index (int64), the first of equal ones.

    NaN counts as largest. Raises ArgumentError for nothing."""
    return _find(">", x, axis, keepdims, "findmax")


def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The index of the smallest element along `axis`, as int64; see findmin."""
    return _find("<", x, axis, keepdims, "argmin")[1]


def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The index of the largest element along `axis`, as int64; see findmax."""
    return _find(">", x, axis, keepdims, "argmax")[1]
