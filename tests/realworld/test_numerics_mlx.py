"""MLX's kernels give right answers: random inputs, compared with numpy in float64."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import mlx
import numpy as np
import pytest
from compare import DTYPES, near

import metalki as mk

FLOATS = ["float32", "float16", "bfloat16"]
erf = np.vectorize(math.erf)

UNARY: dict[str, tuple[Any, tuple[float, float], float]] = {  # reference, domain, roundings allowed
    "Abs": (np.abs, (-3, 3), 0),
    "ArcCos": (np.arccos, (-0.99, 0.99), 8),
    "ArcTan": (np.arctan, (-3, 3), 8),
    "Ceil": (np.ceil, (-3, 3), 0),
    "Cos": (np.cos, (-3, 3), 8),
    "Cosh": (np.cosh, (-3, 3), 8),
    "Erf": (erf, (-3, 3), 64),  # by way of expm1
    "Exp": (np.exp, (-3, 3), 8),
    "Expm1": (np.expm1, (-1, 1), 64),  # its reduction by ln 2 has 24 bits
    "Log": (np.log, (0.1, 9), 8),
    "Log1p": (np.log1p, (-0.5, 3), 8),
    "Negative": (np.negative, (-3, 3), 0),
    "Round": (np.rint, (-3, 3), 0),
    "Rsqrt": (lambda x: 1 / np.sqrt(x), (0.1, 9), 4),
    "Sigmoid": (lambda x: 1 / (1 + np.exp(-x)), (-3, 3), 8),
    "Sign": (np.sign, (-3, 3), 0),
    "Square": (np.square, (-3, 3), 1),
    "Tanh": (np.tanh, (-3, 3), 8),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", list(UNARY))
def test_unary(mlx_root: Path, op: str, dtype: str) -> None:
    function, domain, roundings = UNARY[op]
    x = np.random.default_rng(0).uniform(*domain, (5, 7, 9)).astype(DTYPES[dtype])
    wanted = function(x.astype(np.float64))
    scale = 1.0 if roundings else None
    out = mk.zeros(x.shape, x.dtype)
    k = mlx.kernel(mlx_root, "unary", f"vn_{op}{dtype}{dtype}")
    k(mk.array(x), out, x.size, ndrange=-(-x.size // mlx.per_thread(x.dtype)))
    near(out.numpy(), wanted, x.dtype, roundings, scale)
    out = mk.zeros(x.T.shape, x.dtype)
    k = mlx.kernel(mlx_root, "unary", f"gn4large_{op}{dtype}{dtype}")
    shape, strides = mlx.ints(9, 7, 5), mlx.longs(1, 9, 63)
    k(mk.array(x), out, shape, strides, mk.array(mlx.ints(3)), ndrange=(2, 7, 9))
    near(out.numpy(), wanted.T, x.dtype, roundings, scale)


def test_complex_unary(mlx_root: Path) -> None:
    rng = np.random.default_rng(1)
    x = (rng.standard_normal(50) + 1j * rng.standard_normal(50)).astype(np.complex64)
    for op, function in (("Exp", np.exp), ("Sin", np.sin), ("Sqrt", np.sqrt), ("Conjugate", np.conj), ("Log", np.log)):
        out = mk.zeros(x.nbytes, np.uint8)
        k = mlx.kernel(mlx_root, "unary", f"v_{op}complex64complex64")
        k(mk.array(x.view(np.uint8)), out, x.size, ndrange=x.size)
        wanted = function(x.astype(np.complex128)).view(np.float64)
        near(out.numpy().view(np.float32), wanted, np.float32, 200 if op == "Sqrt" else 16, scale=2.0)  # Sqrt subtracts


BINARY: dict[str, Any] = {
    "Add": np.add, "Subtract": np.subtract, "Multiply": np.multiply, "Divide": np.divide, "Maximum": np.maximum,
    "Minimum": np.minimum, "Power": np.power, "Remainder": np.mod, "LogAddExp": np.logaddexp, "ArcTan2": np.arctan2,
    "Less": np.less, "Equal": np.equal,
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", list(BINARY))
def test_binary(mlx_root: Path, op: str, dtype: str) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.uniform(0.5, 3, (5, 7, 9)).astype(DTYPES[dtype]) for _ in range(2))
    b[::2] = a[::2]
    if op == "Remainder":
        b = (b + 0.25).astype(b.dtype)
    wanted = BINARY[op](a.astype(np.float64), b.astype(np.float64))
    kind = np.dtype(bool) if wanted.dtype == bool else a.dtype
    out = mk.zeros(a.shape, kind)
    k = mlx.kernel(mlx_root, "binary", f"vvn_{op}{dtype}")
    k(mk.array(a), mk.array(b), out, a.size, ndrange=-(-a.size // mlx.per_thread(a.dtype)))
    near(out.numpy(), wanted, kind, 12, scale=1.0)
    out = mk.zeros(a.shape, kind)
    k = mlx.kernel(mlx_root, "binary", f"g3_{op}{dtype}")
    flipped = np.ascontiguousarray(b.T)
    k(mk.array(a), mk.array(flipped), out, mlx.longs(63, 9, 1), mlx.longs(1, 5, 35), ndrange=(9, 7, 5))
    near(out.numpy(), wanted, kind, 12, scale=1.0)


def test_integer_binary(mlx_root: Path) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-50, 50, 99).astype(np.int32) for _ in range(2))
    b[b == 0] = 7
    references = {
        "Add": a + b,
        "Multiply": a * b,
        "Remainder": np.mod(a, b),
        "BitwiseXor": a ^ b,
        "Maximum": np.maximum(a, b),
    }
    for op, wanted in references.items():
        out = mk.zeros(a.shape, np.int32)
        mlx.kernel(mlx_root, "binary", f"vv_{op}int32")(mk.array(a), mk.array(b), out, a.size, ndrange=a.size)
        assert (out.numpy() == wanted).all(), op


@pytest.mark.parametrize("dtype", FLOATS)
def test_select(mlx_root: Path, dtype: str) -> None:
    rng = np.random.default_rng(4)
    c = rng.random(77) < 0.5
    a, b = (rng.standard_normal(77).astype(DTYPES[dtype]) for _ in range(2))
    out = mk.zeros(77, a.dtype)
    k = mlx.kernel(mlx_root, "ternary", f"vn_Select{dtype}")
    k(mk.array(c), mk.array(a), mk.array(b), out, 77, ndrange=-(-77 // mlx.per_thread(a.dtype)))
    near(out.numpy(), np.where(c, a, b), a.dtype, 0)


@pytest.mark.parametrize("to", [*FLOATS, "int32"])
@pytest.mark.parametrize("dtype", [*FLOATS, "int32"])
def test_copy(mlx_root: Path, dtype: str, to: str) -> None:
    source, target = DTYPES[dtype], DTYPES[to]
    x = (np.random.default_rng(5).standard_normal((4, 6, 10)) * 50).astype(source)
    wanted = x.astype(np.float64)
    wanted = np.trunc(wanted) if target.kind == "i" else x.astype(np.float32).astype(target)
    out = mk.zeros(x.shape, target)
    k = mlx.kernel(mlx_root, "copy", f"vn_copy{dtype}{to}")
    k(mk.array(x), out, x.size, ndrange=-(-x.size // mlx.per_thread(target)))
    near(out.numpy(), wanted, target, 0)
    out = mk.zeros(x.T.shape, target)
    k = mlx.kernel(mlx_root, "copy", f"g3_copy{dtype}{to}")
    mlx.launch(k, {0: mk.array(x), 1: out, 3: mlx.longs(1, 10, 60)}, ndrange=(4, 6, 10))
    near(out.numpy(), wanted.T, target, 0)


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "int64"])
def test_arange(mlx_root: Path, dtype: str) -> None:
    out = mk.zeros(60, DTYPES[dtype])
    mlx.kernel(mlx_root, "arange", f"arange{dtype}")(3, 2, out, ndrange=60)
    near(out.numpy(), 3 + 2 * np.arange(60), DTYPES[dtype], 0)


@pytest.mark.parametrize("threads", [32, 256])
@pytest.mark.parametrize("dtype", [*FLOATS, "int32"])
@pytest.mark.parametrize("op", ["sum", "prod", "min", "max"])
def test_reduce_all_and_rows(mlx_root: Path, op: str, dtype: str, threads: int) -> None:
    rng = np.random.default_rng(6)
    kind = DTYPES[dtype]
    x = (
        rng.uniform(0.98, 1.02, (8, 300)).astype(kind)
        if kind.kind != "i"
        else rng.integers(-9, 9, (8, 300)).astype(kind)
    )
    if kind.kind == "i" and op == "prod":
        x[:, 5:] = 1
    if kind.kind != "i" and op == "prod":
        x = (2.0 ** rng.integers(-1, 2, x.shape)).astype(kind)  # exact in any order
        x[:, 8:] = 1
    function = getattr(np, op)
    x64 = x.astype(np.float64)
    roundings = 0 if op in ("min", "max") else 64
    out = mk.zeros(1, kind)
    k = mlx.kernel(mlx_root, "reduce", f"all_reduce_{op}{dtype}")
    data = x64[:1] if op == "prod" and kind.kind == "i" else x64
    k(mk.array(data.astype(kind)), out, data.size, data.size, numworkgroups=1, workgroupsize=threads)
    near(out.numpy(), [function(data)], kind, roundings)
    out = mk.zeros(8, kind)
    k = mlx.kernel(mlx_root, "reduce", f"row_reduce_simple_{op}{dtype}")
    k(mk.array(x), out, 300, 8, numworkgroups=(1, 2, 1), workgroupsize=threads)
    near(out.numpy(), function(x64, axis=1), kind, roundings)


@pytest.mark.parametrize("dtype", FLOATS)
def test_reduce_columns(mlx_root: Path, dtype: str) -> None:
    x = np.random.default_rng(7).uniform(0.9, 1.1, (70, 64)).astype(DTYPES[dtype])
    out = mk.zeros(64, x.dtype)
    k = mlx.kernel(mlx_root, "reduce", f"col_reduce_looped_1_32_32_reduce_sum{dtype}")
    one, zero = mlx.ints(1), mlx.longs(0)
    sizes = (70, 64, one, zero, 0, mlx.ints(70), mlx.longs(64), 1, 1)
    k(mk.array(x), out, *sizes, numworkgroups=(2, 1, 1), workgroupsize=256)
    near(out.numpy(), x.astype(np.float64).sum(0), x.dtype, 64)


@pytest.mark.parametrize("threads", [32, 128, 1024])
@pytest.mark.parametrize("dtype", [*FLOATS, "int32"])
@pytest.mark.parametrize("op", ["argmin", "argmax"])
def test_arg_reduce(mlx_root: Path, op: str, dtype: str, threads: int) -> None:
    x = np.stack([np.random.default_rng(i).permutation(230) for i in range(4)]).astype(DTYPES[dtype])
    out = mk.zeros(4, np.uint32)
    k = mlx.kernel(mlx_root, "arg_reduce", f"{op}_{dtype}")
    sizes = (mlx.ints(4), mlx.longs(230), mlx.longs(1), 1, 1, 230)
    k(mk.array(x), out, *sizes, numworkgroups=(1, 4, 1), workgroupsize=(threads, 1, 1))
    assert out.numpy().tolist() == getattr(x.astype(np.float64), op)(-1).tolist()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", ["block", "looped"])
def test_softmax_and_logsumexp(mlx_root: Path, kind: str, dtype: str) -> None:
    rows, n = 3, 500
    x = np.random.default_rng(8).standard_normal((rows, n)).astype(DTYPES[dtype])
    x[0, :200] = -np.inf
    threads = mlx.rows_of_threads(n) if kind == "block" else 1024  # looped kernels read what all 32 SIMD-groups left
    x64 = x.astype(np.float64)
    top = x64.max(-1, keepdims=True)
    weights = np.exp(x64 - top)
    out = mk.zeros(x.shape, x.dtype)
    precise = "" if dtype == "float32" else "precise_"
    k = mlx.kernel(mlx_root, "softmax", f"{kind}_softmax_{precise}{dtype}")
    k(mk.array(x), out, n, numworkgroups=rows, workgroupsize=threads)
    near(out.numpy(), weights / weights.sum(-1, keepdims=True), x.dtype, 32 if dtype == "float32" else 2, scale=0.01)
    out = mk.zeros(rows, x.dtype)
    k = mlx.kernel(mlx_root, "logsumexp", f"{kind}_logsumexp_{dtype}")
    k(mk.array(x), out, n, numworkgroups=rows, workgroupsize=threads)
    near(out.numpy(), (top + np.log(weights.sum(-1, keepdims=True)))[:, 0], x.dtype, 16 if dtype == "float32" else 4)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("looped", ["", "_looped"])
@pytest.mark.parametrize("kind", ["rms", "layer_norm"])
def test_norm(mlx_root: Path, kind: str, looped: str, dtype: str) -> None:
    rng = np.random.default_rng(9)
    rows, n = 3, 508  # the kernel wants less than a thread of padding
    x, w, b = (rng.standard_normal(s).astype(DTYPES[dtype]) for s in ((rows, n), n, n))
    out = mk.zeros(x.shape, x.dtype)
    file = "rms_norm" if kind == "rms" else "layer_norm"
    k = mlx.kernel(mlx_root, file, f"{kind}{looped}{dtype}")
    threads = 1024 if looped else mlx.rows_of_threads(n, 8 if kind == "layer_norm" else 4)
    if kind == "rms":
        arguments: tuple[Any, ...] = (mk.array(x), mk.array(w), out, 1e-5, n, 1)
    else:
        arguments = (mk.array(x), mk.array(w), mk.array(b), out, 1e-5, n, 1, 1)
    k.launch(arguments, numworkgroups=rows, workgroupsize=threads)
    wanted = x.astype(np.float64)
    if kind == "layer_norm":
        wanted = wanted - wanted.mean(-1, keepdims=True)
    wanted = wanted / np.sqrt(np.square(wanted).mean(-1, keepdims=True) + 1e-5) * w
    wanted = wanted + b if kind == "layer_norm" else wanted
    near(out.numpy(), wanted, x.dtype, 16 if dtype == "float32" else 3, scale=2.0)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("traditional", [False, True])
def test_rope(mlx_root: Path, traditional: bool, dtype: str) -> None:
    heads, length, size = 6, 5, 32
    x = np.random.default_rng(10).standard_normal((heads, length, size)).astype(DTYPES[dtype])
    out = mk.zeros(x.shape, x.dtype)
    constants = {"forward": True, "traditional": traditional, "hs_transpose": False}
    k = mlx.kernel(mlx_root, "rope", f"rope_{dtype}", constants)
    strides = mlx.longs(length * size, size, 1)
    base = math.log2(10000.0)
    buffers = {
        0: mk.array(x),
        1: out,
        2: mk.array(mlx.ints(3)),
        3: 1.0,
        4: strides,
        5: strides,
        6: 0,
        7: heads,
        10: base,
    }
    mlx.launch(k, buffers, ndrange=(size // 2, length, -(-heads // 4)))
    angle = (np.arange(length) + 3)[:, None] * 10000.0 ** (-np.arange(size // 2) / (size // 2))
    cos, sin = np.cos(angle), np.sin(angle)
    x64 = x.astype(np.float64)
    if traditional:
        a, b = x64[..., 0::2], x64[..., 1::2]
        wanted = np.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)
    else:
        a, b = x64[..., : size // 2], x64[..., size // 2 :]
        wanted = np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)
    near(out.numpy(), wanted, x.dtype, 64 if dtype == "float32" else 2, scale=1.0)


@pytest.mark.parametrize("threads", [32, 128])
@pytest.mark.parametrize("reverse", ["", "reverse_"])
@pytest.mark.parametrize("kind", ["inclusive", "exclusive"])
@pytest.mark.parametrize("op", ["sum", "max"])
def test_scan(mlx_root: Path, op: str, kind: str, reverse: str, threads: int) -> None:
    x = np.random.default_rng(11).standard_normal((3, 1100)).astype(np.float32)
    x64 = x.astype(np.float64)[:, ::-1] if reverse else x.astype(np.float64)
    wanted = x64.cumsum(-1) if op == "sum" else np.maximum.accumulate(x64, -1)
    if kind == "exclusive":
        wanted = np.concatenate([np.full((3, 1), 0 if op == "sum" else -np.inf), wanted[:, :-1]], 1)
    wanted = wanted[:, ::-1] if reverse else wanted
    out = mk.zeros(x.shape, np.float32)
    k = mlx.kernel(mlx_root, "scan", f"contig_scan_{reverse}{kind}_{op}_float32_float32")
    k(mk.array(x), out, 1100, numworkgroups=(1, 3, 1), workgroupsize=threads)
    near(out.numpy(), wanted, np.float32, 64 if op == "sum" else 0, scale=50.0)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_strided_scan(mlx_root: Path, dtype: str) -> None:
    x = np.random.default_rng(12).integers(-9, 9, (2, 70, 40)).astype(DTYPES[dtype])
    out = mk.zeros(x.shape, x.dtype)
    k = mlx.kernel(mlx_root, "scan", f"strided_scan_inclusive_sum_{dtype}_{dtype}")
    k(mk.array(x), out, 70, 40, 2, numworkgroups=(1, 4, 1), workgroupsize=256)
    near(out.numpy(), x.astype(np.float64).cumsum(1), x.dtype, 4)


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "int64"])
@pytest.mark.parametrize("threads", [32, 128])
def test_sort(mlx_root: Path, dtype: str, threads: int) -> None:
    n = threads * 4 - 7
    x = np.stack([np.random.default_rng(i).permutation(n) - 99 for i in range(3)]).astype(DTYPES[dtype])
    sizes = (n, 1, 1, n, n)
    out = mk.zeros(x.shape, x.dtype)
    k = mlx.kernel(mlx_root, "sort", f"c_block_sort_{dtype}_{dtype}_bn{threads}_tn4")
    k(mk.array(x), out, *sizes, numworkgroups=(1, 3, 1), workgroupsize=threads)
    near(out.numpy(), np.sort(x.astype(np.float64), -1), x.dtype, 0)
    out = mk.zeros(x.shape, np.uint32)
    k = mlx.kernel(mlx_root, "sort", f"carg_block_sort_{dtype}_uint32_bn{threads}_tn4")
    k(mk.array(x), out, *sizes, numworkgroups=(1, 3, 1), workgroupsize=threads)
    picked = np.take_along_axis(x.astype(np.float64), out.numpy().astype(np.int64), -1)
    near(picked, np.sort(x.astype(np.float64), -1), x.dtype, 0)


@pytest.mark.parametrize("words", [8, 7])
def test_random_bits(mlx_root: Path, words: int) -> None:
    keys = np.array([[1, 2], [0xDEADBEEF, 77], [0, 0]], np.uint32)
    odd, half = words % 2, words // 2
    out = mk.zeros(3 * words * 4, np.int8)
    k = mlx.kernel(mlx_root, "random", "rbitsc")
    k(mk.array(keys), out, bool(odd), words * 4, ndrange=(3, half + odd))
    got = out.numpy().view(np.uint32).reshape(3, words)
    rows = half + odd
    for row, key in zip(got, keys, strict=True):
        first = np.arange(rows)
        second = first + rows
        if odd:
            second[-1] = 0
        bits = mlx.threefry((int(key[0]), int(key[1])), np.stack([first, second], 1))
        wanted = np.concatenate([bits[:, 0], bits[:half, 1]])
        assert row.tolist() == wanted.tolist()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("tile", [(4, 1, 1, 32, 4, 4), (1, 8, 1, 32, 1, 4), (1, 1, 8, 4, 4, 4), (8, 1, 1, 32, 4, 4)])
def test_gemv(mlx_root: Path, tile: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(13)
    bm, bn, sm, sn, tm, tn = tile
    rows, k = 45, 300
    m, v = rng.standard_normal((rows, k)).astype(DTYPES[dtype]), rng.standard_normal(k).astype(DTYPES[dtype])
    out = mk.zeros(rows, m.dtype)
    kernel = mlx.kernel(mlx_root, "gemv", f"gemv_{dtype}_bm{bm}_bn{bn}_sm{sm}_sn{sn}_tm{tm}_tn{tn}_nc0_axpby0")
    zero = mlx.longs(0)
    buffers = {0: mk.array(m), 1: mk.array(v), 2: mk.array(v), 3: out, 4: k, 5: rows, 6: k, 7: 1.0, 8: 0.0, 9: 1}
    buffers |= {10: mlx.ints(1), 11: zero, 12: zero, 13: zero, 14: 1}
    mlx.launch(kernel, buffers, numworkgroups=(-(-rows // (bm * sm * tm)), 1, 1), workgroupsize=(32, bn, bm))
    wanted = m.astype(np.float64) @ v.astype(np.float64)
    near(out.numpy(), wanted, m.dtype, 32 if dtype == "float32" else 4, scale=20.0)


@pytest.mark.parametrize("dtype", ["float", "float16_t", "bfloat16_t"])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("kind", ["qmv_fast", "qmv", "qmm_t", "dequantize"])
def test_affine_quantised(mlx_root: Path, kind: str, bits: int, dtype: str) -> None:
    rng = np.random.default_rng(14)
    m, n, k, group = 5, 64, 512, 64
    codes = rng.integers(0, 2**bits, (n, k)).astype(np.uint32)
    per_word = 32 // bits
    words = (
        (codes.reshape(n, k // per_word, per_word) << (bits * np.arange(per_word, dtype=np.uint32)))
        .sum(-1)
        .astype(np.uint32)
    )
    scales, biases = (rng.uniform(0.5, 1, (n, k // group)).astype(DTYPES[dtype]) for _ in range(2))
    wide = [a.astype(np.float64).repeat(group, 1) for a in (scales, biases)]
    weights = codes * wide[0] / 16 + wide[1]
    scales = (scales.astype(np.float64) / 16).astype(scales.dtype)
    suffix = f"{dtype}_gs_{group}_b_{bits}"
    if kind == "dequantize":
        out = mk.zeros((n, k), scales.dtype)
        kernel = mlx.kernel(mlx_root, "kernels/quantized", f"affine_dequantize_{suffix}")
        packed = mk.array(words.view(np.uint8))
        kernel(packed, mk.array(scales), mk.array(biases), out, ndrange=(n * k * bits // 8, 1))
        near(out.numpy(), weights, scales.dtype, 4, scale=1.0)
        return
    x = rng.standard_normal((m, k)).astype(DTYPES[dtype])
    out = mk.zeros((m, n), x.dtype)
    name = f"affine_{kind}_{suffix}_{'alN_true_' if kind == 'qmm_t' else ''}batch_0"
    kernel = mlx.kernel(mlx_root, "kernels/quantized", name)
    one, zero = mlx.ints(1), mlx.longs(0)
    sizes = {5: k, 6: n, 7: m} if kind == "qmm_t" else {5: k, 6: n}
    buffers: dict[int, Any] = {
        0: mk.array(words),
        1: mk.array(scales),
        2: mk.array(biases),
        3: mk.array(x),
        4: out,
    } | sizes
    after = max(sizes) + 1
    buffers |= dict(enumerate((0, one, zero, 0, one, zero, zero, zero), after))
    if kind == "qmm_t":
        mlx.launch(kernel, buffers, numworkgroups=(n // 32, -(-m // 32), 1), workgroupsize=(32, 2, 2))
    else:
        mlx.launch(kernel, buffers, numworkgroups=(m, n // 8, 1), workgroupsize=(32, 2, 1))
    wanted = x.astype(np.float64) @ weights.T
    near(out.numpy(), wanted, x.dtype, 64 if dtype == "float" else 4, scale=float(np.abs(wanted).max()))


@pytest.mark.parametrize("shape", [(64, 64, 32), (33, 45, 20)])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_steel_gemm(mlx_root: Path, layout: str, dtype: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    batch = 2
    rng = np.random.default_rng(15)
    a, b = (
        rng.standard_normal((batch, m, k)).astype(DTYPES[dtype]),
        rng.standard_normal((batch, k, n)).astype(DTYPES[dtype]),
    )
    stored_a = np.ascontiguousarray(a.swapaxes(1, 2)) if layout[0] == "t" else a
    stored_b = np.ascontiguousarray(b.swapaxes(1, 2)) if layout[1] == "t" else b
    bm, bn, bk, wm, wn = 32, 32, 16, 2, 2
    constants: dict[int | str, Any] = {"has_batch": False, "use_out_source": False, "do_axpby": False}
    constants |= {"align_M": m % bm == 0, "align_N": n % bn == 0, "align_K": k % bk == 0}
    tile = f"bm{bm}_bn{bn}_bk{bk}_wm{wm}_wn{wn}"
    kernel = mlx.kernel(mlx_root, "steel_gemm_fused", f"steel_gemm_fused_{layout}_{dtype}_{dtype}_{tile}", constants)
    tiles_n, tiles_m = -(-n // bn), -(-m // bm)
    members = [(name, "i4") for name in ("M", "N", "K", "lda", "ldb", "ldd", "tiles_n", "tiles_m")]
    members += [(name, "i8") for name in ("a", "b", "d")] + [(name, "i4") for name in ("swizzle", "iterations", "ndim")]
    params = np.array(
        (m, n, k, stored_a.shape[2], stored_b.shape[2], n, tiles_n, tiles_m, m * k, k * n, m * n, 0, k // bk, 1),
        np.dtype(members, align=True),
    )
    out = mk.zeros((batch, m, n), a.dtype)
    buffers = {0: mk.array(stored_a), 1: mk.array(stored_b), 3: out, 4: params.tobytes()}
    mlx.launch(kernel, buffers, numworkgroups=(tiles_n, tiles_m, batch), workgroupsize=(32, wn, wm))
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    near(out.numpy(), wanted, a.dtype, 64 if dtype == "float32" else 4, scale=8.0)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, causal: bool = False) -> np.ndarray:
    """softmax(q k^T) v over (heads, length, size), in float64; fewer heads of k and v are shared."""
    k, v = (x.astype(np.float64).repeat(q.shape[0] // x.shape[0], 0) for x in (k, v))
    scores = np.einsum("hqd,hkd->hqk", q.astype(np.float64), k) * scale
    if causal:
        ahead = np.arange(k.shape[1])[None] > np.arange(q.shape[1])[:, None] + k.shape[1] - q.shape[1]
        scores = np.where(ahead, -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hqk,hkd->hqd", weights / weights.sum(-1, keepdims=True), v)


@pytest.mark.parametrize("dtype", ["float", "float16_t", "bfloat16_t"])
@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_few_queries(mlx_root: Path, causal: bool, size: int, dtype: str) -> None:
    rng = np.random.default_rng(16)
    heads, kv_heads, queries, n = 4, 2, 3, 70
    q = rng.standard_normal((heads, queries, size)).astype(DTYPES[dtype])
    k, v = (rng.standard_normal((kv_heads, n, size)).astype(DTYPES[dtype]) for _ in range(2))
    constants: dict[int | str, Any] = dict.fromkeys((20, 21, 23, 24, 25), False) | {22: causal}
    kernel = mlx.kernel(mlx_root, "scaled_dot_product_attention", f"sdpa_vector_{dtype}_{size}_{size}", constants)
    out = mk.zeros(q.shape, q.dtype)
    scale = size**-0.5
    buffers = {
        0: mk.array(q),
        1: mk.array(k),
        2: mk.array(v),
        3: out,
        4: 2,
        5: n,
        6: n * size,
        7: size,
        8: n * size,
        9: size,
    }
    mlx.launch(kernel, buffers | {10: scale}, numworkgroups=(heads, queries, 1), workgroupsize=1024)
    near(out.numpy(), attention(q, k, v, scale, causal), q.dtype, 64 if dtype == "float" else 2, scale=1.0)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("causal", [False, True])
def test_steel_attention(mlx_root: Path, causal: bool, dtype: str) -> None:
    rng = np.random.default_rng(17)
    heads, kv_heads, length, size = 2, 1, 75, 64
    q = rng.standard_normal((heads, length, size)).astype(DTYPES[dtype])
    k, v = (rng.standard_normal((kv_heads, length, size)).astype(DTYPES[dtype]) for _ in range(2))
    bq, bk = 32, 32
    constants: dict[int | str, Any] = {"align_Q": False, "align_K": False, "has_mask": False, "do_causal": causal}
    name = f"steel_attention_{dtype}_bq{bq}_bk{bk}_bd{size}_wm4_wn1_maskbool_"
    kernel = mlx.kernel(mlx_root, "steel_attention", name, constants | {"has_sinks": False})
    blocks, keys = -(-length // bq), -(-length // bk)
    members: list[Any] = [(name, "i4") for name in ("B", "H", "D", "qL", "kL", "gqa")] + [("scale", "f4")]
    members += [(name, "i4") for name in ("NQ", "NK", "NQa", "NKa", "qrem", "krem", "qoff")]
    members += [(name, "i8", (3,)) for name in ("Q", "K", "V", "O")]
    params = np.zeros((), np.dtype(members, align=True))
    scale = size**-0.5
    numbers = (
        1,
        heads,
        size,
        length,
        length,
        2,
        scale,
        blocks,
        keys,
        length // bq,
        length // bk,
        length % bq,
        length % bk,
        0,
    )
    for name, number in zip(params.dtype.names or (), numbers, strict=False):
        params[name] = number
    for name, count in (("Q", heads), ("K", kv_heads), ("V", kv_heads), ("O", heads)):
        params[name] = (count * length * size, length * size, size)
    out = mk.zeros(q.shape, q.dtype)
    buffers = {0: mk.array(q), 1: mk.array(k), 2: mk.array(v), 3: out, 4: params.tobytes()}
    mlx.launch(kernel, buffers, numworkgroups=(blocks, heads, 1), workgroupsize=(32, 4, 1))
    near(out.numpy(), attention(q, k, v, scale, causal), q.dtype, 64 if dtype == "float32" else 4, scale=1.0)


RADICES = (13, 11, 8, 7, 6, 5, 4, 3, 2)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize(
    ("n", "steps", "per_thread"), [(64, {8: 2}, 8), (512, {8: 3}, 8), (125, {5: 3}, 5), (121, {11: 2}, 11)]
)
def test_fft(mlx_root: Path, n: int, steps: dict[int, int], per_thread: int, inverse: bool) -> None:
    rng = np.random.default_rng(18)
    batch = 3
    x = (rng.standard_normal((batch, n)) + 1j * rng.standard_normal((batch, n))).astype(np.complex64)
    constants: dict[int | str, Any] = {0: inverse, 1: n & (n - 1) == 0, 2: per_thread, 3: 1, 22: False}
    constants |= {4 + i: steps.get(radix, 0) for i, radix in enumerate(RADICES)} | dict.fromkeys(range(13, 22), 0)
    memory = 256 if n <= 256 else 512
    kernel = mlx.kernel(mlx_root, "fft", f"fft_mem_{memory}_float2_float2", constants)
    out = mk.zeros((batch, n, 2), np.float32)
    threads = -(-n // per_thread)
    source = mk.array(x.view(np.float32).reshape(batch, n, 2))
    kernel(source, out, n, batch, numworkgroups=(batch, 1, 1), workgroupsize=(1, 1, threads))
    wanted = np.fft.ifft(x.astype(np.complex128)) if inverse else np.fft.fft(x.astype(np.complex128))
    near(out.numpy(), wanted.view(np.float64).reshape(batch, n, 2), np.float32, 32, scale=float(np.abs(wanted).max()))


@pytest.mark.parametrize("dtype", FLOATS)
def test_conv_unfold(mlx_root: Path, dtype: str) -> None:
    n, h, w, c, kh, kw = 2, 6, 7, 3, 3, 2
    x = np.random.default_rng(19).standard_normal((n, h, w, c)).astype(DTYPES[dtype])
    oh, ow = h + 2 - kh + 1, w + 2 - kw + 1
    members: list[Any] = [("N", "i4"), ("C", "i4"), ("O", "i4")]
    members += [(name, "i4", (2,)) for name in ("iS", "wS", "oS", "str", "pad", "kdil", "idil")]
    members += [(name, "i8", (4,)) for name in ("in", "wt", "out")] + [("groups", "i4"), ("flip", "?")]
    params = np.zeros((), np.dtype(members, align=True))
    for name, value in {
        "N": n,
        "C": c,
        "O": 1,
        "iS": (h, w),
        "wS": (kh, kw),
        "oS": (oh, ow),
        "str": 1,
        "pad": 1,
        "kdil": 1,
    }.items():
        params[name] = value
    params["idil"], params["in"], params["groups"] = 1, (h * w * c, w * c, c, 1), 1
    out = mk.zeros((n, oh, ow, kh, kw, c), x.dtype)
    k = mlx.kernel(mlx_root, "kernels/conv", f"naive_unfold_nd_{dtype}_2")
    k(mk.array(x), out, params.tobytes(), 0, ndrange=(c, kh * kw, n * oh * ow))
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    wanted = np.lib.stride_tricks.sliding_window_view(padded, (kh, kw), (1, 2)).transpose(0, 1, 2, 4, 5, 3)
    near(out.numpy(), wanted, x.dtype, 0)
