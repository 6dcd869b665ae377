"""mk.broadcast, operators and element-wise functions against numpy."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metalki as mk

pytestmark = pytest.mark.filterwarnings("error::metalki.CompileWarning", "ignore::RuntimeWarning")

DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32"]
INTEGERS = DTYPES[1:9]


def values(dtype: str, shape: Any = (3, 5), seed: int = 0) -> np.ndarray:
    """Elements of any dtype, with the extreme ones among them."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith("float"):
        return (rng.normal(size=shape) * 10).astype(dtype)
    info = np.iinfo(dtype)
    result = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    if result.size > 3:
        result.flat[:3] = (0, info.min, info.max)
    return result


def same(got: mk.Array, want: Any) -> None:
    want = np.asarray(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_the_expression_keeps_the_arrays_type(dtype: str) -> None:
    x = mk.array(np.arange(6).reshape(2, 3) % 2, dtype)
    y = mk.array(np.ones(3), dtype)
    result = mk.broadcast("x * y + 1", x=x, y=y)
    assert result.dtype == (np.int32 if dtype == "bool" else x.dtype)
    np.testing.assert_array_equal(result.numpy().astype(np.float64), np.arange(6).reshape(2, 3) % 2 + 1)


def test_arrays_by_position_and_literals() -> None:
    a, b = mk.array([1.0, 2.0], "float16"), mk.array([3.0], "float16")
    for expr in ("x * y + 0.5", "x0 * x1 + 0.5", "a * b + 0.5"):
        same(mk.broadcast(expr, a, b), np.array([3.5, 6.5], np.float16))
    same(mk.broadcast("x < y", a, b), [True, True])
    same(mk.broadcast("x * y", mk.array([1, 2]), 2.5), np.array([2.5, 5], np.float32))
    same(mk.broadcast("x * y", mk.array([1, 2], "int8"), 3), np.array([3, 6], np.int8))
    same(mk.broadcast("x + y", 1, 2.0, dtype="float32"), np.float32(3))
    same(mk.broadcast("x", mk.array([1.0, 2.0]), dtype=np.int16), np.array([1, 2], np.int16))


def test_out() -> None:
    x = mk.array([1.0, 2.0, 3.0])
    out = mk.zeros((2, 3))
    assert mk.broadcast("x + y", x, 1.0, out=out) is out
    same(out, np.array([[2, 3, 4]] * 2, np.float32))
    mk.broadcast("x + y", x[1:], x[:-1], out=x[1:])  # reads what it writes elsewhere
    same(x, np.array([1, 3, 5], np.float32))
    for bad in (mk.zeros(4), np.zeros(3, np.float32)):
        with pytest.raises(mk.ArgumentError):
            mk.broadcast("x", x, out=bad)
    with pytest.raises(mk.ArgumentError, match="dtype"):
        mk.broadcast("x", x, out=out, dtype=np.int32)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_shapes_broadcast(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 5]), max_size=8).map(tuple))
    operands = []
    for _ in range(2):
        own = [n if data.draw(st.booleans()) else 1 for n in shape]
        operands.append(
            np.random.default_rng(1).integers(-99, 99, tuple(own)[data.draw(st.integers(0, len(own))) :], np.int32)
        )
    x, y = operands
    same(mk.broadcast("x - y", mk.array(x), mk.array(y)), x - y)


def test_empty_and_scalar_shapes() -> None:
    same(mk.zeros((0, 3)) + mk.zeros(3), np.zeros((0, 3), np.float32))
    same(mk.zeros((2, 0, 1)) * 3, np.zeros((2, 0, 1), np.float32))
    same(mk.array(2) + mk.array(3), np.int32(5))
    same(mk.zeros((1, 1)) + 1, np.ones((1, 1), np.float32))


def test_what_broadcast_refuses() -> None:
    with pytest.raises(ValueError, match=r"operands could not be broadcast together with shapes \(2,\) \(3,\)"):
        mk.broadcast("x + y", mk.zeros(2), mk.zeros(3))
    with pytest.raises(mk.CompileError):
        mk.broadcast("x +", mk.zeros(2))
    with pytest.raises(mk.ArgumentError):
        mk.broadcast("1")
    with pytest.raises(mk.ArgumentError):
        mk.broadcast(3, mk.zeros(2))  # type: ignore[arg-type]
    with pytest.raises(OverflowError, match="Python integer 300 out of bounds for uint8"):
        mk.broadcast("x + y", mk.zeros(2, "uint8"), 300)
    if not mk.device().supports_float64:
        with pytest.raises(mk.ArgumentError, match="float64"):
            mk.broadcast("x", np.zeros(3))
        with pytest.raises(mk.ArgumentError, match="float64"):
            mk.zeros(2, np.int32) + mk.zeros(2)


ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod]


@pytest.mark.parametrize("function", ARITHMETIC)
@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic(function: Any, dtype: str) -> None:
    x, y = values(dtype), values(dtype, seed=1)
    try:
        want = function(x, y)
    except TypeError:
        with pytest.raises(TypeError):
            function(mk.array(x), mk.array(y))
        return
    same(function(mk.array(x), mk.array(y)), want)


@pytest.mark.parametrize(("a", "b"), list(itertools.combinations(DTYPES, 2)))
def test_promotion(a: str, b: str) -> None:
    want = np.result_type(a, b)
    x, y = mk.ones(2, a), mk.ones(2, b)
    if want == np.float64 and not mk.device().supports_float64:
        with pytest.raises(mk.ArgumentError, match="float64"):
            x + y
    else:
        assert (x + y).dtype == want


def test_promotion_of_scalars() -> None:
    for dtype in DTYPES:
        x, host = mk.ones(2, dtype), np.ones(2, dtype)
        for scalar in (True, 1, 1.0, np.int16(1), np.float32(1)):
            want = (host + scalar).dtype
            if want == np.float64:
                if isinstance(scalar, float):
                    assert (x + scalar).dtype == np.float32  # the default float here
                continue
            assert (x + scalar).dtype == want, (dtype, scalar)
            assert (scalar + x).dtype == want, (dtype, scalar)
    assert (mk.ones(2, "bfloat16") * 2.5).dtype.name == "bfloat16"
    assert (mk.ones(2, "bfloat16") + mk.ones(2)).dtype == np.float32


@pytest.mark.parametrize("function", [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge])
def test_comparisons(function: Any) -> None:
    for a, b in [("int8", "int8"), ("float32", "float32"), ("int64", "uint64"), ("uint32", "int32"), ("bool", "uint8")]:
        x, y = values(a), values(b, seed=1)
        y[1] = x[1].astype(b)
        same(function(mk.array(x), mk.array(y)), function(x, y))
    same(function(mk.array([1, 2], "uint8"), 300), function(np.array([1, 2], "uint8"), 300))
    same(function(mk.array([1, 2], "uint8"), -1), function(np.array([1, 2], "uint8"), -1))
    x = np.array([1, np.nan, np.inf], np.float32)
    same(function(mk.array(x), mk.array(x)), function(x, x))


def test_comparison_with_other_things() -> None:
    x = mk.zeros(2)
    assert (x == None) is False  # noqa: E711
    assert (x != "a") is True
    with pytest.raises(TypeError):
        x < "a"  # noqa: B015
    with pytest.raises(TypeError):
        hash(x)


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS])
def test_bits(dtype: str) -> None:
    x, y = values(dtype), values(dtype, seed=1)
    for function in (operator.and_, operator.or_, operator.xor):
        same(function(mk.array(x), mk.array(y)), function(x, y))
    same(~mk.array(x), ~x)
    if dtype != "bool":
        shift = (np.abs(y.astype(np.int64)) % 70).astype(dtype)
        same(mk.array(x) << mk.array(shift), x << shift)
        same(mk.array(x) >> mk.array(shift), x >> shift)
    with pytest.raises(TypeError):
        mk.zeros(2) & mk.zeros(2)


def test_powers() -> None:
    for dtype in INTEGERS:
        x, y = values(dtype), np.arange(15, dtype=dtype).reshape(3, 5)
        same(mk.array(x) ** mk.array(y), x**y)
    x = values("float32")
    np.testing.assert_allclose((mk.array(x) ** 2).numpy(), x**2, rtol=1e-6)
    np.testing.assert_allclose((2.0 ** mk.array(x)).numpy(), 2.0**x, rtol=1e-5)
    for exponent in (-1, mk.array([1, -1])):
        with pytest.raises(ValueError, match="Integers to negative integer powers are not allowed"):
            mk.array([2, 3]) ** exponent


def test_division_by_zero_and_of_the_least() -> None:
    for dtype in ("int8", "int32", "int64"):
        least = np.iinfo(dtype).min
        x, y = np.array([1, least, -7, 7], dtype), np.array([0, -1, 2, -2], dtype)
        same(mk.array(x) // mk.array(y), x // y)
        same(mk.array(x) % mk.array(y), x % y)
    x, y = np.array([1, -1, 0, -7, 7.5, np.inf], np.float32), np.array([0, 0, 0, 2, -2, 3], np.float32)
    same(mk.array(x) // mk.array(y), x // y)
    same(mk.array(x) % mk.array(y), x % y)
    same(mk.array(x) / mk.array(y), x / y)
    assert (mk.array([1, 2]) / mk.array([2, 2])).dtype == np.float32


def test_in_place() -> None:
    x = mk.array([1, 2, 3])
    view = x
    x += 1
    x *= mk.array([1, 2, 3])
    assert view is x
    same(view, np.array([2, 6, 12], np.int32))
    with pytest.raises(ValueError, match="same_kind"):
        x += 1.5
    with pytest.raises(ValueError, match="non-broadcastable output"):
        x += mk.zeros((2, 3), np.int32)
    x[1:] += x[:-1]
    same(view, np.array([2, 8, 18], np.int32))


def test_numpy_arrays_beside_arrays() -> None:
    x = np.arange(3, dtype=np.float32)
    for result in (x + mk.array(x), mk.array(x) + x):
        assert isinstance(result, mk.Array)
        same(result, x + x)
    same(np.float32(2) * mk.array(x), 2 * x)


UNARY = {
    "sqrt": None, "exp": None, "exp2": None, "log": None, "log2": None, "log10": None, "sin": None, "cos": None,
    "tan": None, "asin": "arcsin", "acos": "arccos", "atan": "arctan", "sinh": None, "cosh": None, "tanh": None,
    "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "expm1": None, "log1p": None, "reciprocal": None,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_floats(name: str) -> None:
    x = np.concatenate([np.linspace(-3, 3, 61), [1e-5, -1e-5, 30, np.inf, -np.inf, np.nan, 0.5]]).astype(np.float32)
    want = getattr(np, UNARY[name] or name)(x)
    np.testing.assert_allclose(getattr(mk, name)(mk.array(x)).numpy(), want, rtol=3e-6, atol=1e-6)
    assert getattr(mk, name)(mk.array([1], "int8")).dtype == np.float16
    assert getattr(mk, name)(mk.array([1], "int64")).dtype == np.float32


@pytest.mark.parametrize(
    "name", ["abs", "negative", "square", "sign", "floor", "ceil", "trunc", "round", "isnan", "isinf"]
)
@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_functions_of_all(name: str, dtype: str) -> None:
    x = values(dtype)
    if dtype.startswith("float"):
        x[0, :4] = (np.nan, np.inf, -0.5, 2.5)
    same(getattr(mk, name)(mk.array(x)), getattr(np, name)(x))


def test_functions_of_bools_and_signs() -> None:
    x = np.array([True, False])
    for name in ("square", "round", "floor", "abs", "signbit", "isnan"):
        same(getattr(mk, name)(mk.array(x)), getattr(np, name)(x))
    for dtype in DTYPES[1:]:
        y = values(dtype)
        same(mk.signbit(mk.array(y)), np.signbit(y))


def test_logic_minimum_clip_where() -> None:
    x, y = values("float32"), values("float32", seed=1)
    x[0, 0] = y[1, 1] = np.nan
    a, b = mk.array(x), mk.array(y)
    for name in ("minimum", "maximum", "logical_and", "logical_or", "logical_xor", "copysign"):
        same(getattr(mk, name)(a, b), getattr(np, name)(x, y))
    for name, own in (("arctan2", "atan2"), ("hypot", "hypot"), ("logaddexp", "logaddexp")):
        np.testing.assert_allclose(getattr(mk, own)(a, b).numpy(), getattr(np, name)(x, y), rtol=2e-6)
    same(mk.clip(a, -1, 2), np.clip(x, -1, 2))
    same(mk.where(a > b, a, b), np.where(x > y, x, y))
    same(mk.where(a > 0, 1, 0), np.where(x > 0, 1, 0))
    same(
        mk.where(mk.array([True, False]), mk.array([[1], [2]], "int8"), mk.array(3, "int16")),
        np.array([[1, 3], [2, 3]], np.int16),
    )


@pytest.mark.parametrize("source", [*DTYPES, "bfloat16"])
@pytest.mark.parametrize("target", DTYPES)
def test_astype(source: str, target: str) -> None:
    x = np.array([0, 1, 2, 100, 77.7, 3.5], np.float32)
    a = mk.array(x.astype(source)) if source != "bfloat16" else mk.array(x, "bfloat16")
    same(a.astype(target), a.numpy().astype(target))


def test_numbers_from_arrays() -> None:
    x = mk.array([3])
    assert bool(x)
    assert x.item() == 3
    assert (int(mk.array(3)), float(mk.array(2.5)), [10, 20, 30][mk.array(1)]) == (3, 2.5, 20)
    assert mk.array([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match="ambiguous"):
        bool(mk.zeros(2))
    with pytest.raises(TypeError):
        int(x)
    with pytest.raises(TypeError):
        [1][mk.array(1.0)]


def test_limits_are_python_numbers_and_parts_of_real_numbers() -> None:
    for dtype in (np.float16, np.float32):
        ours, numpys = mk.finfo(dtype), np.finfo(dtype)
        for name in ("bits", "eps", "max", "min", "smallest_normal", "tiny", "resolution"):
            assert getattr(ours, name) == getattr(numpys, name)
        assert type(ours.eps) is float
        assert ours.dtype == dtype
    assert mk.finfo(mk.bfloat16).eps == 2**-7
    with pytest.raises(ValueError, match="not inexact"):
        mk.finfo(np.int32)
    x = mk.array(np.array([1.5, -2], np.float32))
    assert mk.real(x) is x
    assert mk.conj(x).tolist() == [1.5, -2]
    assert mk.imag(x).tolist() == [0, 0]
