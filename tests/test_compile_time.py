"""Large sources: code is generated for the kernels that are asked for, whichever way and in whichever process they are."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import metalki as mk

KERNELS = 24  # more than become code at once, and more than are generated one by one

HEAD = """
constant int table[4] = {10, 20, 30, 40};
constant int choice [[function_constant(7)]];
constant int chosen = is_function_constant_defined(choice) ? choice : 3;
static inline int helper(int v) { return v * 2; }
int shared_helper(int v) { return helper(v) + table[v & 3]; }
template <int N> kernel void k(device int* o, uint i [[thread_position_in_grid]]) {
    threadgroup int t[4];
    t[i & 3] = N;
    o[i] = shared_helper(N) + t[i & 3] * 1000 + chosen;
}
typedef decltype(k<0>) kernel_type;
"""


def text(salt: int = 0) -> str:
    instances = [f'template [[host_name("k{n}")]] kernel kernel_type k<{n}>;' for n in range(KERNELS)]
    return f"// {salt}\n" + HEAD + "\n".join(instances)


def expected(n: int, chosen: int = 3) -> int:
    return 2 * n + (10, 20, 30, 40)[n & 3] + 1000 * n + chosen


def value(library: mk.Library, n: int, constants: dict[int | str, int] | None = None) -> int:
    out = mk.zeros(4, np.int32)
    library.kernel(f"k{n}", function_constants=constants)(out, ndrange=4)
    result = out.numpy()
    assert (result == result[0]).all()
    return int(result[0])


def test_every_kernel_of_a_large_source() -> None:
    library = mk.compile(text(1))
    for n in reversed(range(KERNELS)):
        assert value(library, n) == expected(n)
    for n in (0, KERNELS - 1):
        assert value(library, n, {"choice": 50}) == expected(n, 50)


def test_large_sources_in_turn() -> None:
    libraries = [mk.compile(text(salt)) for salt in (2, 3, 4)]
    for n in (0, 5, 1):
        for library in libraries:
            assert value(library, n) == expected(n)


def test_kernels_from_several_threads() -> None:
    library = mk.compile(text(5))
    found: dict[int, int] = {}

    def work(first: int) -> None:
        for n in range(first, KERNELS, 4):
            found[n] = value(library, n)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: expected(n) for n in range(KERNELS)}


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import metalki as mk
import test_compile_time as t
library = mk.compile(t.text(6))
for n in map(int, sys.argv[2:]):
    assert t.value(library, n) == t.expected(n), n
print("right")
"""


@pytest.mark.parametrize("second", [["3"], ["4"], ["3", "4", "23"]])
def test_other_kernels_in_the_next_process(tmp_path: Path, second: list[str]) -> None:
    """What the first process did not need has to be found or made by the next one."""
    for kernels in (["3"], second, second):
        command = [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), *kernels]
        environment = {**os.environ, "METALKI_CACHE_DIR": str(tmp_path)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert (done.stdout.strip(), done.returncode) == ("right", 0), done.stderr


CONDITIONALS = {
    "an element or a new vector": "o[i] = i & 1 ? v[i] : float4(7);",
    "an element or a scalar": "o[i] = i & 1 ? v[i] : 7.0f;",
    "two spaces": "float4 s = float4(7); threadgroup float4 t[4]; t[i] = s; o[i] = i & 1 ? v[i] : t[i];",
    "a constant and a local one": "float4 s = float4(7); o[i] = i & 1 ? v[i] : (i & 2 ? c : s);",
    "behind a macro": "o[i] = CHOOSE(i & 1, v[i], float4(7));",
    "in a template": "choose(o + i, v + i, i & 1, float4(7));",
    "an own struct": "S s = {7}; S r = i & 1 ? p[i] : s; o[i] = r.x;",
    "one space stays an lvalue": "device float4& r = i & 1 ? v[i] : v[i + 4]; o[i] = r;",
}


@pytest.mark.parametrize("name", CONDITIONALS)
def test_conditional_operands_in_different_address_spaces(name: str) -> None:
    source = f"""
    struct S {{ float x; }};
    constant float4 c = float4(7);
    #define CHOOSE(a, b, c) ((a) ? (b) : (c))
    template <class T> void choose(device T* o, device const T* v, bool first, T other) {{ *o = first ? *v : other; }}
    kernel void k(device float4* o, device float4* v, device const S* p, uint i [[thread_position_in_grid]]) {{
        {CONDITIONALS[name]}
    }}"""
    out = mk.zeros((4, 4), np.float32)
    v = np.repeat(np.array([0, 1, 2, 3, 7, 7, 7, 7], np.float32)[:, None], 4, axis=1)
    mk.Kernel(source)(out, mk.array(v), np.arange(4, dtype=np.float32).view([("x", np.float32)]), ndrange=4)
    assert out.numpy()[:, 0].tolist() == [7, 1, 7, 3]


def test_conditional_operands_without_a_common_type() -> None:
    source = """
    struct A { int x; };
    struct B { int x; };
    kernel void k(device A* a, threadgroup B* b, device int* o) { o[0] = (o[1] ? a[0] : b[0]).x; }"""
    with pytest.raises(mk.CompileError, match="incompatible operand types"):
        mk.compile(source)
