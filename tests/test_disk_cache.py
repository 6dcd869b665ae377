"""The disk cache: always the right kernel, never an error, whatever happens to its files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import metalki as mk
from metalki import _core

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


INDIRECT = {
    "a macro's name": '#define NAME "value.h"\n#include NAME\n',
    "has_include": '#if __has_include("value.h")\n#include "value.h"\n#else\n#define VALUE 0\n#endif\n',
    "a header in a header": '#include "outer.h"\n',
    "an include under a condition": '#ifdef METALKI_NOT_THERE\n#else\n  #  include "value.h"\n#endif\n',
}
KERNEL = "kernel void k(device int* o) { o[0] = VALUE; }\n"
TWO_FOLDERS = """
import sys
import numpy as np
import metalki as mk
out = mk.zeros(1, np.int32)
mk.Kernel(sys.argv[1], options={"include_dirs": sys.argv[2:]})(out, ndrange=1)
print(out.numpy()[0])
"""


def include_folders(tmp_path: Path) -> tuple[Path, Path]:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    (second / "outer.h").write_text('#pragma once\n#include "value.h"\n')
    return first, second


@pytest.mark.parametrize("name", INDIRECT)
def test_headers_that_change_behind_indirections_in_other_processes(tmp_path: Path, name: str) -> None:
    first, second = include_folders(tmp_path)

    def value() -> int:
        command = [sys.executable, "-c", TWO_FOLDERS, INDIRECT[name] + KERNEL, str(first), str(second)]
        variables = {**os.environ, "METALKI_CACHE_DIR": str(tmp_path / "cache")}
        return int(subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout)

    check_changes(first, second, name, value)


@pytest.mark.parametrize("name", INDIRECT)
def test_headers_that_change_behind_indirections_in_this_process(tmp_path: Path, name: str) -> None:
    first, second = include_folders(tmp_path)

    def value() -> int:
        out = mk.zeros(1, np.int32)
        mk.Kernel(INDIRECT[name] + KERNEL, options={"include_dirs": [first, second]})(out, ndrange=1)
        return int(out.numpy()[0])

    check_changes(first, second, name, value)


def check_changes(first: Path, second: Path, name: str, value: Callable[[], int]) -> None:
    (second / "value.h").write_text("#define VALUE 1\n")
    assert value() == 1
    assert value() == 1
    (second / "value.h").write_text("#define VALUE 2\n")
    assert value() == 2
    (first / "value.h").write_text("#define VALUE 3\n")  # one that comes first appears
    assert value() == (2 if name == "a header in a header" else 3)  # beside the header that includes it is nearer
    (first / "value.h").unlink()
    assert value() == 2
    (second / "value.h").write_text("#define VALUE 1\n")  # as it was once
    assert value() == 1
    if name == "has_include":
        (second / "value.h").unlink()
        assert value() == 0


def test_a_file_compiled_by_its_path_and_its_header(tmp_path: Path) -> None:
    source, header = tmp_path / "k.metal", tmp_path / "value.h"
    source.write_text('#include "value.h"\n' + KERNEL)
    for value in (5, 6, 5):
        header.write_text(f"#define VALUE {value}\n")
        out = mk.zeros(1, np.int32)
        mk.Kernel(source)(out, ndrange=1)
        assert out.numpy()[0] == value


def test_another_version_of_the_library(tmp_path: Path) -> None:
    """Another build has another stamp, and finds none of the records of this one."""
    package = Path(mk.__file__).resolve().parent
    assert run(tmp_path / "cache", "48") == 48
    before = len(records(tmp_path / "cache"))
    copied = tmp_path / "python" / "metalki"
    shutil.copytree(package, copied, symlinks=False, ignore=shutil.ignore_patterns("__pycache__", "*.cpp"))
    library = next((Path(_core.__file__).resolve().parent.parent.parent).glob("libmetalki.so"), None)
    if library is None and not (copied / "libmetalki.so").exists():
        pytest.skip("the library does not lie where this test can copy it")
    for target in (copied / "libmetalki.so",):
        if not target.exists() and library:
            shutil.copy(library, target)
        os.utime(target, (1, 1))
    result = run(tmp_path / "cache", "48", PYTHONPATH=str(tmp_path / "python"), LD_LIBRARY_PATH=str(copied))
    assert result == 48
    assert len(records(tmp_path / "cache")) > before


def test_a_read_only_folder(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert run(cache, "49") == 49
    for path in [cache, *cache.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert run(cache, "49") == 49
        assert run(cache, "50") == 50
    finally:
        for path in [cache, *cache.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.parametrize("limit", [0, 100, 3000])
def test_files_that_cannot_grow(tmp_path: Path, limit: int) -> None:
    """As on a full disk: writing fails after so many bytes."""
    start_limited = (
        f"import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
    )
    variables = {**os.environ, "METALKI_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", start_limited + PROGRAM, "51"]
    result = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)
    assert (result.stdout, result.stderr, result.returncode) == ("51\n", "", 0)
    assert not [path for path in records(tmp_path) if path.suffix == ".tmp"]
    assert run(tmp_path, "51") == 51


def test_records_that_vanish_while_processes_run(tmp_path: Path) -> None:
    running = [start(tmp_path, str(60 + i)) for i in range(3)]
    while any(process.poll() is None for process in running):
        for path in records(tmp_path):
            path.unlink(missing_ok=True)
    for i, process in enumerate(running):
        out, err = process.communicate(timeout=120)
        assert (out.strip(), err) == (str(60 + i), "")


def test_another_processor(tmp_path: Path) -> None:
    assert run(tmp_path, "47") == 47
    before = len(records(tmp_path))
    assert run(tmp_path, "47", METALKI_CPU="x86-64-v2" if os.uname().machine == "x86_64" else "generic") == 47
    assert len(records(tmp_path)) > before
