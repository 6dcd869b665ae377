"""x[key] = value against numpy: parts, steps, masks, conversions, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metalki as mk

KEYS: list[Any] = [
    0,
    -1,
    np.int64(2),
    slice(None),
    slice(1, 3),
    slice(None, None, 2),
    slice(None, None, -1),
    slice(3, 0, -2),
    slice(5, 2),
    ...,
    (),
    (1, 2),
    (slice(None), 1),
    (slice(None, None, -2), slice(1, None, 2)),
    (..., 0),
    (None, 1),
    (slice(1, 3), None, ..., slice(None, None, 3)),
]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32"])
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_parts_take_numbers_and_arrays(dtype: str, key: Any) -> None:
    host = (np.arange(60) % 7).reshape(4, 5, 3).astype(dtype)
    x = mk.array(host)
    x[key] = 1
    host[key] = 1
    assert np.array_equal(x.numpy(), host)
    new = (np.arange(host[key].size) % 5).reshape(host[key].shape).astype(np.float32)
    x[key] = new
    host[key] = new
    assert np.array_equal(x.numpy(), host)
    x[key] = mk.array(new[..., :1])
    host[key] = new[..., :1]
    assert np.array_equal(x.numpy(), host)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_any_slices(data: Any) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=4)))
    ints = st.one_of(st.none(), st.integers(-8, 8))
    steps = st.one_of(st.none(), st.integers(-3, 3).filter(bool))
    key = tuple(slice(data.draw(ints), data.draw(ints), data.draw(steps)) for _ in shape)
    host = np.zeros(shape, np.int32)
    x = mk.array(host)
    new = np.arange(host[key].size, dtype=np.int32).reshape(host[key].shape) + 1
    x[key] = new
    host[key] = new
    assert np.array_equal(x.numpy(), host)


def test_masks_take_a_number() -> None:
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = mk.array(host)
    x[x > 5] = -1
    host[host > 5] = -1
    assert np.array_equal(x.numpy(), host)
    rows = np.array([True, False, True])
    x[mk.array(rows)] = mk.array(7.5)
    host[rows] = 7.5
    assert np.array_equal(x.numpy(), host)
    with pytest.raises(mk.ArgumentError, match=r"one value for all elements.*\(2,\)"):
        x[x > 5] = np.zeros(2, np.float32)
    with pytest.raises(IndexError, match="boolean index did not match"):
        x[np.ones(4, bool)] = 1


def test_overlapping_parts_of_one_array() -> None:
    host = np.arange(5000, dtype=np.int32)
    x = mk.array(host)
    x[1:] = x[:-1]
    host[1:] = host[:-1].copy()
    assert np.array_equal(x.numpy(), host)
    x[::-1] = x
    assert np.array_equal(x.numpy(), host[::-1])


def test_views_are_written_through_and_in_place_operators_hand_back() -> None:
    x = mk.zeros((4, 6), np.int32)
    x[1:3][0] = 5
    x[2:] += 1
    x[0] += mk.array(np.arange(6, dtype=np.int32))
    wanted = np.zeros((4, 6), np.int32)
    wanted[1] = 5
    wanted[2:] += 1
    wanted[0] += np.arange(6, dtype=np.int32)
    assert np.array_equal(x.numpy(), wanted)


def test_what_numpy_refuses() -> None:
    x, host = mk.zeros((3, 4), np.int8), np.zeros((3, 4), np.int8)
    refused: list[tuple[Any, Any]] = [
        (3, 1), ((0, 4), 1), ((0, 0, 0), 1), ((..., ...), 1), (slice(None), [1, 2]), (0, np.zeros((2, 4), np.int8)), (0, 300),
    ]  # fmt: skip
    for key, value in refused:
        with pytest.raises((IndexError, ValueError, OverflowError)) as numpys:
            host[key] = value
        with pytest.raises(numpys.type) as ours:
            x[key] = value
        if numpys.type is not IndexError or "out of bounds" in str(numpys.value):
            assert str(ours.value).split(":")[-1].strip()[:40] == str(numpys.value).split(":")[-1].strip()[:40]
    for key in (True, 1.5, [0, 1], np.array([0, 1])):
        with pytest.raises(mk.ArgumentError, match="are assigned by"):
            x[key] = 1
    assert not x.numpy().any()
