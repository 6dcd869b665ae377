"""Short rows sorted by a SIMD-group each: a bitonic network over the registers of its lanes.

Element e of a row is register e % R of lane e / R, so that of a network's steps most compare registers of one lane (Batcher,
"Sorting networks and their applications", 1968). Lanes whose part is in descending order hold inverted keys meanwhile.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._array import Array
from .._kernel import Kernel
from . import _common as c

# Elements of a row at most: 32 lanes of 32 registers.
LONGEST = 1024

_SOURCE = """
kernel void ki_rows(device ki_t* out, device const ki_t* x, constant ix& length,
                    uint row [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
    device const ki_t* from = x + (ix)row * length;
    device ki_t* to = out + (ix)row * length;
    NETWORK
}
"""

# From `length` keys at `from` to the elements at `to`.
_NETWORK = """
    uint v[KI_REGISTERS];
    LOAD
    SMALL
    uint inverted = 0;
    for (uint size = KI_REGISTERS; size <= 32 * KI_REGISTERS; size *= 2) {
        const uint wanted = lane & (size / KI_REGISTERS) ? 0xFFFFFFFFu : 0u, change = wanted ^ inverted;
        inverted = wanted;
        INVERT
        ACROSS
        WITHIN
    }
    STORE
"""


def _within(step: int, registers: int, descends: Any) -> str:
    """Compares registers that lie `step` apart; `descends` tells for each whether the larger one comes first."""
    text = []
    for i in range(registers):
        if i & step == 0:
            low, high = (i + step, i) if descends(i) else (i, i + step)
            text.append(f"{{ const uint a = v[{i}], b = v[{i + step}]; v[{low}] = min(a, b); v[{high}] = max(a, b); }}")
    return " ".join(text)


def body(registers: int, key: str) -> str:
    """The statements that sort up to 32 * registers elements; `key` reads the one at `{at}`."""
    each = range(registers)
    small = []
    size = 2
    while size < registers:
        step = size // 2
        while step:
            small.append(_within(step, registers, lambda i, size=size: i & size))
            step //= 2
        size *= 2
    across = []
    for lanes in (16, 8, 4, 2, 1):
        steps = " ".join(
            f"{{ const uint o = simd_shuffle_xor(v[{i}], (ushort){lanes}); v[{i}] = low ? min(v[{i}], o) : max(v[{i}], o); }}"
            for i in each
        )
        across.append(f"if ({lanes * registers} < size) {{ const bool low = (lane & {lanes}) == 0; {steps} }}")
    within = []
    step = registers // 2
    while step:
        within.append(_within(step, registers, lambda i: False))
        step //= 2
    parts = {
        "LOAD": " ".join(
            f"v[{i}] = (ix)({i * 32} + lane) < length ? {key.format(at=f'{i * 32} + lane')} : 0xFFFFFFFFu;"
            for i in each
        ),
        "SMALL": " ".join(small),
        "INVERT": " ".join(f"v[{i}] ^= change;" for i in each),
        "ACROSS": " ".join(across),
        "WITHIN": " ".join(within),
        "STORE": " ".join(
            f"if ((ix)(lane * KI_REGISTERS + {i}) < length) to[lane * KI_REGISTERS + {i}] = ki_value((ki_k)v[{i}]);"
            for i in each
        ),
    }
    text = _NETWORK
    for name, part in parts.items():
        text = text.replace(name, part)
    return text


def _source(registers: int) -> str:
    return f"#define KI_REGISTERS {registers}u\n" + _SOURCE.replace("NETWORK", body(registers, "ki_key(from[{at}])"))


def sorted_rows(x: Array, rows: int, length: int, keys: str, descending: bool) -> Array:
    """The rows of `x` sorted; `keys` is the text of ki_key and ki_value, whose keys have at most 32 bits."""
    registers = 1
    while registers * 32 < length:
        registers *= 2
    kernel: Kernel = c.cached(
        ("sort rows", x.dtype, descending, registers, x.size >= c.NARROW, x.device),
        lambda: c.compiled(keys + _source(registers), "ki_rows"),
    )
    out = c.result_like(x.shape, x.dtype, x)
    kernel(out, x, length, numworkgroups=rows, workgroupsize=32)
    return out


def fits(dtype: np.dtype[Any], length: int) -> bool:
    """Whether rows of this length and dtype are sorted so."""
    return length <= LONGEST and dtype.itemsize <= 4
