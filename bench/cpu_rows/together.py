"""Threads that work together: bodies in threadgroup tiles, a histogram with atomics, a bitonic sort."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import metalki as mk

from . import opencl
from .row import Peer, Row, kernel, near, random


def bodies() -> Iterator[Row]:
    n = 8192
    host, target = random.random((n, 4), dtype=np.float32), np.zeros((n, 4), np.float32)
    a, out = mk.array(host), mk.zeros((n, 4))
    pull = kernel("""kernel void bodies(device float4* out, device const float4* in, constant uint& n,
                          uint i [[thread_position_in_grid]], uint t [[thread_position_in_threadgroup]]) {
        threadgroup float4 tile[128]; float4 me = in[i]; float3 f = 0;
        for (uint k = 0; k < n; k += 128) {
            tile[t] = in[k + t]; threadgroup_barrier(mem_flags::mem_threadgroup);
            for (uint j = 0; j < 128; j++) {
                float3 d = tile[j].xyz - me.xyz; float r = rsqrt(dot(d, d) + 1e-3f); f += d * (tile[j].w * r * r * r); }
            threadgroup_barrier(mem_flags::mem_threadgroup); }
        out[i] = float4(f, me.w); }""")

    def right() -> bool:
        some = slice(0, 64)
        d = host[None, :, :3].astype(np.float64) - host[some, None, :3]
        r = 1 / np.sqrt((d * d).sum(-1) + 1e-3)
        return near(out.numpy()[some, :3], (d * (host[:, 3] * r**3)[..., None]).sum(1), 1e-3)

    yield Row(
        "n-body 8192",
        lambda: pull(out, a, n, ndrange=n, workgroupsize=128),
        right,
        opencl.peer("bodies", (n,), (128,), target, host, n, reach=0.25),
    )


def histograms() -> Iterator[Row]:
    n, threads = 1 << 24, 1 << 16
    host, target = random.integers(0, 256, n, dtype=np.uint8), np.zeros(256, np.uint32)
    a, bins = mk.array(host), mk.zeros(256, np.uint32)
    count = kernel("""kernel void histogram(device atomic_uint* bins, device const uchar* a, constant uint& n,
                           uint i [[thread_position_in_grid]], uint all [[threads_per_grid]],
                           uint t [[thread_position_in_threadgroup]]) {
        threadgroup atomic_uint mine[256]; atomic_store_explicit(&mine[t], 0, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint k = i; k < n; k += all) atomic_fetch_add_explicit(&mine[a[k]], 1, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        atomic_fetch_add_explicit(&bins[t], atomic_load_explicit(&mine[t], memory_order_relaxed), memory_order_relaxed); }""")

    def right() -> bool:
        before = bins.numpy().copy()
        count(bins, a, n, ndrange=threads, workgroupsize=256)
        mk.synchronize()
        return bool(np.array_equal(bins.numpy() - before, np.bincount(host, minlength=256)))

    yield Row(
        "histogram 16M",
        lambda: count(bins, a, n, ndrange=threads, workgroupsize=256),
        right,
        opencl.peer("histogram", (threads,), (256,), target, host, n, reach=0.25),
    )


def sorts() -> Iterator[Row]:
    n = 1 << 20
    host = random.integers(0, 1 << 32, n, dtype=np.uint32)
    a, target = mk.array(host), host.copy()
    step = kernel("""kernel void bitonic(device uint* a, constant uint& j, constant uint& k,
                                         uint i [[thread_position_in_grid]]) {
        uint o = i ^ j;
        if (o > i) { uint x = a[i], y = a[o]; if ((x > y) == ((i & k) == 0)) { a[i] = y; a[o] = x; } } }""")
    passes = [(1 << (s - 1 - d), 1 << s) for s in range(1, 21) for d in range(s)]

    def run() -> None:
        for j, k in passes:
            step(a, j, k, ndrange=n)

    peers = []
    if opencl.platform():
        calls = [opencl.enqueuer("bitonic", (n,), (256,), target, j, k) for j, k in passes]

        def pocl() -> None:
            for call in calls:
                assert call is not None
                call()
            opencl.finish()

        peers = [Peer("PoCL", pocl, 0.25)]
    yield Row("bitonic sort 2^20", run, lambda: bool(np.array_equal(a.numpy(), np.sort(host))), peers)
