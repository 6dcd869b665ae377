"""Mathematics that the vectoriser writes itself, beside numpy's in double precision."""

from __future__ import annotations

import numpy as np

import metalki as mk

SOURCE = """#include <metal_stdlib>
using namespace metal;
kernel void k(device float* o, device const float* x, device const float* y, uint i [[thread_position_in_grid]])
{ o[i] = precise::pow(x[i], y[i]); }"""


def power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    out = mk.zeros(x.size)
    mk.Kernel(SOURCE)(out, mk.array(x), mk.array(y), ndrange=x.size)
    return out.numpy()


def test_powers_of_numbers() -> None:
    rng = np.random.default_rng(6)
    x = np.exp2(rng.uniform(-149, 128, 60000)).astype(np.float32)
    y = (rng.uniform(-149, 128, x.size) / np.log2(x.astype(np.float64))).astype(np.float32)
    x[:2000], y[:2000] = 1 + rng.normal(0, 1e-3, 2000), rng.normal(0, 3e4, 2000)
    x[2000:4000] *= -1
    y[2000:4000] = np.round(y[2000:4000])
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.float64), y.astype(np.float64))
        error = np.abs(power(x, y) - want) / np.maximum(np.spacing(np.abs(want).astype(np.float32)), 1e-45)
    error = error[np.isfinite(want) & (np.abs(want) < np.finfo(np.float32).max)]
    assert error.size > 50000
    assert error.max() < 4


def test_powers_of_what_is_special() -> None:
    values = [
        0.0,
        -0.0,
        1,
        -1,
        2,
        -2,
        0.5,
        -0.5,
        3,
        -3,
        2.5,
        -2.5,
        np.inf,
        -np.inf,
        np.nan,
        1e-45,
        -1e-45,
        3e38,
        2**24 + 2,
    ]
    x, y = (np.array(grid, np.float32).ravel() for grid in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
        got = power(x, y)
        same = (np.isnan(got) & np.isnan(want)) | np.isclose(got, want, rtol=1e-6, atol=3e-45)
    assert same.all(), [(x[i], y[i], got[i], want[i]) for i in np.flatnonzero(~same)[:5]]
    zeros = (want == 0) & (got == 0)
    assert np.array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


TANH = """#include <metal_stdlib>
using namespace metal;
kernel void k(device float* o, device const float* x, uint i [[thread_position_in_grid]]) { o[i] = tanh(x[i]); }"""


def test_hyperbolic_tangents() -> None:
    x = np.concatenate(
        [
            np.arange(0, 2**32, 9973, dtype=np.uint32).view(np.float32),
            np.linspace(-10, 10, 200001, dtype=np.float32),
            np.float32([0.0, -0.0, 1e-45, -1e-45, 0.6, -0.6, np.inf, -np.inf, np.nan]),
        ]
    )
    out = mk.zeros(x.size)
    mk.Kernel(TANH)(out, mk.array(x), ndrange=x.size)
    found = out.numpy()
    with np.errstate(all="ignore"):
        want = np.tanh(x.astype(np.float64))
        error = np.abs(found - want) / np.maximum(np.spacing(np.abs(want).astype(np.float32)), 1e-45)
    number = ~np.isnan(x)
    assert np.isnan(found[~number]).all()
    assert error[number].max() < 5
    assert np.abs(found[number]).max() <= 1
    np.testing.assert_array_equal(np.signbit(found[number]), np.signbit(x[number]))
