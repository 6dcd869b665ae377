"""Write a compute kernel once in the Metal Shading Language; launch it from Python on any machine.

import metalki as mk
from metalki import kernel_interface as KI
"""

from __future__ import annotations

from . import _arguments, _array, _core, _dtypes, _kernel, _queue
from . import kernel_interface as kernel_interface
from ._arguments import threadgroup
from ._array import Array, array, asarray, empty, empty_like, full, ones, zeros, zeros_like
from ._compile import Library, compile
from ._device import Device, device, device_synchronize, devices, set_device, use_device
from ._kernel import Argument, Kernel
from ._profile import Profile, profile
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

__version__ = _core.version()

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
