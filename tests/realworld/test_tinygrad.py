"""tinygrad's tensors on metalki: what its Metal renderer emits compiles unchanged and gives numpy's answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

WHY = "tinygrad is not installed; see tests/realworld/README.md"
tinygrad_device = pytest.importorskip("tinygrad_device", reason=WHY)  # first: it says which device tinygrad opens
tinygrad = pytest.importorskip("tinygrad", reason=WHY)
tinygrad_device.install()
Tensor, TinyJit, Variable, dtypes, nn = (
    tinygrad.Tensor, tinygrad.TinyJit, tinygrad.Variable, tinygrad.dtypes, tinygrad.nn,
)  # fmt: skip

DTYPES = {
    "float": dtypes.float32, "half": dtypes.float16, "bfloat": dtypes.bfloat16, "bool": dtypes.bool,
    "char": dtypes.int8, "uchar": dtypes.uint8, "short": dtypes.int16, "ushort": dtypes.uint16,
    "int": dtypes.int32, "uint": dtypes.uint32, "long": dtypes.int64, "ulong": dtypes.uint64,
}  # fmt: skip
FLOATS, INTEGERS = ("float", "half", "bfloat"), ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong")
TOLERANCE = {"float": 2e-5, "half": 4e-3, "bfloat": 3e-2}


def random(*shape: int, low: float = -2, high: float = 2, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def near(got: Any, wanted: Any, tolerance: float = 2e-5) -> None:
    values = got.cast(dtypes.float32).numpy() if got.dtype in (dtypes.float16, dtypes.bfloat16) else got.numpy()
    wanted = np.asarray(wanted, np.float64)
    assert values.shape == wanted.shape
    np.testing.assert_allclose(values.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)


def as_stored(x: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    """The values in float64 that a tensor of this type holds."""
    narrow = {"float": np.float32, "half": np.float16, "bfloat": ml_dtypes.bfloat16}[kind]
    return x.astype(narrow).astype(np.float64)


UNARY: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], float]] = {
    "exp": (Tensor.exp, np.exp, -2),
    "log": (Tensor.log, np.log, 0.5),
    "sin": (Tensor.sin, np.sin, -2),
    "cos": (Tensor.cos, np.cos, -2),
    "tan": (Tensor.tan, np.tan, -1),
    "sqrt": (Tensor.sqrt, np.sqrt, 0.5),
    "rsqrt": (Tensor.rsqrt, lambda x: 1 / np.sqrt(x), 0.5),
    "reciprocal": (Tensor.reciprocal, lambda x: 1 / x, 0.5),
    "sigmoid": (Tensor.sigmoid, lambda x: 1 / (1 + np.exp(-x)), -2),
    "tanh": (Tensor.tanh, np.tanh, -2),
    "relu": (Tensor.relu, lambda x: np.maximum(x, 0), -2),
    "floor": (Tensor.floor, np.floor, -2),
    "trunc": (Tensor.trunc, np.trunc, -2),
    "abs": (Tensor.abs, np.abs, -2),
    "erf": (Tensor.erf, lambda x: np.vectorize(__import__("math").erf)(x), -2),
}


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, kind: str) -> None:
    ours, reference, low = UNARY[name]
    x = random(33, 65, low=low, high=1.3)
    near(ours(Tensor(x).cast(DTYPES[kind]).realize()), reference(as_stored(x, kind)), 4 * TOLERANCE[kind])


@pytest.mark.parametrize("kind", INTEGERS)
def test_integer_arithmetic(kind: str) -> None:
    rng = np.random.default_rng(1)
    dtype = np.dtype(
        {"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4"}.get(kind, "i8")
    )
    dtype = np.dtype("u8") if kind == "ulong" else dtype
    a, b = (rng.integers(1, 11, (7, 33)).astype(dtype) for _ in range(2))
    x, y = Tensor(a), Tensor(b)
    for got, wanted in (
        (x + y, a + b), (x * y, a * b), (x // y, a // b), (x % y, a % b), (x & y, a & b), (x | y, a | b), (x ^ y, a ^ b),
        (x << 2, a << 2), (x >> 1, a >> 1), (x.maximum(y), np.maximum(a, b)), ((x < y).where(x, y), np.minimum(a, b)),
    ):  # fmt: skip
        np.testing.assert_array_equal(got.numpy(), wanted)


@pytest.mark.parametrize("to", DTYPES)
@pytest.mark.parametrize("given", DTYPES)
def test_casts(given: str, to: str) -> None:
    values = np.array([0, 1, 2, 3, 100, 7] * 5, np.float32)
    wanted = (values != 0) if "bool" in (given, to) else values
    near(Tensor(values).cast(DTYPES[given]).realize().cast(DTYPES[to]).contiguous(), wanted.astype(np.float64))


@pytest.mark.parametrize("kind", ["float", "uint"])
def test_bitcast(kind: str) -> None:
    x = random(64)
    bits = Tensor(x).bitcast(dtypes.uint32).contiguous()
    np.testing.assert_array_equal(bits.numpy(), x.view(np.uint32))
    np.testing.assert_array_equal(bits.bitcast(dtypes.float32).contiguous().numpy(), x)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), -1])
@pytest.mark.parametrize("kind", FLOATS)
def test_reductions(kind: str, axis: Any) -> None:
    x = random(17, 33, 40)
    tensor, wide = Tensor(x).cast(DTYPES[kind]).realize(), as_stored(x, kind)
    near(tensor.cast(dtypes.float32).sum(axis), wide.sum(axis), 2e-3)
    near(tensor.max(axis), wide.max(axis), TOLERANCE[kind])
    near(tensor.mean(axis), wide.mean(axis), TOLERANCE[kind])
    near(tensor.float().std(axis), wide.std(axis, ddof=1), 1e-4)


def test_large_sum() -> None:
    x = random(1 << 20)
    near(Tensor(x).sum(), x.astype(np.float64).sum(), 5e-2)
    assert Tensor(x).argmax().item() == x.argmax()


@pytest.mark.parametrize(
    "size", [(4, 4, 4), (16, 16, 16), (64, 64, 64), (33, 65, 17), (128, 32, 256), (1, 512, 512), (512, 1, 64)]
)
@pytest.mark.parametrize("kind", FLOATS)
def test_matmul(kind: str, size: tuple[int, int, int]) -> None:
    m, k, n = size
    a, b = random(m, k), random(k, n, seed=1)
    got = Tensor(a).cast(DTYPES[kind]).realize() @ Tensor(b).cast(DTYPES[kind]).realize()
    near(got, as_stored(a, kind) @ as_stored(b, kind), TOLERANCE[kind] * max(4, k / 8))


def test_matmul_uses_simdgroup_matrices() -> None:
    """The renderer's tensor cores are exercised: 8x8 multiplications by thread_elements()."""
    (Tensor(random(72, 72)) @ Tensor(random(72, 72, seed=1))).realize()
    assert any("simdgroup_multiply_accumulate" in source for source in tinygrad_device.rendered.values())


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("groups", [1, 4])
def test_convolution(groups: int, stride: int) -> None:
    x, w = random(2, 8, 13, 14), random(12, 8 // groups, 3, 3, seed=1)
    got = Tensor(x).conv2d(Tensor(w), groups=groups, stride=stride, padding=1)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::stride, ::stride]
    per, out = 8 // groups, 12 // groups
    wanted = np.concatenate([
        np.einsum("bchwij,ocij->bohw", windows[:, g * per : (g + 1) * per], w[g * out : (g + 1) * out].astype(np.float64))
        for g in range(groups)
    ], 1)  # fmt: skip
    near(got, wanted, 1e-4)


def test_pooling_and_padding() -> None:
    x = random(2, 3, 12, 12)
    tensor = Tensor(x)
    blocks = x.reshape(2, 3, 6, 2, 6, 2).astype(np.float64)
    near(tensor.avg_pool2d(2), blocks.mean((3, 5)))
    near(tensor.max_pool2d(2), blocks.max((3, 5)))
    near(tensor.pad((1, 2, 3, 4), value=5.0), np.pad(x, ((0, 0), (0, 0), (3, 4), (1, 2)), constant_values=5))


@pytest.mark.parametrize("kind", FLOATS)
def test_softmax_and_norms(kind: str) -> None:
    x = random(9, 100)
    tensor, wide = Tensor(x).cast(DTYPES[kind]).realize(), as_stored(x, kind)
    e = np.exp(wide - wide.max(1, keepdims=True))
    near(tensor.softmax(1), e / e.sum(1, keepdims=True), TOLERANCE[kind])
    near(tensor.log_softmax(1), np.log(e / e.sum(1, keepdims=True)), 2 * TOLERANCE[kind])
    normal = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    near(tensor.layernorm(), normal, 4 * TOLERANCE[kind])


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool) -> None:
    q, k, v = (random(2, 4, 24, 32, seed=n) for n in range(3))
    scores = np.einsum("bhqd,bhkd->bhqk", q.astype(np.float64), k) / np.sqrt(32)
    if causal:
        scores = np.where(np.tri(24, dtype=bool), scores, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    got = Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v), is_causal=causal)
    near(got, (e / e.sum(-1, keepdims=True)) @ v, 1e-4)


def test_scan_sort_and_indexing() -> None:
    x = random(5, 200)
    tensor = Tensor(x)
    near(tensor.cumsum(1), x.astype(np.float64).cumsum(1), 1e-3)
    near(tensor.cummax(1)[0], np.maximum.accumulate(x, 1))
    values, order = tensor.sort(1)
    near(values, np.sort(x, 1))
    np.testing.assert_array_equal(np.take_along_axis(x, order.numpy().astype(int), 1), np.sort(x, 1))
    near(tensor.topk(7, 1)[0], -np.sort(-x, 1)[:, :7])
    rows = np.array([4, 0, 2, 2])
    near(tensor[Tensor(rows.astype(np.int32))], x[rows])
    near(tensor[1:4, ::3].flip(0).permute(1, 0), x[1:4, ::3][::-1].T)
    near(tensor.gather(1, Tensor(np.tile(rows, (5, 1)).astype(np.int32))), x[:, rows])


def test_random_numbers() -> None:
    """Threefry in MSL: uniform numbers, the same ones for the same seed."""
    Tensor.manual_seed(3)
    first = Tensor.rand(10000).numpy()
    Tensor.manual_seed(3)
    np.testing.assert_array_equal(first, Tensor.rand(10000).numpy())
    assert first.min() >= 0
    assert first.max() < 1
    assert abs(first.mean() - 0.5) < 0.02
    normal = Tensor.randn(10000).numpy()
    assert abs(normal.std() - 1) < 0.05


def test_symbolic_shape() -> None:
    """Sizes that are arguments: `constant int& n`."""
    x = random(10, 64)

    @TinyJit
    def row_sum(t: Any) -> Any:
        return t.sum(0).realize()

    for n in range(2, 9):
        bound = Variable("n", 1, 10).bind(n)
        near(row_sum(Tensor(x)[:bound]), x[:n].astype(np.float64).sum(0), 1e-4)


def test_training_reduces_the_loss() -> None:
    """A small network with its backward pass and Adam, then the same step once more under TinyJit."""
    rng = np.random.default_rng(0)
    x = Tensor(rng.standard_normal((64, 1, 12, 12)).astype(np.float32))
    y = Tensor(rng.integers(0, 4, 64).astype(np.int32))
    layers = [
        nn.Conv2d(1, 8, 3),
        Tensor.relu,
        nn.BatchNorm(8),
        Tensor.max_pool2d,
        lambda t: t.flatten(1),
        nn.Linear(200, 4),
    ]
    optimiser = nn.optim.Adam(nn.state.get_parameters(layers), lr=0.01)
    losses = []
    with tinygrad.helpers.Context(TRAINING=1):
        for _ in range(8):
            loss = x.sequential(layers).sparse_categorical_crossentropy(y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0], losses
