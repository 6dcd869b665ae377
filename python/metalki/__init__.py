"""Write a compute kernel once in the Metal Shading Language; launch it from Python on any machine.

import metalki as mk
from metalki import kernel_interface as KI
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _arguments, _array, _core, _dtypes, _kernel, _queue
from . import kernel_interface as kernel_interface
from ._arguments import threadgroup
from ._array import Array, array, asarray, empty, empty_like, full, ones, zeros, zeros_like
from ._compile import Library, compile
from ._device import Device, device, device_synchronize, devices, set_device, use_device
from ._kernel import Kernel
from ._queue import Event, Queue, global_queue, on_complete, synchronize, synchronize_async
from ._tasks import Task
from ._texture import Sampler, Texture
from .errors import (
    ArgumentError,
    CompileError,
    CompileWarning,
    DeviceError,
    Diagnostic,
    LaunchError,
    MetalkiError,
    OutOfMemoryError,
)
from .kernel_interface import MetalBackend

if TYPE_CHECKING:
    from ._profile import Profile, profile
    from ._reflection import Argument
    from .algorithms import *  # noqa: F403
    from .algorithms import random as random

__version__ = _core.version()
__array_api_version__ = "2024.12"

__all__ = [
    "Argument",
    "ArgumentError",
    "Array",
    "CompileError",
    "CompileWarning",
    "Device",
    "DeviceError",
    "Diagnostic",
    "Event",
    "Kernel",
    "LaunchError",
    "Library",
    "MetalBackend",
    "MetalkiError",
    "OutOfMemoryError",
    "Profile",
    "Queue",
    "Sampler",
    "Task",
    "Texture",
    "array",
    "asarray",
    "compile",
    "device",
    "device_synchronize",
    "devices",
    "empty",
    "empty_like",
    "full",
    "global_queue",
    "kernel_interface",
    "on_complete",
    "ones",
    "profile",
    "set_device",
    "synchronize",
    "synchronize_async",
    "threadgroup",
    "use_device",
    "zeros",
    "zeros_like",
]

_core.set_hooks(
    _array.Array,
    _arguments.convert,
    _arguments.finish,
    _kernel.make_kernel,
    _kernel.describe_argument,
    _queue.task_queue,
    _dtypes.scalar_samples(),
)


_ON_DEMAND = {"Argument": "_reflection", "Profile": "_profile", "profile": "_profile"}


def __getattr__(name: str) -> Any:
    """What few programs use is imported when it is first asked for, which halves the time of the import: the array
    primitives (mk.sum, mk.sort, mk.random, ...), mk.profile and what describes arguments."""
    from importlib import import_module

    if name in _ON_DEMAND:
        found = globals()[name] = getattr(import_module(f".{_ON_DEMAND[name]}", __name__), name)
        return found
    if name == "__array_namespace_info__" or not name.startswith("_"):
        algorithms = import_module(".algorithms", __name__)  # `from . import` would ask for the attribute here again
        if name == "algorithms":
            return algorithms
        if name.startswith("_"):
            return import_module(".algorithms.standard", __name__).__array_namespace_info__
        if name in algorithms.__all__:
            found = globals()[name] = getattr(algorithms, name)
            return found
    raise AttributeError(f"module 'metalki' has no attribute {name!r}")


def __dir__() -> list[str]:
    from importlib import import_module

    algorithms = import_module(".algorithms", __name__)
    return sorted({*globals(), *_ON_DEMAND, *algorithms.__all__})
