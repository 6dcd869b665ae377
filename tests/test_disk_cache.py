"""The disk cache: always the right kernel, never an error, whatever happens to its files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
import numpy as np
import metalki as mk
source = "kernel void k(device int* o) { o[0] = %s; }"
options = {"include_dirs": [sys.argv[2]]} if len(sys.argv) > 2 else None
out = mk.zeros(1, np.int32)
text = source % sys.argv[1] if options is None else '#include "value.h"\\n' + source % "VALUE"
mk.Kernel(text, options=options)(out, ndrange=1)
print(out.numpy()[0])
"""


def start(cache: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    variables = {**os.environ, "METALKI_CACHE_DIR": str(cache), **environment}
    command = [sys.executable, "-c", PROGRAM, *arguments]
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(cache: Path, *arguments: str, **environment: str) -> int:
    process = start(cache, *arguments, **environment)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert err == ""
    return int(out)


def records(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.is_file()]


def test_a_second_process_adds_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, "41") == 41
    first = {path: path.stat().st_mtime_ns for path in records(tmp_path)}
    assert len(first) >= 3
    assert run(tmp_path, "41") == 41
    assert {path: path.stat().st_mtime_ns for path in records(tmp_path)} == first


@pytest.mark.parametrize("damage", ["empty", "half", "garbage", "flipped"])
def test_damaged_records_are_made_anew(tmp_path: Path, damage: str) -> None:
    assert run(tmp_path, "42") == 42
    for path in records(tmp_path):
        content = path.read_bytes()
        middle = len(content) // 2
        path.write_bytes(
            {
                "empty": b"",
                "half": content[:middle],
                "garbage": os.urandom(len(content)),
                "flipped": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
            }[damage]
        )
    assert run(tmp_path, "42") == 42


def test_records_of_another_kernel_under_this_name(tmp_path: Path) -> None:
    assert run(tmp_path / "a", "1") == 1
    assert run(tmp_path / "b", "2") == 2
    others = records(tmp_path / "b")
    for path in records(tmp_path / "a"):
        path.write_bytes(others.pop().read_bytes() if others else b"")
    assert run(tmp_path / "a", "1") == 1


def test_processes_at_once(tmp_path: Path) -> None:
    running = [start(tmp_path, "43") for _ in range(4)]
    for process in running:
        out, err = process.communicate(timeout=120)
        assert (out.strip(), err) == ("43", "")
    assert not [path for path in records(tmp_path) if path.suffix == ".tmp"]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert run(tmp_path / "file", "44") == 44


def test_a_full_disk(tmp_path: Path) -> None:
    assert run(Path("/dev/full"), "45") == 45


def test_switched_off(tmp_path: Path) -> None:
    assert run(tmp_path, "46", METALKI_CACHE="0") == 46
    assert records(tmp_path) == []


def test_a_changed_header(tmp_path: Path) -> None:
    include, earlier = tmp_path / "include", tmp_path / "cache"
    include.mkdir()
    (include / "value.h").write_text("#define VALUE 1\n")
    assert run(earlier, "", str(include)) == 1
    assert run(earlier, "", str(include)) == 1
    (include / "value.h").write_text("#define VALUE 2\n")
    assert run(earlier, "", str(include)) == 2


def test_another_processor(tmp_path: Path) -> None:
    assert run(tmp_path, "47") == 47
    before = len(records(tmp_path))
    assert run(tmp_path, "47", METALKI_CPU="x86-64-v2" if os.uname().machine == "x86_64" else "generic") == 47
    assert len(records(tmp_path)) > before
