"""Write a compute kernel once in the Metal Shading Language; launch it from Python on any machine.

import metalki as mk
from metalki import kernel_interface as KI
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _array, _core, _dtypes
from ._array import Array, array, asarray, empty, empty_like, full, ones, zeros, zeros_like
from ._compile import Library, compile
from ._device import Device, device, device_synchronize, devices, set_device, use_device
from ._kernel import Kernel
from ._queue import Event, Queue, global_queue, on_complete, synchronize, synchronize_async
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

if TYPE_CHECKING:
    from . import kernel_interface as kernel_interface
    from ._arguments import threadgroup
    from ._profile import Profile, profile
    from ._reflection import Argument
    from ._tasks import Task
    from ._texture import Sampler, Texture
    from .algorithms import *  # noqa: F403
    from .algorithms import random as random
    from .kernel_interface import MetalBackend

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

_core.register_types(_array.Array, _dtypes.scalar_samples())

# name: where it is
_ON_DEMAND = {
    "Argument": "_reflection",
    "MetalBackend": "kernel_interface",
    "Profile": "_profile",
    "Sampler": "_texture",
    "Task": "_tasks",
    "Texture": "_texture",
    "profile": "_profile",
    "threadgroup": "_arguments",
}


def __getattr__(name: str) -> Any:
    """What not every program uses is imported when it is first asked for, which makes up most of the package: the array
    primitives (mk.sum, mk.sort, mk.random, ...), KernelInterface, textures, profiles, ..."""
    from importlib import import_module

    if name in _ON_DEMAND:
        found = globals()[name] = getattr(import_module(f".{_ON_DEMAND[name]}", __name__), name)
        return found
    if name == "kernel_interface":
        return import_module(".kernel_interface", __name__)
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
