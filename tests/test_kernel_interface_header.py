"""`#include <kernel_interface>`: the vocabulary of KernelInterface inside a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metalki as mk

HEAD = "#include <metal_stdlib>\n#include <kernel_interface>\nusing namespace metal;\n"


def test_vadd() -> None:
    source = (
        HEAD
        + """
    kernel void vadd(device float* c, device const float* a, device const float* b, constant uint& n, KI_ARGS) {
        uint i = KI.get_global_id().x;
        if (i < n) c[i] = a[i] + b[i];
    }"""
    )
    a, b, c = mk.array(np.arange(100, dtype=np.float32)), mk.ones(100), mk.zeros(100)
    mk.Kernel(source)(c, a, b, 90, ndrange=100)
    assert c.numpy()[:90].tolist() == [k + 1 for k in range(90)]
    assert not c.numpy()[90:].any()


@pytest.mark.parametrize(
    ("ndrange", "group"), [((7,), (3,)), ((5, 6), (2, 4)), ((5, 3, 4), (2, 2, 3)), ((70, 2), (64, 1))]
)
def test_positions_agree_with_the_ndrange(ndrange: tuple[int, ...], group: tuple[int, ...]) -> None:
    source = (
        HEAD
        + """
    kernel void k(device uint* o, KI_ARGS) {
        uint3 g = KI.get_global_id(), s = KI.get_global_size();
        device uint* p = o + 20 * ki::linear(g, s);
        uint3 values[6] = {g, s, KI.get_local_id(), KI.get_local_size(), KI.get_group_id(), KI.get_num_groups()};
        for (int k = 0; k < 18; ++k) p[k] = values[k / 3][k % 3];
        p[18] = KI.get_sub_group_id() * 1000 + KI.get_sub_group_local_id();
        p[19] = KI.get_sub_group_size() * 1000 + KI.get_num_sub_groups();
    }"""
    )
    full, block = ndrange + (1,) * (3 - len(ndrange)), group + (1,) * (3 - len(group))
    out = mk.zeros((full[2], full[1], full[0], 20), np.uint32)
    mk.Kernel(source)(out, ndrange=ndrange, workgroupsize=group)
    groups = [-(-n // b) for n, b in zip(full, block, strict=True)]
    for z, y, x in np.ndindex(full[2], full[1], full[0]):
        position = np.array([x, y, z])
        index = position // block
        size = np.minimum(block, full - index * block)
        local = position % block
        linear = local[0] + size[0] * (local[1] + size[1] * local[2])
        total = int(size.prod())
        got = out.numpy()[z, y, x]
        expected = [*position, *full, *local, *size, *index, *groups]
        assert got[:18].tolist() == expected
        assert got[18] == linear // 32 * 1000 + linear % 32
        assert got[19] == min(32, total - linear // 32 * 32) * 1000 + -(-total // 32)


def test_local_memory_barrier_and_shuffle() -> None:
    source = (
        HEAD
        + """
    kernel void reverse(device float* o, device const float* a, KI_ARGS) {
        KI_LOCALMEM(float, one, 64);
        KI_LOCALMEM(float, two, 8, 8);
        uint l = KI.get_local_id().x, i = KI.get_global_id().x;
        one[l] = a[i];
        two[l / 8][l % 8] = a[i];
        KI.barrier();
        o[i] = one[63 - l] + two[0][0] + 1000 * KI.shfl_down(float(l), 1);
    }"""
    )
    a, o = mk.array(np.arange(128, dtype=np.float32)), mk.zeros(128)
    mk.Kernel(source)(o, a, ndrange=128, workgroupsize=64)
    for i in (0, 5, 30, 70, 100):
        start, local = i // 64 * 64, i % 64
        assert o.numpy()[i] == (start + 63 - local) + start + 1000 * (local + 1)


def test_cartesian_index() -> None:
    source = (
        HEAD
        + """
    kernel void k(device uint3* o, device uint2* p, KI_ARGS) {
        uint i = KI.get_global_id().x;
        o[i] = ki::cartesian<3>(i, uint3(3, 4, 5));
        p[i] = ki::cartesian<2>(i, uint2(3, 20)) + ki::cartesian<1>(i, 60) * 0;
    }"""
    )
    o, p = mk.zeros((60, 4), np.uint32), mk.zeros((60, 2), np.uint32)
    mk.Kernel(source)(o, p, ndrange=60)
    for i in range(60):
        assert o.numpy()[i, :3].tolist() == [i % 3, i // 3 % 4, i // 12]
        assert p.numpy()[i].tolist() == [i % 3, i // 3]


@pytest.mark.parametrize(
    ("ndrange", "index"), [("uint", "p"), ("uint2", "p.x + 64 * p.y"), ("uint3", "p.x + 64 * (p.y + 64 * p.z)")]
)
def test_no_division_for_the_index(ndrange: str, index: str) -> None:
    source = HEAD + f"kernel void k(device float* o, {ndrange} p [[thread_position_in_grid]]) {{ o[{index}] = 1; }}"
    text: Any = mk.Kernel(source).disassemble("llvm")
    assert "define" in text
    assert "div" not in text
    assert "rem" not in text
    source = (
        HEAD
        + "kernel void k(device float* o, KI_ARGS) { o[ki::linear(KI.get_global_id(), KI.get_global_size())] = 1; }"
    )
    text = mk.Kernel(source).disassemble("llvm")
    assert "define" in text
    assert "udiv" not in text
    assert "urem" not in text
    assert "sdiv" not in text
