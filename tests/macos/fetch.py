#!/usr/bin/env python3
"""Fetches what a macOS build needs off a Mac: Apple's metal-cpp headers and a cross-compiler, both from PyPI packages.

Nothing of it is committed. ``python3 tests/macos/fetch.py metal-cpp FOLDER`` puts the headers into FOLDER (a Mac build
takes them with ``-DMETAL_CPP_DIR=FOLDER``); ``... ziglang FOLDER`` installs the cross-compiler there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HEADER_PREFIX = "mlx/include/metal_cpp/"


class FetchError(RuntimeError):
    """A package could not be had; the text is pip's last line."""


def default_cache() -> Path:
    """The folder outside the repository that keeps what was fetched; METALKI_CROSSCHECK_CACHE overrides it."""
    chosen = os.environ.get("METALKI_CROSSCHECK_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "metalki-crosscheck"


def _pip(*arguments: str) -> None:
    run = subprocess.run([sys.executable, "-m", "pip", *arguments], capture_output=True, text=True)
    if run.returncode != 0:
        lines = (run.stderr or run.stdout).strip().splitlines()
        raise FetchError(lines[-1] if lines else f"pip ended with {run.returncode}")


def _replace(folder: Path, new: Path) -> None:
    """Moves `new` to `folder`; a concurrent run that came first wins."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        new.rename(folder)
    except OSError:
        if not folder.is_dir() or not any(folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)
            shutil.move(str(new), str(folder))


def metal_cpp(folder: Path) -> Path:
    """Apple's metal-cpp headers in `folder` (so that <Metal/Metal.hpp> is found there); fetched once.

    The macOS wheel of mlx-metal carries them, under the Apache licence.
    """
    if (folder / "Metal" / "Metal.hpp").is_file():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        _pip("download", "-q", "--no-deps", "--only-binary=:all:", "--platform", "macosx_15_0_arm64",
             "--dest", scratch, "mlx-metal")  # fmt: skip
        wheel = next(Path(scratch).glob("mlx_metal-*.whl"))
        unpacked = Path(scratch) / "unpacked"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked, [name for name in archive.namelist() if name.startswith(HEADER_PREFIX)])
        if not (unpacked / HEADER_PREFIX / "Metal" / "Metal.hpp").is_file():
            raise FetchError(f"{wheel.name} has no {HEADER_PREFIX}Metal/Metal.hpp")
        _replace(folder, unpacked / HEADER_PREFIX)
    return folder


def ziglang(folder: Path) -> Path:
    """The cross-compiler, installed into `folder` once; run it with PYTHONPATH=folder python -m ziglang c++."""
    if (folder / "ziglang" / "__main__.py").is_file():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        _pip("install", "-q", "--no-deps", "--target", f"{scratch}/site", "ziglang>=0.13")
        _replace(folder, Path(scratch) / "site")
    return folder


def main(arguments: list[str]) -> int:
    """Command line: what to fetch and where to."""
    fetchers = {"metal-cpp": metal_cpp, "ziglang": ziglang}
    if len(arguments) != 2 or arguments[0] not in fetchers:
        print(f"usage: fetch.py {{{','.join(fetchers)}}} FOLDER", file=sys.stderr)
        return 2
    try:
        print(fetchers[arguments[0]](Path(arguments[1])))
    except FetchError as error:
        print(f"fetch.py: {arguments[0]} could not be fetched: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
