"""Write a compute kernel once in the Metal Shading Language; launch it from Python on any machine.

import metalki as mk
from metalki import kernel_interface as KI
"""

from __future__ import annotations

from . import _arguments, _array, _core, _kernel
from . import kernel_interface as kernel_interface
from ._arguments import threadgroup
from ._array import Array, array, asarray, empty, empty_like, full, ones, zeros, zeros_like
from ._compile import Library, compile
from ._device import Device, device, device_synchronize, devices, set_device, use_device
from ._kernel import Argument, Kernel
from ._queue import Event, Queue, global_queue, synchronize
from .errors import (
    ArgumentError,
    CompileError,
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
    "Queue",
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
    "ones",
    "set_device",
    "synchronize",
    "threadgroup",
    "use_device",
    "zeros",
    "zeros_like",
]

_core.set_hooks(_array.Array, _arguments.convert, _arguments.finish, _kernel.make_kernel, _kernel.describe_argument)
