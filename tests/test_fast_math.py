"""metal::fast against numpy in float64, within the errors that the MSL specification allows, in every math mode."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import metalki as mk

COUNT = 20000
LN10 = float(np.log(10.0))

# name: reference, arguments from and to, allowed error in roundings as a function of the argument
FUNCTIONS: dict[str, tuple[Callable[..., np.ndarray], float, float, Callable[[np.ndarray], np.ndarray]]] = {
    "exp": (np.exp, -87, 88, lambda x: 3 + np.floor(np.abs(2 * x))),
    "exp2": (np.exp2, -126, 127.9, lambda x: 3 + np.floor(np.abs(2 * x))),
    "exp10": (lambda x: np.exp(x * np.longdouble(LN10)).astype(float), -37, 38, lambda x: 3 + np.floor(np.abs(2 * x))),
    "log": (np.log, 1e-30, 1e30, lambda x: 3 + 0 * x),
    "log2": (np.log2, 1e-30, 1e30, lambda x: 2 + 0 * x),
    "log10": (np.log10, 1e-30, 1e30, lambda x: 3 + 0 * x),
}


def run(name: str, x: np.ndarray, mode: str) -> np.ndarray:
    source = f"""
    #include <metal_stdlib>
    using namespace metal;
    kernel void k(device float* o, device const float* a, uint i [[thread_position_in_grid]]) {{
        o[i] = fast::{name}(a[i]);
    }}"""
    out = mk.zeros(x.size)
    mk.Kernel(source, options={"math_mode": mode})(out, mk.array(x), ndrange=x.size)
    return out.numpy()


def ulp(value: np.ndarray) -> np.ndarray:
    return np.spacing(np.maximum(np.abs(value), np.finfo(np.float32).tiny).astype(np.float32)).astype(float)


@pytest.mark.parametrize("mode", ["safe", "relaxed", "fast"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_within_the_specifications_limits(name: str, mode: str) -> None:
    reference, low, high, allowed = FUNCTIONS[name]
    rng = np.random.default_rng(len(name))
    if name.startswith("log"):
        wide = np.exp(rng.uniform(np.log(low), np.log(high), COUNT))
        x = np.concatenate([wide, rng.uniform(0.5, 2, COUNT)]).astype(np.float32)
    else:
        x = np.concatenate([rng.uniform(low, high, COUNT), rng.uniform(-1, 1, COUNT)]).astype(np.float32)
    wanted = reference(x.astype(np.float64))
    error = np.abs(run(name, x, mode) - wanted) / ulp(wanted)
    near_one = name.startswith("log") & (x > 0.5) & (x < 2)
    assert (error[~near_one] <= allowed(x)[~near_one]).all()
    assert (np.abs(run(name, x, mode) - wanted)[near_one] <= 2.0**-22).all()


@pytest.mark.parametrize("mode", ["safe", "relaxed", "fast"])
def test_infinities_and_nan_are_kept(mode: str) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0, -0.0, 1, 1000, -1000, 128, 3.4e38, -3.4e38, -1], np.float32)
    with np.errstate(all="ignore"):
        for name, (reference, *_) in FUNCTIONS.items():
            wanted = reference(x.astype(np.float64)).astype(np.float32)
            np.testing.assert_allclose(run(name, x, mode), wanted, rtol=1e-6, atol=1e-37, err_msg=name)


@pytest.mark.parametrize("type_name", ["float4", "half", "half2", "bfloat"])
def test_other_types(type_name: str) -> None:
    calls = " + ".join(f"float({type_name}(fast::{name}({type_name}(0.5f)))PART)" for name in FUNCTIONS)
    calls = calls.replace("PART", ".y" if type_name[-1].isdigit() else "")
    source = f"""
    #include <metal_stdlib>
    using namespace metal;
    kernel void k(device float* o) {{ o[0] = {calls}; }}"""
    out = mk.zeros(1)
    mk.Kernel(source)(out, ndrange=1)
    wanted = sum(float(reference(np.float64(0.5))) for reference, *_ in FUNCTIONS.values())
    assert abs(out.numpy()[0] - wanted) < (0.05 if type_name == "bfloat" else 0.01)
