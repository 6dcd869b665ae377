"""mk.profile(): counts, times, bytes and the trace file."""

from __future__ import annotations

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


def test_one_profile_at_a_time_and_none_left_behind() -> None:
    with mk.profile(), pytest.raises(mk.ArgumentError, match="profile"), mk.profile():
        pass
    with pytest.raises(KeyError), mk.profile() as p:
        raise KeyError
    with mk.profile() as p:
        pass
    assert p.kernels == []
