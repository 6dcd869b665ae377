"""The installed package is self-contained: library, headers, CMake files, with Clang and LLVM inside and hidden."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import metalki

PACKAGE = Path(metalki.__file__).resolve().parent
ROOT = Path(__file__).resolve().parent.parent
SUFFIX = ".dylib" if platform.system() == "Darwin" else ".so"
# What every Linux system of the last years has; zlib and zstd are what LLVM uses for its own files.
ALLOWED = {
    "libmetalki.so",
    "libstdc++.so.6",
    "libgcc_s.so.1",
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "libz.so.1",
    "libzstd.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}


def output(*command: object) -> str:
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout


def cmake_dir() -> Path:
    return Path(output(sys.executable, "-m", "metalki", "--cmake-dir").strip())


needs_binutils = pytest.mark.skipif(
    platform.system() != "Linux" or not shutil.which("readelf"), reason="reads ELF files with readelf"
)


def test_everything_lies_in_the_package() -> None:
    assert (PACKAGE / f"libmetalki{SUFFIX}").is_file()
    assert list(PACKAGE.glob("_core*"))
    assert (PACKAGE / "include" / "metalki" / "metalki.hpp").is_file()
    assert (PACKAGE / "py.typed").is_file()


def test_cmake_dir_names_the_package_files() -> None:
    assert (cmake_dir() / "metalkiConfig.cmake").is_file()
    assert (cmake_dir() / "metalkiConfigVersion.cmake").is_file()


@needs_binutils
def test_libraries_needed_are_those_every_system_has() -> None:
    for library in [PACKAGE / "libmetalki.so", *PACKAGE.glob("_core*.so")]:
        dynamic = output("readelf", "-d", library)
        needed = {line.split("[")[1].split("]")[0] for line in dynamic.splitlines() if "(NEEDED)" in line}
        assert needed <= ALLOWED, f"{library.name} needs {sorted(needed - ALLOWED)}"


@needs_binutils
def test_the_extension_finds_the_library_beside_itself() -> None:
    (extension,) = PACKAGE.glob("_core*.so")
    paths = [line for line in output("readelf", "-d", extension).splitlines() if "RUNPATH" in line or "RPATH" in line]
    assert len(paths) == 1, paths
    assert "[$ORIGIN]" in paths[0]


@needs_binutils
def test_thread_local_memory_is_small() -> None:
    # What a running process has left for libraries that it loads is some 1,600 bytes, which other libraries want as well.
    segments = output("readelf", "-lW", PACKAGE / "libmetalki.so").splitlines()
    sizes = [int(line.split()[5], 16) for line in segments if line.split()[:1] == ["TLS"]]
    assert all(size <= 768 for size in sizes), sizes


@needs_binutils
def test_llvm_is_hidden() -> None:
    symbols = output("readelf", "--dyn-syms", "--wide", PACKAGE / "libmetalki.so")
    exported = [line.split()[7] for line in symbols.splitlines() if " GLOBAL " in line and " UND " not in line]
    assert any("metalki" in name for name in exported), "the C++ API is not exported"
    shown = [name for name in exported if name.startswith(("_ZN4llvm", "_ZNK4llvm", "_ZN5clang", "_ZNK5clang", "LLVM"))]
    assert not shown, shown[:10]


@pytest.mark.parametrize("folder", ["examples/cpp_embedding", "tests/installed"])
def test_a_cpp_program_builds_against_the_installed_package(tmp_path: Path, folder: str) -> None:
    cmake = shutil.which("cmake")
    if not cmake:
        pytest.skip("cmake is not on PATH")
    source = ROOT / folder
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    options = ["-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={cmake_dir()}"]
    configured = subprocess.run(
        [cmake, "-S", source, "-B", tmp_path, *generator, *options],
        capture_output=True,
        text=True,
    )
    assert configured.returncode == 0, configured.stdout + configured.stderr
    built = subprocess.run([cmake, "--build", tmp_path], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    programs = [p for p in tmp_path.iterdir() if p.is_file() and p.stat().st_mode & 0o100]
    assert programs, "the example built no program"
    for program in programs:
        ran = subprocess.run([program], capture_output=True, text=True, timeout=120)
        assert ran.returncode == 0, ran.stdout + ran.stderr
