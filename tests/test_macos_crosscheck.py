"""The Mac build, type-checked and linked on any machine: the back end against Apple's own metal-cpp headers.

The cross-compiler and the headers come from PyPI at test time and stay in a cache folder. Without a network the test is
skipped with the reason; where CI is set it fails instead.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "macos"))

import fetch  # noqa: E402
import macho  # noqa: E402

STUBS = ROOT / "tests" / "macos" / "stubs"
FLAGS = [
    "-target",
    "aarch64-macos.14.0",
    "-std=c++20",
    "-O1",
    "-fblocks",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    '-DMETALKI_VERSION="crosscheck"',
]

pytestmark = [
    pytest.mark.crosscheck,
    pytest.mark.skipif(platform.system() == "Darwin", reason="on a Mac the real build does this"),
]


@pytest.fixture(scope="module")
def toolchain() -> tuple[list[str], dict[str, str]]:
    """The compile command up to the sources, and its environment."""
    cache = fetch.default_cache()
    try:
        headers = fetch.metal_cpp(cache / "metal_cpp")
        compiler = fetch.ziglang(cache / "ziglang")
    except fetch.FetchError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"the cross-compiler or metal-cpp could not be fetched: {error}")
    environment = {
        **os.environ,
        "PYTHONPATH": str(compiler),
        "ZIG_GLOBAL_CACHE_DIR": str(cache / "zig"),
        "ZIG_LOCAL_CACHE_DIR": str(cache / "zig"),
    }
    command = [
        sys.executable,
        "-m",
        "ziglang",
        "c++",
        *FLAGS,
        "-isystem",
        str(headers),
        "-isystem",
        str(STUBS / "include"),
    ]
    return command, environment


def run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:  # zig leaves an a.out where it runs
        return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=900)


def sources() -> list[Path]:
    found = [*(ROOT / "cpp/kernel_interface").rglob("*.cpp"), *(ROOT / "cpp/metal_backend").rglob("*.cpp")]
    assert found, "no sources in cpp/kernel_interface and cpp/metal_backend"
    return sorted(found)


def test_the_back_end_links_metal_for_arm64_macos(toolchain: tuple[list[str], dict[str, str]], tmp_path: Path) -> None:
    command, environment = toolchain
    library = tmp_path / "libmetalki.dylib"
    includes = [f"-I{ROOT / 'cpp/kernel_interface/include'}", f"-I{ROOT / 'cpp'}"]
    frameworks = [part for name in ("Metal", "Foundation", "QuartzCore") for part in ("-framework", name)]
    linked = run(
        [
            *command,
            *includes,
            "-shared",
            *map(str, sources()),
            "-o",
            str(library),
            "-F",
            str(STUBS / "lib" / "Frameworks"),
            "-L",
            str(STUBS / "lib"),
            *frameworks,
            "-lobjc",
            "-Wl,-undefined,dynamic_lookup",
        ],
        environment,
    )
    assert linked.returncode == 0, linked.stderr

    built = macho.read(library)
    assert (built.cpu, built.filetype) == (macho.CPU_ARM64, macho.FILETYPE_DYLIB)
    assert any(name.endswith("/Metal") for name in built.libraries), built.libraries
    # Only Apple's libraries may be left to the loader: names of ours or of metal-cpp's wrappers must be inside.
    left = sorted(
        name for name in built.undefined if name.startswith(("__ZN7metalki", "__ZNK7metalki", "__ZN3MTL", "__ZN2NS"))
    )
    assert not left, f"undefined: {left}"
    assert "_MTLCreateSystemDefaultDevice" in built.undefined
    assert any(name.startswith("__ZN7metalki") for name in built.defined), "the C++ API is not exported"


def test_a_name_that_metal_cpp_lacks_is_refused(toolchain: tuple[list[str], dict[str, str]], tmp_path: Path) -> None:
    """Guards the check itself: it compiles against Apple's headers, not against ours."""
    command, environment = toolchain
    source = tmp_path / "wrong.cpp"
    source.write_text("#include <Metal/Metal.hpp>\nvoid f(MTL::Device* device) { device->noSuchFunction(); }\n")
    refused = run([*command, "-fsyntax-only", str(source)], environment)
    assert refused.returncode != 0
    assert "no member named 'noSuchFunction'" in refused.stderr
