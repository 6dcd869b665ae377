"""Sharing GPU memory with other CUDA libraries of the process (CuPy, PyTorch, JAX, Numba), without copies.

Both sides keep their own streams. What one has given to its stream before memory changes hands comes first on the other's as
well: the device waits, not the host.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core, _dtypes
from .errors import ArgumentError

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["adopt", "dlpack", "interface", "is_foreign", "number_of", "stream_of"]

_LEGACY_STREAM = 1  # CUDA's default stream, by the number that cannot be taken for none
_CUDA = 2  # DLPack's number for memory of a CUDA device


def number_of(device: _core.Device) -> int:
    """Which of CUDA's devices this is."""
    return int(device.id.partition(":")[2])


def interface(array: Array) -> dict[str, Any]:
    """What `__cuda_array_interface__` (version 3) says of an array on a CUDA device. The array's work is done by then."""
    array.device.synchronize()
    return {
        "shape": array.shape,
        "typestr": array.dtype.str,
        "data": (array.gpu_address if array.size else 0, False),
        "strides": None,
        "version": 3,
        "stream": None,
    }


def dlpack(array: Array, stream: int | None) -> Any:
    """A DLPack capsule of the device memory; `stream`, the caller's, waits for what the array's queue has so far."""
    if stream is not None and (not isinstance(stream, int) or stream == 0 or stream < -1):
        raise ArgumentError(f"__dlpack__: stream is None, -1, 1, 2 or a CUDA stream's handle; {stream!r} was given")
    if stream != -1:
        _core.global_queue(array.device).let_stream_wait(_LEGACY_STREAM if stream is None else stream)
    return _core.dlpack_capsule(array, number_of(array.device))


def is_foreign(value: Any) -> bool:
    """Whether a value is another library's array in GPU memory."""
    try:
        if getattr(value, "__cuda_array_interface__", None) is not None:
            return True
    except Exception:  # such as a tensor that needs gradients: the conversion says why it cannot be used
        return hasattr(value, "__dlpack__")
    device = getattr(value, "__dlpack_device__", None)
    return device is not None and device()[0] == _CUDA


def _interface_of(value: Any, where: str) -> dict[str, Any]:
    try:
        found = value.__cuda_array_interface__
    except Exception as error:
        raise ArgumentError(f"{where}: a {type(value).__name__} does not hand its memory over: {error}") from error
    if not isinstance(found, dict):
        raise ArgumentError(f"{where}: __cuda_array_interface__ of a {type(value).__name__} is no dict")
    return found


def stream_of(value: Any) -> int:
    """The CUDA stream that a foreign array's work goes to: the one that it names, else its library's current one."""
    named = _interface_of(value, "stream").get("stream")
    if named:
        return int(named)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return int(torch.cuda.current_stream(value.device).cuda_stream) or _LEGACY_STREAM
    return _LEGACY_STREAM


def _dtype_of(value: Any, typestr: str, where: str) -> np.dtype[Any]:
    # The interface has no name for bfloat16: PyTorch and JAX say what they mean by their own dtype.
    if "bfloat16" in str(getattr(value, "dtype", "")):
        return _dtypes.bfloat16()
    try:
        return np.dtype(typestr)
    except TypeError:
        raise ArgumentError(f"{where}: typestr {typestr!r} is no dtype") from None


def adopt(value: Any, device: _core.Device, where: str) -> Array:
    """A foreign array's memory as an Array on `device`, without a copy; it keeps the foreign array alive.

    Raises ArgumentError for memory of another device, and for arrays that are not C-contiguous."""
    from ._array import Array

    facts = _interface_of(value, where)
    shape = tuple(int(n) for n in facts["shape"])
    dtype = _dtype_of(value, facts["typestr"], where)
    strides = facts.get("strides")
    contiguous: list[int] = []
    step = dtype.itemsize
    for size in reversed(shape):
        contiguous.insert(0, step)
        step *= size
    if strides is not None and any(n > 1 and a != b for n, a, b in zip(shape, strides, contiguous, strict=True)):
        raise ArgumentError(
            f"{where}: the array is not contiguous (shape {shape}, strides {tuple(strides)}); copy it first"
        )
    code = _dtypes.code_of(dtype, device, where)
    if 0 in shape:
        return Array(device, dtype, code, dtype.itemsize, list(shape), _dtypes.buffer_format(dtype), True, False)
    return Array(
        device,
        dtype,
        code,
        dtype.itemsize,
        list(shape),
        _dtypes.buffer_format(dtype),
        address=int(facts["data"][0]),
        owner=value,
    )


def is_read_only(value: Any) -> bool:
    """Whether a foreign array may only be read."""
    return bool(_interface_of(value, "array")["data"][1])
