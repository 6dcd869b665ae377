"""Which threads of a SIMD-group take part in its functions where they have gone different ways: docs/vectors.md has the rule.

Each kernel has its answer from a model in numpy, and both executors give it.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

Words = np.ndarray
KEYS = np.array([(7 * i * i + 3 * i + i // 5) % 5 for i in range(32)], np.uint32)
LANES = np.arange(32, dtype=np.uint32)


def sums_by(key: Words) -> Words:
    """Sum of the lanes' numbers over the lanes with the same key."""
    return np.array([LANES[key == k].sum() for k in key], np.uint32)


def counts_by(key: Words) -> Words:
    """How many lanes have the same key."""
    return np.array([(key == k).sum() for k in key], np.uint32)


BY_KEY = sums_by(KEYS)
WATERFALL = "{ uint first = simd_broadcast_first(key); if (first == key) "
# Name: body, and what lane i leaves in r. `key` differs by lane: 0 to 4.
KERNELS: dict[str, tuple[str, Words]] = {
    "break": (f"while (true) {WATERFALL} {{ r = simd_sum(lane); break; }} }}", BY_KEY),
    "break out of for": (f"for (uint k = 0; k < 40u; ++k) {WATERFALL} {{ r = simd_sum(lane); break; }} }}", BY_KEY),
    "break out of for(;;)": (f"for (;;) {WATERFALL} {{ r = simd_sum(lane); break; }} }}", BY_KEY),
    "break out of do": (f"do {WATERFALL} {{ r = simd_sum(lane); break; }} }} while (true);", BY_KEY),
    "nobody, as folding shows": (
        "if (fmax(fabs(bfloat(-3)), fabs(bfloat(-2.75))) != bfloat(2)) { o[lane] = 31; return; }"
        " r = simd_shuffle_up(key, ushort(1));",
        np.full(KEYS.shape, 31, np.uint32),
    ),
    "return": (f"while (true) {WATERFALL} {{ o[lane] = simd_sum(lane); return; }} }}", BY_KEY),
    "return from a function": ("r = by_key(key, lane);", BY_KEY),
    "return from a function in a loop": (
        "for (uint k = 0; k < 3u; ++k) r += by_key(key, lane + k);",
        3 * BY_KEY + 3 * counts_by(KEYS),
    ),
    "variables of its own": (
        f"while (true) {WATERFALL} {{ uint own[3] = {{lane, key, n}}; r = simd_sum(own[n - 5u]); own[1] = r; break; }} }}",
        BY_KEY,
    ),
    "variables of the body": (
        "while (true) { uint own[3] = {lane, key, n}; uint first = simd_broadcast_first(own[1]);"
        " if (first == key) { r = simd_sum(own[n - 5u]); break; } own[0] = 3u; }",
        BY_KEY,
    ),
    "a flag": (
        "bool done = false; while (!done) { uint first = simd_broadcast_first(key);"
        " if (first == key) { r = simd_sum(lane); done = true; } }",
        BY_KEY,
    ),
    "a flag and a break": (
        "while (true) { bool done = false; uint first = simd_broadcast_first(key);"
        " if (first == key) { r = simd_sum(lane); done = true; } if (done) break; }",
        BY_KEY,
    ),
    "continue": (
        "while (true) { if (simd_broadcast_first(key) != key) continue; r = simd_sum(lane); break; }",
        BY_KEY,
    ),
    "a loop that ends in a break": (
        "for (uint k = 0;; ++k) { if (k != key) continue; for (uint j = 0; j < 2u; ++j) r += simd_sum(lane); break; }",
        2 * BY_KEY,
    ),
    "a switch in a loop": (
        "for (uint k = 0; k < 5u; ++k) { bool out = false; switch (key + 5u - k) { case 5u: r = simd_sum(lane); out = true;"
        " break; default: r = 77u; } if (out) break; }",
        BY_KEY,
    ),
    "two loops at once": (
        "for (uint k = 0; k < 5u; ++k) { bool out = false; for (uint j = 0; j < 2u; ++j) { if (k * 2u + j == key * 2u + 1u) {"
        " r = simd_sum(lane); out = true; break; } } if (out) break; }",
        BY_KEY,
    ),
    "return out of two loops": (
        "for (uint k = 0; k < 5u; ++k) for (uint j = 0; j < 2u; ++j) if (k * 2u + j == key * 2u + 1u) {"
        " o[lane] = simd_sum(lane); return; }",
        BY_KEY,
    ),
    "behind the loop": (
        "for (uint k = 0; k < 9u; ++k) if (k == key) break; r = simd_sum(lane);",
        np.full(32, LANES.sum()),
    ),
    "behind the loop, by a condition": (
        "uint k = 0; while (k != key) ++k; r = simd_sum(lane);",
        np.full(32, LANES.sum()),
    ),
    "in each round those that are left": (
        "for (uint k = 0; k <= key; ++k) r += simd_sum(1u);",
        np.array([sum((k <= KEYS).sum() for k in range(q + 1)) for q in KEYS]),
    ),
    "continue waits for the others": (
        "for (uint k = 0; k < 3u; ++k) { if ((key + k) % 2u == 0u) continue; r += simd_sum(1u); } r += 100u * simd_sum(1u);",
        np.array([sum(((KEYS + k) % 2 == 1).sum() for k in range(3) if (q + k) % 2 == 1) + 3200 for q in KEYS]),
    ),
    "both ways alike": (
        "if (key < 2u) { r = simd_sum(lane); } else { r = simd_sum(lane); }",
        sums_by((KEYS < 2).astype(np.uint32)),
    ),
    "both ways end alike": (
        "if (key < 2u) { r = 1u; r += simd_sum(lane); } else { r = 2u; r += simd_sum(lane); }",
        sums_by((KEYS < 2).astype(np.uint32)) + np.where(KEYS < 2, 1, 2),
    ),
    "both ways begin alike": (
        "if (key < 2u) { r = simd_sum(lane); r += 1u; } else { r = simd_sum(lane); r += 2u; }",
        sums_by((KEYS < 2).astype(np.uint32)) + np.where(KEYS < 2, 1, 2),
    ),
    "a choice": (
        "r = key < 2u ? simd_sum(lane) : simd_sum(1u);",
        np.where(KEYS < 2, BY_KEY * 0 + LANES[KEYS < 2].sum(), (KEYS >= 2).sum()),
    ),
    "or": (
        "if (key < 2u || simd_sum(1u) > 40u) r = simd_sum(1u); else r = simd_sum(2u);",
        np.where(KEYS < 2, (KEYS < 2).sum(), 2 * (KEYS >= 2).sum()),
    ),
    "the second operand of or": (
        "bool b = key < 2u || (r = simd_sum(1u), key == 3u); r = r * 100u + (b ? simd_sum(1u) : 0u);",
        np.where(KEYS < 2, 0, 100 * (KEYS >= 2).sum())
        + np.where((KEYS < 2) | (KEYS == 3), ((KEYS < 2) | (KEYS == 3)).sum(), 0),
    ),
    "a switch that falls through": (
        "switch (key) { case 0: r = simd_sum(1u); case 1: r += 100u * simd_sum(1u); break; default: r = simd_sum(1u); }",
        np.where(
            KEYS == 0,
            (KEYS == 0).sum() + 100 * (KEYS < 2).sum(),
            np.where(KEYS == 1, 100 * (KEYS < 2).sum(), (KEYS > 1).sum()),
        ),
    ),
    "one condition twice": (
        "if (key < 2u) r = simd_sum(1u); r += 100u * simd_sum(1u); if (key < 2u) r += 10000u * simd_sum(1u);",
        np.where(KEYS < 2, (KEYS < 2).sum() * 10001, 0) + 3200,
    ),
    "early return": ("if (key < 2u) return; r = simd_sum(1u);", np.where(KEYS < 2, 0, (KEYS >= 2).sum())),
    "a ballot": (
        "if (key == 3u) r = uint(ulong(simd_active_threads_mask()));",
        np.where(KEYS == 3, sum(1 << i for i in range(32) if KEYS[i] == 3), 0),
    ),
    "a loop in a branch that leaves": (
        "for (uint k = 0;; ++k) { if (k == key) { uint t = 0; while (t < 3u) { t += 1u; r += simd_sum(lane); } break; } }",
        3 * BY_KEY,
    ),
}
SOURCE = """#include <metal_stdlib>
using namespace metal;
inline uint by_key(uint key, uint number) {
    while (true) {
        uint first = simd_broadcast_first(key);
        if (first == key)
            return simd_sum(number);
    }
}
"""
PARAMETERS = """device uint* o [[buffer(0)]], device const uint* keys [[buffer(1)]], constant uint& n [[buffer(2)]],
    uint lane [[thread_index_in_simdgroup]]"""
RUN = """
import sys, numpy as np, metalki as mk
library, keys = mk.compile(sys.argv[1]), mk.array(np.load(sys.argv[2]))
results = []
for number in range(int(sys.argv[4])):
    out = mk.zeros(32, np.uint32)
    library.kernel(f"k{number}")(out, keys, 5, ndrange=(32,), workgroupsize=(32,))
    results.append(out.numpy())
np.save(sys.argv[3], np.array(results))
"""


def source() -> str:
    """All kernels."""
    text = SOURCE
    for number, (body, _) in enumerate(KERNELS.values()):
        text += f"kernel void k{number}({PARAMETERS}) {{ uint r = 0; const uint key = keys[lane];\n{body}\no[lane] = r; }}\n"
    return text


@pytest.fixture(scope="module", params=["scalar", "vector"])
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Words:
    folder = tmp_path_factory.mktemp("convergence")
    np.save(folder / "keys.npy", KEYS)
    arguments = [source(), str(folder / "keys.npy"), str(folder / "results.npy"), str(len(KERNELS))]
    environment = {
        **os.environ,
        "METALKI_EXECUTOR": request.param,
        "METALKI_DEVICE": "cpu",
        "METALKI_DEBUG_VECTORS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments], env=environment, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "metalki vectors:" not in done.stderr, done.stderr  # none runs thread by thread
    return np.load(folder / "results.npy")


@pytest.mark.parametrize("name", KERNELS)
def test_who_takes_part(results: Words, name: str) -> None:
    number = list(KERNELS).index(name)
    np.testing.assert_array_equal(results[number], KERNELS[name][1])
