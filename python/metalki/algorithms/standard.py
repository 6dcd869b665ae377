"""The rest of the Python array API standard's names: dtypes, constants, creation, inspection, statistics."""

from __future__ import annotations

import builtins
import math
from typing import Any, NamedTuple

import numpy as np

from .. import _array, _device, _dtypes
from .._array import Array
from ..errors import ArgumentError
from . import _common as c
from .arranging import broadcast_arrays, strided
from .elementwise import Operand, Request, broadcast, run
from .geometry import contiguous_strides
from .reductions import mean
from .reductions import sum as sum_of

__all__ = [
    "arange",
    "bool",
    "can_cast",
    "conj",
    "diff",
    "e",
    "eye",
    "finfo",
    "float16",
    "float32",
    "from_dlpack",
    "full_like",
    "iinfo",
    "imag",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "linspace",
    "meshgrid",
    "nan",
    "newaxis",
    "ones_like",
    "pi",
    "real",
    "result_type",
    "std",
    "tril",
    "triu",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "var",
]

e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi
bool = np.dtype(np.bool_)
int8, int16, int32, int64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
float16, float32 = np.dtype(np.float16), np.dtype(np.float32)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Array:
    """Numbers from `start` (included) to `stop` (not included) at distance `step`; from 0 to `start` without `stop`.

    Without a dtype float32 for floats; for ints int32 where they fit, int64 else, as mk.array has it.
    Raises ArgumentError for a step of 0."""
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ArgumentError("Maximum allowed size exceeded")
    is_float = any(isinstance(v, (float, np.floating)) for v in (start, stop, step))
    whole = c.INT32 if max(abs(int(start)), abs(int(stop))) < 2**31 else c.INT64
    kind = (c.FLOAT32 if is_float else whole) if dtype is None else _dtypes.normalize(dtype, "arange")
    count = max(0, math.ceil((stop - start) / step) if is_float else -((start - stop) // step))
    return _array.array(np.asarray(start + np.arange(count) * step), kind, device=device)


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: builtins.bool = True
) -> Array:
    """`num` numbers at equal distances from `start` to `stop` (included with `endpoint`), float32 without a dtype."""
    kind = c.FLOAT32 if dtype is None else _dtypes.normalize(dtype, "linspace")
    return _array.array(np.linspace(start, stop, num, endpoint=endpoint), kind, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Array:
    """Ones on the diagonal `k` (above the main one for k > 0), zeros elsewhere; float32 without a dtype."""
    kind = c.FLOAT32 if dtype is None else _dtypes.normalize(dtype, "eye")
    out = _array.zeros((n_rows, n_rows if n_cols is None else n_cols), kind, device=device)
    columns = out.shape[1]
    first = k if k >= 0 else -k * columns
    count = max(0, min(out.shape[0] - max(-k, 0), columns - max(k, 0)))
    if count:
        one = [Operand("v", 1, kind, None)]
        run(Request("v", one, (count,), kind, out_strides=(columns + 1,), out_offset=first), out)
    return out


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """An array of the shape (and dtype) of `x` with `fill_value` everywhere."""
    value = c.as_operand(x, "full_like")
    kind = value.dtype if dtype is None else _dtypes.normalize(dtype, "full_like")
    return _array.full(value.shape, fill_value, kind, value.storage, device=device or value.device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Array:
    """An array of the shape (and dtype) of `x` with ones everywhere."""
    return full_like(x, 1, dtype=dtype, device=device)


def from_dlpack(x: Any, /, *, device: Any = None, copy: builtins.bool | None = None) -> Array:
    """A copy of what another library offers through DLPack."""
    return _array.array(np.from_dlpack(x), device=device)


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Array]:
    """Coordinates of a grid from the 1-D coordinates along each axis; with "xy" the first two axes are exchanged."""
    if indexing not in ("xy", "ij"):
        raise ArgumentError("Valid values for `indexing` are 'xy' and 'ij'.")
    values = [c.as_operand(a, "meshgrid").reshape(-1) for a in arrays]
    places = list(range(len(values)))
    if indexing == "xy" and len(values) > 1:
        places[:2] = (1, 0)
    shaped = [
        v.reshape(tuple(-1 if i == p else 1 for i in range(len(values)))) for v, p in zip(values, places, strict=True)
    ]
    return broadcast_arrays(*shaped) if shaped else []


def _triangle(x: Any, k: int, keep: str, what: str) -> Array:
    value = c.as_operand(x, what)
    if value.ndim < 2:
        raise ArgumentError(f"{what}: Input array must be at least 2-dimensional, but it is {value.ndim}")
    rows, columns = value.shape[-2:]
    row, column = _array.array(np.arange(rows, dtype=np.int64).reshape(-1, 1)), _array.array(np.arange(columns))
    kept = broadcast(f"j {keep} i + k", i=row, j=column, k=np.int64(k))
    return broadcast("c ? x : z", c=kept, x=value, z=_array.zeros((), value.dtype), dtype=value.dtype)


def tril(x: Any, /, *, k: int = 0) -> Array:
    """`x` with zeros above the diagonal `k` of its last two axes."""
    return _triangle(x, k, "<=", "tril")


def triu(x: Any, /, *, k: int = 0) -> Array:
    """`x` with zeros below the diagonal `k` of its last two axes."""
    return _triangle(x, k, ">=", "triu")


def diff(x: Any, /, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Array:
    """The differences of neighbours along `axis`, `n` times."""
    from .arranging import concatenate

    value = c.as_operand(x, "diff")
    at = c.normal_axis(axis, value.ndim)
    parts = [c.as_operand(p, "diff") for p in (prepend, value, append) if p is not None]
    value = concatenate(parts, axis=at) if len(parts) > 1 else value
    for _ in range(n):
        size = max(0, value.shape[at] - 1)
        shape = tuple(size if i == at else m for i, m in enumerate(value.shape))
        steps = contiguous_strides(value.shape)
        after, before = (strided(value, shape, steps, o) for o in (steps[at] if size else 0, 0))
        value = after != before if value.dtype.kind == "b" else after - before
    return value


def var(x: Any, /, axis: Any = None, correction: float = 0.0, keepdims: builtins.bool = False) -> Array:
    """The variance along `axis`: squared distances from the mean, over their number less `correction`."""
    value = c.as_operand(x, "var")
    axes = c.normal_axes(axis, value.ndim)
    kind = value.dtype if c.is_float(value.dtype) else c.FLOAT32
    center = mean(value.astype(np.float32, copy=False), axis=axes, keepdims=True)
    squares = broadcast("((float)x - y) * ((float)x - y)", x=value, y=center, dtype=np.float32)
    total = sum_of(squares, axis=axes, keepdims=keepdims)
    count = c.elements([value.shape[i] for i in axes]) - correction
    found: Array = (total / max(count, 0.0)).astype(kind, copy=False)
    return found


def std(x: Any, /, axis: Any = None, correction: float = 0.0, keepdims: builtins.bool = False) -> Array:
    """The square root of var()."""
    from .functions import sqrt

    return sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def result_type(*values: Any) -> Any:
    """numpy's promotion of arrays, dtypes and scalars; the default float is float32. Raises ArgumentError for float64."""
    if not values:
        raise ArgumentError("at least one array or dtype is required")
    plain = [v if isinstance(v, Array) or c.is_scalar(v) else _dtypes.normalize(v, "result_type") for v in values]
    return c.result_type(plain, "result_type")


def can_cast(from_: Any, to: Any, /) -> builtins.bool:
    """Whether every value of a dtype (or an array's) is kept by another one."""
    source = from_.dtype if isinstance(from_, Array) else _dtypes.normalize(from_, "can_cast")
    return builtins.bool(np.can_cast(source, _dtypes.normalize(to, "can_cast")))


_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "",
    "numeric": "iuf",
}


def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """Whether a dtype is of a kind ("bool", "integral", "real floating", ...), is another dtype, or any of a tuple of these."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    own = _dtypes.normalize(dtype, "isdtype")
    if isinstance(kind, str) and kind in _KINDS:
        return ("f" if c.is_float(own) else own.kind) in _KINDS[kind] and own != np.float64
    return builtins.bool(own == _dtypes.normalize(kind, "isdtype"))


class _FloatLimits(NamedTuple):
    """What the standard's finfo has, as Python numbers, and numpy's names beside."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    tiny: float
    resolution: float
    dtype: np.dtype[Any]


def finfo(dtype: Any, /) -> _FloatLimits:
    """The limits of a float dtype (or an array's). Raises ArgumentError for dtypes that are no floats."""
    own = dtype.dtype if isinstance(dtype, Array) else _dtypes.normalize(dtype, "finfo")
    if not c.is_float(own):
        raise ArgumentError(f"data type {own} not inexact")
    limits: Any = np.finfo
    if c.is_bfloat(own):
        import ml_dtypes

        limits = ml_dtypes.finfo
    found = limits(own)
    names = ("eps", "max", "min", "smallest_normal", "tiny", "resolution")
    return _FloatLimits._make((own.itemsize * 8, *(float(getattr(found, name)) for name in names), own))


def conj(x: Any, /) -> Array:
    """The complex conjugate: a copy of `x`, since there are no complex dtypes."""
    return c.as_operand(x, "conj").copy()


def real(x: Any, /) -> Array:
    """The real part: `x` itself, since there are no complex dtypes."""
    return c.as_operand(x, "real")


def imag(x: Any, /) -> Array:
    """The imaginary part: zeros like `x`, since there are no complex dtypes."""
    return _array.zeros_like(c.as_operand(x, "imag"))


def iinfo(dtype: Any, /) -> Any:
    """The limits of an integer dtype (or an array's), as numpy has them."""
    return np.iinfo(dtype.dtype if isinstance(dtype, Array) else _dtypes.normalize(dtype, "iinfo"))


class _Info:
    """What __array_namespace_info__() returns."""

    def capabilities(self) -> dict[str, Any]:
        """Which optional parts of the standard are there."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 32}

    def default_device(self) -> Any:
        """The current device."""
        return _device.device()

    def devices(self) -> list[Any]:
        """All devices."""
        return list(_device.devices())

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes that functions take when none is named."""
        return {"real floating": float32, "complex floating": None, "integral": int64, "indexing": int64}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The dtypes there are, of one kind where it is named."""
        names = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32")
        return {n: np.dtype(n) for n in names if kind is None or isdtype(n, kind)}


def __array_namespace_info__() -> _Info:
    """What the array API standard lets programs ask: devices, dtypes, capabilities."""
    return _Info()
