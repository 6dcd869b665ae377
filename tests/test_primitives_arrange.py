"""Elements in other orders and places, and elements chosen, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metalki as mk

pytestmark = pytest.mark.filterwarnings("error::metalki.CompileWarning")

DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32"]


def same(got: mk.Array, want: Any) -> None:
    want = np.asarray(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_array_equal(got.numpy(), want)


def numbers(shape: Any, dtype: Any = np.int32) -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


shapes = st.lists(st.sampled_from([0, 1, 2, 3, 5]), max_size=6).map(tuple)


@settings(max_examples=80, deadline=None)
@given(shapes.flatmap(lambda s: st.tuples(st.just(s), st.permutations(range(len(s))))))
def test_permute_dims(case: Any) -> None:
    shape, axes = case
    x = numbers(shape)
    same(mk.permute_dims(mk.array(x), axes), x.transpose(axes))


def test_permute_dims_of_eight_axes() -> None:
    x = numbers((2, 3, 2, 2, 3, 1, 2, 3))
    for axes in ((7, 3, 1, 0, 2, 4, 6, 5), (7, 6, 5, 4, 3, 2, 1, 0)):
        same(mk.permute_dims(mk.array(x), axes), x.transpose(axes))
    same(mk.array(x).T, x.T)
    same(mk.array(numbers((2, 3, 4))).mT, numbers((2, 3, 4)).transpose(0, 2, 1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_moves(dtype: str) -> None:
    x = numbers((33, 65), dtype)
    a = mk.array(x)
    same(mk.permute_dims(a), x.T)
    same(mk.copy(a), x)
    same(mk.reverse(a, axis=1), x[:, ::-1])
    same(mk.roll(a, 5, axis=0), np.roll(x, 5, 0))
    same(mk.concatenate([a, a], axis=1), np.concatenate([x, x], 1))
    same(mk.take(a, [3, -1, 3], axis=0), x[[3, -1, 3]])
    same(mk.fill(mk.empty((3, 5), dtype), 1), np.ones((3, 5), dtype))
    same(a[a > 1] if dtype != "bool" else a[a], x[x > 1] if dtype != "bool" else x[x])


def test_bfloat16_moves() -> None:
    a = mk.array(np.arange(12).reshape(3, 4), "bfloat16")
    assert mk.permute_dims(a).numpy().astype(int).tolist() == np.arange(12).reshape(3, 4).T.tolist()
    assert mk.fill(mk.empty(3, "bfloat16"), 2.5).numpy().astype(float).tolist() == [2.5] * 3


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_roll_reverse_concatenate(data: st.DataObject) -> None:
    shape = data.draw(shapes.filter(len))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    shift = data.draw(st.integers(-9, 9))
    x = numbers(shape)
    a = mk.array(x)
    same(mk.roll(a, shift, axis=axis), np.roll(x, shift, axis))
    same(mk.roll(a, shift), np.roll(x, shift))
    same(mk.reverse(a, axis=axis), np.flip(x, axis))
    same(mk.reverse(a), np.flip(x))
    same(mk.concatenate([a, a, a], axis=axis), np.concatenate([x, x, x], axis))
    same(mk.stack([a, a], axis=axis), np.stack([x, x], axis))


def test_shapes() -> None:
    x = numbers((2, 3, 4))
    a = mk.array(x)
    same(mk.roll(a, (1, -2), axis=(0, 1)), np.roll(x, (1, -2), (0, 1)))
    same(mk.moveaxis(a, 0, -1), np.moveaxis(x, 0, -1))
    same(mk.broadcast_to(mk.array([1, 2]), (3, 2)), np.broadcast_to(np.array([1, 2], np.int32), (3, 2)))
    same(mk.tile(a, (2, 1, 3)), np.tile(x, (2, 1, 3)))
    same(mk.repeat(a, 2, axis=1), np.repeat(x, 2, 1))
    same(mk.repeat(mk.array([1, 2, 3]), [0, 2, 1]), np.array([2, 2, 3], np.int32))
    same(mk.expand_dims(a, axis=(0, -1)), np.expand_dims(x, (0, -1)))
    same(mk.squeeze(mk.array(x[:1]), 0), x[0])
    same(mk.concatenate([mk.array([1], "int8"), mk.array([2], "uint8")]), np.array([1, 2], np.int16))
    same(mk.concatenate([a, a], axis=None), np.concatenate([x, x], None))
    assert [part.shape for part in mk.unstack(a, axis=1)] == [(2, 4)] * 3
    same(mk.concatenate([a, mk.zeros((2, 3, 0), np.int32)], axis=2), x)


def test_fill_a_part_and_private_storage() -> None:
    a = mk.zeros((4, 3), storage="private")
    mk.fill(a[1:3], 7.5)
    assert a.numpy()[:, 0].tolist() == [0, 7.5, 7.5, 0]
    assert mk.permute_dims(a).storage == "private"
    with pytest.raises(OverflowError):
        mk.fill(mk.zeros(2, np.int8), 300)
    with pytest.raises(mk.ArgumentError):
        mk.fill(mk.zeros(2), "x")


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "float16", "float32", "int64", "bfloat16"])
def test_zeros_into_parts(dtype: str) -> None:
    x = mk.full(41, 1, dtype)
    for value in (0, 1, False, np.float32(0), -0.0, 0.0):
        mk.fill(x, 1)
        mk.broadcast("v", v=value, out=x[3:24])
        wanted = np.ones(41)
        wanted[3:24] = value
        found = x.numpy().astype(np.float64)
        assert np.array_equal(found, wanted)
        assert np.signbit(found[3]) == (np.signbit(value) and dtype not in ("bool", "uint8", "int16", "int64"))
    assert mk.fill(mk.zeros((0, 3)), 0).shape == (0, 3)


def test_take() -> None:
    x = numbers((4, 5, 3))
    a, index = mk.array(x), np.array([[0, 3], [-1, 0]])
    for axis in (None, 0, 1, 2, -1):
        wanted = index % {None: 60, 0: 4, 1: 5}.get(axis, 3)
        same(mk.take(a, mk.array(wanted), axis=axis), np.take(x, wanted, axis))
    same(mk.take(a, index, axis=1), np.take(x, index, 1))
    same(mk.take(a, mk.zeros(0, np.int32), axis=1), x[:, :0])
    same(mk.take(a, [], axis=1), x[:, :0])
    same(mk.take(a, 2, axis=0), x[2])
    order = np.argsort(-x, axis=1)
    same(mk.take_along_axis(a, mk.array(order), axis=1), np.take_along_axis(x, order, 1))
    for bad in ([5], mk.array([0, 9]), mk.array([-6]), mk.array([2**40]), mk.array([200], "uint8")):
        with pytest.raises(IndexError, match="is out of bounds for axis 1 with size 5"):
            mk.take(a, bad, axis=1)
    with pytest.raises(TypeError):
        mk.take(a, mk.array([1.0]), axis=1)
    with pytest.raises(IndexError):
        mk.take(mk.zeros(0), [0])
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 1 with size 9"):
        mk.take(mk.zeros((2, 9, 0)), [0, 9], axis=1)
    same(mk.take(mk.zeros((2, 9, 0)), [0, 8], axis=1), np.zeros((2, 2, 0), np.float32))
    same(mk.take(mk.zeros((0, 3)), [7], axis=1), np.zeros((0, 1), np.float32))


@pytest.mark.parametrize("shape", [(0,), (1,), (33,), (100001,), (70, 81), (5, 6, 7)])
def test_choosing_by_truth(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(0, 3, shape).astype(np.int32)
    a = mk.array(x)
    same(a[a != 0], x[x != 0])
    same(a[x == 5], x[x == 5])
    for test, want in (((a,), x != 0), (("x == 2", a), x == 2), ((a > 7,), x > 7)):
        rows = np.argwhere(want)
        same(mk.findall(*test), rows[:, 0] if x.ndim == 1 else rows)
        first = None if not len(rows) else int(rows[0, 0]) if x.ndim == 1 else tuple(map(int, rows[0]))
        assert mk.findfirst(*test) == first
    for mine, other in zip(mk.nonzero(a), np.nonzero(x), strict=True):
        same(mine, other)


def test_a_single_hit_is_found() -> None:
    for place in (0, 31, 32, 4095, 4096, 99999):
        x = np.zeros(100000, bool)
        x[place] = True
        assert mk.findfirst(mk.array(x)) == place
        assert mk.findall(mk.array(x)).tolist() == [place]


def test_masks_of_fewer_axes() -> None:
    x = numbers((6, 7, 8))
    mask = np.random.default_rng(1).integers(0, 2, (6, 7)).astype(bool)
    same(mk.array(x)[mask], x[mask])
    same(mk.array(x)[mk.array(mask[:, 0])], x[mask[:, 0]])
    same(mk.array(x)[np.zeros(6, bool)], x[np.zeros(6, bool)])
    with pytest.raises(IndexError, match="boolean index did not match"):
        mk.array(x)[np.zeros(5, bool)]
    with pytest.raises(IndexError, match="too many indices"):
        mk.zeros(3)[np.zeros((3, 1), bool)]


def test_errors_in_numpys_words() -> None:
    a = mk.zeros((2, 3))
    for call, error, words in (
        (lambda: mk.permute_dims(a, (0,)), ValueError, "axes don't match array"),
        (lambda: mk.permute_dims(a, (0, 0)), ValueError, "repeated axis in transpose"),
        (lambda: mk.permute_dims(a, (0, 2)), IndexError, "axis 2 is out of bounds for array of dimension 2"),
        (lambda: mk.concatenate([]), ValueError, "need at least one array to concatenate"),
        (lambda: mk.concatenate([mk.array(1)]), ValueError, "zero-dimensional arrays cannot be concatenated"),
        (
            lambda: mk.concatenate([a, mk.zeros((2, 4))]),
            ValueError,
            "along dimension 1, the array at index 0 has size 3",
        ),
        (lambda: mk.concatenate([a, mk.zeros(3)]), ValueError, "same number of dimensions"),
        (lambda: mk.stack([a, mk.zeros(3)]), ValueError, "all input arrays must have the same shape"),
        (lambda: mk.broadcast_to(a, (2, 2)), ValueError, "could not be broadcast"),
        (lambda: mk.squeeze(a, 0), ValueError, "size not equal to one"),
        (lambda: mk.roll(a, (1, 2), axis=(0, 1, 1)), ValueError, "should be scalars or 1D sequences"),
    ):
        with pytest.raises(error, match=words):
            call()
