"""Real sources for the tests of this folder: --sources FOLDER or METALKI_REALWORLD_SOURCES; skipped visibly without them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import sources


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sources", default=None, help="folder that holds checkouts of ggml, candle and mlx")
    parser.addoption("--every-kernel", action="store_true", help="make pipelines of all kernels, not of a sample")


def folder_of(config: pytest.Config) -> Path:
    """The folder with the checkouts."""
    named = config.getoption("--sources", default=None) or os.environ.get(sources.VARIABLE)
    return Path(named) if named else sources.cache_folder()


def root_of(config: pytest.Config, project: sources.Project) -> Path | None:
    """A project's root, None when it is not there."""
    return project.root(folder_of(config))


def _required(config: pytest.Config, project: sources.Project) -> Path:
    root = root_of(config, project)
    if root is None:
        pytest.skip(f"no sources of {project.name} in {folder_of(config)}; see tests/realworld/README.md")
    return root


@pytest.fixture(scope="session")
def ggml_root(request: pytest.FixtureRequest) -> Path:
    return _required(request.config, sources.GGML)


@pytest.fixture(scope="session")
def candle_root(request: pytest.FixtureRequest) -> Path:
    return _required(request.config, sources.CANDLE)


@pytest.fixture(scope="session")
def mlx_root(request: pytest.FixtureRequest) -> Path:
    return _required(request.config, sources.MLX)
