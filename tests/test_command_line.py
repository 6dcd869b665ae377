"""`python -m metalki`: info, cache, check, run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import metalki as mk
from metalki._shell_arguments import argument_from

SCALE = """#include <metal_stdlib>
using namespace metal;
constant float OFFSET [[function_constant(0)]];
constant float offset = is_function_constant_defined(OFFSET) ? OFFSET : 0.0f;
kernel void scale(device float* out, device const float* in, constant float& f, uint i [[thread_position_in_grid]]) {
    out[i] = in[i] * f + offset;
}
"""
BROKEN = "kernel void k(device int* a) {\n  a[0] = nope;\n}\n"
DUBIOUS = "kernel void k(device int* a) {\n  if (a[0] = 3) a[1] = 2;\n}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("scale", SCALE), ("broken", BROKEN), ("dubious", DUBIOUS)):
        (tmp_path / f"{name}.metal").write_text(text)
    return tmp_path


def metalki(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "metalki", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_info(folder: Path) -> None:
    shown = metalki(folder, "info", METALKI_CACHE_DIR="/somewhere/else").stdout
    for fact in ("metalki", "provider", "compiler", "MSL version", "device 0", "/somewhere/else", "Python", "OS"):
        assert fact in shown
    assert "METALKI_CACHE=0" in metalki(folder, "info", METALKI_CACHE="0").stdout


def test_cmake_dir_and_usage(folder: Path) -> None:
    assert metalki(folder, "--cmake-dir").stdout.strip().endswith("cmake")
    assert metalki(folder).returncode == 2
    assert metalki(folder, "nonsense").returncode == 2


def test_check_prints_positions_and_goes_through_all_files(folder: Path) -> None:
    result = metalki(folder, "check", "broken.metal", "missing.metal", "dubious.metal", "scale.metal")
    assert result.returncode == 1
    assert "broken.metal:2:10: error:" in result.stderr
    assert "missing.metal" in result.stderr
    assert "dubious.metal:2:12: warning:" in result.stderr
    assert "scale.metal" not in result.stderr
    assert "program_source" not in result.stderr
    clean = metalki(folder, "check", "scale.metal", "dubious.metal")
    assert clean.returncode == 0
    assert metalki(folder, "check", "-D", "nope=5", "broken.metal").returncode == 0


def test_check_finds_what_only_code_generation_tells(folder: Path) -> None:
    many = ", ".join(f"device int* a{i}" for i in range(32))
    (folder / "many.metal").write_text(
        f"kernel void fine(device int* a) {{}}\nkernel void many({many}) {{ a0[0] = 1; }}\n"
    )
    result = metalki(folder, "check", "many.metal")
    assert result.returncode == 1
    assert "many.metal:" in result.stderr
    assert "31" in result.stderr
    (folder / "constant.metal").write_text(
        "constant int N [[function_constant(0)]];\nkernel void k(device int* a) { a[0] = N; }\n"
    )
    assert metalki(folder, "check", "constant.metal").returncode == 0


def test_check_options(folder: Path) -> None:
    assert metalki(folder, "check", "dubious.metal").returncode == 0
    assert metalki(folder, "check", "--werror", "dubious.metal").returncode == 1
    assert metalki(folder, "check", "--werror", "scale.metal").returncode == 0
    (folder / "headers").mkdir()
    (folder / "headers" / "value.h").write_text("#define VALUE 1\n")
    (folder / "includes.metal").write_text('#include "value.h"\nkernel void k(device int* a) { a[0] = VALUE; }\n')
    assert metalki(folder, "check", "includes.metal").returncode == 1
    assert metalki(folder, "check", "-I", "headers", "includes.metal").returncode == 0
    (folder / "headers" / "value.h").write_text("#define VALUE (1\n")
    broken = metalki(folder, "check", "-Iheaders", "includes.metal")
    assert broken.returncode == 1
    assert ".metal:2:" in broken.stderr or "value.h:1:" in broken.stderr


def test_run_takes_arguments_in_every_form(folder: Path) -> None:
    (folder / "forms.metal").write_text("""#include <metal_stdlib>
using namespace metal;
struct pair { float a; int b; };
kernel void forms(device int* out, constant int3& v, device const short* s, constant bool& flag, threadgroup int* t,
                  device const float* r, constant half& h, uint i [[thread_position_in_grid]]) {
    t[0] = v.z; out[i] = flag ? s[i] + v.x + t[0] + (r[i] < 1) + int(h) : -1; }
""")
    given = ["v=1,2,3", "zeros:int32:4", "arange:int16:2x2", "true", "threadgroup:16", "random:float32:4", "h=2.5"]
    arguments = [word for spec in given for word in ("--arg", spec)]
    result = metalki(folder, "run", "forms.metal", "--kernel", "forms", *arguments, "--ndrange", "4", "--time")
    assert result.stdout == "out int32[4]: 7 8 9 10\n", result.stderr
    assert "forms" in result.stderr
    wrong = metalki(folder, "run", "forms.metal", "--arg", "1", "--ndrange", "4")
    for part in ("takes 7 --arg", "v: buffer, int3", "zeros:int16:1024", "threadgroup:1024", "or a number"):
        assert part in wrong.stderr
    twice = [word for spec in ("v=1,2,3", "v=1,2,3", "1", "1", "1", "1", "1") for word in ("--arg", spec)]
    assert "twice" in metalki(folder, "run", "forms.metal", *twice, "--ndrange", "4").stderr
    unknown = metalki(folder, "run", "forms.metal", "--arg", "w=1", "--ndrange", "4")
    assert "no argument 'w'" in unknown.stderr


def test_run_prints_and_saves(folder: Path) -> None:
    arguments = ("--arg", "float32:8", "--arg", "float32:8:arange", "--arg", "2.5", "--ndrange", "8")
    result = metalki(folder, "run", "scale.metal", *arguments, "--print", "3", "--save", "out=out.npy")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "out float32[8]: 0.0 2.5 5.0 ...\n"
    assert np.load(folder / "out.npy").tolist() == [2.5 * i for i in range(8)]
    arguments = ("--kernel", "scale", "--arg", "out:float32:2x2", "--arg", "@out.npy", "--arg", "2", "--ndrange", "4")
    result = metalki(folder, "run", "scale.metal", *arguments, "--constant", "OFFSET=1", "--workgroupsize", "2")
    assert result.stdout == "out float32[2, 2]: 1.0 6.0 11.0 16.0\n", result.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--ndrange", "8"], "takes 3 --arg"),
        (["--arg", "1", "--arg", "2", "--arg", "3", "--ndrange", "8"], "argument 0"),
        (["--arg", "float32:8", "--arg", "float32:8", "--arg", "x", "--ndrange", "8"], "'x'"),
        (["--arg", "float32:8", "--arg", "nonsense:8", "--arg", "1", "--ndrange", "8"], "nonsense"),
        (["--arg", "float32:8", "--arg", "@nope.npy", "--arg", "1", "--ndrange", "8"], "nope.npy"),
        (["--arg", "float32:8", "--arg", "float32:8", "--arg", "1", "--ndrange", "a"], "'a'"),
        (["--arg", "float32:8", "--arg", "float32:8", "--arg", "1"], "give --ndrange"),
        (["--arg", "float32:8", "--arg", "full:float32:8", "--arg", "1", "--ndrange", "8"], "full:float32:8"),
        (["--arg", "float32:8", "--arg", "float32:axb", "--arg", "1", "--ndrange", "8"], "axb"),
        (["--arg", "float32:8", "--arg", "float32:-1", "--arg", "1", "--ndrange", "8"], "-1"),
        (["--arg", "float32:8", "--arg", "float32:8", "--arg", "threadgroup:x", "--ndrange", "8"], "threadgroup"),
        (["--arg", "float32:8", "--arg", "float32:8", "--arg", "1", "--ndrange", "8", "--save", "f=x"], "--save"),
        (["--arg", "float32:8", "--arg", "zeros:8", "--arg", "1", "--ndrange", "8"], "--arg 'zeros:8': a numpy dtype"),
        (["--device", "abacus"], "abacus"),
        (["--kernel", "nope"], "scale"),
        (["--constant", "x"], "--constant"),
    ],
)
def test_run_refuses_with_a_message(folder: Path, arguments: list[str], text: str) -> None:
    result = metalki(folder, "run", "scale.metal", *arguments)
    assert result.returncode == 1
    assert text in result.stderr
    assert "Traceback" not in result.stderr


def test_a_word_for_zeros_means_zeros() -> None:
    for size in (8, 100, 5000):
        for _ in range(8):
            mk.full(size, 0x5A5A5A5A, np.uint32)  # its memory is soon another's
            assert not argument_from(f"zeros:uint32:{size}").numpy().any()
            assert not argument_from(f"uint32:{size}").numpy().any()


def test_cache_info_and_clear_leave_other_files_alone(folder: Path) -> None:
    cache = folder / "cache"
    (cache / "ab").mkdir(parents=True)
    other = [cache / "notes.txt", cache / "ab" / "notes.txt"]
    for file in other:
        file.write_text("mine")
    place = {"METALKI_CACHE_DIR": str(cache)}
    assert metalki(folder, "check", "scale.metal", **place).returncode == 0
    arguments = ("--arg", "float32:1", "--arg", "float32:1", "--arg", "2", "--ndrange", "1")
    assert metalki(folder, "run", "scale.metal", *arguments, **place).returncode == 0
    assert " 0 records" not in metalki(folder, "cache", "info", **place).stdout
    assert "deleted" in metalki(folder, "cache", "clear", **place).stdout
    assert " 0 records" in metalki(folder, "cache", "info", **place).stdout
    assert [file.read_text() for file in other] == ["mine", "mine"]
    assert "off" in metalki(folder, "cache", "info", METALKI_CACHE="0").stdout
