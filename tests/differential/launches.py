"""Shapes of threadgroups and grids."""

from __future__ import annotations

import random

Launch = tuple[tuple[int, ...], tuple[int, ...]]  # threadgroup, ndrange
WHOLE: tuple[Launch, ...] = (
    ((32,), (256,)),
    ((64,), (192,)),
    ((256,), (768,)),
    ((128,), (384,)),
    ((1024,), (1024,)),
    ((96,), (480,)),
    ((64, 2), (64, 6)),
    ((32, 4), (32, 12)),
    ((32, 2, 2), (64, 4, 4)),
)
ODD: tuple[Launch, ...] = (
    ((64,), (200,)),
    ((33,), (100,)),
    ((1,), (7,)),
    ((256,), (700,)),
    ((31,), (93,)),
    ((16,), (40,)),
    ((128,), (129,)),
    ((1024,), (1500,)),
    ((7,), (50,)),
    ((16, 16), (40, 33)),
    ((16, 16), (32, 32)),
    ((5, 7), (17, 20)),
    ((1, 64), (3, 130)),
    ((33, 1), (70, 4)),
    ((8, 8), (24, 16)),
    ((32, 4), (33, 9)),
    ((4, 32), (12, 40)),
    ((2, 3), (9, 10)),
    ((8, 8, 4), (17, 9, 5)),
    ((2, 3, 5), (7, 7, 11)),
    ((4, 4, 4), (8, 8, 8)),
    ((32, 2, 2), (40, 3, 3)),
    ((1, 1, 33), (2, 3, 40)),
    ((37,), (111,)),
    ((45, 3), (90, 7)),
    ((9, 3, 4), (9, 9, 8)),
    ((63,), (126,)),
)


def shapes(seed: int) -> list[Launch]:
    """Threadgroup and ndrange of the launches of a kernel: rows of whole SIMD-groups, anything, or both."""
    r = random.Random(seed * 7 + 1)
    out: list[Launch] = []
    choice = r.randrange(4)
    if choice < 3:
        out.append(r.choice(WHOLE))
    if choice > 1:
        out.append(r.choice(ODD))
    return out
