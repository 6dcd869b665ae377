"""Random numbers from a counter: Philox 4x32-10, so that thread i computes its numbers from i alone.

John K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. A generator's state is a key (from the seed)
and the number of blocks used so far; a block of four 32-bit words comes from one counter. In every 128 words the blocks of
32 counters are interleaved (word k of counter j lies at k * 32 + j), so that neighbouring threads store neighbouring
numbers. Normal numbers use only operations that IEEE 754 rounds exactly, so that all devices agree to the last bit.
"""

from __future__ import annotations

import hashlib
import operator
import os
import threading
from typing import Any

import numpy as np

from .. import _array, _dtypes
from .._array import Array
from .._kernel import Kernel
from ..errors import ArgumentError
from . import _common as c
from .selecting import take
from .sorting import argsort

__all__ = ["Generator", "default_rng", "integers", "normal", "philox", "random", "seed", "shuffle"]

_PHILOX = """
inline uint4 ki_round(uint4 counter, thread uint2& key) {
    const uint a = 0xD2511F53u, b = 0xCD9E8D57u, x = counter.x, z = counter.z;
    const uint4 next = uint4(mulhi(b, z) ^ counter.y ^ key.x, b * z, mulhi(a, x) ^ counter.w ^ key.y, a * x);
    key += uint2(0x9E3779B9u, 0xBB67AE85u);
    return next;
}
inline uint4 ki_philox(uint4 counter, uint2 key) {
#pragma unroll
    for (int round = 0; round < 10; ++round) counter = ki_round(counter, key);
    return counter;
}
inline uint4 ki_block(ulong number, uint2 key) {
    return ki_philox(uint4((uint)number, (uint)(number >> 32), 0, 0), key);
}
// Block `number` of another stream. Seldom asked for, and so short rather than quick.
inline uint4 ki_again(ulong number, uint stream, uint2 key) {
    uint4 counter = uint4((uint)number, (uint)(number >> 32), stream, 0);
    for (int round = 0; round < 10; ++round) counter = ki_round(counter, key);
    return counter;
}
"""

# Thread t draws block t. Word 0 goes to place t % 32 of row t / 32 (of KI_WORDS * 32 numbers), the others follow 32 apart.
# Where lanes lie as the places do, which any width of a multiple of 32 gives, the stores are rows of lanes.
_FILL = """
kernel void ki_fill(device ki_t* out, constant ulong& base, constant uint2& key, constant ix& size KI_MORE,
                    uint2 at [[thread_position_in_grid]], uint2 grid [[threads_per_grid]],
                    uint lane_index [[thread_index_in_simdgroup]]) {
    const ix t = (ix)at.y * grid.x + at.x, lane = lane_index, start = t - lane;
    const uint4 word = ki_block(base + (ulong)t, key);
    KI_VALUES
    if ((start & 31) == 0) {
        const ix row = start * KI_WORDS;
        KI_STORES(row, lane)
    } else {
        const ix row = t / 32 * (32 * KI_WORDS), place = t % 32;
        KI_STORES(row, place)
    }
}
"""
_STORES = """
#define KI_STORE(row, place, i) { const ix to = row + 32 * i + place; if (to < size) out[to] = v##i; }
"""
# Numbers of 64 bits: a block makes two.
_WORDS = {
    False: "#define KI_WORDS 4\n#define KI_STORES(row, place) KI_STORE(row, place, 0) KI_STORE(row, place, 1) "
    "KI_STORE(row, place, 2) KI_STORE(row, place, 3)\n",
    True: "#define KI_WORDS 2\n#define KI_STORES(row, place) KI_STORE(row, place, 0) KI_STORE(row, place, 1)\n",
}

# [0, 1): 24 bits for float, 11 for half, 8 for bfloat, all that their significands hold.
_UNIFORM = {
    "float32": "const ki_t v{i} = (float)(word.{w} >> 8) * 0x1p-24f;",
    "float16": "const ki_t v{i} = (half)((float)(word.{w} >> 21) * 0x1p-11f);",
    "bfloat16": "const ki_t v{i} = (bfloat)((float)(word.{w} >> 24) * 0x1p-8f);",
}

# Box and Muller, "A note on the generation of random normal deviates", 1958. The logarithm is Cephes' polynomial after
# splitting off the exponent; sine and cosine are minimax polynomials on an eighth of the circle.
_NORMAL = """
inline float ki_log(uint bits) {
    const float u = fma((float)bits, 0x1p-32f, 0x1p-33f);  // (0, 1]
    uint b = as_type<uint>(u);
    int e = (int)(b >> 23) - 126;
    float m = as_type<float>((b & 0x007FFFFFu) | 0x3F000000u);
    const bool low = m < 0.70710678f;
    e = low ? e - 1 : e;
    m = low ? m + m - 1.0f : m - 1.0f;
    const float z = m * m;
    float y = 7.0376836292e-2f;
    y = fma(y, m, -1.1514610310e-1f);
    y = fma(y, m, 1.1676998740e-1f);
    y = fma(y, m, -1.2420140846e-1f);
    y = fma(y, m, 1.4249322787e-1f);
    y = fma(y, m, -1.6668057665e-1f);
    y = fma(y, m, 2.0000714765e-1f);
    y = fma(y, m, -2.4999993993e-1f);
    y = fma(y, m, 3.3333331174e-1f);
    y = y * m * z;
    y = fma((float)e, -2.12194440e-4f, y);
    y = fma(-0.5f, z, y);
    return fma((float)e, 0.693359375f, m + y);
}
inline float2 ki_pair(uint radius, uint angle) {
    const float squared = -2.0f * ki_log(radius);
    const float r = squared > 0.0f ? sqrt(squared) : 0.0f;
    const uint eighth = angle >> 29;
    uint rest = angle & 0x1FFFFFFFu;
    rest = eighth & 1 ? 0x1FFFFFFFu - rest : rest;
    const float x = ((float)(rest >> 5) + 0.5f) * 0x1p-24f * 0.78539816f;  // (0, pi / 4)
    const float z = x * x;
    const float s = fma(fma(fma(-1.9515295891e-4f, z, 8.3321608736e-3f), z, -1.6666654611e-1f) * z, x, x);
    const float k = fma(fma(fma(2.443315711809948e-5f, z, -1.388731625493765e-3f), z, 4.166664568298827e-2f) * z, z,
                        fma(-0.5f, z, 1.0f));
    const bool swapped = ((eighth + 1) & 2) != 0;
    float sine = swapped ? k : s, cosine = swapped ? s : k;
    sine = eighth & 4 ? -sine : sine;
    cosine = ((eighth + 2) & 4) != 0 ? -cosine : cosine;
    return float2(r * cosine, r * sine);
}
"""
_NORMAL_VALUES = (
    "const float2 p = ki_pair(word.x, word.y), q = ki_pair(word.z, word.w); "
    "const ki_t v0 = (ki_t)fma(p.x, scale, mean), v1 = (ki_t)fma(p.y, scale, mean), "
    "v2 = (ki_t)fma(q.x, scale, mean), v3 = (ki_t)fma(q.y, scale, mean);"
)

# Lemire, "Fast random integer generation in an interval", 2019: a product's high half, drawn again (from the same counter's
# next stream) in the few cases that would make some numbers more likely.
_BOUNDED = """
inline uint4 ki_bounded(uint4 word, ulong count, ulong number, uint2 key) {
    const uint n = (uint)count, limit = (0u - n) % n;
    bool4 again = word * n < limit;
    for (uint stream = 1; any(again); ++stream) {
        word = select(word, ki_again(number, stream, key), again);
        again = word * n < limit;
    }
    return mulhi(word, uint4(n));
}
inline ulong2 ki_bounded_wide(uint4 words, ulong count, ulong number, uint2 key) {
    const ulong limit = (0ul - count) % count;
    ulong2 word = as_type<ulong2>(words);
    bool2 again = word * count < limit;
    for (uint stream = 1; any(again); ++stream) {
        word = select(word, as_type<ulong2>(ki_again(number, stream, key)), again);
        again = word * count < limit;
    }
    return mulhi(word, ulong2(count));
}
"""


class Generator:
    """A source of random numbers on the device: the same seed gives the same numbers on every device, whatever the
    work-group size. Calls may come from several threads; each takes its own part of the sequence."""

    def __init__(self, seed: int | None = None) -> None:
        """`seed` is an int from 0 on; None takes one from the system. Raises ArgumentError for others."""
        if seed is None:
            seed = int.from_bytes(os.urandom(8), "little")
        try:
            number = operator.index(seed)
        except TypeError:
            raise TypeError(f"SeedSequence expects int or sequence of ints for entropy not {seed!r}") from None
        if number < 0:
            raise ArgumentError("expected non-negative integer")
        if number >= 2**64:
            size = (number.bit_length() + 7) // 8
            number = int.from_bytes(hashlib.blake2b(number.to_bytes(size, "little"), digest_size=8).digest(), "little")
        self._key = (number & 0xFFFFFFFF, number >> 32)
        self._used = 0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"metalki.random.Generator(key={self._key}, blocks used={self._used})"

    def _take(self, blocks: int) -> int:
        with self._lock:
            start = self._used
            self._used = (start + blocks) % 2**64
        return start

    def random(self, size: Any = None, dtype: Any = np.float32, *, out: Array | None = None) -> Array:
        """Uniform numbers in [0, 1) of `size` (an int or a tuple; one number, without axes, for None), or into `out`.

        `dtype` is float32, float16 or bfloat16. Raises ArgumentError for others and for an `out` of another shape."""
        result = _target(size, dtype, out, "random")
        values = _UNIFORM.get(result.dtype.name)
        if values is None:
            raise TypeError(f"Unsupported dtype {result.dtype.name!r} for random")
        text = " ".join(values.format(i=i, w=w) for i, w in enumerate("xyzw"))
        return self._fill(result, ("uniform", result.dtype), text, "", "", ())

    def normal(
        self,
        loc: float = 0.0,
        scale: float = 1.0,
        size: Any = None,
        dtype: Any = np.float32,
        *,
        out: Array | None = None,
    ) -> Array:
        """Normal numbers of mean `loc` and standard deviation `scale`, of `size` or into `out`.

        `dtype` is float32, float16 or bfloat16. Raises ArgumentError for a negative scale."""
        result = _target(size, dtype, out, "normal")
        if not c.is_float(result.dtype):
            raise TypeError(f"Unsupported dtype {result.dtype.name!r} for normal")
        if not scale >= 0:
            raise ArgumentError("scale < 0")
        more = ", constant float& mean, constant float& scale"
        return self._fill(result, ("normal", result.dtype), _NORMAL_VALUES, _NORMAL, more, (float(loc), float(scale)))

    def standard_normal(self, size: Any = None, dtype: Any = np.float32, *, out: Array | None = None) -> Array:
        """normal() of mean 0 and deviation 1."""
        return self.normal(0.0, 1.0, size, dtype, out=out)

    def integers(
        self,
        low: int,
        high: int | None = None,
        size: Any = None,
        dtype: Any = np.int64,
        endpoint: bool = False,
        *,
        out: Array | None = None,
    ) -> Array:
        """Integers from `low` (included) to `high` (not included unless `endpoint`), each equally likely; from 0 to `low`
        when `high` is None. Of `size`, or into `out`, whose dtype counts. Raises ArgumentError in numpy's words."""
        result = _target(size, dtype, out, "integers")
        kind = result.dtype
        if kind.kind not in "biu":
            raise TypeError(f"Unsupported dtype {kind.name!r} for integers")
        first, last = (0, operator.index(low)) if high is None else (operator.index(low), operator.index(high))
        last -= 0 if endpoint else 1
        least, most = (0, 1) if kind.kind == "b" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
        if first < least:
            raise ArgumentError(f"low is out of bounds for {kind.name}")
        if last > most:
            raise ArgumentError(f"high is out of bounds for {kind.name}")
        if first > last:
            raise ArgumentError("low > high" if endpoint else "low >= high")
        count = last - first + 1
        more = ", constant ulong& count, constant ulong& low"
        if count == 2**32:
            values = " ".join(f"const ki_t v{i} = (ki_t)((ulong)word.{w} + low);" for i, w in enumerate("xyzw"))
            low_only = ", constant ulong& low"
            return self._fill(result, ("integers, word", kind), values, "", low_only, (first % 2**64,))
        if count < 2**32:
            values = "const uint4 found = ki_bounded(word, count, base + (ulong)t, key); " + " ".join(
                f"const ki_t v{i} = (ki_t)((ulong)found.{w} + low);" for i, w in enumerate("xyzw")
            )
            return self._fill(result, ("integers", kind), values, _BOUNDED, more, (count, first % 2**64))
        if count == 2**64:
            values = "const ki_t v0 = (ki_t)((ulong)word.y << 32 | word.x), v1 = (ki_t)((ulong)word.w << 32 | word.z);"
            return self._fill(result, ("integers, whole", kind), values, "", "", (), wide=True)
        values = (
            "const ulong2 found = ki_bounded_wide(word, count, base + (ulong)t, key); "
            "const ki_t v0 = (ki_t)(found.x + low), v1 = (ki_t)(found.y + low);"
        )
        numbers = (count, first % 2**64)
        return self._fill(result, ("integers, wide", kind), values, _BOUNDED, more, numbers, wide=True)

    def shuffle(self, x: Array, axis: int = 0) -> None:
        """Brings the parts of `x` along `axis` into random order, in place; every order is equally likely."""
        if not isinstance(x, Array):
            raise ArgumentError(f"shuffle: a metalki.Array is expected, {type(x).__name__} was given")
        if x.ndim == 0:
            raise TypeError("shuffle: an array without axes has no order")
        at = c.normal_axis(axis, x.ndim)
        if x.size:
            order = self.permutation(x.shape[at], device=x.device)
            from .. import kernel_interface

            kernel_interface.copyto(kernel_interface.MetalBackend(), x, take(x, order, axis=at))

    def permutation(self, n: int, *, device: Any = None) -> Array:
        """The integers below `n` in random order, as int64."""
        keys = _array.empty(operator.index(n), np.uint64, device=device)
        self.integers(0, 2**64 - 1, endpoint=True, out=keys)
        return argsort(keys)

    def _fill(
        self,
        out: Array,
        key: tuple[Any, ...],
        values: str,
        prelude: str,
        more: str,
        numbers: tuple[Any, ...],
        wide: bool = False,
    ) -> Array:
        per_block = 2 if wide else 4
        blocks = c.ceil_div(out.size, 32 * per_block) * 32
        base = self._take(blocks)
        if out.size == 0:
            return out
        long_index = c.round_up(blocks, 2**10) * per_block >= c.NARROW
        kernel: Kernel = c.cached(
            ("random", key, long_index, out.device),
            lambda: _compiled(out.dtype, values, prelude, more, long_index, wide),
        )
        columns = min(blocks, 2**30)
        rows = c.ceil_div(blocks, columns)
        kernel(out, base, self._key, out.size, *numbers, ndrange=(columns, rows))
        return out


def _compiled(dtype: np.dtype[Any], values: str, prelude: str, more: str, long_index: bool, wide: bool) -> Kernel:
    body = _FILL.replace("KI_VALUES", values).replace(" KI_MORE", more)
    text = (
        f"{c.PRELUDE}typedef {'long' if long_index else 'int'} ix; typedef {c.msl(dtype, 'random')} ki_t;\n"
        f"{_WORDS[wide]}{_STORES}{_PHILOX}{prelude}{body}"
    )
    # The numbers must not depend on what a compiler may contract or reorder.
    return c.compiled(text, "ki_fill", {"math_mode": "safe"})


def _target(size: Any, dtype: Any, out: Array | None, what: str) -> Array:
    if out is None:
        return _array.empty(() if size is None else size, _dtypes.normalize(dtype, what))
    if not isinstance(out, Array):
        raise ArgumentError(f"{what}: out is a metalki.Array, {type(out).__name__} was given")
    if size is not None and tuple(_array._shape(size, what)) != out.shape:
        raise ArgumentError(f"size must match out.shape when used together: size {size}, out.shape {out.shape}")
    return out


def philox(counter: Any, key: Any) -> Array:
    """The four words (uint32) of Philox 4x32-10 for every row of `counter` (n, 4) and the `key` (two words)."""
    rows = _array.array(np.ascontiguousarray(counter, np.uint32).reshape(-1, 4))
    words = [int(k) for k in np.asarray(key, np.uint32).reshape(2)]
    out = _array.empty(rows.shape, np.uint32, device=rows.device)
    text = (
        "kernel void ki_words(device uint4* out, device const uint4* counters, constant uint2& key, "
        "uint i [[thread_position_in_grid]]) { out[i] = ki_philox(counters[i], key); }"
    )
    kernel: Kernel = c.cached(("philox", rows.device), lambda: c.compiled(c.PRELUDE + _PHILOX + text, "ki_words"))
    if rows.size:
        kernel(out, rows, tuple(words), ndrange=rows.shape[0])
    return out


_default = Generator()


def default_rng(seed: int | None = None) -> Generator:
    """A new Generator."""
    return Generator(seed)


def seed(value: int | None = None, /) -> None:
    """Starts the module's own generator anew; the functions of this module draw from it."""
    global _default
    _default = Generator(value)


def random(size: Any = None, dtype: Any = np.float32, *, out: Array | None = None) -> Array:
    """Generator.random of the module's own generator."""
    return _default.random(size, dtype, out=out)


def normal(
    loc: float = 0.0, scale: float = 1.0, size: Any = None, dtype: Any = np.float32, *, out: Array | None = None
) -> Array:
    """Generator.normal of the module's own generator."""
    return _default.normal(loc, scale, size, dtype, out=out)


def integers(
    low: int, high: int | None = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False,
    *, out: Array | None = None,
) -> Array:  # fmt: skip
    """Generator.integers of the module's own generator."""
    return _default.integers(low, high, size, dtype, endpoint, out=out)


def shuffle(x: Array, axis: int = 0) -> None:
    """Generator.shuffle of the module's own generator."""
    _default.shuffle(x, axis)
