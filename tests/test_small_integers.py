"""Every value of the small integer types as a float, from memory, by itself and in vectors."""

from __future__ import annotations

import numpy as np
import pytest

import metalki as mk

KINDS = {"uchar": np.uint8, "char": np.int8, "ushort": np.uint16, "short": np.int16}
VALUES = {kind: np.arange(np.iinfo(of).min, np.iinfo(of).max + 1).astype(of) for kind, of in KINDS.items()}


@pytest.mark.parametrize("width", ["", "2", "3", "4"])
@pytest.mark.parametrize("kind", KINDS)
def test_all_values(kind: str, width: str) -> None:
    lanes = int(width or 1)
    given = VALUES[kind]
    memory = np.zeros((len(given), {3: 4}.get(lanes, lanes)), KINDS[kind])
    for lane in range(lanes):
        memory[:, lane] = np.roll(given, lane)
    out = mk.zeros((len(given), memory.shape[1]), np.float32)
    kernel = mk.Kernel(
        f"kernel void k(device float{width}* o, device const {kind}{width}* a, uint i [[thread_position_in_grid]])"
        f" {{ o[i] = float{width}(a[i]) * 0.5f; }}"
    )
    kernel(out, mk.array(memory), ndrange=len(given))
    np.testing.assert_array_equal(out.numpy()[:, :lanes], memory[:, :lanes].astype(np.float32) * np.float32(0.5))


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_neighbours(kind: str) -> None:
    """Eight neighbours a thread, of which bits are chosen: what quantised weights do."""
    given = np.resize(VALUES[kind], (1024, 8))
    out = mk.zeros(1024, np.float32)
    kernel = mk.Kernel(
        f"kernel void k(device float* o, device const {kind}* a, constant uint& rounds,"
        " uint i [[thread_position_in_grid]]) {"
        f" float s = 0; for (uint r = 0; r < rounds; ++r) {{ device const {kind}* p = a + 8 * i;"
        " for (int j = 0; j < 8; ++j) s += (p[j] & 0x0F) + 2.0f * (p[j] & 0x70) + 4.0f * float((p[j] >> 4) & 3); }"
        " o[i] = s; }"
    )
    kernel(out, mk.array(given.reshape(-1)), np.uint32(3), ndrange=1024)
    wide = given.astype(np.int64)
    expected = 3 * ((wide & 15) + 2 * (wide & 0x70) + 4 * ((wide >> 4) & 3)).sum(axis=1)
    np.testing.assert_array_equal(out.numpy(), expected.astype(np.float32))


@pytest.mark.parametrize("math_mode", ["safe", "relaxed"])
@pytest.mark.parametrize("moved", [False, True])
def test_products_with_parts_of_words(math_mode: str, moved: bool) -> None:
    """Four bits at a time of 16 bits, in sums of products whose every step is exact, whatever the order."""
    given = np.resize(VALUES["ushort"], (1 << 13, 8))
    factors = np.arange(1, 33, dtype=np.float32).reshape(4, 8) / 4
    parts = [f"q[j] >> {4 * k} & 15" if moved else f"q[j] & {15 << 4 * k}" for k in range(4)]
    sums = "".join(f" s[{k}] += y[{8 * k} + j] * ({part});" for k, part in enumerate(parts))
    units = [1.0 if moved else 16.0**-k for k in range(4)]
    kernel = mk.Kernel(
        "kernel void k(device float* o, device const ushort* a, device const float* y, uint i [[thread_position_in_grid]])"
        f" {{ device const ushort* q = a + 8 * i; float s[4] = {{0, 0, 0, 0}}; for (int j = 0; j < 8; ++j) {{{sums} }}"
        f" o[i] = s[0] + {0.25 * units[1]!r}f * s[1] - s[2] * {2 * units[2]!r}f + s[3] * {units[3]!r}f * (q[0] & 63); }}",
        options={"math_mode": math_mode},
    )
    out = mk.zeros(len(given), np.float32)
    kernel(out, mk.array(given.reshape(-1)), mk.array(factors.reshape(-1)), ndrange=len(given))
    wide = given.astype(np.int64)
    digits = [(wide >> 4 * k & 15) @ factors[k].astype(np.float64) for k in range(4)]
    expected = digits[0] + 0.25 * digits[1] - 2 * digits[2] + digits[3] * (wide[:, 0] & 63)
    np.testing.assert_array_equal(out.numpy(), expected.astype(np.float32))
