"""Where the device's time goes: launches, their times and what they bind."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from . import _core, _device
from .errors import ArgumentError

__all__ = ["KernelProfile", "LaunchRecord", "Profile", "profile"]


class LaunchRecord(NamedTuple):
    """One launch. Times are in seconds since the profile began; `bytes` are those of all buffers bound to it."""

    kernel: str
    queue: str
    queue_id: int
    launched: float
    started: float
    completed: float
    bytes: int

    @property
    def seconds(self) -> float:
        """Time on the device."""
        return self.completed - self.started


@dataclass(frozen=True)
class KernelProfile:
    """All launches of the kernels of one name. Times in seconds."""

    kernel: str
    count: int
    total: float
    shortest: float
    longest: float
    bytes: int


class Profile:
    """What profile() recorded: complete when the with block has ended."""

    def __init__(self) -> None:
        self.launches: list[LaunchRecord] = []

    def __enter__(self) -> Profile:
        _core.begin_profile()
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            for device in _device.devices():
                device.synchronize()
        finally:
            self.launches = _with_starts(_core.end_profile())

    @property
    def kernels(self) -> list[KernelProfile]:
        """One entry per kernel name, the one with the most device time first."""
        groups: dict[str, list[LaunchRecord]] = {}
        for launch in self.launches:
            groups.setdefault(launch.kernel, []).append(launch)
        entries = []
        for name, launches in groups.items():
            times = [launch.seconds for launch in launches]
            size = sum(launch.bytes for launch in launches)
            entries.append(KernelProfile(name, len(launches), sum(times), min(times), max(times), size))
        return sorted(entries, key=lambda entry: -entry.total)

    def table(self) -> str:
        """The kernels as text: count, device time in all, mean, least and most, bytes bound by all launches."""
        width = max([6, *(len(entry.kernel) for entry in self.kernels)])
        lines = [
            f"{'kernel':<{width}} {'count':>7} {'total ms':>10} {'mean us':>10} {'min us':>10} {'max us':>10} {'MB':>10}"
        ]
        for e in self.kernels:
            times = (e.total / e.count * 1e6, e.shortest * 1e6, e.longest * 1e6)
            columns = " ".join(f"{t:10.1f}" for t in times)
            lines.append(f"{e.kernel:<{width}} {e.count:7} {e.total * 1e3:10.3f} {columns} {e.bytes / 1e6:10.3f}")
        return "\n".join(lines)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a trace in Chrome's JSON format, which ui.perfetto.dev and chrome://tracing open: a row per queue."""
        rows = {q: i for i, q in enumerate(dict.fromkeys(launch.queue_id for launch in self.launches), 1)}
        names = {launch.queue_id: launch.queue or "queue" for launch in self.launches}
        process = os.getpid()
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "pid": process, "tid": row, "args": {"name": names[queue]}}
            for queue, row in rows.items()
        ]
        for launch in self.launches:
            events.append(
                {
                    "ph": "X",
                    "cat": "kernel",
                    "name": launch.kernel,
                    "pid": process,
                    "tid": rows[launch.queue_id],
                    "ts": launch.started * 1e6,
                    "dur": launch.seconds * 1e6,
                    "args": {"bytes": launch.bytes, "launched": launch.launched * 1e6},
                }
            )
        try:
            Path(path).write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}), encoding="utf-8")
        except OSError as error:
            raise ArgumentError(f"Profile.save: {path} cannot be written: {error}") from error

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"<metalki.Profile of {len(self.launches)} launches>"


def _with_starts(records: list[tuple[str, str, int, float, float, int]]) -> list[LaunchRecord]:
    """A launch starts when it is given to its queue or when the launch before it there completes."""
    before: dict[int, float] = {}
    launches = []
    for kernel, queue, queue_id, launched, completed, size in sorted(records, key=lambda r: r[3]):
        started = min(max(launched, before.get(queue_id, 0.0)), completed)
        before[queue_id] = completed
        launches.append(LaunchRecord(kernel, queue, queue_id, launched, started, completed, size))
    return launches


def profile() -> Profile:
    """Records the launches of a with block, in all threads: `with mk.profile() as p: ...; print(p.table())`.

    Each launch gets a command buffer of its own meanwhile, so launching is slower; the block ends when the device is idle.
    A launch's time is that from when its queue could start it to its completion. Raises ArgumentError inside another."""
    return Profile()
