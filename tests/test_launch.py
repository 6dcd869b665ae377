"""Launches from Python: what is accepted, and what is refused before anything runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import metalki as mk
from metalki import kernel_interface as KI

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void scale(device float* out, device const float* in, constant float& f, uint i [[thread_position_in_grid]]) {
    out[i] = in[i] * f;
}
"""
TYPES = """
#include <metal_stdlib>
using namespace metal;
kernel void k(device T* out, constant T& v) { out[0] = v; }
"""


@pytest.fixture(scope="module")
def scale() -> mk.Kernel:
    return mk.Kernel(SOURCE)


def arrays(n: int = 8) -> tuple[mk.Array, mk.Array]:
    return mk.full(n, -1.0), mk.array(np.arange(n, dtype=np.float32))


@pytest.mark.parametrize("ndrange", [5, (5,), (5, 1), (5, 1, 1), np.int64(5), [5]])
def test_exactly_ndrange_threads_run(scale: mk.Kernel, ndrange: Any) -> None:
    out, source = arrays()
    scale(out, source, 2, ndrange=ndrange, workgroupsize=4)
    assert out.numpy().tolist() == [0, 2, 4, 6, 8, -1, -1, -1]


def test_empty_ndrange_launches_nothing(scale: mk.Kernel) -> None:
    out, source = arrays()
    scale(out, source, 2, ndrange=0)
    assert (out.numpy() == -1).all()


def test_dict_and_tuple(scale: mk.Kernel) -> None:
    out, source = arrays()
    scale.launch({"f": 3, "in": source, "out": out}, ndrange=8)
    assert out.numpy()[7] == 21
    scale.launch((out, source, 4), ndrange=8)
    assert out.numpy()[7] == 28


def test_numpy_output_is_written_back(scale: mk.Kernel) -> None:
    x = np.arange(8, dtype=np.float32)
    scale(x, x, 2, ndrange=8)
    assert x.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "ndrange"),
        ({"ndrange": 1, "numworkgroups": 1}, "both"),
        ({"ndrange": (1, 1, 1, 1)}, "three"),
        ({"ndrange": ()}, "dimensions"),
        ({"ndrange": -1}, "negative"),
        ({"ndrange": 2.5}, "2.5"),
        ({"ndrange": "8"}, "'8'"),
        ({"ndrange": 2**70}, "limit"),
        ({"ndrange": 8, "threads": 8}, "threads"),
        ({"ndrange": 8, "groups": 8}, "groups"),
        ({"ndrange": 8, "colour": 8}, "colour"),
        ({"ndrange": 8, "workgroupsize": 10**6}, "workgroupsize"),
        ({"ndrange": 8, "workgroupsize": 0}, "workgroupsize"),
        ({"ndrange": 8, "queue": 3}, "queue"),
        ({"ndrange": 8, "uses": (3,)}, "uses"),
    ],
)
def test_bad_options(scale: mk.Kernel, options: dict[str, Any], text: str) -> None:
    out, source = arrays()
    with pytest.raises(mk.ArgumentError, match="scale") as caught:
        scale(out, source, 2, **options)
    assert text in str(caught.value)
    assert (out.numpy() == -1).all()


READ_ONLY = np.zeros(8, np.float32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("position", "value", "text"),
    [
        (0, READ_ONLY, "read-only"),
        (0, np.zeros(16, np.float32)[::2], "contiguous"),
        (1, np.zeros(8, np.float64), "float64"),
        (1, np.zeros(8, ">f4"), "endian"),
        (1, np.zeros(8, np.int32), "int32"),
        (1, np.zeros(0, np.float32), "empty"),
        (1, None, "None"),
        (1, "text", "str"),
        (1, object(), "object"),
        (0, 3.0, "array"),
        (2, "3", "str"),
        (2, 1e300, "float"),
        (2, 1j, "complex"),
        (2, (1.0, 2.0), "a number or an array"),
        (2, mk.threadgroup(16), "threadgroup"),
    ],
)
def test_bad_arguments(scale: mk.Kernel, position: int, value: Any, text: str) -> None:
    out, source = arrays()
    arguments: list[Any] = [out, source, 2]
    arguments[position] = value
    with pytest.raises(mk.ArgumentError) as caught:
        scale.launch(tuple(arguments), ndrange=8)
    message = str(caught.value)
    assert text in message
    assert "scale" in message
    assert f"argument {position}" in message


@pytest.mark.parametrize("arguments", [(), (1,), (1, 2, 3, 4), {"out": 1}, {"x": 1}, 5, "abc"])
def test_wrong_number_of_arguments(scale: mk.Kernel, arguments: Any) -> None:
    with pytest.raises(mk.ArgumentError):
        scale.launch(arguments, ndrange=8)


@pytest.mark.parametrize(
    ("name", "dtype", "good", "bad"),
    [
        ("uint", np.uint32, [0, 2**32 - 1, np.int8(3)], [-1, 2**32, 1.0, np.float32(1)]),
        ("char", np.int8, [-128, 127], [128, -129]),
        ("ulong", np.uint64, [2**64 - 1], [2**64, -1]),
        ("half", np.float16, [1.5, 3, 65504.0], [1e6]),
        ("float", np.float32, [1.5, 3, True, float("inf")], [1e39, "1"]),
        ("bool", np.bool_, [True, False, 1], [2, 1.0]),
    ],
)
def test_numbers_follow_the_declared_type(name: str, dtype: Any, good: list[Any], bad: list[Any]) -> None:
    kernel = mk.Kernel(TYPES, options={"macros": {"T": name}})
    for value in good:
        out = mk.zeros(1, dtype)
        kernel(out, value, ndrange=1)
        assert out.numpy()[0] == value
    for value in bad:
        with pytest.raises(mk.ArgumentError):
            kernel(mk.zeros(1, dtype), value, ndrange=1)


def test_three_numbers_for_int3() -> None:
    source = TYPES.replace("out[0] = v;", "out[0] = v * 2;").replace("device T* out", "device int3* out")
    kernel = mk.Kernel(source, options={"macros": {"T": "int3"}})
    for value in [(1, 2, 3), [1, 2, 3], np.array([1, 2, 3])]:
        out = mk.zeros(4, np.int32)
        kernel(out, value, ndrange=1)
        assert out.numpy()[:3].tolist() == [2, 4, 6]
    with pytest.raises(mk.ArgumentError):
        kernel(mk.zeros(4, np.int32), (1, 2), ndrange=1)


def test_compile_error_has_position_and_caret() -> None:
    with pytest.raises(mk.CompileError) as caught:
        mk.compile("kernel void k(device int* a) {\n  a[0] = nope;\n}")
    assert (caught.value.line, caught.value.column) == (2, 10)
    assert "^" in str(caught.value)
    assert caught.value.diagnostics[0].severity == "error"


def test_missing_kernel_names_those_there_are() -> None:
    with pytest.raises(mk.ArgumentError, match="scale"):
        mk.compile(SOURCE)["nope"]


def test_same_source_same_kernel(scale: mk.Kernel) -> None:
    assert mk.Kernel(SOURCE) is scale
    assert KI.kernel_function(mk.MetalBackend(), SOURCE, "scale") is scale


def test_views_keep_memory_alive() -> None:
    view = mk.array(np.arange(100_000, dtype=np.float32))[10:].numpy()
    assert view[0] == 10
    array = mk.zeros(4)
    held = array.numpy()
    with pytest.raises(mk.ArgumentError):
        KI.unsafe_free(array)
    del held
    KI.unsafe_free(array)
    with pytest.raises(mk.ArgumentError):
        array.numpy()


def test_copyto_checks() -> None:
    b, a = mk.MetalBackend(), mk.zeros(4)
    for bad in [np.zeros(3, np.float32), np.zeros(4), np.zeros(8, np.float32)[::2], 3, "x"]:
        with pytest.raises(mk.ArgumentError):
            KI.copyto(b, a, bad)
    frozen = np.zeros(4, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(mk.ArgumentError, match="read-only"):
        KI.copyto(b, frozen, a)
    back = np.ones(4, np.float32)
    KI.copyto(b, back, a)
    KI.synchronize(b)
    assert (back == 0).all()


def test_devices() -> None:
    b = mk.MetalBackend()
    assert KI.device(b) == mk.device().index
    for bad in [len(mk.devices()), -1, "nope", None, 1.5]:
        with pytest.raises(mk.ArgumentError):
            mk.set_device(bad)


def test_eight_threads_compile_and_launch() -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for i in range(5):
                kernel = mk.Kernel(SOURCE.replace("* f", f"* f + {number * 100 + i}"))
                out, source = arrays()
                kernel(out, source, 1, ndrange=8)
                mk.synchronize()
                assert out.numpy()[0] == number * 100 + i
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads /proc")
def test_a_thousand_launches_leak_nothing(scale: mk.Kernel) -> None:
    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def launches() -> None:
        for _ in range(1000):
            out, source = arrays(1024)
            scale(out, source, 2, ndrange=1024)
        mk.synchronize()

    launches()
    before = resident()
    launches()
    assert resident() - before < 4 << 20


INTERRUPTED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
import metalki as mk, numpy as np
k = mk.Kernel("kernel void k(device volatile uint* a) { for (uint i = 0; i < 4000000000u; ++i) a[0] = i; }")
a = mk.zeros(1, np.uint32)
k(a, ndrange=1)
print("started", flush=True)
try:
    mk.synchronize()
except KeyboardInterrupt:
    mk.synchronize()
    print("interrupted", mk.ones(3).numpy().sum())
"""


def test_ctrl_c_during_a_wait() -> None:
    process = subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    threading.Event().wait(0.3)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "interrupted 3.0\n")
