"""Softmax over the rows of a matrix with SIMD-group reductions, checked against numpy."""

from __future__ import annotations

import numpy as np

import metalki as mk

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void softmax(device float* out, device const float* in, constant uint& columns,
                    uint row [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                    uint lanes [[threads_per_simdgroup]]) {
    device const float* x = in + row * columns;
    float largest = -INFINITY;
    for (uint i = lane; i < columns; i += lanes)
        largest = max(largest, x[i]);
    largest = simd_max(largest);
    float total = 0;
    for (uint i = lane; i < columns; i += lanes)
        total += exp(x[i] - largest);
    total = simd_sum(total);
    for (uint i = lane; i < columns; i += lanes)
        out[row * columns + i] = exp(x[i] - largest) / total;
}
"""


def main() -> int:
    rows, columns = 512, 1000
    scores = np.random.default_rng(3).normal(0, 5, (rows, columns)).astype(np.float32)
    scores[:, -7:] = -np.inf  # a masked tail, as attention has it
    out = mk.empty(scores.shape, np.float32)
    kernel = mk.Kernel(SOURCE)
    kernel(out, mk.array(scores), columns, numworkgroups=rows, workgroupsize=kernel.thread_execution_width)
    exact = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    error = float(np.abs(out.numpy() - exact).max())
    right = error < 1e-6
    print(f"softmax: {rows} rows of {columns} {'right' if right else 'WRONG'}, largest error {error:.1e}")
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())
