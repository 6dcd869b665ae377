"""Any arrays, axes and values against numpy: scans, extrema, compaction, take, search, histogram, unique, sort by argsort."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import metalki as mk

DTYPES = ["bool", "int8", "uint16", "int32", "uint64", "float32"]
SOME = settings(max_examples=60, deadline=None)


@st.composite
def arrays(draw: Any, least: int = 0, most_axes: int = 4) -> np.ndarray:
    """Small numbers, so that equal ones are frequent and sums exact."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = tuple(draw(st.lists(st.integers(least, 40), min_size=1, max_size=most_axes)))
    while np.prod(shape) > 20_000:
        shape = shape[:-1]
    seed = draw(st.integers(0, 2**32 - 1))
    numbers = np.random.default_rng(seed).integers(0 if dtype.kind in "bu" else -3, 4, shape)
    return numbers.astype(dtype)


def same(found: mk.Array, wanted: Any) -> None:
    whole = np.asarray(wanted)
    assert (found.shape, found.dtype) == (whole.shape, whole.dtype)
    assert np.array_equal(found.numpy(), whole, equal_nan=whole.dtype.kind == "f")


@given(arrays(), st.data())
@SOME
def test_scans(host: np.ndarray, data: st.DataObject) -> None:
    axis = data.draw(st.one_of(st.none(), st.integers(-host.ndim, host.ndim - 1)))
    x = mk.array(host)
    wanted = np.cumsum(host, axis=axis)
    same(mk.accumulate("+", x, axis), wanted)
    row = host.reshape(-1) if axis is None else host
    same(mk.accumulate("max", x, axis), np.maximum.accumulate(row, axis=axis or 0))
    before = mk.accumulate("+", x, axis, exclusive=True).numpy()
    assert np.array_equal(before + row, wanted)


@given(arrays(least=1), st.data())
@SOME
def test_extrema_and_their_places(host: np.ndarray, data: st.DataObject) -> None:
    axis = data.draw(st.one_of(st.none(), st.integers(-host.ndim, host.ndim - 1)))
    keepdims = data.draw(st.booleans())
    x = mk.array(host)
    for ours, value, place in ((mk.findmin, np.min, np.argmin), (mk.findmax, np.max, np.argmax)):
        found = ours(x, axis=axis, keepdims=keepdims)
        same(found[0], value(host, axis=axis, keepdims=keepdims))
        same(found[1], place(host, axis=axis, keepdims=keepdims))


@given(arrays(), st.data())
@SOME
def test_compaction_and_take(host: np.ndarray, data: st.DataObject) -> None:
    x = mk.array(host)
    for found, wanted in zip(mk.nonzero(x), np.nonzero(host), strict=True):
        same(found, wanted)
    axes = data.draw(st.integers(1, host.ndim))
    mask = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 2, host.shape[:axes]).astype(bool)
    same(x[mk.array(mask)], host[mask])
    axis = data.draw(st.integers(-host.ndim, host.ndim - 1))
    size = host.shape[axis]
    if size:
        indices = data.draw(st.lists(st.integers(-size, size - 1), max_size=50))
        same(mk.take(x, np.array(indices, np.int64), axis=axis), np.take(host, np.array(indices, np.int64), axis=axis))


@given(arrays(most_axes=2), st.data())
@SOME
def test_order(host: np.ndarray, data: st.DataObject) -> None:
    x = mk.array(host)
    axis = data.draw(st.integers(-host.ndim, host.ndim - 1))
    same(mk.argsort(x, axis=axis), np.argsort(host, axis=axis, kind="stable"))
    same(mk.sort(x, axis=axis), np.sort(host, axis=axis))
    same(mk.unique(x), np.unique(host))
    row = np.sort(host, axis=None)
    side: Any = data.draw(st.sampled_from(["left", "right"]))
    same(mk.searchsorted(mk.array(row), x, side=side), np.searchsorted(row, host, side=side))


@given(arrays(least=1, most_axes=2), st.integers(1, 9))
@SOME
def test_histogram(host: np.ndarray, bins: int) -> None:
    counts, edges = mk.histogram(mk.array(host), bins=bins, range=(-3.5, 4.5))
    wanted, places = np.histogram(host.astype(np.float32), bins=bins, range=(-3.5, 4.5))
    same(counts, wanted)
    assert np.allclose(edges.numpy(), places)
