"""Devices: which there are, and which the calling thread or asyncio task uses."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from . import _core
from ._core import Device
from ._text import shown, unicode_text
from .errors import ArgumentError

__all__ = ["Device", "device", "device_synchronize", "devices", "set_device", "use_device"]

_current: ContextVar[Device | None] = ContextVar("metalki_device", default=None)


def devices() -> list[Device]:
    """All devices there are, in the order of their indices."""
    return _core.devices()


def device() -> Device:
    """The current device: the one last set in this thread or asyncio task, else the one that METALKI_DEVICE names, else
    the first. Raises ArgumentError when METALKI_DEVICE names none of those there are."""
    return _current.get() or _core.default_device()


def find_device(wanted: Any) -> Device:
    """A device from a Device, an index or a name such as "cpu" or "cuda:0"."""
    if isinstance(wanted, Device):
        return wanted
    if isinstance(wanted, str):
        return _core.find_device(unicode_text("device: the name", wanted))
    try:
        index = operator.index(wanted)
    except TypeError:
        raise ArgumentError(f"device: a Device, an index or a name is expected, {shown(wanted)} was given") from None
    there = devices()
    if not 0 <= index < len(there) or isinstance(wanted, bool):
        names = ", ".join(f"{d.index}: {d.id} ({d.name})" for d in there)
        raise ArgumentError(f"device: there is no device {shown(wanted)}; there are: {names}")
    return there[index]


def set_device(device: Any) -> None:
    """Makes a device (a Device, an index or a name such as "cpu") current for this thread or asyncio task.

    Raises ArgumentError, listing those there are, for an unknown one."""
    _current.set(find_device(device))


@contextlib.contextmanager
def use_device(device: Any) -> Iterator[Device]:
    """Makes a device current inside a with block."""
    chosen = find_device(device)
    token = _current.set(chosen)
    try:
        yield chosen
    finally:
        _current.reset(token)


def device_synchronize() -> None:
    """Waits for all queues of the current device without holding the GIL; raises what the device reported."""
    device().synchronize()
