"""Element-wise functions under their Array API names. Arrays and scalars are broadcast and promoted as numpy does."""

from __future__ import annotations

from typing import Any

from .._array import Array
from . import operators as o

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "reciprocal",
    "remainder",
    "round",
    "rsqrt",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]


def add(x1: Any, x2: Any, /, *, out: Array | None = None) -> Array:
    """The sum."""
    return o.binary("add", x1, x2, out)


def subtract(x1: Any, x2: Any, /, *, out: Array | None = None) -> Array:
    """The difference."""
    return o.binary("subtract", x1, x2, out)


def multiply(x1: Any, x2: Any, /, *, out: Array | None = None) -> Array:
    """The product."""
    return o.binary("multiply", x1, x2, out)


def divide(x1: Any, x2: Any, /, *, out: Array | None = None) -> Array:
    """The quotient, a float; float32 for integers."""
    return o.binary("divide", x1, x2, out)


def floor_divide(x1: Any, x2: Any, /, *, out: Array | None = None) -> Array:
    """The quotient rounded down; 0 for integers divided by 0."""
    return o.binary("floor_divide", x1, x2, out)


def remainder(x1: Any, x2: Any, /, *, out: Array | None = None) -> Array:
    """The remainder, with the divisor's sign; 0 for integers divided by 0."""
    return o.binary("remainder", x1, x2, out)


def pow(x1: Any, x2: Any, /, *, out: Array | None = None) -> Array:
    """x1 to the power x2. Integers to negative integer powers are an ArgumentError."""
    return o.binary("pow", x1, x2, out)


def minimum(x1: Any, x2: Any, /, *, out: Array | None = None) -> Array:
    """The smaller of both; NaN if one is."""
    return o.binary("minimum", x1, x2, out)


def maximum(x1: Any, x2: Any, /, *, out: Array | None = None) -> Array:
    """The larger of both; NaN if one is."""
    return o.binary("maximum", x1, x2, out)


def atan2(x1: Any, x2: Any, /, *, out: Array | None = None) -> Array:
    """The angle of the point (x2, x1), in radians."""
    return o.binary("atan2", x1, x2, out)


def hypot(x1: Any, x2: Any, /, *, out: Array | None = None) -> Array:
    """The length of (x1, x2)."""
    return o.binary("hypot", x1, x2, out)


def copysign(x1: Any, x2: Any, /, *, out: Array | None = None) -> Array:
    """The magnitude of x1 with the sign of x2."""
    return o.binary("copysign", x1, x2, out)


def logaddexp(x1: Any, x2: Any, /, *, out: Array | None = None) -> Array:
    """log(exp(x1) + exp(x2))."""
    return o.binary("logaddexp", x1, x2, out)


def nextafter(x1: Any, x2: Any, /, *, out: Array | None = None) -> Array:
    """The next float after x1 in the direction of x2."""
    return o.binary("nextafter", x1, x2, out)


def bitwise_and(x1: Any, x2: Any, /, *, out: Array | None = None) -> Array:
    """x1 & x2; TypeError for floats."""
    return o.bitwise("bitwise_and", "&", x1, x2, out)


def bitwise_or(x1: Any, x2: Any, /, *, out: Array | None = None) -> Array:
    """x1 | x2; TypeError for floats."""
    return o.bitwise("bitwise_or", "|", x1, x2, out)


def bitwise_xor(x1: Any, x2: Any, /, *, out: Array | None = None) -> Array:
    """x1 ^ x2; TypeError for floats."""
    return o.bitwise("bitwise_xor", "^", x1, x2, out)


def bitwise_left_shift(x1: Any, x2: Any, /, *, out: Array | None = None) -> Array:
    """x1 << x2; TypeError for floats."""
    return o.shift("bitwise_left_shift", "<<", x1, x2, out)


def bitwise_right_shift(x1: Any, x2: Any, /, *, out: Array | None = None) -> Array:
    """x1 >> x2; TypeError for floats."""
    return o.shift("bitwise_right_shift", ">>", x1, x2, out)


def equal(x1: Any, x2: Any, /) -> Array:
    """x1 == x2, as bool."""
    return o.compare("equal", x1, x2)


def not_equal(x1: Any, x2: Any, /) -> Array:
    """x1 != x2, as bool."""
    return o.compare("not_equal", x1, x2)


def less(x1: Any, x2: Any, /) -> Array:
    """x1 < x2, as bool."""
    return o.compare("less", x1, x2)


def less_equal(x1: Any, x2: Any, /) -> Array:
    """x1 <= x2, as bool."""
    return o.compare("less_equal", x1, x2)


def greater(x1: Any, x2: Any, /) -> Array:
    """x1 > x2, as bool."""
    return o.compare("greater", x1, x2)


def greater_equal(x1: Any, x2: Any, /) -> Array:
    """x1 >= x2, as bool."""
    return o.compare("greater_equal", x1, x2)


def logical_and(x1: Any, x2: Any, /) -> Array:
    """Whether both are not zero, as bool."""
    return o.logical("logical_and", "&&", x1, x2)


def logical_or(x1: Any, x2: Any, /) -> Array:
    """Whether one is not zero, as bool."""
    return o.logical("logical_or", "||", x1, x2)


def logical_xor(x1: Any, x2: Any, /) -> Array:
    """Whether exactly one is not zero, as bool."""
    return o.logical("logical_xor", "!=", x1, x2)


def sqrt(x: Any, /) -> Array:
    """The square root; integers become float16 or float32."""
    return o.float_unary("sqrt", x)


def exp(x: Any, /) -> Array:
    """e to the power x; integers become float16 or float32."""
    return o.float_unary("exp", x)


def exp2(x: Any, /) -> Array:
    """2 to the power x; integers become float16 or float32."""
    return o.float_unary("exp2", x)


def log(x: Any, /) -> Array:
    """The natural logarithm; integers become float16 or float32."""
    return o.float_unary("log", x)


def log2(x: Any, /) -> Array:
    """The logarithm to base 2; integers become float16 or float32."""
    return o.float_unary("log2", x)


def log10(x: Any, /) -> Array:
    """The logarithm to base 10; integers become float16 or float32."""
    return o.float_unary("log10", x)


def sin(x: Any, /) -> Array:
    """The sine of radians; integers become float16 or float32."""
    return o.float_unary("sin", x)


def cos(x: Any, /) -> Array:
    """The cosine of radians; integers become float16 or float32."""
    return o.float_unary("cos", x)


def tan(x: Any, /) -> Array:
    """The tangent of radians; integers become float16 or float32."""
    return o.float_unary("tan", x)


def asin(x: Any, /) -> Array:
    """The arc sine, in radians; integers become float16 or float32."""
    return o.float_unary("asin", x)


def acos(x: Any, /) -> Array:
    """The arc cosine, in radians; integers become float16 or float32."""
    return o.float_unary("acos", x)


def atan(x: Any, /) -> Array:
    """The arc tangent, in radians; integers become float16 or float32."""
    return o.float_unary("atan", x)


def sinh(x: Any, /) -> Array:
    """The hyperbolic sine; integers become float16 or float32."""
    return o.float_unary("sinh", x)


def cosh(x: Any, /) -> Array:
    """The hyperbolic cosine; integers become float16 or float32."""
    return o.float_unary("cosh", x)


def tanh(x: Any, /) -> Array:
    """The hyperbolic tangent; integers become float16 or float32."""
    return o.float_unary("tanh", x)


def asinh(x: Any, /) -> Array:
    """The inverse hyperbolic sine; integers become float16 or float32."""
    return o.float_unary("asinh", x)


def acosh(x: Any, /) -> Array:
    """The inverse hyperbolic cosine; integers become float16 or float32."""
    return o.float_unary("acosh", x)


def atanh(x: Any, /) -> Array:
    """The inverse hyperbolic tangent; integers become float16 or float32."""
    return o.float_unary("atanh", x)


def expm1(x: Any, /) -> Array:
    """exp(x) - 1, accurate near 0; integers become float16 or float32."""
    return o.float_unary("expm1", x)


def log1p(x: Any, /) -> Array:
    """log(1 + x), accurate near 0; integers become float16 or float32."""
    return o.float_unary("log1p", x)


def reciprocal(x: Any, /) -> Array:
    """1 / x; integers become float16 or float32."""
    return o.float_unary("reciprocal", x)


def rsqrt(x: Any, /) -> Array:
    """1 / sqrt(x); integers become float16 or float32."""
    return o.float_unary("rsqrt", x)


def abs(x: Any, /) -> Array:
    """The magnitude."""
    return o.unary("abs", x)


def negative(x: Any, /) -> Array:
    """-x; TypeError for bool."""
    return o.unary("negative", x)


def positive(x: Any, /) -> Array:
    """x itself; TypeError for bool."""
    return o.unary("positive", x)


def square(x: Any, /) -> Array:
    """x * x."""
    return o.unary("square", x)


def sign(x: Any, /) -> Array:
    """-1, 0 or 1; NaN for NaN."""
    return o.unary("sign", x)


def floor(x: Any, /) -> Array:
    """Rounded down."""
    return o.unary("floor", x)


def ceil(x: Any, /) -> Array:
    """Rounded up."""
    return o.unary("ceil", x)


def trunc(x: Any, /) -> Array:
    """Rounded towards zero."""
    return o.unary("trunc", x)


def round(x: Any, /) -> Array:
    """Rounded to the nearest integer, halves to the even one."""
    return o.unary("round", x)


def bitwise_invert(x: Any, /) -> Array:
    """All bits inverted; TypeError for floats."""
    return o.unary("bitwise_invert", x)


def logical_not(x: Any, /) -> Array:
    """Whether it is zero, as bool."""
    return o.unary("logical_not", x)


def isnan(x: Any, /) -> Array:
    """Whether it is NaN, as bool."""
    return o.unary("isnan", x)


def isinf(x: Any, /) -> Array:
    """Whether it is infinite, as bool."""
    return o.unary("isinf", x)


def isfinite(x: Any, /) -> Array:
    """Whether it is neither infinite nor NaN, as bool."""
    return o.unary("isfinite", x)


def signbit(x: Any, /) -> Array:
    """Whether the sign bit is set, as bool; whether they are negative, for integers."""
    return o.unary("signbit", x)
