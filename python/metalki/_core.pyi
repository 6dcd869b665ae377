"""metalki's native part. Use the package metalki instead."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from ._reflection import Argument

_Extents = int | Sequence[int]
_Diagnostics = list[tuple[int, int, str, bytes, bytes]]

class Device:
    """A device: where arrays live and kernels run."""

    @property
    def name(self) -> str:
        """Name for people."""

    @property
    def index(self) -> int:
        """Position in metalki.devices(), from 0."""

    @property
    def kind(self) -> str:
        """ "metal", "cpu" or "cuda"."""

    @property
    def id(self) -> str:
        """What set_device() takes: "cpu", "cuda:0"."""

    @property
    def max_threads_per_threadgroup(self) -> int:
        """Upper bound for a work-group; a kernel may allow less."""

    @property
    def threadgroup_memory_length(self) -> int:
        """Bytes of threadgroup memory of a work-group."""

    @property
    def thread_execution_width(self) -> int:
        """Threads in a SIMD-group."""

    @property
    def unified_memory(self) -> bool:
        """Whether host and device share one memory."""

    @property
    def recommended_working_set_size(self) -> int:
        """Bytes that may be in use at once without harm to speed."""

    @property
    def max_buffer_length(self) -> int:
        """Bytes of the largest array."""

    @property
    def multiprocessor_count(self) -> int:
        """Cores."""

    @property
    def supports_float64(self) -> bool:
        """Whether double is there."""

    @property
    def supports_atomics(self) -> bool:
        """Whether atomics are there."""

    def synchronize(self) -> None:
        """Waits for all work; raises what the device reported."""

    def __eq__(self, arg: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __repr__(self) -> str: ...

class Event:
    """A point in a queue's work."""

    @property
    def is_complete(self) -> bool:
        """Whether the work before the event is done."""

class Queue:
    """An ordered stream of launches and copies."""

    def __init__(self, device: Device, label: str = "") -> None: ...
    @property
    def device(self) -> Device:
        """The queue's device."""

    @property
    def label(self) -> str:
        """The name given when it was made."""

    @property
    def priority(self) -> str:
        """
        "high", "normal" or "low": whose work starts first where several queues wait for the device.
        """

    @priority.setter
    def priority(self, level: str, /) -> None: ...
    @property
    def time_limit(self) -> float | None:
        """Seconds after which a launch is stopped; None: no limit."""

    @time_limit.setter
    def time_limit(self, seconds: float | None, /) -> None: ...
    def cancel(self) -> None:
        """
        Stops the running kernel and drops what waits in the queue; the next wait raises DeviceError.
        """

    def synchronize(self) -> None:
        """Waits for the queue; raises what the device reported."""

    def flush(self) -> None:
        """Hands all launches to the device."""

    def record_event(self) -> Event:
        """Marks what was given to this queue so far."""

    def wait_stream(self, stream: int) -> None:
        """
        Later work of this queue runs after what a CUDA stream, given as a number, has so far.
        """

    def let_stream_wait(self, stream: int) -> None:
        """
        Later work of a CUDA stream, given as a number, runs after what this queue has so far.
        """

    def wait_event(self, event: Event) -> None:
        """
        Later work of this queue runs after the event; the device waits, not the caller.
        """

    def __eq__(self, arg: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __repr__(self) -> str: ...

def devices() -> list[Device]: ...
def default_device() -> Device: ...
def find_device(name: str) -> Device: ...
def global_queue(device: Device) -> Queue: ...
def thread_queue(device: Device) -> Queue: ...
def synchronize(queue: Queue | None = None) -> None:
    """
    Waits for a queue, by default the calling thread's or task's on the current device, without holding the GIL.

    Ctrl-C interrupts the wait and stops the queue's work, so that a kernel that never ends does not block it for ever.
    Raises DeviceError when the device reported a fault.
    """

def version() -> str: ...
def version_info() -> list[tuple[str, str]]: ...

class ArrayBase:
    @overload
    def __init__(
        self,
        device: Device,
        dtype: np.dtype[Any],
        scalar: int,
        itemsize: int,
        shape: Sequence[int],
        format: str,
        private: bool,
        zeroed: bool,
    ) -> None: ...
    @overload
    def __init__(
        self,
        device: Device,
        dtype: np.dtype[Any],
        scalar: int,
        itemsize: int,
        shape: Sequence[int],
        format: str,
        *,
        address: int,
        owner: object,
    ) -> None: ...
    @overload
    def __init__(
        self,
        base: ArrayBase,
        dtype: np.dtype[Any],
        scalar: int,
        itemsize: int,
        shape: Sequence[int],
        format: str,
        offset: int,
    ) -> None: ...
    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type, a numpy dtype."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes, C order: the last axis is contiguous."""

    @property
    def ndim(self) -> int:
        """Number of axes."""

    @property
    def size(self) -> int:
        """Number of elements."""

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each axis."""

    @property
    def storage(self) -> str:
        """ "shared" (host and device see it) or "private"."""

    @property
    def device(self) -> Device:
        """Where the memory is."""

    @property
    def gpu_address(self) -> int:
        """Device address of the first element, for pointers inside structs."""

    @property
    def _is_freed(self) -> bool: ...
    def _free(self) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def dlpack_capsule(array: object, device: int) -> object: ...
def store_in_new(destination: ArrayBase, source: npt.NDArray[Any]) -> None: ...
def copy_from_host(destination: ArrayBase, source: npt.NDArray[Any], queue: Queue | None) -> None: ...
def copy_to_host(destination: npt.NDArray[Any], source: ArrayBase, queue: Queue | None) -> None: ...
def copy_on_device(destination: ArrayBase, source: ArrayBase, queue: Queue | None) -> None: ...
def fill_bytes(destination: ArrayBase, value: int, queue: Queue | None) -> None: ...

class LibraryBase:
    def __init__(self, arg: LibraryBase, /) -> None: ...
    @property
    def device(self) -> Device:
        """The device it was compiled for."""

    @property
    def function_names(self) -> list[str]:
        """Names of its kernels."""

    @property
    def _warnings(self) -> _Diagnostics: ...
    @property
    def _identity(self) -> int: ...

class Kernel:
    """A compiled kernel. Calling it launches it without waiting."""

    def __init__(
        self,
        source: Any,
        name: str | None = None,
        *,
        function_constants: Mapping[int | str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None: ...
    @property
    def name(self) -> str:
        """The kernel's name."""

    @property
    def device(self) -> Device:
        """The device it was compiled for."""

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Its arguments in call order."""

    @property
    def max_total_threads_per_threadgroup(self) -> int:
        """Largest work-group."""

    @property
    def thread_execution_width(self) -> int:
        """Threads of a SIMD-group."""

    @property
    def static_threadgroup_memory_length(self) -> int:
        """Bytes of threadgroup memory it declares itself."""

    def __call__(
        self,
        *arguments: Any,
        ndrange: _Extents | None = None,
        numworkgroups: _Extents | None = None,
        workgroupsize: _Extents | None = None,
        max_work_group_size: int | None = None,
        queue: Queue | None = None,
        uses: Iterable[ArrayBase] | None = None,
    ) -> None: ...
    def launch(
        self,
        arguments: tuple[Any, ...] | list[Any] | dict[str, Any],
        /,
        *,
        ndrange: _Extents | None = None,
        numworkgroups: _Extents | None = None,
        workgroupsize: _Extents | None = None,
        max_work_group_size: int | None = None,
        queue: Queue | None = None,
        uses: Iterable[ArrayBase] | None = None,
    ) -> None:
        """Launches with the arguments as a tuple in declaration order, or as a dict by parameter name."""

    def disassemble(self, form: str, /) -> str:
        """The kernel's text as "msl", "llvm" or "asm", where the device has it."""

def compile(
    device: Device,
    source: str,
    macros: Sequence[tuple[str, str]] = ...,
    math_mode: str = ...,
    language_version: str = ...,
    include_dirs: Sequence[str] = ...,
    headers: Sequence[tuple[str, str]] = ...,
) -> LibraryBase: ...
def make_kernel(library: LibraryBase, name: str, constants: list[tuple[int | str, list[Any]]]) -> Kernel: ...
def launch_configuration(
    kernel: Kernel, ndrange: Any, max_work_group_size: int
) -> tuple[tuple[int, ...], tuple[int, ...]]: ...
def kernel_max_work_group_size(kernel: Kernel, max_work_items: int) -> int: ...
def on_complete(queue: Queue, function: Callable[[], object]) -> None: ...
def next_callbacks() -> list[Callable[[], object]]: ...
def close_callbacks() -> None: ...

class ProfileBase:
    def __init__(self) -> None: ...
    def _stop(self) -> None: ...
    def _launches(self) -> list[tuple[str, str, int, float, float, float, int, bool]]: ...
    def _kernels(self) -> list[tuple[str, int, float, float, float, int]]: ...
    def _table(self) -> str: ...
    def _trace(self) -> str: ...

def take_message(queue: Queue | None) -> tuple[bool, int, str, str, str] | None:
    """
    The next message of a queue, of all for None: (printed, level, subsystem, category, text); None when there is none.
    """

def waiting_messages() -> int:
    """How many messages wait."""

def finish_messages(seconds: float) -> None:
    """Waits for kernels that print and delivers what they wrote."""

class TextureBase:
    def __init__(self, device: Device, format: str, type: int, *arguments: Any) -> None:
        """`arguments` are width, height, depth, layers, mip levels, access and label."""

    def _read(self, destination: npt.NDArray[Any], level: int) -> None: ...
    def _write(self, source: npt.NDArray[Any], level: int) -> None: ...
    @property
    def width(self) -> int:
        """Texels along x."""

    @property
    def height(self) -> int:
        """Texels along y; 1 where the type has no y."""

    @property
    def depth(self) -> int:
        """Texels along z; 1 where the type has no z."""

    @property
    def array_length(self) -> int:
        """Layers of an array, else 1."""

    @property
    def mip_levels(self) -> int:
        """Levels, each half as large as the one before."""

    @property
    def pixel_format(self) -> str:
        """MTLPixelFormat's name, in lower case."""

    @property
    def nbytes(self) -> int:
        """Bytes of the first level."""

    @property
    def device(self) -> Device:
        """Where the memory is."""

class SamplerBase:
    def __init__(self, device: Device, filter: int, mip_filter: int, address: int, normalized: bool) -> None: ...
    @property
    def device(self) -> Device:
        """The device it was made for."""

    @property
    def normalized(self) -> bool:
        """Whether coordinates go from 0 to 1 rather than count pixels."""

def pixel_formats() -> list[tuple[str, int, int]]:
    """All formats: name, elements of a pixel, code of the element type."""

def register_types(array_type: type, numpy_scalars: list[tuple[Any, str, bytes]]) -> None:
    """Tells the types that launches know without asking Python."""
