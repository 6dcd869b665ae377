"""The language: what MSL has beyond C++, compiled and run. One small kernel a point, with its expected result beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metalki as mk

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"


def run(
    body: str, *, dtype: Any = np.float32, n: int = 4, before: str = "", group: int | None = None, **options: Any
) -> list[Any]:
    """Runs `body` with `o`, a device array of n numbers, and the thread index `i`; returns what `o` holds afterwards."""
    names = {np.dtype(np.float32): "float", np.dtype(np.int32): "int", np.dtype(np.uint32): "uint"}
    name = names[np.dtype(dtype)]
    source = f"{HEAD}{before}\nkernel void k(device {name}* o, uint i [[thread_position_in_grid]]) {{ {body} }}"
    out = mk.zeros(n, dtype)
    mk.Kernel(source, **options)(out, ndrange=n, workgroupsize=group or n)
    return list(out.numpy().tolist())


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("float4 v(1, 2, 3, 4); o[i] = v.wzyx[i];", [4, 3, 2, 1]),
        ("float4 v(0); v.xw = float2(5, 6); o[i] = v[i];", [5, 0, 0, 6]),
        ("float4 v(1, 2, 3, 4); v.zx += 10; o[i] = v[i];", [11, 2, 13, 4]),
        ("float4 v(1, 2, 3, 4); ++v.yz; o[i] = v[i];", [1, 3, 4, 4]),
        ("float4 v(1, 2, 3, 4); v.rgb = v.bgr; o[i] = v[i];", [3, 2, 1, 4]),
        ("thread float4 v(1, 2, 3, 4); thread float4* p = &v; p->xy = p->zw; o[i] = v[i];", [3, 4, 3, 4]),
        ("packed_float3 p = float3(1, 2, 3); float3 v = p; o[i] = i < 3 ? v[i] : p[0];", [1, 2, 3, 1]),
    ],
)
def test_swizzles(body: str, expected: list[float]) -> None:
    assert run(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("o[i] = 0.1;", 0.1),
        ("o[i] = 1e3;", 1000),
        ("o[i] = 0x1p-3;", 0.125),
        ("o[i] = 0.1h;", np.float16(0.1)),
        ("o[i] = 2.5bf;", 2.5),
        ("o[i] = sizeof(0.5);", 4),
        ("o[i] = sizeof(0.5h);", 2),
    ],
)
def test_literals_are_never_double(body: str, expected: float) -> None:
    assert run(body)[0] == np.float32(expected)


@pytest.mark.parametrize(
    "conversion",
    ["half(b)", "(half)b", "static_cast<half>(b)", "half(float(b))"],
)
def test_bfloat_to_half(conversion: str) -> None:
    assert run(f"bfloat b = 1.5bf; half h = {conversion}; o[i] = h;")[0] == 1.5


def test_bfloat_to_half_without_a_cast() -> None:
    assert run("bfloat b = 1.5bf; half h = b; o[i] = h; bfloat c = h; o[i] += c;")[0] == 3


def test_conditional_operator_across_address_spaces() -> None:
    body = "device S* d = (device S*)o; d[0] = S{7}; S t{9}; S r = i > 1 ? d[0] : t; if (i > 0) o[i] = r.x;"
    assert run(body, before="struct S { float x; };", n=3)[2] == 7


SPACES = """
struct V {
    int x;
    int which() const device { return x + 1000; }
    int which() const thread { return x + 2000; }
    int which() const constant { return x + 3000; }
    int which() const threadgroup { return x + 4000; }
    int operator[](int k) const device { return k + 10; }
    int operator[](int k) const thread { return k + 20; }
    int same() const device { return x; }
    int same() const thread { return x; }
    device int* where() device { return &x; }
    thread int* where() thread { return &x; }
};
constant V table{1};
"""


def test_members_overloaded_by_address_space() -> None:
    body = """threadgroup V g; V t{2}; device V* d = (device V*)(o + 7); d->x = 3; g.x = 4;
              o[0] = table.which(); o[1] = t.which(); o[2] = d->which(); o[3] = g.which();
              o[4] = (*d)[1]; o[5] = t[1]; *d->where() += 1; o[6] = d->same() + t.same();"""
    assert run(body, before=SPACES, dtype=np.int32, n=8)[:7] == [3001, 2002, 1003, 4004, 11, 21, 6]


def test_member_templates_that_differ_in_their_result_only() -> None:
    before = """
    struct Op {
        template <typename T> enable_if_t<is_integral_v<T>, T> operator()(T a, T b) thread { return a / b; }
        template <typename T> enable_if_t<!is_integral_v<T>, T> operator()(T a, T b) thread { return 10 * a / b; }
    };
    """
    assert run("o[i] = Op{}(7, 2) + Op{}(7.0f, 2.0f);", before=before)[0] == 38


def test_overloads_and_specialisations_by_address_space() -> None:
    before = """
    int space(device const float*) { return 1; }
    int space(constant float*) { return 2; }
    int space(threadgroup float*) { return 3; }
    int space(thread const float*) { return 4; }
    template <class T> struct name { static constexpr constant int value = 0; };
    template <class T> struct name<device T*> { static constexpr constant int value = 1; };
    template <class T> struct name<threadgroup T*> { static constexpr constant int value = 3; };
    constant float c[1] = {0};
    """
    body = """threadgroup float g[1]; float t[1];
              o[0] = space((device float*)o); o[1] = space(c); o[2] = space(g); o[3] = space(t);
              o[4] = name<device int*>::value; o[5] = name<threadgroup float*>::value; o[6] = name<float>::value;"""
    assert run(body, before=before, dtype=np.int32, n=7) == [1, 2, 3, 4, 1, 3, 0]


def test_constant_tables() -> None:
    before = "constant float table[4] = {1, 2, 3, 4}; constant float2 pairs[2] = {float2(1, 2), {3, 4}};"
    body = "constant int local[] = {10, 20, 30, 40}; o[i] = table[i] + local[i] + pairs[1].y;"
    assert run(body, before=before) == [15, 26, 37, 48]


def test_threadgroup_arrays_as_parameters() -> None:
    before = """
    void fill(threadgroup float a[4], threadgroup float b[2][2], uint i) { a[i] = i; b[i / 2][i % 2] = 10 * i; }
    template <int N> float sum(threadgroup float (&a)[N]) { float s = 0; for (int k = 0; k < N; ++k) s += a[k]; return s; }
    """
    body = """threadgroup float a[4]; threadgroup float b[2][2]; fill(a, b, i);
              threadgroup_barrier(mem_flags::mem_threadgroup); o[i] = sum(a) + b[1][0];"""
    assert run(body, before=before) == [26, 26, 26, 26]


def test_threadgroup_memory_of_several_functions_is_apart() -> None:
    before = """
    float one(float x, uint i) {
        threadgroup float s[4]; s[i] = x; threadgroup_barrier(mem_flags::mem_threadgroup); return s[3 - i]; }
    template <class T> T two(T x, uint i) {
        threadgroup T s[4]; s[i] = x; threadgroup_barrier(mem_flags::mem_threadgroup); return s[0]; }
    """
    assert run("o[i] = one(i, i) + 10 * two<float>(i + 1, i) + two<int>(i, i);", before=before) == [13, 12, 11, 10]


def test_empty_threadgroup_initialiser() -> None:
    assert run("threadgroup float s[4] = {0}; s[i] = i; o[i] = s[i];") == [0, 1, 2, 3]


def test_lambdas_and_templates() -> None:
    before = """
    template <class T, class... Rest> T add(T a, Rest... rest) {
        if constexpr (sizeof...(rest) > 0) return a + add(rest...); else return a; }
    template <class F> float twice(F f, float x) { return f(f(x)); }
    """
    assert run(
        "float k = 2; auto f = [=](float x) { return x * k; }; o[i] = add(1.0f, 2.0f, twice(f, i));", before=before
    ) == [
        3,
        7,
        11,
        15,
    ]


def test_host_names_and_explicit_instantiations() -> None:
    source = (
        HEAD
        + """
    template <typename T, int K> [[kernel]] void fill(device T* o [[buffer(0)]], uint i [[thread_position_in_grid]]) {
        o[i] = T(K);
    }
    template [[host_name("fill_float")]] kernel void fill<float, 3>(device float*, uint);
    typedef decltype(fill<int, 4>) fill_t;
    template [[host_name("fill_int")]] kernel fill_t fill<int, 4>;
    """
    )
    library = mk.compile(source)
    assert sorted(library.function_names) == ["fill_float", "fill_int"]
    out = mk.zeros(2, np.int32)
    library["fill_int"](out, ndrange=2)
    assert out.numpy().tolist() == [4, 4]


CONSTANTS = (
    HEAD
    + """
constant int N [[function_constant(0)]];
constant bool HAS [[function_constant(1)]];
constant int twice = N * 2;
constant int or_seven = is_function_constant_defined(N) ? N : 7;
kernel void derived(device int* o) { o[0] = twice; }
kernel void asked(device int* o) { o[0] = or_seven; }
kernel void optional(device int* o, device const int* bias [[function_constant(HAS)]]) { o[0] = HAS ? bias[0] : -1; }
"""
)


def test_function_constants() -> None:
    out = mk.zeros(1, np.int32)

    def value(name: str, constants: dict[Any, Any], *more: Any) -> int:
        mk.Kernel(CONSTANTS, name, function_constants=constants)(out, *more, ndrange=1)
        return int(out.numpy()[0])

    assert value("derived", {"N": 21}) == 42
    assert value("derived", {0: 4, "HAS": True}) == 8
    assert value("asked", {}) == 7
    assert value("asked", {"N": 5}) == 5
    assert value("optional", {"HAS": False}, None) == -1
    assert value("optional", {"HAS": True}, mk.full(1, 6, np.int32)) == 6
    with pytest.raises(mk.ArgumentError, match=r"'?\"?N"):
        mk.Kernel(CONSTANTS, "derived")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("int z = int(i) - int(i); o[i] = 7 / (z == 0 ? z + 1 : z) + (z == 0 ? 0 : 1 / z);", 7),
        ("int z = o[i]; o[i] = 5 / z; o[i] = 3;", 3),
        ("int m = -2147483648 + o[i]; o[i] = m / (o[i] - 1); o[i] = 4;", 4),
        ("uint s = 33 + o[i]; o[i] = 1 << s;", 2),
    ],
)
def test_undefined_arithmetic_does_not_trap(body: str, expected: int) -> None:
    assert run(body, dtype=np.int32)[0] == expected


def test_vectors_at_addresses_aligned_to_their_elements() -> None:
    body = "device float4* p = (device float4*)(o + 1); float4 v = *p; if (i == 0) *p = v + 1;"
    assert run(body, n=8, dtype=np.float32)[:6] == [0, 1, 1, 1, 1, 0]


def test_a_function_that_ends_by_calling_itself() -> None:
    before = "int gcd(int a, int b) { if (b == 0) return a; return gcd(b, a % b); }"
    assert run("o[i] = gcd(12 * (i + 1), 18);", before=before, dtype=np.int32) == [6, 6, 18, 6]


def test_reductions_from_infinity_in_every_math_mode() -> None:
    for mode in ("safe", "relaxed", "fast"):
        body = "float m = -INFINITY; m = max(m, float(i)); o[i] = exp(-INFINITY - m) + (isinf(-INFINITY) ? m : 99);"
        assert run(body, options={"math_mode": mode}) == [0, 1, 2, 3]


def test_safe_mode_keeps_the_order_of_operations() -> None:
    body = "float x = o[i] + 0.3f; float c = 12582912.0f; o[i] = (x + c) - c;"
    assert run(body, options={"math_mode": "safe"}) == [0, 0, 0, 0]


def test_simd_functions_act_on_the_active_threads() -> None:
    body = """int x = 1; if (i % 2 == 0) { x = simd_sum(int(i)); } else { x = -simd_sum(1); }
              for (uint k = 0; k < i % 3; ++k) { if (k == 1) continue; x += 1000 * simd_sum(1); }
              o[i] = x;"""
    active = [i for i in range(32) if i % 3 > 0]
    evens = sum(range(0, 32, 2))
    expected = [(evens if i % 2 == 0 else -16) + (1000 * len(active) if i % 3 > 0 else 0) for i in range(32)]
    assert run(body, dtype=np.int32, n=32) == expected


def test_threads_that_returned_do_not_hold_back_a_barrier() -> None:
    body = """threadgroup int s[64]; s[i] = i; if (i >= 40) return; threadgroup_barrier(mem_flags::mem_threadgroup);
              o[i] = s[63 - i] + simd_sum(1);"""
    result = run(body, dtype=np.int32, n=64)
    assert result[:32] == [63 - i + 32 for i in range(32)]
    assert result[32:40] == [63 - i + 8 for i in range(32, 40)]


def test_macros_headers_and_include_folders(tmp_path: Any) -> None:
    (tmp_path / "outer.h").write_text('#pragma once\n#include "inner.h"\n#define OUTER (INNER + 1)\n')
    (tmp_path / "inner.h").write_text("#pragma once\n#define INNER 10\n")
    source = (
        HEAD + '#include "outer.h"\n#include <given.h>\nkernel void k(device int* o) { o[0] = OUTER + GIVEN + MACRO; }'
    )
    options = {
        "macros": {"MACRO": "100"},
        "include_dirs": [str(tmp_path)],
        "headers": {"given.h": "#define GIVEN 1000\n"},
    }
    out = mk.zeros(1, np.int32)
    mk.Kernel(source, options=options)(out, ndrange=1)
    assert out.numpy()[0] == 1111
    (tmp_path / "inner.h").write_text("#pragma once\n#define INNER 20\n")
    mk.Kernel(source, options=options)(out, ndrange=1)
    assert out.numpy()[0] == 1121


def test_an_index_outside_of_a_threads_own_array_harms_nobody() -> None:
    source = """#include <metal_stdlib>
    using namespace metal;
    kernel void k(device float* o, constant int& first, uint i [[thread_position_in_grid]]) {
        float x[8], y[4][4]; for (int k = 0; k < 8; ++k) x[k] = k;
        for (int k = first - int(i) * 8; k < 8; ++k) x[k] = 5;
        for (int k = -100; k < 100; ++k) y[k][k + int(i)] = k;
        float s = 0; for (int k = 0; k < 8; ++k) s += x[k];
        o[i] = s + y[0][0] * 0;
    }"""
    out = mk.zeros(64)
    mk.Kernel(source)(out, 8, ndrange=64)
    assert out.numpy()[0] == 28
    assert out.numpy()[1:].tolist() == [40.0] * 63


@pytest.mark.parametrize(
    ("macros", "message"),
    [
        ({"A B": 1}, "'A B' is not the name of a macro"),
        ({"1A": 1}, "'1A' is not the name of a macro"),
        ({"A": "x\ny"}, "macro 'A' is one line of text"),
    ],
)
def test_macros_that_are_none(macros: dict[str, Any], message: str) -> None:
    with pytest.raises(mk.ArgumentError, match=message):
        mk.compile("kernel void k(device float* o) { o[0] = 1; }", options={"macros": macros})


def test_a_template_warns_however_often_it_is_instantiated() -> None:
    kernel = "kernel void k(device float* o) { o[0] = f<1>() + f<2>() + f<3>() + f<4>() + f<5>() + f<6>() + f<7>(); }"
    with pytest.warns(mk.CompileWarning) as caught:
        mk.compile(f"{HEAD}template <int n> float f() {{ int x; return x + n; }}\n{kernel}")
    assert "uninitialized" in str(caught[0].message)
