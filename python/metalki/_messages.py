"""What kernels print and log, on its way to sys.stdout and to the logger metalki.kernel.

Imported by the native part with the first message."""

from __future__ import annotations

import logging
import sys
import threading

from . import _core

__all__ = ["deliver", "logger"]

logger = logging.getLogger("metalki.kernel")

# In the order of the native part's levels: debug, info, notice (os_log's plain log), error, fault.
_LEVELS = (logging.DEBUG, logging.INFO, logging.INFO, logging.ERROR, logging.CRITICAL)

# Longer than this no thread waits for another's delivery: that one may be waiting for this thread.
_PATIENCE = 1.0

_lock = threading.Lock()
_this_thread = threading.local()


def deliver(queue: _core.Queue | None) -> None:
    """Writes the messages of a queue's completed work, or of all queues' for None, in the order in which they came.

    What sys.stdout or a logging handler raises is raised once the other messages are delivered; what is no Exception,
    such as KeyboardInterrupt, at once: the messages behind wait for the next call. So do those that come while a handler
    of this thread waits for the device."""
    if getattr(_this_thread, "delivers", False):
        return
    held = _lock.acquire(timeout=_PATIENCE)
    _this_thread.delivers = True
    try:
        _write_all(queue)
    finally:
        _this_thread.delivers = False
        if held:
            _lock.release()


def _write_all(queue: _core.Queue | None) -> None:
    failure: Exception | None = None
    # Not for ever, should a handler itself make kernels print.
    for _ in range(_core.waiting_messages() + 1):
        message = _core.take_message(queue)
        if message is None:
            break
        try:
            _write(*message)
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure


def _write(printed: bool, level: int, subsystem: str, category: str, text: str) -> None:
    if printed:
        if sys.stdout is not None:
            sys.stdout.write(text)
        return
    extra = {"subsystem": subsystem, "category": category}
    logger.log(_LEVELS[level], text.removesuffix("\n"), extra=extra)
