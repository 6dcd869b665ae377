"""Elements in another order or place: permute_dims, copy, concatenate, roll, reverse, fill, and the shapes' functions."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from .. import _array
from .._array import Array
from ..errors import ArgumentError
from . import _common as c
from . import transposing
from .elementwise import Operand, Request, run
from .geometry import broadcast_strides, contiguous_strides

__all__ = [
    "broadcast_arrays",
    "broadcast_to",
    "concat",
    "concatenate",
    "copy",
    "expand_dims",
    "fill",
    "flip",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "reverse",
    "roll",
    "squeeze",
    "stack",
    "tile",
    "unstack",
]


def strided(
    x: Array, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0, out: Array | None = None,
    out_strides: tuple[int, ...] | None = None, out_offset: int = 0,
) -> Array:  # fmt: skip
    """The elements of `x` that the steps lead to, as a new array or into a part of `out`."""
    moved = [Operand("x", x, x.dtype, strides, offset)]
    dtype = x.dtype if out is None else out.dtype
    return run(Request("x", moved, shape, dtype, out_strides, out_offset), out)


def permute_dims(x: Any, /, axes: Sequence[int] | None = None) -> Array:
    """`x` with its axes in another order (reversed for None), as a new C-ordered array.

    Raises ValueError for axes that are no permutation, AxisError for those there are not."""
    value = c.as_operand(x, "permute_dims")
    signature = (value.dtype, value.shape, value.device, axes if axes is None else tuple(axes))
    known = _known.get(signature)
    if known is None:
        if axes is None:
            axes = range(value.ndim)[::-1]
        if len(axes) != value.ndim:
            raise ArgumentError("axes don't match array")
        order = [c.normal_axis(a, value.ndim) for a in axes]
        if len(set(order)) != len(order):
            raise ArgumentError("repeated axis in transpose")
        steps = contiguous_strides(value.shape)
        shape, walk = tuple(value.shape[a] for a in order), tuple(steps[a] for a in order)
        known = shape, walk, transposing.plan(value, shape, walk, contiguous_strides(shape))
        if len(_known) >= c._MOST_CACHED:
            _known.clear()
        _known[signature] = known
    shape, walk, blocks = known
    if blocks is None:
        return strided(value, shape, walk)
    out = c.result_like(shape, value.dtype, value)
    blocks.kernel(out, value, blocks.parameter, ndrange=blocks.ndrange)
    return out


_known: dict[Any, tuple[tuple[int, ...], tuple[int, ...], transposing.Plan | None]] = {}


def matrix_transpose(x: Any, /) -> Array:
    """`x` with its last two axes exchanged, as a new array. Raises ArgumentError for fewer than two axes."""
    value = c.as_operand(x, "matrix_transpose")
    if value.ndim < 2:
        raise ArgumentError(f"Input array must be at least 2-dimensional, but it is {value.ndim}")
    return permute_dims(value, (*range(value.ndim - 2), value.ndim - 1, value.ndim - 2))


def moveaxis(x: Any, source: Any, destination: Any, /) -> Array:
    """`x` with the axes `source` moved to `destination`, the others in their order, as a new array."""
    value = c.as_operand(x, "moveaxis")
    pairs = []
    for axes in (source, destination):
        listed = axes if isinstance(axes, (tuple, list)) else (axes,)
        found = [c.normal_axis(a, value.ndim) for a in listed]
        if len(set(found)) != len(found):
            raise ArgumentError("repeated axis")
        pairs.append(found)
    if len(pairs[0]) != len(pairs[1]):
        raise ArgumentError("`source` and `destination` arguments must have the same number of elements")
    order = [n for n in range(value.ndim) if n not in pairs[0]]
    for to, origin in sorted(zip(pairs[1], pairs[0], strict=True)):
        order.insert(to, origin)
    return permute_dims(value, order)


def copy(x: Any, /) -> Array:
    """A new array with the elements of `x`, copied on the device."""
    value = c.as_operand(x, "copy")
    return value.copy() if value is x else value


def fill(x: Array, value: Any, /) -> Array:
    """Stores the number `value` in every element of `x`, and returns `x`.

    Raises OverflowError for an int that the dtype does not hold."""
    if not isinstance(x, Array):
        raise ArgumentError(f"fill: a metalki.Array is expected, {type(x).__name__} was given")
    number = value.item() if hasattr(value, "item") else value
    if not isinstance(number, (bool, int, float)):
        raise ArgumentError(f"fill: a number is expected, {type(value).__name__} was given")
    c.msl(x.dtype, "fill")
    filling = [Operand("v", c.check_scalar(number, x.dtype, "fill"), x.dtype, None)]
    return run(Request("v", filling, x.shape, x.dtype), x)


def concatenate(arrays: Sequence[Any], /, axis: int | None = 0, dtype: Any = None) -> Array:
    """The arrays one after the other along `axis` (flattened for None), promoted as numpy does.

    Raises ArgumentError in numpy's words for shapes that do not fit."""
    values = [c.as_operand(a, "concatenate") for a in arrays]
    if not values:
        raise ArgumentError("need at least one array to concatenate")
    if axis is None:
        values, axis = [v.reshape(-1) for v in values], 0
    first = values[0]
    if first.ndim == 0:
        raise ArgumentError("zero-dimensional arrays cannot be concatenated")
    at = c.normal_axis(axis, first.ndim)
    for i, value in enumerate(values):
        if value.ndim != first.ndim:
            raise ArgumentError(
                "all the input array dimensions must match exactly, all the input arrays must have same number of "
                f"dimensions, but the array at index 0 has {first.ndim} dimension(s) and the array at index {i} has "
                f"{value.ndim} dimension(s)"
            )
        for d in range(first.ndim):
            if d != at and value.shape[d] != first.shape[d]:
                raise ArgumentError(
                    "all the input array dimensions except for the concatenation axis must match exactly, but along "
                    f"dimension {d}, the array at index 0 has size {first.shape[d]} and the array at index {i} has size "
                    f"{value.shape[d]}"
                )
    from .._dtypes import normalize

    kind = c.promote([v.dtype for v in values], "concatenate") if dtype is None else normalize(dtype, "concatenate")
    shape = list(first.shape)
    shape[at] = sum(v.shape[at] for v in values)
    out = c.result_like(tuple(shape), kind, first)
    steps, start = contiguous_strides(shape), 0
    for value in values:
        if value.size:
            strided(value, value.shape, contiguous_strides(value.shape), 0, out, steps, start * steps[at])
        start += value.shape[at]
    return out


def concat(arrays: Sequence[Any], /, axis: int | None = 0) -> Array:
    """The Array API's name of concatenate()."""
    return concatenate(arrays, axis=axis)


def stack(arrays: Sequence[Any], /, axis: int = 0) -> Array:
    """The arrays, all of one shape, along a new axis. Raises ArgumentError in numpy's words for other shapes."""
    values = [c.as_operand(a, "stack") for a in arrays]
    if not values:
        raise ArgumentError("need at least one array to stack")
    if any(v.shape != values[0].shape for v in values):
        raise ArgumentError("all input arrays must have the same shape")
    at = c.normal_axis(axis, values[0].ndim + 1)
    return concatenate([expand_dims(v, axis=at) for v in values], axis=at)


def unstack(x: Any, /, axis: int = 0) -> tuple[Array, ...]:
    """The parts of `x` along `axis`, without it."""
    value = c.as_operand(x, "unstack")
    at = c.normal_axis(axis, value.ndim)
    moved = value if at == 0 else moveaxis(value, at, 0)
    return tuple(moved[i] for i in range(moved.shape[0]))


def roll(x: Any, /, shift: Any, axis: Any = None) -> Array:
    """Elements moved by `shift` places along `axis` (the flattened array for None); those moved out come back in.

    Several axes take a shift each, or one for all."""
    value = c.as_operand(x, "roll")
    if axis is None:
        if isinstance(shift, (tuple, list)):
            shift = sum(operator.index(s) for s in shift)
        return roll(value.reshape(-1), shift, axis=0).reshape(value.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,)
    if len(shifts) == 1:
        shifts = tuple(shifts) * len(axes)
    if len(axes) == 1:
        axes = tuple(axes) * len(shifts)
    if len(axes) != len(shifts):
        raise ArgumentError("'shift' and 'axis' should be scalars or 1D sequences of the same length")
    moves: dict[int, int] = {}
    for a, s in zip(axes, shifts, strict=True):
        at = c.normal_axis(a, value.ndim)
        moves[at] = moves.get(at, 0) + operator.index(s)
    result = value
    for at, distance in moves.items():
        result = _rolled(result, distance, at)
    return result.copy() if result is value else result


def _rolled(x: Array, distance: int, at: int) -> Array:
    size = x.shape[at]
    distance = distance % size if size else 0
    if distance == 0:
        return x
    out = c.result_like(x.shape, x.dtype, x)
    steps = contiguous_strides(x.shape)
    for count, source, target in ((size - distance, 0, distance), (distance, size - distance, 0)):
        part = tuple(count if i == at else n for i, n in enumerate(x.shape))
        if 0 not in part:
            strided(x, part, steps, source * steps[at], out, steps, target * steps[at])
    return out


def reverse(x: Any, /, axis: Any = None) -> Array:
    """Elements in the opposite order along `axis` (one, several, all for None), as a new array."""
    value = c.as_operand(x, "reverse")
    axes = c.normal_axes(axis, value.ndim)
    steps = contiguous_strides(value.shape)
    offset = sum((value.shape[a] - 1) * steps[a] for a in axes) if value.size else 0
    return strided(value, value.shape, tuple(-s if i in axes else s for i, s in enumerate(steps)), offset)


def flip(x: Any, /, axis: Any = None) -> Array:
    """The Array API's name of reverse()."""
    return reverse(x, axis=axis)


def broadcast_to(x: Any, /, shape: Any) -> Array:
    """`x` repeated to `shape`, as a new array. Raises ArgumentError when it does not broadcast."""
    value = c.as_operand(x, "broadcast_to")
    sizes = tuple(_array._shape(shape, "broadcast_to"))
    if c.broadcast_shapes([value.shape, sizes], "broadcast_to") != sizes:
        raise ArgumentError(
            f"broadcast_to: operands could not be broadcast together with remapped shapes [original->remapped]: "
            f"{value.shape} and requested shape {sizes}"
        )
    return strided(value, sizes, broadcast_strides(value.shape, sizes))


def broadcast_arrays(*arrays: Any) -> list[Array]:
    """All arrays repeated to their common shape, as new arrays."""
    values = [c.as_operand(a, "broadcast_arrays") for a in arrays]
    shape = c.broadcast_shapes([v.shape for v in values], "broadcast_arrays")
    return [broadcast_to(v, shape) for v in values]


def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Array:
    """The elements of `x` with another shape; shares the memory unless copy is True. Raises ArgumentError as numpy does."""
    value = c.as_operand(x, "reshape")
    result = value.reshape(shape)
    return result.copy() if copy else result


def expand_dims(x: Any, /, axis: Any = 0) -> Array:
    """`x` with new axes of one element at the places `axis` of the result; shares the memory."""
    value = c.as_operand(x, "expand_dims")
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    axes = c.normal_axes(axis, value.ndim + count)
    sizes = iter(value.shape)
    return value.reshape(tuple(1 if i in axes else next(sizes) for i in range(value.ndim + count)))


def squeeze(x: Any, /, axis: Any = None) -> Array:
    """`x` without the axes `axis`, which have one element each (all such for None); shares the memory.

    Raises ArgumentError for axes of another size."""
    value = c.as_operand(x, "squeeze")
    single = tuple(i for i, n in enumerate(value.shape) if n == 1)
    axes = single if axis is None else c.normal_axes(axis, value.ndim)
    if any(value.shape[a] != 1 for a in axes):
        raise ArgumentError("cannot select an axis to squeeze out which has size not equal to one")
    return value.reshape(tuple(n for i, n in enumerate(value.shape) if i not in axes))


def tile(x: Any, repetitions: Any, /) -> Array:
    """`x` repeated as a whole along its axes."""
    value = c.as_operand(x, "tile")
    times = tuple(_array._shape(repetitions, "tile"))
    ndim = max(value.ndim, len(times))
    sizes = (1,) * (ndim - value.ndim) + value.shape
    times = (1,) * (ndim - len(times)) + times
    pairs = tuple(n for pair in zip(times, sizes, strict=True) for n in pair)
    steps = contiguous_strides(sizes)
    walk = tuple(s for step in steps for s in (0, step))
    return strided(value, pairs, walk).reshape(tuple(t * n for t, n in zip(times, sizes, strict=True)))


def repeat(x: Any, repeats: Any, /, axis: int | None = None) -> Array:
    """Every element (or part along `axis`) `repeats` times in a row; an array of repeats counts for each part."""
    value = c.as_operand(x, "repeat")
    if axis is None:
        value, axis = value.reshape(-1), 0
    value = c.with_axis(value, axis)
    at = c.normal_axis(axis, value.ndim)
    counts = _array.host_array(repeats, "repeat")
    if counts.dtype.kind not in "biu" or (counts.size and counts.min() < 0):
        raise ArgumentError("repeats may not contain negative values, and must be integers")
    if counts.ndim == 0 or counts.size == 1:
        times = int(counts.reshape(-1)[0])
        shape = (*value.shape[: at + 1], times, *value.shape[at + 1 :])
        steps = contiguous_strides(value.shape)
        whole = strided(value, shape, (*steps[: at + 1], 0, *steps[at + 1 :]))
        return whole.reshape((*value.shape[:at], value.shape[at] * times, *value.shape[at + 1 :]))
    if counts.shape != (value.shape[at],):
        raise ArgumentError(f"operands could not be broadcast together with shape ({value.shape[at]},) {counts.shape}")
    import numpy as np

    from .selecting import take

    return take(value, np.repeat(np.arange(value.shape[at]), counts), axis=at)
