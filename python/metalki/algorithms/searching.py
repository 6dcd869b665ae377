"""What builds on order: searchsorted, histogram, unique."""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

import numpy as np

from .. import _array
from .._array import Array
from .._kernel import Kernel
from ..errors import ArgumentError
from . import _common as c
from .arranging import concatenate
from .elementwise import broadcast
from .reductions import max as max_of
from .reductions import min as min_of
from .reductions import reduce
from .scans import accumulate
from .selecting import compress, findall, take
from .sorting import argsort, sort

__all__ = [
    "histogram",
    "isin",
    "searchsorted",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]

# Copies of a histogram that threads count in, so that they seldom meet.
_COPIES = 16

_SEARCH = """
// NaN counts as larger than all numbers.
inline bool ki_below(ki_t a, ki_t b) { return a < b || KI_NAN(a, b); }
inline bool ki_right(ki_t v, ki_t s) { return KI_RIGHT ? !ki_below(v, s) : ki_below(s, v); }
kernel void ki_search(device long* out, device const ki_x* sorted, device const ki_v* values, constant ix& length,
                      uint3 at [[thread_position_in_grid]], uint3 grid [[threads_per_grid]]) {
    const ix i = (ix)at.y * grid.x + at.x;
    const ki_t v = (ki_t)values[i];
    // All threads take as many steps: the last place is looked at by itself.
    ix low = 0;
    for (ix left = length; left > 1;) {
        const ix half_of_it = left / 2;
        low = ki_right(v, (ki_t)sorted[low + half_of_it - 1]) ? low + half_of_it : low;
        left -= half_of_it;
    }
    out[i] = low + (length > 0 && ki_right(v, (ki_t)sorted[low]) ? 1 : 0);
}
"""

_COUNT = """
kernel void ki_count(device atomic_uint* counts, device const ki_t* x, device const ki_t* edges, constant ki_t& top,
                     constant uint& bins, constant ix& length, constant ix& chunk,
                     uint group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
    device atomic_uint* own = counts + (ix)(group % KI_COPIES) * bins;
    const ix first = (ix)group * chunk, last = min(first + chunk, length);
    for (ix at = first; at < last; at += 32) {
        const bool inside = at + (ix)lane < last;
        const ki_t v = inside ? x[at + lane] : edges[0];
        uint low = 0;  // edges[low] <= v < edges[low + left]
        for (uint left = bins; left > 1;) {
            const uint half_of_it = left / 2;
            low = v >= edges[low + half_of_it] ? low + half_of_it : low;
            left -= half_of_it;
        }
        if (inside && v >= edges[0] && v <= top) atomic_fetch_add_explicit(own + low, 1, memory_order_relaxed);
    }
}
"""

_SCATTER = """
kernel void ki_scatter(device long* out, device const long* places, device const long* values,
                       uint3 at [[thread_position_in_grid]], uint3 grid [[threads_per_grid]]) {
    const long i = (long)at.y * grid.x + at.x;
    out[places[i]] = values[i];
}
"""


def _grid(size: int) -> tuple[int, int]:
    """A grid of two axes for any number of threads that has a divisor to split at; one axis below 2^31."""
    if size < c.NARROW:
        return size, 1
    for rows in range(2, 2**16):
        if size % rows == 0 and size // rows < c.NARROW:
            return size // rows, rows
    raise ArgumentError(f"{size} elements are too many for one launch here")


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Array:
    """Where the values `x2` go into the sorted 1-D array `x1` (sorted by `sorter` when given) to keep its order, as int64.

    side="left" gives the first such place, "right" the last. Raises ArgumentError in numpy's words for other sides and for
    more axes."""
    a = c.as_operand(x1, "searchsorted")
    kinds = c.result_type([a, x2 if c.is_scalar(x2) else c.as_operand(x2, "searchsorted")], "searchsorted")
    v = c.as_operand(np.asarray(x2, kinds) if c.is_scalar(x2) else x2, "searchsorted")
    if side not in ("left", "right"):
        raise ArgumentError(f"search side must be 'left' or 'right' (got '{side}')")
    if a.ndim != 1:
        raise ArgumentError(
            "object too deep for desired array" if a.ndim else "object of too small depth for desired array"
        )
    if sorter is not None:
        order = c.as_operand(sorter, "searchsorted")
        if order.shape != a.shape:
            raise ArgumentError("sorter.size must equal len(a)")
        a = take(a, order)
    out = c.result_like(v.shape, c.INT64, v)
    if out.size == 0:
        return out
    if a.size == 0:
        return _array.zeros(v.shape, np.int64, device=v.device)
    wide = max(a.size, v.size) >= c.NARROW
    nan = "(b != b && a == a)" if c.is_float(kinds) else "false"
    kernel: Kernel = c.cached(
        ("search", a.dtype, v.dtype, kinds, side, wide, a.device),
        lambda: c.compiled(
            f"{c.PRELUDE}typedef {'long' if wide else 'int'} ix; typedef {c.msl(kinds, 'searchsorted')} ki_t; "
            f"typedef {c.msl(a.dtype, 'searchsorted')} ki_x; typedef {c.msl(v.dtype, 'searchsorted')} ki_v;\n"
            f"#define KI_NAN(a, b) {nan}\n#define KI_RIGHT {int(side == 'right')}\n{_SEARCH}",
            "ki_search",
        ),
    )
    kernel(out, a, v, a.size, ndrange=_grid(v.size))
    return out


def histogram(
    x: Any, /, bins: Any = 10, range: tuple[float, float] | None = None, *, density: bool = False
) -> tuple[Array, Array]:
    """How many elements fall between neighbouring edges (int64), and the edges (float32, or the dtype of float elements).

    `bins` is a number of equal bins between the least and the greatest element (or `range`), or the edges themselves. The
    last bin includes its upper edge. With `density` the counts are divided by their sum and the bins' widths, as float32.
    Raises ArgumentError in numpy's words for bins and ranges that make no sense."""
    value = c.as_operand(x, "histogram").reshape(-1)
    if value.dtype.kind == "b":
        value = value.view(np.uint8)
    edges = _edges(value, bins, range)
    count = edges.size - 1
    is_float = c.is_float(value.dtype)
    shown = edges.astype(value.dtype if is_float else np.float32)
    if is_float:
        limits, top = shown, shown[-1]
    else:
        info = np.iinfo(value.dtype)
        whole = [min(max(math.ceil(e), info.min), info.max) for e in edges.tolist()]
        limits, top = np.array(whole, value.dtype), min(max(math.floor(edges[-1]), info.min), info.max)
        if edges[-1] < info.min or edges[0] > info.max:
            value = value[:0]
    counts = _array.zeros((_COPIES, count), np.uint32, device=value.device)
    if value.size:
        wide = value.size >= c.NARROW - 1024
        kernel: Kernel = c.cached(
            ("histogram", value.dtype, wide, value.device),
            lambda: c.compiled(
                f"{c.PRELUDE}typedef {'long' if wide else 'int'} ix; typedef {c.msl(value.dtype, 'histogram')} ki_t;\n"
                f"#define KI_COPIES {_COPIES}\n{_COUNT}",
                "ki_count",
            ),
        )
        chunk = max(1024, c.ceil_div(value.size, 1024))
        last = float(top) if is_float else int(top)
        limits_there = _array.array(limits, device=value.device)
        kernel(
            counts, value, limits_there, last, count, value.size, chunk,
            numworkgroups=c.ceil_div(value.size, chunk), workgroupsize=32,
        )  # fmt: skip
    found = reduce("+", counts, 0, dtype=np.int64)
    there = _array.array(shown, device=value.device)
    if density:
        widths = _array.array(np.diff(edges).astype(np.float32), device=value.device)
        total = int(reduce("+", found).numpy())
        return broadcast("(float)x / n / w", x=found, n=np.float32(total), w=widths), there
    return found, there


def _edges(value: Array, bins: Any, span: Any) -> np.ndarray[Any, Any]:
    if isinstance(bins, str):
        raise ArgumentError("Automated estimation of the number of bins is not supported")
    if not isinstance(bins, (Array, np.ndarray, list, tuple)):
        try:
            count = operator.index(bins)
        except TypeError:
            raise TypeError("`bins` must be an integer, a string, or an array") from None
        if count < 1:
            raise ArgumentError("`bins` must be positive, when an integer")
        low, high = _span(value, span)
        if span is None and value.dtype.kind == "f":  # numpy spaces the edges in the elements' own type
            kind = value.dtype
            return np.linspace(kind.type(low), kind.type(high), count + 1, dtype=kind).astype(np.float64)
        return np.linspace(low, high, count + 1)
    edges = np.asarray(bins, np.float64)
    if edges.ndim != 1:
        raise ArgumentError("`bins` must be 1d, when an array")
    if (edges[:-1] > edges[1:]).any():
        raise ArgumentError("`bins` must increase monotonically, when an array")
    return edges


def _span(value: Array, span: Any) -> tuple[float, float]:
    if span is not None:
        low, high = (float(s) for s in span)
        if low > high:
            raise ArgumentError("max must be larger than min in range parameter.")
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ArgumentError(f"supplied range of [{low}, {high}] is not finite")
    elif value.size == 0:
        low, high = 0.0, 1.0
    else:
        low, high = float(min_of(value).numpy()), float(max_of(value).numpy())
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ArgumentError(f"autodetected range of [{low}, {high}] is not finite")
    return (low - 0.5, high + 0.5) if low == high else (low, high)


class UniqueAll(NamedTuple):
    """What unique_all() returns."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """What unique_counts() returns."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """What unique_inverse() returns."""

    values: Array
    inverse_indices: Array


def _starts(ordered: Array, equal_nan: bool) -> Array:
    """Whether an element of a sorted row differs from the one before it."""
    test = "x != y && !(x != x && y != y)" if c.is_float(ordered.dtype) and equal_nan else "x != y"
    first = _array.ones(1, np.bool_, device=ordered.device)
    if ordered.size == 1:
        return first
    return concatenate([first, broadcast(test, x=ordered[1:], y=ordered[:-1], dtype=np.bool_)])


def unique(
    x: Any,
    /,
    *,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    equal_nan: bool = True,
) -> Any:
    """The different elements in ascending order; on request the first place of each (int64), for every element of `x` the
    place of its value among them (int64, in the shape of `x`), and how often each occurs (int64). Waits for the device."""
    value = c.as_operand(x, "unique")
    flat = value.reshape(-1)
    wants = return_index or return_inverse or return_counts
    if flat.size == 0:
        nothing = [_array.empty(0, np.int64, device=flat.device) for _ in (return_index, return_counts)]
        parts = [flat.copy()]
        parts += nothing[:1] if return_index else []
        parts += [_array.empty(value.shape, np.int64, device=flat.device)] if return_inverse else []
        parts += nothing[1:] if return_counts else []
        return tuple(parts) if wants else parts[0]
    if not (return_index or return_inverse):
        ordered, order = sort(flat), None
    else:
        order = argsort(flat)
        ordered = take(flat, order)
    starts = _starts(ordered, equal_nan)
    values = compress(starts, ordered)
    if not wants:
        return values
    result = [values]
    if return_index:
        result.append(compress(starts, order))
    if return_inverse:
        rank = accumulate("+", starts)
        rank = broadcast("x - 1", x=rank, dtype=np.int64)
        inverse = c.result_like(value.shape, c.INT64, value)
        kernel: Kernel = c.cached(("scatter", value.device), lambda: c.compiled(c.PRELUDE + _SCATTER, "ki_scatter"))
        kernel(inverse, order, rank, ndrange=_grid(flat.size))
        result.append(inverse)
    if return_counts:
        places = findall(starts)
        ends = concatenate([places[1:], _array.array(np.array([flat.size]), device=flat.device)])
        result.append(broadcast("x - y", x=ends, y=places, dtype=np.int64))
    return tuple(result)


def unique_values(x: Any, /) -> Array:
    """The different elements in ascending order; every NaN counts for itself."""
    found: Array = unique(x, equal_nan=False)
    return found


def unique_counts(x: Any, /) -> UniqueCounts:
    """The different elements and how often each occurs; every NaN counts for itself."""
    return UniqueCounts(*unique(x, return_counts=True, equal_nan=False))


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The different elements and, for every element of `x`, the place of its value among them."""
    return UniqueInverse(*unique(x, return_inverse=True, equal_nan=False))


def unique_all(x: Any, /) -> UniqueAll:
    """The different elements, where each is first, the place of every element's value among them, and the counts."""
    return UniqueAll(*unique(x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False))


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Array:
    """Whether each element of `x1` is one of those of `x2`, as bool."""
    value, test = c.as_operand(x1, "isin"), unique(c.as_operand(x2, "isin").reshape(-1))
    if value.size == 0 or test.size == 0:
        return _array.full(value.shape, invert, np.bool_, device=value.device)
    place = searchsorted(test, value)
    kind = c.promote([value.dtype, test.dtype], "isin")
    t = c.msl(kind, "isin")
    inside = broadcast("x < n ? x : n - 1", x=place, n=np.int64(test.size), dtype=np.int64)
    found = take(test, inside)
    sign = "!=" if invert else "=="
    return broadcast(f"({t})x {sign} ({t})y", x=value, y=found, dtype=np.bool_)
