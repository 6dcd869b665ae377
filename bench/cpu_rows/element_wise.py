"""One element a thread: sums, functions, copies, an image, a stencil."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

import numpy as np

import metalki as mk

from . import ispc, opencl
from .row import Peer, Row, in_parts, kernel, near, random


def sums() -> Iterator[Row]:
    n = 1 << 24
    host, target = random.random(n, dtype=np.float32), np.zeros(n, np.float32)
    a, out = mk.array(host), mk.zeros(n)
    add = kernel("""kernel void add(device float* c, device const float* a, device const float* b,
                                    uint i [[thread_position_in_grid]]) { c[i] = a[i] + b[i]; }""")
    yield Row(
        "vadd 16M",
        lambda: add(out, a, a, ndrange=n),
        lambda: bool(np.array_equal(out.numpy(), host + host)),
        [
            Peer("numpy", lambda: np.add(host, host, out=target), 1.1),
            *opencl.peer("add", (n,), (256,), target, host, host, reach=0),
        ],
    )


def functions() -> Iterator[Row]:
    n = 1 << 24
    host, target = random.random(n, dtype=np.float32) + np.float32(0.5), np.zeros(n, np.float32)
    a, out = mk.array(host), mk.zeros(n)
    calls: dict[str, tuple[str, Callable[[], object]]] = {
        "exp": ("exp(a[i])", lambda: np.exp(host, out=target)),
        "sin": ("sin(a[i])", lambda: np.sin(host, out=target)),
        "tanh": ("tanh(a[i])", lambda: np.tanh(host, out=target)),
        "log": ("log(a[i])", lambda: np.log(host, out=target)),
        "pow": ("pow(a[i], a[i])", lambda: np.power(host, host, out=target)),
    }
    for name, (expression, call) in calls.items():
        function = kernel(
            "kernel void f(device float* c, device const float* a, uint i [[thread_position_in_grid]])"
            f"{{ c[i] = {expression}; }}"
        )

        def right(call: Callable[[], object] = call) -> bool:
            call()
            return near(out.numpy(), target, 1e-5)

        yield Row(f"{name} 16M", lambda f=function: f(out, a, ndrange=n), right, [Peer("numpy", call, 1.0)])


def copies() -> Iterator[Row]:
    move = ctypes.CDLL(None).memmove
    move.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    by_position = kernel("""kernel void copy(device float* c, device const float* a, uint3 i [[thread_position_in_grid]],
                                             uint3 s [[threads_per_grid]]) {
        uint k = (i.z * s.y + i.y) * s.x + i.x; c[k] = a[k]; }""")
    linear = kernel("""kernel void copy(device float* c, device const float* a, uint i [[thread_position_in_grid]]) {
        c[i] = a[i]; }""")
    for shape in ((256, 256, 256), (255, 257, 129)):
        n = shape[0] * shape[1] * shape[2]
        host, target = random.random(n, dtype=np.float32), np.zeros(n, np.float32)
        a, out = mk.array(host), mk.zeros(n)
        size = "x".join(map(str, shape))
        source, sink = host.ctypes.data, target.ctypes.data

        def part(begin: int, end: int, source: int = source, sink: int = sink) -> None:
            move(sink + 4 * begin, source + 4 * begin, 4 * (end - begin))

        memcpy = Peer("memcpy", in_parts(part, n), 1.1)

        def right(out: mk.Array = out, host: np.ndarray = host) -> bool:
            return bool(np.array_equal(out.numpy(), host))

        yield Row(
            f"copy {size}",
            lambda out=out, a=a, shape=shape: by_position(out, a, ndrange=shape),
            right,
            [memcpy, *opencl.peer("copy", shape, None, target, host, shape[0], shape[1], reach=0)],
        )
        yield Row(f"copy {n} linear", lambda out=out, a=a, n=n: linear(out, a, ndrange=n), right, [memcpy])


def images() -> Iterator[Row]:
    n, iterations = 1024, 256
    out, target = mk.zeros((n, n), np.int32), np.zeros((n, n), np.int32)
    mandelbrot = kernel("""kernel void mandelbrot(device int* out, constant int& width, constant int& height,
                                constant int& iterations, uint2 p [[thread_position_in_grid]]) {
        float cr = -2.0f + 3.0f * p.x / width, ci = -1.5f + 3.0f * p.y / height, zr = 0, zi = 0; int k = 0;
        while (k < iterations) {
            float r2 = zr * zr, i2 = zi * zi; if (r2 + i2 > 4.0f) break;
            zi = 2 * zr * zi + ci; zr = r2 - i2 + cr; k++; }
        out[p.y * width + p.x] = k; }""")
    peers = [
        *ispc.peers("mandelbrot", n, target, n, n, iterations, reach=1.1),
        *opencl.peer("mandelbrot", (n, n), (32, 8), target, n, n, iterations, reach=0.13),
    ]

    def escape_times() -> np.ndarray:
        x, y = np.meshgrid(np.arange(n, dtype=np.float64), np.arange(n, dtype=np.float64))
        c, z, count = -2 + 3 * x / n + 1j * (-1.5 + 3 * y / n), np.zeros((n, n), complex), np.zeros((n, n), np.int32)
        inside = np.ones((n, n), bool)
        for _ in range(iterations):
            inside &= np.abs(z) <= 2
            count += inside
            z[inside] = z[inside] ** 2 + c[inside]
        return count

    yield Row(
        "mandelbrot 1024x1024",
        lambda: mandelbrot(out, n, n, iterations, ndrange=(n, n)),
        lambda: bool(np.mean(out.numpy() != escape_times()) < 0.01),  # float and double part at the edge of the set
        peers,
    )


def stencils() -> Iterator[Row]:
    n = 4096
    host, target = random.random((n, n), dtype=np.float32), np.zeros((n, n), np.float32)
    a, out = mk.array(host), mk.zeros((n, n))
    stencil = kernel("""kernel void stencil(device float* c, device const float* a, constant uint& n,
                                            uint2 p [[thread_position_in_grid]]) {
        uint k = p.y * n + p.x;
        if (p.x > 0 && p.y > 0 && p.x < n - 1 && p.y < n - 1)
            c[k] = 0.5f * a[k] + 0.125f * (a[k - 1] + a[k + 1] + a[k - n] + a[k + n]); }""")

    def right() -> bool:
        wanted = np.zeros_like(host)
        around = host[1:-1, :-2] + host[1:-1, 2:] + host[:-2, 1:-1] + host[2:, 1:-1]
        wanted[1:-1, 1:-1] = 0.5 * host[1:-1, 1:-1] + 0.125 * around
        return near(out.numpy(), wanted, 1e-6)

    yield Row(
        "stencil 4096x4096",
        lambda: stencil(out, a, n, ndrange=(n, n)),
        right,
        opencl.peer("stencil", (n, n), (32, 8), target, host, n, reach=0.25),
    )
