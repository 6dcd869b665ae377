"""What `import metalki` loads: little beyond numpy, and everything else when it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import metalki as mk

# Each costs more than a millisecond; numpy may have loaded some of them itself.
HEAVY = ("asyncio", "dataclasses", "json", "ml_dtypes", "pathlib", "urllib.parse", "argparse", "logging", "inspect")

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


@pytest.mark.parametrize("name", [*mk.__all__, "Argument", "Profile", "profile"])
def test_every_public_name_is_there_and_listed(name: str) -> None:
    assert getattr(mk, name) is getattr(mk, name)
    assert name in dir(mk)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = mk.no_such_name  # type: ignore[attr-defined]
