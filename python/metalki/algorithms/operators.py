"""How element-wise functions are computed: expressions by the kind of the elements, with numpy's promotion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _array, _dtypes
from .._array import Array
from ..errors import ArgumentError
from . import _common as c
from .elementwise import Operand, Request, _again, _known, _signature, remember, run
from .geometry import broadcast_strides

__all__ = ["astype", "clip", "where"]

DType = np.dtype[Any]


def _inputs(values: list[Any], what: str) -> tuple[list[Any], tuple[int, ...]]:
    found = [v if c.is_scalar(v) else c.as_operand(v, what) for v in values]
    return found, c.broadcast_shapes([v.shape for v in found if isinstance(v, Array)], what)


def _launch(
    expr: str,
    values: list[Any],
    shape: tuple[int, ...],
    kind: DType,
    result: DType,
    out: Array | None,
    prelude: str = "",
    signature: Any = None,
) -> Array:
    """Runs `expr` over x and y; scalars are handed over as `kind`."""
    shape = shape if out is None else out.shape
    inputs = []
    for name, value in zip("xyz", values, strict=False):
        if isinstance(value, Array):
            inputs.append(Operand(name, value, value.dtype, broadcast_strides(value.shape, shape)))
        else:
            plain = value.item() if isinstance(value, np.generic) else value
            inputs.append(Operand(name, c.check_scalar(plain, kind, "scalar"), kind, None))
    if not shape and not any(isinstance(v, Array) for v in values) and out is None:
        out = _array.empty((), result)
    result = result if out is None else out.dtype
    request = Request(expr, inputs, shape, result, prelude=prelude, safe=True)
    found = run(request, out)
    if signature is not None:
        remember(signature, request)
    return found


def _wrapping(sign: str) -> Callable[[str, DType], str]:
    """Integer arithmetic that wraps around, which C++ leaves undefined for signed numbers."""

    def expr(t: str, kind: DType) -> str:
        if kind.kind == "b":
            return {"+": "x || y", "*": "x && y"}[sign]
        if kind.kind in "iu":
            u = "ulong" if kind.itemsize == 8 else "uint"
            return f"({t})(({u})({t})x {sign} ({u})({t})y)"
        return f"({t})x {sign} ({t})y"

    return expr


def _floor_divide(t: str, kind: DType) -> str:
    return f"ki_floor_divide(({t})x, ({t})y)"


def _remainder(t: str, kind: DType) -> str:
    return f"ki_remainder(({t})x, ({t})y)"


# floor_divide and remainder follow Python: the remainder has the divisor's sign.
_DIVISION = """
template <typename T> T ki_floor_divide(T a, T b) {
    if (b == T(0) || (is_signed<T>::value && b == T(-1))) return b == T(0) ? T(0) : T(T(0) - a);
    T q = a / b;
    return T(q - T((a % b != T(0)) && ((a < T(0)) != (b < T(0)))));
}
template <typename T> T ki_remainder(T a, T b) {
    if (b == T(0) || (is_signed<T>::value && b == T(-1))) return T(0);
    T r = a % b;
    return (r != T(0) && ((r < T(0)) != (b < T(0)))) ? T(r + b) : r;
}
"""
_FLOAT_DIVISION = """
inline float ki_remainder(float a, float b) {
    float r = fmod(a, b);
    if (r != 0.0f) return (b < 0.0f) != (r < 0.0f) ? r + b : r;
    return b == 0.0f ? NAN : copysign(0.0f, b);
}
inline float ki_floor_divide(float a, float b) {
    if (b == 0.0f) return a / b;
    float r = fmod(a, b), q = (a - r) / b;
    if (r != 0.0f && (b < 0.0f) != (r < 0.0f)) q -= 1.0f;
    if (q == 0.0f) return copysign(0.0f, a / b);
    float whole = floor(q);
    return q - whole > 0.5f ? whole + 1.0f : whole;
}
"""
_POWER = """
template <typename T> T ki_power(T base, T exponent) {
    T result = 1;
    for (; exponent != 0; exponent >>= 1, base *= base) if (exponent & 1) result *= base;
    return result;
}
"""


def _power(t: str, kind: DType) -> str:
    if kind.kind in "iu":
        u = "ulong" if kind.itemsize == 8 else "uint"
        return f"({t})ki_power(({u})({t})x, ({u})({t})y)"
    return "pow((float)x, (float)y)"


def _division_prelude(kind: DType) -> str:
    return _FLOAT_DIVISION if c.is_float(kind) else _DIVISION


_ARITHMETIC: dict[str, Callable[[str, DType], str]] = {
    "add": _wrapping("+"),
    "subtract": _wrapping("-"),
    "multiply": _wrapping("*"),
    "floor_divide": lambda t, k: _floor_divide("float" if c.is_float(k) else t, k),
    "remainder": lambda t, k: _remainder("float" if c.is_float(k) else t, k),
    "pow": _power,
    "divide": lambda t, k: f"({t})x / ({t})y",
    "minimum": lambda t, k: f"ki_minimum(({t})x, ({t})y)",
    "maximum": lambda t, k: f"ki_maximum(({t})x, ({t})y)",
}
_EXTREMES = """
template <typename T> T ki_minimum(T a, T b) { return a < b || a != a ? a : b; }
template <typename T> T ki_maximum(T a, T b) { return a > b || a != a ? a : b; }
"""
_FLOAT_ONLY: dict[str, str | None] = {
    "divide": None,
    "atan2": "atan2((float)x, (float)y)",
    "hypot": "ki_hypot((float)x, (float)y)",
    "copysign": "copysign((float)x, (float)y)",
    "logaddexp": "ki_logaddexp((float)x, (float)y)",
    "nextafter": "nextafter(({t})x, ({t})y)",
}
_FLOAT_PRELUDE = """
inline float ki_hypot(float a, float b) {
    a = fabs(a); b = fabs(b);
    if (isinf(a) || isinf(b)) return INFINITY;
    float high = a > b ? a : b, low = a > b ? b : a;
    if (isnan(a) || isnan(b)) return NAN;
    if (high == 0.0f) return 0.0f;
    float r = low / high;
    return high * sqrt(1.0f + r * r);
}
inline float ki_logaddexp(float a, float b) {
    if (a == b) return a + 0.6931471805599453f;
    float high = a > b ? a : b, low = a > b ? b : a;
    if (isnan(a) || isnan(b)) return NAN;
    return high + log(1.0f + exp(low - high));
}
"""


def binary(name: str, x1: Any, x2: Any, out: Array | None = None) -> Array:
    signature = _signature(name, (x1, x2), {}, out, "binary") if name != "pow" else None
    known = _known.get(signature) if signature is not None else None
    if known is not None:
        return _again(known, (x1, x2), out)
    values, shape = _inputs([x1, x2], name)
    kind: DType = c.result_type(values, name)
    if kind.kind == "b":
        if name == "subtract":
            raise TypeError(
                "numpy boolean subtract, the `-` operator, is not supported, use the bitwise_xor, the `^` operator, "
                "or the logical_xor function instead."
            )
        if name in ("floor_divide", "remainder", "pow"):
            kind = np.dtype(np.int8)
    if name in _FLOAT_ONLY and not c.is_float(kind):
        kind = c.FLOAT32 if name == "divide" else _HALF_OF.get(kind.itemsize, c.FLOAT32)
    if name == "pow" and kind.kind == "i":
        _check_exponent(values[1])
    t = c.msl(kind, name)
    prelude = ""
    if name in ("floor_divide", "remainder"):
        prelude = _division_prelude(kind)
    elif name == "pow" and kind.kind in "iu":
        prelude = _POWER
    elif name in ("minimum", "maximum"):
        prelude = _EXTREMES
    elif name in ("hypot", "logaddexp"):
        prelude = _FLOAT_PRELUDE
    text = _FLOAT_ONLY.get(name)
    expr = text.format(t=t) if text else _ARITHMETIC[name](t, kind)
    return _launch(expr, values, shape, kind, kind, _target(out, shape, kind, name), prelude, signature)


def _target(out: Array | None, shape: tuple[int, ...], kind: DType, name: str) -> Array | None:
    """`out` checked as numpy checks it: the shape exactly, the dtype by the rule "same_kind"."""
    if out is None:
        return None
    c.check_out(out, shape, name)
    order = "biuf"
    have, want = ("f" if c.is_float(d) else d.kind for d in (out.dtype, kind))
    if order.index(want) > order.index(have) and not (want == "u" and have == "i"):
        raise ArgumentError(
            f"Cannot cast ufunc '{name}' output from dtype('{kind}') to dtype('{out.dtype}') with casting rule 'same_kind'"
        )
    return out


def _check_exponent(exponent: Any) -> None:
    from .reductions import any as any_of

    negative = any_of(compare("less", exponent, 0)) if isinstance(exponent, Array) else exponent < 0
    if bool(negative):
        raise ArgumentError("Integers to negative integer powers are not allowed.")


_COMPARISONS = {
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}


def compare(name: str, x1: Any, x2: Any) -> Array:
    sign = _COMPARISONS[name]
    signature = _signature(name, (x1, x2), {}, None, "binary")
    if int in (type(x1), type(x2)):
        signature = None  # its value may decide
    known = _known.get(signature) if signature is not None else None
    if known is not None:
        return _again(known, (x1, x2), None)
    values, shape = _inputs([x1, x2], name)
    for i, other in ((0, 1), (1, 0)):
        beyond = _beyond(values[i], values[other])
        if beyond:
            # numpy compares Python ints exactly, whatever the dtype holds.
            answer = {"==": False, "!=": True}.get(sign, (beyond > 0) == ((sign[0] == "<") == (i == 1)))
            return _array.full(shape, answer, np.bool_)
    kinds = [v.dtype.kind for v in values if isinstance(v, (Array, np.generic))]
    if sorted(kinds) == ["i", "u"]:
        signed_first = values[0].dtype.kind == "i"
        s = "x" if signed_first else "y"
        below = {"==": "false", "!=": "true"}.get(sign, "true" if (sign[0] == "<") == signed_first else "false")
        expr = f"{s} < 0 ? {below} : ((ulong)x {sign} (ulong)y)"
        return _launch(expr, values, shape, c.INT64, c.BOOL, None)
    kind: DType = c.result_type(values, name)
    t = c.msl(kind, name)
    return _launch(f"({t})x {sign} ({t})y", values, shape, kind, c.BOOL, None, "", signature)


def _beyond(value: Any, other: Any) -> int:
    """+1 or -1 when the Python int `value` is above or below all that the integer dtype of `other` holds."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not isinstance(other, Array)
        or other.dtype.kind not in "iu"
    ):
        return 0
    info = np.iinfo(other.dtype)
    return 1 if value > info.max else -1 if value < info.min else 0


def bitwise(name: str, sign: str, x1: Any, x2: Any, out: Array | None = None) -> Array:
    values, shape = _inputs([x1, x2], name)
    kind: DType = c.result_type(values, name)
    if kind.kind not in "biu":
        raise TypeError(
            f"ufunc '{name}' not supported for the input types, and the inputs could not be safely coerced to any "
            "supported types according to the casting rule ''safe''"
        )
    t = c.msl(kind, name)
    return _launch(f"({t})(({t})x {sign} ({t})y)", values, shape, kind, kind, _target(out, shape, kind, name))


def shift(name: str, sign: str, x1: Any, x2: Any, out: Array | None = None) -> Array:
    values, shape = _inputs([x1, x2], name)
    kind: DType = c.result_type(values, name)
    if kind.kind == "b":
        kind = np.dtype(np.int8)
    if kind.kind not in "iu":
        raise TypeError(
            f"ufunc '{name}' not supported for the input types, and the inputs could not be safely coerced to any "
            "supported types according to the casting rule ''safe''"
        )
    t, bits = c.msl(kind, name), kind.itemsize * 8
    big = "ulong" if kind.itemsize == 8 else "uint"
    over = "0" if sign == "<<" or kind.kind == "u" else f"(({t})x < 0 ? -1 : 0)"
    moved = f"(({big})({t})x << (uint)y)" if sign == "<<" else f"(({t})x >> (uint)y)"
    expr = f"(ulong)({t})y >= {bits}ul ? ({t}){over} : ({t}){moved}"
    return _launch(expr, values, shape, kind, kind, _target(out, shape, kind, name))


def logical(name: str, sign: str, x1: Any, x2: Any) -> Array:
    values, shape = _inputs([x1, x2], name)
    kind = c.result_type(values, name) if any(not isinstance(v, Array) for v in values) else c.BOOL
    return _launch(f"(x != 0) {sign} (y != 0)", values, shape, kind, c.BOOL, None)


_HALF_OF: dict[int, DType] = {1: c.FLOAT16, 2: c.FLOAT32}
# Functions whose result is a float for every input; computed in float.
_FLOAT_UNARY = {
    **{
        n: f"{n}((float)x)"
        for n in (
            "sqrt",
            "exp",
            "exp2",
            "log",
            "log2",
            "log10",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "tanh",
        )
    },
    "asinh": "asinh((float)x)",
    "acosh": "acosh((float)x)",
    "atanh": "atanh((float)x)",
    "expm1": "ki_expm1((float)x)",
    "log1p": "ki_log1p((float)x)",
    "reciprocal": "1.0f / (float)x",
    "rsqrt": "1.0f / sqrt((float)x)",
}
# Goldberg's and Kahan's forms, accurate near zero.
_ACCURATE = """
inline float ki_log1p(float x) {
    float u = 1.0f + x;
    if (u == 1.0f || u == INFINITY) return u == 1.0f ? x : u;
    return log(u) * (x / (u - 1.0f));
}
inline float ki_expm1(float x) {
    float u = exp(x);
    if (u == 1.0f) return x;
    float v = u - 1.0f;
    if (v == -1.0f || isinf(u)) return v;
    return v * (x / log(u));
}
"""


def float_unary(name: str, x: Any) -> Array:
    (value,), shape = _inputs([x], name)
    kind: DType = c.result_type([value], name)
    if not c.is_float(kind):
        kind = _HALF_OF.get(kind.itemsize, c.FLOAT32)
    prelude = _ACCURATE if name in ("expm1", "log1p") else ""
    return _launch(_FLOAT_UNARY[name], [value], shape, kind, kind, None, prelude)


def unary(name: str, x: Any) -> Array:
    by_kind, result = _UNARY[name]
    (value,), shape = _inputs([x], name)
    kind: DType = c.result_type([value], name)
    found = by_kind.get("f" if c.is_float(kind) else kind.kind)
    if found is None:
        raise TypeError(
            f"ufunc '{name}' not supported for the input types, and the inputs could not be safely coerced to any "
            "supported types according to the casting rule ''safe''"
        )
    if kind == c.BOOL:
        result = _OF_BOOLS.get(name, result)
    t = c.msl(kind, name)
    expr = found.format(t=t, u="ulong" if kind.itemsize == 8 else "uint")
    return _launch(expr, [value], shape, kind, result or kind, None)


# What numpy has no loop of bools for.
_OF_BOOLS: dict[str, DType] = {"square": np.dtype(np.int8), "round": c.FLOAT16}
_UNARY: dict[str, tuple[dict[str, str], DType | None]] = {
    "abs": ({"b": "x", "u": "x", "i": "({t})(x < 0 ? ({u})0 - ({u})x : ({u})x)", "f": "fabs(x)"}, None),
    "negative": ({"i": "({t})(({u})0 - ({u})x)", "u": "({t})(({u})0 - ({u})x)", "f": "-x"}, None),
    "positive": ({"i": "x", "u": "x", "f": "x"}, None),
    "square": ({"b": "x", "i": "({t})(({u})x * ({u})x)", "u": "({t})(({u})x * ({u})x)", "f": "x * x"}, None),
    "sign": (
        {
            "i": "({t})((x > 0) - (x < 0))",
            "u": "({t})(x > 0)",
            "f": "x != x ? x : ({t})((x > ({t})0) - (x < ({t})0))",
        },
        None,
    ),
    "floor": ({"b": "x", "i": "x", "u": "x", "f": "floor((float)x)"}, None),
    "ceil": ({"b": "x", "i": "x", "u": "x", "f": "ceil((float)x)"}, None),
    "trunc": ({"b": "x", "i": "x", "u": "x", "f": "trunc((float)x)"}, None),
    "round": ({"b": "x", "i": "x", "u": "x", "f": "rint((float)x)"}, None),
    "bitwise_invert": ({"b": "!x", "i": "~x", "u": "~x"}, None),
    "logical_not": (dict.fromkeys("biuf", "x == 0"), c.BOOL),
    "isnan": ({"b": "false", "i": "false", "u": "false", "f": "x != x"}, c.BOOL),
    "isinf": ({"b": "false", "i": "false", "u": "false", "f": "fabs((float)x) == INFINITY"}, c.BOOL),
    "isfinite": ({"b": "true", "i": "true", "u": "true", "f": "fabs((float)x) < INFINITY"}, c.BOOL),
    "signbit": ({"b": "false", "i": "x < 0", "u": "false", "f": "signbit((float)x)"}, c.BOOL),
}


def astype(x: Array, dtype: Any, /, *, copy: bool = True) -> Array:
    """`x` converted to `dtype` as C converts; `x` itself when it has that dtype and copy is False.

    Raises ArgumentError for dtypes that the device does not have."""
    source = c.as_operand(x, "astype")
    wanted = _dtypes.normalize(dtype, "astype")
    if wanted == source.dtype:
        return source.copy() if copy else source
    c.msl(source.dtype, "astype")
    c.msl(wanted, "astype")
    if wanted.kind == "b":
        expr = "x != 0"
    elif c.is_float(source.dtype) and wanted.kind in "iu":
        # A float beyond the integer's range is undefined in C++; the wide type wraps as numpy's conversion does.
        big = "ulong" if wanted == np.uint64 else "long"
        expr = f"({big})(float)x" if wanted == np.uint64 else f"({c.msl(wanted, 'astype')})(long)(float)x"
    else:
        expr = "x"
    return _launch(expr, [source], source.shape, wanted, wanted, None)


def clip(x: Any, /, min: Any = None, max: Any = None) -> Array:
    """Every element limited to [min, max]; None leaves that side open."""
    result = c.as_operand(x, "clip")
    for bound, name in ((min, "maximum"), (max, "minimum")):
        if bound is not None:
            result = binary(name, result, bound)
    return result.copy() if min is None and max is None else result


def where(condition: Any, x1: Any, x2: Any, /) -> Array:
    """x1 where the condition is true, x2 elsewhere; all three are broadcast, x1 and x2 promoted as numpy does."""
    values, shape = _inputs([condition, x1, x2], "where")
    kind = c.result_type(values[1:], "where")
    if not isinstance(values[0], Array):
        values[0] = _array.array(bool(values[0]))
    inputs = []
    for name, value in zip("cxy", values, strict=True):
        if isinstance(value, Array):
            inputs.append(Operand(name, value, value.dtype, broadcast_strides(value.shape, shape)))
        else:
            plain = value.item() if isinstance(value, np.generic) else value
            inputs.append(Operand(name, c.check_scalar(plain, kind, "where"), kind, None))
    t = c.msl(kind, "where")
    return run(Request(f"c != 0 ? ({t})x : ({t})y", inputs, shape, kind))
