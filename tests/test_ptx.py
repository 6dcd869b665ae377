"""Code for NVIDIA GPUs, seen as text: needs no GPU. Where ptxas is found it assembles what is tested here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import metalki as mk

pytestmark = pytest.mark.skipif(mk.device().kind == "metal", reason="Metal has its own code")

HEAD = "#include <metal_stdlib>\n#include <metal_simdgroup_matrix>\nusing namespace metal;\n"
CONFORMANCE = Path(__file__).parent / "conformance"


def find_ptxas() -> str | None:
    """METALKI_PTXAS, or the one in PATH, in a CUDA toolkit, or of the package nvidia-cuda-nvcc."""
    places = [os.environ.get("METALKI_PTXAS"), shutil.which("ptxas"), "/usr/local/cuda/bin/ptxas"]
    places += [str(p) for folder in sys.path for p in Path(folder).glob("nvidia/cu*/bin/ptxas")]
    return next((place for place in places if place and Path(place).is_file()), None)


PTXAS = find_ptxas()


def assemble(text: str, folder: Path) -> None:
    """Fails with the messages of ptxas when it refuses the text."""
    if PTXAS is None:
        return
    source = folder / "kernel.ptx"
    source.write_text(text)
    result = subprocess.run(
        [PTXAS, "-arch=sm_90", "-O1", str(source), "-o", str(folder / "kernel.cubin")], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr


def code(text: str, folder: Path, **options: Any) -> str:
    result = mk.Kernel(HEAD + text, **options).disassemble("ptx")
    assemble(result, folder)
    return result


def test_places_are_registers_and_arguments_are_parameters(tmp_path: Path) -> None:
    text = code(
        "kernel void k(device float* o, device const float* a, constant uint& n, uint i [[thread_position_in_grid]])"
        " { if (i < n) o[i] = a[i] * 2; }",
        tmp_path,
    )
    assert ".visible .entry k(" in text
    assert "%ctaid.x" in text
    assert "%tid.x" in text
    assert ".local" not in text
    assert "ld.global.f32" in text
    assert "st.global.f32" in text
    assert "ld.global.nc" in text  # the constant
    assert not re.search(r"\b(ld|st)\.f32", text)  # no address whose space is unknown


def test_vectors_take_one_instruction_where_they_are_aligned(tmp_path: Path) -> None:
    text = code(
        "kernel void k(device float4* o, device const float4* a, uint i [[thread_position_in_grid]]) { o[i] = a[i]; }",
        tmp_path,
    )
    assert "ld.global.v4" in text
    assert "st.global.v4" in text
    assert not re.search(r"ld\.global\.(f32|u32|b32)", text)


def test_vectors_at_unknown_addresses_are_looked_at(tmp_path: Path) -> None:
    text = code(
        "kernel void k(device float4* o, device const float* a, uint i [[thread_position_in_grid]])"
        " { o[i] = *(device const float4*)(a + i); }",
        tmp_path,
    )
    assert "ld.global.v4" in text  # if it is aligned
    assert re.search(r"ld\.global\.(f32|u32|b32)", text)  # if it is not


def test_threadgroup_memory_is_shared_and_left_as_it_is(tmp_path: Path) -> None:
    text = code(
        "kernel void k(device float* o, threadgroup float* d [[threadgroup(0)]], uint i [[thread_position_in_threadgroup]])"
        " { threadgroup float s[64]; s[i] = i; d[i] = o[i]; threadgroup_barrier(mem_flags::mem_threadgroup);"
        " o[i] = s[63 - i] + d[63 - i]; }",
        tmp_path,
    )
    assert re.search(r"\.shared \.align 16 \.b8 threadgroup_memory\[256\];", text)
    assert ".extern .shared .align 16 .b8 threadgroup_arguments[]" in text
    assert "bar.sync" in text
    assert "ld.shared" in text
    assert "st.shared" in text


@pytest.mark.parametrize(
    ("function", "instruction"),
    [
        ("simd_sum(v)", "redux.sync.add.s32"),
        ("simd_max(v)", "redux.sync.max.s32"),
        ("simd_and(v)", "redux.sync.and.b32"),
        ("int(simd_sum(float(v)))", "shfl.sync.bfly.b32"),
        ("simd_shuffle_xor(v, 1)", "shfl.sync"),
        ("int((simd_vote::vote_t)simd_ballot(v > 0))", "vote.sync.ballot.b32"),
        ("quad_sum(v)", "shfl.sync.idx.b32"),
        ("simd_prefix_exclusive_sum(v)", "shfl.sync.idx.b32"),
    ],
)
def test_simd_functions_are_instructions_of_the_warp(function: str, instruction: str, tmp_path: Path) -> None:
    text = code(
        f"kernel void k(device int* o, uint i [[thread_position_in_grid]]) {{ int v = o[i]; o[i] = {function}; }}",
        tmp_path,
    )
    assert instruction in text
    assert "activemask.b32" in text
    assert ".local" not in text


@pytest.mark.parametrize(
    ("kind", "atomic", "instruction"),
    [
        ("atomic_float", "atomic_fetch_add_explicit(o, 1.5f, memory_order_relaxed)", "add.f32"),
        ("atomic_int", "atomic_fetch_max_explicit(o, 3, memory_order_relaxed)", "max.s32"),
        ("atomic_uint", "atomic_fetch_xor_explicit(o, 3u, memory_order_relaxed)", "xor.b32"),
        ("atomic_ulong", "atomic_max_explicit(o, 3ul, memory_order_relaxed)", "max.u64"),
    ],
)
def test_atomics_are_native(kind: str, atomic: str, instruction: str, tmp_path: Path) -> None:
    text = code(f"kernel void k(device {kind}* o) {{ {atomic}; }}", tmp_path)
    assert re.search(rf"(atom|red)\.(relaxed\.)?(gpu\.|sys\.)?(global\.)?(relaxed\.)?.*{re.escape(instruction)}", text)


MATRIX_LOOP = """
kernel void k(device const {0}* a, device const {0}* b, device float* c, constant uint& n) {{
    simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    for (uint i = 0; i < n; ++i) {{
        simdgroup_matrix<{0}, 8, 8> x, y;
        simdgroup_load(x, a + 64 * i);
        simdgroup_load(y, b + 64 * i);
        simdgroup_multiply_accumulate(sum, x, y, sum);
    }}
    simdgroup_store(sum, c);
}}
"""


@pytest.mark.parametrize("element", ["half", "bfloat"])
def test_small_matrices_go_to_the_tensor_cores(element: str, tmp_path: Path) -> None:
    text = code(MATRIX_LOOP.format(element), tmp_path)
    assert "mma.sync.aligned.m16n8k8" in text
    # One shuffle for A, two for B in each version of the loop (by alignment), and two behind it: the sum keeps the tensor
    # cores' layout.
    assert text.count("mma.sync") == 2
    assert text.count("shfl.sync") == 8


def test_products_with_the_same_second_factor_share_an_instruction(tmp_path: Path) -> None:
    text = code(
        "kernel void k(device const half* a, device const half* b, device float* c) {"
        " simdgroup_half8x8 x0, x1, y; simdgroup_load(x0, a); simdgroup_load(x1, a + 64); simdgroup_load(y, b);"
        " simdgroup_float8x8 s0 = make_filled_simdgroup_matrix<float, 8, 8>(0.0f), s1 = s0;"
        " simdgroup_multiply_accumulate(s0, x0, y, s0); simdgroup_multiply_accumulate(s1, x1, y, s1);"
        " simdgroup_store(s0, c); simdgroup_store(s1, c + 64); }",
        tmp_path,
    )
    assert text.count("mma.sync") == 1


PRODUCT_BEFORE_A_BRANCH = """
    simdgroup_half8x8 x, y;
    simdgroup_load(x, a); simdgroup_load(y, a + 64);
    simdgroup_float8x8 s = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    simdgroup_multiply_accumulate(s, x, y, s);
"""
MATRIX_KERNEL = (
    "kernel void k(device const half* a, device float* c, device const int* n,"
    " uint lane [[thread_index_in_simdgroup]]) {"
)


def between(text: str, first: str, last: str) -> str:
    """What stands between the last `first` and the `last` behind it."""
    start = text.rindex(first)
    return text[start : text.index(last, start)]


def test_all_lanes_give_their_elements_before_some_go_another_way(tmp_path: Path) -> None:
    text = code(
        MATRIX_KERNEL
        + PRODUCT_BEFORE_A_BRANCH
        + "int m = n[lane]; if (m < 3) return; c[2 * lane] = s.thread_elements()[0];"
        " if (m > 4) c[2 * lane + 1] = half(s.thread_elements()[1]); }",
        tmp_path,
    )
    assert between(text, "mma.sync", "\tret;").count("shfl.sync") == 2
    assert "shfl.sync" not in between(text, "\t@%p", "\tret;")


def test_elements_of_a_loop_with_its_own_end_in_each_lane_are_moved_behind_it(tmp_path: Path) -> None:
    text = code(
        MATRIX_KERNEL + "float v = 0; for (int i = 0; i < n[lane]; ++i) v += a[128 + i];"
        " simdgroup_float8x8 s = make_filled_simdgroup_matrix<float, 8, 8>(0.0f); simdgroup_half8x8 x, y;"
        " simdgroup_load(y, a); x.thread_elements()[0] = half(v); x.thread_elements()[1] = half(-v);"
        " simdgroup_multiply_accumulate(s, x, y, s); simdgroup_store(s, c); }",
        tmp_path,
    )
    assert "shfl.sync" not in text[: text.rindex("\t@%p")]
    assert "shfl.sync" in between(text, "\t@%p", "mma.sync")


def test_sums_that_come_from_different_ways_are_moved_where_these_meet(tmp_path: Path) -> None:
    text = code(
        MATRIX_KERNEL + PRODUCT_BEFORE_A_BRANCH + "if (n[lane] < 5) { s.thread_elements()[0] = a[n[lane + 64]];"
        " c[lane] = s.thread_elements()[1]; } simdgroup_multiply_accumulate(s, x, y, s); simdgroup_store(s, c + 64); }",
        tmp_path,
    )
    conditional = between(text, "\t@%p", "\n$L__BB")
    assert "st.global" in conditional
    assert "shfl.sync" not in conditional


def test_minimum_and_maximum_are_one_instruction(tmp_path: Path) -> None:
    text = code(
        "kernel void k(device float* a, device half* h, uint i [[thread_position_in_grid]])"
        " { a[i] = min(max(a[i], a[i + 9]), a[i + 20]); h[i] = fmax(h[i], h[i + 9]); }",
        tmp_path,
    )
    assert all(name in text for name in ("max.f32", "min.f32", "max.f16"))
    assert "setp" not in text.split("ld.global", 1)[1]


@pytest.mark.parametrize("kind", ["ushort", "short", "uchar", "char"])
def test_small_integers_become_floats_by_way_of_words(kind: str, tmp_path: Path) -> None:
    text = code(
        f"kernel void k(device float* o, device const {kind}* a, uint i [[thread_position_in_grid]])"
        " { o[i] = float(a[i] & 15) * a[i + 1]; }",
        tmp_path,
    )
    assert re.search(r"cvt\.rn\.f32\.[us]32", text)
    assert not re.search(r"cvt\.rn\.f32\.[us](8|16)", text)


@pytest.mark.parametrize("kind", ["uchar4", "ushort2", "ushort4"])
def test_vectors_of_small_integers_stay_in_words(kind: str, tmp_path: Path) -> None:
    width = kind[-1]
    text = code(
        f"kernel void k(device float{width}* o, device const {kind}* a, uint i [[thread_position_in_grid]])"
        f" {{ o[i] = float{width}(a[i]) * 0.5f; }}",
        tmp_path,
    )
    assert "lop3" in text
    assert "prmt" in text
    assert "cvt.rn.f32" not in text
    assert ".u16" not in text


def test_small_numbers_of_words_become_floats_in_pairs(tmp_path: Path) -> None:
    """One mask for two of them and no addition, where a sum may wait for a power of two."""
    source = (
        "kernel void k(device float* o, device const uint* a, device const float* y, uint i [[thread_position_in_grid]]) {"
        " uint w = a[i], q[2] = {w & 0xffff, w >> 16}; float s[4] = {0, 0, 0, 0}; for (int j = 0; j < 2; ++j) {"
        " s[0] += y[j] * (q[j] & 0x000f); s[1] += y[j + 2] * (q[j] & 0x00f0); s[2] += y[j + 4] * (q[j] & 0x0f00);"
        " s[3] += y[j + 6] * (q[j] & 0xf000); } o[i] = s[0] + s[1] / 16 + s[2] / 256 + s[3] / 4096; }"
    )
    text = code(source, tmp_path, options={"math_mode": "relaxed"})
    assert text.count("cvt.f32.f16") == 8
    assert not re.search(r"lop3|cvt\.rn\.f32", text)
    assert len(re.findall(r"and\.b32.*, (983055|15728880);", text)) == 4
    assert len(re.findall(r"mul\.rn\.f32", text)) <= 4 + 1  # the first products of each sum, and one power of two
    assert "cvt.f32.f16" not in code(source, tmp_path, options={"math_mode": "safe"})


def test_small_numbers_further_up_need_no_shift(tmp_path: Path) -> None:
    text = code(
        "kernel void k(device float* o, device const uint* a, uint i [[thread_position_in_grid]])"
        " { o[i] = (a[i] >> 9 & 63) * 0.3f; }",
        tmp_path,
        options={"math_mode": "safe"},
    )
    assert re.search(r"lop3\.b32 %r\d+, %r\d+, 32256, ", text)
    assert not re.search(r"shr|cvt\.rn\.f32", text)


def test_neighbours_of_small_integers_are_loaded_as_words(tmp_path: Path) -> None:
    text = code(
        "kernel void k(device float* o, device const ushort* a, constant uint& n, uint i [[thread_position_in_grid]]) {"
        " float t = 0; device const ushort* p = a + 4 * i; for (uint k = 0; k < n; ++k, p += 1024)"
        " for (int j = 0; j < 4; ++j) t += float(ushort(p[j] & 0xF0)) * (j + 1.5f); o[i] = t; }",
        tmp_path,
    )
    assert "ld.global.v2.u32" in text
    assert "lop3" in text
    assert not re.search(r"cvt\.rn\.f32\.[us](8|16)", text)


def test_sums_take_products_of_other_blocks(tmp_path: Path) -> None:
    text = code(
        "kernel void k(device float* o, device const float* a, uint i [[thread_position_in_grid]])"
        " { float q = a[i] * a[i + 9]; if (q > a[i + 20]) { o[i] = a[i + 30] - q; o[i + 1] = q + a[i + 40]; } }",
        tmp_path,
    )
    assert text.count("fma.rn.f32") == 2
    assert "sub.rn.f32" not in text


def test_exp_has_no_branches(tmp_path: Path) -> None:
    text = code("kernel void k(device float* a, uint i [[thread_position_in_grid]]) { a[i] = exp(a[i]); }", tmp_path)
    after = text.split("ld.global.f32", 1)[1]
    assert after.count("ex2.approx.f32") == 1
    assert "setp" not in after
    assert "selp" not in after


ROW_LOOP = """
kernel void k(device float* o, device const float* a, constant uint& n, uint l [[thread_index_in_simdgroup]]) {{
    float t = 0;
    for (uint i = l; i < n; i += {0}) t {1};
    o[l] = t;
}}
"""


@pytest.mark.parametrize(("step", "body", "reads"), [(32, "+= a[i]", 5), (32, "= max(t, a[i])", 5), (33, "+= a[i]", 1)])
def test_loops_that_read_have_several_reads_under_way(step: int, body: str, reads: int, tmp_path: Path) -> None:
    # Four at a time and the rest one by one; with a step of 33 the counter may start again below the end.
    assert code(ROW_LOOP.format(step, body), tmp_path).count("ld.global.f32") == reads


def test_neighbours_are_loaded_together(tmp_path: Path) -> None:
    text = code(
        "kernel void k(device float* o, device const float* a, constant uint& n, uint i [[thread_position_in_grid]]) {"
        " float t = 0; device const float* p = a + 8 * i;"
        " for (uint k = 0; k < n; ++k, p += 1024) for (int j = 0; j < 8; ++j) t += p[j] * (j + 1.5f); o[i] = t; }",
        tmp_path,
    )
    assert text.count("ld.global.v4.f32") >= 2


def test_more_loads_than_registers_are_asked_for_in_batches(tmp_path: Path) -> None:
    text = code(
        "kernel void k(device float* o, device const float* a, constant uint& n, constant uint& m,"
        " uint i [[thread_position_in_grid]]) {"
        " float t = 0; device const float* p = a + i; for (uint k = 0; k < n; ++k, p += 7)"
        ' _Pragma("unroll") for (int j = 0; j < 96; ++j) t = t * 0.5f + p[j * m] * (j + 1); o[i] = t; }',
        tmp_path,
    )
    between = re.split(r"(?:fma|mul|add)\.rn\.f32", text)
    assert sum("ld.global" in part for part in between) == 2


def test_neighbours_that_lie_differently_in_each_thread_are_not(tmp_path: Path) -> None:
    text = code(
        "kernel void k(device float* o, device const float* a, uint i [[thread_position_in_grid]])"
        " { o[i] = a[i] * 2 + a[i + 1] * 3 + a[i + 2] * 4 + a[i + 3] * 5 + a[i + 4]; }",
        tmp_path,
    )
    assert "ld.global.v" not in text


def test_float_matrices_stay_exact(tmp_path: Path) -> None:
    text = code(MATRIX_LOOP.format("float"), tmp_path)
    assert "mma" not in text
    assert "fma.rn.f32" in text


def test_elements_chosen_at_run_time_stay_in_registers(tmp_path: Path) -> None:
    text = code(
        "kernel void k(device float* o, device float4* v, uint i [[thread_position_in_grid]])"
        " { float4 x = v[i]; float m[8]; for (int j = 0; j < 8; ++j) m[j] = x[j % 4] * j;"
        " x[i % 4] = m[i % 8]; v[i] = sin(x); o[i] = x[(i + 1) % 4]; }",
        tmp_path,
    )
    assert ".local" not in text


@pytest.mark.parametrize("function", ["sin", "cos", "tan", "exp", "log", "asin", "acosh", "sinpi", "exp10"])
def test_mathematics_needs_no_library(function: str, tmp_path: Path) -> None:
    text = code(
        f"kernel void k(device float* o, uint i [[thread_position_in_grid]]) {{ o[i] = {function}(o[i]); }}", tmp_path
    )
    assert ".extern .func" not in text
    assert ".local" not in text


@pytest.mark.parametrize("kind", ["half", "bfloat", "half2", "float3"])
def test_mathematics_of_narrow_numbers_and_vectors_needs_no_calls(kind: str, tmp_path: Path) -> None:
    one = ["sin", "tan", "exp", "log2", "tanh", "sqrt", "rint", "acos"]
    two = ["fmod", "pow", "atan2", "fdim", "copysign"]
    calls = [f"{name}(a[i])" for name in one] + [f"{name}(a[i], a[i + 1])" for name in two]
    body = " ".join(f"o[{j} * n + i] = {kind}({call});" for j, call in enumerate(calls))
    text = code(
        f"kernel void k(device {kind}* o, device const {kind}* a, constant uint& n, uint i [[thread_position_in_grid]])"
        f" {{ {body} }}",
        tmp_path,
    )
    assert "call.uni" not in text


def test_math_modes(tmp_path: Path) -> None:
    source = "kernel void k(device float* o) { o[0] = o[1] / o[2] + o[3] * o[4] + sqrt(o[5]); }"
    safe = code(source, tmp_path, options={"math_mode": "safe"})
    assert "div.rn.f32" in safe
    assert "sqrt.rn.f32" in safe
    assert "fma" not in safe
    fast = code(source, tmp_path, options={"math_mode": "fast"})
    assert "div.full.f32" in fast
    assert "sqrt.approx" in fast
    assert "fma.rn" in fast


def test_messages_are_written_by_the_kernel(tmp_path: Path) -> None:
    text = code('kernel void k(device float* o) { printf("%f %v3f\\n", o[0], float3(o[1])); }', tmp_path)
    assert "atom" in text  # room in the buffer
    assert ".extern .func" not in text


def test_forms_that_do_not_exist_are_named() -> None:
    with pytest.raises(mk.MetalkiError, match='"ptx"'):
        mk.Kernel(HEAD + "kernel void k(device float* o) { o[0] = 1; }").disassemble("sass")


# Two bytes that are loaded as a pair and compared: LLVM takes them through memory.
STILL_IN_MEMORY = {"vectors.compare_uchar2"}


def own_array(source: str) -> bool:
    """Whether the kernel declares an array of its own."""
    return (
        re.search(
            r"\b(int|uint|float|half|short|char|uchar)\s+\w+\[\w+\]", source.replace("threadgroup ", "threadgroup_")
        )
        is not None
    )


@pytest.mark.parametrize("category", sorted(path.stem for path in (CONFORMANCE / "data").glob("*.json")))
def test_conformance_kernels_assemble_and_need_no_memory_of_their_own(category: str, tmp_path: Path) -> None:
    sys.path.insert(0, str(CONFORMANCE))
    try:
        from adapter import MetalkiAdapter
    finally:
        sys.path.pop(0)
    for case in json.loads((CONFORMANCE / "data" / f"{category}.json").read_text())["cases"]:
        if "expect_error" in case:
            continue
        text = mk.Kernel(
            case["source"],
            case["kernel"],
            function_constants=MetalkiAdapter._constants(case),
            options={"math_mode": case.get("compile", {}).get("math_mode", "safe")},
        ).disassemble("ptx")
        if case["id"] in STILL_IN_MEMORY:
            assert ".local" in text, "this case has become better: take it off the list"
        else:
            assert ".local" not in text or own_array(case["source"]), case["id"]
        assert ".extern .func" not in text, case["id"]
        assemble(text, tmp_path)


def test_rows_side_by_side_need_one_address(tmp_path: Path) -> None:
    """Rows a distance apart, each with a scale and what it scales: only the first address is counted up, and that of y."""
    text = code(
        "struct block { half d; uchar qs[16]; };"
        " float product(device const block* b, float all, thread float* y, int il) {"
        " device const ushort* qs = (device const ushort*)b + 1 + il / 2; float d = b->d, s[4] = {0, 0, 0, 0};"
        " for (int i = 0; i < 8; i += 2) { s[0] += y[i] * (qs[i / 2] & 15); s[1] += y[i + 1] * (qs[i / 2] & 3840);"
        " s[2] += y[i + 8] * (qs[i / 2] & 240); s[3] += y[i + 9] * (qs[i / 2] & 61440); }"
        " return d * (all * -8.f + s[0] + s[1] + s[2] + s[3]); }"
        " kernel void k(constant ulong& stride, constant int& n, device const char* a, device const float* x,"
        " device float* out, uint3 group [[threadgroup_position_in_grid]], ushort lane [[thread_index_in_simdgroup]],"
        " ushort simd [[simdgroup_index_in_threadgroup]]) {"
        " const int first = (group.x * 2 + simd) * 4; device const block* rows[4];"
        " for (int r = 0; r < 4; ++r) rows[r] = (device const block*)(a + (first + r) * stride);"
        " float yl[16], sums[4] = {0, 0, 0, 0}; const short ix = lane / 2, il = lane % 2 * 8;"
        " device const float* y = x + ix * 32 + il; for (int b = ix; b < n / 32; b += 16) { float all = 0;"
        " for (int i = 0; i < 8; i += 2) { all += y[i] + y[i + 1] + y[i + 16] + y[i + 17]; yl[i] = y[i];"
        " yl[i + 1] = y[i + 1] / 256; yl[i + 8] = y[i + 16] / 16; yl[i + 9] = y[i + 17] / 4096; }"
        " for (int r = 0; r < 4; ++r) sums[r] += product(rows[r] + b, all, yl, il); y += 512; }"
        " for (int r = 0; r < 4; ++r) { float t = simd_sum(sums[r]); if (lane == 0) out[first + r] = t; } }",
        tmp_path,
    )
    assert text.count("ld.global.u16") == 32  # y is aligned, or not
    assert len(re.findall(r"add\.s64 \t(%rd\d+), \1,", text)) <= 4
