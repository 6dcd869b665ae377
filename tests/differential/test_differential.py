"""A short differential run, and that differences are seen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import expressions
import grammar
import pytest
import run
import structure
import worker
from tree import Block, Expression, Statement, minimise

COUNT = 30


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[run.Pair]:
    made = run.Pair(tmp_path)
    yield made
    made.close()


def made_case(line: str) -> run.Case:
    """A kernel with one statement of its own."""
    kernel = grammar.Kernel(0, True)
    kernel.kind = "flat"
    body = Block(
        [
            Statement(["const uint i = gid.x;"], fixed=True),
            Statement(["if (i > 5u) {", Block([Statement([line])]), "}"]),
        ]
    )
    return run.Case(0, True, kernel, body, [((64,), (256,))])


def test_executors_agree(pair: run.Pair) -> None:
    cases = [run.case(seed) for seed in range(COUNT)]
    assert pair.run(cases) == dict.fromkeys(range(COUNT), "ok")


# What went wrong once.
LINES = [
    "o[i] = mulhi(a[gid.x & 1023u], i - 2u);",  # i - 2 of the first lanes wraps: as a wider number it is large
    "o[i] = uint(ulong(i - 3u) >> 7);",
    "o[i] = a[i & 1023u] / ((i - 5u) / 3u + 1u);",
    "o[i] = uint(long(int(i * 0x1000001u)) >> 9);",
    "o[i] = uint(((ulong(i) * 12ul - 36ul) & 0xfffffffful) >> 5);",
    "o[i] = a[i] ^ uint((ulong(i * 12u - 36u) * 3ul) >> 20);",
    "o[i] = uint(uchar(gid.x * 200u)) * 3u + uint(ushort(gid.y * 40000u));",
    "o[i] = nested(a, i, 7u); o[i] ^= nested(a, i + 3u, i);",
    "if (gid.x > 0u) o[i] = a[gid.x - 1u] + uint(as[i - 1u]);",
]


# Of SIMD-groups.
SIMD_LINES = [
    "o[i] = 3u; if (i % 5u == 0u) o[i] = bits(quad_prefix_exclusive_sum(af[i]));",  # of no thread: zero, not its negative
    "o[i] = bits(simd_prefix_inclusive_sum(af[i] / 3.0f)) ^ bits(simd_prefix_exclusive_sum(ah[i] / 3.0h));",
    "o[i] = bits(simd_sum(af[i] / 3.0f)); if (a[i] & 1u) o[i] = bits(quad_sum(af[i] / 3.0f)) ^ bits(simd_product(af[i]));",
    "int x = int(gid.x) - 40; if ((14 & x) == x) o[i] = (uint(ulong(simd_active_threads_mask())) + 1u) * 992u + uint(x);",
]


@pytest.mark.parametrize("line", SIMD_LINES)
def test_simd_lines_that_went_wrong(pair: run.Pair, line: str) -> None:
    kernel = grammar.Kernel(0, True)
    kernel.kind = "simd"
    body = Block([Statement(["const uint i = (gid.x + gsz.x * gid.y) & 1023u;" + line])])
    launches = [((64,), (256,)), ((37,), (100,)), ((5, 7), (10, 7))]
    assert pair.run([run.Case(0, True, kernel, body, launches)])[0] == "ok"


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("kind", ["flat", "simd"])
def test_lines_that_went_wrong(pair: run.Pair, line: str, kind: str) -> None:
    place = "const uint i = gid.x + gsz.x * gid.y;"
    more = "" if kind == "flat" else " o[i] += lane;"
    kernel = grammar.Kernel(0, True)
    kernel.kind = kind
    launches = [((64,), (256,)), ((64,), (100,)), ((2, 32), (4, 64)), ((5, 7), (10, 7)), ((32, 4), (64, 8))]
    body = Block([Statement([place + line + more])])
    assert pair.run([run.Case(0, True, kernel, body, launches)])[0] == "ok"


# Threads leave two loops at once, in different rounds of the outer one, and bring values along.
LEAVING = """const uint i = gid.x + gsz.x * gid.y, own = i * 8u; uint sum = 1u; uint k2 = 0;
while (k2 < 2u) {
    ++k2;
    if ((cr.a & 7u) == 5u) continue;
    if (gid.y == 0u) sum += a[sum & 1023u];
    const uint n5 = (((5u + gsz.x) >> 1 | (tid.x * k2)) & 3u) + 1u;
    for (uint k4 = 0; k4 < n5; ++k4) {
        if (as[(lid + 2u) & 1023u] > 0) { o[own + 6u] = 5u; return; }
        if (((cr.a + (n ^ k4)) & 7u) == 5u) break;
        if (i >= 3u) sum += a[i];
    }
}
o[own + 7u] = sum;"""


def test_threads_that_leave_two_loops(pair: run.Pair) -> None:
    kernel = grammar.Kernel(0, True)
    kernel.kind = "simd"
    one = run.Case(0, True, kernel, Block([Statement([LEAVING])]), [((64, 2), (64, 6))])
    assert pair.run([one])[0] == "ok"


def test_same_seed_same_kernel() -> None:
    def text(seed: int) -> str:
        one = run.case(seed)
        return grammar.kernel_text(one.kernel, one.body, one.name)

    assert [text(n) for n in range(20)] == [text(n) for n in range(20)]


def test_a_difference_is_seen(pair: run.Pair) -> None:
    # A race: thread by thread everybody sees the number that the thread before has left.
    racy = made_case("o[i] = o[i - 1u] + 1u;")
    assert pair.run([racy])[0].startswith("differs")


@pytest.mark.parametrize("end", ["died", "hung"])
def test_an_end_is_seen(pair: run.Pair, end: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text({"died": "import os; input(); os.abort()", "hung": "import time; time.sleep(60)"}[end])
    monkeypatch.setattr(run, "WORKER", script)
    good = made_case("o[i] = 1u;")
    assert end in pair.run([good], 2.0)[0]


def test_one_that_does_not_compile_is_alone(pair: run.Pair) -> None:
    bad, good = made_case("o[i] = nothing;"), run.case(3)
    verdicts = pair.run([bad, good])
    assert "nothing" in verdicts[0]
    assert verdicts[3] == "ok"


def test_kernels_are_made_smaller() -> None:
    def number(n: int) -> Expression:
        return Expression("uint", ["(", Expression("uint", [f"uint({n})"]), " + ", Expression("uint", ["i"]), ")"])

    block = Block([Statement(["x = ", number(n), ";"]) for n in range(20)])
    block.statements.append(Statement(["if (", number(3), ") {", Block([Statement(["wrong(", number(4), ");"])]), "}"]))
    small = minimise(block, lambda candidate: "wrong" in candidate.text(""))
    assert small.text("") == "wrong(uint(1));\n"


def test_kernels_have_what_they_are_for() -> None:
    text = "".join(grammar.kernel_text(*grammar.kernel_tree(seed, True), f"k{seed}") for seed in range(300))
    words = (
        "switch",
        "while",
        "do {",
        "break;",
        "continue;",
        "return;",
        "simd_",
        "quad_",
        "threadgroup_barrier",
        "atomic_",
    )
    for word in (*words, "half4", "ulong", "extra["):
        assert word in text, word


def test_inputs_have_the_size_that_kernels_count_on() -> None:
    sizes = [array.size for array in worker.inputs()]
    assert sizes == [expressions.SIZE] * 6 + [4 * expressions.SIZE, 64]


@pytest.mark.parametrize("executor", run.EXECUTORS)
def test_lanes_follow_the_structure_of_the_source(executor: str) -> None:
    script = Path(__file__).parent / "structure.py"
    environment = {**os.environ, "METALKI_EXECUTOR": executor, "METALKI_DEVICE": "cpu"}
    done = subprocess.run(
        [sys.executable, str(script), "--count", "75"], env=environment, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_answer_of_its_own_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    text, answer = structure.kernel(0)
    monkeypatch.setattr(structure, "kernel", lambda seed: (text, answer + 1))
    assert structure.differences(range(1)) == [0]
