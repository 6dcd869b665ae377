"""Where the device's time goes: launches, their times and what they bind."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from . import _core
from ._text import shown
from .errors import ArgumentError

__all__ = ["KernelProfile", "LaunchRecord", "Profile", "profile"]


class LaunchRecord(NamedTuple):
    """One launch. Times are in seconds since the profile began, `started` and `completed` on the device's own clock;
    `bytes` are those of all buffers bound to it; `failed` when the device reported an error."""

    kernel: str
    queue: str
    queue_id: int
    launched: float
    started: float
    completed: float
    bytes: int
    failed: bool

    @property
    def seconds(self) -> float:
        """Time on the device."""
        return self.completed - self.started


@dataclass(frozen=True)
class KernelProfile:
    """All launches of the kernels of one name. Times in seconds on the device."""

    kernel: str
    count: int
    total: float
    shortest: float
    longest: float
    bytes: int


class Profile:
    """What profile() recorded: complete when the with block has ended."""

    def __init__(self) -> None:
        self._native: _core.ProfileBase | None = None

    def __enter__(self) -> Profile:
        self._native = _core.ProfileBase()
        return self

    def __exit__(self, *exception: object) -> None:
        self._recorded()._stop()

    def _recorded(self) -> _core.ProfileBase:
        if self._native is None:
            raise ArgumentError("profile: nothing is recorded yet; use it as `with metalki.profile() as p:`")
        return self._native

    @property
    def launches(self) -> list[LaunchRecord]:
        """What has completed so far, in the order of the launches."""
        return [LaunchRecord(*launch) for launch in self._recorded()._launches()]

    @property
    def kernels(self) -> list[KernelProfile]:
        """One entry per kernel name, the one with the most device time first."""
        return [KernelProfile(*kernel) for kernel in self._recorded()._kernels()]

    def table(self) -> str:
        """The kernels as text: count, device time in all, mean, least and most, bytes bound by all launches."""
        return self._recorded()._table()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a trace in Chrome's JSON format, which ui.perfetto.dev and chrome://tracing open: a row per queue.

        Raises ArgumentError when the file cannot be written."""
        text = self._recorded()._trace()
        if not isinstance(path, (str, os.PathLike)):
            raise ArgumentError(f"Profile.save: a path is expected, {shown(path)} was given")
        try:
            Path(path).write_text(text, encoding="utf-8")
        except (OSError, ValueError) as error:  # ValueError: no name of a file
            raise ArgumentError(f"Profile.save: {shown(path)} cannot be written: {error}") from error

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"<metalki.Profile of {len(self.launches) if self._native else 0} launches>"


def profile() -> Profile:
    """Records the launches of a with block, in all threads: `with mk.profile() as p: ...; print(p.table())`.

    Each launch gets a command buffer of its own meanwhile, whose start and end are the launch's; so launching is slower. The
    block ends when all devices are idle. Raises ArgumentError inside another."""
    return Profile()
