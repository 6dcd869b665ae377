"""ISPC as a peer: kernels.ispc for the widths it offers. Absent where neither $ISPC nor `ispc` is a command."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np

from .row import Peer, in_parts

SOURCE = Path(__file__).with_name("kernels.ispc")
WIDTHS = {"avx512skx": ("x16", "x32"), "avx2": ("i32x8", "i32x16")}


@lru_cache(maxsize=1)
def libraries() -> dict[str, ctypes.CDLL]:
    """One shared library for each width; empty without ISPC."""
    command = os.environ.get("ISPC") or shutil.which("ispc")
    if not command:
        return {}
    isa = "avx512skx" if " avx512dq" in Path("/proc/cpuinfo").read_text() else "avx2"
    found = {}
    folder = Path(tempfile.mkdtemp(prefix="metalki-ispc-"))
    for width in WIDTHS[isa]:
        code, library = folder / f"{width}.o", folder / f"{width}.so"
        target = f"--target={isa}-{width}"
        subprocess.run([command, "-O3", "--pic", target, str(SOURCE), "-o", str(code)], check=True)
        subprocess.run(["cc", "-shared", str(code), "-o", str(library)], check=True)
        found[width] = ctypes.CDLL(str(library))
    shutil.rmtree(folder)
    return found


def peers(name: str, rows: int, *arguments: np.ndarray | int, reach: float) -> list[Peer]:
    """That function over `rows` rows at each width."""
    values = [ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else ctypes.c_int(a) for a in arguments]
    out = []
    for width, library in libraries().items():
        function = getattr(library, name)
        function.restype = None

        def part(begin: int, end: int, function: ctypes._NamedFuncPointer = function) -> None:
            function(*values, ctypes.c_int(begin), ctypes.c_int(end))

        out.append(Peer(f"ISPC {width}", in_parts(part, rows), reach))
    return out
