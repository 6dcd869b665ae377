"""Every Python block of the README and of the getting-started page runs, and prints what the page says it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["README.md", "docs/getting_started.md", "docs/order_and_limits.md", "docs/printing.md"]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\s*^```text\n(.*?)^```\n)?", re.M | re.S)


def blocks() -> list[pytest.param]:
    found = []
    for page in PAGES:
        for number, match in enumerate(BLOCK.finditer((ROOT / page).read_text(encoding="utf-8")), 1):
            found.append(pytest.param(match[1], match[2], id=f"{page}-{number}"))
    return found


@pytest.mark.parametrize(("code", "printed"), blocks())
def test_block_runs(code: str, printed: str | None, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    if printed is not None:
        assert done.stdout == printed


def test_each_page_has_a_block() -> None:
    for page in PAGES:
        assert BLOCK.search((ROOT / page).read_text(encoding="utf-8")), page


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md")))]
)
def test_links_to_files_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"
