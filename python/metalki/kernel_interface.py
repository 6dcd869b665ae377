"""KernelInterface: the same functions for every back end. `from metalki import kernel_interface as KI`."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping
from typing import Any, TextIO

import numpy as np

from . import _array, _core, _device, _kernel, _queue, _tasks
from ._array import Array
from ._kernel import Kernel
from ._text import flag, shown
from .errors import ArgumentError

__all__ = [
    "MetalBackend",
    "adapt",
    "allocate",
    "copyto",
    "device",
    "functional",
    "get_backend",
    "kernel_function",
    "kernel_max_work_group_size",
    "launch",
    "launch_configuration",
    "max_work_group_size",
    "multiprocessor_count",
    "ndevices",
    "ones",
    "pagelock",
    "priority",
    "record_event",
    "set_device",
    "shfl_down_types",
    "spawn",
    "sub_group_size",
    "supports_atomics",
    "supports_float64",
    "supports_unified",
    "synchronize",
    "unsafe_free",
    "versioninfo",
    "wait_event",
    "zeros",
]


class MetalBackend:
    """The back end over the Metal API, on whatever device is current."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MetalBackend)

    def __hash__(self) -> int:
        return hash(MetalBackend)

    def __repr__(self) -> str:
        return "metalki.MetalBackend()"


def _check(backend: Any, what: str) -> None:
    if not isinstance(backend, MetalBackend):
        raise ArgumentError(
            f"{what}: a back end such as metalki.MetalBackend() is expected, {shown(backend)} was given"
        )


def functional(backend: MetalBackend) -> bool:
    """Whether the back end has a device."""
    _check(backend, "functional")
    return len(_device.devices()) > 0


def ndevices(backend: MetalBackend) -> int:
    """Number of devices."""
    _check(backend, "ndevices")
    return len(_device.devices())


def device(backend: MetalBackend) -> int:
    """Index of the current device, from 0."""
    _check(backend, "device")
    return _device.device().index


def set_device(backend: MetalBackend, index: int) -> None:
    """Makes the device of that index (from 0) current. Raises ArgumentError out of range."""
    _check(backend, "set_device")
    _device.set_device(index)


def supports_unified(backend: MetalBackend) -> bool:
    """Whether host and device share one memory."""
    _check(backend, "supports_unified")
    return _device.device().unified_memory


def supports_atomics(backend: MetalBackend) -> bool:
    """Whether kernels may use atomics."""
    _check(backend, "supports_atomics")
    return _device.device().supports_atomics


def supports_float64(backend: MetalBackend) -> bool:
    """Whether kernels may use double."""
    _check(backend, "supports_float64")
    return _device.device().supports_float64


def max_work_group_size(backend: MetalBackend) -> int:
    """Most threads of a work-group on the current device; a kernel may allow less."""
    _check(backend, "max_work_group_size")
    return _device.device().max_threads_per_threadgroup


def sub_group_size(backend: MetalBackend) -> int:
    """Threads of a SIMD-group."""
    _check(backend, "sub_group_size")
    return _device.device().thread_execution_width


def multiprocessor_count(backend: MetalBackend) -> int:
    """Cores of the current device."""
    _check(backend, "multiprocessor_count")
    return _device.device().multiprocessor_count


def shfl_down_types(backend: MetalBackend) -> tuple[np.dtype, ...]:
    """The dtypes that simd_shuffle_down moves."""
    _check(backend, "shfl_down_types")
    names = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32")
    return tuple(np.dtype(name) for name in names)


def priority(backend: MetalBackend, level: str) -> None:
    """Gives the calling thread's or task's queue "high", "normal" or "low" priority: where several queues wait for the
    device, those of higher priority start first. Devices without priorities ignore it. Raises ArgumentError for others."""
    _check(backend, "priority")
    _queue.global_queue().priority = level


def versioninfo(backend: MetalBackend, file: TextIO | None = None) -> None:
    """Prints (or writes to `file`) the versions of metalki, the provider, its compiler, MSL, Python and the system, the
    devices and where compiled kernels are kept. Raises ArgumentError when `file` is none."""
    from . import _cache

    _check(backend, "versioninfo")
    if file is not None and not hasattr(file, "write"):
        raise ArgumentError(f"versioninfo: a text file is expected, {shown(file)} was given")
    facts = dict(_core.version_info())
    facts["current device"] = _device.device().id
    facts["cache path"] = str(_cache.folder() or "none (METALKI_CACHE=0)")
    facts["Python"] = platform.python_version()
    facts["numpy"] = np.__version__
    facts["OS"] = platform.platform()
    width = max(map(len, facts))
    print(
        "\n".join(f"{name:<{width}}  {value}" for name, value in facts.items()),
        file=sys.stdout if file is None else file,
    )


def allocate(backend: MetalBackend, dtype: Any, shape: Any, unified: bool = False) -> Array:
    """A new array with undefined contents; `unified=True` means storage that host and device share."""
    _check(backend, "allocate")
    return _array.empty(shape, dtype, _storage(unified))


def zeros(backend: MetalBackend, dtype: Any, shape: Any, unified: bool = False) -> Array:
    """A new array of zeros."""
    _check(backend, "zeros")
    return _array.zeros(shape, dtype, _storage(unified))


def ones(backend: MetalBackend, dtype: Any, shape: Any, unified: bool = False) -> Array:
    """A new array of ones."""
    _check(backend, "ones")
    return _array.ones(shape, dtype, _storage(unified))


def _storage(unified: bool) -> str:
    return "shared" if flag("unified", unified) or _device.device().unified_memory else "private"


def copyto(backend: MetalBackend, dst: Any, src: Any) -> None:
    """Copies between arrays of device and host, in the order of the queue and without waiting.

    Sizes and dtypes must match; a host array must be contiguous, and writable when it is the destination, whose contents
    are there after the next synchronize. Raises ArgumentError and copies nothing else."""
    _check(backend, "copyto")
    if not isinstance(dst, Array) and not isinstance(src, Array):
        raise ArgumentError("copyto: one of dst and src must be a metalki.Array; numpy.copyto copies on the host")
    target = dst if isinstance(dst, Array) else _host(dst, "dst", writable=True)
    source = src if isinstance(src, Array) else _host(src, "src", writable=False)
    if target.dtype != source.dtype:
        raise ArgumentError(f"copyto: dst has dtype {target.dtype}, src has dtype {source.dtype}; they must match")
    if target.size != source.size:
        raise ArgumentError(f"copyto: dst has size {target.size}, src has size {source.size}; they must match")
    if target.size == 0:
        return
    if isinstance(source, Array) and isinstance(target, Array):
        _core.copy_on_device(target, source, None)
    elif isinstance(target, Array):
        _core.copy_from_host(target, np.asarray(source).reshape(-1).view(np.uint8), None)
    elif isinstance(source, Array):
        _core.copy_to_host(target.reshape(-1).view(np.uint8), source, None)


def _host(obj: Any, what: str, *, writable: bool) -> np.ndarray:
    if not isinstance(obj, (np.ndarray, memoryview, bytearray, bytes)) and not hasattr(obj, "__dlpack__"):
        raise ArgumentError(f"copyto: {what} is a metalki.Array or a host array, {type(obj).__name__} was given")
    host = _array.host_array(obj, f"copyto: {what}")
    if not host.flags.c_contiguous:
        raise ArgumentError(f"copyto: {what} is not contiguous (shape {host.shape}, strides {host.strides})")
    if writable and not host.flags.writeable:
        raise ArgumentError(f"copyto: {what} is read-only")
    if host.dtype.hasobject:
        raise ArgumentError(f"copyto: {what} has dtype {host.dtype}, which cannot be in device memory")
    return host


def get_backend(x: Any) -> MetalBackend:
    """The back end of a device array or of a view of one."""
    if not isinstance(x, Array):
        raise ArgumentError(f"get_backend: a metalki.Array is expected, {type(x).__name__} was given")
    return MetalBackend()


def adapt(to: Any, x: Any) -> Any:
    """Moves host arrays to the device (`to` a back end) or device arrays to the host (`to` numpy.ndarray).

    Goes through tuples, lists, dicts and dataclasses and leaves everything else alone, arrays of text and of objects
    included. Host arrays are those of numpy, memoryviews, array.array and whatever has `__dlpack__`. Raises ArgumentError
    for arrays of numbers that the device does not have, such as float64."""
    if to is np.ndarray:
        return _adapt(x, lambda leaf: isinstance(leaf, Array), lambda a: a.numpy().copy())
    _check(to, "adapt")
    return _adapt(x, _is_host_array, _array.array)


def _is_host_array(x: Any) -> bool:
    if isinstance(x, np.ndarray):
        return not x.dtype.hasobject and x.dtype.kind not in "USMm"
    if isinstance(x, (Array, np.generic, str, bytes, bytearray)):
        return False
    kind = type(x)
    return kind is memoryview or kind.__module__ == "array" or hasattr(kind, "__dlpack__")


def _adapt(x: Any, is_leaf: Callable[[Any], bool], move: Callable[[Any], Any]) -> Any:
    if is_leaf(x):
        return move(x)
    if isinstance(x, tuple):
        items = [_adapt(item, is_leaf, move) for item in x]
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    if isinstance(x, list):
        return [_adapt(item, is_leaf, move) for item in x]
    if isinstance(x, dict):
        return {key: _adapt(value, is_leaf, move) for key, value in x.items()}
    if hasattr(type(x), "__dataclass_fields__") and not isinstance(x, type):
        import copy
        import dataclasses

        result = copy.copy(x)
        for item in dataclasses.fields(x):
            if hasattr(x, item.name):
                object.__setattr__(result, item.name, _adapt(getattr(x, item.name), is_leaf, move))
        return result
    return x


def unsafe_free(x: Array) -> None:
    """Gives an array's memory back now. Launches under way finish; later use is an ArgumentError, and so is freeing memory
    that numpy views still show."""
    if not isinstance(x, Array):
        raise ArgumentError(f"unsafe_free: a metalki.Array is expected, {type(x).__name__} was given")
    x._free()


def pagelock(backend: MetalBackend, x: Any) -> Any:
    """Pins host memory where that makes copies faster; returns x. Nothing to do where host and device share memory."""
    _check(backend, "pagelock")
    return x


def synchronize(backend: MetalBackend) -> None:
    """Waits for the calling thread's queue without holding the GIL; raises what the device reported."""
    _check(backend, "synchronize")
    _queue.synchronize()


def record_event(backend: MetalBackend, queue: _core.Queue | None = None) -> _core.Event:
    """Marks what was given to the queue (the calling thread's or task's by default) so far."""
    _check(backend, "record_event")
    return _queue.checked(queue, "record_event").record_event()


def wait_event(backend: MetalBackend, event: _core.Event, queue: _core.Queue | None = None) -> None:
    """Later work of the queue (the calling thread's or task's by default) runs after the event; the host does not wait."""
    _check(backend, "wait_event")
    if not isinstance(event, _core.Event):
        raise ArgumentError(f"wait_event: a metalki.Event is expected, {type(event).__name__} was given")
    _queue.checked(queue, "wait_event").wait_event(event)


spawn = _tasks.spawn


def kernel_function(
    backend: MetalBackend,
    source_or_library: Any,
    name: str | None = None,
    *,
    function_constants: Mapping[int | str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Kernel:
    """The kernel `name` (the only one when left out) of MSL source, a pathlib.Path or a Library.

    The same source, options, constants and device give the same Kernel. Raises CompileError and ArgumentError."""
    _check(backend, "kernel_function")
    return _kernel.make_kernel(source_or_library, name, function_constants=function_constants, options=options)


def launch(
    backend: MetalBackend,
    source_or_kernel: Any,
    arguments: Any = (),
    *,
    name: str | None = None,
    function_constants: Mapping[int | str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    launch: bool = True,
    **geometry: Any,
) -> Kernel:
    """Compiles (cached) and launches; returns the Kernel. `launch=False` only compiles.

    `arguments` is a tuple in declaration order or a dict by parameter name; `geometry` is what Kernel.launch takes."""
    _check(backend, "launch")
    if isinstance(source_or_kernel, Kernel):
        kernel = source_or_kernel
    else:
        kernel = _kernel.make_kernel(source_or_kernel, name, function_constants=function_constants, options=options)
    if flag("launch: launch", launch):
        kernel.launch(arguments, **geometry)
    return kernel


def launch_configuration(
    kernel: Kernel, ndrange: Any, max_work_group_size: int | None = None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(numworkgroups, workgroupsize) that a launch over `ndrange` chooses."""
    return _core.launch_configuration(kernel, ndrange, _limit(max_work_group_size, "launch_configuration"))


def kernel_max_work_group_size(kernel: Kernel, max_work_items: int | None = None) -> int:
    """Largest work-group of the kernel, not above `max_work_items`."""
    return _core.kernel_max_work_group_size(kernel, _limit(max_work_items, "kernel_max_work_group_size"))


def _limit(value: int | None, what: str) -> int:
    if value is None:
        return 0
    limit = _array._index(value, what)
    if not 1 <= limit < 2**63:
        raise ArgumentError(f"{what}: the limit is at least 1, {shown(value)} was given")
    return limit
