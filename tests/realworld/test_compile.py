"""The kernels of ggml, candle and MLX compile unchanged: every file parses, and kernels become pipelines.

By default a sample of each file's kernels is made into pipelines; --every-kernel makes all of ggml's and candle's, and at
least twenty of every family and element type of MLX's.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import conftest
import pytest
import sources

import metalki as mk

KERNELS_AT_LEAST = {"ggml": 600, "candle": 1700, "mlx": 16000}  # what the projects had when this test was written
SAMPLE = 4
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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "source" not in metafunc.fixturenames:
        return
    cases = []
    for project in sources.PROJECTS:
        root = conftest.root_of(metafunc.config, project)
        if root is None:
            why = (
                f"no sources of {project.name} in {conftest.folder_of(metafunc.config)}; see tests/realworld/README.md"
            )
            cases.append(pytest.param(None, marks=pytest.mark.skip(reason=why), id=project.name))
            continue
        for path in project.files(root):
            marks = []
            if sources.needs_tensor_headers(path, project, root):
                marks = [pytest.mark.skip(reason=f"{path.name} needs Metal 4's tensor headers")]
            name = path.relative_to(root / project.kernels).as_posix()
            cases.append(pytest.param((project, root, name), marks=marks, id=f"{project.name}/{name}"))
    metafunc.parametrize("source", cases)


@pytest.fixture
def library(source: tuple[sources.Project, Path, str]) -> mk.Library:
    return sources.library(*source)


_counted: dict[str, int] = defaultdict(int)


def test_file_compiles_and_pipelines_are_made(
    source: tuple[sources.Project, Path, str], library: mk.Library, request: pytest.FixtureRequest, record_property: Any
) -> None:
    project = source[0]
    names = library.function_names
    _counted[project.name] += len(names)
    every = request.config.getoption("--every-kernel", default=False)
    chosen = chosen_kernels(project, names, every)
    failures = {}
    for name in chosen:
        problem = pipeline_problem(library, name)
        if problem:
            failures[name] = problem
    record_property("kernels", len(names))
    record_property("pipelines", len(chosen))
    print(f"\n{len(names)} kernels, {len(chosen) - len(failures)} of {len(chosen)} pipelines")
    assert not failures, f"{len(failures)} of {len(chosen)} pipelines failed: {failures}"


def test_kernels_are_all_there(pytestconfig: pytest.Config) -> None:
    """Runs last in this file: template instantiations through [[host_name]] count as kernels."""
    for project in sources.PROJECTS:
        if project.name in _counted and not pytestconfig.getoption("keyword"):
            assert _counted[project.name] >= KERNELS_AT_LEAST[project.name], dict(_counted)
    if not _counted:
        pytest.skip("no file was compiled")


def chosen_kernels(project: sources.Project, names: list[str], every: bool) -> list[str]:
    """All names, some of each family, or a small sample; the same ones in every run."""
    shuffled = sorted(names)
    random.Random(0).shuffle(shuffled)
    if not every:
        return shuffled[:SAMPLE]
    if project is not sources.MLX:
        return shuffled
    kinds: dict[tuple[str, str], list[str]] = defaultdict(list)
    many = len({family(name) for name in names}) > MANY_FAMILIES  # one per operation: element-wise files are one family
    for name in shuffled:
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
