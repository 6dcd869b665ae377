"""Elements by index or by truth: take, x[mask], findall, findfirst, nonzero.

Compaction counts per chunk, scans the counts and writes every chunk to its place (Billeter et al., "Efficient stream
compaction on wide SIMD many-core architectures", 2009).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _array
from .._array import Array
from .._kernel import Kernel
from ..errors import ArgumentError
from . import _common as c

__all__ = ["argwhere", "compress", "findall", "findfirst", "nonzero", "take", "take_along_axis"]

_CHUNK = 4096

_TAKE = """
// out[o, j, i] = x[o, index[j], i]; an index out of range is noted and not followed.
kernel void ki_take(device ki_t* out, device const ki_t* x, device const ki_i* index, device long* bad, constant ix& size,
                    constant ix& inner, constant ix& count, uint3 at [[thread_position_in_grid]]) {
    const ix j = KI_ALONG ? ((ix)at.z * count + at.y) * inner + at.x : (ix)at.y;
    const ki_i given = index[j];
    const bool inside = given < (ki_i)0 ? (long)given >= -(long)size : (ulong)given < (ulong)size;
    if (!inside) {
        bad[0] = 1;
        bad[1] = (long)given;
        return;
    }
    const ix row = given < (ki_i)0 ? (ix)((long)given + size) : (ix)given;
    out[((ix)at.z * count + at.y) * inner + at.x] = x[((ix)at.z * size + row) * inner + at.x];
}
"""

_COMPACT = """
kernel void ki_count(device uint* counts, device const ki_t* x, constant ix& length, constant ix& chunk,
                     uint group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
    const ix first = (ix)group * chunk, last = min(first + chunk, length);
    uint n = 0;
    ix at = first;
    for (; at + 32 <= last; at += 32) n += ki_test(x[at + lane]) ? 1 : 0;
    if (at + lane < last) n += ki_test(x[at + lane]) ? 1 : 0;
    n = simd_sum(n);
    if (lane == 0) counts[group] = n;
}
kernel void ki_compact(device ki_v* out, device const ki_t* x, device const ki_v* values, device const ulong* places,
                       constant ix& length, constant ix& chunk, uint group [[threadgroup_position_in_grid]],
                       uint lane [[thread_index_in_simdgroup]]) {
    const ix first = (ix)group * chunk, last = min(first + chunk, length);
    ix place = (ix)places[group];
    const uint below = (1u << lane) - 1;
    for (ix at = first; at < last; at += 32) {
        const ix i = at + lane;
        const bool found = i < last && ki_test(x[i]);
        const uint votes = (uint)(simd_vote::vote_t)simd_ballot(found);
        if (found) (out + place)[popcount(votes & below)] = KI_VALUE;  // side by side: one store for all lanes
        place += popcount(votes);
    }
}
kernel void ki_first(device ix* out, device const ki_t* x, constant ix& length, constant ix& chunk,
                     uint group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
    const ix first = (ix)group * chunk, last = min(first + chunk, length);
    ix found = length;
    for (ix at = first; at < last; at += 32) {
        const ix i = at + lane;
        const bool here = i < last && ki_test(x[i]);
        if (simd_any(here)) {
            const uint before = simd_min(here ? lane : 32u);
            found = at + before;
            break;
        }
    }
    if (lane == 0) out[group] = found;
}
"""


def take(x: Any, indices: Any, /, axis: int | None = None) -> Array:
    """The elements or parts of `x` at `indices` (integers of any shape, negative ones from the end) along `axis`; of the
    flattened array for None.

    The axis is replaced by the axes of `indices`. Raises IndexError in numpy's words for one out of bounds, which waits
    for the device when the indices are there."""
    value = c.as_operand(x, "take")
    if axis is None:
        value, axis = value.reshape(-1), 0
    value = c.with_axis(value, axis)
    at = c.normal_axis(axis, value.ndim)
    index = _indices(indices, "take")
    shape = (*value.shape[:at], *index.shape, *value.shape[at + 1 :])
    return _take(value, index, at, shape, index.size, False)


def take_along_axis(x: Any, indices: Any, /, axis: int = -1) -> Array:
    """The elements of `x` at `indices`, which has as many axes as `x` and chooses along `axis` for every other position."""
    value, index = c.as_operand(x, "take_along_axis"), _indices(indices, "take_along_axis")
    at = c.normal_axis(axis, value.ndim)
    if index.ndim != value.ndim:
        raise ArgumentError("`indices` and `arr` must have the same number of dimensions")
    from .arranging import broadcast_to

    shape = c.broadcast_shapes(
        [tuple(1 if i == at else n for i, n in enumerate(a.shape)) for a in (value, index)], "take_along_axis"
    )
    whole = tuple(value.shape[at] if i == at else n for i, n in enumerate(shape))
    value = value if value.shape == whole else broadcast_to(value, whole)
    wanted = tuple(index.shape[at] if i == at else n for i, n in enumerate(shape))
    index = index if index.shape == wanted else broadcast_to(index, wanted)
    return _take(value, index, at, wanted, index.shape[at], True)


def _indices(indices: Any, what: str) -> Array:
    index = indices if isinstance(indices, Array) else _array.host_array(indices, what)
    if index.dtype.kind not in "iu":
        if index.size == 0:
            return _array.empty(index.shape, np.int32)
        raise TypeError(
            f"Cannot cast array data from dtype('{index.dtype}') to dtype('int64') according to the rule 'safe'"
        )
    return index if isinstance(index, Array) else _array.array(index)


def _take(value: Array, index: Array, at: int, shape: tuple[int, ...], count: int, along: bool) -> Array:
    size, inner, outer = value.shape[at], c.elements(value.shape[at + 1 :]), c.elements(value.shape[:at])
    out = c.result_like(shape, value.dtype, value)
    if out.size == 0:
        if index.size and size == 0 and inner and outer:
            raise IndexError("cannot do a non-empty take from an empty axes.")
        if index.size and size and outer and not along:
            # Parts without elements; their indices count as in numpy.
            row = _array.zeros((1,) * at + (size,), np.uint8, device=value.device)
            _take(row, index, at, index.shape, index.size, False)
        return out
    if size == 0:
        raise IndexError("cannot do a non-empty take from an empty axes.")
    wide = max(value.size, out.size, index.size) >= c.NARROW
    kernel: Kernel = c.cached(
        ("take", value.dtype, index.dtype, wide, along, value.device),
        lambda: c.compiled(
            f"{c.PRELUDE}typedef {'long' if wide else 'int'} ix; typedef {c.msl(value.dtype, 'take')} ki_t; "
            f"typedef {c.msl(index.dtype, 'take')} ki_i;\n#define KI_ALONG {int(along)}\n{_TAKE}",
            "ki_take",
        ),
    )
    bad = _array.zeros(2, np.int64, device=value.device)
    kernel(out, value, index, bad, size, inner, count, ndrange=(inner, count, outer))
    if bad.numpy()[0]:
        raise IndexError(f"index {bad.numpy()[1]} is out of bounds for axis {at} with size {size}")
    return out


def _kernel(
    name: str, dtype: np.dtype[Any], result: np.dtype[Any] | None, test: str, wide: bool, device: Any
) -> Kernel:
    def make() -> Kernel:
        value = "long" if result is None else c.msl(result, "findall")
        taken = "(ki_v)i" if result is None else "values[i]"
        return c.compiled(
            f"{c.PRELUDE}typedef {'long' if wide else 'int'} ix; typedef {c.msl(dtype, 'findall')} ki_t; "
            f"typedef {value} ki_v;\ninline bool ki_test(ki_t x) {{ return ({test}); }}\n#define KI_VALUE {taken}\n{_COMPACT}",
            name,
        )

    kernel: Kernel = c.cached((name, dtype, result, test, wide, device), make)
    return kernel


def _compacted(x: Array, values: Array | None, test: str) -> Array:
    """The values (indices for None) at the elements of `x`, one row, that pass the test."""
    dtype = c.INT64 if values is None else values.dtype
    if x.size == 0:
        return c.result_like((0,), dtype, x)
    wide = x.size >= c.NARROW - 1024
    chunk = max(_CHUNK, c.round_up(c.ceil_div(x.size, 4096), 32))
    groups = -(-x.size // chunk)
    counts = _array.empty(groups, np.uint32, device=x.device)
    count = _kernel("ki_count", x.dtype, dtype if values is not None else None, test, wide, x.device)
    count(counts, x, x.size, chunk, numworkgroups=groups, workgroupsize=32)
    found = counts.numpy().cumsum(dtype=np.uint64)  # the result's size is needed here in any case
    total = int(found[-1])
    places = _array.array(np.concatenate([np.zeros(1, np.uint64), found[:-1]]), device=x.device)
    out = c.result_like((total,), dtype, x if values is None else values)
    if total:
        write = _kernel("ki_compact", x.dtype, dtype if values is not None else None, test, wide, x.device)
        unused = out if values is None else values
        write(out, x, unused, places, x.size, chunk, numworkgroups=groups, workgroupsize=32)
    return out


def _predicate(arguments: tuple[Any, ...], what: str) -> tuple[str, Array]:
    if len(arguments) == 2 and isinstance(arguments[0], str):
        return arguments[0], c.as_operand(arguments[1], what)
    if len(arguments) != 1:
        raise ArgumentError(f"{what}: an array, or an MSL expression of x and an array, is expected")
    return "x != 0", c.as_operand(arguments[0], what)


def findall(*arguments: Any) -> Array:
    """findall(x): where the elements are not zero; findall("x % 2 == 1", x): where the MSL expression of x is true.

    The result is int64: the indices of a 1-D array, one row of indices per element for more axes. Waits for the device,
    since the result's size depends on the elements."""
    test, x = _predicate(arguments, "findall")
    found = _compacted(x.reshape(-1), None, test)
    return found if x.ndim == 1 else _unravelled(found, x.shape)


def _unravelled(flat: Array, shape: tuple[int, ...]) -> Array:
    from .arranging import stack

    columns = _coordinates(flat, shape)
    if not columns or flat.size == 0:
        return _array.empty((flat.size, len(shape)), np.int64, device=flat.device)
    return stack(columns, axis=1)


def _coordinates(flat: Array, shape: tuple[int, ...]) -> list[Array]:
    from .elementwise import broadcast

    result, step = [], 1
    for size in reversed(shape):
        result.append(broadcast("x / s % n", x=flat, s=np.int64(step), n=np.int64(max(size, 1)), dtype=np.int64))
        step *= max(size, 1)
    return result[::-1]


def findfirst(*arguments: Any) -> Any:
    """findfirst(x): the index of the first element that is not zero; findfirst("x > 3", x) of the first for which the
    MSL expression is true. An int for a 1-D array, a tuple for more axes, None when there is none. Waits for the device."""
    test, x = _predicate(arguments, "findfirst")
    if x.size == 0:
        return None
    wide = x.size >= c.NARROW - 1024
    chunk = max(_CHUNK, c.round_up(c.ceil_div(x.size, 1024), 32))
    groups = -(-x.size // chunk)
    found = _array.empty(groups, np.int64 if wide else np.int32, device=x.device)
    kernel = _kernel("ki_first", x.dtype, None, test, wide, x.device)
    kernel(found, x.reshape(-1), x.size, chunk, numworkgroups=groups, workgroupsize=32)
    index = int(found.numpy().min())
    if index == x.size:
        return None
    return index if x.ndim == 1 else tuple(int(i) for i in np.unravel_index(index, x.shape))


def nonzero(x: Any, /) -> tuple[Array, ...]:
    """The indices of the elements that are not zero, an int64 array per axis. Waits for the device."""
    value = c.as_operand(x, "nonzero")
    if value.ndim == 0:
        raise ArgumentError("Calling nonzero on 0d arrays is not allowed. Use metalki.reshape(x, 1) first.")
    flat = _compacted(value.reshape(-1), None, "x != 0")
    return (flat,) if value.ndim == 1 else tuple(_coordinates(flat, value.shape))


def argwhere(x: Any, /) -> Array:
    """The indices of the elements that are not zero, one row each. Waits for the device."""
    value = c.as_operand(x, "argwhere")
    return _unravelled(_compacted(value.reshape(-1), None, "x != 0"), value.shape)


def compress(mask: Any, x: Any, /) -> Array:
    """x[mask]: the elements (or, for a mask of fewer axes, parts) of `x` where the bool array `mask` is true.

    Raises IndexError in numpy's words when the shapes do not fit."""
    value, chosen = c.as_operand(x, "compress"), c.as_operand(mask, "compress")
    if chosen.dtype.kind != "b":
        raise ArgumentError(f"compress: the mask is bool, dtype {chosen.dtype} was given")
    c.check_mask(chosen.shape, value.shape)
    if chosen.ndim == value.ndim:
        return _compacted(chosen.reshape(-1), value.reshape(-1), "x")
    rest = value.shape[chosen.ndim :]
    found = _compacted(chosen.reshape(-1), None, "x")
    if chosen.size == 0 or found.size == 0:
        return c.result_like((found.size, *rest), value.dtype, value)
    return take(value.reshape((chosen.size, *rest)), found, axis=0)
