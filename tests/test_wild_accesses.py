"""Kernels that write far past what they were given: an error that names them, and the process goes on unharmed."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.stops_kernels

START = """
import os
import numpy as np
import metalki as mk
from metalki import kernel_interface as KI
HEAD = "#include <metal_stdlib>\\nusing namespace metal;\\n"
# What the kernels below must not harm: arrays, objects of Python, memory of the C library.
kept = [mk.full(n, 7, np.uint32) for n in (1000, 100000, 10000000)]
objects = [bytearray(n) for n in range(0, 200000, 997)]

def wild(body, *arguments, parameters="device uint* a, constant long& n", ndrange=1):
    kernel = mk.Kernel(HEAD + "kernel void wild(" + parameters + ", uint i [[thread_position_in_threadgroup]]) {" + body + "}")
    kernel(*arguments, ndrange=ndrange, workgroupsize=ndrange)
    try:
        mk.synchronize()
        return "nothing"
    except mk.DeviceError as error:
        assert "'wild'" in str(error) and "invalid memory access" in str(error), error

def check():
    good = mk.Kernel("kernel void good(device uint* a, uint i [[thread_position_in_grid]]) { a[i] = i; }")
    a = mk.zeros(1000, np.uint32)
    good(a, ndrange=1000)
    assert a.numpy()[999] == 999
    assert not any(any(o) for o in objects)
"""


def run(text: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", START + textwrap.dedent(text)], capture_output=True, text=True, timeout=300, check=False
    )
    assert (result.returncode, result.stdout) == (0, "well\n"), result.stdout + result.stderr


@pytest.mark.parametrize("size", [1, 1000, 17000, 100_000, 10_000_000])
def test_indices_that_are_wrong_by_megabytes_to_gigabytes(size: int) -> None:
    run(f"""
        a = mk.zeros({size}, np.uint32)
        for power in range(24, 33):
            for sign in (1, -1):
                found = wild("a[long(i) + n] = 0xdeadbeef;", a, sign * (1 << power), ndrange=1024)
                # A power of two lies inside the largest array.
                assert found is None or sign > 0 and 1 << power < {size}, (power, sign)
        check()
        assert all((k.numpy() == 7).all() for k in kept)
        print("well")
    """)


@pytest.mark.parametrize("size", [1000, 100_000, 10_000_000])
@pytest.mark.parametrize("first", [100_000_000, -300_000_000])
def test_hundreds_of_megabytes_are_written(size: int, first: int) -> None:
    run(f"""
        body = "for (long k = 0; k < 200000000; ++k) a[k + n] = 0xdeadbeef;"
        assert wild(body, mk.zeros({size}, np.uint32), {first}) is None
        check()
        assert all((k.numpy() == 7).all() for k in kept)
        print("well")
    """)


@pytest.mark.parametrize("size", [1000, 100_000, 10_000_000])
@pytest.mark.parametrize("direction", [1, -1])
def test_a_loop_runs_on_past_the_end(size: int, direction: int) -> None:
    """Arrays of less than 64 KiB lie together: those beside it may be written before the loop meets the end."""
    run(f"""
        body = "for (long k = n; k != n * 1000000000; k += n) a[k] = 0xdeadbeef;"
        assert wild(body, mk.zeros({size}, np.uint32), {direction}) is None
        check()
        assert all((k.numpy() == 7).all() for k in kept[1:])
        print("well")
    """)


BODIES = {
    "threadgroup": "threadgroup uint t[64]; for (int k = 0; k < 64; ++k) t[i + n + k] = 0xdeadbeef;"
    "threadgroup_barrier(mem_flags::mem_threadgroup); a[i] = t[63 - i];",
    "private": "uint t[64]; for (int k = 0; k < 64; ++k) t[k] = a[k]; thread uint* p = t + a[i];"
    "for (int k = 0; k < 64; ++k) p[n + k] = 0xdeadbeef; a[i] = p[a[i]] + t[a[i]];",
    "number": "device uint* p = (device uint*)(ulong)&n; long m = n; for (int k = 0; k < 64; ++k) p[m + k] = 0xdeadbeef;",
}


@pytest.mark.parametrize("space", BODIES)
def test_memory_of_groups_threads_and_arguments(space: str) -> None:
    run(f"""
        for power in range(22, 31):
            for sign in (1, -1):
                for threads in (1, 64):
                    found = wild({BODIES[space]!r}, mk.zeros(64, np.uint32), sign * (1 << power), ndrange=threads)
                    # Stores past a private array may be left out.
                    assert found is None or {space == "private"}, (power, sign, threads)
        check()
        assert all((k.numpy() == 7).all() for k in kept)
        print("well")
    """)


def test_threadgroup_memory_given_as_an_argument() -> None:
    run("""
        body = "t[i + n] = 0xdeadbeef; threadgroup_barrier(mem_flags::mem_threadgroup); a[i] = t[63 - i];"
        parameters = "device uint* a, constant long& n, threadgroup uint* t"
        for power in range(22, 31):
            for sign in (1, -1):
                a = mk.zeros(64, np.uint32)
                assert wild(body, a, sign * (1 << power), mk.threadgroup(256), parameters=parameters, ndrange=64) is None
        check()
        print("well")
    """)


def test_so_many_arrays_that_each_cannot_have_a_mapping_of_its_own() -> None:
    run("""
        arrays = [mk.empty(size, np.uint8) for _ in range(25000) for size in (10, 5000, 70000)]
        assert sum(1 for _ in open("/proc/self/maps")) < 40000
        for k, a in enumerate(arrays[-300:]):
            a.numpy()[:] = k % 251
        assert all((a.numpy() == k % 251).all() for k, a in enumerate(arrays[-300:]))
        del arrays
        check()
        print("well")
    """)


def test_where_the_address_space_is_limited() -> None:
    run("""
        import resource
        in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        assert in_use < 8 << 30
        resource.setrlimit(resource.RLIMIT_AS, (in_use + (1 << 30), resource.RLIM_INFINITY))
        assert wild("a[n + i] = 1;", mk.zeros(10, np.uint32), 1 << 29) is None
        arrays = []
        try:
            while len(arrays) < 100000:
                arrays.append(mk.ones(5000))
        except MemoryError:  # of the device, or of the host where numpy asks for it first
            arrays.clear()
        check()
        print("well")
    """)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_arrays_end_in_a_forked_child_while_other_threads_make_some() -> None:
    run("""
        import threading
        stop = False
        def make():
            while not stop:
                [mk.empty(size, np.uint8) for size in (10, 3000, 40000) for _ in range(50)]
        threads = [threading.Thread(target=make) for _ in range(3)]
        for t in threads: t.start()
        for _ in range(50):
            mine = [mk.empty(size, np.uint8) for size in (10, 3000, 40000) for _ in range(20)]
            child = os.fork()
            if child == 0:
                mine.clear()
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        stop = True
        for t in threads: t.join()
        print("well")
    """)
