"""Multiplies matrices with 16x16 tiles in threadgroup memory and checks the product against numpy."""

from __future__ import annotations

import time

import numpy as np

import metalki as mk

SOURCE = """
#include <metal_stdlib>
using namespace metal;
constant uint TILE = 16;
kernel void matmul(device float* c, device const float* a, device const float* b, constant uint& m, constant uint& n,
                   constant uint& k, uint2 p [[thread_position_in_grid]], uint2 t [[thread_position_in_threadgroup]]) {
    threadgroup float tile_a[16][16];
    threadgroup float tile_b[16][16];
    float sum = 0;
    for (uint start = 0; start < k; start += TILE) {
        tile_a[t.y][t.x] = p.y < m && start + t.x < k ? a[p.y * k + start + t.x] : 0.0f;
        tile_b[t.y][t.x] = p.x < n && start + t.y < k ? b[(start + t.y) * n + p.x] : 0.0f;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint i = 0; i < TILE; ++i)
            sum += tile_a[t.y][i] * tile_b[i][t.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    if (p.y < m && p.x < n)
        c[p.y * n + p.x] = sum;
}
"""


def main() -> int:
    m, n, k = 250, 270, 300
    rng = np.random.default_rng(2)
    a, b = rng.random((m, k), dtype=np.float32), rng.random((k, n), dtype=np.float32)
    kernel = mk.Kernel(SOURCE)
    device_a, device_b, c = mk.array(a), mk.array(b), mk.empty((m, n), np.float32)
    groups = ((n + 15) // 16, (m + 15) // 16)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        kernel(c, device_a, device_b, m, n, k, numworkgroups=groups, workgroupsize=(16, 16))
        mk.synchronize()
        seconds.append(time.perf_counter() - start)
    right = bool(np.allclose(c.numpy(), a.astype(np.float64) @ b, rtol=1e-4))
    speed = 2 * m * n * k / min(seconds) / 1e9
    print(f"matmul: {m}x{k} @ {k}x{n} {'right' if right else 'WRONG'}, {speed:.2f} GFLOP/s")
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())
