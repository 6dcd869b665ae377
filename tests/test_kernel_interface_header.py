"""`#include <kernel_interface>`: the vocabulary of KernelInterface inside a kernel."""

from __future__ import annotations

import re

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


DIVISIONS = re.compile(r"\b(udiv|urem|sdiv|srem|fdiv)\b")
POSITIONS = {
    "1-D, an attribute": ("uint p [[thread_position_in_grid]]", "p"),
    "2-D, an attribute": ("uint2 p [[thread_position_in_grid]], uint2 n [[threads_per_grid]]", "p.x + n.x * p.y"),
    "3-D, an attribute": (
        "uint3 p [[thread_position_in_grid]], uint3 n [[threads_per_grid]]",
        "p.x + n.x * (p.y + n.y * p.z)",
    ),
    "1-D": ("KI_ARGS", "KI.get_global_id().x"),
    "2-D": ("KI_ARGS", "ki::linear(KI.get_global_id().xy, KI.get_global_size().xy)"),
    "3-D": ("KI_ARGS", "ki::linear(KI.get_global_id(), KI.get_global_size())"),
    "group and local": ("KI_ARGS", "ki::expand(KI.get_group_id(), KI.get_local_id(), KI.get_local_size()).x"),
    "sub-groups": ("KI_ARGS", "KI.get_sub_group_id() * KI.get_max_sub_group_size() + KI.get_sub_group_local_id()"),
}


def llvm_of(parameters: str, body: str) -> str:
    text = mk.Kernel(f"{HEAD}kernel void k(device float* o, {parameters}) {{ {body} }}").disassemble("llvm")
    assert "define" in text
    assert "store" in text or "masked.scatter" in text
    return text


@pytest.mark.skipif(mk.device().kind != "cpu", reason="other devices show no LLVM IR")
@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("name", POSITIONS)
def test_an_index_needs_no_division_and_32_bits(name: str, guarded: bool) -> None:
    parameters, index = POSITIONS[name]
    limit = "constant uint& limit, " if guarded else ""
    text = llvm_of(limit + parameters, f"uint i = {index}; {'if (i < limit)' if guarded else ''} o[i] = 1;")
    assert not DIVISIONS.search(text)
    # A row's start may be counted in a 64-bit register, what differs from thread to thread is not.
    assert not re.search(r"\bmul\b[^\n]*<[0-9]+ x i64>", text)


@pytest.mark.skipif(mk.device().kind != "cpu", reason="other devices show no LLVM IR")
def test_cartesian_divides_in_32_bits_whenever_the_shape_fits() -> None:
    narrow = llvm_of("constant uint3& shape, KI_ARGS", "o[ki::cartesian<3>(KI.get_global_id().x, shape).y] = 1;")
    assert re.search(r"\budiv [^\n]*i32\b", narrow)
    assert not re.search(r"\b[us](div|rem) [^\n]*i64\b", narrow)
    wide = llvm_of("constant ulong3& shape, constant ulong& i, KI_ARGS", "o[ki::cartesian<3>(i, shape).y] = 1;")
    assert re.search(r"\budiv [^\n]*i32\b", wide)  # taken where the numbers fit
    assert re.search(r"\budiv [^\n]*i64\b", wide)


@pytest.mark.parametrize("linear", [0, 5, 59, 2**32 - 1, 2**32, 2**40 + 123, 2**63 + 17])
def test_cartesian_beyond_32_bits(linear: int) -> None:
    source = (
        HEAD
        + """kernel void k(device ulong* o, constant ulong& i, constant ulong2& two, constant ulong3& three,
                      constant ulong4& four) {
        ulong2 a = ki::cartesian<2>(i, two); ulong3 b = ki::cartesian<3>(i, three); ulong4 c = ki::cartesian<4>(i, four);
        for (int k = 0; k < 2; ++k) o[k] = a[k];
        for (int k = 0; k < 3; ++k) o[2 + k] = b[k];
        for (int k = 0; k < 4; ++k) o[5 + k] = c[k];
    }"""
    )
    out = mk.zeros(9, np.uint64)
    two, three, four = (3, 2**62), (2**20, 2**10, 2**40), (7, 2**33 + 1, 5, 2**50)
    mk.Kernel(source)(out, linear, two, three, four, ndrange=1)
    expected = []
    for shape in (two, three, four):
        rest = linear
        for size in shape[:-1]:
            expected.append(rest % size)
            rest //= size
        expected.append(rest)
    assert out.numpy().tolist() == expected
