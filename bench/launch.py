"""What a launch, the first kernel and the import cost: medians, beside a numpy call of the same run."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

import metalki as mk

COLD = """
import time
start = time.perf_counter()
import metalki as mk
imported = time.perf_counter()
mk.Kernel("kernel void e() {}")(ndrange=1)
mk.synchronize()
print(imported - start, time.perf_counter() - imported)
"""


def median_us(function: Callable[[], object], calls: int, after: Callable[[], object] = lambda: None) -> float:
    """Median over 15 rounds of the microseconds of one call; `after` runs between rounds and is not counted."""
    rounds = []
    for _ in range(15):
        start = time.perf_counter()
        for _ in range(calls):
            function()
        rounds.append((time.perf_counter() - start) / calls * 1e6)
        after()
    return statistics.median(rounds)


def main() -> int:
    empty = mk.Kernel("kernel void e() {}")
    names = [f"a{i}" for i in range(14)]
    buffers = ", ".join(f"device float* {n}" for n in names)
    numbers = ", ".join(f"constant float& s{n}" for n in names)
    many = mk.Kernel(f"kernel void many({buffers}, {numbers}) {{ a0[0] = sa0; }}")
    arguments = tuple(mk.zeros(16) for _ in names) + tuple(float(i) for i in range(14))
    x = np.zeros(1, np.float32)

    def waited() -> None:
        empty(ndrange=1)
        mk.synchronize()

    counter = iter(range(10**6))

    def first() -> None:
        mk.Kernel(f"kernel void e(device int* a) {{ a[0] = {next(counter)}; }}")(mk.zeros(1, np.int32), ndrange=1)
        mk.synchronize()

    cold = [
        tuple(
            map(
                float,
                subprocess.run([sys.executable, "-c", COLD], check=True, capture_output=True, text=True).stdout.split(),
            )
        )
        for _ in range(5)
    ]
    rows = [
        ("numpy.add of one element (baseline)", median_us(lambda: np.add(x, x, out=x), 1000), "us"),
        ("launch, empty kernel", median_us(lambda: empty(ndrange=1), 500, mk.synchronize), "us"),
        ("launch, 28 arguments", median_us(lambda: many(*arguments, ndrange=1), 500, mk.synchronize), "us"),
        ("launch and wait, empty kernel", median_us(waited, 100), "us"),
        ("compile and run a new kernel", median_us(first, 2) / 1e3, "ms"),
        ("first kernel of a new process", statistics.median(c[1] for c in cold) * 1e3, "ms"),
        ("import metalki (with numpy)", statistics.median(c[0] for c in cold) * 1e3, "ms"),
    ]
    for name, value, unit in rows:
        print(f"{name:<38} {value:10.3f} {unit}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
