"""Kernels on an NVIDIA GPU beside the same algorithms in CUDA C++, compiled by NVRTC and launched by CuPy, in the same run.

    python bench/cuda.py [--repeat 9] [--device cuda:0] [--json FILE] [NAME ...]

Needs CuPy and a GPU. Every row checks its result, then prints the median time of both sides, which take turns, and how fast
ours is beside what is to be reached. ggml's kernels need METALKI_REALWORLD_SOURCES (tests/realworld/README.md).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("names", nargs="*", help="only the rows whose name contains one of these")
parser.add_argument("--repeat", type=int, default=9)
parser.add_argument("--device", default="cuda:0")
parser.add_argument("--json", type=Path, help="also write the table there")
options = parser.parse_args()
os.environ["METALKI_DEVICE"] = options.device
sys.path = [
    p for p in sys.path if Path(p).resolve() != Path(__file__).resolve().parent
]  # CuPy imports a package `cuda`

import cupy as cp  # noqa: E402
import numpy as np  # noqa: E402

import metalki as mk  # noqa: E402

MSL = "#include <metal_stdlib>\n#include <metal_simdgroup_matrix>\nusing namespace metal;\n"
random = np.random.default_rng(0)


@dataclass
class Row:
    """One kernel on both sides. `reach`: peer's time / our time that is to be reached; 0: no promise."""

    name: str
    ours: Callable[[], object]
    peer: Callable[[], object]
    check: Callable[[], bool]
    reach: float
    bytes: float = 0.0  # moved by a call, for GB/s
    flops: float = 0.0


def far(values: np.ndarray) -> mk.Array:
    return mk.array(values, storage="private")


def raw(source: str, name: str) -> Any:
    """A CUDA C++ kernel of CuPy's, compiled at once."""
    kernel = cp.RawKernel('extern "C" __global__ ' + source, name, options=("--std=c++17",))
    kernel.compile()
    return kernel


def near(got: np.ndarray, wanted: np.ndarray, tolerance: float = 1e-3) -> bool:
    return bool(np.allclose(got, wanted, rtol=tolerance, atol=tolerance * float(np.abs(wanted).max())))


def milliseconds(call: Callable[[], object], wait: Callable[[], object], count: int) -> float:
    """Of one call, when many are given to the device one after the other."""
    wait()
    start = time.perf_counter()
    for _ in range(count):
        call()
    wait()
    return 1e3 * (time.perf_counter() - start) / count


def vadd() -> Iterator[Row]:
    n = 1 << 28
    a, b = random.random(n, np.float32), random.random(n, np.float32)
    k = mk.Kernel(
        MSL + "kernel void vadd(device float* c, device const float* a, device const float* b, constant uint& n,"
        " uint i [[thread_position_in_grid]]) { if (i < n) c[i] = a[i] + b[i]; }"
    )
    x, y, z = far(a), far(b), mk.empty(n, np.float32, "private")
    p = raw(
        "void vadd(float* c, const float* a, const float* b, unsigned n)"
        "{ unsigned i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) c[i] = a[i] + b[i]; }",
        "vadd",
    )
    u, v, w = cp.asarray(a), cp.asarray(b), cp.empty(n, cp.float32)
    yield Row(
        "vadd 2^28",
        lambda: k(z, x, y, n, ndrange=n, workgroupsize=256),
        lambda: p((n // 256,), (256,), (w, u, v, np.uint32(n))),
        lambda: bool(np.array_equal(z[: 1 << 20].numpy(), (a + b)[: 1 << 20])),
        0.97,
        bytes=12 * n,
    )


def copies() -> Iterator[Row]:
    side = 256
    count = side**3
    a = random.random(count, np.float32)
    k = mk.Kernel(
        MSL + "kernel void copy3(device float* c, device const float* a, uint3 p [[thread_position_in_grid]],"
        " uint3 n [[threads_per_grid]]) { uint i = (p.z * n.y + p.y) * n.x + p.x; c[i] = a[i]; }"
    )
    x, y = far(a), mk.empty(count, np.float32, "private")
    p = raw(
        "void copy3(float* c, const float* a, unsigned nx, unsigned ny, unsigned nz) {"
        "unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y,"
        "z = blockIdx.z * blockDim.z + threadIdx.z; if (x < nx && y < ny && z < nz)"
        "{ unsigned i = (z * ny + y) * nx + x; c[i] = a[i]; } }",
        "copy3",
    )
    u, w = cp.asarray(a), cp.empty(count, cp.float32)
    s = np.uint32(side)
    yield Row(
        "copy 256^3 by 3-D index",
        lambda: k(y, x, ndrange=(side, side, side), workgroupsize=(256, 1, 1)),
        lambda: p((1, side, side), (256, 1, 1), (w, u, s, s, s)),
        lambda: bool(np.array_equal(y.numpy(), a)),
        0.97,
        bytes=8 * count,
    )
    n = 1 << 28
    b = random.random(n, np.float32)
    k4 = mk.Kernel(
        MSL + "kernel void copy4(device float4* c, device const float4* a, uint i [[thread_position_in_grid]])"
        "{ c[i] = a[i]; }"
    )
    x4, y4 = far(b), mk.empty(n, np.float32, "private")
    u4, w4 = cp.asarray(b), cp.empty(n, cp.float32)
    yield Row(
        "vectorised copy 2^28",
        lambda: k4(y4, x4, ndrange=n // 4, workgroupsize=256),
        lambda: w4.data.copy_from_device_async(u4.data, 4 * n, cp.cuda.get_current_stream()),
        lambda: bool(np.array_equal(y4[: 1 << 20].numpy(), b[: 1 << 20])),
        0.95,
        bytes=8 * n,
    )


TILED = """
kernel void tiled(device float* c, device const float* a, device const float* b, constant uint& n,
                  uint2 g [[threadgroup_position_in_grid]], uint2 t [[thread_position_in_threadgroup]]) {
    threadgroup float as[16][16], bs[16][16];
    uint row = g.y * 16 + t.y, column = g.x * 16 + t.x;
    float sum = 0;
    for (uint k = 0; k < n; k += 16) {
        as[t.y][t.x] = a[row * n + k + t.x];
        bs[t.y][t.x] = b[(k + t.y) * n + column];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint i = 0; i < 16; ++i) sum += as[t.y][i] * bs[i][t.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    c[row * n + column] = sum;
}
"""
TILED_CUDA = """
void tiled(float* c, const float* a, const float* b, unsigned n) {
    __shared__ float as[16][16], bs[16][16];
    unsigned row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (unsigned k = 0; k < n; k += 16) {
        as[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (unsigned i = 0; i < 16; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
"""
# Four SIMD-groups, each with 4 x 4 tiles of 8 x 8: 64 x 64 elements of the product, straight from memory.
MATRIX = """
kernel void product(device float* c, device const half* a, device const half* b, constant uint& n,
                    uint2 g [[threadgroup_position_in_grid]], uint s [[simdgroup_index_in_threadgroup]]) {
    uint row = g.y * 64 + (s / 2) * 32, column = g.x * 64 + (s % 2) * 32;
    simdgroup_matrix<float, 8, 8> sum[4][4];
    for (uint i = 0; i < 4; ++i)
        for (uint j = 0; j < 4; ++j) sum[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0);
    for (uint k = 0; k < n; k += 8) {
        simdgroup_matrix<half, 8, 8> x[4], y[4];
        for (uint i = 0; i < 4; ++i) {
            simdgroup_load(x[i], a + (row + i * 8) * n + k, n);
            simdgroup_load(y[i], b + k * n + column + i * 8, n);
        }
        for (uint i = 0; i < 4; ++i)
            for (uint j = 0; j < 4; ++j) simdgroup_multiply_accumulate(sum[i][j], x[i], y[j], sum[i][j]);
    }
    for (uint i = 0; i < 4; ++i)
        for (uint j = 0; j < 4; ++j) simdgroup_store(sum[i][j], c + (row + i * 8) * n + column + j * 8, n);
}
"""


def products() -> Iterator[Row]:
    n = 4096
    a, b = random.standard_normal((2, n, n)).astype(np.float32)
    k = mk.Kernel(MSL + TILED)
    x, y, z = far(a), far(b), mk.empty((n, n), np.float32, "private")
    p = raw(TILED_CUDA, "tiled")
    u, v, w = cp.asarray(a), cp.asarray(b), cp.empty((n, n), cp.float32)
    some = a[:8].astype(np.float64) @ b

    def tiled() -> None:
        k(z, x, y, n, ndrange=(n, n), workgroupsize=(16, 16))

    yield Row(
        "tiled SGEMM 4096",
        tiled,
        lambda: p((n // 16, n // 16), (16, 16), (w, u, v, np.uint32(n))),
        lambda: near(z[:8].numpy(), some),
        0.97,
        flops=2 * n**3,
    )
    m = mk.Kernel(MSL + MATRIX)
    ah, bh, c = far(a.astype(np.float16)), far(b.astype(np.float16)), mk.empty((n, n), np.float32, "private")
    yield Row(
        "half SGEMM / float tiled",
        lambda: m(c, ah, bh, n, numworkgroups=(n // 64, n // 64), workgroupsize=128),
        tiled,
        lambda: near(c[:8].numpy(), a[:8].astype(np.float16).astype(np.float64) @ b.astype(np.float16), 1e-2),
        3.0,
        flops=2 * n**3,
    )


def reductions() -> Iterator[Row]:
    rows, columns = 1 << 18, 1024
    a = random.random((rows, columns), np.float32)
    x, u = far(a), cp.asarray(a)
    k = mk.Kernel(
        MSL + "kernel void rows(device float* s, device const float* a, constant uint& n,"
        " uint g [[threadgroup_position_in_grid]], uint w [[simdgroup_index_in_threadgroup]],"
        " uint l [[thread_index_in_simdgroup]]) { uint r = g * 8 + w; float t = 0;"
        " for (uint i = l; i < n; i += 32) t += a[r * n + i]; t = simd_sum(t); if (l == 0) s[r] = t; }"
    )
    p = raw(
        "void rows(float* s, const float* a, unsigned n) { unsigned r = blockIdx.x * 8 + threadIdx.x / 32,"
        "l = threadIdx.x % 32; float t = 0; for (unsigned i = l; i < n; i += 32) t += a[r * n + i];"
        "for (int d = 16; d; d /= 2) t += __shfl_xor_sync(0xffffffffu, t, d); if (l == 0) s[r] = t; }",
        "rows",
    )
    z, w = mk.empty(rows, np.float32, "private"), cp.empty(rows, cp.float32)
    yield Row(
        "simd_sum rows",
        lambda: k(z, x, columns, numworkgroups=rows // 8, workgroupsize=256),
        lambda: p((rows // 8,), (256,), (w, u, np.uint32(columns))),
        lambda: near(z.numpy(), a.sum(1, dtype=np.float64), 1e-5),
        0.97,
        bytes=a.nbytes,
    )
    tree = (
        "uint i = %s; part[t] = a[2 * i] + a[2 * i + 1]; %s for (uint d = 128; d; d /= 2)"
        " { if (t < d) part[t] += part[t + d]; %s } if (t == 0) s[%s] = part[0]; }"
    )
    kt = mk.Kernel(
        MSL + "kernel void tree(device float* s, device const float* a, uint t [[thread_index_in_threadgroup]],"
        " uint g [[threadgroup_position_in_grid]]) { threadgroup float part[256]; "
        + tree
        % ("g * 256 + t", *["threadgroup_barrier(mem_flags::mem_threadgroup);"] * 2, "g")
    )
    pt = raw(
        "void tree(float* s, const float* a) { __shared__ float part[256]; unsigned t = threadIdx.x; "
        + tree.replace("uint", "unsigned") % ("blockIdx.x * 256 + t", *["__syncthreads();"] * 2, "blockIdx.x"),
        "tree",
    )
    groups = a.size // 512
    zt, wt = mk.empty(groups, np.float32, "private"), cp.empty(groups, cp.float32)
    yield Row(
        "tree reduction 2^28",
        lambda: kt(zt, x, numworkgroups=groups, workgroupsize=256),
        lambda: pt((groups,), (256,), (wt, u)),
        lambda: near(zt.numpy(), a.reshape(-1, 512).sum(1, dtype=np.float64), 1e-5),
        0.97,
        bytes=a.nbytes,
    )
    soft = (
        "float m = -1e30f; for (uint i = l; i < n; i += 32) m = max(m, a[r * n + i]); %s"
        " float t = 0; for (uint i = l; i < n; i += 32) t += exp(a[r * n + i] - m); %s"
        " for (uint i = l; i < n; i += 32) s[r * n + i] = exp(a[r * n + i] - m) / t; }"
    )
    ks = mk.Kernel(
        MSL + "kernel void soft(device float* s, device const float* a, constant uint& n,"
        " uint g [[threadgroup_position_in_grid]], uint w [[simdgroup_index_in_threadgroup]],"
        " uint l [[thread_index_in_simdgroup]]) { uint r = g * 8 + w; "
        + soft
        % ("m = simd_max(m);", "t = simd_sum(t);")
    )
    shuffle = "for (int d = 16; d; d /= 2) %s;"
    ps = raw(
        "void soft(float* s, const float* a, unsigned n) { unsigned r = blockIdx.x * 8 + threadIdx.x / 32,"
        "l = threadIdx.x % 32; "
        + soft.replace("uint", "unsigned").replace("exp(", "__expf(")
        % (
            shuffle % "m = max(m, __shfl_xor_sync(0xffffffffu, m, d))",
            shuffle % "t += __shfl_xor_sync(0xffffffffu, t, d)",
        ),
        "soft",
    )
    zs, ws = mk.empty(a.shape, np.float32, "private"), cp.empty(a.shape, cp.float32)
    some = np.exp(a[:64].astype(np.float64))
    yield Row(
        "softmax rows of 1024",
        lambda: ks(zs, x, columns, numworkgroups=rows // 8, workgroupsize=256),
        lambda: ps((rows // 8,), (256,), (ws, u, np.uint32(columns))),
        lambda: near(zs[:64].numpy(), some / some.sum(1, keepdims=True), 1e-4),
        0.97,
        bytes=2 * a.nbytes,
    )


MANDELBROT = """
    float2 c = {x * (3.0f / n) - 2, y * (2.0f / n) - 1}; float2 z = {0, 0}; uint k = 0;
    while (k < 1000 && z.x * z.x + z.y * z.y < 4) { z = {z.x * z.x - z.y * z.y + c.x, 2 * z.x * z.y + c.y}; ++k; }
    out[y * n + x] = k;
}
"""
BODY = """
    float4 me = p[i]; float3 f = {0, 0, 0};
    for (uint j = 0; j < n; ++j) {
        float4 o = p[j]; float3 d = {o.x - me.x, o.y - me.y, o.z - me.z};
        float r = rsqrt(d.x * d.x + d.y * d.y + d.z * d.z + 1e-3f), s = o.w * r * r * r;
        f.x += d.x * s; f.y += d.y * s; f.z += d.z * s;
    }
    out[i] = {f.x, f.y, f.z, 0};
}
"""


def arithmetic() -> Iterator[Row]:
    n = 4096
    k = mk.Kernel(
        MSL + "kernel void mandelbrot(device uint* out, constant uint& n, uint2 p [[thread_position_in_grid]])"
        "{ uint x = p.x, y = p.y;" + MANDELBROT
    )
    p = raw(
        "void mandelbrot(unsigned* out, unsigned n) { unsigned x = blockIdx.x * blockDim.x + threadIdx.x,"
        "y = blockIdx.y * blockDim.y + threadIdx.y;" + MANDELBROT.replace("uint", "unsigned"),
        "mandelbrot",
    )
    z, w = mk.empty((n, n), np.uint32, "private"), cp.empty((n, n), cp.uint32)
    yield Row(
        "mandelbrot 4096",
        lambda: k(z, n, ndrange=(n, n), workgroupsize=(32, 8)),
        lambda: p((n // 32, n // 8), (32, 8), (w, np.uint32(n))),
        lambda: float(np.mean(z.numpy() != w.get())) < 0.01,  # both round as they like near the border
        0.97,
    )
    bodies = 1 << 16
    places = random.random((bodies, 4), np.float32)
    kb = mk.Kernel(
        MSL + "kernel void nbody(device float4* out, device const float4* p, constant uint& n,"
        " uint i [[thread_position_in_grid]]) {" + BODY
    )
    pb = raw(
        "void nbody(float4* out, const float4* p, unsigned n) {"
        "unsigned i = blockIdx.x * blockDim.x + threadIdx.x;" + BODY.replace("uint", "unsigned"),
        "nbody",
    )
    x, zb = far(places), mk.empty((bodies, 4), np.float32, "private")
    u, wb = cp.asarray(places), cp.empty((bodies, 4), cp.float32)
    yield Row(
        "n-body 65536",
        lambda: kb(zb, x, bodies, ndrange=bodies, workgroupsize=256),
        lambda: pb((bodies // 256,), (256,), (wb, u, np.uint32(bodies))),
        lambda: near(zb.numpy(), wb.get(), 1e-3),
        0.97,
        flops=20 * bodies**2,
    )


def mat_vecs() -> Iterator[Row]:
    folder = os.environ.get("METALKI_REALWORLD_SOURCES")
    found = sorted(Path(folder).glob("*ggml*")) if folder else []
    if not found:
        return
    import re

    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "realworld"))
    import ggml
    from test_numerics_ggml import mat_vec_members

    root = found[0]
    limits = (root / "src/ggml-metal/ggml-metal-impl.h").read_text(encoding="utf-8")
    rows, columns, tall = 4096, 4096, 64  # the matrix `tall` times, so that the cache does not hold it
    for kind in ("q4_0", "q4_K"):
        of_group, groups = (int(re.findall(rf"{what}_{kind.upper()}\s+(\d+)", limits)[0]) for what in ("N_R0", "N_SG"))
        blocks, values = ggml.BLOCKS[kind][0](random, rows, columns)
        x = random.standard_normal((1, columns)).astype(np.float32)
        members = mat_vec_members(blocks.nbytes // rows, columns, rows * tall, x)
        constants = {"FC_mul_mv_nsg": groups, "FC_mul_mv_ne12": 1, "FC_mul_mv_r2": 1, "FC_mul_mv_r3": 1}
        k = ggml.kernel(root, f"kernel_mul_mv_{kind}_f32", **constants)
        whole = np.tile(blocks.reshape(-1).view(np.uint8), tall)
        w, v, out = far(whole), far(x.view(np.uint8).reshape(-1)), mk.empty(4 * rows * tall, np.uint8, "private")
        scratch = [mk.threadgroup(32 * 4 * of_group)] if len(k.arguments) == 5 else []
        given = (ggml.args(root, "mul_mv", **members), w, v, out, *scratch)
        grid = (rows * tall // (of_group * groups), 1, 1)
        there, here = cp.empty(whole.nbytes // 2, cp.uint8), cp.ones(whole.nbytes // 2, cp.uint8)
        yield Row(
            f"ggml {kind} mat-vec / bandwidth",
            lambda k=k, given=given, grid=grid, groups=groups: k.launch(
                given, numworkgroups=grid, workgroupsize=(32, groups, 1)
            ),
            lambda there=there, here=here: there.data.copy_from_device_async(
                here.data, here.nbytes, cp.cuda.get_current_stream()
            ),
            lambda out=out, x=x, values=values: near(
                out.numpy().view(np.float32)[:rows], (x.astype(np.float64) @ values.T)[0], 1e-3
            ),
            0.6,
            bytes=whole.nbytes,
        )


def measure(row: Row) -> bool:
    """Prints the row and says whether its result is right."""

    def wait() -> None:
        mk.synchronize()
        cp.cuda.Device().synchronize()

    for _ in range(6):  # ours is compiled for its size when it comes again and again
        row.ours()
    row.peer()
    wait()
    right = row.check()
    once = milliseconds(row.ours, wait, 3)
    count = max(3, min(200, int(30 / once)))
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(options.repeat):
        for call, taken in zip((row.ours, row.peer), times, strict=True):
            taken.append(milliseconds(call, wait, count))
    mine, its = (statistics.median(taken) for taken in times)
    rate = (
        f"{row.bytes / mine / 1e6:8.0f} GB/s"
        if row.bytes
        else f"{row.flops / mine / 1e9:8.2f} TF/s"
        if row.flops
        else ""
    )
    missed = "" if its / mine >= row.reach else "  missed"
    print(
        f"{row.name:32} {mine:9.4f} {its:9.4f} {its / mine:7.3f} {row.reach:5.2f}{missed} {rate}"
        f"{'' if right else '  WRONG'}",
        flush=True,
    )
    results.append(
        {"row": row.name, "ms": mine, "peer ms": its, "ratio": its / mine, "reach": row.reach, "right": right}
    )
    return right


def launches() -> None:
    """Microseconds to give the device a launch, while it does not wait: no more of them than the queue takes at once."""
    empty = mk.Kernel("kernel void nothing() {}")
    parameters = (
        ", ".join(f"device float* a{i}" for i in range(20)) + ", " + ", ".join(f"constant uint& n{i}" for i in range(8))
    )
    many = mk.Kernel(f"kernel void many({parameters}) {{ if (n0 == 77) a0[0] = a19[0] + n7; }}")
    arrays = [mk.empty(64, np.float32, "private") for _ in range(20)]
    given = (*arrays, *range(8))
    p = raw("void nothing() {}", "nothing")
    theirs = ", ".join(f"float* a{i}" for i in range(20)) + ", " + ", ".join(f"unsigned n{i}" for i in range(8))
    pm = raw(f"void many({theirs}) {{ if (n0 == 77) a0[0] = a19[0] + n7; }}", "many")
    peers = [cp.empty(64, cp.float32) for _ in range(20)]
    peer_given = (*peers, *(np.uint32(i) for i in range(8)))
    stream = cp.cuda.get_current_stream()
    for name, ours, peer, limit in (
        ("enqueue of an empty kernel", lambda: empty(ndrange=32), lambda: p((1,), (32,), ()), 2.5),
        ("enqueue of 28 arguments", lambda: many.launch(given, ndrange=32), lambda: pm((1,), (32,), peer_given), 3.5),
    ):
        taken: tuple[list[float], list[float]] = ([], [])
        for _ in range(20):
            for call, wait, times in ((ours, mk.synchronize, taken[0]), (peer, stream.synchronize, taken[1])):
                wait()
                start = time.perf_counter()
                for _ in range(500):
                    call()
                times.append(1e6 * (time.perf_counter() - start) / 500)
        report(name, statistics.median(taken[0]), statistics.median(taken[1]), limit, "us")
    both: tuple[list[float], list[float]] = ([], [])
    for _ in range(300):
        for call, wait, times in (
            (lambda: empty(ndrange=32), mk.synchronize, both[0]),
            (lambda: p((1,), (32,), ()), stream.synchronize, both[1]),
        ):
            start = time.perf_counter()
            call()
            wait()
            times.append(1e6 * (time.perf_counter() - start))
    report("empty kernel and wait", statistics.median(both[0]), statistics.median(both[1]), 0, "us")


def compile_time() -> None:
    """Milliseconds from a source that nobody has seen to a kernel that can be launched."""
    taken = []
    for i in range(8):
        seed = f"{time.time_ns()}u"
        source = (
            MSL
            + f"kernel void k{i}(device uint* a, uint i [[thread_position_in_grid]]) {{ a[i] = a[i] * 3 + {seed}; }}"
        )
        start = time.perf_counter()
        mk.Kernel(source)
        taken.append(1e3 * (time.perf_counter() - start))
    report("compile of a small kernel", statistics.median(taken[1:]), 0, 60, "ms")


def report(name: str, mine: float, its: float, limit: float, unit: str) -> None:
    missed = "  missed" if limit and mine > limit else ""
    print(f"{name:32} {mine:9.2f} {its:9.2f} {unit} {f'<= {limit}' if limit else ''}{missed}", flush=True)
    results.append({"row": name, unit: mine, f"peer {unit}": its, "limit": limit})


results: list[dict[str, object]] = []


def main() -> int:
    wrong = 0
    print(f"{mk.device().name}; medians of {options.repeat} turns of both\n")
    print(f"{'kernel':32} {'ms':>9} {'peer ms':>9} {'ratio':>7} {'reach':>5}")
    for family in (vadd, copies, products, reductions, arithmetic, mat_vecs):
        for row in family():
            if not options.names or any(name in row.name for name in options.names):
                wrong += not measure(row)
    if not options.names:
        launches()
        compile_time()
    if options.json:
        options.json.write_text(
            json.dumps({"device": mk.device().name, "rows": results}, indent=1) + "\n", encoding="utf-8"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
