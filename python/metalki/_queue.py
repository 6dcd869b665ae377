"""Queues and waiting."""

from __future__ import annotations

from typing import Any

from . import _core, _device
from ._core import Event
from .errors import ArgumentError

__all__ = ["Event", "Queue", "global_queue", "synchronize"]


class Queue(_core.Queue):
    """An ordered stream of launches and copies on a device (the current one by default)."""

    def __init__(self, device: Any = None, label: str | None = None) -> None:
        super().__init__(_device.device() if device is None else _device.find_device(device), label or "")


def global_queue(device: Any = None) -> _core.Queue:
    """The calling thread's queue of a device, which launches use when no queue is named."""
    return _core.global_queue(_device.device() if device is None else _device.find_device(device))


def synchronize(queue: _core.Queue | None = None) -> None:
    """Waits for a queue, by default the calling thread's on the current device, without holding the GIL.

    Ctrl-C interrupts the wait, not the work. Raises DeviceError when the device reported a fault."""
    if queue is None:
        queue = global_queue()
    elif not isinstance(queue, _core.Queue):
        raise ArgumentError(f"synchronize: a metalki.Queue is expected, {type(queue).__name__} was given")
    queue.synchronize()
