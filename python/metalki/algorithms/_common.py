"""What all array primitives share: element types, promotion, axes, results, and the cache of kernels."""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable, Hashable
from typing import Any, NoReturn

import numpy as np

from .. import _array, _compile, _core, _device
from .._array import Array
from .._kernel import Kernel
from ..errors import ArgumentError

DType = np.dtype[Any]

# Indices are 32-bit below this many elements, and a grid is one-dimensional.
NARROW = 2**31

_MSL = {
    "bool": "bool",
    "int8": "char",
    "uint8": "uchar",
    "int16": "short",
    "uint16": "ushort",
    "int32": "int",
    "uint32": "uint",
    "int64": "long",
    "uint64": "ulong",
    "float16": "half",
    "bfloat16": "bfloat",
    "float32": "float",
}

PRELUDE = "#include <metal_stdlib>\nusing namespace metal;\n"

BOOL = np.dtype(np.bool_)
INT32 = np.dtype(np.int32)
UINT32 = np.dtype(np.uint32)
INT64 = np.dtype(np.int64)
UINT64 = np.dtype(np.uint64)
FLOAT16 = np.dtype(np.float16)
FLOAT32 = np.dtype(np.float32)


def msl(dtype: DType, what: str) -> str:
    """MSL's name of an element type. Raises ArgumentError for structured dtypes and those that no kernel has."""
    name = _MSL.get(dtype.name)
    if name is None or dtype.fields is not None:
        if dtype == np.float64:
            raise ArgumentError(
                f"{what}: the result would be float64, which device {_device.device().name!r} does not have; "
                "convert with .astype(numpy.float32)"
            )
        raise ArgumentError(f"{what}: dtype {dtype} is not supported; there are {', '.join(_MSL)}")
    return name


def is_bfloat(dtype: DType) -> bool:
    """Whether it is ml_dtypes' bfloat16, which numpy counts as kind "V"."""
    return bool(dtype.name == "bfloat16")


def is_float(dtype: DType) -> bool:
    """Whether it is float16, bfloat16 or float32."""
    return dtype.kind == "f" or is_bfloat(dtype)


def as_operand(value: Any, what: str) -> Array:
    """`value` as a device array; numbers become arrays without axes."""
    if isinstance(value, Array):
        return value
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        _refuse_float64(what)
    return _array.asarray(value)


def _refuse_float64(what: str) -> NoReturn:
    raise ArgumentError(
        f"{what}: float64 is not supported by device {_device.device().name!r}; convert with .astype(numpy.float32)"
    )


_NO_NUMBERS = (np.flexible, np.datetime64, np.timedelta64, complex)


def is_scalar(value: Any) -> bool:
    """Whether it is a Python or numpy number, which takes part in promotion as numpy has it."""
    return isinstance(value, (bool, int, float, np.generic)) and not isinstance(value, _NO_NUMBERS)


def result_type(values: list[Any], what: str) -> DType:
    """numpy's promotion of arrays, dtypes and scalars; Python scalars are weak, and the default float is float32.

    Raises ArgumentError where numpy would give float64 for two arrays."""
    strong: list[DType] = []
    weak = 0
    for value in values:
        if isinstance(value, bool):
            strong_kind = 0
        elif isinstance(value, int):
            strong_kind = 1
        elif isinstance(value, float):  # includes numpy.float64, which no device array has
            strong_kind = 2
        else:
            strong.append(value if isinstance(value, np.dtype) else value.dtype)
            continue
        weak = max(weak, strong_kind)
        if strong_kind == 0:
            strong.append(BOOL)
    if not strong:
        return FLOAT32 if weak == 2 else INT64
    found = promote(strong, what)
    if weak == 2 and not is_float(found):
        return FLOAT32
    if weak == 1 and found.kind == "b":
        return INT64
    return found


def promote(dtypes: list[DType], what: str) -> DType:
    """numpy's promotion of dtypes. Raises ArgumentError for float64."""
    found: DType = dtypes[0]
    for other in dtypes[1:]:
        if other != found:
            found = _pair(found, other)
    if found == np.float64 and not _device.device().supports_float64:
        names = ", ".join(str(d) for d in dtypes)
        raise ArgumentError(
            f"{what}: numpy promotes {names} to float64, which device {_device.device().name!r} does not have; "
            "convert with .astype(numpy.float32)"
        )
    return found


def _pair(a: DType, b: DType) -> DType:
    if is_bfloat(b):
        a, b = b, a
    if is_bfloat(a) and b.kind in "biu":
        # numpy has no rule for bfloat16; it holds integers of one byte exactly, like float16 of numpy's own rules nearly.
        return a if b.itemsize == 1 else FLOAT32 if b.itemsize == 2 else np.dtype(np.float64)
    return np.result_type(a, b)


def check_scalar(value: Any, dtype: DType, what: str) -> Any:
    """A Python scalar for `dtype`. Raises OverflowError in numpy's words when an int is out of bounds."""
    if dtype.kind in "iu" and isinstance(value, int) and not isinstance(value, bool):
        info = np.iinfo(dtype)
        if not info.min <= value <= info.max:
            raise OverflowError(f"Python integer {value} out of bounds for {dtype.name}")
        return value
    if is_float(dtype):
        if dtype is FLOAT32 and -1e38 < value < 1e38:
            return float(value)  # the launch rounds it
        with np.errstate(over="ignore"):
            found = float(np.array(float(value), np.float64).astype(dtype))
        return found
    return bool(value) if dtype.kind == "b" else int(value)


def axis_error(axis: int, ndim: int) -> NoReturn:
    """Raises numpy's AxisError, an IndexError and a ValueError."""
    raise np.exceptions.AxisError(axis, ndim)


def normal_axis(axis: Any, ndim: int) -> int:
    """An axis counted from 0. Raises AxisError as numpy does."""
    try:
        index = operator.index(axis)
    except TypeError:
        raise TypeError(f"'{type(axis).__name__}' object cannot be interpreted as an integer") from None
    if not -ndim <= index < ndim:
        axis_error(index, ndim)
    return index % ndim


def normal_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """All axes for None, else those given, sorted. Raises AxisError and ValueError as numpy does."""
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    found = [normal_axis(a, ndim) for a in axes]
    if len(set(found)) != len(found):
        raise ValueError("duplicate value in 'axis'")
    return tuple(sorted(found))


def reduced_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """normal_axes() of what reduces: an array without axes has, as numpy sees it, an axis 0 that holds its element."""
    return () if ndim == 0 and _is_first(axis) else normal_axes(axis, ndim)


def with_axis(x: Array, axis: Any) -> Array:
    """`x`, with one axis when it has none and the first one is asked for, as numpy has it."""
    return x.reshape(1) if x.ndim == 0 and _is_first(axis) else x


def _is_first(axis: Any) -> bool:
    return hasattr(axis, "__index__") and operator.index(axis) in (0, -1)


def result_like(shape: tuple[int, ...], dtype: DType, like: Array | None) -> Array:
    """A new array in the storage and on the device of `like`."""
    if like is None:
        return _array.empty(shape, dtype)
    return _array.empty(shape, dtype, like.storage, device=like.device)


def check_out(out: Any, shape: tuple[int, ...], what: str) -> Array:
    """`out` when results of `shape` broadcast to it. Raises ArgumentError else."""
    if not isinstance(out, Array):
        raise ArgumentError(f"{what}: return arrays must be of metalki.Array, {type(out).__name__} was given")
    whole = out.shape
    own = (1,) * (len(whole) - len(shape)) + shape
    if len(own) != len(whole) or any(n not in (1, size) for n, size in zip(own, whole, strict=True)):
        raise ArgumentError(
            f"{what}: non-broadcastable output operand with shape {whole} doesn't match the broadcast shape {shape}"
        )
    return out


def check_mask(mask: tuple[int, ...], shape: tuple[int, ...]) -> None:
    """Raises IndexError in numpy's words unless a mask of shape `mask` lies on the first axes of an array of `shape`."""
    if len(mask) > len(shape):
        raise IndexError(f"too many indices for array: array is {len(shape)}-dimensional, but {len(mask)} were indexed")
    for i, (have, given) in enumerate(zip(shape, mask, strict=False)):
        if have != given:
            raise IndexError(
                f"boolean index did not match indexed array along axis {i}; size of axis is {have} but size of "
                f"corresponding boolean axis is {given}"
            )


def broadcast_shapes(shapes: list[tuple[int, ...]], what: str) -> tuple[int, ...]:
    """The common shape. Raises ArgumentError (a ValueError) in numpy's words."""
    first = shapes[0] if shapes else ()
    if all(s == first for s in shapes):
        return first
    ndim = max(len(s) for s in shapes)
    found = [1] * ndim
    for shape in shapes:
        for i, size in enumerate(shape, ndim - len(shape)):
            if size != 1:
                if found[i] not in (1, size):
                    text = " ".join("(" + ",".join(map(str, s)) + ("," if len(s) == 1 else "") + ")" for s in shapes)
                    raise ArgumentError(f"{what}: operands could not be broadcast together with shapes {text}")
                found[i] = size
    return tuple(found)


def chunk_of(device: _core.Device) -> int:
    """Elements that a SIMD-group takes of a long row at least: few on a GPU, which has hundreds of groups to fill, more on
    the few cores of a CPU, where each group costs its start and end."""
    return 32768 if device.kind == "cpu" else 8192


# Chunks for every core, so that all of them end at about the same time, and what one has at most.
_CHUNKS_PER_CORE, _LARGEST_CHUNK = 4, 2**22


def exact_chunks(device: _core.Device, length: int) -> int:
    """Into how many chunks a long row is cut whose result does not depend on that: on a CPU of one core into none, since a
    second launch would have to put them together."""
    chunks = ceil_div(length, chunk_of(device))
    if device.kind == "cpu":
        cores = device.multiprocessor_count
        wanted = 1 if cores == 1 else cores * _CHUNKS_PER_CORE
        chunks = min(chunks, max(wanted, ceil_div(length, _LARGEST_CHUNK)))
    return chunks


_cache: dict[Hashable, Any] = {}
_MOST_CACHED = 8192


def cached(key: tuple[Hashable, ...], make: Callable[[], Any]) -> Any:
    """What `make` returned for this key before, else what it returns now, on the device that the key names."""
    found = _cache.get(key)
    if found is None:
        device = next((part for part in key if isinstance(part, _device.Device)), None)
        with contextlib.nullcontext() if device is None else _device.use_device(device):
            found = make()
        if len(_cache) >= _MOST_CACHED:
            _cache.clear()
        _cache[key] = found
    return found


def compiled(source: str, name: str, options: dict[str, Any] | None = None) -> Kernel:
    """The kernel `name` of a generated source, on the current device."""
    kernel: Kernel = _compile.compile_for(_device.device(), source, options)[name]
    return kernel


def ceil_div(value: int, by: int) -> int:
    """value / by, rounded up."""
    return -(-value // by)


def round_up(value: int, to: int) -> int:
    """The smallest multiple of `to` that is not below `value`."""
    return -(-value // to) * to


def elements(shape: tuple[int, ...] | list[int]) -> int:
    """Number of elements of a shape."""
    return math.prod(shape)
