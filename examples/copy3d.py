"""Copies 3-D arrays with 3-D and with linear indices, checks them, and compares the speed with memcpy."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import metalki as mk

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void copy_3d(device float* out, device const float* in, constant uint3& size, uint3 p [[thread_position_in_grid]]) {
    uint i = (p.z * size.y + p.y) * size.x + p.x;
    out[i] = in[i];
}
kernel void copy_linear(device float* out, device const float* in, uint i [[thread_position_in_grid]]) {
    out[i] = in[i];
}
"""


def best_seconds(function: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def copy(shape: tuple[int, int, int]) -> bool:
    z, y, x = shape
    library = mk.compile(SOURCE)
    host = np.arange(x * y * z, dtype=np.float32).reshape(shape)
    source = mk.array(host)
    moved = 2 * host.nbytes / 1e9
    plain = moved / best_seconds(host.copy)

    def run(name: str, destination: mk.Array) -> None:
        if name == "copy_3d":
            library[name](destination, source, (x, y, z), ndrange=(x, y, z))
        else:
            library[name](destination, source, ndrange=x * y * z)
        mk.synchronize()

    right = True
    for name in ("copy_3d", "copy_linear"):
        destination = mk.zeros(shape, np.float32)
        speed = moved / best_seconds(lambda n=name, d=destination: run(n, d))  # type: ignore[misc]
        same = bool(np.array_equal(destination.numpy(), host))
        right &= same
        verdict = "right" if same else "WRONG"
        print(f"copy3d: {x}x{y}x{z} {name:<11} {verdict} {speed:6.2f} GB/s (memcpy {plain:.2f} GB/s)")
    return right


def main() -> int:
    results = [copy((256, 256, 256)), copy((129, 257, 255))]
    return 0 if all(results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
