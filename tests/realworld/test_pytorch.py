"""PyTorch's headers for Metal (c10/metal) as kernels for compile_shader include them, compared with references."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import conftest
import ml_dtypes
import numpy as np
import pytest

import metalki as mk

MARKER = "include/c10/metal/utils.h"


@pytest.fixture(scope="session")
def include_folder(request: pytest.FixtureRequest) -> Path:
    folder = conftest.folder_of(request.config)
    for hit in [*folder.glob(f"*/{MARKER}"), *folder.glob(f"*/*/{MARKER}")]:
        return hit.parents[2]
    pytest.skip(f"no headers of PyTorch in {folder}; see tests/realworld/README.md")


def compiled(source: str, include_folder: Path) -> mk.Library:
    return mk.compile(source, options={"include_dirs": [str(include_folder)], "math_mode": "safe"})


def test_every_header_compiles(include_folder: Path) -> None:
    for header in sorted((include_folder / "c10" / "metal").glob("*.h")):
        library = compiled(
            f"#include <c10/metal/{header.name}>\nkernel void k(device float* o) {{ o[0] = 1; }}", include_folder
        )
        assert "k" in library.function_names, header.name


def integral(f: Callable[[Any], Any], low: float, high: float, steps: int = 20000) -> float:
    """Of f from low to high, by the midpoint rule."""
    at = low + (np.arange(steps) + 0.5) * (high - low) / steps
    return float(np.sum(f(at)) * (high - low) / steps)


def bessel_j(n: int) -> Callable[[float], float]:
    return lambda x: integral(lambda t: np.cos(n * t - x * np.sin(t)), 0, math.pi) / math.pi


def bessel_i(n: int) -> Callable[[float], float]:
    return lambda x: integral(lambda t: np.exp(x * np.cos(t)) * np.cos(n * t), 0, math.pi) / math.pi


def bessel_k(n: int) -> Callable[[float], float]:
    return lambda x: integral(lambda t: np.exp(-x * np.cosh(t)) * np.cosh(n * t), 0, 12)


def digamma(x: float) -> float:
    """By recurrence to a large argument and the asymptotic series there."""
    result = 0.0
    while x < 20:
        result -= 1 / x
        x += 1
    return result + math.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6)


def erfinv(y: float) -> float:
    x = 0.0
    for _ in range(60):
        x -= (math.erf(x) - y) / (2 / math.sqrt(math.pi) * math.exp(-x * x))
    return x


SPECIAL: dict[str, tuple[str, Callable[[float], float], float, float]] = {
    "erf": ("erf(x)", math.erf, -3, 3),
    "erfc": ("erfc(x)", math.erfc, -2, 2),
    "erfinv": ("erfinv(x)", erfinv, -0.9, 0.9),
    "erfcx": ("erfcx(x)", lambda x: math.exp(x * x) * math.erfc(x), -1, 3),
    "i0": ("i0(x)", bessel_i(0), -4, 4),
    "i0e": ("i0e(x)", lambda x: bessel_i(0)(x) * math.exp(-abs(x)), -4, 4),
    "i1": ("i1(x)", bessel_i(1), 0.1, 4),
    "i1e": ("i1e(x)", lambda x: bessel_i(1)(x) * math.exp(-abs(x)), 0.1, 4),
    "log_gamma": ("log_gamma(x)", math.lgamma, 2.5, 20),
    "gamma": ("gamma(x)", math.gamma, 0.3, 8),
    "digamma": ("digamma(x)", digamma, 2, 30),
    "zeta": ("zeta(x, 1.0f)", lambda x: sum(n**-x for n in range(1, 4000)) + 4000 ** (1 - x) / (x - 1), 2, 6),
    "sinc": ("sinc(x)", lambda x: float(np.sinc(x)), -3, 3),
    "spherical_bessel_j0": ("spherical_bessel_j0(x)", lambda x: math.sin(x) / x, 0.6, 3),
    "logaddexp": ("logaddexp(x, 1.0f)", lambda x: float(np.logaddexp(x, 1)), -5, 5),
    "xlogy": ("xlogy(x, 3.0f)", lambda x: x * math.log(3), 0.1, 5),
    "xlog1py": ("xlog1py(x, 3.0f)", lambda x: x * math.log(4), 0.1, 5),
    "entr": ("entr(x)", lambda x: -x * math.log(x), 0.1, 0.9),
    "bessel_j0": ("bessel_j0_forward(x)", bessel_j(0), 0.1, 9),
    "bessel_j1": ("bessel_j1_forward(x)", bessel_j(1), 0.1, 9),
    "modified_bessel_i0": ("modified_bessel_i0_forward(x)", bessel_i(0), 0.1, 4),
    "modified_bessel_k0": ("modified_bessel_k0_forward(x)", bessel_k(0), 0.2, 4),
    "modified_bessel_k1": ("modified_bessel_k1_forward(x)", bessel_k(1), 0.2, 4),
    "chebyshev_t": ("chebyshev_polynomial_t_forward(x, 5)", lambda x: math.cos(5 * math.acos(x)), -0.9, 0.9),
    "chebyshev_u": ("chebyshev_polynomial_u_forward(x, 4)", lambda x: 16 * x**4 - 12 * x**2 + 1, -0.9, 0.9),
    "hermite_h": ("hermite_polynomial_h_forward(x, 3)", lambda x: 8 * x**3 - 12 * x, -2, 2),
    "expm1f": ("expm1f(x)", math.expm1, -2, 2),
    "igamma": ("igamma(2.0f, x)", lambda x: 1 - math.exp(-x) * (1 + x), 0.2, 6),
}  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL)
def test_special_function(include_folder: Path, name: str) -> None:
    call, reference, low, high = SPECIAL[name]
    headers = {"expm1f": ["expm1f"], "igamma": ["expm1f", "special_math", "igamma"]}.get(name, ["special_math"])
    includes = "".join(f"#include <c10/metal/{header}.h>\n" for header in headers)
    signature = "kernel void k(device float* o, constant float* in, uint i [[thread_position_in_grid]])"
    body = f"{{ float x = in[i]; o[i] = c10::metal::{call}; }}"
    kernel = compiled(f"{includes}{signature} {body}", include_folder)["k"]
    x = np.linspace(low, high, 40, dtype=np.float32)
    out = mk.zeros(40)
    kernel(out, mk.array(x), ndrange=40)
    wanted = np.array([reference(float(v)) for v in x])
    np.testing.assert_allclose(out.numpy(), wanted, rtol=3e-5, atol=3e-6 * max(1.0, float(np.abs(wanted).max())))


REDUCE = """
#include <c10/metal/utils.h>
#include <c10/metal/reduction_utils.h>
[[max_total_threads_per_threadgroup(256)]]
kernel void generated_kernel(device float* sums, device float* bests, device long* places, device float2* moments,
                             device long* counts, constant TYPE* in, constant uint& n,
                             uint2 thread_pos [[thread_position_in_grid]], uint2 group_pos [[thread_position_in_threadgroup]]) {
  auto x0 = thread_pos.x, r0 = thread_pos.y;
  threadgroup float acc_0[8];
  threadgroup TYPE acc_1[8];
  threadgroup TYPE acc_2[8];
  threadgroup long acc_3[8];
  threadgroup float3 acc_4[256];
  threadgroup long acc_5[8];
  float sum = 0;
  TYPE best = c10::metal::MaxOp<TYPE>::identity();
  long place = 0, count = 0;
  acc_4[r0] = 0.0;
  for (auto cnt = 0; cnt < 16; ++cnt) {
    uint r = 256 * cnt + r0;
    if (r >= n) break;
    auto v = in[x0 * n + r];
    sum += static_cast<float>(v);
    if (c10::metal::MaxOp<TYPE>::replace(v, best)) { best = v; place = r; }
    acc_4[r0] = c10::metal::welford_combine(acc_4[r0], float3(v, 0.0, 1.0));
    count += v > 0 ? 1 : 0;
  }
  auto all = c10::metal::threadgroup_sum(acc_0, sum, r0, 256);
  auto most = c10::metal::threadgroup_max(acc_1, best, r0, 256);
  auto where = c10::metal::threadgroup_argmax(acc_2, acc_3, best, place, r0, 256);
  auto moment = c10::metal::threadgroup_welford_combine(acc_4, r0, 256);
  auto positive = c10::metal::threadgroup_sum(acc_5, count, r0, 256);
  if (r0 == 0) {
    sums[x0] = all; bests[x0] = static_cast<float>(most); places[x0] = where;
    moments[x0] = float2(moment.x, moment.y / moment.z); counts[x0] = positive;
  }
}
"""


@pytest.mark.parametrize("n", [256, 1000, 4096])
@pytest.mark.parametrize(
    ("kind", "dtype"), [("float", np.float32), ("half", np.float16), ("bfloat", ml_dtypes.bfloat16)]
)
def test_reductions(include_folder: Path, kind: str, dtype: Any, n: int) -> None:
    x = np.random.default_rng(n).standard_normal((3, n)).astype(dtype)
    sums, bests, places = mk.zeros(3), mk.zeros(3), mk.zeros(3, np.int64)
    moments, counts = mk.zeros((3, 2)), mk.zeros(3, np.int64)
    kernel = compiled(REDUCE.replace("TYPE", kind), include_folder)["generated_kernel"]
    kernel(sums, bests, places, moments, counts, mk.array(x), n, ndrange=(3, 256), workgroupsize=(1, 256))
    wide = x.astype(np.float64)
    np.testing.assert_allclose(sums.numpy(), wide.sum(1), rtol=1e-5, atol=1e-3)
    np.testing.assert_array_equal(bests.numpy(), wide.max(1))
    np.testing.assert_array_equal(np.take_along_axis(wide, places.numpy()[:, None], 1)[:, 0], wide.max(1))
    np.testing.assert_allclose(moments.numpy()[:, 0], wide.mean(1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(moments.numpy()[:, 1], wide.var(1), rtol=1e-4)
    np.testing.assert_array_equal(counts.numpy(), (wide > 0).sum(1))


OPERATIONS = """
#include <c10/metal/indexing.h>
#include <c10/metal/random.h>
struct twice_functor { template <typename T> inline T operator()(const T x) { return x + x; } };
struct hypotenuse_functor {
  template <typename T> inline T operator()(const T a, const T b) {
    return static_cast<T>(::metal::precise::sqrt(float(a) * float(a) + float(b) * float(b)));
  }
};
REGISTER_UNARY_OP(twice, float, float);
REGISTER_UNARY_OP(twice, half, half);
REGISTER_UNARY_OP(twice, bfloat, bfloat);
REGISTER_UNARY_OP(twice, int, int);
REGISTER_BINARY_OP(hypotenuse, float, float);
REGISTER_BINARY_OP(hypotenuse, half, half);
kernel void normal(device float* o, uint i [[thread_position_in_grid]]) { o[i] = c10::metal::randn(11, i); }
"""


def test_registered_operations(include_folder: Path) -> None:
    """Every kernel that the registration makes becomes a pipeline; the dense ones and the random numbers are run."""
    library = compiled(OPERATIONS, include_folder)
    assert len(library.function_names) > 30
    for name in library.function_names:
        library.kernel(name)
    for kind, dtype in (("float", np.float32), ("half", np.float16), ("bfloat", ml_dtypes.bfloat16), ("int", np.int32)):
        x = np.arange(100).astype(dtype)
        out = mk.zeros(100, dtype)
        dense = library[f"twice_dense_{kind}_{kind}"]
        dense(
            out, mk.array(x), *([100] if len(dense.arguments) == 3 else []), ndrange=100
        )  # threads too many do nothing
        np.testing.assert_array_equal(out.numpy().astype(np.float64), 2.0 * np.arange(100))
    numbers = mk.zeros(20000)
    library["normal"](numbers, ndrange=20000)
    assert abs(float(numbers.numpy().mean())) < 0.03
    assert abs(float(numbers.numpy().std()) - 1) < 0.03
