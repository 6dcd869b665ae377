"""Functions of headers that call themselves: real calls, bounded by the thread's stack. A program's own may not."""

from __future__ import annotations

import numpy as np
import pytest

import metalki as mk

HEAD = '#include <metal_stdlib>\n#include "recursive.h"\nusing namespace metal;\n'
TREE = """
#include <metal_stdlib>
using namespace metal;
int leaves(int depth, int width) {
    if (depth == 0) return 1;
    int sum = 0;
    for (int i = 0; i < width; i++) sum += leaves(depth - 1, width);
    return sum;
}
"""


def compiled(header: str, kernel: str) -> mk.Kernel:
    return mk.Kernel(HEAD + kernel, options={"headers": {"recursive.h": header}})


@pytest.mark.parametrize("body", ["", "threadgroup_barrier(mem_flags::mem_none);"], ids=["alone", "beside a barrier"])
@pytest.mark.parametrize("n", [1, 100, 1000])
def test_threads_go_to_depths_of_their_own(n: int, body: str) -> None:
    kernel = f"kernel void k(device int* o, uint i [[thread_position_in_grid]]) {{ {body} o[i] = leaves(i % 7, 3); }}"
    out = mk.zeros(n, np.int32)
    compiled(TREE, kernel)(out, ndrange=n)
    np.testing.assert_array_equal(out.numpy(), 3 ** (np.arange(n) % 7))


@pytest.mark.stops_kernels
@pytest.mark.parametrize("local", ["int kept[4] = {n};", "int kept[30000] = {n}; kept[n & 4095] = o[n & 63];"])
@pytest.mark.parametrize("body", ["", "threadgroup_barrier(mem_flags::mem_none);"], ids=["alone", "beside a barrier"])
def test_endless_recursion_is_a_fault_that_names_the_stack(local: str, body: str) -> None:
    """Frames larger than the guard below the stack do not step over it."""
    down = (
        f"int down(int n, device int* o) {{ {local} int a = down(n + 1, o); return a ^ down(n + 2, o) * kept[a & 3]; }}"
    )
    kernel = f"kernel void k(device int* o, uint i [[thread_position_in_grid]]) {{ {body} o[i] = down(i, o); }}"
    out = mk.zeros(64, np.int32)
    compiled(down, kernel)(out, ndrange=64)
    with pytest.raises(mk.DeviceError, match="kernel 'k': stack overflow"):
        mk.synchronize()
    out = mk.zeros(64, np.int32)
    compiled(TREE, "kernel void k(device int* o, uint i [[thread_position_in_grid]]) { o[i] = leaves(2, 2); }")(
        out, ndrange=64
    )
    assert out.numpy().tolist() == [4] * 64


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("barriers and SIMD-group functions", "return n < 1 ? 0 : n + simd_sum(f(n - 1) * 3);"),
        (
            "barriers and SIMD-group functions",
            "int a = n ? f(n - 1) : 0; threadgroup_barrier(mem_flags::mem_none); return a * n;",
        ),
        ("threadgroup memory", "threadgroup int t; t = n; return n < 1 ? 0 : f(n - 1) * t + t;"),
    ],
)
def test_threads_cannot_meet_inside_of_recursion(what: str, body: str) -> None:
    header = f"#include <metal_stdlib>\nusing namespace metal;\nint f(int n) {{ {body} }}"
    with pytest.raises(mk.CompileError, match=what + " .* in functions that call themselves"):
        compiled(header, "kernel void k(device int* o, uint i [[thread_position_in_grid]]) { o[i] = f(i); }")


@pytest.mark.parametrize("version", ["3.0", "3.2"])
def test_a_programs_own_functions_have_no_recursion(version: str) -> None:
    source = TREE + "kernel void k(device int* o) { o[0] = leaves(2, 2); }"
    with pytest.raises(mk.CompileError, match="recursion is not supported in Metal: 'leaves' calls itself"):
        mk.compile(source, options={"language_version": version})
