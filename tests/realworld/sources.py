"""Where the sources of ggml, candle and MLX are, and how each wants to be compiled. Nothing of them is in this repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import metalki as mk

VARIABLE = "METALKI_REALWORLD_SOURCES"
NEEDS_TENSORS = "MetalPerformancePrimitives"


def cache_folder() -> Path:
    """Where fetch() puts sources, and where tests look when no folder is named."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "metalki" / "realworld"


@dataclass(frozen=True, eq=False)
class Project:
    """One project's kernels: the files, and the options its own build passes to the compiler."""

    name: str
    marker: str  # a path that only this project has, relative to its root
    kernels: str  # folder of the .metal files, relative to the root
    include_dirs: tuple[str, ...] = ()
    macros: dict[str, str] = field(default_factory=dict)
    math_mode: str = "relaxed"

    def root(self, folder: Path) -> Path | None:
        """The project's root below `folder`; None when it is not there."""
        for hit in sorted(folder.glob(f"*/{self.marker}")) + sorted(folder.glob(f"*/*/{self.marker}")):
            return hit.parents[len(Path(self.marker).parts) - 1]
        return None

    def files(self, root: Path) -> list[Path]:
        """All .metal files but those that another one includes."""
        found = sorted((root / self.kernels).rglob("*.metal"))
        included = {
            name for path in found for name in re.findall(r'#include "([^"/]+\.metal)"', path.read_text("utf-8"))
        }
        return [path for path in found if path.name not in included]

    def options(self, root: Path) -> dict[str, Any]:
        """What mk.compile is told."""
        return {
            "include_dirs": [str(root / d) for d in self.include_dirs],
            "macros": dict(self.macros),
            "math_mode": self.math_mode,
        }


GGML = Project(
    "ggml",
    "src/ggml-metal/ggml-metal-impl.h",
    "src/ggml-metal",
    ("src", "src/ggml-metal"),
    {"GGML_METAL_HAS_BF16": "1"},
)
CANDLE = Project("candle", "candle-metal-kernels/src/metal_src/unary.metal", "candle-metal-kernels/src/metal_src")
MLX = Project("mlx", "mlx/backend/metal/kernels/unary.metal", "mlx/backend/metal/kernels", (".",), math_mode="safe")
PROJECTS = (GGML, CANDLE, MLX)


def needs_tensor_headers(path: Path, project: Project, root: Path) -> bool:
    """Whether a file includes Metal 4's tensor operations, by way of the project's own headers; they are out of scope."""
    if project is not MLX:
        return False  # ggml's are behind a macro that its options leave out
    todo, seen = [path], set()
    while todo:
        text = todo.pop().read_text(encoding="utf-8")
        if NEEDS_TENSORS in text:
            return True
        for name in re.findall(r'#include "([^"]+)"', text):
            header = root / name
            if header.is_file() and header not in seen:
                seen.add(header)
                todo.append(header)
    return False


@lru_cache(maxsize=16)
def library(project: Project, root: Path, name: str) -> mk.Library:
    """The compiled file whose path ends in `name`; compiled once in a test run."""
    for path in project.files(root):
        if path.as_posix().endswith("/" + name):
            return mk.compile(path, options=project.options(root))
    raise FileNotFoundError(f"{project.name} has no {name} in this version")


def fetch(folder: Path) -> None:
    """Downloads what PyPI's source archives hold (ggml, inside llama-cpp-python) into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--no-binary=:all:", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--dest", str(folder), "llama-cpp-python"], check=True)
    archive = max(folder.glob("llama_cpp_python-*.tar.gz"), key=lambda p: p.stat().st_mtime)
    with tarfile.open(archive) as tar:
        for member in tar:
            parts = Path(member.name).parts
            if member.isfile() and parts[1:5] == ("vendor", "llama.cpp", "ggml", "src"):
                target = folder / "ggml" / Path(*parts[4:])
                if target.suffix in (".h", ".metal") and ".." not in parts:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    source = tar.extractfile(member)
                    assert source is not None
                    target.write_bytes(source.read())


if __name__ == "__main__":
    fetch(Path(sys.argv[1]) if len(sys.argv) > 1 else cache_folder())
