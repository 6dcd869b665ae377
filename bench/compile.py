"""What compiling costs, from source text to first result, beside Python's own compiler on a fixed text in the same run.

    python bench/compile.py                                  small kernels
    python bench/compile.py --ggml ggml-metal.metal          and a library of hundreds of kernels
    python bench/compile.py --ggml ggml-metal.metal --all    and every one of them as a pipeline, on two threads

The baseline is `compile()` of 2,000 lines of Python: one thread, bound by the processor and by memory, like a C++ front end.
Times are medians; where one is measured in a process of its own, importing metalki is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import metalki as mk

BASELINE_TEXT = "\n".join(f"def f{i}(a, b):\n    return [a + {i}, b * a, (a, b)][{i % 3}]" for i in range(1000))

FIRST = """
import sys, time
import numpy as np
import metalki as mk
x = mk.zeros(64, np.float32)
start = time.perf_counter()
mk.Kernel(open(sys.argv[1]).read())(x, 2.0, ndrange=64)
mk.synchronize()
print(time.perf_counter() - start)
"""

ONE_OF_MANY = """
import json, sys, time
import metalki as mk
options = json.loads(sys.argv[2])
start = time.perf_counter()
library = mk.compile(open(sys.argv[1]).read(), options=options)
parsed = time.perf_counter()
library.kernel(sys.argv[3])
print(parsed - start, time.perf_counter() - start)
"""

SMALL = """
kernel void scale(device float* x, constant float& factor, uint i [[thread_position_in_grid]]) {{
    x[i] = x[i] * factor + {number}.0f;
}}
"""


def seconds(function: Callable[[], object], rounds: int) -> float:
    """Median of `rounds` calls."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def in_process(program: str, *arguments: str, cache: str | None = None) -> list[float]:
    """The numbers that `program` prints, run in a process of its own; without `cache` there is no disk cache."""
    environment = dict(os.environ, METALKI_CACHE="1" if cache else "0", METALKI_CACHE_DIR=cache or "")
    run = subprocess.run(
        [sys.executable, "-c", program, *arguments], check=True, capture_output=True, text=True, env=environment
    )
    return [float(number) for number in run.stdout.split()]


def small_kernels(folder: Path) -> list[tuple[str, float]]:
    """New sources in a warm process, and the first one of a process with and without the disk cache."""
    x = mk.zeros(64, np.float32)
    number = iter(range(10**9))
    salt = time.time_ns() % 10**6 * 1000  # so that no run finds the sources of an earlier one in the cache

    def compile_and_run() -> None:
        mk.Kernel(SMALL.format(number=salt + next(number)))(x, 2.0, ndrange=64)
        mk.synchronize()

    compile_and_run()
    source = folder / "small.metal"
    source.write_text(SMALL.format(number=1))
    cache = str(folder / "small-cache")
    in_process(FIRST, str(source), cache=cache)
    return [
        ("small kernel, new source, warm process", seconds(compile_and_run, 41)),
        (
            "first kernel of a process, no disk cache",
            statistics.median(in_process(FIRST, str(source))[0] for _ in range(5)),
        ),
        (
            "first kernel of a process, disk cache",
            statistics.median(in_process(FIRST, str(source), cache=cache)[0] for _ in range(5)),
        ),
    ]


def ggml_options(path: Path) -> dict[str, Any]:
    """As ggml's own build compiles the file: headers beside it and two folders up, bfloat on."""
    return {"include_dirs": [str(path.parent), str(path.parent.parent)], "macros": {"GGML_METAL_HAS_BF16": "1"}}


def large_library(path: Path, kernel: str, folder: Path) -> list[tuple[str, float]]:
    """One kernel of a large source, cold and from the disk cache."""
    arguments = (str(path), json.dumps(ggml_options(path)), kernel)
    cold, cached = [], []
    for round_number in range(3):
        cache = str(folder / f"large-cache-{round_number}")
        cold.append(in_process(ONE_OF_MANY, *arguments, cache=cache))
        cached += [in_process(ONE_OF_MANY, *arguments, cache=cache) for _ in range(3)]
    return [
        (f"{path.name}: parsed, nothing cached", statistics.median(c[0] for c in cold)),
        (f"{path.name}: one kernel wanted, nothing cached", statistics.median(c[1] for c in cold)),
        (f"{path.name}: one kernel wanted, disk cache", statistics.median(c[1] for c in cached)),
    ]


def every_kernel(path: Path, threads: int) -> None:
    """Makes every kernel into a pipeline on `threads` threads and reports the ten slowest."""
    library = mk.compile(path, options=ggml_options(path))
    names = iter(library.function_names)
    lock = threading.Lock()
    took: dict[str, float] = {}

    def work() -> None:
        while True:
            with lock:
                name = next(names, None)
            if name is None:
                return
            constants: dict[int | str, Any] = {}
            start = time.thread_time()
            for _ in range(9):
                try:
                    library.kernel(name, function_constants=constants or None)
                    break
                except mk.MetalkiError as error:
                    asked = str(error).partition("function constant ")[2]
                    if not asked:
                        raise
                    constants.update(dict.fromkeys(re.findall(r"'([^']+)'", asked.splitlines()[0]), 1))
            took[name] = time.thread_time() - start

    start = time.perf_counter()
    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(
        f"\n{len(took)} pipelines on {threads} threads: {time.perf_counter() - start:.1f} s; the slowest (processor seconds):"
    )
    for name, spent in sorted(took.items(), key=lambda item: -item[1])[:10]:
        print(f"  {spent:6.2f}  {name}")


def main() -> int:
    """Prints a table: what, time, and the ratio to the baseline."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ggml", type=Path, help="path of ggml-metal.metal, its headers where ggml has them")
    parser.add_argument("--kernel", default="kernel_repeat_f32", help="the kernel wanted of it")
    parser.add_argument("--all", action="store_true", help="also make every kernel of it into a pipeline")
    options = parser.parse_args()
    baseline = seconds(lambda: compile(BASELINE_TEXT, "baseline", "exec"), 15)
    rows = [("Python's compile() of 2,000 lines (baseline)", baseline)]
    with tempfile.TemporaryDirectory() as folder:
        rows += small_kernels(Path(folder))
        if options.ggml:
            rows += large_library(options.ggml, options.kernel, Path(folder))
    for name, spent in rows:
        print(f"{name:<58} {spent * 1e3:10.2f} ms {spent / baseline:8.2f} x")
    if options.ggml and options.all:
        every_kernel(options.ggml, threads=2)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
