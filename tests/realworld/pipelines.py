"""Which kernels of a project become pipelines, and how one is made: shared by the tests and by make_pipelines.py."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from typing import Any

import sources

import metalki as mk

PER_FAMILY = 20
MANY_FAMILIES = 100
TYPES = (
    "bfloat16",
    "float16",
    "float32",
    "complex64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "bool_",
)


def sample(names: list[str], count: int) -> list[str]:
    """Some of the names; the same ones in every run."""
    shuffled = sorted(names)
    random.Random(0).shuffle(shuffled)
    return shuffled[:count]


def chosen_kernels(project: sources.Project, names: list[str]) -> list[str]:
    """All names of ggml and candle; of MLX some of each family and element type."""
    if project is not sources.MLX:
        return names
    kinds: dict[tuple[str, str], list[str]] = defaultdict(list)
    many = len({family(name) for name in names}) > MANY_FAMILIES  # one per operation: element-wise files are one family
    for name in sample(names, len(names)):
        kind = kinds["" if many else family(name)[0], family(name)[1]]
        if len(kind) < PER_FAMILY:
            kind.append(name)
    return [name for kind in kinds.values() for name in kind]


def family(name: str) -> tuple[str, str]:
    """A kernel's family and element type, read off its name."""
    types = [t for t in TYPES if t in name]
    words = [word for word in re.split(r"_+|\d+", name) if word and word not in "".join(TYPES)]
    return "_".join(words[:2]), types[0] if types else ""


def pipeline_problem(library: mk.Library, name: str) -> str | None:
    """Makes a kernel; when it asks for function constants, gives them values, round by round, as an application would."""
    constants: dict[int | str, Any] = {}
    for _ in range(9):
        try:
            library.kernel(name, function_constants=constants or None)
            return None
        except mk.MetalkiError as error:
            missing = missing_constants(str(error), constants)
            if not missing:
                return None if too_large(str(error)) else str(error)[:500]
            constants.update(missing)
    return "asks for ever more function constants"


def too_large(message: str) -> bool:
    """Whether a kernel asks for more threadgroup memory than 32 KiB, which a GPU refuses as well (one of MLX's does)."""
    return "bytes of threadgroup memory; the limit is 32768" in message


def missing_constants(message: str, given: dict[int | str, Any]) -> dict[int | str, Any]:
    """The constants a message names as unset, each with the value 1, which is allowed for every type."""
    _, asked, wanted = message.partition("function constant ")
    names = re.findall(r"'([^']+)'", wanted.splitlines()[0]) if asked and wanted else []
    return {name: 1 for name in names if name not in given}
