"""mk.accumulate and cumulative_sum: running reductions along an axis.

Reduce, then scan: the totals of chunks, a scan of these, and a scan of every chunk that starts at its total; three
launches and two readings of the data (Sengupta et al., "Scan primitives for GPU computing", 2007; Merrill and Grimshaw,
"Parallel scan for stream architectures", 2009). Inside a SIMD-group the scan is Hillis and Steele's ("Data parallel
algorithms", 1986). Elements are combined in order, so an operator need not commute.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._array import Array
from .._kernel import Kernel
from ..errors import ArgumentError
from . import _common as c
from . import reductions as r

__all__ = ["accumulate", "cumulative_prod", "cumulative_sum"]

DType = np.dtype[Any]

_MOST_CHUNKS = 512
_COLUMNS = 4
# What a launch is told: that its chunks start at the totals of those before, that elements come before their own sum, that
# only the totals of chunks are wanted.
_STARTS, _EXCLUSIVE, _TOTALS = 1, 2, 4

# A SIMD-group for every chunk of every row.
_ALONG = """
template <typename T> inline T ki_shift_up(T v, ushort n) { return simd_shuffle_up(v, n); }
template <> inline long ki_shift_up(long v, ushort n) { return as_type<long>(simd_shuffle_up(as_type<uint2>(v), n)); }
template <> inline ulong ki_shift_up(ulong v, ushort n) { return as_type<ulong>(simd_shuffle_up(as_type<uint2>(v), n)); }
template <typename T> inline T ki_from(T v, ushort n) { return simd_shuffle(v, n); }
template <> inline long ki_from(long v, ushort n) { return as_type<long>(simd_shuffle(as_type<uint2>(v), n)); }
template <> inline ulong ki_from(ulong v, ushort n) { return as_type<ulong>(simd_shuffle(as_type<uint2>(v), n)); }

#define KI_STEP(n) { const ki_a other = ki_shift_up(v, n), with = ki_op(other, v); v = lane >= n ? with : v; }

kernel void ki_scan(device ki_s* out, device ki_a* totals, device const ki_t* x, device const ki_a* starts,
                    constant ki_a& identity,
                    constant ix& length, constant ix& chunk, constant ix&, constant uint& flags,
                    uint2 group [[threadgroup_position_in_grid]], uint2 groups [[threadgroups_per_grid]],
                    uint lane_index [[thread_index_in_simdgroup]]) {
    const ushort lane = lane_index;
    const ix start = (ix)group.y * length, first = start + (ix)group.x * chunk;
    const ix last = min(first + chunk, start + length);
    const ix own = (ix)group.y * groups.x + group.x;
#if !KI_ORDERED
    if (flags & KI_TOTALS) {
        ki_a v = identity, v1 = identity, v2 = identity, v3 = identity;
        ix at = first;
        for (; at + 128 <= last; at += 128) {
            v = ki_op(v, KI_LOAD(at + lane));
            v1 = ki_op(v1, KI_LOAD(at + lane + 32));
            v2 = ki_op(v2, KI_LOAD(at + lane + 64));
            v3 = ki_op(v3, KI_LOAD(at + lane + 96));
        }
        v = ki_op(ki_op(v, v1), ki_op(v2, v3));
        for (; at < last; at += 32)
            if (at + lane < last) v = ki_op(v, KI_LOAD(at + lane));
        KI_STEP(1) KI_STEP(2) KI_STEP(4) KI_STEP(8) KI_STEP(16)
        if (lane == 31) totals[own] = v;
        return;
    }
#endif
    ki_a carry = identity;
    if (flags & KI_STARTS) carry = starts[own];
    for (ix at = first; at < last; at += 32) {
        const bool inside = at + lane < last;
        ki_a v = inside ? KI_LOAD(at + lane) : identity;
        KI_STEP(1) KI_STEP(2) KI_STEP(4) KI_STEP(8) KI_STEP(16)
        ki_a result = ki_op(carry, v);
        if (flags & KI_EXCLUSIVE) {
            const ki_a before = ki_shift_up(v, 1), with = ki_op(carry, before);
            result = lane == 0 ? carry : with;
        }
        if (inside && !(flags & KI_TOTALS)) out[at + lane] = (ki_s)result;
        carry = ki_op(carry, ki_from(v, 31));
    }
    if (flags & KI_TOTALS && lane == 0) totals[own] = carry;
}
"""

# A thread for every short row.
_SHORT = """
kernel void ki_scan(device ki_s* out, device ki_a* totals, device const ki_t* x, device const ki_a* starts,
                    constant ki_a& identity,
                    constant ix& length, constant uint& flags, uint row [[thread_position_in_grid]]) {
    const ix first = (ix)row * length;
    ki_a v = identity;
    for (ix i = 0; i < length; ++i) {
        const ki_a before = v;
        v = ki_op(v, KI_LOAD(first + i));
        out[first + i] = (ki_s)(flags & KI_EXCLUSIVE ? before : v);
    }
}
"""

# A thread for every column of every chunk of a narrow array.
_STRIPS = """
kernel void ki_scan(device ki_s* out, device ki_a* totals, device const ki_t* x, device const ki_a* starts,
                    constant ki_a& identity,
                    constant ix& length, constant ix& chunk, constant ix& inner, constant uint& flags,
                    uint2 at [[thread_position_in_grid]],
                    uint2 grid [[threads_per_grid]]) {
    const ix own = (ix)at.x / inner, first = own * chunk, last = min(first + chunk, length);
    ix i = ((ix)at.y * length + first) * inner + ((ix)at.x - own * inner);
    ki_a v = identity;
    if (flags & KI_STARTS) v = starts[(ix)at.y * grid.x + at.x];
    for (ix k = first; k < last; ++k, i += inner) {
        const ki_a before = v;
        v = ki_op(v, KI_LOAD(i));
        if (!(flags & KI_TOTALS)) out[i] = (ki_s)(flags & KI_EXCLUSIVE ? before : v);
    }
    if (flags & KI_TOTALS) totals[(ix)at.y * grid.x + at.x] = v;
}
"""

# Lanes follow neighbouring columns down a chunk of the axis.
_DOWN = """
template <bool full>
inline void ki_down(device ki_s* out, device ki_a* totals, device const ki_t* x, device const ki_a* starts, ki_a identity,
                    ix inner, ix count, ix at, ix column, ix own, uint flags) {
    ki_a v[KI_COLUMNS];
    for (int j = 0; j < KI_COLUMNS; ++j)
        v[j] = flags & KI_STARTS && (full || column + 32 * j < inner) ? starts[own + 32 * j] : identity;
    for (ix i = 0; i < count; ++i, at += inner)
        for (int j = 0; j < KI_COLUMNS; ++j)
            if (full || column + 32 * j < inner) {
                const ki_a before = v[j];
                v[j] = ki_op(v[j], KI_LOAD(at + 32 * j));
                if (!(flags & KI_TOTALS)) out[at + 32 * j] = (ki_s)(flags & KI_EXCLUSIVE ? before : v[j]);
            }
    if (flags & KI_TOTALS)
        for (int j = 0; j < KI_COLUMNS; ++j)
            if (full || column + 32 * j < inner) totals[own + 32 * j] = v[j];
}
kernel void ki_scan(device ki_s* out, device ki_a* totals, device const ki_t* x, device const ki_a* starts,
                    constant ki_a& identity,
                    constant ix& length, constant ix& chunk, constant ix& inner, constant uint& flags,
                    uint3 group [[threadgroup_position_in_grid]], uint3 groups [[threadgroups_per_grid]],
                    uint lane [[thread_index_in_simdgroup]]) {
    const ix row = (ix)group.y * chunk, block = (ix)group.x * 32 * KI_COLUMNS, column = block + lane;
    const ix count = min(chunk, length - row), at = ((ix)group.z * length + row) * inner + column;
    const ix own = ((ix)group.z * groups.y + group.y) * inner + column;
    if (block + 32 * KI_COLUMNS <= inner)
        ki_down<true>(out, totals, x, starts, identity, inner, count, at, column, own, flags);
    else
        ki_down<false>(out, totals, x, starts, identity, inner, count, at, column, own, flags);
}
"""


class _Types(NamedTuple):
    op: str
    element: DType
    acc: DType
    out: DType


def _source(types: _Types, kind: str, wide: bool) -> str:
    op = types.op
    truth = r._CLASS.get(op) == "truth"
    user_bool = op not in r.OPERATORS and types.out == c.BOOL
    names = {"t": types.element, "a": types.acc, "s": types.out}
    text = [c.PRELUDE, f"typedef {'long' if wide else 'int'} ix;\n", r.helpers(op)]
    text += [f"typedef {c.msl(d, 'accumulate')} ki_{n};\n" for n, d in names.items()]
    operand = "bool" if user_bool else "ki_a"
    text.append(f"inline ki_a ki_op({operand} a, {operand} b) {{ return (ki_a)({r._expression(op)}); }}\n")
    text.append(f"#define KI_LOAD(i) ((ki_a)(x[i]{' != 0' if truth else ''}))\n")
    flags = {"ORDERED": op not in r.OPERATORS, "TOTALS": _TOTALS, "STARTS": _STARTS, "EXCLUSIVE": _EXCLUSIVE}
    text += [f"#define KI_{n} {int(v)}\n" for n, v in {**flags, "COLUMNS": _COLUMNS}.items()]
    return "".join([*text, {"down": _DOWN, "along": _ALONG, "short": _SHORT, "strips": _STRIPS}[kind]])


def _kernel(types: _Types, kind: str, wide: bool, device: Any) -> Kernel:
    kernel: Kernel = c.cached(
        ("scan", types, kind, wide, device), lambda: c.compiled(_source(types, kind, wide), "ki_scan")
    )
    return kernel


class _Step(NamedTuple):
    """One launch: the kernel, the places of its four arrays (0 the input, 1 the result, then the scratch arrays, which are
    all there is for those it does not use), the numbers after them, and the grid."""

    kernel: Kernel
    arrays: tuple[int, int, int, int]
    numbers: tuple[int, ...]
    ndrange: int | tuple[int, int] | None
    groups: tuple[int, ...] | None


class _Plan(NamedTuple):
    """The launches of a scan, and the elements of its scratch arrays, which are of the accumulating type."""

    steps: list[_Step]
    scratch: list[int]
    acc: DType
    out: DType


def _plan(types: _Types, outer: int, length: int, inner: int, exclusive: bool, device: Any) -> _Plan:
    plan = _Plan([], [1], types.acc, types.out)
    _scan(plan, types, outer, length, inner, exclusive, device, 0, 1)
    return plan


def _scan(
    plan: _Plan,
    types: _Types,
    outer: int,
    length: int,
    inner: int,
    exclusive: bool,
    device: Any,
    x: int,
    out: int,
    before: str = "",
) -> None:
    """Scans the middle of (outer, length, inner) of array `x` into array `out`. `before` is the kind of kernel that made
    what is scanned, of its own types: there is no need to compile another one."""
    nothing = 2
    wide = outer * length * inner >= c.NARROW - 1024
    if inner == 1 and length < 32 and not before:
        short = _kernel(types, "short", wide, device)
        plan.steps.append(_Step(short, (out, nothing, x, nothing), (length, _EXCLUSIVE * exclusive), outer, None))
        return
    kind = before or ("down" if inner > 16 and length > 64 else "strips" if inner > 1 else "along")
    if kind == "strips":
        chunks = 1 if length <= 64 else max(1, min(-(-length // 32), 2048 // (inner * outer)))
        chunk, blocks, unit = -(-length // chunks), 1, 1
    elif kind == "down":
        blocks = -(-inner // (32 * _COLUMNS))
        chunks = 1 if blocks * outer >= 32 else min(-(-length // 64), max(1, 64 // (blocks * outer)))
        chunk = -(-length // chunks)
        unit = 1
    else:
        most = max(1, _MOST_CHUNKS // outer)
        if device.kind == "cpu" and not c.is_float(types.acc) and types.op in r.OPERATORS:
            most = c.ceil_div(
                device.multiprocessor_count, outer
            )  # one pass less; cuts do not change what integers give
        chunks = min(-(-length // c.chunk_of(device)), most)
        chunk = c.round_up(-(-length // chunks), 32)
        unit, blocks = inner, 1
    chunks = -(-length // chunk)
    numbers = (length * unit, chunk * unit, inner)
    groups: tuple[int, ...] | None = (blocks, chunks, outer) if kind == "down" else (chunks, outer)
    threads = None
    if kind == "strips":
        groups, threads = None, (chunks * inner, outer)
    starts = nothing
    if chunks > 1:
        plan.scratch.extend([outer * chunks * inner] * 2)
        totals, starts = len(plan.scratch), len(plan.scratch) + 1
        first = _kernel(types, kind, wide, device)
        plan.steps.append(_Step(first, (out, totals, x, nothing), (*numbers, _TOTALS), threads, groups))
        own = types._replace(element=types.acc, out=types.acc)
        if r._CLASS.get(types.op) == "truth":
            own = own._replace(op={"&&": "&", "||": "|"}[types.op])
        same = kind if own == types and not wide else ""
        _scan(plan, own, outer, chunks, inner, True, device, totals, starts, same)
    kernel = _kernel(types, kind, wide, device)
    flags = _STARTS * (chunks > 1) + _EXCLUSIVE * exclusive
    plan.steps.append(_Step(kernel, (out, nothing, x, starts), (*numbers, flags), threads, groups))


def _execute(plan: _Plan, x: Array, neutral: Any) -> Array:
    arrays = [x, c.result_like(x.shape, plan.out, x), *(c.result_like((n,), plan.acc, x) for n in plan.scratch)]
    for step in plan.steps:
        own = [arrays[i] for i in step.arrays]
        if step.groups is None:
            step.kernel(*own, neutral, *step.numbers, ndrange=step.ndrange)
        else:
            step.kernel(*own, neutral, *step.numbers, numworkgroups=step.groups, workgroupsize=32)
    return arrays[1]


_known: dict[Any, tuple[_Plan, Any]] = {}


def accumulate(
    op: str, x: Any, axis: Any = None, exclusive: bool = False, *, init: Any = None, dtype: Any = None
) -> Array:
    """The running reduction of `x` along `axis` with `op`, one of mk.reduce's or an associative MSL expression of a and b
    whose neutral element is `init`. With `exclusive` an element holds what comes before it, the first the neutral element.

    Without an axis `x` is taken as one row, as numpy does. The result has the shape of `x` and mk.reduce's dtype.
    Raises AxisError as numpy does."""
    signature = None
    if type(x) is Array and init is None and axis is not None and type(axis) is int:
        signature = (op, x.dtype, x.shape, x.device, axis, exclusive, dtype)
        known = _known.get(signature)
        if known is not None:
            return _execute(known[0], x, known[1])
    r._checked_operator(op, init, "accumulate")
    value = c.as_operand(x, "accumulate")
    r._check_kind(op, value.dtype)
    if axis is None:
        value, axis = value.reshape(-1), 0
    if c.with_axis(value, axis) is not value:
        value, signature = value.reshape(1), None
    at = c.normal_axis(axis, value.ndim)
    acc, out_type = r._element_types(op, value.dtype)
    if dtype is not None:
        from .._dtypes import normalize

        out_type = normalize(dtype, "accumulate")
        acc = r._element_types("min", out_type)[0]
    if value.size == 0:
        return c.result_like(value.shape, out_type, value)
    neutral = init if op not in r.OPERATORS else r.identity(op, acc)
    if op not in r.OPERATORS:
        neutral = c.check_scalar(neutral, acc, "accumulate")
    shape = value.shape
    types = _Types(op, value.dtype, acc, out_type)
    sizes = c.elements(shape[:at]), shape[at], c.elements(shape[at + 1 :])
    key = ("scan plan", types, sizes, bool(exclusive), value.device)
    plan = c.cached(key, lambda: _plan(types, *sizes, bool(exclusive), value.device))
    if signature is not None:
        if len(_known) >= c._MOST_CACHED:
            _known.clear()
        _known[signature] = plan, neutral
    return _execute(plan, value, neutral)


def _cumulative(op: str, x: Any, axis: Any, dtype: Any, include_initial: bool, what: str) -> Array:
    value = c.as_operand(x, what)
    if axis is None:
        if value.ndim > 1:
            raise ArgumentError(f"{what}: axis is needed for more than one axis, the array has {value.ndim}")
        axis = 0
    if value.ndim == 0:
        value = value.reshape(1)
    result = accumulate(op, value, axis, dtype=dtype)
    if not include_initial:
        return result
    from .._array import full
    from .arranging import concatenate

    at = c.normal_axis(axis, value.ndim)
    shape = tuple(1 if i == at else n for i, n in enumerate(value.shape))
    return concatenate([full(shape, r.identity(op, c.INT64), result.dtype, device=result.device), result], axis=at)


def cumulative_sum(x: Any, /, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Array:
    """The running sum along `axis`, in the dtypes of mk.sum; with `include_initial` a zero comes first."""
    return _cumulative("+", x, axis, dtype, include_initial, "cumulative_sum")


def cumulative_prod(x: Any, /, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Array:
    """The running product along `axis`, in the dtypes of mk.prod; with `include_initial` a one comes first."""
    return _cumulative("*", x, axis, dtype, include_initial, "cumulative_prod")
