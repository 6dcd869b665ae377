"""What launch_configuration promises; how good its choice is, bench/launch_configuration.py measures."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metalki as mk
from metalki import kernel_interface as KI

B = mk.MetalBackend()
VECTORS = mk.device().kind == "cpu" and os.environ.get("METALKI_EXECUTOR") != "scalar"
HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
PLAIN = HEAD + "kernel void plain(device uint* a, uint i [[thread_position_in_grid]]) { a[i] = i; }"
SHARING = HEAD + (
    "kernel void sharing(device uint* a, threadgroup uint* t, uint i [[thread_position_in_grid]], "
    "uint l [[thread_index_in_threadgroup]]) { t[l] = i; threadgroup_barrier(mem_flags::mem_threadgroup); a[i] = t[l]; }"
)
SMALL = PLAIN.replace("kernel void plain", "[[max_total_threads_per_threadgroup(48)]] kernel void small")
SIZES = (
    st.integers(1, 70) | st.integers(1, 2**20) | st.sampled_from([2**k + d for k in range(1, 26) for d in (-1, 0, 1)])
)


@pytest.mark.parametrize("source", [PLAIN, SHARING, SMALL])
@settings(max_examples=200, deadline=None)
@given(ndrange=st.lists(SIZES, min_size=1, max_size=3).map(tuple), cap=st.none() | st.integers(1, 2000))
def test_promises(source: str, ndrange: tuple[int, ...], cap: int | None) -> None:
    kernel = mk.Kernel(source)
    groups, size = KI.launch_configuration(kernel, ndrange, cap)
    total, threads, width = math.prod(ndrange), math.prod(size), kernel.thread_execution_width
    assert len(groups) == len(size) == len(ndrange)
    assert all(1 <= s <= n and g == -(-n // s) for n, s, g in zip(ndrange, size, groups, strict=True))
    assert threads <= min(cap or threads, KI.kernel_max_work_group_size(kernel))
    # Whole SIMD-groups along x, the whole row, or what SIMD-groups consist of in whole rows.
    assert size[0] in (1, ndrange[0]) or size[0] % width == 0 or size[0] & (size[0] - 1) == 0
    # A group for every core, as soon as there is work for it: of threads that do next to nothing there have to be many.
    if source != SHARING or total >= 2**17:
        assert math.prod(groups) >= min(KI.multiprocessor_count(B), total // (2 * width))
    if source == SHARING and size[0] < ndrange[0]:
        assert size[0] & (size[0] - 1) == 0  # halved again and again by what reduces


def test_little_work_is_not_cut_up() -> None:
    kernel = mk.Kernel(PLAIN)
    for n in (1, 2, 31, 32, 33):
        assert KI.launch_configuration(kernel, n) == ((1,), (n,))
    assert KI.launch_configuration(kernel, (4, 4, 2)) == ((1, 1, 1), (4, 4, 2))
    for source in (PLAIN, SHARING):
        for shape in ((100,), (127,), (3, 5, 7)):
            assert KI.launch_configuration(mk.Kernel(source), shape)[1] == shape


@pytest.mark.parametrize(("shape", "cap"), [((3, 3, 5), 40), ((3, 3, 3), 20), ((3, 3, 50), 35), ((5, 5, 5), 63)])
def test_a_cap_leaves_groups_of_several_threads(shape: tuple[int, ...], cap: int) -> None:
    """Where powers of two in each axis stay far below it, too."""
    for source in (PLAIN, SHARING):
        assert math.prod(KI.launch_configuration(mk.Kernel(source), shape, cap)[1]) >= 8


@pytest.mark.parametrize("shape", [(3, 4099), (33, 4001), (127, 63, 31), (20, 20, 20)])
def test_rows_of_odd_length_are_not_joined(shape: tuple[int, ...]) -> None:
    for source in (PLAIN, SHARING):
        size = KI.launch_configuration(mk.Kernel(source), shape)[1]
        assert size[0] & (size[0] - 1) == 0 or math.prod(size) == size[0]


def test_a_launch_takes_it() -> None:
    source = HEAD + (
        "kernel void k(device uint* a, uint3 p [[thread_position_in_grid]], uint3 n [[threads_per_grid]], "
        "uint3 s [[threads_per_threadgroup]], uint3 w [[threadgroup_position_in_grid]]) "
        "{ if (all(w == 0)) for (int i = 0; i < 3; ++i) a[i] = s[i]; }"
    )
    kernel = mk.Kernel(source)
    for ndrange in ((1000,), (33, 57), (640, 480), (7, 5, 300)):
        out = mk.zeros(3, np.uint32)
        kernel(out, ndrange=ndrange)
        assert tuple(out.numpy()[: len(ndrange)]) == KI.launch_configuration(kernel, ndrange)[1]


HISTOGRAM = (
    HEAD
    + """kernel void histogram(device atomic_uint* bins, device const uint* a, uint i [[thread_position_in_grid]],
        uint l [[thread_index_in_threadgroup]], uint s [[threads_per_threadgroup]]) {
    threadgroup atomic_uint t[128];
    for (uint k = l; k < 128; k += s) atomic_store_explicit(&t[k], 0u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    atomic_fetch_add_explicit(&t[a[i] & 127], 1u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint k = l; k < 128; k += s)
        atomic_fetch_add_explicit(&bins[k], atomic_load_explicit(&t[k], memory_order_relaxed), memory_order_relaxed);
}"""
)
SUMS = (
    HEAD
    + """kernel void sums(device float* o, device const float* a, uint i [[thread_position_in_grid]],
        uint g [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
        uint sg [[simdgroup_index_in_threadgroup]], uint n [[simdgroups_per_threadgroup]]) {
    threadgroup float t[32];
    float v = simd_sum(a[i]);
    if (lane == 0) t[sg] = v;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (sg == 0) { v = simd_sum(lane < n ? t[lane] : 0); if (lane == 0) o[g] = v; }
}"""
)
HALVES = (
    HEAD
    + """kernel void halves(device float* o, device const float* a, uint i [[thread_position_in_grid]],
        uint l [[thread_index_in_threadgroup]], uint g [[threadgroup_position_in_grid]], uint s [[threads_per_threadgroup]]) {
    threadgroup float t[1024];
    t[l] = a[i];
    for (uint h = s / 2; h > 0; h /= 2) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (l < h) t[l] += t[l + h];
    }
    if (l == 0) o[g] = t[0];
}"""
)


@pytest.mark.skipif(not VECTORS, reason="an estimate of what the CPU's code costs")
def test_work_that_is_done_once_for_a_group_makes_groups_large() -> None:
    def threads(source: str, n: int) -> int:
        return math.prod(KI.launch_configuration(mk.Kernel(source), n)[1])

    for n in (2**16, 10**6, 2**24):
        assert threads(HALVES, n) == 256
        assert threads(SHARING, n) == (256 if n < 2**24 else 128)  # memory waits for no barrier
        assert threads(SHARING, n) < threads(SUMS, n) <= threads(HISTOGRAM, n) == 1024
    assert threads(HISTOGRAM, 257) == 257  # too short for a second core
    assert threads(HALVES, 257) == 256


def chosen_on(processor: str, *shapes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Work-group sizes of SHARING on another processor than this one."""
    program = (
        "import json, sys, metalki as mk\nsource, shapes = json.load(sys.stdin)\nkernel = mk.Kernel(source)\n"
        "print(json.dumps([mk.kernel_interface.launch_configuration(kernel, tuple(s))[1] for s in shapes]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"METALKI_CPU": processor},
        input=json.dumps([SHARING, shapes]),
        capture_output=True,
        text=True,
        check=True,
    )
    return [tuple(size) for size in json.loads(done.stdout)]


@pytest.mark.skipif(not VECTORS or platform.machine() != "x86_64", reason="caches and pages of processors")
def test_rows_of_one_group_lie_far_apart() -> None:
    *cubes, square = chosen_on("znver4", (256, 256, 256), (255, 257, 256), (4096, 4096))
    for x, y, z in cubes:
        assert x <= 128
        assert y == 1 < z
    assert square[1] > 1


@pytest.mark.skipif(not VECTORS or platform.machine() != "x86_64", reason="caches and pages of processors")
def test_a_group_is_one_piece_where_the_processor_looks_ahead_along_one_way() -> None:
    cube, square = chosen_on("znver5", (256, 256, 256), (4096, 4096))
    assert cube[0] == 256 or cube[1] == cube[2] == 1
    assert square[1] == 1


TRANSPOSED = (
    HEAD
    + """kernel void transposed(device float* o, device const float* a, threadgroup float* t,
        uint2 p [[thread_position_in_grid]], uint2 n [[threads_per_grid]], uint l [[thread_index_in_threadgroup]]) {
    t[l] = a[p.y * n.x + p.x];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    o[p.x * n.y + p.y] = t[l];
}"""
)


@pytest.mark.skipif(not VECTORS, reason="an estimate of what the CPU's code costs")
@pytest.mark.parametrize("shape", [(512, 512), (1000, 1000), (2048, 2048), (4096, 4096), (16, 65536), (640, 480)])
def test_groups_are_long_where_neighbours_in_memory_lie(shape: tuple[int, int]) -> None:
    """What is written by columns fills whole lines of the cache, at addresses that the cache can hold together."""
    x, y = KI.launch_configuration(mk.Kernel(TRANSPOSED), shape)[1]
    assert y >= 16
    assert x <= 32
    if shape[1] % 1024 == 0:
        assert x <= 8
    assert KI.launch_configuration(mk.Kernel(SHARING), shape)[1][0] > 8


@pytest.mark.skipif(not VECTORS, reason="an estimate of what the CPU's code costs")
def test_little_work_is_in_few_groups() -> None:
    for source in (SHARING, HALVES, SUMS):
        groups, _ = KI.launch_configuration(mk.Kernel(source), (33, 57))
        assert math.prod(groups) <= 8


@pytest.mark.skipif(not VECTORS, reason="how the CPU places threadgroup memory")
def test_vectors_may_reach_past_threadgroup_memory() -> None:
    """Lanes that are off touch nothing, but next to memory that may not be read their loads are many times as slow."""
    source = HEAD + (
        "kernel void k(device ulong* o, threadgroup uint* t, uint l [[thread_index_in_threadgroup]]) "
        "{ t[l] = l; threadgroup_barrier(mem_flags::mem_threadgroup); if (t[l] == 0) o[0] = ulong(t); }"
    )
    out = mk.zeros(1, np.uint64)
    for threads in (32, 256, 1024):
        mk.Kernel(source)(out, mk.threadgroup(4 * threads), ndrange=threads, workgroupsize=threads)
        assert -(int(out.numpy()[0]) + 4 * threads) % 4096 >= 32 * 4
