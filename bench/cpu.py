"""Kernels on the CPU device beside numpy, memcpy, BLAS, ISPC and PoCL doing the same in the same run.

    python bench/cpu.py [--threads 1] [--repeat 7] [--json FILE] [NAME ...]

Every row checks its result, then prints the median milliseconds of it and of each peer, and their ratio beside what is to be
reached. The calls of a row and of its peers take turns. BLAS and memcpy get as many threads; numpy has one.

Peers that are not there are left out: ISPC is the command `ispc` or what $ISPC names, PoCL needs the packages
`pocl-opencl-icd` (Debian) and `pyopencl` (PyPI), ggml's kernels need METALKI_REALWORLD_SOURCES (tests/realworld/README.md).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("names", nargs="*", help="only the rows whose name contains one of these")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--repeat", type=int, default=7)
parser.add_argument("--json", type=Path, help="also write the table there")
options = parser.parse_args()
for variable in ("METALKI", "OPENBLAS", "OMP", "MKL"):
    os.environ[f"{variable}_NUM_THREADS"] = str(options.threads)
for variable in ("POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT", "POCL_MAX_COMPUTE_UNITS"):
    os.environ[variable] = str(options.threads)

from cpu_rows import element_wise, products, quantised, reductions, together  # noqa: E402  after the environment is set
from cpu_rows.row import Row  # noqa: E402

import metalki as mk  # noqa: E402

FAMILIES = (
    element_wise.sums,
    element_wise.functions,
    element_wise.copies,
    element_wise.images,
    element_wise.stencils,
    products.products,
    products.matrices,
    products.mat_vecs,
    reductions.sums,
    reductions.by_rows,
    together.bodies,
    together.histograms,
    together.sorts,
    quantised.mat_vecs,
)


def medians(calls: list[Callable[[], object]]) -> list[float]:
    """Milliseconds of each call; they take turns, so that what disturbs the machine disturbs all of them."""
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(options.repeat + 1):
        for call, taken in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            if turn:
                taken.append(1e3 * (time.perf_counter() - start))
    return [statistics.median(taken) for taken in times]


def measure(row: Row) -> bool:
    """Prints the row and says whether its result is right."""

    def ours() -> None:
        row.run()
        mk.synchronize()

    ours()
    right = row.check()
    mine, *others = medians([ours, *(peer.run for peer in row.peers)])
    print(f"{row.name:26} {mine:9.3f}{'' if right else '  WRONG'}", flush=True)
    for peer, whole in zip(row.peers, others, strict=True):
        its = whole * peer.share
        ratio = mine / its
        reach = f"{peer.reach:5.2f}{'' if ratio <= peer.reach else '  missed'}" if peer.reach else ""
        print(f"    {peer.name:22} {its:9.3f} {ratio:7.2f} {reach}", flush=True)
        results.append(
            {"row": row.name, "ms": mine, "peer": peer.name, "peer ms": its, "ratio": ratio, "reach": peer.reach}
        )
    return right


results: list[dict[str, object]] = []


def main() -> int:
    wrong = 0
    print(f"{options.threads} thread(s), medians of {options.repeat}; time of ours / time of the peer\n")
    print(f"{'kernel':26} {'ms':>9} {'ratio':>7} {'reach':>5}")
    for family in FAMILIES:
        for row in family():
            if not options.names or any(name in row.name for name in options.names):
                wrong += not measure(row)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
