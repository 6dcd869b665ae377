"""The kernels of ggml, candle and MLX compile unchanged: every file parses, and kernels become pipelines.

By default a sample of each file's kernels is made into pipelines; --every-kernel makes all of ggml's and candle's, and at
least twenty of every family and element type of MLX's.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import conftest
import pipelines
import pytest
import sources

import metalki as mk

KERNELS_AT_LEAST = {"ggml": 600, "candle": 1700, "mlx": 16000}  # what the projects had when this test was written
SAMPLE = 4


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
    chosen = pipelines.chosen_kernels(project, names) if every else pipelines.sample(names, SAMPLE)
    failures = {}
    for name in chosen:
        problem = pipelines.pipeline_problem(library, name)
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
