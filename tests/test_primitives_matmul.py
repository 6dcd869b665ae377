"""mk.matmul against numpy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metalki as mk

pytestmark = pytest.mark.filterwarnings("error::metalki.CompileWarning")

SHAPES = [
    ((3,), (3,)), ((3, 4), (4,)), ((4,), (4, 5)), ((1, 1), (1, 1)), ((40, 50), (50, 60)), ((64, 64), (64, 32)),
    ((2, 33, 20), (20, 17)), ((2, 1, 9, 40), (3, 40, 70)), ((5, 40, 33), (5, 33, 8)), ((2, 0), (0, 3)), ((0, 3), (3, 2)),
    ((7, 300), (300, 1)), ((128, 96), (96, 160)), ((3, 2, 8, 64), (64, 40)), ((100, 100), (100,)),
]  # fmt: skip
TOLERANCE = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "int8", "uint64", "bool"])
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_matmul(dtype: str, left: Any, right: Any) -> None:
    rng = np.random.default_rng(0)
    if dtype in TOLERANCE:
        x, y = rng.normal(size=left), rng.normal(size=right)
    else:
        x, y = rng.integers(0, 2, left), rng.integers(0, 2 if dtype == "bool" else 9, right)
    a, b = mk.array(x, dtype), mk.array(y, dtype)
    result = mk.matmul(a, b)
    assert result.dtype == a.dtype
    x, y = a.numpy(), b.numpy()
    want = x.astype(np.float64) @ y.astype(np.float64) if dtype in TOLERANCE else x @ y
    assert result.shape == want.shape
    tolerance = TOLERANCE.get(dtype, 0)
    np.testing.assert_allclose(result.numpy().astype(np.float64), np.asarray(want, np.float64), tolerance, tolerance)


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize(
    ("left", "right"), [s for s in SHAPES if len(s[0]) > 1 < len(s[1]) and min(s[0][-2:] + s[1][-1:]) >= 8]
)
def test_both_ways_of_multiplying(dtype: str, left: Any, right: Any) -> None:
    """On simdgroup matrices as on a GPU, and with lanes along columns as on a CPU, whatever the device."""
    from metalki.algorithms import linalg

    rng = np.random.default_rng(0)
    a, b = mk.array(rng.normal(size=left), dtype), mk.array(rng.normal(size=right), dtype)
    want = a.numpy().astype(np.float64) @ b.numpy().astype(np.float64)
    batch = want.shape[:-2]
    sizes = (int(np.prod(batch)), left[-2], left[-1], right[-1])
    for product in (linalg._tiles, linalg._by_columns):
        out = mk.empty(want.shape, a.dtype)
        product(linalg._batched(a, batch), linalg._batched(b, batch), out, a.dtype, *sizes)
        tolerance = TOLERANCE[dtype]
        np.testing.assert_allclose(out.numpy().astype(np.float64), want, tolerance, tolerance)


def test_the_operator_and_promotion() -> None:
    assert (mk.array([[1, 2], [3, 4]]) @ mk.array([1, 2])).tolist() == [5, 11]
    assert (np.array([[1, 2], [3, 4]], np.int32) @ mk.array([1, 2])).tolist() == [5, 11]
    assert mk.matmul(mk.ones((9, 9), "float16"), mk.ones((9, 9))).dtype == np.float32
    x, y = np.random.default_rng(1).normal(size=(2, 3, 4)), np.random.default_rng(2).normal(size=(3, 4, 5))
    a, b = mk.array(x, "float32"), mk.array(y, "float32")
    np.testing.assert_allclose(mk.tensordot(a, b).numpy(), np.tensordot(x, y), rtol=1e-5)
    np.testing.assert_allclose(
        mk.tensordot(a, b, axes=([1], [0])).numpy(), np.tensordot(x, y, ([1], [0])), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(mk.vecdot(a, a).numpy(), (x * x).sum(-1), rtol=1e-5)
    assert mk.outer(mk.array([1, 2]), mk.array([3, 4])).tolist() == [[3, 4], [6, 8]]


def test_what_matmul_refuses() -> None:
    with pytest.raises(ValueError, match="does not have enough dimensions"):
        mk.matmul(mk.array(1), mk.array([1]))
    with pytest.raises(ValueError, match="mismatch in its core dimension 0"):
        mk.matmul(mk.zeros((2, 3)), mk.zeros((2, 3)))
    with pytest.raises(ValueError, match="could not be broadcast"):
        mk.matmul(mk.zeros((2, 3, 3)), mk.zeros((4, 3, 3)))
