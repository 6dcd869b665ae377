"""Long rows sorted by SIMD-groups that split them around pivots: quicksort, for devices of few and quick cores.

Lanes compare 32 elements with three pivots and store those of each of the four parts side by side (Bramas, "A novel hybrid
quicksort algorithm vectorized using AVX-512 on Intel Skylake", 2017); a count before tells where the parts begin. Pieces of
few elements go through a network of registers while they are in the caches. Where several cores work, a first launch splits
until there is a piece for each, and leaves a list of them to the next.
"""

from __future__ import annotations

from typing import Any

from .._array import Array
from .._kernel import Kernel
from . import _common as c
from . import networks

# Pieces for every core, so that all of them end at about the same time.
_PIECES = 4
# Elements that a network sorts rather than a split.
_SMALLEST = 1024
# A piece is three numbers: where it starts, its length, and where its elements are (buffer 0 or 1, or 2: as they were given).
# The largest part of a split waits below the others, so that never more than three do for every bit of the length.
_STACK = 3 * 3 * 32

_SPLIT = """
#define KI_AT(i) from[i]
struct ki_cuts {
    ki_t first, second, third;
};
struct ki_ends {
    int first, second, third;
};

// Elements from all over the piece, in order; the last of all in place of NaN, which is before or after all pivots anyway.
inline ki_t ki_sample(device const ki_t* from, int count, uint lane) {
    const uint random = ((lane + 1) * 0x9E3779B1u) ^ ((uint)count * 0x85EBCA6Bu);
    ki_t v = from[mulhi(random * 0xC2B2AE35u, (uint)count)];
#if KI_FLOAT
    v = v != v ? INFINITY : v;
#endif
    for (uint size = 2; size <= 32; size *= 2)
        for (uint step = size / 2; step > 0; step /= 2) {
            const ki_t other = simd_shuffle_xor(v, (ushort)step);
            const bool takes_first = ((lane & step) == 0) == ((lane & size) == 0);
            v = ki_before(other, v) == takes_first ? other : v;
        }
    return v;
}

// How many elements are before each pivot.
inline void ki_count(device const ki_t* from, int count, ki_cuts pivots, thread ki_ends& ends, uint lane) {
    int n0 = 0, n1 = 0, n2 = 0;
    for (int i = lane; i < count; i += 32) {
        const ki_t v = from[i];
        n0 += ki_before(v, pivots.first);
        n1 += ki_before(v, pivots.second);
        n2 += ki_before(v, pivots.third);
    }
    ends.first = simd_sum(n0);
    ends.second = simd_sum(n1);
    ends.third = simd_sum(n2);
}

#define KI_PUT(to, here)                                                            \\
    {                                                                               \\
        const bool is_here = here;                                                  \\
        const uint votes = (uint)(simd_vote::vote_t)simd_ballot(is_here);           \\
        if (is_here) to[popcount(votes & lower_lanes)] = v;                         \\
        to += popcount(votes);                                                      \\
    }

// The elements part by part.
inline void ki_divide(device ki_t* to0, device ki_t* to1, device ki_t* to2, device ki_t* to3, device const ki_t* from,
                      int count, ki_cuts pivots, uint lane) {
    const uint lower_lanes = (1u << lane) - 1;
    int at = 0;
    for (; at + 32 <= count; at += 32) {
        const ki_t v = from[at + lane];
        KI_PUT(to0, ki_before(v, pivots.first))
        KI_PUT(to1, !ki_before(v, pivots.first) && ki_before(v, pivots.second))
        KI_PUT(to2, !ki_before(v, pivots.second) && ki_before(v, pivots.third))
        KI_PUT(to3, !ki_before(v, pivots.third))
    }
    if (at < count) {
        const bool inside = at + (int)lane < count;
        const ki_t v = inside ? from[at + lane] : (ki_t)0;
        KI_PUT(to0, inside && ki_before(v, pivots.first))
        KI_PUT(to1, inside && !ki_before(v, pivots.first) && ki_before(v, pivots.second))
        KI_PUT(to2, inside && !ki_before(v, pivots.second) && ki_before(v, pivots.third))
        KI_PUT(to3, inside && !ki_before(v, pivots.third))
    }
}

// The elements that equal the pivot, which is the first of all, to `out`, the others to `to` after as many. Result: how many
// are equal.
inline int ki_part(device ki_t* out, device ki_t* to, device const ki_t* from, int count, ki_t pivot, uint lane) {
    const uint lower_lanes = (1u << lane) - 1;
    int equal_here = 0;
    for (int i = lane; i < count; i += 32) equal_here += from[i] == pivot;
    const int found = simd_sum(equal_here);
    to += found;
    for (int at = 0; at < count; at += 32) {
        const bool inside = at + (int)lane < count;
        const ki_t v = inside ? from[at + lane] : (ki_t)0;
        const bool equal = v == pivot;
        KI_PUT(out, inside && equal)
        KI_PUT(to, inside && !equal)
    }
    return found;
}

#if KI_FLOAT
// Of zeros those with a sign come first.
inline void ki_order_zeros(device ki_t* zeros, int count, uint lane) {
    int found = 0;
    for (int i = lane; i < count; i += 32) found += as_type<int>(ki_in(zeros[i])) == INT_MIN;
    found = simd_sum(found);
    simdgroup_barrier(mem_flags::mem_device);
    for (int i = lane; i < count; i += 32) zeros[i] = ki_back(i < found ? -0.0f : 0.0f);
}
#endif

#define KI_WAIT(which, start, size)       \\
    if (which) {                          \\
        stack[waiting] = low + (start);   \\
        stack[waiting + 1] = size;        \\
        stack[waiting + 2] = place;       \\
        waiting += 3;                     \\
    }

// Splits pieces until they have at most `limit` elements; sorts these, or writes them into the list `found`. The pieces are
// those of the list `given`, or `rows` rows.
kernel void ki_split(device ki_t* out, device const ki_t* x, device ki_t* a, device ki_t* b, device const int* given,
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
            const int low = stack[waiting], count = stack[waiting + 1], source = stack[waiting + 2];
            device const ki_t* from = (source == 2 ? x : source == 0 ? a : b) + low;
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
                    found[3 + 3 * index] = source;
                }
                continue;
            }
            const ki_t sample = ki_sample(from, count, lane);
            const ki_cuts pivots = {simd_broadcast(sample, (ushort)8), simd_broadcast(sample, (ushort)16),
                                    simd_broadcast(sample, (ushort)24)};
            ki_ends ends;
            ki_count(from, count, pivots, ends, lane);
            const int place = source == 0 ? 1 : 0;
            device ki_t* to = (place == 0 ? a : b) + low;
            if (ends.first == count || ends.third == 0) {
                // The pivots are the first of all, or there is nothing but NaN.
                const int equal = ki_part(out + low, to, from, count, pivots.third, lane);
                simdgroup_barrier(mem_flags::mem_device);
                if (equal == 0) {
                    for (int i = lane; i < count; i += 32) out[low + i] = from[i];
                }
#if KI_FLOAT
                if (pivots.third == 0) ki_order_zeros(out + low, equal, lane);
#endif
                KI_WAIT(equal > 0 && equal < count, equal, count - equal)
                continue;
            }
            ki_divide(to, to + ends.first, to + ends.second, to + ends.third, from, count, pivots, lane);
            simdgroup_barrier(mem_flags::mem_device);
            const int size0 = ends.first, size1 = ends.second - ends.first;
            const int size2 = ends.third - ends.second, size3 = count - ends.third;
            const int most = max(max(size0, size1), max(size2, size3));
            KI_WAIT(size0 == most, 0, size0)
            KI_WAIT(size1 == most, ends.first, size1)
            KI_WAIT(size2 == most, ends.second, size2)
            KI_WAIT(size3 == most, ends.third, size3)
            KI_WAIT(size0 < most && size0 > 0, 0, size0)
            KI_WAIT(size1 < most && size1 > 0, ends.first, size1)
            KI_WAIT(size2 < most && size2 > 0, ends.second, size2)
            KI_WAIT(size3 < most && size3 > 0, ends.third, size3)
        }
    }
}
"""


def fits(x: Array) -> bool:
    """Whether rows of `x` are sorted so."""
    return x.device.kind == "cpu" and x.dtype.itemsize == 4 and x.size < c.NARROW - 1024


def sorted_rows(x: Array, rows: int, length: int, descending: bool) -> Array:
    """The rows of `x` sorted."""
    form = networks.form_for(x.size, length)

    def compiled() -> Kernel:
        before = "!(a <= b)" if descending else "a < b"  # NaN is after all else, or before
        text = (
            f"{c.PRELUDE}typedef {c.msl(x.dtype, 'sort')} ki_t;\n{networks.declarations(x.dtype, descending, form)}"
            f"#define KI_STACK {_STACK}\ninline bool ki_before(ki_t a, ki_t b) {{ return {before}; }}\n"
        )
        return c.compiled(f"{text}{_SPLIT.replace('SORT', networks.body(form))}", "ki_split", networks.OPTIONS)

    split: Kernel = c.cached(("sort pieces", x.dtype, descending, form, x.device), compiled)
    out = c.result_like(x.shape, x.dtype, x)
    a, b = (c.result_like((x.size,), x.dtype, x) for _ in range(2))
    cores = x.device.multiprocessor_count
    groups = min(cores * _PIECES, c.ceil_div(x.size, 4 * _SMALLEST))
    stacks = c.result_like((max(groups, 1), _STACK), c.INT32, x)
    found: Any = stacks
    if rows < groups and cores > 1:
        # Every piece has an element at least.
        found = c.result_like((1 + 3 * x.size,), c.INT32, x)
        found[0] = 0
        limit = max(_SMALLEST, x.size // groups)
        split(
            out,
            x,
            a,
            b,
            found,
            found,
            stacks,
            rows,
            length,
            limit,
            0,
            numworkgroups=min(rows, groups),
            workgroupsize=32,
        )
        rows = 0
    split(out, x, a, b, found, found, stacks, rows, length, _SMALLEST, 1, numworkgroups=groups, workgroupsize=32)
    return out
