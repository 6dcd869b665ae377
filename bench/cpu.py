"""Kernels on the CPU device beside numpy (or memcpy) doing the same in the same run.

    python bench/cpu.py [--threads 1] [--repeat 7] [NAME ...]

Every row checks its result, then prints the median milliseconds of both and their ratio. BLAS is kept to as many threads.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("names", nargs="*", help="only the rows whose name contains one of these")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--repeat", type=int, default=7)
options = parser.parse_args()
for variable in ("METALKI_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = str(options.threads)

import numpy as np  # noqa: E402  after the environment is set

import metalki as mk  # noqa: E402

HEAD = "#include <metal_stdlib>\n#include <metal_simdgroup_matrix>\nusing namespace metal;\n"
random = np.random.default_rng(0)


@dataclass
class Row:
    name: str
    run: Callable[[], None]
    peer: Callable[[], object]
    peer_name: str
    check: Callable[[], bool]


def kernel(text: str) -> mk.Kernel:
    return mk.Kernel(HEAD + text)


def element_wise() -> Iterator[Row]:
    n = 1 << 24
    host = random.random(n, dtype=np.float32) + np.float32(0.5)
    a, out, target = mk.array(host), mk.zeros(n), np.zeros_like(host)
    add = kernel(
        "kernel void add(device float* c, device const float* a, device const float* b, uint i [[thread_position_in_grid]])"
        "{ c[i] = a[i] + b[i]; }"
    )
    yield Row(
        "vadd 16M",
        lambda: add(out, a, a, ndrange=n),
        lambda: np.add(host, host, out=target),
        "numpy",
        lambda: bool(np.array_equal(out.numpy(), host + host)),
    )
    functions: dict[str, tuple[str, Callable[[], object]]] = {
        "exp": ("exp(a[i])", lambda: np.exp(host, out=target)),
        "sin": ("sin(a[i])", lambda: np.sin(host, out=target)),
        "tanh": ("tanh(a[i])", lambda: np.tanh(host, out=target)),
        "log": ("log(a[i])", lambda: np.log(host, out=target)),
        "pow": ("pow(a[i], a[i])", lambda: np.power(host, host, out=target)),
    }
    for name, (expression, peer) in functions.items():
        k = kernel(
            "kernel void f(device float* c, device const float* a, uint i [[thread_position_in_grid]])"
            f"{{ c[i] = {expression}; }}"
        )

        def right(peer: Callable[[], object] = peer) -> bool:
            peer()
            return bool(np.allclose(out.numpy(), target, rtol=1e-5))

        yield Row(f"{name} 16M", lambda k=k: k(out, a, ndrange=n), peer, "numpy", right)  # type: ignore[misc]


def copies() -> Iterator[Row]:
    for shape in ((256, 256, 256), (255, 257, 129)):
        n = shape[0] * shape[1] * shape[2]
        host = random.random(n, dtype=np.float32)
        a, out, target = mk.array(host), mk.zeros(n), np.zeros_like(host)
        copy = kernel(
            "kernel void copy(device float* c, device const float* a, uint3 i [[thread_position_in_grid]],"
            " uint3 s [[threads_per_grid]]) { uint k = (i.z * s.y + i.y) * s.x + i.x; c[k] = a[k]; }"
        )
        yield Row(
            f"copy {'x'.join(map(str, shape))}",
            lambda copy=copy, out=out, a=a, shape=shape: copy(out, a, ndrange=shape),  # type: ignore[misc]
            lambda target=target, host=host: np.copyto(target, host),  # type: ignore[misc]
            "memcpy",
            lambda out=out, host=host: bool(np.array_equal(out.numpy(), host)),  # type: ignore[misc]
        )


def products() -> Iterator[Row]:
    n = 512
    x, y = random.random((n, n), dtype=np.float32), random.random((n, n), dtype=np.float32)
    a, b, c = mk.array(x), mk.array(y), mk.zeros((n, n))
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
        return bool(np.allclose(c.numpy(), x @ y, rtol=1e-4))

    yield Row("SGEMM 512 naive", lambda: naive(c, a, b, n, ndrange=(n, n)), lambda: x @ y, "BLAS", right)
    yield Row(
        "SGEMM 512 tiled",
        lambda: tiled(c, a, b, n, ndrange=(n, n), workgroupsize=(16, 16)),
        lambda: x @ y,
        "BLAS",
        right,
    )
    m = 1024
    u, v = random.random((m, m), dtype=np.float32), random.random((m, m), dtype=np.float32)
    d, e, f = mk.array(u), mk.array(v), mk.zeros((m, m))
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
    yield Row(
        "SGEMM 1024 simdgroup",
        lambda: blocked(f, d, e, m, numworkgroups=(16, 16), workgroupsize=(128, 1)),
        lambda: u @ v,
        "BLAS",
        lambda: bool(np.allclose(f.numpy(), u @ v, rtol=1e-4)),
    )


def reductions() -> Iterator[Row]:
    n = 1 << 24
    host = random.random(n, dtype=np.float32)
    a, out = mk.array(host), mk.zeros(n // 256)
    tree = kernel("""kernel void tree(device float* c, device const float* a, uint i [[thread_position_in_grid]],
                          uint t [[thread_position_in_threadgroup]], uint g [[threadgroup_position_in_grid]]) {
        threadgroup float s[256]; s[t] = a[i]; threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint h = 128; h > 0; h /= 2) { if (t < h) s[t] += s[t + h]; threadgroup_barrier(mem_flags::mem_threadgroup); }
        if (t == 0) c[g] = s[0]; }""")
    yield Row(
        "tree reduction 16M",
        lambda: tree(out, a, ndrange=n, workgroupsize=256),
        lambda: host.sum(),
        "numpy",
        lambda: bool(np.isclose(out.numpy().sum(dtype=np.float64), host.sum(dtype=np.float64), rtol=1e-5)),
    )
    groups = 64
    sums = mk.zeros(groups)
    two_level = kernel("""kernel void two(device float* c, device const float* a, constant uint& n,
                          uint i [[thread_position_in_grid]], uint all [[threads_per_grid]],
                          uint l [[thread_index_in_simdgroup]], uint s [[simdgroup_index_in_threadgroup]],
                          uint g [[threadgroup_position_in_grid]]) {
        threadgroup float part[8]; float v = 0; for (uint k = i; k < n; k += all) v += a[k];
        v = simd_sum(v); if (l == 0) part[s] = v; threadgroup_barrier(mem_flags::mem_threadgroup);
        if (s == 0) { v = simd_sum(l < 8 ? part[l] : 0.0f); if (l == 0) c[g] = v; } }""")
    yield Row(
        "simd_sum reduction 16M",
        lambda: two_level(sums, a, n, ndrange=256 * groups, workgroupsize=256),
        lambda: host.sum(),
        "numpy",
        lambda: bool(np.isclose(sums.numpy().sum(dtype=np.float64), host.sum(dtype=np.float64), rtol=1e-5)),
    )


def rows() -> Iterator[Row]:
    for height, width in ((4096, 4096), (512, 1024)):
        host, x = random.random((height, width), dtype=np.float32), random.random(width, dtype=np.float32)
        a, b, y = mk.array(host), mk.array(x), mk.zeros(height)
        k = kernel("""kernel void mv(device float* y, device const float* a, device const float* x, constant uint& n,
                            uint l [[thread_index_in_simdgroup]], uint g [[threadgroup_position_in_grid]]) {
            float s = 0; for (uint k = l; k < n; k += 32) s += a[g * n + k] * x[k];
            s = simd_sum(s); if (l == 0) y[g] = s; }""")
        yield Row(
            f"mat-vec {height}x{width}",
            lambda k=k, y=y, a=a, b=b, w=width, h=height: k(y, a, b, w, ndrange=h * 32, workgroupsize=32),  # type: ignore[misc]
            lambda host=host, x=x: host @ x,  # type: ignore[misc]
            "BLAS",
            lambda y=y, host=host, x=x: bool(np.allclose(y.numpy(), host @ x, rtol=1e-4)),  # type: ignore[misc]
        )
    n = 4096
    host = random.random((n, n), dtype=np.float32)
    a, out = mk.array(host), mk.zeros((n, n))
    softmax = kernel("""kernel void sm(device float* c, device const float* a, constant uint& n,
                          uint l [[thread_index_in_simdgroup]], uint g [[threadgroup_position_in_grid]]) {
        device const float* r = a + g * n; float m = -INFINITY, s = 0;
        for (uint k = l; k < n; k += 32) m = max(m, r[k]);
        m = simd_max(m);
        for (uint k = l; k < n; k += 32) s += exp(r[k] - m);
        s = simd_sum(s);
        for (uint k = l; k < n; k += 32) c[g * n + k] = exp(r[k] - m) / s; }""")

    def numpy_softmax() -> np.ndarray:
        e = np.exp(host - host.max(1, keepdims=True))
        return np.asarray(e / e.sum(1, keepdims=True))

    yield Row(
        "softmax 4096x4096",
        lambda: softmax(out, a, n, ndrange=n * 32, workgroupsize=32),
        numpy_softmax,
        "numpy",
        lambda: bool(np.allclose(out.numpy(), numpy_softmax(), rtol=1e-4)),
    )


def milliseconds(call: Callable[[], object], repeat: int) -> float:
    call()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def main() -> int:
    wrong = 0
    print(
        f"{options.threads} thread(s), medians of {options.repeat}\n{'kernel':24} {'ms':>9} {'peer ms':>9} {'ratio':>7}"
    )
    for group in (element_wise, copies, products, reductions, rows):
        for row in group():
            if options.names and not any(name in row.name for name in options.names):
                continue

            def once(row: Row = row) -> None:
                row.run()
                mk.synchronize()

            mine, peer = milliseconds(once, options.repeat), milliseconds(row.peer, options.repeat)
            right = row.check()
            wrong += not right
            print(
                f"{row.name:24} {mine:9.3f} {peer:9.3f} {mine / peer:7.2f}  {row.peer_name}{'' if right else '  WRONG'}"
            )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
