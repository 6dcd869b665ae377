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
