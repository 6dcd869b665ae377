"""mk.reduce, mk.mapreduce and what follows from them: sum, prod, min, max, mean, any, all.

Rows (axes that end the array) are reduced by a SIMD-group each, whose lanes read neighbouring elements; other axes by
threads that each follow some columns. Long axes are cut into chunks whose partial results a second launch reduces; the
cuts depend on the shape alone, so results are the same from run to run. Operators that the caller writes need not be
commutative: their elements are combined in order.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import _array, _dtypes
from .._array import Array
from .._kernel import Kernel
from .._text import shown
from ..errors import ArgumentError
from . import _common as c
from .elementwise import Operand, Request, _named, broadcast, operands
from .elementwise import run as run_map
from .geometry import broadcast_strides

__all__ = ["all", "any", "count_nonzero", "mapreduce", "max", "mean", "min", "prod", "reduce", "sum"]

DType = np.dtype[Any]

# SIMD-groups that one reduction is cut into at most.
_MOST_CHUNKS = 1024
# Columns of a thread that reduces an axis which does not end the array.
_COLUMNS = 8
# Rows that a thread of a short axis follows at most.
_FEW_ROWS = 64

OPERATORS: dict[str, str] = {
    "+": "ki_add(a, b)",
    "*": "ki_multiply(a, b)",
    "min": "ki_least(a, b)",
    "max": "ki_most(a, b)",
    "&": "a & b",
    "|": "a | b",
    "^": "a ^ b",
    "&&": "a & b",
    "||": "a | b",
}
_CLASS = {"+": "sum", "*": "sum", "min": "order", "max": "order", "&": "bits", "|": "bits", "^": "bits"}
_CLASS |= {"&&": "truth", "||": "truth"}

# Which type accumulates and which one is stored, by the type of the elements: numpy's choice.
_TYPES = {
    "sum": [
        *((t, "long", "long") for t in ("bool", "char", "short", "int", "long")),
        *((t, "ulong", "ulong") for t in ("uchar", "ushort", "uint", "ulong")),
        ("half", "float", "half"),
        ("bfloat", "float", "bfloat"),
    ],
    "order": [("bool", "uint", "bool"), ("half", "float", "half"), ("bfloat", "float", "bfloat")],
    "bits": [("bool", "uint", "bool")],
    "truth": [(t, "uint", "bool") for t in c._MSL.values()],
    "same": [("bool", "uint", "bool")],
}

SHIFT_DOWN = """
template <typename T> inline T ki_shift_down(T v, ushort n) { return simd_shuffle_down(v, n); }
template <> inline long ki_shift_down(long v, ushort n) { return as_type<long>(simd_shuffle_down(as_type<uint2>(v), n)); }
template <> inline ulong ki_shift_down(ulong v, ushort n) { return as_type<ulong>(simd_shuffle_down(as_type<uint2>(v), n)); }
"""

# min and max are NaN if one of both is, and made of what processors have one instruction for.
_FUNCTIONS = {
    "+": """
template <typename T> inline T ki_add(T a, T b) { return a + b; }
template <> inline int ki_add(int a, int b) { return (int)((uint)a + (uint)b); }
template <> inline long ki_add(long a, long b) { return (long)((ulong)a + (ulong)b); }
""",
    "*": """
template <typename T> inline T ki_multiply(T a, T b) { return a * b; }
template <> inline int ki_multiply(int a, int b) { return (int)((uint)a * (uint)b); }
template <> inline long ki_multiply(long a, long b) { return (long)((ulong)a * (ulong)b); }
""",
    "min": """
template <typename T> inline T ki_least(T a, T b) { const T v = b < a ? b : a; return b != b ? b : v; }
""",
    "max": """
template <typename T> inline T ki_most(T a, T b) { const T v = b > a ? b : a; return b != b ? b : v; }
""",
}


def helpers(op: str) -> str:
    """The functions that the expression of an operator calls."""
    return _FUNCTIONS.get(op, "")


_ROWS = """
// A SIMD-group for every chunk of every row.
kernel void ki_rows(device ki_s* out, PARAMETERS, constant ki_a& identity, constant ix& length, constant ix& chunk,
                    uint2 group [[threadgroup_position_in_grid]], uint2 groups [[threadgroups_per_grid]],
                    uint lane [[thread_index_in_simdgroup]]) {
    const ix start = (ix)group.y * length, first = start + (ix)group.x * chunk;
    const ix last = min(first + chunk, start + length);
#if KI_ORDERED
    const ix each = (last - first + 31) / 32, from = first + (ix)lane * each, to = min(from + each, last);
    ki_a v = identity;
    for (ix i = from; i < to; ++i) v = ki_op(v, KI_LOAD(i));
#else
    ki_a v0 = identity, v1 = identity, v2 = identity, v3 = identity;
    ix at = first;
    for (; at + 128 <= last; at += 128) {
        const ix i = at + lane;
        v0 = ki_op(v0, KI_LOAD(i));
        v1 = ki_op(v1, KI_LOAD(i + 32));
        v2 = ki_op(v2, KI_LOAD(i + 64));
        v3 = ki_op(v3, KI_LOAD(i + 96));
    }
    for (; at < last; at += 32) {
        const ix i = at + lane;
        if (i < last) v0 = ki_op(v0, KI_LOAD(i));
    }
    ki_a v = ki_op(ki_op(v0, v1), ki_op(v2, v3));
#endif
    // In order, or the far lanes first: half of them need not go on.
    for (ushort step = 1; step < 32; step *= 2) v = ki_op(v, ki_shift_down(v, KI_ORDERED ? step : 16 / step));
    if (lane == 0) out[(ix)group.y * groups.x + group.x] = (ki_s)v;
}
"""

_SHORT = """
// A thread for every short row.
kernel void ki_short(device ki_s* out, PARAMETERS, constant ki_a& identity, constant ix& length,
                     uint row [[thread_position_in_grid]]) {
    const ix first = (ix)row * length;
    ki_a v = identity;
    for (ix i = 0; i < length; ++i) v = ki_op(v, KI_LOAD(first + i));
    out[row] = (ki_s)v;
}
"""

_FEW = """
// A thread for every column of a short axis.
kernel void ki_few(device ki_s* out, PARAMETERS, constant ki_a& identity, constant ix& inner, constant ix& length,
                   uint2 at [[thread_position_in_grid]]) {
    ix i = (ix)at.y * length * inner + at.x;
    ki_a v = identity;
    for (ix r = 0; r < length; ++r, i += inner) v = ki_op(v, KI_LOAD(i));
    out[(ix)at.y * inner + at.x] = (ki_s)v;
}
"""

_DOWN = """
// Lanes of a SIMD-group follow neighbouring columns, KI_COLUMNS each, down a chunk of the axis. `end` cuts the last step.
template <bool full>
inline void ki_down(device ki_s* out, CALLED, ki_a identity, ix inner, ix count, ix i, ix end, ix column, ix o) {
    ki_a v[KI_COLUMNS];
    for (int j = 0; j < KI_COLUMNS; ++j) v[j] = identity;
    for (ix r = 0; r < count; ++r, i += inner)
        for (int j = 0; j < KI_COLUMNS; ++j)
            if (full || (column + 32 * j < inner && i + 32 * j < end)) v[j] = ki_op(v[j], KI_LOAD(i + 32 * j));
    for (int j = 0; j < KI_COLUMNS; ++j)
        if (full || column + 32 * j < inner) out[o + 32 * j] = (ki_s)v[j];
}
kernel void ki_columns(device ki_s* out, PARAMETERS, constant ki_a& identity, constant ix& inner, constant ix& length,
                       constant ix& chunk, constant ix& elements, uint3 group [[threadgroup_position_in_grid]],
                       uint3 groups [[threadgroups_per_grid]], uint lane [[thread_index_in_simdgroup]]) {
    const ix row = (ix)group.y * chunk, count = min(chunk, length - row);
    const ix block = (ix)group.x * 32 * KI_COLUMNS, column = block + lane;
    const ix start = (ix)group.z * elements, i = start + row * inner + column;
    const ix o = ((ix)group.z * groups.y + group.y) * inner + column;
    if (block + 32 * KI_COLUMNS <= inner && (row + count) * inner <= elements)
        ki_down<true>(out, NAMES, identity, inner, count, i, start + elements, column, o);
    else
        ki_down<false>(out, NAMES, identity, inner, count, i, start + elements, column, o);
}
"""


class Step(NamedTuple):
    """One launch: the kernel, the numbers after the arrays, the grid, and the result."""

    kernel: Kernel
    numbers: tuple[Any, ...]
    ndrange: tuple[int, ...] | None
    groups: tuple[int, ...] | None
    size: int
    dtype: DType


class Map(NamedTuple):
    """What a reduction reads: an expression over arrays of one size and numbers."""

    expr: str
    names: tuple[str, ...]
    dtypes: tuple[DType, ...]
    numbers: tuple[bool, ...]  # which of them are numbers rather than arrays


def _type_traits(op: str) -> str:
    text = "template <typename T> struct ki_types { typedef T acc; typedef T out; };\n"
    for element, acc, out in _TYPES[_CLASS.get(op, "same")]:
        text += f"template <> struct ki_types<{element}> {{ typedef {acc} acc; typedef {out} out; }};\n"
    return text


def _expression(op: str) -> str:
    return OPERATORS.get(op, op)


def source(
    kind: str, op: str, what: Map, fixed: tuple[DType, DType] | None, final: bool, wide: bool, columns: int
) -> str:
    """The text of one kernel of a reduction. `fixed` are the accumulating and the resulting type when they are known."""
    types = [c.msl(d, "reduce") for d in what.dtypes]
    parameters = [
        f"constant {t}& ki_in_{n}" if number else f"device const {t}* ki_in_{n}"
        for n, t, number in zip(what.names, types, what.numbers, strict=True)
    ]
    called = [
        f"{t} ki_in_{n}" if number else f"device const {t}* ki_in_{n}"
        for n, t, number in zip(what.names, types, what.numbers, strict=True)
    ]
    loads = [f"ki_in_{n}" if number else f"ki_in_{n}[i_]" for n, number in zip(what.names, what.numbers, strict=True)]
    names = ", ".join(f"ki_in_{n}" for n in what.names)
    typed = ", ".join(f"{t} {n}" for n, t in zip(what.names, types, strict=True))
    text = [c.PRELUDE, f"typedef {'long' if wide else 'int'} ix;\n", helpers(op)]
    text.append(f"inline auto ki_f({typed}) {{ return ({what.expr}); }}\n")
    if fixed is None:
        text.append(_type_traits(op))
        text.append(f"typedef decltype(ki_f({', '.join(t + '()' for t in types)})) ki_e;\n")
        text.append("typedef ki_types<ki_e>::acc ki_a;\ntypedef ki_types<ki_e>::out ki_o;\n")
    else:
        acc, out = (c.msl(d, "reduce") for d in fixed)
        text.append(f"typedef {acc} ki_a;\ntypedef {out} ki_o;\n")
    text.append(f"typedef ki_{'o' if final else 'a'} ki_s;\n")
    value = f"ki_f({', '.join(loads)})"
    if _CLASS.get(op) == "truth":
        value = f"({value} != 0)"
    text.append(f"#define KI_LOAD(index) ({{ const ix i_ = (index); (ki_a){value}; }})\n")
    user = op not in OPERATORS
    boolean = user and fixed is not None and fixed[1] == c.BOOL
    element = "bool" if boolean else "ki_a"
    text.append(f"inline ki_a ki_combined({element} a, {element} b) {{ return (ki_a)({_expression(op)}); }}\n")
    text.append("#define ki_op(a, b) ki_combined(a, b)\n")
    text.append(f"#define KI_ORDERED {int(user)}\n#define KI_COLUMNS {columns}\n")
    body = {"rows": SHIFT_DOWN + _ROWS, "short": _SHORT, "few": _FEW, "columns": _DOWN}[kind]
    body = (
        body.replace("PARAMETERS", ", ".join(parameters)).replace("CALLED", ", ".join(called)).replace("NAMES", names)
    )
    return "".join([*text, body])


def _kernel(
    kind: str, op: str, what: Map, fixed: tuple[DType, DType] | None, final: bool, wide: bool, columns: int, device: Any
) -> Kernel:
    if fixed is not None and fixed[0] == fixed[1]:
        final = True
    key = ("reduce", kind, op, what, fixed, final, wide, columns, device)
    kernel: Kernel = c.cached(
        key, lambda: c.compiled(source(kind, op, what, fixed, final, wide, columns), "ki_" + kind)
    )
    return kernel


def identity(op: str, dtype: DType) -> Any:
    """The neutral element of a built-in operator in the accumulating type."""
    if op in ("min", "max"):
        high = op == "min"
        if c.is_float(dtype):
            return float("inf") if high else float("-inf")
        info = np.iinfo(dtype)
        return info.max if high else info.min
    if op == "&":
        return -1 if dtype.kind == "i" else np.iinfo(dtype).max
    return 1 if op in ("*", "&&") else 0


def _element_types(op: str, dtype: DType) -> tuple[DType, DType]:
    """The accumulating and the resulting dtype for elements of `dtype`."""
    name = c.msl(dtype, "reduce")
    back = {m: n for n, m in c._MSL.items()}
    for element, acc, out in _TYPES[_CLASS.get(op, "same")]:
        if element == name:
            return _dtypes.normalize(back[acc], "reduce"), _dtypes.normalize(back[out], "reduce")
    return dtype, dtype


def _segments(shape: Sequence[int], axes: tuple[int, ...]) -> list[tuple[int, bool]]:
    """Neighbouring axes that are both kept or both reduced, merged: (elements, reduced)."""
    found: list[tuple[int, bool]] = []
    for i, size in enumerate(shape):
        if size == 1:
            continue
        reduced = i in axes
        if found and found[-1][1] == reduced:
            found[-1] = (found[-1][0] * size, reduced)
        else:
            found.append((size, reduced))
    return found


def _plan(
    op: str, what: Map, fixed: tuple[DType, DType] | None, shape: tuple[int, ...], axes: tuple[int, ...], device: Any
) -> list[Step]:
    segments = _segments(shape, axes)
    if not builtins.any(reduced for _, reduced in segments):
        segments.append((1, True))
    steps: list[Step] = []
    while True:
        at = builtins.max(i for i, (_, reduced) in enumerate(segments) if reduced)
        outer, length = c.elements([n for n, _ in segments[:at]]), segments[at][0]
        inner = c.elements([n for n, _ in segments[at + 1 :]])
        last = not builtins.any(reduced for _, reduced in segments[:at])
        steps += _reduce_one(op, what, fixed, outer, length, inner, last, device)
        if last:
            return steps
        acc = steps[-1].dtype
        fixed = (acc, fixed[1] if fixed else _result_of(op, what, fixed, device))
        what = Map("x", ("x",), (acc,), (False,))
        merged = c.elements([n for n, reduced in segments[at - 1 : at + 2] if not reduced])
        segments = [*segments[: at - 1], (merged, False)] if at else [(merged, False)]


def _result_of(op: str, what: Map, fixed: tuple[DType, DType] | None, device: Any) -> DType:
    found = _kernel("short", op, what, fixed, True, False, 1, device).arguments[0].dtype
    assert found is not None
    return found


def _reduce_one(
    op: str,
    what: Map,
    fixed: tuple[DType, DType] | None,
    outer: int,
    length: int,
    inner: int,
    last: bool,
    device: Any,
    before: str = "",
    columns: int = 1,
) -> list[Step]:
    """Reduces the middle of (outer, length, inner). `before` is the kind of kernel that made what is reduced, of its own
    types: there is no need to compile another one."""
    user = op not in OPERATORS
    fold = 1
    if inner == 1:
        if length < 32 and before != "rows":
            kernel = _kernel("short", op, what, fixed, last, _wide(outer * length), 1, device)
            return [_step(kernel, (length,), (outer,), None, outer)]
        kind = "rows"
        exact = not user and (_CLASS[op] != "sum" or (fixed is not None and fixed[0].kind in "iu"))
        chunks = c.exact_chunks(device, length) if exact else -(-length // c.chunk_of(device))
        chunks = builtins.min(chunks, builtins.max(1, _MOST_CHUNKS // outer))
        chunk = -(-length // chunks)
        chunk = -(-chunk // 32) * 32
        chunks = -(-length // chunk)
    elif length <= _FEW_ROWS and before != "columns" and inner >= 32 and inner < c.NARROW and outer < c.NARROW:
        kernel = _kernel("few", op, what, fixed, last, _wide(outer * length * inner), 1, device)
        return [_step(kernel, (inner, length), (inner, outer), None, outer * inner)]
    else:
        kind = "columns"
        if inner < 32 and not user and length >= 256:
            fold = 128 // inner  # some rows side by side, so that lanes have work
        width, steps = inner * fold, -(-length // fold)
        if before != "columns":
            columns = _COLUMNS if width >= 32 * _COLUMNS else builtins.max(1, builtins.min(_COLUMNS, width // 32))
        blocks = -(-width // (32 * columns)) * outer
        chunks = builtins.min(-(-steps // 64), builtins.max(1, 64 // blocks)) if steps > 64 else 1
        chunk = -(-steps // chunks)
        chunks = -(-steps // chunk)
    done = chunks == 1 and fold == 1
    kernel = _kernel(kind, op, what, fixed, last and done, _wide(outer * length * inner), columns, device)
    if kind == "rows":
        first = _step(kernel, (length, chunk), None, (chunks, outer), chunks * outer)
    else:
        numbers = (inner * fold, -(-length // fold), chunk, length * inner)
        grid = (-(-inner * fold // (32 * columns)), chunks, outer)
        first = _step(kernel, numbers, None, grid, outer * chunks * inner * fold)
    if done:
        return [first]
    acc = first.dtype
    result = fixed[1] if fixed else _result_of(op, what, fixed, device)
    again = Map("x", ("x",), (acc,), (False,))
    before = kind if acc == result and what == again and _wide(outer * length * inner) is False else ""
    rest = _reduce_one(op, again, (acc, result), outer, chunks * fold, inner, last, device, before, columns)
    return [first, *rest]


def _step(
    kernel: Kernel, numbers: tuple[int, ...], ndrange: tuple[int, ...] | None, groups: tuple[int, ...] | None, size: int
) -> Step:
    found = kernel.arguments[0].dtype
    assert found is not None
    return Step(kernel, numbers, ndrange, groups, size, found)


def _wide(elements: int) -> bool:
    return elements >= c.NARROW - 1024


class Known(NamedTuple):
    """A reduction whose launches are settled."""

    steps: list[Step]
    neutral: Any
    shape: tuple[int, ...]  # of the result


_known: dict[Any, Known] = {}


def prepare(
    op: str,
    what: Map,
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    fixed: tuple[DType, DType] | None,
    neutral: Any,
    inputs: int,
    like: Array,
    keepdims: bool,
) -> Known:
    """The launches of a reduction over `axes` of what `inputs` arrays of `shape` and numbers give."""
    key = ("reduction", op, what, fixed, shape, axes, like.device)
    steps: list[Step] = c.cached(key, lambda: _plan(op, what, fixed, shape, axes, like.device))
    if neutral is None:
        acc = steps[0].kernel.arguments[inputs + 1].dtype
        assert acc is not None
        neutral = identity(op, acc)
    if keepdims:
        return Known(steps, neutral, tuple(1 if i in axes else n for i, n in enumerate(shape)))
    return Known(steps, neutral, tuple(n for i, n in enumerate(shape) if i not in axes))


def _execute(known: Known, arguments: list[Any], like: Array) -> Array:
    steps, neutral, shape = known
    for step in steps[:-1]:
        out = c.result_like((step.size,), step.dtype, like)
        _launch(step, out, arguments, neutral)
        arguments = [out]
    out = c.result_like(shape, steps[-1].dtype, like)
    _launch(steps[-1], out, arguments, neutral)
    return out


def _launch(step: Step, out: Array, arguments: list[Any], neutral: Any) -> None:
    if step.groups is None:
        step.kernel(out, *arguments, neutral, *step.numbers, ndrange=step.ndrange)
    else:
        step.kernel(out, *arguments, neutral, *step.numbers, numworkgroups=step.groups, workgroupsize=32)


_NAMES = {"+": "add", "*": "multiply", "min": "minimum", "max": "maximum", "&": "bitwise_and", "|": "bitwise_or"}
_NAMES |= {"^": "bitwise_xor", "&&": "logical_and", "||": "logical_or"}


def _checked_operator(op: Any, init: Any, what: str) -> None:
    if not isinstance(op, str):
        raise ArgumentError(f"{what}: the operator is a str, {type(op).__name__} was given")
    if op not in OPERATORS:
        words = set(re.findall(r"[A-Za-z_]\w*", op))
        if not {"a", "b"} & words:
            raise ArgumentError(
                f"{what}: {shown(op)} is none of {' '.join(OPERATORS)}, nor an MSL expression of a and b"
            )
        if init is None:
            raise ArgumentError(f"{what}: the operator {shown(op)} needs its neutral element as init=")


def _empty(op: str, shape: tuple[int, ...], dtype: DType, init: Any, like: Array | None, nothing: bool) -> Array:
    """The result, of `shape`, for arrays without elements; `nothing` tells that an axis which is reduced has none."""
    if init is None:
        if op in ("min", "max") and not nothing:
            return c.result_like(shape, dtype, like)  # something to reduce for each of no results
        if op in ("min", "max"):
            raise ArgumentError(f"zero-size array to reduction operation {_NAMES[op]} which has no identity")
        init = identity(op, dtype if dtype.kind != "b" else c.UINT32)
        if op == "&" and dtype.kind == "b":
            init = 1
    return _array.full(shape, init, dtype)


def _shaped(result: Array, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> Array:
    if not keepdims:
        return result
    return result.reshape(tuple(1 if i in axes else n for i, n in enumerate(shape)))


def _with_init(op: str, result: Array, init: Any) -> Array:
    if init is None or op not in OPERATORS:
        return result
    kind = result.dtype
    t = c.msl(kind, "reduce")
    inputs = [
        Operand("a", result, kind, broadcast_strides(result.shape, result.shape)),
        Operand("b", c.check_scalar(init, kind, "reduce"), kind, None),
    ]
    return run_map(Request(f"({t})({_expression(op)})", inputs, result.shape, kind, prelude=helpers(op)))


def reduce(op: str, x: Any, axis: Any = None, init: Any = None, *, keepdims: bool = False, dtype: Any = None) -> Array:
    """Combines the elements of `x` along `axis` (an int, several, or None for all) with `op`.

    `op` is one of + * min max & | ^ && ||, or an associative MSL expression of a and b, whose neutral element is then
    `init`; with a built-in operator `init` is one more element. Sums and products of integers are 64-bit, && and || give
    bool, all else has the dtype of `x`, unless `dtype` is given. NaN makes min and max NaN. Results are the same from run
    to run. Raises AxisError and, for min and max of nothing, ArgumentError as numpy does."""
    signature = None
    if type(x) is Array and init is None and dtype is None:
        signature = (op, None, (x.dtype, x.shape, x.device), axis if type(axis) is not list else tuple(axis), keepdims)
        known = _known.get(signature)
        if known is not None:
            return _execute(known, [x], x)
    _checked_operator(op, init, "reduce")
    value = c.as_operand(x, "reduce")
    return _reduce("x", {"x": value}, op, value.shape, axis, init, keepdims, dtype, signature)


def mapreduce(
    expr: str, op: str, *arrays: Any, axis: Any = None, init: Any = None, keepdims: bool = False, **named: Any
) -> Array:
    """reduce(op, broadcast(expr, *arrays)) in one pass, for arrays of one shape; names are those of mk.broadcast."""
    signature = None
    if init is None and len(arrays) + len(named) == 1 and type(axis) is not list:
        x = arrays[0] if arrays else next(iter(named.values()))
        if type(x) is Array:
            signature = (op, (expr, *named), (x.dtype, x.shape, x.device), axis, keepdims)
            known = _known.get(signature)
            if known is not None:
                return _execute(known, [x], x)
    _checked_operator(op, init, "mapreduce")
    values = _named(expr, arrays, named)
    shapes = [v.shape for v in values.values() if isinstance(v, Array)]
    if not shapes:
        raise ArgumentError("mapreduce: at least one array is expected, none was given")
    shape = c.broadcast_shapes(shapes, "mapreduce")
    if builtins.any(s != shape for s in shapes):
        whole = broadcast(expr, **values)
        return _reduce("x", {"x": whole}, op, shape, axis, init, keepdims, None)
    return _reduce(expr, values, op, shape, axis, init, keepdims, None, signature)


def _reduce(
    expr: str,
    named: dict[str, Any],
    op: str,
    shape: tuple[int, ...],
    axis: Any,
    init: Any,
    keepdims: bool,
    dtype: Any,
    signature: Any = None,
) -> Array:
    axes = c.reduced_axes(axis, len(shape))
    inputs = operands(named, shape, "reduce")
    like = next(o.value for o in inputs if o.strides is not None)
    what = Map(
        expr, tuple(o.name for o in inputs), tuple(o.dtype for o in inputs), tuple(o.strides is None for o in inputs)
    )
    fixed = None
    if expr == "x" and len(inputs) == 1:
        _check_kind(op, like.dtype)
        fixed = _element_types(op, like.dtype)
    if dtype is not None:
        wanted = _dtypes.normalize(dtype, "reduce")
        fixed = (_element_types("min", wanted)[0], wanted)
    if 0 in shape:
        kept = tuple(n for i, n in enumerate(shape) if i not in axes)
        if fixed is None:
            first = broadcast(expr, **named).dtype
            fixed = _element_types(op, first)
        nothing = 0 in [shape[i] for i in axes]
        return _shaped(_empty(op, kept, fixed[1], init, like, nothing), shape, axes, keepdims)
    neutral = init if op not in OPERATORS else None
    if neutral is not None:
        kind = fixed[1] if fixed else c.FLOAT32
        neutral = c.check_scalar(neutral, kind, "reduce") if fixed else neutral
        neutral = int(neutral) if fixed and fixed[0] == c.UINT32 and fixed[1] == c.BOOL else neutral
    known = prepare(op, what, shape, axes, fixed, neutral, len(inputs), like, keepdims)
    if signature is not None:
        if len(_known) >= c._MOST_CACHED:
            _known.clear()
        _known[signature] = known
    return _with_init(op, _execute(known, [o.value for o in inputs], like), init)


def _check_kind(op: str, dtype: DType) -> None:
    if op in ("&", "|", "^") and dtype.kind not in "biu":
        raise TypeError(
            f"ufunc '{_NAMES[op]}' not supported for the input types, and the inputs could not be safely coerced to any "
            "supported types according to the casting rule ''safe''"
        )


def sum(x: Any, /, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The sum along `axis`; integers and bools are summed in 64 bits, float16 and bfloat16 in float32."""
    return reduce("+", x, axis, keepdims=keepdims, dtype=dtype)


def prod(x: Any, /, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The product along `axis`, in the types of sum()."""
    return reduce("*", x, axis, keepdims=keepdims, dtype=dtype)


def min(x: Any, /, axis: Any = None, keepdims: bool = False) -> Array:
    """The smallest element along `axis`; NaN if there is one. Raises ArgumentError for nothing."""
    return reduce("min", x, axis, keepdims=keepdims)


def max(x: Any, /, axis: Any = None, keepdims: bool = False) -> Array:
    """The largest element along `axis`; NaN if there is one. Raises ArgumentError for nothing."""
    return reduce("max", x, axis, keepdims=keepdims)


def any(x: Any, /, axis: Any = None, keepdims: bool = False) -> Array:
    """Whether an element along `axis` is not zero."""
    return reduce("||", x, axis, keepdims=keepdims)


def all(x: Any, /, axis: Any = None, keepdims: bool = False) -> Array:
    """Whether no element along `axis` is zero."""
    return reduce("&&", x, axis, keepdims=keepdims)


def count_nonzero(x: Any, /, axis: Any = None, keepdims: bool = False) -> Array:
    """How many elements along `axis` are not zero, as int64."""
    value = c.as_operand(x, "count_nonzero")
    return _reduce("x != 0", {"x": value}, "+", value.shape, axis, None, keepdims, None)


def mean(x: Any, /, axis: Any = None, keepdims: bool = False) -> Array:
    """The arithmetic mean along `axis`; float32 for integers. NaN for nothing."""
    value = c.as_operand(x, "mean")
    axes = c.normal_axes(axis, value.ndim)
    count = c.elements([value.shape[i] for i in axes])
    kind = value.dtype if c.is_float(value.dtype) else c.FLOAT32
    if count == 0:
        return _shaped(
            _array.full(tuple(n for i, n in enumerate(value.shape) if i not in axes), float("nan"), kind),
            value.shape,
            axes,
            keepdims,
        )
    total = _reduce("x", {"x": value}, "+", value.shape, axis, None, keepdims, c.FLOAT32)
    t = c.msl(kind, "mean")
    return broadcast(f"({t})(x / n)", x=total, n=np.float32(count), dtype=kind)
