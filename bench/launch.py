"""What a launch, the first kernel and the import cost: medians, as ratios to a numpy call of the same run as well.

    python bench/launch.py            times and allocations
    python bench/launch.py --quick    fewer rounds

On busy machines the least of the rounds, printed beside the median, tells more.
"""

from __future__ import annotations

import argparse
import atexit
import ctypes
import functools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np

import metalki as mk

CALLS = 1000  # of a batch

# Counts what the whole process asks malloc for; with glibc.
COUNTER = r"""
#include <stdatomic.h>
#include <stddef.h>
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
static atomic_long count;
long malloc_count(void) { return count; }
void *malloc(size_t n) { count++; return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { count++; return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { count++; return __libc_realloc(p, n); }
void *memalign(size_t a, size_t n) { count++; return __libc_memalign(a, n); }
void *aligned_alloc(size_t a, size_t n) { return memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n) { *p = memalign(a, n); return 0; }
"""

FIRST = """
import metalki as mk, numpy as np
a = mk.zeros(4, np.float32)
mk.Kernel("kernel void first(device float* a, uint i [[thread_position_in_grid]]) { a[i] = i + 1; }")(a, ndrange=4)
assert a.numpy().tolist() == [1, 2, 3, 4]
import time
print(time.monotonic())
"""

IMPORT = """
import time
import numpy
start = time.perf_counter()
import metalki
print(time.perf_counter() - start)
"""


class Launches:
    """The kernels and arguments that are launched."""

    def __init__(self) -> None:
        self.empty = mk.Kernel("kernel void e() {}")
        names = [f"a{i}" for i in range(14)]
        buffers = ", ".join(f"device float* {n}" for n in names)
        numbers = ", ".join(f"constant {'float' if i % 2 else 'uint'}& s{n}" for i, n in enumerate(names))
        self.many = mk.Kernel(f"kernel void many({buffers}, {numbers}) {{ a0[0] = sa0 + sa13; }}")
        self.arguments = (*(mk.zeros(16) for _ in names), *(i / 2 if i % 2 else i for i in range(14)))

    def enqueue(self) -> None:
        self.empty(ndrange=1)

    def enqueue_many(self) -> None:
        self.many(*self.arguments, ndrange=1)

    def enqueue_many_as_tuple(self) -> None:
        self.many.launch(self.arguments, ndrange=1)

    def wait(self) -> None:
        self.empty(ndrange=1)
        mk.synchronize()


def batches(function: Callable[[], object], rounds: int, calls: int = CALLS) -> list[float]:
    """Microseconds of a call, one figure for each round; between rounds the queue is waited for, uncounted."""
    results = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            function()
        results.append((time.perf_counter() - start) / calls * 1e6)
        mk.synchronize()
    return results


def process_ms(code: str, rounds: int, **environment: str) -> list[float]:
    """Milliseconds that a new interpreter needs for `code`, start and end included.

    Installed packages have their bytecode beside them: it is kept here, too, where the environment says otherwise."""
    variables = {**as_installed(), **environment}
    results = []
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env=variables, stdout=subprocess.DEVNULL)
        results.append((time.perf_counter() - start) * 1e3)
    return results


def first_result_ms(rounds: int, **environment: str) -> list[float]:
    """Milliseconds from the start of a new interpreter to the first result of a kernel, by the system-wide clock of both."""
    variables = {**as_installed(), **environment}
    results = []
    for _ in range(rounds):
        start = time.monotonic()
        done = subprocess.run([sys.executable, "-c", FIRST], check=True, env=variables, capture_output=True, text=True)
        results.append((float(done.stdout) - start) * 1e3)
    return results


@functools.cache
def as_installed() -> dict[str, str]:
    """An environment in which Python finds the bytecode of numpy and metalki."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
    with tempfile.TemporaryDirectory() as cache:
        variables = {**environment, "METALKI_CACHE_DIR": cache}
        subprocess.run([sys.executable, "-c", FIRST], check=True, env=variables, stdout=subprocess.DEVNULL)
    return environment


def cold_ms(rounds: int) -> list[float]:
    """The same with an empty disk cache every time."""
    results = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            results += first_result_ms(1, METALKI_CACHE_DIR=folder)
    return results


def heap_growth(function: Callable[[], object]) -> int:
    """Bytes that 1,000 calls and the measurement itself leave on Python's heap."""
    for _ in range(CALLS):
        function()
    tracemalloc.start()
    function()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(CALLS):
        function()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    mk.synchronize()
    return grown


def python_heap(function: Callable[[], object]) -> int:
    """Bytes that 1,000 calls leave on Python's heap, those of 1,000 calls that do nothing taken away."""
    return heap_growth(function) - heap_growth(lambda: None)


def mallocs(function: Callable[[], object], counter: Callable[[], int]) -> int:
    """Calls of malloc and its relatives, in all threads, of 1,000 calls and the wait for them; the fewest of 10 times."""
    counts = []
    for _ in range(10):
        before = counter()
        for _ in range(CALLS):
            function()
        mk.synchronize()
        counts.append(counter() - before)
    return min(counts)


def print_mallocs() -> int:
    """In a process in which COUNTER is preloaded."""
    counter = ctypes.CDLL(None).malloc_count
    counter.restype = ctypes.c_long
    launches = Launches()
    for name, function in (
        ("empty kernel", launches.enqueue),
        ("28 arguments", launches.enqueue_many),
        ("empty kernel and wait", launches.wait),
    ):
        print(f"{'malloc, 1,000 launches, ' + name:<52} {mallocs(function, counter):10d}")
    return 0


def count_mallocs() -> None:
    """Where there is a C compiler and glibc."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        return
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "counter.c", Path(folder) / "counter.so"
        source.write_text(COUNTER)
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-w", source, "-o", library], check=True)
        command = [sys.executable, __file__, "--mallocs"]
        subprocess.run(command, check=True, env={**os.environ, "LD_PRELOAD": str(library)})


def show(name: str, values: list[float], unit: str, baseline: float, least: float) -> None:
    """One line: median, least, ratios of both to the baseline's."""
    median, lowest = statistics.median(values), min(values)
    print(f"{name:<52} {median:10.3f} {lowest:10.3f} {unit} {median / baseline:8.2f} {lowest / least:8.2f}")


def show_calls(rounds: int) -> None:
    """What calls cost, beside one of numpy."""
    launches = Launches()
    x = np.zeros(1, np.float32)
    call = ctypes.CDLL(None).abs
    queue = mk.global_queue()
    counter = iter(range(10**6))

    def new_kernel() -> None:
        mk.Kernel(f"kernel void e(device int* a) {{ a[0] = {next(counter)}; }}")(mk.zeros(1, np.int32), ndrange=1)
        mk.synchronize()

    base = batches(lambda: np.add(x, x, out=x), rounds)
    baseline, least = statistics.median(base), min(base)
    print(f"{'':<52} {'median':>10} {'least':>10}    {'/ numpy':>8} {'least':>8}")
    show("numpy.add of one element (baseline)", base, "us", baseline, least)
    show("ctypes call of abs()", batches(lambda: call(1), rounds), "us", baseline, least)
    for name, function in (
        ("enqueue, empty kernel", launches.enqueue),
        ("enqueue, 28 arguments", launches.enqueue_many),
        ("enqueue, 28 arguments as a tuple", launches.enqueue_many_as_tuple),
        ("enqueue and wait, empty kernel", launches.wait),
        ("synchronise an idle queue, mk.synchronize()", mk.synchronize),
        ("synchronise an idle queue, queue.synchronize()", queue.synchronize),
    ):
        show(name, batches(function, rounds), "us", baseline, least)
    show("compile and run a new kernel", batches(new_kernel, rounds, 2), "us", baseline, least)
    for name, function in (("empty kernel", launches.enqueue), ("28 arguments", launches.enqueue_many)):
        print(f"{'Python heap left by 1,000 launches, ' + name:<52} {python_heap(function):10d} bytes")


def show_processes(rounds: int) -> None:
    """What new processes cost, beside one that only imports numpy."""
    numpy = process_ms("import numpy", rounds)
    baseline, least = statistics.median(numpy), min(numpy)
    command = [sys.executable, "-c", IMPORT]
    imports = [
        float(subprocess.run(command, check=True, capture_output=True, env=as_installed()).stdout) * 1e3
        for _ in range(rounds)
    ]
    show("import metalki, numpy being there", imports, "ms", baseline, least)
    show("a process that imports numpy (baseline)", numpy, "ms", baseline, least)
    show("a process to its first result, cold", cold_ms(rounds), "ms", baseline, least)
    with tempfile.TemporaryDirectory() as folder:
        process_ms(FIRST, 1, METALKI_CACHE_DIR=folder)
        warm = first_result_ms(rounds, METALKI_CACHE_DIR=folder)
        whole = process_ms(FIRST, rounds, METALKI_CACHE_DIR=folder)
    show("a process to its first result, from the disk cache", warm, "ms", baseline, least)
    show("the same process from its start to its end", whole, "ms", baseline, least)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--mallocs", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.mallocs:
        return print_mallocs()
    show_calls(15 if given.quick else 51)
    count_mallocs()
    show_processes(3 if given.quick else 9)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
