"""numpy dtypes and the element types of MSL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._text import shown
from .errors import ArgumentError

if TYPE_CHECKING:
    from . import _core

# Order of metalki::ScalarType; None stands for structs.
_NAMES = (
    None,
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
)
_CODES = {name: code for code, name in enumerate(_NAMES) if name}
STRUCT = 0
BFLOAT16 = _CODES["bfloat16"]

_formats: dict[np.dtype[Any], str] = {}


def bfloat16() -> np.dtype[Any]:
    """The numpy dtype of bfloat16, from ml_dtypes (imported when first needed)."""
    import ml_dtypes

    result: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return result


def dtype_of_code(code: int) -> np.dtype[Any] | None:
    """The numpy dtype of an element type; None for structs."""
    name = _NAMES[code]
    if name is None:
        return None
    return bfloat16() if name == "bfloat16" else np.dtype(name)


def normalize(dtype: Any, what: str) -> np.dtype[Any]:
    """`dtype` as a numpy dtype. Raises ArgumentError for what is none."""
    if isinstance(dtype, str) and dtype == "bfloat16":
        return bfloat16()
    try:
        result: np.dtype[Any] = np.dtype(dtype)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{what}: a numpy dtype is expected, {shown(dtype)} was given") from error
    return result


def code_of(dtype: np.dtype[Any], device: _core.Device, what: str) -> int:
    """The element type's code. Raises ArgumentError when a device array cannot have this dtype."""
    if dtype.hasobject or dtype.itemsize == 0:
        raise ArgumentError(f"{what}: dtype {shown(dtype)} cannot be in device memory")
    if not dtype.isnative or (dtype.byteorder == ">" and np.little_endian):
        raise ArgumentError(
            f"{what}: big-endian dtype {dtype.str!r} is not supported; convert with .astype(dtype.newbyteorder('='))"
        )
    if dtype.fields is not None or dtype.kind == "V":
        if dtype.name == "bfloat16":
            return BFLOAT16
        for name in dtype.names or ():
            field = dtype[name].base
            code_of(field, device, f"{what}, field {name!r}")
        return STRUCT
    code = _CODES.get(dtype.name)
    if code is not None:
        return code
    if dtype == np.float64:
        if device.supports_float64:
            return STRUCT
        raise ArgumentError(
            f"{what}: float64 is not supported by device {device.name!r}; convert with .astype(numpy.float32)"
        )
    raise ArgumentError(
        f"{what}: dtype {dtype.name} is not supported; there are bool, int8 to int64, uint8 to uint64, float16, "
        "bfloat16, float32 and structured dtypes"
    )


def buffer_format(dtype: np.dtype[Any]) -> str:
    """The buffer protocol's format of `dtype`; empty when it has none."""
    found = _formats.get(dtype)
    if found is None:
        try:
            found = np.empty(1, dtype).data.format
        except (ValueError, BufferError, NotImplementedError):
            found = ""
        _formats[dtype] = found
    return found


def scalar_samples() -> list[tuple[Any, str, bytes]]:
    """A value of each numpy scalar type that the native launch reads itself, its kind and its bytes."""
    numbers = [
        *(np.dtype(f"{kind}{size}").type(1) for kind in "iu" for size in (1, 2, 4, 8)),
        np.float32(1.5),
        np.float64(1.5),
    ]
    return [(number, number.dtype.kind, number.tobytes()) for number in numbers]
