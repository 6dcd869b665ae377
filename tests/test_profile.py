"""mk.profile(): counts, times, bytes and the trace file."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import metalki as mk

SOURCE = """
kernel void quick(device uint* a) { a[0] = 1; }
kernel void slow(device volatile uint* a, constant uint& n) { for (uint i = 0; i < n; ++i) a[0] = i; }
"""


def test_profile_counts_times_and_bytes(tmp_path: Path) -> None:
    library = mk.compile(SOURCE)
    a = mk.zeros(16, np.uint32)
    library["quick"](a, ndrange=1)  # before: not recorded
    with mk.profile() as p:
        for _ in range(5):
            library["quick"](a, ndrange=1)
        library["slow"](a, 20_000_000, ndrange=1)
    library["quick"](a, ndrange=1)  # after
    by_name = {entry.kernel: entry for entry in p.kernels}
    assert {name: entry.count for name, entry in by_name.items()} == {"quick": 5, "slow": 1}
    assert by_name["quick"].bytes == 5 * 64
    assert p.kernels[0].kernel == "slow"  # sorted by time, and twenty million stores outweigh five
    assert all(0 <= launch.started <= launch.completed for launch in p.launches)
    assert "slow" in p.table()
    assert "quick" in str(p)
    p.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [e["name"] for e in events if e["ph"] == "X"] == ["quick"] * 5 + ["slow"]
    with pytest.raises(mk.ArgumentError, match="save"):
        p.save(tmp_path)


def test_the_trace_is_what_perfetto_reads(tmp_path: Path) -> None:
    """Chrome's trace format: complete events ("X") with ts and dur in microseconds, nested or apart on each track; names of
    tracks as metadata ("M")."""
    library = mk.compile(SOURCE)
    a = mk.zeros(16, np.uint32)
    queues = [mk.Queue(label=f'queue "{i}"\\ é') for i in range(3)]
    with mk.profile() as p:
        for i in range(60):
            library["quick"](a, ndrange=16, queue=queues[i % 3])
    p.save(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))
    assert set(trace) <= {"traceEvents", "displayTimeUnit"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    tracks: dict[tuple[int, int], list[dict[str, float]]] = {}
    names = {}
    for event in trace["traceEvents"]:
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert isinstance(event["name"], str)
        if event["ph"] == "M":
            names[event["tid"]] = event["args"]["name"]
        else:
            assert event["ph"] == "X"
            assert event["ts"] >= 0
            assert event["dur"] >= 0
            tracks.setdefault((event["pid"], event["tid"]), []).append(event)
    assert {names[tid] for _, tid in tracks} == {q.label for q in queues}
    for events in tracks.values():
        assert len(events) == 20
        for before, after in itertools.pairwise(events):
            assert before["ts"] + before["dur"] <= after["ts"] + 1e-9


def test_times_are_those_of_the_device_alone() -> None:
    library = mk.compile(SOURCE)
    a, b = mk.zeros(16, np.uint32), mk.zeros(16, np.uint32)
    first, second = mk.Queue(), mk.Queue()
    with mk.profile() as p:
        library["slow"](a, 50_000_000, ndrange=1, queue=first)
        second.wait_event(first.record_event())
        library["quick"](b, ndrange=1, queue=second)
    slow, quick = sorted(p.launches, key=lambda launch: launch.launched)
    assert slow.completed <= quick.started  # the wait before it does not count
    assert quick.launched < slow.completed
    assert quick.seconds < slow.seconds
    assert not slow.failed


def test_failed_launches_are_recorded() -> None:
    wild = mk.Kernel("kernel void wild(device ulong* a) { *(device uint*)a[0] = 1; }")
    with pytest.raises(mk.DeviceError, match="wild"), mk.profile() as p:
        wild(mk.zeros(1, np.uint64), ndrange=1)
    assert [launch.failed for launch in p.launches] == [True]
    with pytest.raises(mk.ArgumentError, match="with"):
        mk.profile().table()


def test_one_profile_at_a_time_and_none_left_behind() -> None:
    with mk.profile(), pytest.raises(mk.ArgumentError, match="profile"), mk.profile():
        pass
    with pytest.raises(KeyError), mk.profile() as p:
        raise KeyError
    with mk.profile() as p:
        pass
    assert p.kernels == []
