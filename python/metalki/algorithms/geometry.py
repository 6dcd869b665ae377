"""How an operation over N axes becomes a grid: axes merged where memory allows it, indices without division up to three."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ._common import NARROW

# Elements that a SIMD-group takes of operands that lie in one row, where there are that many.
CHUNK = 2048
# The same where few cores share the work and the start of each SIMD-group counts.
CPU_CHUNK = 8192
# Threads along x of a grid over 2^31 and more elements.
WIDE_ROW = 2**30


class Geometry(NamedTuple):
    """The merged axes of an operation. `strides[k]` are operand k's steps in elements; operand 0 is the output."""

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Steps in elements of a C-ordered array."""
    steps = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        steps[i] = steps[i + 1] * shape[i + 1]
    return tuple(steps)


def broadcast_strides(shape: Sequence[int], target: Sequence[int]) -> tuple[int, ...]:
    """Steps of a C-ordered array of `shape` seen as `target`: 0 along axes that are repeated."""
    steps = contiguous_strides(shape)
    own = tuple(0 if size == 1 else step for size, step in zip(shape, steps, strict=True))
    return (0,) * (len(target) - len(shape)) + own


def merged(sizes: Sequence[int], strides: Sequence[Sequence[int]], offsets: Sequence[int] | None = None) -> Geometry:
    """Drops axes of one element and merges neighbours that all operands walk as one."""
    kept = [i for i, size in enumerate(sizes) if size != 1]
    out_sizes: list[int] = []
    out_strides: list[list[int]] = [[] for _ in strides]
    for i in kept:
        if out_sizes and all(o[-1] == s[i] * sizes[i] for o, s in zip(out_strides, strides, strict=True)):
            out_sizes[-1] *= sizes[i]
            for o, s in zip(out_strides, strides, strict=True):
                o[-1] = s[i]
            continue
        out_sizes.append(sizes[i])
        for o, s in zip(out_strides, strides, strict=True):
            o.append(s[i])
    if not out_sizes:
        out_sizes = [1]
        out_strides = [[0] if k else [1] for k in range(len(strides))]
    starts = tuple(offsets) if offsets is not None else (0,) * len(strides)
    return Geometry(tuple(out_sizes), tuple(tuple(s) for s in out_strides), starts)


class Layout(NamedTuple):
    """A geometry as source text, grid and argument. `parameter` is None when the indices need no numbers."""

    key: tuple[object, ...]  # all that the text depends on
    declaration: str  # the struct of the numbers, and the index type
    position: str  # the kernel's position parameter
    statements: str  # declares i0, i1, ...: the operands' indices
    parameter: bytes | int | None
    ndrange: tuple[int, ...]
    groups: int | None = None  # of one SIMD-group and `chunk` elements each, in place of the ndrange
    chunk: int = 0


def layout(geometry: Geometry, chunk: int = CHUNK) -> Layout:
    """The index computation of a geometry: 32-bit where all indices fit, no division for up to three merged axes."""
    sizes, strides, offsets = geometry
    rank = len(sizes)
    total = 1
    for size in sizes:
        total *= size
    reach = max(
        o + sum(abs(s) * (n - 1) for s, n in zip(steps, sizes, strict=True))
        for o, steps in zip(offsets, strides, strict=True)
    )
    wide = max(reach + 1, total) >= NARROW
    linear = total >= NARROW and (rank == 1 or max(sizes) >= NARROW or (rank > 3 and total // sizes[-1] >= NARROW))
    inner = tuple(s[-1] if s[-1] in (-1, 0, 1) else 2 for s in strides)
    in_row = rank == 1 and 2 not in inner and -1 not in inner and not any(offsets)
    chunked = in_row and total >= 2 * CHUNK
    plain = in_row and not chunked
    key = (rank, wide, linear and not chunked, inner, plain, chunked and chunk)
    ix, np_ix = ("long", np.int64) if wide else ("int", np.int32)
    if chunked:
        position = "uint ki_group [[threadgroup_position_in_grid]], uint ki_lane [[thread_index_in_simdgroup]]"
        lines = [f"const ix i{k} = {'at' if mode else '0'};" for k, mode in enumerate(inner)]
        return Layout(key, f"typedef {ix} ix;\n", position, " ".join(lines), total, (), -(-total // chunk), chunk)
    if plain:
        lines = [f"const {ix} i{k} = {'at' if mode else '0'};" for k, mode in enumerate(inner)]
        return Layout(key, f"typedef {ix} ix;\n", "uint at [[thread_position_in_grid]]", " ".join(lines), None, sizes)
    count = len(strides)
    struct = f"typedef {ix} ix;\nstruct ki_geometry {{ ix size[{rank}]; ix offset[{count}]; ix stride[{count}][{rank}]; }};\n"
    numbers = np.array([*sizes, *offsets, *(s for steps in strides for s in steps)], np_ix).tobytes()
    before, axes = _axes(rank, linear)
    lines = [before]
    for k, mode in enumerate(inner):
        terms = [f"g.offset[{k}]"]
        for d, position in enumerate(axes):
            if d == rank - 1 and mode == 0:
                continue
            if d == rank - 1 and mode in (-1, 1):
                terms.append(position if mode == 1 else f"-{position}")
            else:
                terms.append(f"{position} * g.stride[{k}][{d}]")
        lines.append(f"const ix i{k} = {' + '.join(terms)};")
    grid: tuple[int, ...]
    if linear:
        grid = (WIDE_ROW, -(-total // WIDE_ROW))
    else:
        grid = tuple(reversed(sizes[-2:])) if rank > 3 else tuple(reversed(sizes))
        if rank > 3:
            grid = (*grid, total // (sizes[-1] * sizes[-2]))
    return Layout(key, struct, "uint3 at [[thread_position_in_grid]]", "\n    ".join(lines), numbers, grid)


def _axes(rank: int, linear: bool) -> tuple[str, list[str]]:
    """Statements before, and each axis' position."""
    names = [f"p{d}" for d in range(rank)]
    if linear:
        text = [
            f"ix rest = (ix)at.y * {WIDE_ROW} + at.x;",
            f"if (rest >= {' * '.join(f'g.size[{d}]' for d in range(rank))}) return;",
        ]
        text += [f"const ix p{d} = rest % g.size[{d}]; rest /= g.size[{d}];" for d in range(rank - 1, 0, -1)]
        return " ".join([*text, "const ix p0 = rest;"]), names
    if rank <= 3:
        return "", [f"(ix)at.{'xyz'[rank - 1 - d]}" for d in range(rank)]
    text = [f"const ix p{rank - 1} = at.x; const ix p{rank - 2} = at.y; ix rest = at.z;"]
    text += [f"const ix p{d} = rest % g.size[{d}]; rest /= g.size[{d}];" for d in range(rank - 3, 0, -1)]
    return " ".join([*text, "const ix p0 = rest;"]), names
