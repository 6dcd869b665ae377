"""x[key] = value: numbers and arrays stored into parts of an array, in place and in the order of the queue."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple, NoReturn

import numpy as np

from .. import _array
from .._array import Array
from .._text import shown
from ..errors import ArgumentError
from . import _common as c
from .elementwise import Operand, Request, run
from .geometry import broadcast_strides, contiguous_strides
from .operators import astype

__all__ = ["assign"]


class _Part(NamedTuple):
    """Elements of an array: how many along which axes, the steps between them, and where they start."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


def assign(target: Array, key: Any, value: Any) -> None:
    """Stores `value` (a number, or an array that broadcasts to the part) in the part of `target` that `key` names: ints,
    slices of any step, None and `...`, or a bool array of the shape of the first axes, which takes a number.

    Values are converted as numpy does. Raises IndexError and ArgumentError in numpy's words for parts there are not and
    values that do not fit, OverflowError for an int that the dtype does not hold."""
    if isinstance(key, (Array, np.ndarray)) and key.dtype == np.bool_:
        return _assign_masked(target, key, value)
    part = _part(target.shape, key)
    source = _value(value, target, part.shape)
    run(Request("x", [source], part.shape, target.dtype, part.strides, part.offset), target)


def _value(value: Any, target: Array, shape: tuple[int, ...]) -> Operand:
    if c.is_scalar(value):
        plain = value.item() if isinstance(value, np.generic) else value
        return Operand("x", c.check_scalar(plain, target.dtype, "assignment"), target.dtype, None)
    given = value if isinstance(value, Array) else _array.array(_array.host_array(value, "assignment"), target.dtype)
    if given.dtype != target.dtype:
        given = astype(given, target.dtype)
    extra = given.ndim - len(shape)
    if extra > 0 and all(n == 1 for n in given.shape[:extra]):
        given = given.reshape(given.shape[extra:])
    own = (1,) * (len(shape) - given.ndim) + given.shape
    if len(own) != len(shape) or any(n not in (1, size) for n, size in zip(own, shape, strict=True)):
        raise ArgumentError(f"could not broadcast input array from shape {given.shape} into shape {shape}")
    return Operand("x", given, given.dtype, broadcast_strides(given.shape, shape))


def _assign_masked(target: Array, key: Any, value: Any) -> None:
    mask = key if isinstance(key, Array) else _array.array(key, device=target.device)
    c.check_mask(mask.shape, target.shape)
    shape = target.shape
    if not c.is_scalar(value) and np.shape(value) != ():
        raise ArgumentError(
            f"metalki.Array: a mask takes one value for all elements, an array of shape {tuple(value.shape)} was given; "
            "use mk.where"
        )
    new = _value(value, target, ())
    whole = mask.reshape(mask.shape + (1,) * (target.ndim - mask.ndim))
    inputs = [
        Operand("m", whole, c.BOOL, broadcast_strides(whole.shape, shape)),
        new._replace(strides=None if new.strides is None else (0,) * len(shape)),
        Operand("old", target, target.dtype, contiguous_strides(shape)),
    ]
    run(Request("m ? x : old", inputs, shape, target.dtype), target)


def _part(shape: tuple[int, ...], key: Any) -> _Part:
    keys = key if isinstance(key, tuple) else (key,)
    given = sum(k is not None and k is not Ellipsis for k in keys)
    if given > len(shape):
        raise IndexError(f"too many indices for array: array is {len(shape)}-dimensional, but {given} were indexed")
    if sum(k is Ellipsis for k in keys) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    at = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
    keys = (*keys[:at], *(slice(None),) * (len(shape) - given), *keys[at + 1 :])
    steps = contiguous_strides(shape)
    sizes: list[int] = []
    strides: list[int] = []
    offset, axis = 0, 0
    for k in keys:
        if k is None:
            sizes.append(1)
            strides.append(0)
            continue
        if isinstance(k, slice):
            start, stop, step = k.indices(shape[axis])
            count = len(range(start, stop, step))
            sizes.append(count)
            strides.append(step * steps[axis])
            offset += start * steps[axis] if count else 0
        else:
            offset += _place(k, axis, shape[axis]) * steps[axis]
        axis += 1
    return _Part(tuple(sizes), tuple(strides), offset)


def _place(key: Any, axis: int, size: int) -> int:
    if isinstance(key, (bool, np.bool_)):
        _refuse(key)
    try:
        index = operator.index(key)
    except TypeError:
        _refuse(key)
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {size}")
    return index % size


def _refuse(key: Any) -> NoReturn:
    raise ArgumentError(
        f"metalki.Array: elements are assigned by ints, slices, None, '...' or a bool array, {shown(key)} was given"
    )
