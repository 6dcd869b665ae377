"""Leaves out, where the default device is a GPU, tests that end a kernel by a fault or by force.

A GPU cannot stop a kernel, and a fault ends the device for the whole process. tests/test_cuda.py has their like in processes of
their own."""

from __future__ import annotations

import os

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not os.environ.get("METALKI_DEVICE", "").startswith("cuda"):
        return
    left_out = pytest.mark.skip(reason="a GPU cannot stop a kernel, and a fault ends the device for the process")
    for item in items:
        if item.get_closest_marker("stops_kernels"):
            item.add_marker(left_out)
