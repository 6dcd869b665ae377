"""Arrays of more than 2^31 elements: the index arithmetic, and one-byte arrays where the memory is there."""

from __future__ import annotations

import math
import os
import re

import numpy as np
import pytest

import metalki as mk
from metalki.algorithms.geometry import CHUNK, WIDE_ROW, Geometry, contiguous_strides, layout, merged

HUGE = 2**31 + 70001


def indices(geometry: Geometry, at: tuple[int, int, int]) -> list[int] | None:
    """What the generated statements compute for the thread `at`, in Python's integers; None when it returns early."""
    where = layout(geometry)
    if where.parameter is None or where.groups is not None:
        names = re.findall(r"const \w+ i(\d+) = (at|0);", where.statements)
        return [at[0] if value == "at" else 0 for _, value in names]
    rank, count = len(geometry.sizes), len(geometry.strides)
    wide = "typedef long ix" in where.declaration
    numbers = np.frombuffer(where.parameter, np.int64 if wide else np.int32).tolist()
    size, offset, steps = numbers[:rank], numbers[rank : rank + count], numbers[rank + count :]
    text = where.statements.replace("(ix)", "").replace("const ix ", "").replace("ix ", "")
    for d, name in enumerate("xyz"):
        text = text.replace(f"at.{name}", str(at[d]))
    text = re.sub(r"g\.stride\[(\d+)\]\[(\d+)\]", lambda m: str(steps[int(m[1]) * rank + int(m[2])]), text)
    text = re.sub(r"g\.offset\[(\d+)\]", lambda m: str(offset[int(m[1])]), text)
    text = re.sub(r"g\.size\[(\d+)\]", lambda m: str(size[int(m[1])]), text)
    scope: dict[str, int] = {}
    for statement in filter(None, (s.strip() for s in text.split(";"))):
        early = re.match(r"if \((.*)\) return$", statement)
        if early:
            if eval(early[1], {}, scope):
                return None
            continue
        exec(statement.replace("/=", "//="), {}, scope)
    found = [scope[f"i{k}"] for k in range(count)]
    if not wide:
        assert all(-(2**31) <= i < 2**31 for i in found)
    return found


@pytest.mark.parametrize(
    "shape",
    [
        (HUGE,),
        (3, 2**30),
        (2**16, 2**16),
        (5, 3, 2**28, 2),
        (2, 3, 4, 5, 6, 7, 2**21),
        (70000, 40000),
        (2**33,),
        (2, 2**32),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["same", "transposed", "reversed"])
def test_indices_of_huge_arrays(shape: tuple[int, ...], kind: str) -> None:
    out = contiguous_strides(shape)
    if kind == "transposed":
        own = contiguous_strides(shape[::-1])[::-1]
        offset = 0
    elif kind == "reversed":
        own = tuple(-s for s in out)
        offset = math.prod(shape) - 1
    else:
        own, offset = out, 0
    geometry = merged(shape, [out, own], [0, offset])
    where = layout(geometry)
    assert "long" in where.declaration
    total = math.prod(shape)
    if where.groups is not None:
        assert where.groups * CHUNK >= total > (where.groups - 1) * CHUNK
        assert where.parameter == total
        assert indices(geometry, (total - 1, 0, 0)) == [total - 1] * 2
        return
    grid = (*where.ndrange, 1, 1)[:3]
    assert all(0 < n < 2**32 for n in grid)
    assert math.prod(grid) >= total
    for flat in (0, 1, total // 3, 2**31 - 1, 2**31, 2**31 + 12345, total - 1):
        position = np.unravel_index(flat, geometry.sizes)
        want = [
            o + sum(int(p) * s for p, s in zip(position, steps, strict=True))
            for o, steps in zip(geometry.offsets, geometry.strides, strict=True)
        ]
        if f"* {WIDE_ROW}" in where.statements:
            at = (flat % WIDE_ROW, flat // WIDE_ROW, 0)
        else:
            *outer, y, x = (0, 0, *(int(p) for p in position))
            at = (x, y, 0)
            for p, n in zip(outer, (1, 1, *geometry.sizes)[-2 - len(outer) : -2], strict=True):
                at = (x, y, at[2] * n + p)
        assert indices(geometry, at) == want
    if f"* {WIDE_ROW}" in where.statements and total % WIDE_ROW:
        assert indices(geometry, (total % WIDE_ROW, total // WIDE_ROW, 0)) is None


def test_small_arrays_use_32_bits_and_no_division() -> None:
    for shape in ((1000,), (100000,), (100, 7), (5, 6, 7)):
        axes = shape[::-1]
        where = layout(merged(shape, [contiguous_strides(shape), contiguous_strides(axes)[::-1]]))
        assert "long" not in where.declaration
        assert "/" not in where.statements
        assert "%" not in where.statements


def memory() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 0


@pytest.mark.slow
@pytest.mark.skipif(memory() < 5 * 2**30, reason="needs 5 GB of free memory")
def test_a_huge_array() -> None:
    x = mk.zeros(HUGE, np.uint8)
    mk.fill(x, 1)
    assert int(mk.sum(x)) == HUGE
    host = x.numpy()
    host[-5], host[2**31 + 3] = 9, 0
    assert int(mk.argmax(x)) == HUGE - 5
    assert int(mk.argmin(x)) == 2**31 + 3
    assert mk.findfirst("x == 9", x) == HUGE - 5
    assert mk.findall("x != 1", x).tolist() == [2**31 + 3, HUGE - 5]
    assert mk.take(x, [HUGE - 5, -5, 0, 2**31 + 3]).tolist() == [9, 9, 1, 0]
    mk.random.Generator(1).integers(0, 256, out=x)
    mk.synchronize()
    tail = host[-HUGE % 128 - 200 :].copy()
    assert len(set(tail.tolist())) > 50
