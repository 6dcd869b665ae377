"""Sharing GPU memory with other CUDA libraries of the process (CuPy, PyTorch, JAX, Numba), without copies.

Both sides keep their own streams. What one has given to its stream before memory changes hands comes first on the other's as
well: the device waits, not the host.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _core, _dtypes
from ._text import shown
from .errors import ArgumentError

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["Foreign", "adopt", "dlpack", "interface", "number_of"]

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
        raise ArgumentError(
            f"__dlpack__: stream is None, -1, 1, 2 or a CUDA stream's handle; {shown(stream)} was given"
        )
    if stream != -1:
        _core.global_queue(array.device).let_stream_wait(_LEGACY_STREAM if stream is None else stream)
    return _core.dlpack_capsule(array, number_of(array.device))


class Foreign(NamedTuple):
    """Another library's array: its memory, the CUDA stream that its work goes to, whether it may only be read."""

    array: Array
    stream: int
    read_only: bool


def _interface_of(value: Any, where: str) -> dict[str, Any] | None:
    """Its `__cuda_array_interface__`, which may be costly to make; None for what lies in host memory or is no array."""
    try:
        found = getattr(value, "__cuda_array_interface__", None)
    except Exception as error:  # such as a tensor that needs gradients
        if not hasattr(value, "__dlpack__"):
            return None
        raise ArgumentError(f"{where}: a {type(value).__name__} does not hand its memory over: {error}") from error
    if found is None:
        device = getattr(value, "__dlpack_device__", None)
        if device is None or device()[0] != _CUDA:
            return None
    if not isinstance(found, dict):
        raise ArgumentError(
            f"{where}: a {type(value).__name__} on a GPU has no __cuda_array_interface__ that is a dict"
        )
    return found


def _stream_of(value: Any, facts: dict[str, Any]) -> int:
    """The stream that the array names, else its library's current one."""
    if named := facts.get("stream"):
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
        raise ArgumentError(f"{where}: typestr {shown(typestr)} is no dtype") from None


def adopt(value: Any, device: _core.Device, where: str) -> Foreign | None:
    """A foreign array's memory as an Array on `device`, without a copy; it keeps the foreign array alive. None for what is no
    array in GPU memory.

    Raises ArgumentError for memory of another device, and for arrays that are not C-contiguous."""
    facts = _interface_of(value, where)
    if facts is None:
        return None
    return Foreign(_array_of(value, facts, device, where), _stream_of(value, facts), bool(facts["data"][1]))


def _array_of(value: Any, facts: dict[str, Any], device: _core.Device, where: str) -> Array:
    from ._array import Array

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
