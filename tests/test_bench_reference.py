"""bench/reference.py: the reference's names are there, the JSON has github-action-benchmark's form, --compare shows ratios."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "bench" / "reference.py"

DIMENSIONS = ["1d", "dims=1", "dims=2", "dims=1L", "dims=2L"]
ITERATION = [
    "findall/bool",
    "findall/int",
    "findfirst/bool",
    "findfirst/int",
    "findmin/1d",
    "findmin/2d",
    "logical",
    "scalar",
]
COPIES = [
    "copy",
    "copyto!/cpu_to_gpu",
    "copyto!/gpu_to_cpu",
    "copyto!/gpu_to_gpu",
    *(f"iteration/{n}" for n in ITERATION),
]
NAMES = [
    *(f"array/{storage}/{n}" for storage in ("private", "shared") for n in COPIES),
    *(f"array/accumulate/{t}/{d}" for t in ("Float32", "Int64") for d in DIMENSIONS),
    *(f"array/reductions/{f}/{t}/{d}" for f in ("reduce", "mapreduce") for t in ("Float32", "Int64") for d in DIMENSIONS),
    "array/broadcast", "array/construct", "array/permutedims/2d", "array/permutedims/3d", "array/permutedims/4d",
    "array/random/rand/Float32", "array/random/rand/Int64", "array/random/rand!/Float32", "array/random/rand!/Int64",
    "array/random/randn/Float32", "array/random/randn!/Float32", "array/sorting/1d", "array/sorting/2d",
    "integration/byval/reference", "integration/byval/slices=1", "integration/byval/slices=2", "integration/byval/slices=3",
    "integration/metaldevrt", "kernel/indexing", "kernel/indexing_checked", "kernel/launch", "kernel/rand",
    "latency/import", "latency/ttfp", "metal/synchronization/context", "metal/synchronization/stream",
]  # fmt: skip


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--seconds", "0.01", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_the_references_names() -> None:
    done = run("--list")
    assert done.returncode == 0, done.stderr
    names = done.stdout.split()
    assert len(names) == len(set(names))
    assert set(NAMES) <= set(names)


def test_json_and_comparison(tmp_path: Path) -> None:
    file = tmp_path / "new.json"
    done = run("--filter", "kernel/", "--json", str(file))
    assert done.returncode == 0, done.stderr
    entries = json.loads(file.read_text(encoding="utf-8"))
    assert [e["name"] for e in entries] == [
        "kernel/launch",
        "kernel/indexing",
        "kernel/indexing_checked",
        "kernel/rand",
    ]
    for entry in entries:
        assert set(entry) <= {"name", "unit", "value", "range", "extra"}
        assert entry["unit"] == "ns"
        assert entry["value"] > 0
    for entry in entries:
        entry["value"] = 1e12
    old = tmp_path / "old.json"
    old.write_text(json.dumps([*entries, {"name": "gone", "unit": "ns", "value": 1}]), encoding="utf-8")
    done = run("--filter", "kernel/launch", "--compare", str(old))
    assert done.returncode == 0, done.stderr
    header, row, *rest = done.stdout.splitlines()
    assert "new/old" in header
    assert row.split()[-1] == "0.00"
    assert any("gone" in line for line in rest)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"name": "x"}]'])
def test_what_is_no_earlier_result_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.json"
    file.write_text(text, encoding="utf-8")
    done = run("--filter", "kernel/launch", "--compare", str(file))
    if text == "{}":
        assert done.returncode == 0
    else:
        assert done.returncode == 1
        assert "is no result of this suite" in done.stderr
        assert "Traceback" not in done.stderr


def test_no_such_row() -> None:
    done = run("--filter", "nonsense")
    assert done.returncode == 1
    assert "nonsense" in done.stderr
