"""PoCL as a peer: the same kernels in OpenCL C, through pyopencl, on the same memory. Absent without both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from .row import Peer

SOURCE = r"""
kernel void add(global float* c, global const float* a, global const float* b) {
    size_t i = get_global_id(0); c[i] = a[i] + b[i]; }

kernel void copy(global float* c, global const float* a, int width, int height) {
    int k = (get_global_id(2) * height + get_global_id(1)) * width + get_global_id(0); c[k] = a[k]; }

kernel void mandelbrot(global int* out, int width, int height, int iterations) {
    int px = get_global_id(0), py = get_global_id(1), k = 0;
    float cr = -2.0f + 3.0f * px / width, ci = -1.5f + 3.0f * py / height, zr = 0, zi = 0;
    while (k < iterations) {
        float r2 = zr * zr, i2 = zi * zi; if (r2 + i2 > 4.0f) break;
        zi = 2 * zr * zi + ci; zr = r2 - i2 + cr; k++; }
    out[py * width + px] = k; }

kernel void naive(global float* c, global const float* a, global const float* b, int n) {
    int x = get_global_id(0), y = get_global_id(1); float s = 0;
    for (int k = 0; k < n; k++) s += a[y * n + k] * b[k * n + x]; c[y * n + x] = s; }

kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void tiled(global float* c, global const float* a, global const float* b, int n) {
    local float ta[16][16], tb[16][16];
    int lx = get_local_id(0), ly = get_local_id(1), x = get_global_id(0), y = get_global_id(1); float s = 0;
    for (int t = 0; t < n; t += 16) {
        ta[ly][lx] = a[y * n + t + lx]; tb[ly][lx] = b[(t + ly) * n + x]; barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < 16; k++) s += ta[ly][k] * tb[k][lx]; barrier(CLK_LOCAL_MEM_FENCE); }
    c[y * n + x] = s; }

kernel __attribute__((reqd_work_group_size(256, 1, 1))) void tree(global float* c, global const float* a) {
    local float s[256]; int t = get_local_id(0); s[t] = a[get_global_id(0)]; barrier(CLK_LOCAL_MEM_FENCE);
    for (int h = 128; h > 0; h /= 2) { if (t < h) s[t] += s[t + h]; barrier(CLK_LOCAL_MEM_FENCE); }
    if (t == 0) c[get_group_id(0)] = s[0]; }

kernel __attribute__((reqd_work_group_size(128, 1, 1))) void bodies(global float4* out, global const float4* in, int n) {
    local float4 tile[128]; int t = get_local_id(0); float4 me = in[get_global_id(0)]; float3 f = 0;
    for (int k = 0; k < n; k += 128) {
        tile[t] = in[k + t]; barrier(CLK_LOCAL_MEM_FENCE);
        for (int j = 0; j < 128; j++) {
            float3 d = tile[j].xyz - me.xyz; float r = rsqrt(dot(d, d) + 1e-3f); f += d * (tile[j].w * r * r * r); }
        barrier(CLK_LOCAL_MEM_FENCE); }
    out[get_global_id(0)] = (float4)(f, me.w); }

kernel void stencil(global float* c, global const float* a, int n) {
    int x = get_global_id(0), y = get_global_id(1), k = y * n + x;
    if (x > 0 && y > 0 && x < n - 1 && y < n - 1)
        c[k] = 0.5f * a[k] + 0.125f * (a[k - 1] + a[k + 1] + a[k - n] + a[k + n]); }

kernel __attribute__((reqd_work_group_size(256, 1, 1))) void histogram(global uint* bins, global const uchar* a, int n) {
    local uint mine[256]; int t = get_local_id(0); mine[t] = 0; barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = get_global_id(0); i < n; i += get_global_size(0)) atomic_inc(&mine[a[i]]);
    barrier(CLK_LOCAL_MEM_FENCE); atomic_add(&bins[t], mine[t]); }

kernel void bitonic(global uint* a, int j, int k) {
    uint i = get_global_id(0), o = i ^ j;
    if (o > i) { uint x = a[i], y = a[o]; if ((x > y) == ((i & k) == 0)) { a[i] = y; a[o] = x; } } }
"""


@lru_cache(maxsize=1)
def platform() -> Any:
    """(pyopencl, context, queue, program) of PoCL, or None."""
    try:
        import pyopencl as cl
    except ImportError:
        return None
    found = [p for p in cl.get_platforms() if "Portable" in p.name]
    if not found:
        return None
    context = cl.Context(found[0].get_devices()[:1])
    return cl, context, cl.CommandQueue(context), cl.Program(context, SOURCE).build()


def peer(
    name: str, size: Sequence[int], group: Sequence[int] | None, *arguments: np.ndarray | int, reach: float
) -> list[Peer]:
    """That kernel over the arrays' own memory; no peer where there is no PoCL."""
    run = launcher(name, size, group, *arguments)
    return [Peer("PoCL", run, reach)] if run else []


def launcher(
    name: str, size: Sequence[int], group: Sequence[int] | None, *arguments: np.ndarray | int
) -> Callable[[], None] | None:
    """A call that runs the kernel and waits, or None where there is no PoCL."""
    enqueue = enqueuer(name, size, group, *arguments)
    if enqueue is None:
        return None
    queue = platform()[2]

    def run() -> None:
        enqueue()
        queue.finish()

    return run


def enqueuer(
    name: str, size: Sequence[int], group: Sequence[int] | None, *arguments: np.ndarray | int
) -> Callable[[], None] | None:
    """A call that only enqueues the kernel, or None where there is no PoCL."""
    if platform() is None:
        return None
    cl, context, queue, program = platform()
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
    values = [
        np.int32(a) if isinstance(a, int) else cl.Buffer(context, flags, hostbuf=a.reshape(-1).view(np.uint8))
        for a in arguments
    ]
    function = cl.Kernel(program, name)
    function.set_args(*values)

    def enqueue(keep: Any = values) -> None:
        cl.enqueue_nd_range_kernel(queue, function, tuple(size), tuple(group) if group else None)

    return enqueue


def finish() -> None:
    platform()[2].finish()
