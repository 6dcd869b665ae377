"""Short rows sorted by a SIMD-group each: networks of comparators over the registers of its lanes, chunk by chunk.

Within a lane the comparators are Batcher's odd-even merge sort; across lanes they are bitonic merges (Batcher, "Sorting
networks and their applications", 1968). Before a comparison across lanes, two registers swap what half of their lanes
hold, so that its partners lie in one lane: the place of every bit of an element's number is known when the text is
written. Sorted chunks wait in threadgroup memory and are merged there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._array import Array
from .._kernel import Kernel
from . import _common as c

# Bits of a lane's number; swapping on the highest one is free where 16 lanes fill a vector register.
_LANE_BITS, _FREE = 5, 4


class Form(NamedTuple):
    """How much code sorts a row: registers of a lane (a chunk is 32 times as many elements), and elements at most."""

    registers: int
    longest: int


# Long code for much work, which takes 0.1 s to compile, and shorter code for little work.
QUICK, SMALL, LEAST = Form(8, 1024), Form(2, 8192), Form(2, 64)
_MUCH_WORK = 2**18

# What a sort compares: ki_n, made of an element by ki_in and turned back by ki_back. Floats come without NaN.
_FUNCTIONS = """
inline void ki_pair(thread ki_n& x, thread ki_n& y) {
    const ki_n a = x, b = y;
    x = a < b ? a : b;
    y = b > a ? b : a;  // of equal ones each is kept once
}
inline void ki_mirrored(thread ki_n& x, thread ki_n& y, ushort lanes) {
    y = simd_shuffle_xor(y, lanes);
    ki_pair(x, y);
}
inline void ki_swap(thread ki_n& x, thread ki_n& y, ushort bit, uint lane) {
    const ki_n a = x, b = y, from_b = simd_shuffle_xor(b, bit), from_a = simd_shuffle_xor(a, bit);
    x = lane & bit ? from_b : a;
    y = lane & bit ? b : from_a;
}
"""

# From the elements KI_AT(i), i < length, to `to`.
_SORT = """
    const uint end = (length + KI_CHUNK - 1) / KI_CHUNK * KI_CHUNK;
    ki_n REGISTERS;
#if KI_FLOAT
    bool is_special = false;
#endif
    for (uint at = 0; at < end; at += KI_CHUNK) {
        if (at + KI_CHUNK <= length) { LOAD } else { LOAD_PART }
#if KI_FLOAT
        const int least_bits = LEAST_BITS;
        if (simd_any(UNORDERED || least_bits == INT_MIN)) {
            is_special = true;
            NO_NANS
        }
#endif
        NETWORK
        if (length == KI_CHUNK) { STORE_OUT } else { STORE }
    }
    MERGES
    simdgroup_barrier(mem_flags::mem_threadgroup);
    // Whole chunks are there already.
    for (uint i = length / KI_CHUNK * KI_CHUNK + lane; i < length; i += 32) to[i] = ki_back(keys[i]);
#if KI_FLOAT
    if (is_special) {
        // Of zeros those with a sign come first, NaN last.
        uint below = 0, minus_zeros = 0, zeros = 0, nans = 0;
        for (uint i = lane; i < length; i += 32) {
            const ki_n key = ki_in(KI_AT(i));
            below += key < 0;
            zeros += key == 0;
            minus_zeros += as_type<int>(key) == INT_MIN;
            nans += key != key;
        }
        below = simd_sum(below);
        zeros = simd_sum(zeros);
        minus_zeros = simd_sum(minus_zeros);
        nans = simd_sum(nans);
        simdgroup_barrier(mem_flags::mem_device);
        for (uint i = lane; i < nans; i += 32) to[KI_DESCENDING ? i : length - nans + i] = (ki_t)NAN;
        if (KI_DESCENDING) below += nans;
        for (uint i = lane; i < zeros; i += 32) to[below + i] = ki_back(i < minus_zeros ? -0.0f : 0.0f);
    }
#endif
"""

_MERGES = """// What would be beyond the end is larger than all else, and stays there.
    for (uint size = 2 * KI_CHUNK; size < 2 * end; size *= 2) {
        simdgroup_barrier(mem_flags::mem_threadgroup);
        for (uint block = 0; block < end; block += size) {
            const uint outside = block + size > end ? block + size - end : 0;
            for (uint i = outside; i < size / 2; i += 32) {
                const uint low = block + i + lane, high = block + size - 32 - i + lane;
                ki_n a = keys[low], b = keys[high];
                ki_mirrored(a, b, 31);
                keys[low] = a;
                keys[high] = b;
            }
        }
        for (uint step = size / 4; step >= KI_CHUNK; step /= 2) {
            simdgroup_barrier(mem_flags::mem_threadgroup);
            for (uint block = 0; block + step < end; block += 2 * step)
                for (uint i = block + lane; i < min(block + step, end - step); i += 32) {
                    ki_n a = keys[i], b = keys[i + step];
                    ki_pair(a, b);
                    keys[i] = a;
                    keys[i + step] = b;
                }
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
        for (uint at = 0; at < end; at += KI_CHUNK) {
            FETCH
            MERGE
            if (size >= end && at + KI_CHUNK <= length) { MERGED_OUT } else { MERGED }
        }
    }
"""

_ROWS = """
#define KI_AT(i) from[i]
kernel void ki_rows(device ki_t* out, device const ki_t* x, constant ix& row_length,
                    uint row [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
    threadgroup ki_n keys[KI_LONGEST];
    device const ki_t* from = x + (ix)row * row_length;
    device ki_t* to = out + (ix)row * row_length;
    const uint length = row_length;
    SORT
}
"""


class _Places:
    """Which bit of an element's number each bit of a register's number and of a lane's number is, and the text so far."""

    def __init__(self, registers: int, in_registers: list[int], in_lanes: list[int]) -> None:
        self.registers, self.in_registers, self.in_lanes = registers, in_registers, in_lanes
        self.text: list[str] = []

    def _pairs(self, of: int) -> list[tuple[int, int]]:
        return [(i, i | 1 << of) for i in range(self.registers) if not i >> of & 1]

    def swap(self, register_bit: int, lane_bit: int) -> None:
        """Lets a bit of registers and one of lanes change places."""
        for i, other in self._pairs(register_bit):
            self.text.append(f"ki_swap(v{i}, v{other}, {1 << lane_bit}, lane);")
        mine, theirs = self.in_registers, self.in_lanes
        mine[register_bit], theirs[lane_bit] = theirs[lane_bit], mine[register_bit]

    def bring(self, bit: int, later: list[int]) -> None:
        """Makes `bit` one of registers, in place of that which is needed last; `later` are those still to come."""

        def due(other: int) -> int:
            return later.index(other) if other in later else len(later)

        mine = self.in_registers
        if bit in mine:
            return
        lane_bit = self.in_lanes.index(bit)
        if lane_bit != _FREE and due(self.in_lanes[_FREE]) > max(due(b) for b in mine):
            self.swap(0, _FREE)
        self.swap(mine.index(max(mine, key=due)), lane_bit)

    def compare(self, bit: int, mirrored: bool) -> None:
        """The smaller of two to where `bit` is 0; `mirrored` compares with what has the lower bits the other way round."""
        registers = sum(1 << j for j, b in enumerate(self.in_registers) if b < bit) if mirrored else 0
        lanes = sum(1 << j for j, b in enumerate(self.in_lanes) if b < bit) if mirrored else 0
        for i, other in self._pairs(self.in_registers.index(bit)):
            partner = other ^ registers
            self.text.append(f"ki_mirrored(v{i}, v{partner}, {lanes});" if lanes else f"ki_pair(v{i}, v{partner});")

    def merge(self, bits: list[int], mirrored_from: int) -> None:
        """Comparisons for each bit in turn; those of `mirrored_from` and above begin a merge when the bit grows."""
        for at, bit in enumerate(bits):
            self.bring(bit, bits[at + 1 :])
            self.compare(bit, bit >= mirrored_from and (at == 0 or bits[at - 1] < bit))
        for lane_bit in range(_LANE_BITS):
            if self.in_lanes[lane_bit] != lane_bit:
                if lane_bit in self.in_lanes:
                    self.swap(0, self.in_lanes.index(lane_bit))
                self.swap(self.in_registers.index(lane_bit), lane_bit)

    def row(self, i: int) -> int:
        """Which 32 of the sorted elements are in register `i`."""
        return sum((i >> j & 1) << bit - _LANE_BITS for j, bit in enumerate(self.in_registers))


def _odd_even(count: int) -> list[tuple[int, int]]:
    """The comparators of Batcher's odd-even merge sort of `count` registers, a power of two."""
    found = []
    size = 1
    while size < count:
        step = size
        while step:
            for first in range(step % size, count - step, 2 * step):
                for low in range(first, min(first + step, count - step)):
                    if low // (2 * size) == (low + step) // (2 * size):
                        found.append((low, low + step))
            step //= 2
        size *= 2
    return found


def body(form: Form) -> str:
    """The statements that sort up to form.longest elements KI_AT(i), i < length, to `to`, by way of `keys`."""
    each = range(form.registers)
    own = form.registers.bit_length() - 1
    bits = own + _LANE_BITS
    sort = _Places(form.registers, list(range(own)), list(range(own, bits)))
    sort.text = [f"ki_pair(v{low}, v{high});" for low, high in _odd_even(form.registers)]
    sort.merge([bit for size in range(own, bits) for bit in range(size, -1, -1)], 0)
    merge = _Places(form.registers, list(range(_LANE_BITS, bits)), list(range(_LANE_BITS)))
    merge.merge(list(range(bits - 1, -1, -1)), bits)
    least = "as_type<int>(v0)"
    for i in each[1:]:
        least = f"min({least}, as_type<int>(v{i}))"
    parts = {
        "REGISTERS": ", ".join(f"v{i}" for i in each),
        "LOAD_PART": " ".join(
            f"v{i} = KI_LAST; if (at + {32 * i} + lane < length) v{i} = ki_in(KI_AT(at + {32 * i} + lane));"
            for i in each
        ),
        "LOAD": " ".join(f"v{i} = ki_in(KI_AT(at + {32 * i} + lane));" for i in each),
        "UNORDERED": " || ".join(f"isunordered(v{i}, v{i + 1})" for i in each if not i & 1),
        "LEAST_BITS": least,
        "NO_NANS": " ".join(f"v{i} = v{i} != v{i} ? KI_NAN : v{i};" for i in each),
        "NETWORK": "\n".join(sort.text),
        "STORE_OUT": " ".join(f"to[{32 * sort.row(i)} + lane] = ki_back(v{i});" for i in each),
        "STORE": " ".join(f"keys[at + {32 * sort.row(i)} + lane] = v{i};" for i in each),
        "FETCH": " ".join(f"v{i} = keys[at + {32 * i} + lane];" for i in each),
        "MERGED_OUT": " ".join(f"to[at + {32 * merge.row(i)} + lane] = ki_back(v{i});" for i in each),
        "MERGED": " ".join(f"keys[at + {32 * merge.row(i)} + lane] = v{i};" for i in each),
        "MERGE": "\n".join(merge.text),
    }
    text = _SORT.replace("MERGES", _MERGES if form.longest > 32 * form.registers else "")
    for name, part in parts.items():
        text = text.replace(name, part)
    return text


def declarations(dtype: np.dtype[Any], descending: bool, form: Form) -> str:
    """The types and functions that body() needs, for elements ki_t."""
    is_float = c.is_float(dtype)
    signed = dtype.kind == "i"
    kind = "float" if is_float else "int" if signed else "uint"
    turn = ("-" if is_float else "~") if descending else ""
    last = "INFINITY" if is_float else "INT_MAX" if signed else "UINT_MAX"
    return (
        f"typedef {kind} ki_n;\n#define KI_FLOAT {int(is_float)}\n#define KI_DESCENDING {int(descending)}\n"
        f"#define KI_LAST ((ki_n){last})\n#define KI_NAN ({'-' if descending else ''}INFINITY)\n"
        f"#define KI_CHUNK {32 * form.registers}u\n#define KI_LONGEST {form.longest}\n"
        f"inline ki_n ki_in(ki_t v) {{ return {turn}(ki_n)v; }}\ninline ki_t ki_back(ki_n k) {{ return (ki_t)({turn}k); }}\n"
        f"{_FUNCTIONS}"
    )


# Elements are compared as IEEE 754 has it.
OPTIONS = {"math_mode": "safe"}


def form_for(size: int, length: int) -> Form:
    """The code for rows of `length` elements of an array of `size`."""
    return QUICK if size >= _MUCH_WORK else SMALL if length > LEAST.longest else LEAST


def sorted_rows(x: Array, rows: int, length: int, descending: bool) -> Array:
    """The rows of `x` sorted."""
    form, wide = form_for(x.size, length), x.size >= c.NARROW

    def make() -> Kernel:
        types = f"typedef {'long' if wide else 'int'} ix; typedef {c.msl(x.dtype, 'sort')} ki_t;\n"
        text = f"{c.PRELUDE}{types}{declarations(x.dtype, descending, form)}{_ROWS.replace('SORT', body(form))}"
        return c.compiled(text, "ki_rows", OPTIONS)

    kernel: Kernel = c.cached(("sort rows", x.dtype, descending, form, wide, x.device), make)
    out = c.result_like(x.shape, x.dtype, x)
    kernel(out, x, length, numworkgroups=rows, workgroupsize=32)
    return out


def fits(x: Array, length: int) -> bool:
    """Whether rows of this length are sorted so."""
    return length <= form_for(x.size, length).longest and x.dtype.itemsize <= 4
