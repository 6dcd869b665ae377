"""Matrix products: naive, in threadgroup tiles, on simdgroup matrices; and matrix times vector."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import metalki as mk

from . import ispc, opencl
from .row import Peer, Row, kernel, near, random


def products() -> Iterator[Row]:
    n = 512
    x, y = random.random((n, n), dtype=np.float32), random.random((n, n), dtype=np.float32)
    a, b, c, target = mk.array(x), mk.array(y), mk.zeros((n, n)), np.zeros((n, n), np.float32)
    naive = kernel("""kernel void naive(device float* c, device const float* a, device const float* b, constant uint& n,
                                        uint2 p [[thread_position_in_grid]]) {
        float s = 0; for (uint k = 0; k < n; k++) s += a[p.y * n + k] * b[k * n + p.x]; c[p.y * n + p.x] = s; }""")
    tiled = kernel("""kernel void tiled(device float* c, device const float* a, device const float* b, constant uint& n,
                          uint2 p [[thread_position_in_grid]], uint2 l [[thread_position_in_threadgroup]]) {
        threadgroup float ta[16][16], tb[16][16]; float s = 0;
        for (uint t = 0; t < n; t += 16) {
            ta[l.y][l.x] = a[p.y * n + t + l.x]; tb[l.y][l.x] = b[(t + l.y) * n + p.x];
            threadgroup_barrier(mem_flags::mem_threadgroup);
            for (uint k = 0; k < 16; k++) s += ta[l.y][k] * tb[k][l.x];
            threadgroup_barrier(mem_flags::mem_threadgroup); }
        c[p.y * n + p.x] = s; }""")

    def right() -> bool:
        return near(c.numpy(), x @ y)

    blas = Peer("BLAS", lambda: np.matmul(x, y, out=target))
    yield Row(
        "SGEMM 512 naive",
        lambda: naive(c, a, b, n, ndrange=(n, n)),
        right,
        [blas, *opencl.peer("naive", (n, n), (16, 16), target, x, y, n, reach=0.2)],
    )
    yield Row(
        "SGEMM 512 tiled",
        lambda: tiled(c, a, b, n, ndrange=(n, n), workgroupsize=(16, 16)),
        right,
        [
            blas,
            *ispc.peers("tiled", n, target, x, y, n, reach=1.3),
            *opencl.peer("tiled", (n, n), (16, 16), target, x, y, n, reach=0.04),
        ],
    )


def matrices() -> Iterator[Row]:
    n = 1024
    x, y = random.random((n, n), dtype=np.float32), random.random((n, n), dtype=np.float32)
    a, b, c, target = mk.array(x), mk.array(y), mk.zeros((n, n)), np.zeros((n, n), np.float32)
    blocked = kernel("""kernel void blocked(device float* c, device const float* a, device const float* b, constant uint& n,
                          uint2 g [[threadgroup_position_in_grid]], uint s [[simdgroup_index_in_threadgroup]]) {
        uint r0 = g.y * 64 + (s / 2) * 32, c0 = g.x * 64 + (s % 2) * 32;
        simdgroup_float8x8 acc[4][4];
        for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) acc[i][j] = simdgroup_float8x8(0);
        for (uint k = 0; k < n; k += 8) {
            simdgroup_float8x8 x[4], y[4];
            for (int i = 0; i < 4; i++) simdgroup_load(x[i], a + (r0 + i * 8) * n + k, n);
            for (int i = 0; i < 4; i++) simdgroup_load(y[i], b + k * n + c0 + i * 8, n);
            for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++)
                simdgroup_multiply_accumulate(acc[i][j], x[i], y[j], acc[i][j]); }
        for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++)
            simdgroup_store(acc[i][j], c + (r0 + i * 8) * n + c0 + j * 8, n); }""")
    staged = kernel("""kernel void staged(device float* c, device const float* a, device const float* b, constant uint& n,
                          uint2 g [[threadgroup_position_in_grid]], uint t [[thread_index_in_threadgroup]],
                          uint s [[simdgroup_index_in_threadgroup]]) {
        threadgroup float ta[64 * 32], tb[32 * 64];
        uint r0 = (s / 2) * 32, c0 = (s % 2) * 32;
        simdgroup_float8x8 acc[4][4];
        for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) acc[i][j] = simdgroup_float8x8(0);
        for (uint k = 0; k < n; k += 32) {
            for (uint i = t; i < 64 * 32; i += 128) ta[i] = a[(g.y * 64 + i / 32) * n + k + i % 32];
            for (uint i = t; i < 32 * 64; i += 128) tb[i] = b[(k + i / 64) * n + g.x * 64 + i % 64];
            threadgroup_barrier(mem_flags::mem_threadgroup);
            for (uint q = 0; q < 32; q += 8) {
                simdgroup_float8x8 x[4], y[4];
                for (int i = 0; i < 4; i++) simdgroup_load(x[i], ta + (r0 + i * 8) * 32 + q, 32);
                for (int i = 0; i < 4; i++) simdgroup_load(y[i], tb + q * 64 + c0 + i * 8, 64);
                for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++)
                    simdgroup_multiply_accumulate(acc[i][j], x[i], y[j], acc[i][j]); }
            threadgroup_barrier(mem_flags::mem_threadgroup); }
        for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++)
            simdgroup_store(acc[i][j], c + (g.y * 64 + r0 + i * 8) * n + g.x * 64 + c0 + j * 8, n); }""")
    blas = Peer("BLAS", lambda: np.matmul(x, y, out=target), 2.5)
    for name, k in (("SGEMM 1024 simdgroup", blocked), ("SGEMM 1024 blocked", staged)):
        yield Row(
            name,
            lambda k=k: k(c, a, b, n, numworkgroups=(n // 64, n // 64), workgroupsize=(128, 1)),
            lambda: near(c.numpy(), x @ y),
            [blas],
        )


def mat_vecs() -> Iterator[Row]:
    product = kernel("""kernel void mv(device float* y, device const float* a, device const float* x, constant uint& n,
                            uint l [[thread_index_in_simdgroup]], uint g [[threadgroup_position_in_grid]]) {
        float s = 0; for (uint k = l; k < n; k += 32) s += a[g * n + k] * x[k];
        s = simd_sum(s); if (l == 0) y[g] = s; }""")
    for height, width in ((4096, 4096), (512, 1024)):
        host, x = random.random((height, width), dtype=np.float32), random.random(width, dtype=np.float32)
        a, b, y, target = mk.array(host), mk.array(x), mk.zeros(height), np.zeros(height, np.float32)
        yield Row(
            f"mat-vec {height}x{width}",
            lambda y=y, a=a, b=b, w=width, h=height: product(y, a, b, w, ndrange=h * 32, workgroupsize=32),
            lambda y=y, host=host, x=x: near(y.numpy(), host @ x),
            [Peer("BLAS", lambda host=host, x=x, target=target: np.matmul(host, x, out=target), 1.2)],
        )
