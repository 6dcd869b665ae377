"""Long rows sorted by SIMD-groups that split them around pivots: quicksort, for devices of few and quick cores.

Lanes compare 32 keys with three pivots and store those of each of the four parts side by side (Bramas, "A novel hybrid
quicksort algorithm vectorized using AVX-512 on Intel Skylake", 2017); a count before tells where the parts begin. Pieces of
few keys go through a network of registers while they are in the caches. Where several cores work, a first launch splits
until there is a piece for each, and leaves a list of them to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


from .._array import Array
from .._kernel import Kernel
from . import _common as c
from . import networks

# Pieces for every core, so that all of them end at about the same time.
_PIECES = 4
# Keys that a network sorts rather than a split.
_SMALLEST = 1024
# A piece is three numbers: where it starts, its length, and the buffer that holds its keys (0 or 1; 2 are the elements).
# The largest part of a split waits below the others, so that never more than three do for every bit of the length.
_STACK = 3 * 3 * 32

_SPLIT = """
// Where the keys of a piece are: among the elements, or made of them before.
struct ki_piece {
    device const ki_t* elements;
    device const uint* keys;
    bool made;
    uint at(int i) const { return made ? keys[i] : ki_key(elements[i]); }
};
#define KI_AT(i) (from.made ? ki_value(from.keys[i]) : from.elements[i])

// Keys from all over the piece, in order.
inline uint ki_sample(ki_piece from, int count, uint lane) {
    const uint random = ((lane + 1) * 0x9E3779B1u) ^ ((uint)count * 0x85EBCA6Bu);
    uint key = from.at(mulhi(random * 0xC2B2AE35u, (uint)count));
    for (uint size = 2; size <= 32; size *= 2)
        for (uint step = size / 2; step > 0; step /= 2) {
            const uint other = simd_shuffle_xor(key, (ushort)step);
            const bool takes_least = ((lane & step) == 0) == ((lane & size) == 0);
            key = takes_least ? min(key, other) : max(key, other);
        }
    return key;
}

struct ki_cuts {
    uint first, second, third;
};
struct ki_ends {
    int first, second, third;
};

// How many keys are below each pivot.
inline void ki_count(ki_piece from, int count, ki_cuts pivots, thread ki_ends& below, uint lane) {
    int n0 = 0, n1 = 0, n2 = 0;
    for (int i = lane; i < count; i += 32) {
        const uint key = from.at(i);
        n0 += key < pivots.first;
        n1 += key < pivots.second;
        n2 += key < pivots.third;
    }
    below.first = simd_sum(n0);
    below.second = simd_sum(n1);
    below.third = simd_sum(n2);
}

#define KI_PUT(part, here)                                                          \\
    {                                                                               \\
        const bool is_here = here;                                                  \\
        const uint votes = (uint)(simd_vote::vote_t)simd_ballot(is_here);           \\
        if (is_here) (to + part)[popcount(votes & before)] = key;                   \\
        part += popcount(votes);                                                    \\
    }

// The keys to `to`, part by part.
inline void ki_divide(device uint* to, ki_piece from, int count, ki_cuts pivots, ki_ends below, uint lane) {
    const uint before = (1u << lane) - 1;
    int part0 = 0, part1 = below.first, part2 = below.second, part3 = below.third, at = 0;
    for (; at + 32 <= count; at += 32) {
        const uint key = from.at(at + lane);
        KI_PUT(part0, key < pivots.first)
        KI_PUT(part1, key >= pivots.first && key < pivots.second)
        KI_PUT(part2, key >= pivots.second && key < pivots.third)
        KI_PUT(part3, key >= pivots.third)
    }
    if (at < count) {
        const bool inside = at + (int)lane < count;
        const uint key = inside ? from.at(at + lane) : 0;
        KI_PUT(part0, inside && key < pivots.first)
        KI_PUT(part1, inside && key >= pivots.first && key < pivots.second)
        KI_PUT(part2, inside && key >= pivots.second && key < pivots.third)
        KI_PUT(part3, inside && key >= pivots.third)
    }
}

#define KI_WAIT(which, start, size)       \\
    if (which) {                          \\
        stack[waiting] = low + (start);   \\
        stack[waiting + 1] = size;        \\
        stack[waiting + 2] = place;       \\
        waiting += 3;                     \\
    }

// Splits pieces until they have at most `limit` keys; sorts these, or writes them into the list `found`. The pieces are
// those of the list `given`, or `rows` rows of the elements.
kernel void ki_split(device ki_t* out, device const ki_t* x, device uint* a, device uint* b, device const int* given,
                     device int* found, device int* stacks, constant int& rows, constant int& row_length,
                     constant int& limit, constant int& sorts, uint group [[threadgroup_position_in_grid]],
                     uint groups [[threadgroups_per_grid]], uint lane [[thread_index_in_simdgroup]]) {
    threadgroup ki_n keys[KI_LONGEST];
    device int* stack = stacks + group * KI_STACK;
    const int pieces = rows > 0 ? rows : given[0];
    for (int piece = group; piece < pieces; piece += groups) {
        stack[0] = rows > 0 ? piece * row_length : given[1 + 3 * piece];
        stack[1] = rows > 0 ? row_length : given[2 + 3 * piece];
        stack[2] = rows > 0 ? 2 : given[3 + 3 * piece];
        int waiting = 3;
        while (waiting > 0) {
            waiting -= 3;
            int low = stack[waiting], count = stack[waiting + 1], place = stack[waiting + 2];
            const ki_piece from = {x + low, (place == 0 ? a : b) + low, place != 2};
            if (count <= limit) {
                if (sorts) {
                    device ki_t* to = out + low;
                    const uint length = count;
                    SORT
                } else {
                    int index = 0;
                    if (lane == 0) index = atomic_fetch_add_explicit((device atomic_int*)found, 1, memory_order_relaxed);
                    index = simd_broadcast(index, (ushort)0);
                    found[1 + 3 * index] = low;
                    found[2 + 3 * index] = count;
                    found[3 + 3 * index] = place;
                }
                continue;
            }
            const uint sample = ki_sample(from, count, lane);
            ki_cuts pivots = {simd_broadcast(sample, (ushort)8), simd_broadcast(sample, (ushort)16),
                              simd_broadcast(sample, (ushort)24)};
            ki_ends below;
            ki_count(from, count, pivots, below, lane);
            int equal = 0;
            if (below.third == 0) {
                // The pivots are the least key: what equals it is in its place already.
                const uint least = pivots.third;
                pivots.first = pivots.second = pivots.third = least + 1;
                ki_count(from, count, pivots, below, lane);
                equal = least == 0xFFFFFFFFu ? count : below.first;
                for (int i = lane; i < equal; i += 32) out[low + i] = ki_value(least);
                if (equal == count) continue;
            }
            place = place == 0 ? 1 : 0;
            ki_divide((place == 0 ? a : b) + low, from, count, pivots, below, lane);
            simdgroup_barrier(mem_flags::mem_device);
            const int size0 = below.first - equal, size1 = below.second - below.first;
            const int size2 = below.third - below.second, size3 = count - below.third;
            const int most = max(max(size0, size1), max(size2, size3));
            KI_WAIT(size0 == most, equal, size0)
            KI_WAIT(size1 == most, below.first, size1)
            KI_WAIT(size2 == most, below.second, size2)
            KI_WAIT(size3 == most, below.third, size3)
            KI_WAIT(size0 < most && size0 > 0, equal, size0)
            KI_WAIT(size1 < most && size1 > 0, below.first, size1)
            KI_WAIT(size2 < most && size2 > 0, below.second, size2)
            KI_WAIT(size3 < most && size3 > 0, below.third, size3)
        }
    }
}
"""


def fits(x: Array) -> bool:
    """Whether rows of `x` are sorted so."""
    return x.device.kind == "cpu" and x.dtype.itemsize == 4 and x.size < c.NARROW - 1024


def sorted_rows(x: Array, rows: int, length: int, keys: Callable[[], str], descending: bool) -> Array:
    """The rows of `x` sorted; `keys` gives the text of ki_key and ki_value, whose keys have 32 bits."""
    form = networks.form_for(x.size)

    def compiled() -> Kernel:
        text = f"{keys()}{networks.declarations(x.dtype, descending, form)}#define KI_STACK {_STACK}\n"
        return c.compiled(f"{text}{_SPLIT.replace('SORT', networks.body(form))}", "ki_split", networks.OPTIONS)

    split: Kernel = c.cached(("sort pieces", x.dtype, descending, form, x.device), compiled)
    out = c.result_like(x.shape, x.dtype, x)
    a, b = (c.result_like((x.size,), c.UINT32, x) for _ in range(2))
    cores = x.device.multiprocessor_count
    groups = min(cores * _PIECES, c.ceil_div(x.size, 4 * _SMALLEST))
    stacks = c.result_like((max(groups, 1), _STACK), c.INT32, x)
    found: Any = stacks
    if rows < groups and cores > 1:
        # Every piece has a key at least.
        found = c.result_like((1 + 3 * x.size,), c.INT32, x)
        found[0] = 0
        limit = max(_SMALLEST, x.size // groups)
        split(
            out, x, a, b, found, found, stacks, rows, length, limit, 0, numworkgroups=min(rows, groups), workgroupsize=32
        )
        rows = 0
    split(out, x, a, b, found, found, stacks, rows, length, _SMALLEST, 1, numworkgroups=groups, workgroupsize=32)
    return out
