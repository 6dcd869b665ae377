"""Sums of everything and of rows, softmax and rms-norm by rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import metalki as mk

from . import opencl
from .row import Peer, Row, kernel, near, random


def sums() -> Iterator[Row]:
    n = 1 << 24
    host = random.random(n, dtype=np.float32)
    a, out, part = mk.array(host), mk.zeros(n // 256), np.zeros(n // 256, np.float32)
    total = float(host.sum(dtype=np.float64))
    tree = kernel("""kernel void tree(device float* c, device const float* a, uint i [[thread_position_in_grid]],
                          uint t [[thread_position_in_threadgroup]], uint g [[threadgroup_position_in_grid]]) {
        threadgroup float s[256]; s[t] = a[i]; threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint h = 128; h > 0; h /= 2) { if (t < h) s[t] += s[t + h]; threadgroup_barrier(mem_flags::mem_threadgroup); }
        if (t == 0) c[g] = s[0]; }""")
    yield Row(
        "tree reduction 16M",
        lambda: tree(out, a, ndrange=n, workgroupsize=256),
        lambda: bool(np.isclose(out.numpy().sum(dtype=np.float64), total, rtol=1e-5)),
        [Peer("numpy", host.sum, 4.0), *opencl.peer("tree", (n,), (256,), part, host, reach=0)],
    )
    groups = 64
    few = mk.zeros(groups)
    two_level = kernel("""kernel void two(device float* c, device const float* a, constant uint& n,
                          uint i [[thread_position_in_grid]], uint all [[threads_per_grid]],
                          uint l [[thread_index_in_simdgroup]], uint s [[simdgroup_index_in_threadgroup]],
                          uint g [[threadgroup_position_in_grid]]) {
        threadgroup float part[8]; float v = 0; for (uint k = i; k < n; k += all) v += a[k];
        v = simd_sum(v); if (l == 0) part[s] = v; threadgroup_barrier(mem_flags::mem_threadgroup);
        if (s == 0) { v = simd_sum(l < 8 ? part[l] : 0.0f); if (l == 0) c[g] = v; } }""")
    yield Row(
        "simd_sum reduction 16M",
        lambda: two_level(few, a, n, ndrange=256 * groups, workgroupsize=256),
        lambda: bool(np.isclose(few.numpy().sum(dtype=np.float64), total, rtol=1e-5)),
        [Peer("numpy", host.sum, 1.2)],
    )


SOFTMAX = """kernel void softmax(device T* c, device const T* a, constant uint& n, uint l [[thread_index_in_simdgroup]],
                                 uint g [[threadgroup_position_in_grid]]) {
    device const T* r = a + g * n; float m = -INFINITY, s = 0;
    for (uint k = l; k < n; k += 32) m = max(m, float(r[k]));
    m = simd_max(m);
    for (uint k = l; k < n; k += 32) s += exp(float(r[k]) - m);
    s = simd_sum(s);
    for (uint k = l; k < n; k += 32) c[g * n + k] = T(exp(float(r[k]) - m) / s); }"""

RMS_NORM = """kernel void norm(device T* c, device const T* a, constant uint& n, uint l [[thread_index_in_simdgroup]],
                               uint g [[threadgroup_position_in_grid]]) {
    device const T* r = a + g * n; float s = 0;
    for (uint k = l; k < n; k += 32) s += float(r[k]) * float(r[k]);
    float scale = rsqrt(simd_sum(s) / n + 1e-5f);
    for (uint k = l; k < n; k += 32) c[g * n + k] = T(r[k] * scale); }"""


def numpy_softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True))


def numpy_norm(x: np.ndarray) -> np.ndarray:
    scale = 1 / np.sqrt(np.square(x, dtype=np.float32).mean(1, keepdims=True) + np.float32(1e-5))
    return np.asarray(x * scale.astype(x.dtype))


def by_rows() -> Iterator[Row]:
    n = 4096
    for scalar, dtype in (("float", np.float32), ("half", np.float16)):
        host = random.random((n, n), dtype=np.float32).astype(dtype)
        a, out = mk.array(host), mk.zeros((n, n), dtype)
        for name, text, wanted in (("softmax", SOFTMAX, numpy_softmax), ("rms-norm", RMS_NORM, numpy_norm)):
            k = kernel(f"typedef {scalar} T;\n{text}")

            def right(wanted=wanted, out=out, host=host, dtype=dtype) -> bool:  # type: ignore[no-untyped-def]
                exact = wanted(host.astype(np.float64))
                return near(out.numpy().astype(np.float64), exact, 1e-4 if dtype is np.float32 else 2e-3)

            yield Row(
                f"{name} 4096x4096 {scalar}",
                lambda k=k, out=out, a=a: k(out, a, n, ndrange=n * 32, workgroupsize=32),
                right,
                [Peer("numpy", lambda wanted=wanted, host=host: wanted(host), 0.6)],
            )
