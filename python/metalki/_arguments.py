"""Launch arguments beyond device arrays and plain numbers: numpy arrays, vectors, structs, threadgroup memory.

The native launch calls `convert` for these and `finish` when numpy outputs have to be written back.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from . import _array, _core, _dtypes
from ._array import Array
from ._kernel import Kernel
from ._text import shown
from .errors import ArgumentError

if TYPE_CHECKING:
    from ._reflection import Argument

__all__ = ["ThreadgroupMemory", "threadgroup"]


class ThreadgroupMemory:
    """Memory for a `threadgroup` pointer argument; made by threadgroup()."""

    __slots__ = ("nbytes",)

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def __repr__(self) -> str:
        return f"metalki.threadgroup({self.nbytes})"


def threadgroup(size: Any, dtype: Any = None) -> ThreadgroupMemory:
    """Threadgroup memory for a kernel's `threadgroup` pointer: a number of bytes, or a shape and a dtype."""
    sizes = _array._shape(size, "threadgroup")
    if dtype is None and len(sizes) != 1:
        raise ArgumentError(
            f"threadgroup: a number of bytes is expected, or a shape and a dtype; {shown(size)} was given"
        )
    nbytes = math.prod(sizes) * (1 if dtype is None else _dtypes.normalize(dtype, "threadgroup").itemsize)
    if nbytes > _array._MOST_BYTES:
        raise ArgumentError(f"threadgroup: {shown(size)} is more than {_array._MOST_BYTES} bytes")
    return ThreadgroupMemory(nbytes)


class _HostArray:
    """A numpy argument during one launch: its copy in device memory, and whether to write it back."""

    __slots__ = ("device", "host", "write_back")

    def __init__(self, host: np.ndarray, device: Array) -> None:
        self.host = host
        self.device = device
        self.write_back = False


class _Stream:
    """Another library's stream that has to wait for the launch."""

    __slots__ = ("number", "write_back")

    def __init__(self, number: int) -> None:
        self.number = number
        self.write_back = False


def convert(
    kernel: Kernel,
    position: int,
    value: Any,
    state: dict[Any, Any],
    launches_nothing: bool,
    queue: _core.Queue,
) -> Any:
    """The argument as an Array, bytes, an int (threadgroup bytes) or None."""
    argument: Argument = kernel.arguments[position]
    where = f"kernel {kernel.name!r}, argument {position} {argument.name!r} ({argument.type_name})"
    if argument.kind == "threadgroup":
        if isinstance(value, ThreadgroupMemory):
            if value.nbytes == 0:
                raise ArgumentError(f"{where}: threadgroup memory of 0 bytes was given; the size must be positive")
            return value.nbytes
        _refuse(where, "metalki.threadgroup(nbytes) is expected", value)
    if argument.kind in ("texture", "sampler"):
        _refuse(where, f"a metalki.{argument.kind.capitalize()} is expected", value)
    if value is None:
        raise ArgumentError(
            f"{where}: None was given, but no function constant switches this argument off; it is missing"
        )
    if isinstance(value, (ThreadgroupMemory, _core.TextureBase, _core.SamplerBase)):
        _refuse(where, "a buffer is expected", value)
    if isinstance(value, Array):
        return _checked(where, argument, value, value.dtype, value.shape, value.nbytes, launches_nothing)
    if isinstance(value, str):
        _refuse(where, "an array or a number is expected", value)
    if isinstance(value, (bytes, bytearray)):
        return _from_bytes(where, argument, bytes(value))
    if isinstance(value, (np.generic, bool, int, float)):
        return _from_scalar(where, argument, value)
    if isinstance(value, (tuple, list)):
        return _from_numbers(where, argument, value)
    if (
        kernel.device.kind == "cuda"
        and (foreign := _from_gpu(where, kernel, argument, value, state, queue)) is not None
    ):
        return _checked(where, argument, foreign, foreign.dtype, foreign.shape, foreign.nbytes, launches_nothing)
    host = _array.host_array(value, where)
    if host.dtype == object:
        _refuse(where, "an array or a number is expected", value)
    if argument.access == "read" and _is_vector_value(argument, host):
        return _from_numbers(where, argument, host.tolist())
    if argument.access != "read" and not _is_shown(value, host):
        _refuse(where, "the kernel writes it, and numpy gets but a copy of its memory; an array is expected", value)
    return _from_host(where, kernel, argument, host, state, launches_nothing)


def _is_shown(value: Any, host: np.ndarray) -> bool:
    """Whether `host` is the value's own memory: what is written to a copy is lost."""
    if isinstance(value, np.ndarray) or host.size == 0:
        return True
    again = _array.host_array(value, "launch")
    return bool(again.__array_interface__["data"][0] == host.__array_interface__["data"][0])


def _from_gpu(
    where: str, kernel: Kernel, argument: Argument, value: Any, state: dict[Any, Any], queue: _core.Queue
) -> Array | None:
    """Another library's GPU array as it is, behind what that library's stream has so far; None for what is none."""
    from . import _cuda

    foreign = _cuda.adopt(value, kernel.device, where)
    if foreign is None:
        return None
    if argument.access != "read" and foreign.read_only:
        raise ArgumentError(f"{where}: the kernel writes to it, but the array is read-only")
    if ("stream", foreign.stream) not in state:
        state["stream", foreign.stream] = _Stream(foreign.stream)
        queue.wait_stream(foreign.stream)
    return foreign.array


def finish(kernel: Kernel, state: dict[Any, Any], queue: _core.Queue) -> None:
    """Lets other libraries' streams wait for the launch; waits for it and writes numpy outputs back."""
    for entry in state.values():
        if isinstance(entry, _Stream):
            queue.let_stream_wait(entry.number)
    written = [entry for entry in state.values() if entry.write_back]
    if not written:
        return
    queue.synchronize()
    for entry in written:
        np.copyto(entry.host, entry.device.numpy())


def _refuse(where: str, expected: str, value: Any) -> NoReturn:
    raise ArgumentError(f"{where}: {expected}, {type(value).__name__} {shown(value)} was given")


def _checked(
    where: str, argument: Argument, value: Any, dtype: np.dtype, shape: Any, nbytes: int, launches_nothing: bool
) -> Any:
    if nbytes == 0 and not launches_nothing:
        raise ArgumentError(f"{where}: an empty array was given (shape {tuple(shape)}, size zero)")
    problem = _dtype_problem(argument, dtype, nbytes)
    if problem:
        raise ArgumentError(f"{where}: {problem}")
    return value


def _dtype_problem(argument: Argument, dtype: np.dtype, nbytes: int) -> str | None:
    if not dtype.isnative:
        return f"big-endian dtype {dtype.str!r} was given; convert its byte order with .astype(dtype.newbyteorder('='))"
    if argument.dtype is None:
        size = argument.nbytes
        if size == 0 or (dtype.itemsize == size and (dtype.names or dtype.kind == "V")):
            return None
        if dtype.itemsize == 1 and nbytes % size == 0:
            return None
        return (
            f"a structured dtype of {size} bytes, or bytes in a multiple of {size}, is expected; "
            f"dtype {dtype} with {dtype.itemsize} bytes an element was given ({nbytes} bytes in all)"
        )
    if dtype == argument.dtype:
        return None
    if argument.dtype in (np.int8, np.uint8) and dtype.itemsize == 1:
        return None
    return (
        f"dtype {argument.dtype} is expected, an array of dtype {dtype} was given; "
        "reinterpret with .view or convert with .astype"
    )


def _from_bytes(where: str, argument: Argument, value: bytes) -> bytes:
    if argument.access != "read":
        raise ArgumentError(f"{where}: the kernel writes it, so it needs an array; bytes were given")
    if not value or (argument.nbytes and len(value) != argument.nbytes):
        raise ArgumentError(f"{where}: its size is {argument.nbytes} bytes, {len(value)} bytes were given")
    return value


def _from_scalar(where: str, argument: Argument, value: Any) -> bytes:
    if isinstance(value, np.void):
        if argument.dtype is not None:
            _refuse(where, f"a value of dtype {argument.dtype} is expected", value)
        if not value.dtype.isnative:
            raise ArgumentError(f"{where}: a struct of big-endian byte order was given")
        return _from_bytes(where, argument, value.tobytes())
    if argument.access != "read":
        _refuse(where, "the kernel writes it, so it needs an array", value)
    if argument.dtype is None:
        _refuse(where, f"a struct of {argument.nbytes} bytes (numpy structured scalar or bytes) is expected", value)
    if argument.rows != 1 or argument.columns != 1:
        _refuse(where, f"{argument.rows * argument.columns} numbers are expected", value)
    return _encode(where, argument, [value])


def _is_vector_value(argument: Argument, host: np.ndarray) -> bool:
    """Whether a small array is the components of one vector or matrix rather than memory laid out already."""
    if argument.dtype is None or host.dtype.names or host.dtype.kind == "V":
        return False
    if host.ndim == 0:
        return argument.rows == argument.columns == 1
    if host.dtype == argument.dtype and argument.rows != 3:
        return False  # the memory is laid out as MSL wants it
    return argument.rows * argument.columns > 1 and host.size == argument.rows * argument.columns


def _from_numbers(where: str, argument: Argument, value: Any) -> bytes:
    """The components of a vector or matrix, nested or not; a number from an array without axes."""
    count = argument.rows * argument.columns
    if argument.dtype is None:
        _refuse(where, "a numpy structured scalar, a structured array or bytes is expected", value)
    if argument.access != "read":
        _refuse(where, "the kernel writes it, so it needs an array", value)
    if count == 1 and isinstance(value, (tuple, list)):
        _refuse(where, f"a number or an array of dtype {argument.dtype} is expected", value)
    numbers: list[Any] = []
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, (tuple, list)):
            if len(item) > 16:
                _refuse(where, f"{count} numbers are expected", value)
            pending.extend(reversed(item))
            if len(pending) > 64:
                _refuse(where, f"{count} numbers are expected", value)
        else:
            numbers.append(item)
    if len(numbers) != count:
        raise ArgumentError(f"{where}: {count} numbers are expected, {len(numbers)} were given")
    return _encode(where, argument, numbers)


def _encode(where: str, argument: Argument, numbers: list[Any]) -> bytes:
    """The numbers in the argument's element type, columns padded as MSL lays them out."""
    dtype = argument.dtype
    assert dtype is not None
    values = np.zeros(len(numbers), dtype)
    for i, number in enumerate(numbers):
        values[i] = _one(where, argument, dtype, number)
    if argument.columns == 1 and argument.rows == 1:
        return values.tobytes()
    columns = values.reshape(argument.columns, argument.rows)
    stride = argument.nbytes // argument.columns // dtype.itemsize
    padded = np.zeros((argument.columns, max(stride, argument.rows)), dtype)
    padded[:, : argument.rows] = columns
    return padded.tobytes()


def _one(where: str, argument: Argument, dtype: np.dtype, number: Any) -> Any:
    # Of kind V are extensions' numbers, such as bfloat16, and structs.
    is_numpys = isinstance(number, np.generic) and not isinstance(number, np.void) and number.dtype.kind in "biufV"
    if not is_numpys and not isinstance(number, (bool, int, float)):
        _refuse(where, f"a number for {dtype} is expected", number)
    is_integer = isinstance(number, (bool, int, np.bool_, np.integer))
    if dtype.kind in "biu":
        if not is_integer:
            _refuse(where, f"an integer for {dtype} is expected", number)
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        if not low <= int(number) <= high:
            raise ArgumentError(f"{where}: {shown(int(number))} does not fit {dtype}: {low} to {high}")
        return int(number)
    try:
        exact = float(number)
    except OverflowError:
        raise ArgumentError(f"{where}: {shown(number)} does not fit {dtype}") from None
    with np.errstate(over="ignore"):
        converted = np.array(exact, np.float64).astype(dtype)
    if math.isfinite(exact) and not math.isfinite(float(converted)):
        raise ArgumentError(f"{where}: {exact} is too large for {dtype}")
    return converted


def _from_host(
    where: str, kernel: Kernel, argument: Argument, host: np.ndarray, state: dict[Any, Any], launches_nothing: bool
) -> Any:
    _checked(where, argument, host, host.dtype, host.shape, host.nbytes, launches_nothing)
    writes = argument.access != "read"
    if not host.flags.c_contiguous:
        raise ArgumentError(
            f"{where}: the array is not contiguous (shape {host.shape}, strides {host.strides}); use numpy.ascontiguousarray"
        )
    if writes and not host.flags.writeable:
        raise ArgumentError(f"{where}: the kernel writes to it, but the array is read-only")
    # One device copy per host array, so that an array given twice has one address.
    start = host.__array_interface__["data"][0]
    key = (start, host.nbytes, host.dtype.str)
    for other_key, other in state.items():
        if other_key == key or not isinstance(other, _HostArray):
            continue
        other_start, other_size, _ = other_key
        if (writes or other.write_back) and start < other_start + other_size and other_start < start + host.nbytes:
            raise ArgumentError(
                f"{where}: the array shares part of its memory with another argument, and the kernel writes to one of "
                "them; numpy arrays are copied to the device one by one, so give a metalki.Array and slices of it"
            )
    entry = state.get(key)
    if entry is None:
        entry = state[key] = _HostArray(host, _array.array(host, device=kernel.device))
    if writes:
        entry.host = host
        entry.write_back = True
    return entry.device
