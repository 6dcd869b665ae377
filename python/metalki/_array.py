"""Device arrays."""

from __future__ import annotations

import contextlib
import math
import operator
from typing import Any, cast

import numpy as np

from . import _core, _device, _dtypes
from ._operators import Operators, algorithms
from ._text import flag, shown
from .errors import ArgumentError, MetalkiError

__all__ = ["Array", "array", "asarray", "empty", "empty_like", "full", "ones", "zeros", "zeros_like"]

_MOST_BYTES = 2**62


class Array(Operators):
    """A C-contiguous array in device memory. Made by mk.array, mk.empty, mk.zeros and the like.

    `a.numpy()` shows shared storage without a copy, after waiting for the device. Slices along the first axis,
    `reshape` and `view` share the memory; it lives until the last array, numpy view and launch that use it are gone.
    """

    def numpy(self) -> np.ndarray:
        """A numpy view of shared storage, a copy of private storage. Waits for the device first."""
        if self.storage == "shared":
            if self.size == 0:
                self.device.synchronize()
                return np.empty(self.shape, self.dtype)
            # frombuffer holds the buffer itself, numpy.ndarray(buffer=) would only hold the object.
            raw = self._view(np.dtype(np.uint8), [self.nbytes], 0)
            bytes_here = np.frombuffer(memoryview(raw), np.uint8)
            return bytes_here.view(self.dtype).reshape(self.shape)
        staged = empty(self.shape, self.dtype, device=self.device)
        _core.copy_on_device(staged, self, None)
        return staged.numpy()

    def copy(self) -> Array:
        """A new array with the same contents, copied on the device in the order of the queue."""
        result = empty(self.shape, self.dtype, self.storage, device=self.device)
        if self.nbytes:
            _core.copy_on_device(result, self, None)
        return result

    def reshape(self, *shape: Any) -> Array:
        """The same memory with another shape of the same size; one size may be -1."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        sizes = [_index(s, "reshape") for s in wanted]
        if sizes.count(-1) == 1:
            rest = math.prod(s for s in sizes if s != -1)
            if rest and self.size % rest == 0:
                sizes[sizes.index(-1)] = self.size // rest
        if any(s < 0 for s in sizes) or math.prod(sizes) != self.size:
            raise ArgumentError(
                f"reshape: shape {self.shape} has {self.size} elements, shape {shown(tuple(wanted))} was asked for"
            )
        return self._view(self.dtype, sizes, 0)

    def view(self, dtype: Any) -> Array:
        """The same bytes as elements of another dtype; the last axis is rescaled when the size differs."""
        wanted = _dtypes.normalize(dtype, "view")
        sizes = list(self.shape)
        if wanted.itemsize != self.itemsize:
            row = (sizes[-1] if sizes else 1) * self.itemsize
            if not sizes or wanted.itemsize == 0 or row % wanted.itemsize:
                raise ArgumentError(
                    f"view: the last axis has {row} bytes, which are no whole elements of {wanted} ({wanted.itemsize} bytes)"
                )
            sizes[-1] = row // wanted.itemsize
        return self._view(wanted, sizes, 0)

    def _view(self, dtype: np.dtype, sizes: list[int], offset: int) -> Array:
        code = _dtypes.code_of(dtype, self.device, "metalki.Array")
        return Array(self, dtype, code, dtype.itemsize, sizes, _dtypes.buffer_format(dtype), offset)

    def __getitem__(self, key: Any) -> Array:
        """A contiguous part, as a view: an int, a slice of step 1, `...`, or a tuple of these and None.

        A boolean array selects elements (or, with fewer axes, parts), which are copied. Parts that are not contiguous are
        refused, since a kernel could not write to them: mk.take, mk.reverse and mk.permute_dims copy them."""
        if key is Ellipsis or (isinstance(key, tuple) and not key):
            return self
        if isinstance(key, tuple):
            return self._part(key)
        if isinstance(key, (Array, np.ndarray)) and key.dtype == np.bool_:
            return cast(Array, algorithms().compress(key, self))
        if self.ndim == 0:
            raise IndexError("metalki.Array: an array without axes cannot be indexed; use .numpy()")
        row = self.strides[0]
        if isinstance(key, slice):
            start, stop, step = key.indices(self.shape[0])
            if step != 1:
                raise ArgumentError(f"metalki.Array: only contiguous slices (step 1) are views, step {step} was given")
            return self._view(self.dtype, [max(0, stop - start), *self.shape[1:]], min(start * row, self.nbytes))
        try:
            index = operator.index(key)
        except TypeError:
            raise ArgumentError(
                f"metalki.Array: an int or a slice along the first axis is expected, {shown(key)} was given; "
                "use .numpy() for more"
            ) from None
        if not -self.shape[0] <= index < self.shape[0]:
            raise IndexError(f"metalki.Array: index {shown(index)} is outside an axis of {self.shape[0]}")
        return self._view(self.dtype, list(self.shape[1:]), (index % self.shape[0]) * row)

    def _part(self, key: tuple[Any, ...]) -> Array:
        """The part that an index for several axes names."""
        given = sum(k is not None and k is not Ellipsis for k in key)
        if given > self.ndim:
            raise IndexError(f"too many indices for array: array is {self.ndim}-dimensional, but {given} were indexed")
        if sum(k is Ellipsis for k in key) > 1:
            raise IndexError("an index can only have a single ellipsis ('...')")
        rest = (slice(None),) * (self.ndim - given)
        at = next((i for i, k in enumerate(key) if k is Ellipsis), len(key))
        key = (*key[:at], *rest, *key[at + 1 :])
        sizes: list[int] = []
        offset, axis, is_whole = 0, 0, True  # is_whole: one element, or all of each axis so far
        for k in key:
            if k is None:
                sizes.append(1)
                continue
            size = self.shape[axis]
            if isinstance(k, slice):
                start, stop, step = k.indices(size)
                count = len(range(start, stop, step))
                if self.size and ((step != 1 and count > 1) or not (is_whole or count == size)):
                    raise ArgumentError(
                        f"metalki.Array: only contiguous parts are views, {shown(k)} along axis {axis} leads to none; "
                        "metalki.take copies parts"
                    )
                offset += start * self.strides[axis] if count else 0
                sizes.append(count)
                is_whole = is_whole and count == 1
            else:
                index = _index(k, "metalki.Array: an index")
                if isinstance(k, (bool, np.bool_)):
                    raise ArgumentError("metalki.Array: a bool is no index of an axis")
                if not -size <= index < size:
                    raise IndexError(f"index {shown(index)} is out of bounds for axis {axis} with size {size}")
                if self.size and not is_whole and size != 1:
                    raise ArgumentError(
                        f"metalki.Array: only contiguous parts are views, {index} along axis {axis} leads to none; "
                        "metalki.take copies parts"
                    )
                offset += index % size * self.strides[axis]
            axis += 1
        return self._view(self.dtype, sizes, min(offset, self.nbytes))

    def __setitem__(self, key: Any, value: Any) -> None:
        """Stores a number or an array, see mk.assign."""
        if isinstance(value, Array) and isinstance(key, (int, slice, np.integer)):
            with contextlib.suppress(ArgumentError):  # a part that is no view
                part = self[key]  # `x[1:] += y` has changed the part already and hands it over
                if (part.gpu_address, part.shape, part.dtype) == (value.gpu_address, value.shape, value.dtype):
                    return
        algorithms().assign(self, key, value)

    __hash__ = None  # type: ignore[assignment]  # == compares elements
    __array_priority__ = 1000  # numpy arrays leave operators with an Array to it

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len() of an array without axes")
        return int(self.shape[0])

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ArgumentError(
                "The truth value of an array with more than one element is ambiguous. Use metalki.any() or metalki.all()"
                if self.size
                else "The truth value of an empty array is ambiguous. Use `array.size > 0` to check that an array is not empty."
            )
        return bool(self.item())

    def item(self) -> Any:
        """The only element as a Python number, after waiting for the device. Raises ArgumentError for more than one."""
        if self.size != 1:
            raise ArgumentError("can only convert an array of size 1 to a Python scalar")
        return self.numpy().item()

    def tolist(self) -> Any:
        """The elements as (nested lists of) Python numbers, after waiting for the device."""
        return self.numpy().tolist()

    def _number(self, kinds: str) -> Any:
        if self.ndim:
            raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
        if self.dtype.kind not in kinds:
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return self.numpy().item()

    def __int__(self) -> int:
        return int(self._number("biufV"))

    def __float__(self) -> float:
        return float(self._number("biufV"))

    def __complex__(self) -> complex:
        return complex(self._number("biufV"))

    def __index__(self) -> int:
        return cast(int, self._number("iu"))

    def astype(self, dtype: Any, *, copy: bool = True) -> Array:
        """The elements converted to another dtype, as a new array; the array itself with copy=False when it has it."""
        return cast(Array, algorithms().astype(self, dtype, copy=copy))

    def to_device(self, device: Any, /) -> Array:
        """The array itself when it is on that device, else a copy there."""
        return asarray(self, device=device)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The package, whose functions go by the names of the Python array API standard."""
        import metalki

        return metalki

    @property
    def T(self) -> Array:
        """The transpose, as a copy: the axes in reverse order."""
        return cast(Array, algorithms().permute_dims(self, tuple(range(self.ndim))[::-1]))

    @property
    def mT(self) -> Array:
        """The transpose of the last two axes, as a copy."""
        return cast(Array, algorithms().matrix_transpose(self))

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False and self.storage != "shared":
            raise ValueError("metalki.Array: the host sees private storage only as a copy")
        view = self.numpy()
        if dtype is not None and np.dtype(dtype) != view.dtype:
            if copy is False:
                raise ValueError("metalki.Array: another dtype needs a copy")
            return view.astype(dtype)
        return view.copy() if copy else view

    def __dlpack__(self, **options: Any) -> Any:
        wanted = options.get("dl_device") or self.__dlpack_device__()
        if wanted[0] == 2 and self.device.kind == "cuda":
            from . import _cuda

            if options.get("copy"):
                return self.copy().__dlpack__(**{**options, "copy": None})
            return _cuda.dlpack(self, options.get("stream"))
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        if self.storage == "private" and self.device.kind == "cuda":
            from . import _cuda

            return (2, _cuda.number_of(self.device))
        return (1, 0)  # host memory: shared storage is host memory, private storage is copied there

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """For CuPy, Numba, PyTorch and others: the memory on a CUDA device, after waiting for the array's work."""
        if self.device.kind != "cuda":
            raise AttributeError("__cuda_array_interface__: the array is not on a CUDA device")
        from . import _cuda

        return _cuda.interface(self)

    def __repr__(self) -> str:
        text = (
            f"metalki.Array(shape={self.shape}, dtype={self.dtype}, storage={self.storage!r}, device={self.device.id!r}"
        )
        if self._is_freed:
            return f"<freed {text})>"
        if self.storage != "shared":
            return text + ")"
        try:
            return f"{text},\n{np.array2string(self.numpy(), threshold=20)})"
        except MetalkiError as error:
            return f"{text}, {error})"


def _index(value: Any, what: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentError(f"{what}: integers are expected, {shown(value)} was given") from None


def _shape(shape: Any, what: str) -> list[int]:
    if isinstance(shape, (str, bytes)):
        raise ArgumentError(f"{what}: a shape is an int or a tuple of ints, {shown(shape)} was given")
    try:
        sizes = [operator.index(shape)]
    except TypeError:
        try:
            sizes = [_index(s, what) for s in shape]
        except TypeError:
            raise ArgumentError(f"{what}: a shape is an int or a tuple of ints, {shown(shape)} was given") from None
    if any(s < 0 for s in sizes):
        raise ArgumentError(f"{what}: a size may not be negative, shape {shown(shape)} was given")
    if len(sizes) > 32:
        raise ArgumentError(f"{what}: at most 32 axes, {len(sizes)} were given")
    return sizes


def _is_private(storage: Any) -> bool:
    if not isinstance(storage, str) or storage not in ("shared", "private"):
        raise ArgumentError(f'storage: "shared" or "private" is expected, {shown(storage)} was given')
    return bool(storage == "private")


def empty(shape: Any, dtype: Any = np.float32, storage: str = "shared", *, device: Any = None) -> Array:
    """A new array of `shape` (int or tuple) whose contents are undefined, as numpy's are.

    Raises ArgumentError for a bad shape, dtype or storage, OutOfMemoryError when the memory cannot be had."""
    return _allocate(shape, dtype, storage, device, "empty")


def zeros(shape: Any, dtype: Any = np.float32, storage: str = "shared", *, device: Any = None) -> Array:
    """A new array of zeros."""
    return _allocate(shape, dtype, storage, device, "zeros", zeroed=True)


def ones(shape: Any, dtype: Any = np.float32, storage: str = "shared", *, device: Any = None) -> Array:
    """A new array of ones."""
    return full(shape, 1, np.float32 if dtype is None else dtype, storage, device=device)


def _like(other: Any, dtype: Any, device: Any, what: str) -> tuple[Any, Any, str, Any]:
    """Shape, dtype, storage and device of an array like `other`."""
    if isinstance(other, Array):
        chosen = other.device if device is None else device
        return other.shape, other.dtype if dtype is None else dtype, other.storage, chosen
    if not (hasattr(other, "shape") and hasattr(other, "dtype")):
        other = _default_dtype(host_array(other, what), other)
    return other.shape, other.dtype if dtype is None else dtype, "shared", device


_PIECE = 1 << 20  # elements


def full(shape: Any, value: Any, dtype: Any = None, storage: str = "shared", *, device: Any = None) -> Array:
    """A new array with `value` everywhere. Without a dtype: int32 for an int, float32 for a float, bool for a bool."""
    if dtype is None:
        dtype = bool if isinstance(value, bool) else np.int32 if isinstance(value, int) else np.float32
    wanted = _dtypes.normalize(dtype, "full")
    result = _allocate(shape, wanted, storage, device, "full")
    # Piece by piece: a large array must not need its size in host memory as well.
    whole = result.size <= _PIECE or np.ndim(value) > 0
    try:
        piece = np.full(result.shape if whole else _PIECE, value, wanted)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"full: {shown(value)} is no value of dtype {wanted}: {error}") from None
    if whole:
        _fill_new(result, piece)
        return result
    flat = result.reshape(-1)
    for start in range(0, flat.size, _PIECE):
        part = flat[start : start + _PIECE]
        _fill_new(part, piece[: part.size])
    return result


def empty_like(other: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """A new array with the shape (and dtype, unless one is given) of `other`, which is whatever mk.array takes."""
    shape, dtype, storage, device = _like(other, dtype, device, "empty_like")
    return empty(shape, dtype, storage, device=device)


def zeros_like(other: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """A new array of zeros with the shape (and dtype, unless one is given) of `other`, which is whatever mk.array takes."""
    shape, dtype, storage, device = _like(other, dtype, device, "zeros_like")
    return zeros(shape, dtype, storage, device=device)


def array(obj: Any, dtype: Any = None, storage: str = "shared", *, device: Any = None) -> Array:
    """A copy of `obj` in device memory: a numpy array, a list, or anything with a buffer, `__array__` or `__dlpack__`.

    Without a dtype Python floats become float32 and Python ints int32 where they fit, int64 else. Raises ArgumentError
    for dtypes that the device does not have, such as float64."""
    foreign = _foreign(obj, device, "array")
    if foreign is not None:
        obj = foreign
    if isinstance(obj, Array) and dtype is None:
        result = empty(obj.shape, obj.dtype, storage, device=device or obj.device)
        if obj.nbytes and obj.device == result.device:
            _core.copy_on_device(result, obj, None)
        elif obj.nbytes:
            _fill_new(result, obj.numpy())
        return result
    host = host_array(obj, "array")
    if dtype is not None:
        try:
            host = host.astype(_dtypes.normalize(dtype, "array"), copy=False)
        except (TypeError, ValueError, OverflowError) as error:
            raise ArgumentError(f"array: the values cannot become {shown(dtype)}: {error}") from None
    elif not hasattr(obj, "dtype"):
        host = _default_dtype(host, obj)
    result = _allocate(host.shape, host.dtype, storage, device, "array")
    _fill_new(result, host)
    return result


def asarray(
    obj: Any, dtype: Any = None, storage: str = "shared", *, device: Any = None, copy: bool | None = None
) -> Array:
    """`obj` itself when it is an Array of that dtype (and device, where one is named), else a copy as mk.array makes it.

    `copy=True` copies in any case; `copy=False` raises ArgumentError where a copy is needed."""
    copy = None if copy is None else flag("asarray: copy", copy)
    foreign = None if copy else _foreign(obj, device, "asarray")
    if foreign is not None:
        obj = foreign
    same_dtype = isinstance(obj, Array) and (dtype is None or _dtypes.normalize(dtype, "asarray") == obj.dtype)
    if same_dtype and not copy and (device is None or _device.find_device(device) == obj.device):
        return cast(Array, obj)
    if copy is False:
        raise ArgumentError(f"asarray: a {type(obj).__name__} cannot become this array without a copy")
    return array(obj, dtype, storage, device=device)


def _foreign(obj: Any, device: Any, what: str) -> Array | None:
    """Another library's GPU array without a copy, ordered behind its work; None for what is none or goes elsewhere."""
    if isinstance(obj, (Array, np.ndarray, list, tuple, int, float)):
        return None
    chosen = _device.device() if device is None else _device.find_device(device)
    if chosen.kind != "cuda":
        return None
    from . import _cuda

    foreign = _cuda.adopt(obj, chosen, what)
    if foreign is None:
        return None
    _core.global_queue(chosen).wait_stream(foreign.stream)
    return foreign.array


def host_array(obj: Any, what: str) -> np.ndarray:
    """`obj` as a numpy array, without a copy where that is possible."""
    if isinstance(obj, np.ndarray):
        return obj
    if isinstance(obj, Array):
        return obj.numpy()
    if isinstance(obj, (bytes, bytearray)):
        return np.frombuffer(obj, np.uint8) if obj else np.empty(0, np.uint8)
    try:
        if hasattr(obj, "__dlpack__") and not hasattr(obj, "__array__"):
            return np.from_dlpack(obj)
        return np.asarray(obj)
    except MetalkiError:
        raise
    except Exception as error:
        raise ArgumentError(f"{what}: a {type(obj).__name__} cannot be read as an array: {error}") from error


def _default_dtype(host: np.ndarray, obj: Any) -> np.ndarray:
    if isinstance(obj, (memoryview, bytes, bytearray)) or hasattr(obj, "__dlpack__"):
        return host
    if host.dtype == np.float64:
        return host.astype(np.float32)
    if host.dtype == np.int64 and (host.size == 0 or (host.min() >= -(2**31) and host.max() < 2**31)):
        return host.astype(np.int32)
    return host


# What an array of a dtype on a device is made from: (dtype, device) -> (numpy dtype, code, bytes, buffer format).
_recipes: dict[Any, tuple[np.dtype, int, int, str]] = {}


def _recipe(dtype: Any, device: _core.Device, what: str) -> tuple[np.dtype, int, int, str]:
    wanted = _dtypes.normalize(np.float32 if dtype is None else dtype, what)
    found = wanted, _dtypes.code_of(wanted, device, what), wanted.itemsize, _dtypes.buffer_format(wanted)
    with contextlib.suppress(TypeError):  # a dtype given as a list
        _recipes[dtype, device] = found
    return found


def _allocate(shape: Any, dtype: Any, storage: Any, device: Any, what: str, zeroed: bool = False) -> Array:
    chosen = _device.device() if device is None else _device.find_device(device)
    is_plain = type(shape) is tuple and len(shape) <= 32 and all(type(n) is int and n >= 0 for n in shape)
    sizes = list(shape) if is_plain else _shape(shape, what)
    try:
        found = _recipes.get((dtype, chosen))
    except TypeError:
        found = None
    wanted, code, itemsize, text = found or _recipe(dtype, chosen, what)
    if math.prod(sizes) * itemsize > _MOST_BYTES:
        raise ArgumentError(f"{what}: shape {shown(tuple(sizes))} of {wanted} is more than {_MOST_BYTES} bytes")
    return Array(chosen, wanted, code, itemsize, sizes, text, _is_private(storage), zeroed)


def _fill_new(result: Array, host: np.ndarray) -> None:
    if result.nbytes == 0:
        return
    data = np.ascontiguousarray(np.broadcast_to(host, result.shape), result.dtype).reshape(-1).view(np.uint8)
    if result.storage == "shared":
        _core.store_in_new(result, data)
    else:
        _core.copy_from_host(result, data, None)
