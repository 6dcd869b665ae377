"""candle's kernels give right answers: random inputs, compared with numpy in float64."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import candle
import numpy as np
import pytest
from compare import DTYPES, near

import metalki as mk

FLOATS = ["f32", "f16", "bf16"]
erf = np.vectorize(math.erf)

UNARY: dict[str, tuple[Any, tuple[float, float], float]] = {  # reference, domain, roundings allowed
    "sqr": (np.square, (-3, 3), 2),
    "sqrt": (np.sqrt, (0.01, 9), 4),
    "neg": (np.negative, (-3, 3), 0),
    "recip": (lambda x: 1 / x, (0.2, 3), 4),
    "copy": (lambda x: x, (-3, 3), 0),
    "silu": (lambda x: x / (1 + np.exp(-x)), (-3, 3), 16),
    "relu": (lambda x: np.maximum(x, 0), (-3, 3), 0),
    "cos": (np.cos, (-3, 3), 8),
    "sin": (np.sin, (-3, 3), 8),
    "exp": (np.exp, (-3, 3), 8),
    "log": (np.log, (0.1, 9), 8),
    "abs": (np.abs, (-3, 3), 0),
    "ceil": (np.ceil, (-3, 3), 0),
    "floor": (np.floor, (-3, 3), 0),
    "round": (lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), (-3, 3), 0),
    "sign": (np.sign, (-3, 3), 0),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), (-3, 3), 16),
    "tanh": (np.tanh, (-3, 3), 8),
    "erf": (erf, (-3, 3), 8),
    "gelu_erf": (lambda x: x * (1 + erf(x / math.sqrt(2))) / 2, (-3, 3), 16),
    "gelu": (lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), (-3, 3), 16),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", list(UNARY))
def test_unary(candle_root: Path, op: str, dtype: str) -> None:
    function, domain, roundings = UNARY[op]
    x = np.random.default_rng(0).uniform(*domain, (7, 31)).astype(DTYPES[dtype])
    out = mk.zeros(x.shape, x.dtype)
    k = candle.kernel(candle_root, "unary", f"{op}_{dtype}")
    k(x.size, mk.array(x), out, ndrange=candle.work(x.dtype, x.size))
    wanted = function(x.astype(np.float64))
    # erf is a polynomial good to 1.5e-7.
    near(out.numpy(), wanted, x.dtype, roundings, scale=1.0 if roundings else None)
    strided = mk.zeros(x.T.shape, x.dtype)
    k = candle.kernel(candle_root, "unary", f"{op}_{dtype}_strided")
    dims, steps = candle.sizes(*x.T.shape), candle.strides(x.T)
    k(x.size, 2, dims, steps, mk.array(x), strided, ndrange=x.size)
    near(strided.numpy(), wanted.T, x.dtype, roundings, scale=1.0 if roundings else None)


BINARY: dict[str, Any] = {
    "badd": np.add, "bsub": np.subtract, "bmul": np.multiply, "bdiv": np.divide, "bminimum": np.minimum,
    "bmaximum": np.maximum, "eq": np.equal, "lt": np.less, "ge": np.greater_equal,
}  # fmt: skip


# MSL allows 2.5 units in the last place where mathematics is not safe, which GPUs make use of.
DIVISION = 5 if mk.device().kind == "cuda" else 1


@pytest.mark.parametrize("dtype", [*FLOATS, "u8", "u32", "i64"])
@pytest.mark.parametrize("op", list(BINARY))
def test_binary(candle_root: Path, op: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    kind = DTYPES[dtype]
    integer = kind.kind in "iu"
    a, b = (rng.integers(1, 9, (6, 10)).astype(kind) for _ in range(2))
    if not integer:
        a, b = (rng.uniform(0.5, 3, (6, 10)).astype(kind) for _ in range(2))
        b[::2] = a[::2]
    wanted = BINARY[op](a.astype(np.float64), b.astype(np.float64))
    boolean = wanted.dtype == bool
    roundings = DIVISION if op == "bdiv" else 1
    if integer and op == "bdiv":
        wanted = np.trunc(wanted)
    if integer and op == "bsub":
        wanted = (a - b).astype(np.float64)
    out_type = np.dtype(bool) if boolean else kind
    out = mk.zeros(a.shape, out_type)
    k = candle.kernel(candle_root, "binary", f"{op}_{dtype}")
    k(a.size, mk.array(a), mk.array(b), out, ndrange=candle.work(kind, a.size))
    near(out.numpy(), wanted, out_type, roundings)
    flipped = np.ascontiguousarray(b.T)
    k = candle.kernel(candle_root, "binary", f"{op}_{dtype}_strided")
    out = mk.zeros(a.shape, out_type)
    dims = candle.sizes(*a.shape)
    k(
        a.size,
        2,
        dims,
        candle.strides(a),
        candle.strides(flipped.T),
        mk.array(a),
        mk.array(flipped),
        out,
        ndrange=a.size,
    )
    near(out.numpy(), wanted, out_type, roundings)


@pytest.mark.parametrize("dtype", FLOATS)
def test_affine(candle_root: Path, dtype: str) -> None:
    x = np.random.default_rng(2).standard_normal(101).astype(DTYPES[dtype])
    out = mk.zeros(x.shape, x.dtype)
    k = candle.kernel(candle_root, "affine", f"affine_{dtype}")
    k(x.size, 1.25, -0.5, mk.array(x), out, ndrange=candle.work(x.dtype, x.size))
    near(out.numpy(), x.astype(np.float64) * 1.25 - 0.5, x.dtype, 1, scale=1.0)


@pytest.mark.parametrize("to", ["f32", "f16", "bf16", "i64", "u32", "u8"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i64", "u32", "u8"])
def test_cast(candle_root: Path, dtype: str, to: str) -> None:
    source, target = DTYPES[dtype], DTYPES[to]
    x = np.random.default_rng(3).uniform(0, 200, 77).astype(source)
    out = mk.zeros(x.shape, target)
    k = candle.kernel(candle_root, "cast", f"cast_{dtype}_{to}")
    k(x.size, mk.array(x), out, ndrange=candle.work(source, x.size))
    wanted = x.astype(np.float32).astype(target) if target.kind not in "iu" else np.trunc(x.astype(np.float64))
    near(out.numpy(), wanted, target, 0)


@pytest.mark.parametrize("contiguous", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "f16", "u8", "i64"])
def test_where(candle_root: Path, dtype: str, contiguous: bool) -> None:
    rng = np.random.default_rng(4)
    t, f = (rng.integers(0, 100, (4, 9)).astype(DTYPES[dtype]) for _ in range(2))
    ids = rng.integers(0, 2, (4, 9)).astype(np.uint8)
    out = mk.zeros(t.shape, t.dtype)
    steps = candle.strides(t)
    constants = {f"{name}_CONTIGUOUS": contiguous for name in ("IDS", "T", "F")}
    k = candle.kernel(candle_root, "ternary", f"where_u8_{dtype}", **constants)
    sizes = (t.size, 2, candle.sizes(4, 9), candle.strides(ids), steps, steps)
    k(*sizes, mk.array(ids), mk.array(t), mk.array(f), out, ndrange=t.size)
    near(out.numpy(), np.where(ids, t, f), t.dtype, 0)


@pytest.mark.parametrize("dtype", ["f32", "f16", "u8", "u32", "i64"])
def test_fill(candle_root: Path, dtype: str) -> None:
    out = mk.zeros(50, DTYPES[dtype])
    candle.kernel(candle_root, "fill", f"fill_{dtype}")(out, 7, 45, ndrange=50)
    assert out.numpy().astype(int).tolist() == [7] * 45 + [0] * 5


REDUCTIONS: dict[str, Any] = {"sum": np.sum, "mul": np.prod, "max": np.max, "min": np.min}


@pytest.mark.parametrize("threads", [1, 32, 128, 1024])
@pytest.mark.parametrize("dtype", [*FLOATS, "u32"])
@pytest.mark.parametrize("op", list(REDUCTIONS))
def test_reduce(candle_root: Path, op: str, dtype: str, threads: int) -> None:
    rng = np.random.default_rng(5)
    rows, n = 3, 300
    kind = DTYPES[dtype]
    x = (
        rng.uniform(0.9, 1.1, (rows, n)).astype(kind)
        if kind.kind != "u"
        else rng.integers(1, 3, (rows, n)).astype(kind)
    )
    if kind.kind == "u" and op == "mul":
        x[:, 20:] = 1
    out = mk.zeros(rows, kind)
    k = candle.kernel(candle_root, "reduce", f"fast_{op}_{dtype}")
    k(x.size, 2, np.array([rows, n], np.uint32), n, mk.array(x), out, numworkgroups=rows, workgroupsize=threads)
    wanted = REDUCTIONS[op](x.astype(np.float64), axis=-1)
    # Sums and products of many 16-bit numbers are rounded at every step.
    near(out.numpy(), wanted, kind, 0 if op in ("max", "min") else 64)


@pytest.mark.parametrize("threads", [32, 128, 256])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["argmin", "argmax"])
def test_arg_reduce(candle_root: Path, op: str, dtype: str, threads: int) -> None:
    rows, n = 5, 200
    x = np.stack([np.random.default_rng(i).permutation(n) for i in range(rows)]).astype(DTYPES[dtype])
    out = mk.zeros(rows, np.uint32)
    k = candle.kernel(candle_root, "reduce", f"fast_{op}_{dtype}")
    k(x.size, 2, np.array([rows, n], np.uint32), n, mk.array(x), out, numworkgroups=rows, workgroupsize=threads)
    assert out.numpy().tolist() == getattr(x.astype(np.float64), op)(-1).tolist()


@pytest.mark.parametrize("threads", [32, 256])
@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax(candle_root: Path, dtype: str, threads: int) -> None:
    rows, n = 4, 333
    x = np.random.default_rng(6).standard_normal((rows, n)).astype(DTYPES[dtype])
    x[:, 5] = -np.inf
    out = mk.zeros(x.shape, x.dtype)
    k = candle.kernel(candle_root, "reduce", f"softmax_{dtype}")
    k(x.size, n, mk.array(x), out, numworkgroups=rows, workgroupsize=threads)
    weights = np.exp(x.astype(np.float64) - x.astype(np.float64).max(-1, keepdims=True))
    near(out.numpy(), weights / weights.sum(-1, keepdims=True), x.dtype, 32, scale=0.01)


@pytest.mark.parametrize("threads", [32, 256])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", ["rmsnorm", "layernorm"])
def test_norm(candle_root: Path, kind: str, dtype: str, threads: int) -> None:
    rng = np.random.default_rng(7)
    rows, n = 4, 200
    x, w, b = (rng.standard_normal(s).astype(DTYPES[dtype]) for s in ((rows, n), n, n))
    out = mk.zeros(x.shape, x.dtype)
    k = candle.kernel(candle_root, "reduce", f"{kind}_{dtype}")
    weights = (mk.array(w), mk.array(b)) if kind == "layernorm" else (mk.array(w),)
    k(x.size, n, mk.array(x), out, *weights, 1e-5, numworkgroups=rows, workgroupsize=threads)
    x64 = x.astype(np.float64)
    if kind == "layernorm":
        x64 = x64 - x64.mean(-1, keepdims=True)
    wanted = x64 / np.sqrt(np.square(x64).mean(-1, keepdims=True) + 1e-5) * w
    wanted = wanted + b if kind == "layernorm" else wanted
    near(out.numpy(), wanted, x.dtype, 16, scale=2.0)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", ["rope", "rope_i", "rope_thd"])
def test_rope(candle_root: Path, kind: str, dtype: str) -> None:
    rng = np.random.default_rng(8)
    b, h, t, d = 2, 3, 5, 8
    shape = (b, t, h, d) if kind == "rope_thd" else (b, h, t, d)
    x = rng.standard_normal(shape).astype(DTYPES[dtype])
    angle = np.arange(t)[:, None] * 100.0 ** (-np.arange(d // 2) / (d // 2))
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    sizes = {"rope": (b * h, t * d, d, 0), "rope_i": (b * h, t * d, 0), "rope_thd": (b, t, h, d, 0)}[kind]
    out = mk.zeros(x.shape, x.dtype)
    k = candle.kernel(candle_root, "reduce", f"{kind}_{dtype}")
    k(*sizes, mk.array(x), mk.array(cos), mk.array(sin), out, ndrange=x.size // 2)
    x64, c, s = x.astype(np.float64), cos.astype(np.float64), sin.astype(np.float64)
    if kind == "rope_thd":
        c, s = c[:, None], s[:, None]
    if kind == "rope_i":
        first, second = x64[..., 0::2], x64[..., 1::2]
        wanted = np.stack([first * c - second * s, first * s + second * c], -1).reshape(shape)
    else:
        first, second = x64[..., : d // 2], x64[..., d // 2 :]
        wanted = np.concatenate([first * c - second * s, first * s + second * c], -1)
    near(out.numpy(), wanted, x.dtype, 4, scale=2.0)


@pytest.mark.parametrize("dtype", ["f32", "f16", "u32"])
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_argsort(candle_root: Path, order: str, dtype: str) -> None:
    rows, n, padded = 3, 50, 64
    x = np.stack([np.random.default_rng(i).permutation(n) for i in range(rows)]).astype(DTYPES[dtype])
    out = mk.zeros(x.shape, np.uint32)
    k = candle.kernel(candle_root, "sort", f"asort_{order}_{dtype}")
    k(mk.array(x), out, n, padded, mk.threadgroup(padded * 4), numworkgroups=(1, rows, 1), workgroupsize=padded)
    wanted = np.argsort(x.astype(np.float64) * (1 if order == "asc" else -1), -1)
    assert (out.numpy() == wanted).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [1000, 1001])
def test_random_uniform(candle_root: Path, dtype: str, n: int) -> None:
    seed, out = mk.array(np.array([299792458], np.uint64).view(np.uint8)), mk.full(n, -9.0, DTYPES[dtype])
    k = candle.kernel(candle_root, "random", f"rand_uniform_{dtype}")
    k(n, -1.0, 3.0, seed, out, ndrange=n // 2 + n % 2)
    x = out.numpy().astype(np.float64)
    assert x.min() >= -1
    assert x.max() <= 3
    assert abs(x.mean() - 1) < 0.15
    assert abs(x.var() - 16 / 12) < 0.15
    assert int(seed.numpy().view(np.uint64)[0]) != 299792458


@pytest.mark.parametrize("dtype", FLOATS)
def test_random_normal(candle_root: Path, dtype: str) -> None:
    seed, out = mk.array(np.array([5], np.uint64).view(np.uint8)), mk.zeros(4000, DTYPES[dtype])
    k = candle.kernel(candle_root, "random", f"rand_normal_{dtype}")
    k(4000, 2.0, 0.5, seed, out, ndrange=2000)
    x = out.numpy().astype(np.float64)
    assert abs(x.mean() - 2) < 0.05
    assert abs(x.std() - 0.5) < 0.05


@pytest.mark.parametrize("dtype", FLOATS)
def test_index_select(candle_root: Path, dtype: str) -> None:
    x = np.random.default_rng(9).standard_normal((6, 5)).astype(DTYPES[dtype])
    ids = np.array([4, 0, 4, 5], np.uint32)
    out = mk.zeros((4, 5), x.dtype)
    k = candle.kernel(candle_root, "indexing", f"is_u32_{dtype}")
    sizes = (20, 1, 6, 5, 4, True, candle.sizes(6, 5), candle.strides(x))
    k(*sizes, mk.array(x), mk.array(ids), out, ndrange=20)
    near(out.numpy(), x[ids], x.dtype, 0)


@pytest.mark.parametrize("dtype", FLOATS)
def test_im2col(candle_root: Path, dtype: str) -> None:
    b, c, h, w, kh, kw = 2, 3, 6, 7, 3, 2
    x = np.random.default_rng(10).standard_normal((b, c, h, w)).astype(DTYPES[dtype])
    oh, ow = h + 2 - kh + 1, w + 2 - kw + 1
    out = mk.zeros((b, oh, ow, c, kh, kw), x.dtype)
    k = candle.kernel(candle_root, "conv", f"im2col_{dtype}")
    dims = candle.sizes(*x.shape)
    k(out.size, oh, ow, kh, kw, 1, 1, 1, dims, candle.strides(x), mk.array(x), out, ndrange=out.size)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    wanted = np.lib.stride_tricks.sliding_window_view(padded, (kh, kw), (2, 3)).transpose(0, 2, 3, 1, 4, 5)
    near(out.numpy(), wanted, x.dtype, 0)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_pool(candle_root: Path, kind: str, dtype: str) -> None:
    x = np.random.default_rng(11).standard_normal((2, 3, 8, 6)).astype(DTYPES[dtype])
    out = mk.zeros((2, 3, 4, 3), x.dtype)
    k = candle.kernel(candle_root, "conv", f"{kind}_pool2d_{dtype}")
    k(2, 2, 2, 2, candle.sizes(*x.shape), candle.strides(x), mk.array(x), out, ndrange=out.size)
    windows = x.astype(np.float64).reshape(2, 3, 4, 2, 3, 2)
    near(out.numpy(), windows.mean((3, 5)) if kind == "avg" else windows.max((3, 5)), x.dtype, 4, scale=1.0)


@pytest.mark.parametrize("shape", [(64, 64, 32), (33, 45, 20)])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("tile", ["32_32_16_2_2", "64_64_16_2_2"])
def test_gemm_with_simdgroup_matrices(
    candle_root: Path, tile: str, layout: str, dtype: str, shape: tuple[int, int, int]
) -> None:
    m, n, k = shape
    batch = 2
    rng = np.random.default_rng(12)
    a, b = (
        rng.standard_normal((batch, m, k)).astype(DTYPES[dtype]),
        rng.standard_normal((batch, k, n)).astype(DTYPES[dtype]),
    )
    stored_a = np.ascontiguousarray(a.swapaxes(1, 2)) if layout[0] == "t" else a
    stored_b = np.ascontiguousarray(b.swapaxes(1, 2)) if layout[1] == "t" else b
    bm, bn, bk, wm, wn = (int(x) for x in tile.split("_"))
    constants = {"has_batch": False, "use_out_source": False, "do_axpby": False, "do_gather": False}
    constants |= {"align_M": m % bm == 0, "align_N": n % bn == 0, "align_K": k % bk == 0}
    kernel = candle.kernel(candle_root, "mlx_gemm", f"gemm_{layout}_{dtype}_{dtype}_{tile}", **constants)
    tiles_n, tiles_m = -(-n // bn), -(-m // bm)
    members = [(name, "i4") for name in ("M", "N", "K", "lda", "ldb", "ldd", "tiles_n", "tiles_m")]
    members += [(name, "u8") for name in ("a", "b", "d")] + [(name, "i4") for name in ("swizzle", "iterations", "ndim")]
    params = np.array(
        (m, n, k, stored_a.shape[2], stored_b.shape[2], n, tiles_n, tiles_m, m * k, k * n, m * n, 0, k // bk, 1),
        np.dtype(members, align=True),
    )
    out = mk.zeros((batch, m, n), a.dtype)
    given = {"A": mk.array(stored_a), "B": mk.array(stored_b), "D": out, "params": params.tobytes()}
    given |= {"batch_shape": np.array([batch], np.int32), "batch_strides": candle.sizes(m * k, k * n)}
    values = {x.name: given.get(x.name) for x in kernel.arguments}
    kernel(values, numworkgroups=(tiles_n, tiles_m, batch), workgroupsize=(32, wn, wm))
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    near(out.numpy(), wanted, a.dtype, 4 if dtype != "f32" else 64, scale=8.0)


@pytest.mark.parametrize("dtype", ["float", "float16_t", "bfloat16_t"])
@pytest.mark.parametrize("size", [64, 128])
def test_attention_of_one_query(candle_root: Path, dtype: str, size: int) -> None:
    rng = np.random.default_rng(13)
    heads, kv_heads, n = 4, 2, 77
    q = rng.standard_normal((heads, size)).astype(DTYPES[dtype])
    keys, values = (rng.standard_normal((kv_heads, n, size)).astype(DTYPES[dtype]) for _ in range(2))
    k = candle.kernel(
        candle_root, "scaled_dot_product_attention", f"sdpa_vector_{dtype}_{size}", sdpa_vector_has_mask=False
    )
    out = mk.zeros(q.shape, q.dtype)
    scale = size**-0.5
    arrays = (mk.array(q), mk.array(keys), mk.array(values), out)
    given = [*arrays, heads // kv_heads, n, n * size, n * size, scale, 1.0]
    k(*given, *[None] * (len(k.arguments) - len(given)), numworkgroups=(1, heads, 1), workgroupsize=1024)
    k64, v64 = (x.astype(np.float64).repeat(heads // kv_heads, 0) for x in (keys, values))
    scores = np.einsum("hd,hnd->hn", q.astype(np.float64), k64) * scale
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = np.einsum("hn,hnd->hd", weights / weights.sum(-1, keepdims=True), v64)
    near(out.numpy(), wanted, q.dtype, 64 if dtype == "float" else 2, scale=1.0)
