"""Sorting and searching against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metalki as mk

pytestmark = pytest.mark.filterwarnings("error::metalki.CompileWarning", "ignore::RuntimeWarning")

DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32"]
SHAPES = [
    ((10000,), -1),
    ((50, 70), 1),
    ((50, 70), 0),
    ((3, 4, 5), None),
    ((1,), 0),
    ((2, 70000), 1),
    ((0, 3), 0),
    ((100, 3), 1),
]


def values(dtype: str, shape: Any, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if not dtype.startswith("float"):
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    result = (rng.normal(size=shape) * 10).round(1).astype(dtype)
    if result.size > 10:
        result.flat[3:9] = (np.nan, -np.inf, -0.0, 0.0, np.inf, np.nan)
    return result


def same(got: mk.Array, want: Any) -> None:
    want = np.asarray(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_sort_and_argsort(dtype: str, shape: tuple[int, ...], axis: int | None) -> None:
    for x in (values(dtype, shape), values(dtype, shape) % 7 if dtype != "bool" else values(dtype, shape, 1)):
        same(mk.sort(mk.array(x), axis=axis), np.sort(x, axis))
        same(mk.argsort(mk.array(x), axis=axis), np.argsort(x, axis, kind="stable"))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(width=32), min_size=1, max_size=300))
def test_any_floats(numbers: list[float]) -> None:
    x = np.array(numbers, np.float32)
    same(mk.sort(mk.array(x)), np.sort(x))
    same(mk.argsort(mk.array(x)), np.argsort(x, kind="stable"))


def test_descending() -> None:
    x = values("int32", 3000) % 50
    same(mk.sort(mk.array(x), descending=True), np.sort(x)[::-1])
    same(mk.argsort(mk.array(x), descending=True), np.argsort(-x, kind="stable"))
    f = x.astype(np.float32)
    same(mk.sort(mk.array(f), descending=True), np.sort(f)[::-1])


def test_bfloat16() -> None:
    x = mk.array([3.0, -1.0, 2.5, -7.0], "bfloat16")
    assert mk.sort(x).numpy().astype(float).tolist() == [-7, -1, 2.5, 3]
    assert mk.argsort(x).tolist() == [3, 1, 2, 0]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    ("a", "b"), [("int32", "int32"), ("float32", "float32"), ("int64", "int16"), ("float16", "float32")]
)
def test_searchsorted(side: str, a: str, b: str) -> None:
    rng = np.random.default_rng(0)
    x, v = np.sort(rng.integers(0, 50, 333).astype(a)), rng.integers(-5, 60, (7, 9)).astype(b)
    if a == "float32":
        x[-3:] = v[0, 0] = np.nan
    same(mk.searchsorted(mk.array(x), mk.array(v), side=side), np.searchsorted(x, v, side))
    mixed = rng.permutation(x)
    order = np.argsort(mixed, kind="stable")
    same(mk.searchsorted(mk.array(mixed), mk.array(v), side=side, sorter=mk.array(order)), np.searchsorted(x, v, side))


def test_searchsorted_of_little() -> None:
    same(mk.searchsorted(mk.array([1, 2, 3]), 2), np.int64(1))
    same(mk.searchsorted(mk.zeros(0), mk.zeros(3)), np.zeros(3, np.int64))
    same(mk.searchsorted(mk.zeros(3), mk.zeros(0)), np.zeros(0, np.int64))
    with pytest.raises(ValueError, match="side must be 'left' or 'right'"):
        mk.searchsorted(mk.zeros(2), 1.0, side="middle")
    with pytest.raises(ValueError, match="too deep"):
        mk.searchsorted(mk.zeros((2, 2)), 1.0)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "float16", "float32"])
@pytest.mark.parametrize(
    "options",
    [{}, {"bins": 7}, {"bins": 5, "range": (-3, 12)}, {"bins": [0, 1, 4, 9.5, 30]}, {"bins": 256, "range": (0, 256)}],
    ids=str,
)
def test_histogram(dtype: str, options: Any) -> None:
    x = (np.random.default_rng(0).normal(size=5000) * 20).astype(dtype)
    counts, edges = mk.histogram(mk.array(x), **options)
    want, want_edges = np.histogram(x, **options)
    same(counts, want)
    np.testing.assert_allclose(edges.numpy().astype(float), want_edges.astype(float), rtol=2e-3)


def test_histogram_of_little() -> None:
    same(mk.histogram(mk.zeros(0), bins=3)[0], np.zeros(3, np.int64))
    same(mk.histogram(mk.full(5, 2.0), bins=2)[0], [0, 5])
    same(mk.histogram(mk.array([True, False, True]), bins=2)[0], [1, 2])
    np.testing.assert_allclose(mk.histogram(mk.array([1.0, 2.0, 3.0]), bins=2, density=True)[0].numpy(), [1 / 3, 2 / 3])
    for call, words in (
        (lambda: mk.histogram(mk.zeros(3), bins=0), "`bins` must be positive"),
        (lambda: mk.histogram(mk.zeros(3), range=(3, 1)), "max must be larger than min"),
        (lambda: mk.histogram(mk.zeros(3), bins=[2, 1]), "must increase monotonically"),
        (lambda: mk.histogram(mk.array([1.0, float("nan")])), "is not finite"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


@pytest.mark.parametrize("dtype", DTYPES)
def test_unique(dtype: str) -> None:
    x = values(dtype, (40, 50))
    x = x if dtype == "bool" else x % 9
    a = mk.array(x)
    same(mk.unique(a), np.unique(x))
    options = {"return_index": True, "return_inverse": True, "return_counts": True}
    for mine, other in zip(mk.unique(a, **options), np.unique(x, **options), strict=True):
        same(mine, other)
    same(mk.unique_values(a), np.unique(x, equal_nan=False))
    same(mk.unique_counts(a).counts, np.unique(x, return_counts=True, equal_nan=False)[1])
    same(mk.isin(a, mk.array(x[:2, :2])), np.isin(x, x[:2, :2]))


def test_unique_of_nothing() -> None:
    parts = mk.unique(mk.zeros((0, 2)), return_index=True, return_inverse=True, return_counts=True)
    assert [p.shape for p in parts] == [(0,), (0,), (0, 2), (0,)]
    same(mk.unique(mk.array([7])), np.array([7], np.int32))


def test_what_sort_refuses() -> None:
    with pytest.raises(np.exceptions.AxisError):
        mk.sort(mk.array(3))
    with pytest.raises(np.exceptions.AxisError):
        mk.argsort(mk.zeros((2, 2)), axis=2)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "float32"])
@pytest.mark.parametrize("kind", ["random", "equal", "few", "ascending", "descending", "extremes", "organ pipe"])
@pytest.mark.parametrize("shape", [(1025,), (8193,), (70_000,), (3, 20_001), (40, 1500), (300_000,), (500, 600)])
def test_long_rows_of_every_kind(dtype: str, kind: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(5)
    n = int(np.prod(shape))
    steps = np.arange(n)
    numbers = {
        "random": rng.integers(0, 2**31, n),
        "equal": np.full(n, 77),
        "few": rng.integers(0, 3, n),
        "ascending": steps,
        "descending": n - steps,
        "extremes": rng.choice([0, 2**31 - 1], n),
        "organ pipe": np.minimum(steps, n - steps),
    }[kind]
    host = numbers.astype(dtype).reshape(shape)
    if kind == "extremes":
        ends = [np.nan, np.inf, -np.inf, -0.0] if dtype == "float32" else [np.iinfo(dtype).min, np.iinfo(dtype).max]
        host = rng.choice(np.array(ends, dtype), shape)
    assert _bytes(mk.sort(mk.array(host)).numpy()) == _sorted_bytes(host, False)
    assert _bytes(mk.sort(mk.array(host), descending=True).numpy()) == _sorted_bytes(host, True)


def _bytes(values: np.ndarray) -> bytes:
    """With one pattern of bits for NaN: which of them arithmetic gives is the processor's choice."""
    return (np.where(np.isnan(values), np.float32(np.nan), values) if values.dtype.kind == "f" else values).tobytes()


def _sorted_bytes(host: np.ndarray, descending: bool) -> bytes:
    """As the bits say: -0.0 is in front of 0.0."""
    bits = host.view(np.uint32)
    keys = bits ^ np.where(bits >> 31, 0xFFFFFFFF, 0x80000000).astype(np.uint32)
    if host.dtype.kind != "f":
        keys = bits if host.dtype.kind == "u" else bits ^ np.uint32(0x80000000)
    elif host.dtype.kind == "f":
        keys = np.where(np.isnan(host), np.uint32(0xFFFFFFFF), keys)
    order = np.argsort(keys, axis=-1, kind="stable")
    found = np.take_along_axis(host, order[..., ::-1] if descending else order, -1)
    return _bytes(np.ascontiguousarray(found))
