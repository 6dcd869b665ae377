"""No source may crash or hang the process: it compiles, or it is refused with a message."""

from __future__ import annotations

import contextlib
import threading
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import metalki as mk

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"

REFUSED = {
    "parentheses": HEAD + "kernel void k(device float* o) { o[0] = " + "(" * 3000 + "1" + ")" * 3000 + "; }",
    "braces": HEAD + "kernel void k(device float* o) " + "{" * 3000 + "}" * 3000,
    "template depth": HEAD + "template <int N> struct F { static constexpr int v = F<N - 1>::v; };\n"
    " kernel void k(device int* o) { o[0] = F<9999>::v; }",
    "endless constexpr": HEAD + "constexpr int f() { while (true) {} return 1; } constant int x[f()] = {0};",
    "assembly": HEAD + 'kernel void k(device int* o) { asm("bogus instruction"); o[0] = 1; }',
    "no definition": HEAD + "int foo(int); kernel void k(device int* o) { o[0] = foo(1); }",
    "includes itself": HEAD + '#include "program_source"\nkernel void k(device int* o) { o[0] = 1; }',
    "includes a device": HEAD + '#include "/dev/zero"\nkernel void k(device int* o) { o[0] = 1; }',
    "imports a module": HEAD + "#pragma clang module import Foo\nkernel void k(device int* o) { o[0] = 1; }",
    "open comment": HEAD + "kernel void k(device int* o) { /* ",
    "open attribute": "[[ ]] [[kernel]] [[ ( ]] void",
    "brackets": HEAD + "x.y.xy = ; template < kernel constant threadgroup device >> << { ( } ) ] [",
    "mutable global": HEAD + "int g = 3; kernel void k(device int* o) { o[0] = g++; }",
    "mutable static": HEAD + "kernel void k(device int* o) { static int x = 0; o[0] = x++; }",
    "long double": HEAD + "kernel void k(device int* o) { long double x = 1; o[0] = (int)x; }",
}

# Operators by the hundred thousand, some in a line of a megabyte: the compiler goes down its stack for each.
for _name, _body in {
    "sum": "o[0] = x" + "+x" * 500_000 + ";",
    "assignments": "x=" * 300_000 + "3;",
    "conditions": "o[0] = " + "x==3?4:" * 100_000 + "5;",
    "signs": "o[0] = " + "- " * 500_000 + "x;",
    "casts": "o[0] = " + "(int)" * 200_000 + "x;",
    "commas": "o[0] = (x" + ",x" * 500_000 + ");",
    "else if": "if (x==1) x=2;" + "else if (x==3) x=4;" * 50_000,
    "if": "if (x) " * 100_000 + "x=4;",
    "cases": "switch(x){" + "".join(f"case {i}:" for i in range(100_000)) + "x=4;}",
    "components": "float4 v = x; o[0] = v" + ".xyzw" * 100_000 + ".x;",
    "sizes": "int a" + "[1]" * 100_000 + ";",
}.items():
    REFUSED[f"100000 levels: {_name}"] = HEAD + "kernel void k(device int* o) { int x = o[1]; " + _body + " o[1] = x; }"


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_message(name: str) -> None:
    with pytest.raises(mk.CompileError) as caught:
        mk.Kernel(REFUSED[name])
    assert str(caught.value).strip()
    assert "opencl" not in str(caught.value)
    assert "ext_vector_type" not in str(caught.value)


ODD_BUT_RIGHT = {
    "comment of a trailing member": "kernel void k(device int* o) { o[0] = 1; } //< one",
    "block comment of a trailing member": "/*< one */ kernel void k(device int* o) { o[0] = 1; }",
    "comment at the end of the file": "kernel void k(device int* o) { o[0] = 1; }\n//<",
    "comment after a directive": "#//<\nkernel void k(device int* o) { o[0] = 1; }",
}


LONG = "".join(f"x = x * {i % 7 + 1}u + (x >> {i % 5 + 1});\n" for i in range(8000))
# One of the code generator's passes took minutes for it.
ODD_BUT_RIGHT["8000 statements in a row"] = f"kernel void k(device uint* o) {{ uint x = o[1];\n{LONG} o[0] = x; }}"
for _name, _body in {
    "sum of 3000 vectors": "float4 v = x; v = v" + "+v" * 3000 + "; o[0] = v.x;",
    "3000 casts": "o[0] = " + "(int)" * 3000 + "x;",
    "3000 signs": "o[0] = " + "!" * 3000 + "x;",
    "3000 assignments": "x=" * 3000 + "3; o[0] = x;",
    "1000 cases of if": "if (x==1) x=2;" + "else if (x==3) x=4;" * 1000 + " o[0]=x;",
    "a table of 100000 numbers": "const int t[] = {" + "1+1," * 100_000 + "}; o[0] = t[x & 7];",
    "20000 statements": "x += 1;" * 20_000 + "o[0] = x;",
    "a line of a megabyte": " " * 1_000_000 + "o[0] = x;",
}.items():
    ODD_BUT_RIGHT[_name] = HEAD + "kernel void k(device int* o) { int x = o[1]; " + _body + " }"


@pytest.mark.parametrize("name", ODD_BUT_RIGHT)
def test_odd_sources_compile(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mk.CompileWarning)
        assert mk.Kernel(ODD_BUT_RIGHT[name]).name == "k"


def test_threads_with_small_stacks_compile() -> None:
    before, found = threading.stack_size(), []
    threading.stack_size(128 * 1024)
    try:
        source = HEAD + "kernel void k(device float* o) { float x = o[1]; o[0] = sin(x)" + "+x" * 500 + "; }"
        thread = threading.Thread(target=lambda: found.append(mk.Kernel(source).name))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert found == ["k"]


def test_the_compiler_works_after_all_that() -> None:
    out = mk.zeros(1)
    mk.Kernel(HEAD + "kernel void k(device float* o) { o[0] = 7; }")(out, ndrange=1)
    assert out.numpy()[0] == 7


TOKENS = """
kernel device constant threadgroup thread void float float4 half bfloat uint struct template < > ( ) { } [ ] [[ ]] ; , . -> ::
= == + * & ? : const static constexpr if for while return k o x xy zw 1 0.5 2h this operator typename class namespace metal enum
auto thread_position_in_grid buffer function_constant host_name simd_sum threadgroup_barrier >> << ++ # \\ ' " ...
"""


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(TOKENS.split()), max_size=60), st.booleans())
def test_token_soup(tokens: list[str], inside: bool) -> None:
    text = " ".join(tokens)
    source = HEAD + (f"kernel void k(device float* o) {{ {text} }}" if inside else text)
    with contextlib.suppress(mk.CompileError):
        mk.compile(source)


def test_arrays_of_many_dimensions_are_refused_at_once() -> None:
    for declaration in ("int x" + "[1]" * 1000, "int x[2]" + "[1]" * 256):
        with pytest.raises(mk.CompileError, match=r"too many dimensions \(the limit is 256\)") as caught:
            mk.Kernel("kernel void many_dimensions(device int* a) { " + declaration + "; a[0] = sizeof(x); }")
        assert caught.value.line == 1
    body = "int x" + "[1]" * 256 + "; a[a[a[0]]] = sizeof(x);" + " a[a[1]] = a[a[2]];" * 500
    mk.Kernel("kernel void many_dimensions(device int* a) { " + body + " }")


@pytest.mark.parametrize("loop", ["while (a[0]) ", "for (;;) ", "do "])
def test_too_many_loops_inside_of_each_other_are_refused_at_once(loop: str) -> None:
    end = "while (a[0]);" if loop == "do " else ""
    with pytest.raises(mk.CompileError, match=r"too many loops inside of each other \(the limit is 256\)"):
        mk.Kernel("kernel void many_loops(device int* a) { " + loop * 2000 + "a[1] = 0; " + end * 2000 + " }")
    mk.Kernel("kernel void many_loops(device int* a) { " + "for (int i = 0; i < a[0]; ++i) { a[1] = i; } " * 300 + "}")
