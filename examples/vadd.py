"""Adds two vectors through the KernelInterface and checks the sum."""

from __future__ import annotations

import numpy as np

import metalki as mk
from metalki import kernel_interface as KI

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void vadd(device float* c, device const float* a, device const float* b, uint i [[thread_position_in_grid]]) {
    c[i] = a[i] + b[i];
}
"""


def main() -> int:
    backend = mk.MetalBackend()
    n = 1_000_003
    rng = np.random.default_rng(1)
    host_a, host_b = rng.random(n, dtype=np.float32), rng.random(n, dtype=np.float32)
    host_c = np.empty_like(host_a)
    a, b, c = (KI.allocate(backend, np.float32, n) for _ in range(3))
    KI.copyto(backend, a, host_a)
    KI.copyto(backend, b, host_b)
    KI.launch(backend, SOURCE, (c, a, b), ndrange=n)
    KI.copyto(backend, host_c, c)
    KI.synchronize(backend)
    right = bool(np.array_equal(host_c, host_a + host_b))
    print(f"vadd: {n} elements {'right' if right else 'WRONG'} on {mk.device().name}")
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())
