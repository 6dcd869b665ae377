"""Copies whose neighbours lie far apart: blocks that read and write whole cache lines.

Threads of a SIMD-group lie along one axis and walk a block of another one, so that what one step of the group touches in
scattered lines, its next steps use up: along the result's last axis when that is long, else along the source's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._array import Array
from .._kernel import Kernel
from . import _common as c
from .geometry import merged

_BLOCK = 16

_SOURCE = """
// x: the axis of the lanes; y: a block of the walked axis; z: all other axes.
struct ki_axes { ix lane_in, lane_out, walk_in, walk_out, walk; ix size[KI_REST]; ix in[KI_REST]; ix out[KI_REST]; };
kernel void ki_transpose(device ki_t* out, device const ki_t* x, constant ki_axes& g,
                         uint3 at [[thread_position_in_grid]]) {
    ix rest = at.z, from = 0, to = 0;
    for (int d = KI_REST - 1; d > 0; --d) {
        const ix p = rest % g.size[d];
        rest /= g.size[d];
        from += p * g.in[d];
        to += p * g.out[d];
    }
    const ix first = (ix)at.y * KI_BLOCK, count = min((ix)KI_BLOCK, g.walk - first);
    from += rest * g.in[0] + KI_STEP(at.x, g.lane_in, KI_LANE_IN) + KI_STEP(first, g.walk_in, KI_WALK_IN);
    to += rest * g.out[0] + KI_STEP(at.x, g.lane_out, KI_LANE_OUT) + KI_STEP(first, g.walk_out, KI_WALK_OUT);
    for (ix j = 0; j < count; ++j)
        out[to + KI_STEP(j, g.walk_out, KI_WALK_OUT)] = x[from + KI_STEP(j, g.walk_in, KI_WALK_IN)];
}
"""


class Plan(NamedTuple):
    """A compiled copy, its numbers and grid."""

    kernel: Kernel
    parameter: bytes
    ndrange: tuple[int, int, int]


def plan(x: Array, shape: tuple[int, ...], strides: tuple[int, ...], out_strides: tuple[int, ...]) -> Plan | None:
    """The blocked copy of `x` by these steps; None where the plain one is as good."""
    if x.size < 4096 or x.size >= c.NARROW or 0 in strides or min(strides, default=1) < 0:
        return None
    sizes, (to, source), _ = merged(shape, [out_strides, strides])
    rank = len(sizes)
    if rank < 2 or source[-1] == 1 or 1 not in source or to[-1] != 1:
        return None
    last, inner = rank - 1, source.index(1)
    lane, walk = (last, inner) if sizes[last] >= 24 or sizes[inner] < sizes[last] else (inner, last)
    others = [d for d in range(rank) if d not in (lane, walk)]
    kept = [(sizes[d], source[d], to[d]) for d in others] or [(1, 0, 0)]
    ones = (source[lane] == 1, to[lane] == 1, source[walk] == 1, to[walk] == 1)
    kernel: Kernel = c.cached(
        ("transpose", x.dtype, len(kept), ones, x.device), lambda: _compiled(x.dtype, len(kept), ones)
    )
    numbers = [
        source[lane],
        to[lane],
        source[walk],
        to[walk],
        sizes[walk],
        *(n for part in zip(*kept, strict=True) for n in part),
    ]
    grid = (sizes[lane], c.ceil_div(sizes[walk], _BLOCK), c.elements([n for n, _, _ in kept]))
    return Plan(kernel, np.array(numbers, np.int32).tobytes(), grid)


def _compiled(dtype: np.dtype[Any], rest: int, ones: tuple[bool, ...]) -> Kernel:
    flags = zip(("LANE_IN", "LANE_OUT", "WALK_IN", "WALK_OUT"), ones, strict=True)
    return c.compiled(
        f"{c.PRELUDE}typedef int ix; typedef {c.msl(dtype, 'permute_dims')} ki_t;\n"
        f"#define KI_REST {rest}\n#define KI_BLOCK {_BLOCK}\n#define KI_STEP(i, step, one) (one ? (ix)(i) : (ix)(i) * step)\n"
        + "".join(f"#define KI_{name} {int(flag)}\n" for name, flag in flags)
        + _SOURCE,
        "ki_transpose",
    )
