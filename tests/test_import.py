"""What `import metalki` loads: little beyond numpy, and everything else when it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import metalki as mk

# Most of these cost more than a millisecond each; numpy may have loaded some of them itself.
SELDOM = ("kernel_interface", "algorithms", "_arguments", "_messages", "_profile", "_reflection", "_tasks", "_texture")
HEAVY = (
    *(f"metalki.{name}" for name in SELDOM),
    "asyncio",
    "dataclasses",
    "json",
    "ml_dtypes",
    "pathlib",
    "urllib.parse",
    "argparse",
    "logging",
    "inspect",
)

LOADED = f"""
import sys
import numpy
before = set(sys.modules)
import metalki
print(*[name for name in {HEAVY} if name in sys.modules and name not in before])
"""


def test_the_import_loads_no_heavy_module() -> None:
    shown = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True).stdout
    assert shown.split() == []


def test_a_first_result_loads_no_heavy_module() -> None:
    first = (
        "a = metalki.zeros(4); metalki.Kernel('kernel void k(device float* a) { a[0] = 1; }')(a, ndrange=1); a.numpy()"
    )
    source = LOADED.replace("import metalki\n", f"import metalki\n{first}\n")
    shown = subprocess.run([sys.executable, "-c", source], check=True, capture_output=True, text=True).stdout
    assert shown.split() == []


def test_kernel_interface_is_an_attribute_of_the_package() -> None:
    source = "import metalki as mk; print(mk.kernel_interface.MetalBackend is mk.MetalBackend, mk.MetalBackend())"
    shown = subprocess.run([sys.executable, "-c", source], check=True, capture_output=True, text=True).stdout
    assert shown.startswith("True")


@pytest.mark.parametrize("name", [*mk.__all__, "Argument", "Profile", "profile"])
def test_every_public_name_is_there_and_listed(name: str) -> None:
    assert getattr(mk, name) is getattr(mk, name)
    assert name in dir(mk)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = mk.no_such_name  # type: ignore[attr-defined]
