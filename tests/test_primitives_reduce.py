"""mk.reduce, mk.mapreduce, mk.accumulate, and what builds on them, against numpy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metalki as mk

pytestmark = pytest.mark.filterwarnings("error::metalki.CompileWarning", "ignore::RuntimeWarning")

DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32"]
UFUNCS = {
    "+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum, "&": np.bitwise_and, "|": np.bitwise_or,
    "^": np.bitwise_xor, "&&": np.logical_and, "||": np.logical_or,
}  # fmt: skip
# Lengths on both sides of what one SIMD-group step, one chunk and one stage take.
LONG = [
    ((300000,), 0),
    ((3, 100001), 1),
    ((3, 100000), 0),
    ((100000, 3), 0),
    ((100000, 3), 1),
    ((512, 1000), 0),
    ((512, 1000), 1),
    ((513, 257), 0),
    ((99999, 5), 0),
    ((2, 9999, 5), 1),
    ((7, 300, 40), 1),
    ((1,), 0),
    ((2, 1, 3), 1),
    ((5000, 16), 0),
    ((5000, 31), 1),
    ((5000, 32), 1),
    ((5000, 17), 0),
    ((8193,), 0),
    ((33,), 0),
    ((40000, 1, 2), 0),
]


def values(dtype: str, shape: Any, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.startswith("float"):
        return (1 + rng.normal(size=shape) * 0.01).astype(dtype)
    return rng.integers(0 if dtype[0] in "bu" else -3, 2 if dtype == "bool" else 5, shape).astype(dtype)


def same(got: mk.Array, want: Any, tolerance: float = 0) -> None:
    want = np.asarray(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if tolerance:
        np.testing.assert_allclose(got.numpy().astype(np.float64), want.astype(np.float64), tolerance, tolerance)
    else:
        np.testing.assert_array_equal(got.numpy(), want)


def cases() -> list[Any]:
    return [
        (d, op)
        for d, op in itertools.product(DTYPES, UFUNCS)
        if d[0] != "f" or op not in "&|^" or op == "&&" or op == "||"
    ]


def tolerance(dtype: str, op: str) -> float:
    return 0 if dtype[0] != "f" or op not in ("+", "*") else 0.02 if dtype == "float16" else 1e-4


@pytest.mark.parametrize(("dtype", "op"), cases())
def test_reduce(dtype: str, op: str) -> None:
    x = values(dtype, (5, 70, 6))
    for axis in (None, (0, 2)) if dtype in ("int32", "float32") else (1,):
        same(mk.reduce(op, mk.array(x), axis), UFUNCS[op].reduce(x, axis=axis), tolerance(dtype, op))


@pytest.mark.parametrize(("dtype", "op"), cases())
def test_accumulate(dtype: str, op: str) -> None:
    x = values(dtype, (3, 70, 6))
    run = {"+": np.cumsum, "*": np.cumprod}.get(op, UFUNCS[op].accumulate)
    for axis in (0, 1, 2) if dtype in ("int32", "float32") else (1,):
        same(mk.accumulate(op, mk.array(x), axis), run(x, axis=axis), tolerance(dtype, op))


@pytest.mark.parametrize(("shape", "axis"), LONG)
def test_long_axes(shape: tuple[int, ...], axis: int) -> None:
    x = np.random.default_rng(2).integers(-9000, 9000, shape).astype(np.int32)
    a = mk.array(x)
    same(mk.reduce("+", a, axis), x.sum(axis))
    same(mk.reduce("max", a, axis), x.max(axis))
    same(mk.accumulate("+", a, axis), x.cumsum(axis))
    before = np.concatenate([np.zeros_like(x.take([0], axis)), x.cumsum(axis).take(range(shape[axis] - 1), axis)], axis)
    same(mk.accumulate("+", a, axis, exclusive=True), before)
    f = x.astype(np.float32)
    same(mk.reduce("+", mk.array(f), axis), f.astype(np.float64).sum(axis).astype(np.float32), 2e-2)
    for find, arg, value in ((mk.findmin, np.argmin, np.min), (mk.findmax, np.argmax, np.max)):
        found = find(a, axis=axis)
        same(found[0], value(x, axis=axis))
        same(found[1], arg(x, axis=axis))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_axes(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 7, 33]), min_size=1, max_size=5).map(tuple))
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1)))))
    x = np.random.default_rng(3).integers(-99, 99, shape).astype(np.int32)
    a = mk.array(x)
    same(mk.sum(a, axis=axes), x.sum(axes))
    same(mk.max(a, axis=axes, keepdims=True), x.max(axes, keepdims=True))
    same(mk.accumulate("max", a, axis=len(shape) - 1), np.maximum.accumulate(x, -1))


def affine(a: Any, b: Any) -> Any:
    """First a, then b, both maps m x + c modulo 2^16 packed as c << 16 | m: associative, but not commutative."""
    return ((a & 0xFFFF) * (b & 0xFFFF) & 0xFFFF) | (((a >> 16) * (b & 0xFFFF) + (b >> 16) & 0xFFFF) << 16)


AFFINE = "((a & 0xFFFF) * (b & 0xFFFF) & 0xFFFF) | (((a >> 16) * (b & 0xFFFF) + (b >> 16) & 0xFFFF) << 16)"


@pytest.mark.parametrize(
    ("shape", "axis"), [((30001,), 0), ((2, 9001), 1), ((9001, 3), 0), ((300, 40), 0), ((5, 2000, 2), 1), ((60, 9), 1)]
)
def test_operators_need_not_commute(shape: tuple[int, ...], axis: int) -> None:
    x = np.random.default_rng(4).integers(0, 2**32, shape, np.uint32)
    rows = np.moveaxis(x, axis, 0)
    running, want = np.ones(rows.shape[1:], np.uint32), []
    for row in rows:
        running = affine(running, row)
        want.append(running)
    same(mk.accumulate(AFFINE, mk.array(x), axis, init=1), np.moveaxis(np.array(want), 0, axis))
    same(mk.reduce(AFFINE, mk.array(x), axis, init=1), want[-1])


def test_reduction_by_an_expression_over_several_axes() -> None:
    x = np.random.default_rng(5).integers(0, 2**32, (5, 8, 7), np.uint32)
    want = np.ones(8, np.uint32)
    for i, k in itertools.product(range(5), range(7)):
        want = affine(want, x[i, :, k])
    same(mk.reduce(AFFINE, mk.array(x), (0, 2), init=1), want)
    same(mk.reduce("max(a, b)", mk.array([1.0, 5.0, 2.0]), init=-1.0), np.float32(5))


def test_results_do_not_change_from_run_to_run() -> None:
    x = mk.array(np.random.default_rng(6).normal(size=1234567).astype(np.float32))
    runs = {(float(mk.sum(x)), mk.accumulate("+", x).numpy().tobytes()) for _ in range(4)}
    assert len(runs) == 1


def test_precision_of_long_sums() -> None:
    x = np.random.default_rng(7).random(3_000_000).astype(np.float32)
    assert abs(float(mk.sum(mk.array(x))) / x.astype(np.float64).sum() - 1) < 1e-6
    half = mk.full(65536, 0.5, np.float16)
    assert float(mk.sum(half)) == 32768.0


def test_mapreduce() -> None:
    x, y = values("float32", (40, 50)), values("float32", (40, 50), 1)
    a, b = mk.array(x), mk.array(y)
    same(mk.mapreduce("x * y", "+", a, b, axis=0), (x * y).sum(0), 1e-5)
    same(mk.mapreduce("p * q", "max", p=a, q=b), (x * y).max(), 1e-6)
    same(mk.mapreduce("x + 1", "+", mk.array([[1, 2], [3, 4]]), axis=1), [5, 9])
    same(mk.mapreduce("x * s", "+", a, s=2.0), (x * 2).sum(), 1e-5)
    same(mk.mapreduce("x - y", "min", a, b[0], axis=1), (x - y[0]).min(1), 1e-6)
    same(mk.mapreduce("x > 1", "&&", a, axis=1), (x > 1).all(1))
    same(mk.mapreduce("x", "+", mk.zeros((0, 3)), axis=0), np.zeros(3, np.float32))


def test_nan_and_infinities() -> None:
    x = np.array([[1, np.nan, 3], [np.inf, -np.inf, 2]], np.float32)
    a = mk.array(x)
    for mine, other in ((mk.min, np.min), (mk.max, np.max), (mk.sum, np.sum)):
        for axis in (0, 1):
            same(mine(a, axis=axis), other(x, axis=axis))
    same(mk.argmin(a, axis=1), x.argmin(1))
    same(mk.argmax(mk.array([-np.inf, -np.inf])), np.int64(0))
    same(mk.accumulate("max", a, 1), np.maximum.accumulate(x, 1))


def test_places_of_nan_in_long_rows() -> None:
    x = np.random.default_rng(8).normal(size=(3, 50000)).astype(np.float32)
    x[0, 40000] = x[0, 45000] = x[2, 3] = np.nan
    for find, arg, value in ((mk.findmin, np.argmin, np.min), (mk.findmax, np.argmax, np.max)):
        for a, axis in ((x, 1), (x[1], None), (x[2], 0)):
            found = find(mk.array(a), axis=axis)
            same(found[0], value(a, axis=axis))
            same(found[1], arg(a, axis=axis))


def test_axes_by_position_and_bfloat16() -> None:
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    a = mk.array(x)
    same(mk.sum(a, 0), x.sum(0))
    same(mk.argmax(a, 1), x.argmax(1))
    same(mk.sort(a, 0), np.sort(x, 0))
    same(mk.concatenate([a, a], 1), np.concatenate([x, x], 1))
    same(mk.take(a, [1], 0), x[[1]])
    b = a.astype("bfloat16")
    for result in (mk.sum(b), mk.max(b, 0), mk.accumulate("+", b, 1), mk.sort(b), mk.mean(b)):
        assert result.dtype.name == "bfloat16"
    assert mk.max(b, 0).astype(np.int32).tolist() == x.max(0).tolist()
    assert mk.argmin(b, 1).tolist() == [0, 0, 0]


def test_init_dtype_and_empty() -> None:
    x = mk.array([3, 1, 2])
    same(mk.reduce("+", x, init=10), np.int64(16))
    same(mk.reduce("min", x, init=-5), np.int32(-5))
    same(mk.sum(x, dtype=np.float32), np.float32(6))
    same(mk.sum(mk.array([200, 100], "uint8"), dtype=np.uint8), np.uint8(44))
    same(mk.sum(mk.zeros((0, 3)), axis=0), np.zeros(3, np.float32))
    same(mk.prod(mk.zeros((0, 2), np.int32)), np.int64(1))
    same(mk.all(mk.zeros(0)), True)
    same(mk.any(mk.zeros(0)), False)
    same(mk.reduce("max", mk.zeros((0, 2)), 0, init=-1.0), np.array([-1, -1], np.float32))
    same(mk.accumulate("+", mk.zeros((0, 2)), 0), np.zeros((0, 2), np.float32))
    same(mk.sum(mk.array(5)), np.int64(5))
    same(mk.sum(x, axis=()), np.array([3, 1, 2]))


def test_mean_any_all_count() -> None:
    x = values("float32", (30, 40))
    same(mk.mean(mk.array(x), axis=1), x.mean(1), 1e-6)
    same(mk.mean(mk.array([1, 2, 4])), np.float32(7 / 3), 1e-6)
    same(mk.mean(mk.array(x.astype(np.float16))), x.astype(np.float16).mean(), 1e-3)
    assert np.isnan(float(mk.mean(mk.zeros(0))))
    same(mk.any(mk.array([[0, 0], [0, 2]]), axis=1), [False, True])
    same(mk.all(mk.array([[1, 0], [3, 2]]), axis=0), [True, False])
    same(mk.count_nonzero(mk.array([[1, 0], [3, 2]]), axis=0), [2, 1])
    same(mk.cumulative_sum(mk.array([1, 2, 3]), include_initial=True), [0, 1, 3, 6])
    same(mk.cumulative_prod(mk.array([1.0, 2.0, 3.0])), np.array([1, 2, 6], np.float32))


def test_what_is_refused() -> None:
    x = mk.zeros((2, 3))
    with pytest.raises(np.exceptions.AxisError, match="axis 2 is out of bounds for array of dimension 2"):
        mk.sum(x, axis=2)
    with pytest.raises(ValueError, match="duplicate value in 'axis'"):
        mk.sum(x, axis=(0, 0))
    with pytest.raises(ValueError, match="zero-size array to reduction operation minimum which has no identity"):
        mk.min(mk.zeros((0, 3)))
    same(mk.min(mk.zeros((0, 3)), axis=1), np.zeros(0, np.float32))
    for shape, axis in (((0, 0, 7), 1), ((0, 3), (0, 1)), ((4, 0), 1)):
        with pytest.raises(ValueError, match="zero-size array to reduction operation maximum which has no identity"):
            mk.max(mk.zeros(shape), axis=axis)
    with pytest.raises(ValueError, match="attempt to get argmin of an empty sequence"):
        mk.argmin(mk.zeros(0))
    with pytest.raises(mk.ArgumentError, match="init"):
        mk.reduce("a > b ? a : b", x)
    with pytest.raises(mk.ArgumentError):
        mk.reduce("plus", x)
    with pytest.raises(TypeError):
        mk.reduce("&", x)
    with pytest.raises(TypeError):
        mk.sum(x, axis=1.5)
    with pytest.raises(mk.CompileError):
        mk.reduce("a +", x, init=0)


@pytest.mark.parametrize("axis", [0, -1, np.int64(0), 1, -2, (0,)])
def test_an_array_without_axes_has_an_axis_0_where_numpy_sees_one(axis: Any) -> None:
    host = np.array(5, np.int64)
    x = mk.array(host)
    pairs: list[tuple[Any, Any]] = [
        (lambda: mk.sum(x, axis=axis), lambda: np.sum(host, axis=axis)),
        (lambda: mk.reduce("max", x, axis, keepdims=True), lambda: np.max(host, axis=axis, keepdims=True)),
        (lambda: mk.count_nonzero(x, axis=axis), lambda: np.count_nonzero(host, axis=axis)),
        (lambda: mk.accumulate("+", x, axis), lambda: np.cumsum(host, axis=axis)),
        (lambda: mk.argmin(x, axis=axis), lambda: np.argmin(host, axis=axis)),
        (lambda: mk.argsort(x, axis=axis), lambda: np.argsort(host, axis=axis)),
        (lambda: mk.take(x, [0, -1], axis=axis), lambda: np.take(host, [0, -1], axis=axis)),
        (lambda: mk.repeat(x, 3, axis=axis), lambda: np.repeat(host, 3, axis=axis)),
        (lambda: mk.sort(x, axis=axis), lambda: np.sort(host, axis=axis)),
        (lambda: mk.mean(mk.array(np.float32(5)), axis=axis), lambda: np.mean(np.float32(5), axis=axis)),
    ]
    for ours, numpys in pairs:
        try:
            wanted = np.asarray(numpys())
        except (ValueError, TypeError, IndexError):
            with pytest.raises((ValueError, TypeError, IndexError)):
                ours()
            continue
        for _ in range(2):  # the second time by what was kept of the first
            found = ours().numpy()
            assert found.shape == wanted.shape
            assert (found == wanted).all()


@pytest.mark.parametrize("op", ["min", "max", "+"])
@pytest.mark.parametrize("axis", [0, 1, 2, (0, 2), (0, 1), None])
def test_results_of_no_element_need_no_neutral_one(op: str, axis: Any) -> None:
    host = np.zeros((3, 0, 2), np.int64)
    reduced = {"min": np.min, "max": np.max, "+": np.sum}[op]
    try:
        wanted = reduced(host, axis=axis)
    except ValueError:
        with pytest.raises(ValueError, match="zero-size array to reduction operation"):
            mk.reduce(op, mk.array(host), axis)
        return
    found = mk.reduce(op, mk.array(host), axis)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    assert np.array_equal(found.numpy(), wanted)
