"""Every conformance case, against the committed list of those known to fail."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import adapter  # noqa: E402
import check  # noqa: E402

import metalki as mk  # noqa: E402

KNOWN = {
    line.split()[0]
    for line in (HERE / "known_failures.txt").read_text(encoding="utf-8").splitlines()
    if line.strip() and not line.startswith("#")
}
# Cases that expect a refusal of more than 32 KiB of threadgroup memory.
OF_32_KIB = {"bad.launch.dynamic_threadgroup_memory_over_32k", "bad.compile.too_much_static_threadgroup_memory"}
CASES = {case["id"]: case for category in check.load([str(HERE / "data")]).values() for case in category["cases"]}


def test_known_failures_are_cases() -> None:
    assert set(CASES) >= KNOWN


@pytest.mark.parametrize("case_id", CASES)
def test_case(case_id: str) -> None:
    case: dict[str, Any] = CASES[case_id]
    if case_id in OF_32_KIB and mk.device().threadgroup_memory_length > 32768:
        pytest.skip("the device has more threadgroup memory than the case takes to be too much")
    status, why = check.run_case(adapter.MetalkiAdapter(), case)
    if status == "skipped":
        pytest.skip(why)
    if case_id in KNOWN:
        assert status != "passed", f"{case_id} passes now: take it out of known_failures.txt"
        pytest.xfail(why)
    assert status == "passed", why
