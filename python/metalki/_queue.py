"""Queues, events, waiting and completion."""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from . import _core, _device
from ._core import Event, synchronize
from ._text import shown, unicode_text
from .errors import ArgumentError

__all__ = ["Event", "Queue", "global_queue", "on_complete", "synchronize", "synchronize_async"]


class Queue(_core.Queue):
    """An ordered stream of launches and copies on a device (the current one by default).

    `label` appears in messages and profiles. `priority` is "high", "normal" or "low": where several queues wait for the
    device, those of higher priority start first; devices without priorities ignore it. `time_limit` is in seconds: a
    launch that runs for longer is stopped and the next wait raises DeviceError; None, the default, is no limit. Both can
    be set later. Raises ArgumentError for anything else."""

    def __init__(
        self,
        device: Any = None,
        label: str | None = None,
        *,
        priority: str = "normal",
        time_limit: float | None = None,
    ) -> None:
        if label is not None and not isinstance(label, str):
            raise ArgumentError(f"Queue: label is a str, {shown(label)} was given")
        label = unicode_text("Queue: the label", label or "")
        super().__init__(_device.device() if device is None else _device.find_device(device), label)
        self.priority = priority
        self.time_limit = time_limit


def global_queue(device: Any = None) -> _core.Queue:
    """The queue of a device that launches use when none is named: one per thread and per asyncio task.

    The queue of an asyncio task starts after what had been launched where the task was made."""
    return _core.global_queue(_device.device() if device is None else _device.find_device(device))


def checked(queue: Any, what: str) -> _core.Queue:
    """`queue` itself, the calling thread's or task's queue for None. Raises ArgumentError for anything else."""
    if queue is None:
        return global_queue()
    if not isinstance(queue, _core.Queue):
        raise ArgumentError(f"{what}: a metalki.Queue is expected, {type(queue).__name__} was given")
    return queue


async def synchronize_async(queue: _core.Queue | None = None) -> None:
    """Waits for a queue as synchronize() does, while other asyncio tasks run."""
    import asyncio

    chosen = checked(queue, "synchronize_async")
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def tell() -> None:
        if not done.done():
            done.set_result(None)

    def completed() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell)

    on_complete(completed, chosen)
    chosen.flush()
    await done
    chosen.synchronize()  # complete already: raises what the device reported


_caller_lock = threading.Lock()
_caller: threading.Thread | None = None


def on_complete(function: Callable[[], object], queue: _core.Queue | None = None) -> None:
    """Calls `function()` once everything given to the queue so far is complete, whether it succeeded or not.

    It is called on a thread of metalki's own; what it raises goes to threading.excepthook. Functions whose work is not
    complete when the interpreter exits are not called."""
    chosen = checked(queue, "on_complete")
    _core.on_complete(chosen, function)
    _start_caller()


def _start_caller() -> None:
    global _caller
    with _caller_lock:
        if _caller is None or not _caller.is_alive():
            _caller = threading.Thread(target=_call_what_is_due, name="metalki-callbacks", daemon=True)
            _caller.start()


def _call_what_is_due() -> None:
    while functions := _core.next_callbacks():
        for function in functions:
            try:
                function()
            except BaseException:
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


@atexit.register
def _stop_caller() -> None:
    _core.close_callbacks()
    if _caller is not None and _caller is not threading.current_thread():
        _caller.join(timeout=1)


# Seconds that the end of the interpreter waits for kernels that print.
_PATIENCE_AT_EXIT = 5.0


@atexit.register
def _deliver_last_messages() -> None:
    _core.finish_messages(_PATIENCE_AT_EXIT)


_inherited: ContextVar[dict[int, _core.Queue] | None] = ContextVar("metalki_queues", default=None)
_of_tasks: WeakKeyDictionary[Any, dict[int, _core.Queue]] = WeakKeyDictionary()


def task_queue(device: _core.Device) -> _core.Queue | None:
    """The running asyncio task's queue of a device, None outside of tasks. Called by the native part."""
    import asyncio

    task = asyncio.current_task()
    if task is None:
        return None
    queues = _of_tasks.get(task)
    if queues is None:
        queues = _of_tasks[task] = {}
    found = queues.get(device.index)
    if found is None:
        # A task's context is a copy of its maker's, so this is the maker's queue.
        maker = (_inherited.get() or {}).get(device.index) or _core.thread_queue(device)
        found = queues[device.index] = Queue(device, task.get_name())
        found.wait_event(maker.record_event())
        _inherited.set(dict(queues))
    return found
