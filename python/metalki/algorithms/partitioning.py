"""Long rows sorted by SIMD-groups that split them around pivots: quicksort, for devices of few and quick cores.

Lanes compare 32 keys with a pivot and store the smaller ones from one end, the others from the other end, each side by side
(Bramas, "A novel hybrid quicksort algorithm vectorized using AVX-512 on Intel Skylake", 2017). Pieces of few keys go
through a network of registers while they are in the caches. Where several cores work, a first launch splits until there
is a piece for each, and leaves the list of them to the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _array
from .._array import Array
from .._kernel import Kernel
from . import _common as c
from . import networks

# Keys that a network sorts rather than a split.
_SMALLEST = 512
# Pieces for every core, so that all of them end at about the same time.
_PIECES = 4
# A piece is three numbers: where it starts, its length, and the buffer that holds its keys (0 or 1; 2 are the elements).
# The larger part of a split waits, so that never more of them do than the length has bits.
_STACK = 3 * 64

_SPLIT = """
// Where the keys of a piece are: among the elements, or made of them before.
struct ki_piece {
    device const ki_t* elements;
    device const uint* keys;
    bool made;
    uint at(int i) const { return made ? keys[i] : ki_key(elements[i]); }
};

// The median of keys that lie all over the piece.
inline uint ki_pivot(ki_piece from, int count, uint lane) {
    const uint random = ((lane + 1) * 0x9E3779B1u) ^ ((uint)count * 0x85EBCA6Bu);
    uint key = from.at(mulhi(random * 0xC2B2AE35u, (uint)count));
    for (uint size = 2; size <= 32; size *= 2)
        for (uint step = size / 2; step > 0; step /= 2) {
            const uint other = simd_shuffle_xor(key, (ushort)step);
            const bool takes_least = ((lane & step) == 0) == ((lane & size) == 0);
            key = takes_least ? min(key, other) : max(key, other);
        }
    return simd_broadcast(key, (ushort)16);
}

#define KI_VOTES(which) (uint)(simd_vote::vote_t)simd_ballot(which)

// Keys below `limit` to the start of `to`, the rest to its end. Result: how many are below.
inline int ki_divide(device uint* to, ki_piece from, int count, uint limit, uint lane) {
    const uint below = (1u << lane) - 1;
    int first = 0, last = count, at = 0;
    for (; at + 32 <= count; at += 32) {
        const uint key = from.at(at + lane);
        const bool low = key < limit, high = key >= limit;
        const uint lows = KI_VOTES(low), highs = KI_VOTES(high);
        const int n = popcount(lows);
        last -= 32 - n;
        if (low) (to + first)[popcount(lows & below)] = key;
        if (high) (to + last)[popcount(highs & below)] = key;
        first += n;
    }
    if (at < count) {
        const bool inside = at + (int)lane < count;
        const uint key = inside ? from.at(at + lane) : 0;
        const bool low = inside && key < limit, high = inside && key >= limit;
        const uint lows = KI_VOTES(low), highs = KI_VOTES(high);
        if (low) (to + first)[popcount(lows & below)] = key;
        if (high) (to + last - popcount(highs))[popcount(highs & below)] = key;
        first += popcount(lows);
    }
    return first;
}

// Splits the pieces of a list until they have at most `limit` keys; sorts these, or writes them into another list.
kernel void ki_split(device ki_t* out, device const ki_t* x, device uint* a, device uint* b, device const int* given,
                     device int* found, device int* stacks, constant int& limit, constant int& sorts,
                     uint group [[threadgroup_position_in_grid]], uint groups [[threadgroups_per_grid]],
                     uint lane [[thread_index_in_simdgroup]]) {
    threadgroup ki_n keys[KI_LONGEST];
    device int* stack = stacks + group * KI_STACK;
    const int pieces = given[0];
    for (int piece = group; piece < pieces; piece += groups) {
        int low = given[1 + 3 * piece], count = given[2 + 3 * piece], place = given[3 + 3 * piece], waiting = 0;
        bool with_equal = false;
        for (;;) {
            const ki_piece from = {x + low, (place == 0 ? a : b) + low, place != 2};
            if (count > limit) {
                device uint* to = (place == 0 ? b : a) + low;
                const uint pivot = ki_pivot(from, count, lane);
                const bool all_equal = with_equal && pivot == 0xFFFFFFFFu;
                int lows = count;
                if (!all_equal) lows = ki_divide(to, from, count, with_equal ? pivot + 1 : pivot, lane);
                simdgroup_barrier(mem_flags::mem_device);
                if (lows == 0) {
                    with_equal = true;  // the pivot is the least key: once more, for those that equal it
                    continue;
                }
                place = place == 0 ? 1 : 0;
                if (with_equal) {
                    for (int i = lane; i < lows; i += 32) out[low + i] = ki_value(pivot);
                    with_equal = false;
                    low += lows;
                    count -= lows;
                    continue;
                }
                const int rest = count - lows;
                const bool low_waits = lows > rest;
                stack[waiting] = low_waits ? low : low + lows;
                stack[waiting + 1] = low_waits ? lows : rest;
                stack[waiting + 2] = place;
                waiting += 3;
                low = low_waits ? low + lows : low;
                count = low_waits ? rest : lows;
                continue;
            }
            if (count > 0 && sorts) {
                device ki_t* to = out + low;
                const uint length = count;
                SORT
            } else if (count > 0) {
                int index = 0;
                if (lane == 0) index = atomic_fetch_add_explicit((device atomic_int*)found, 1, memory_order_relaxed);
                index = simd_broadcast(index, (ushort)0);
                found[1 + 3 * index] = low;
                found[2 + 3 * index] = count;
                found[3 + 3 * index] = place;
            }
            if (waiting == 0) break;
            waiting -= 3;
            low = stack[waiting];
            count = stack[waiting + 1];
            place = stack[waiting + 2];
        }
    }
}
"""


def fits(x: Array) -> bool:
    """Whether rows of `x` are sorted so."""
    return x.device.kind == "cpu" and x.dtype.itemsize == 4 and x.size < c.NARROW - 1024


def sorted_rows(x: Array, rows: int, length: int, keys: str, descending: bool) -> Array:
    """The rows of `x` sorted; `keys` is the text of ki_key and ki_value, whose keys have 32 bits."""
    form = networks.form_for(x.size)

    def compiled() -> Kernel:
        text = f"{keys}{networks.declarations(x.dtype, descending, form)}#define KI_STACK {_STACK}\n"
        split = _SPLIT.replace("SORT", networks.body(form))
        return c.compiled(f"{text}#define KI_AT(i) (from.made ? ki_value(from.keys[i]) : from.elements[i])\n{split}", "ki_split", networks.OPTIONS)

    split: Kernel = c.cached(("sort pieces", x.dtype, descending, form, x.device), compiled)
    out = c.result_like(x.shape, x.dtype, x)
    a, b = (c.result_like((x.size,), c.UINT32, x) for _ in range(2))
    cores = x.device.multiprocessor_count
    groups = min(cores * _PIECES, c.ceil_div(x.size, 4 * _SMALLEST))
    stacks = c.result_like((groups, _STACK), c.INT32, x)
    pieces = found = _list_of(rows, length, x)
    if rows < groups and cores > 1:
        # First the few splits that give every core something to do; every piece has a key at least.
        found = c.result_like((1 + 3 * x.size,), c.INT32, x)
        found[0] = 0
        limit = max(_SMALLEST, x.size // groups)
        split(out, x, a, b, pieces, found, stacks, limit, 0, numworkgroups=min(rows, groups), workgroupsize=32)
        pieces = found
    split(out, x, a, b, pieces, found, stacks, _SMALLEST, 1, numworkgroups=groups, workgroupsize=32)
    return out


def _list_of(rows: int, length: int, x: Array) -> Array:
    whole = np.full((rows, 3), (0, length, 2), np.int32)
    whole[:, 0] = np.arange(rows) * length
    return _array.array(np.concatenate([np.array([rows], np.int32), whole.reshape(-1)]), device=x.device)
