"""What a row is: a kernel of ours, its check, and peers that do the same work."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

import metalki as mk

HEAD = "#include <metal_stdlib>\n#include <metal_simdgroup_matrix>\nusing namespace metal;\n"
THREADS = int(os.environ.get("METALKI_NUM_THREADS", "1"))
random = np.random.default_rng(0)


@dataclass
class Peer:
    """Who does the same, the ratio of our time to its time that is to be reached (0: no promise), and which share of its time
    counts when it does more of the same work."""

    name: str
    run: Callable[[], object]
    reach: float = 0.0
    share: float = 1.0


@dataclass
class Row:
    name: str
    run: Callable[[], object]
    check: Callable[[], bool]
    peers: Sequence[Peer] = field(default_factory=list)


def kernel(text: str, name: str | None = None, **constants: int) -> mk.Kernel:
    return mk.Kernel(HEAD + text, name, function_constants=constants or None)


def near(got: np.ndarray, wanted: np.ndarray, tolerance: float = 1e-4) -> bool:
    return bool(np.allclose(got, wanted, rtol=tolerance, atol=tolerance * float(np.abs(wanted).max())))


_pool = ThreadPoolExecutor(THREADS)


def in_parts(work: Callable[[int, int], object], count: int) -> Callable[[], None]:
    """work(begin, end) over 0..count in as many parts as there are threads; for peers that give up the interpreter's lock."""
    edges = [count * i // THREADS for i in range(THREADS + 1)]
    if THREADS == 1:
        return lambda: work(0, count) and None

    def run() -> None:
        for part in [_pool.submit(work, a, b) for a, b in itertools.pairwise(edges)]:
            part.result()

    return run
