"""Work in other threads, in the order of the device."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

from . import _core, _device
from ._text import shown
from .errors import ArgumentError

__all__ = ["Task", "spawn"]


class Task:
    """A function running in a worker thread with its own queue; made by spawn()."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._function = function
        self._arguments = arguments
        self._value: Any = None
        self._error: BaseException | None = None
        self._events: list[tuple[_core.Device, _core.Event]] = []
        before = _events()
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run,
            args=(self._run, before),
            name=f"metalki-{getattr(function, '__name__', 'task')}",
        )
        self._thread.start()

    def _run(self, before: list[tuple[_core.Device, _core.Event]]) -> None:
        try:
            for device, event in before:
                _core.thread_queue(device).wait_event(event)
            self._value = self._function(*self._arguments)
        except BaseException as error:
            self._error = error
        finally:
            # Whatever happened, what was launched counts.
            self._events = [(device, _core.thread_queue(device).record_event()) for device in _device.devices()]
            del self._function, self._arguments

    def done(self) -> bool:
        """Whether the function has returned; its launches may still run."""
        return not self._thread.is_alive()

    def wait(self) -> None:
        """Orders the caller's queue after everything that the task launched: the device waits for it, not the host.

        The host waits for the function itself to return, and what it raised is raised here."""
        self._join()
        for device, event in self._events:
            _core.global_queue(device).wait_event(event)
        if self._error is not None:
            raise self._error

    def result(self) -> Any:
        """What the function returned, once it has; raises what it raised. The caller's queue is ordered as by wait()."""
        self.wait()
        return self._value

    def _join(self) -> None:
        if self._thread is threading.current_thread():
            raise ArgumentError("Task: a task cannot wait for itself")
        self._thread.join()

    def __repr__(self) -> str:
        return f"<metalki.Task {self._thread.name}, {'done' if self.done() else 'running'}>"


def _events() -> list[tuple[_core.Device, _core.Event]]:
    return [(device, _core.global_queue(device).record_event()) for device in _device.devices()]


def spawn(function: Callable[..., Any], /, *arguments: Any) -> Task:
    """Runs `function(*arguments)` in a worker thread with its own queue and the caller's current device.

    What it launches runs after what the caller had launched before. Raises ArgumentError when it is no function."""
    if not callable(function):
        raise ArgumentError(f"spawn: a function is expected, {shown(function)} was given")
    return Task(function, arguments)
