"""A day's worth of launches at once: memory must stay flat. `python bench/soak.py [LAUNCHES]`, 10,000,000 by default.

Mixes kernels, queues, copies, events, callbacks, arrays that come and go, and numpy arguments. Prints the resident memory
every tenth of the way; exits with 1 when it grew by more than 8 MiB from the second tenth to the end.
"""

from __future__ import annotations

import gc
import sys
import time
from pathlib import Path

import numpy as np

import metalki as mk
from metalki import kernel_interface as KI

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void add(device uint* a, constant uint& n, uint i [[thread_position_in_grid]]) { a[i] += n; }
kernel void copy(device uint* to, device const uint* from, uint i [[thread_position_in_grid]]) { to[i] = from[i]; }
kernel void sum(device uint* o, device const uint* a, uint i [[thread_position_in_grid]]) {
    uint s = simd_sum(a[i]); if (i == 0) o[0] = s; }
"""


def resident() -> float:
    """MiB of this process in memory."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def main() -> int:
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    backend, library = mk.MetalBackend(), mk.compile(SOURCE)
    add, copy, reduce = library["add"], library["copy"], library["sum"]
    a, b, host = mk.zeros(64, np.uint32), mk.zeros(64, np.uint32), np.zeros(64, np.uint32)
    other = mk.Queue(label="other", time_limit=60)
    launched = added = completed = 0

    def count() -> None:
        nonlocal completed
        completed += 1

    start, marks, callbacks = time.perf_counter(), [], 0
    step = total // 10
    for tenth in range(10):
        until = (tenth + 1) * step
        while launched < until:
            for _ in range(996):
                add(a, 1, ndrange=64)
            copy(b, a, ndrange=64)
            temporary = mk.zeros(64, np.uint32)
            copy(temporary, b, ndrange=64)
            KI.wait_event(backend, KI.record_event(backend), other)
            reduce(temporary, b, ndrange=32, queue=other)
            copy(host, temporary, ndrange=64, queue=other)  # written back: waits
            added += 996
            launched += 1000
            if host[63] != np.uint32(added % 2**32):
                raise SystemExit(f"wrong result after {launched} launches: {host[63]}, {added} is right")
            if launched % 50_000 == 0:
                mk.on_complete(count)
                callbacks += 1
                KI.copyto(backend, host, a)
                mk.Queue()  # comes and goes
                mk.synchronize()
        mk.device_synchronize()
        gc.collect()
        marks.append(resident())
        rate = launched / (time.perf_counter() - start)
        print(f"{launched:>12,} launches  {marks[-1]:8.1f} MiB resident  {rate:10,.0f} launches a second", flush=True)
    grown = marks[-1] - marks[1]
    print(f"grown by {grown:.1f} MiB since the second tenth; {completed} of {callbacks} callbacks")
    return 1 if grown > 8 else 0


if __name__ == "__main__":
    raise SystemExit(main())
