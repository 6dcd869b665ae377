"""ggml's kernels give right answers: random inputs, compared with numpy in float64."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import ggml
import numpy as np
import pytest
from compare import DTYPES, near

import metalki as mk

UNARY: dict[str, tuple[int, Any]] = {
    "scale": (10, lambda x: 1.5 * x + 0.25),
    "clamp": (12, lambda x: np.clip(x, -0.5, 0.75)),
    "sqr": (13, np.square),
    "sqrt": (14, lambda x: np.sqrt(x)),
    "sin": (15, np.sin),
    "cos": (16, np.cos),
    "log": (17, np.log),
    "leaky_relu": (18, lambda x: np.where(x > 0, x, 0.1 * x)),
    "tanh": (100, np.tanh),
    "relu": (101, lambda x: np.maximum(x, 0)),
    "sigmoid": (102, lambda x: 1 / (1 + np.exp(-x))),
    "gelu": (103, lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * x * (1 + 0.044715 * x * x)))),
    "silu": (106, lambda x: x / (1 + np.exp(-x))),
    "elu": (107, lambda x: np.where(x > 0, x, np.expm1(x))),
    "exp": (114, np.exp),
    "floor": (117, np.floor),
    "round": (119, lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)),
}
DOMAIN = {"sqrt": (0.01, 4.0), "log": (0.01, 4.0)}


@pytest.mark.parametrize("wide", ["", "_4"])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("op", list(UNARY))
def test_unary(ggml_root: Path, op: str, dtype: str, wide: str) -> None:
    number, function = UNARY[op]
    rng = np.random.default_rng(number)
    x = rng.uniform(*DOMAIN.get(op, (-3.0, 3.0)), (3, 68)).astype(DTYPES[dtype])
    k = ggml.kernel(ggml_root, f"kernel_unary_{dtype}_{dtype}{wide}", FC_unary_op=number, FC_unary_cnt=False)
    step = 4 if wide else 1
    members = ggml.extents("0", x) | ggml.extents("", x)
    members |= {"ne00": 68 // step, "ne0": 68 // step}
    options = ggml.args(ggml_root, "unary", **members, slope=0.1, scale=1.5, bias=0.25, min=-0.5, max=0.75)
    out = ggml.out(x.shape, x.dtype)
    width = 32
    k(options, ggml.raw(x), out, numworkgroups=(3 * -(-(68 // step) // width), 1, 1), workgroupsize=width)
    near(ggml.result(out, x.shape, x.dtype), function(x.astype(np.float64)), x.dtype, 24, scale=0.1)


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize(("op", "function"), list(enumerate([np.add, np.subtract, np.multiply, np.divide])))
@pytest.mark.parametrize("fused", [1, 3])
def test_binary_with_broadcast(ggml_root: Path, op: int, function: Any, dtype: str, fused: int) -> None:
    rng = np.random.default_rng(op)
    a = rng.uniform(-2, 2, (2, 3, 5, 20)).astype(DTYPES[dtype])
    b = rng.uniform(0.5, 2, (fused, 1, 3, 1, 20)).astype(DTYPES[dtype])
    k = ggml.kernel(
        ggml_root,
        f"kernel_bin_fuse_{dtype}_{dtype}_{dtype}",
        FC_bin_op=op,
        FC_bin_f=fused,
        FC_bin_rb=False,
        FC_bin_cb=False,
    )
    offsets = [i * b[0].nbytes if i < fused else 0 for i in range(8)]
    members = ggml.extents("0", a) | ggml.extents("1", b[0]) | ggml.extents("", a)
    out = ggml.out(a.shape, a.dtype)
    options = ggml.args(ggml_root, "bin", **members, o1=offsets)
    k(options, ggml.raw(a), ggml.raw(b), out, numworkgroups=(5, 3, 2), workgroupsize=8)
    wanted = a.astype(np.float64)
    for one in b.astype(np.float64):
        wanted = function(wanted, one)
    near(ggml.result(out, a.shape, a.dtype), wanted, a.dtype, 4 * fused, scale=1.0)


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("name", ["reglu", "geglu", "swiglu"])
def test_gated(ggml_root: Path, name: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.uniform(-2, 2, (4, 50)).astype(DTYPES[dtype]) for _ in range(2))
    row = 50 * a.itemsize
    options = ggml.args(ggml_root, "glu", ne00=50, nb01=row, ne10=50, nb11=row, ne0=50, nb1=row)
    out = ggml.out(a.shape, a.dtype)
    ggml.kernel(ggml_root, f"kernel_{name}_{dtype}")(
        options, ggml.raw(a), ggml.raw(b), out, numworkgroups=4, workgroupsize=32
    )
    gate = {"reglu": lambda x: np.maximum(x, 0), "geglu": UNARY["gelu"][1], "swiglu": UNARY["silu"][1]}[name]
    near(ggml.result(out, a.shape, a.dtype), gate(a.astype(np.float64)) * b, a.dtype, 16, scale=0.5)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32"])
def test_repeat(ggml_root: Path, dtype: str) -> None:
    x = np.random.default_rng(0).integers(-100, 100, (2, 3)).astype(DTYPES[dtype])
    wanted = np.tile(x, (2, 3))
    options = ggml.args(ggml_root, "repeat", **ggml.extents("0", x), **ggml.extents("", wanted))
    out = ggml.out(wanted.shape, x.dtype)
    ggml.kernel(ggml_root, f"kernel_repeat_{dtype}")(
        options, ggml.raw(x), out, numworkgroups=(4, 1, 1), workgroupsize=16
    )
    near(ggml.result(out, wanted.shape, x.dtype), wanted, x.dtype, 0)


@pytest.mark.parametrize("threads", [32, 96, 256])
@pytest.mark.parametrize("op", [10, 11])
def test_sum_rows(ggml_root: Path, op: int, threads: int) -> None:
    x = np.random.default_rng(op).standard_normal((2, 3, 777)).astype(np.float32)
    shape = (2, 3, 1)
    options = ggml.args(ggml_root, "sum_rows", **ggml.extents("0", x), **ggml.extents("", np.zeros(shape, np.float32)))
    out = ggml.out(shape, np.float32)
    k = ggml.kernel(ggml_root, "kernel_sum_rows_f32_f32", FC_sum_rows_op=op)
    k(options, ggml.raw(x), out, mk.threadgroup(32 * 4), numworkgroups=(3, 2, 1), workgroupsize=threads)
    wanted = x.astype(np.float64).sum(-1, keepdims=True) / (777 if op == 11 else 1)
    near(ggml.result(out, shape, np.float32), wanted, np.float32, 64, scale=np.abs(wanted).max())


def test_sum(ggml_root: Path) -> None:
    x = np.random.default_rng(5).standard_normal(5000).astype(np.float32)
    out = mk.zeros(1, np.float32)
    k = ggml.kernel(ggml_root, "kernel_op_sum_f32")
    k(ggml.args(ggml_root, "sum", np=5000), mk.array(x), out, mk.threadgroup(128), numworkgroups=1, workgroupsize=256)
    near(out.numpy(), [x.astype(np.float64).sum()], np.float32, 64, scale=70.0)


@pytest.mark.parametrize("threads", [32, 128])
def test_argmax(ggml_root: Path, threads: int) -> None:
    x = np.random.default_rng(6).standard_normal((7, 321)).astype(np.float32)
    options = ggml.args(ggml_root, "argmax", ne00=321, nb01=321 * 4)
    out = ggml.out((7,), np.int32)
    k = ggml.kernel(ggml_root, "kernel_argmax_f32")
    k(options, ggml.raw(x), out, mk.threadgroup(32 * 8), numworkgroups=7, workgroupsize=threads)
    assert ggml.result(out, (7,), np.int32).tolist() == x.argmax(-1).tolist()


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_argsort(ggml_root: Path, order: str) -> None:
    x = np.random.default_rng(7).permutation(4 * 100).reshape(4, 100).astype(np.float32)
    options = ggml.args(ggml_root, "argsort", **ggml.extents("0", x), **ggml.extents("", x.astype(np.int32)), top_k=100)
    out = mk.zeros((4, 100), np.int32)
    k = ggml.kernel(ggml_root, f"kernel_argsort_f32_i32_{order}")
    k(options, ggml.raw(x), out, mk.threadgroup(128 * 4), numworkgroups=(4, 1, 1), workgroupsize=128)
    wanted = np.argsort(x if order == "asc" else -x, axis=-1)
    assert (out.numpy() == wanted).all()


def test_cumsum_in_blocks(ggml_root: Path) -> None:
    x = np.random.default_rng(8).standard_normal((3, 600)).astype(np.float32)
    threads, blocks = 256, 3
    partial = {"net0": blocks, "net1": 3, "net2": 1, "net3": 1, "outb": True}
    out, sums = ggml.out(x.shape, np.float32), ggml.out((3, blocks), np.float32)
    k = ggml.kernel(ggml_root, "kernel_cumsum_blk_f32")
    options = ggml.args(ggml_root, "cumsum_blk", **ggml.extents("0", x), **partial)
    k(options, ggml.raw(x), sums, out, mk.threadgroup(32 * 4), numworkgroups=(3 * blocks, 1, 1), workgroupsize=threads)
    got = ggml.result(out, x.shape, np.float32)
    ends = ggml.result(sums, (3, blocks), np.float32)
    for b in range(blocks):
        part = x[:, b * threads : (b + 1) * threads].astype(np.float64)
        near(got[:, b * threads : (b + 1) * threads], part.cumsum(-1), np.float32, 64, scale=20.0)
        near(ends[:, b], part.sum(-1), np.float32, 64, scale=20.0)


@pytest.mark.parametrize("threads", [32, 128])
@pytest.mark.parametrize("mask_dtype", ["f32", "f16"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("wide", ["", "_4"])
def test_softmax(ggml_root: Path, masked: bool, mask_dtype: str, threads: int, wide: str) -> None:
    rng = np.random.default_rng(9)
    x = rng.standard_normal((2, 3, 132)).astype(np.float32)
    mask = np.where(rng.random((3, 132)) < 0.3, -np.inf, rng.standard_normal((3, 132))).astype(DTYPES[mask_dtype])
    mask[:, 0] = 0
    source = ggml.raw(x)
    members = ggml.extents("0", x) | ggml.extents("1", mask) | ggml.extents("", x)
    options = ggml.args(ggml_root, "soft_max", **members, scale=0.7, m0=1.0, m1=1.0, n_head_log2=1)
    out = ggml.out(x.shape, np.float32)
    k = ggml.kernel(ggml_root, f"kernel_soft_max_{mask_dtype}{wide}")
    launch = {"numworkgroups": (3, 2, 1), "workgroupsize": threads}
    k(options, source, ggml.raw(mask) if masked else source, source, out, mk.threadgroup(128), **launch)
    scores = 0.7 * x.astype(np.float64) + (mask.astype(np.float64) if masked else 0)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    near(ggml.result(out, x.shape, np.float32), weights / weights.sum(-1, keepdims=True), np.float32, 32, scale=0.01)


@pytest.mark.parametrize("threads", [32, 96])
@pytest.mark.parametrize("wide", ["", "_4"])
@pytest.mark.parametrize("kind", ["norm", "rms_norm"])
@pytest.mark.parametrize("fused", ["", "_mul", "_mul_add"])
def test_norm(ggml_root: Path, kind: str, fused: str, wide: str, threads: int) -> None:
    rng = np.random.default_rng(10)
    n, rows = 244, 5
    x, w, b = (rng.standard_normal(s).astype(np.float32) for s in ((rows, n), (n,), (n,)))
    row = n * 4
    options = ggml.args(
        ggml_root, "norm", ne00=n, ne00_t=n // 4 if wide else n, nb1=row, nb2=rows * row, nb3=rows * row, eps=1e-5,
        nef1=[rows, 1, 1], nef2=[1, 1, 1], nef3=[1, 1, 1], nbf1=[row] * 3, nbf2=[rows * row] * 3, nbf3=[rows * row] * 3,
    )  # fmt: skip
    out = ggml.out(x.shape, np.float32)
    k = ggml.kernel(ggml_root, f"kernel_{kind}{fused}_f32{wide}")
    k(
        options,
        ggml.raw(x),
        ggml.raw(w),
        ggml.raw(b),
        out,
        mk.threadgroup(128),
        numworkgroups=rows,
        workgroupsize=threads,
    )
    wanted = x.astype(np.float64)
    if kind == "norm":
        wanted = wanted - wanted.mean(-1, keepdims=True)
    wanted = wanted / np.sqrt(np.square(wanted).mean(-1, keepdims=True) + 1e-5)
    wanted = wanted * w if fused else wanted
    wanted = wanted + b if fused == "_mul_add" else wanted
    near(ggml.result(out, x.shape, np.float32), wanted, np.float32, 32, scale=1.0)


def test_l2_norm(ggml_root: Path) -> None:
    x = np.random.default_rng(11).standard_normal((3, 100)).astype(np.float32)
    options = ggml.args(ggml_root, "l2_norm", **ggml.extents("0", x), **ggml.extents("", x), eps=1e-6)
    out = ggml.out(x.shape, np.float32)
    k = ggml.kernel(ggml_root, "kernel_l2_norm_f32_f32")
    k(options, ggml.raw(x), out, mk.threadgroup(128), numworkgroups=3, workgroupsize=64)
    wanted = x / np.linalg.norm(x.astype(np.float64), axis=-1, keepdims=True)
    near(ggml.result(out, x.shape, np.float32), wanted, np.float32, 16, scale=0.1)


def rope_reference(x: np.ndarray, positions: np.ndarray, base: float, paired: bool) -> np.ndarray:
    """x: (positions, heads, size); paired: neighbours rotate, else halves."""
    size = x.shape[-1]
    angle = positions[:, None] * base ** (-np.arange(0, size, 2) / size)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = (x[..., 0::2], x[..., 1::2]) if paired else (x[..., : size // 2], x[..., size // 2 :])
    first, second = a * cos - b * sin, a * sin + b * cos
    if paired:
        return np.stack([first, second], -1).reshape(x.shape)
    return np.concatenate([first, second], -1)


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("kind", ["norm", "neox"])
def test_rope(ggml_root: Path, kind: str, dtype: str) -> None:
    rng = np.random.default_rng(12)
    x = rng.standard_normal((4, 3, 64)).astype(DTYPES[dtype])
    positions = np.array([0, 5, 17, 130], np.int32)
    options = ggml.args(
        ggml_root, "rope", **ggml.extents("0", x), **ggml.extents("", x), n_dims=64, n_ctx_orig=4096, freq_base=10000.0,
        freq_scale=1.0, attn_factor=1.0, beta_fast=32.0, beta_slow=1.0,
    )  # fmt: skip
    out = ggml.out(x.shape, x.dtype)
    k = ggml.kernel(ggml_root, f"kernel_rope_{kind}_{dtype}", FC_rope_is_imrope=False, FC_rope_is_back=False)
    source = ggml.raw(x)
    k(options, source, ggml.raw(positions), source, out, numworkgroups=(3, 4, 1), workgroupsize=32)
    wanted = rope_reference(x.astype(np.float64), positions, 10000.0, kind == "norm")
    # Angles up to 130 are formed in float.
    near(ggml.result(out, x.shape, x.dtype), wanted, x.dtype, 4 if dtype == "f16" else 400, scale=2.0)


def mat_vec_members(weights_row: int, k: int, rows: int, y: np.ndarray) -> dict[str, Any]:
    """The members of a product of (rows, k) quantised weights with the rows of y."""
    n = y.shape[0]
    members = {
        "ne00": k,
        "ne01": rows,
        "ne02": 1,
        "nb01": weights_row,
        "nb02": rows * weights_row,
        "nb03": rows * weights_row,
    }
    members |= ggml.extents("1", y)
    return members | {"ne0": rows, "ne1": n, "ne12": 1, "r2": 1, "r3": 1}


@pytest.mark.parametrize("simdgroups", [1, 2, 4])
@pytest.mark.parametrize("kind", list(ggml.BLOCKS))
def test_quantised_mat_vec(ggml_root: Path, kind: str, simdgroups: int) -> None:
    rng = np.random.default_rng(13)
    make, _ = ggml.BLOCKS[kind]
    rows, k = 37, 768
    blocks, values = make(rng, rows, k)
    y = rng.standard_normal((2, k)).astype(np.float32)
    options = ggml.args(ggml_root, "mul_mv", **mat_vec_members(blocks.nbytes // rows, k, rows, y))
    kernel = ggml.kernel(
        ggml_root,
        f"kernel_mul_mv_{kind}_f32",
        FC_mul_mv_nsg=simdgroups,
        FC_mul_mv_ne12=1,
        FC_mul_mv_r2=1,
        FC_mul_mv_r3=1,
    )
    out = ggml.out((2, rows), np.float32)
    # Padding behind the weights: the last group's pointers reach beyond the last row.
    weights = np.concatenate([blocks.reshape(-1), np.zeros(64 * blocks.nbytes // rows, np.uint8)])
    scratch = [mk.threadgroup(32 * 4 * 8)] if len(kernel.arguments) == 5 else []
    kernel(
        options,
        ggml.raw(weights),
        ggml.raw(y),
        out,
        *scratch,
        numworkgroups=(rows, 2, 1),
        workgroupsize=(32, simdgroups, 1),
    )
    wanted = y.astype(np.float64) @ values.T
    near(
        ggml.result(out, (2, rows), np.float32),
        wanted,
        np.float32,
        64,
        scale=np.abs(y).max() * np.abs(values).max() * 8,
    )


@pytest.mark.parametrize("kind", ["f32_f32", "f16_f32", "f16_f16", "bf16_f32", "bf16_bf16"])
@pytest.mark.parametrize("simdgroups", [1, 4])
def test_mat_vec(ggml_root: Path, kind: str, simdgroups: int) -> None:
    rng = np.random.default_rng(14)
    left, right = (DTYPES[t] for t in kind.split("_"))
    rows, k = 20, 300
    w, y = rng.standard_normal((rows, k)).astype(left), rng.standard_normal((3, k)).astype(right)
    options = ggml.args(
        ggml_root, "mul_mv", **mat_vec_members(k * left.itemsize, k, rows, y), nr0=2, nb00=left.itemsize
    )
    kernel = ggml.kernel(
        ggml_root, f"kernel_mul_mv_{kind}", FC_mul_mv_nsg=simdgroups, FC_mul_mv_ne12=1, FC_mul_mv_r2=1, FC_mul_mv_r3=1
    )
    out = ggml.out((3, rows), np.float32)
    scratch = mk.threadgroup(32 * 4 * 2)
    kernel(
        options,
        ggml.raw(w),
        ggml.raw(y),
        out,
        scratch,
        numworkgroups=(rows // 2, 3, 1),
        workgroupsize=(32, simdgroups, 1),
    )
    # Products of two 16-bit numbers may be rounded to 16 bits, as the kernel's source has them.
    wanted = y.astype(np.float64) @ w.astype(np.float64).T
    near(
        ggml.result(out, (3, rows), np.float32),
        wanted,
        left if left == right else np.float32,
        64 if left != right or left == np.float32 else 4,
        scale=20.0,
    )


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("kind", ["f32", "f16", "q4_0", "q8_0", "q4_K", "q6_K"])
def test_mat_mat_with_simdgroup_matrices(ggml_root: Path, kind: str, ragged: bool) -> None:
    rng = np.random.default_rng(15)
    rows, n, k = (70, 41, 256) if ragged else (64, 32, 256)
    if kind in ggml.BLOCKS:
        blocks, values = ggml.BLOCKS[kind][0](rng, rows, k)
    else:
        blocks = rng.standard_normal((rows, k)).astype(DTYPES[kind])
        values = blocks.astype(np.float64)
    y = rng.standard_normal((n, k)).astype(np.float32)
    row = blocks.nbytes // rows
    members = mat_vec_members(row, k, rows, y)
    options = ggml.args(ggml_root, "mul_mm", **members)
    kernel = ggml.kernel(
        ggml_root, f"kernel_mul_mm_{kind}_f32", FC_mul_mm_bc_inp=False, FC_mul_mm_bc_out=ragged, FC_mul_mm_ne12=1,
        FC_mul_mm_ne13=1, FC_mul_mm_r2=1, FC_mul_mm_r3=1,
    )  # fmt: skip
    out = ggml.out((n, rows), np.float32)
    groups = (-(-n // 32), -(-rows // 64), 1)
    kernel(options, ggml.raw(blocks), ggml.raw(y), out, mk.threadgroup(8192), numworkgroups=groups, workgroupsize=128)
    wanted = y.astype(np.float64) @ values.T
    # Both sides are rounded to half on their way into the matrices.
    near(ggml.result(out, (n, rows), np.float32), wanted, np.float16, 2, scale=float(np.abs(wanted).max()))


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16", *ggml.BLOCKS])
def test_get_rows(ggml_root: Path, kind: str) -> None:
    rng = np.random.default_rng(16)
    rows, k = 9, 512
    if kind in ggml.BLOCKS:
        blocks, values = ggml.BLOCKS[kind][0](rng, rows, k)
        count = k // 16
    else:
        blocks = rng.standard_normal((rows, k)).astype(DTYPES[kind])
        values, count = blocks.astype(np.float64), k
    ids = np.array([3, 0, 8, 8, 5], np.int32)
    row = blocks.nbytes // rows
    options = ggml.args(
        ggml_root, "get_rows", ne00t=count, ne00=k, nb01=row, nb02=rows * row, nb03=rows * row, ne10=5, nb10=4, nb11=20,
        nb12=20, nb1=k * 4, nb2=5 * k * 4, nb3=5 * k * 4,
    )  # fmt: skip
    out = mk.full((5, k), -7.0, np.float32)
    threads = min(count, 128)
    ggml.kernel(ggml_root, f"kernel_get_rows_{kind}")(
        options,
        ggml.raw(blocks),
        ggml.raw(ids),
        out,
        numworkgroups=(-(-count // threads) * 5, 1, 1),
        workgroupsize=threads,
    )
    near(out.numpy(), values[ids], np.float32, 4, scale=float(np.abs(values).max()))


COPIES = ["f32_f32", "f32_f16", "f32_bf16", "f16_f32", "bf16_f32", "f16_f16", "bf16_bf16", "f32_i32", "i32_f32"]


@pytest.mark.parametrize("kind", COPIES)
def test_copy_of_a_transposed_view(ggml_root: Path, kind: str) -> None:
    source, target = (DTYPES[t] for t in kind.split("_"))
    x = (np.random.default_rng(17).standard_normal((5, 40)) * 100).astype(source)
    view = x.T
    members = {"nk0": 5, "ne00": 5, "ne01": 40, "ne02": 1, "ne03": 1, "nb00": x.strides[0], "nb01": x.itemsize}
    members |= {"nb02": x.nbytes, "nb03": x.nbytes}
    members |= ggml.extents("", np.zeros((40, 5), target))
    out = ggml.out((40, 5), target)
    k = ggml.kernel(ggml_root, f"kernel_cpy_{kind}")
    k(ggml.args(ggml_root, "cpy", **members), ggml.raw(x), out, numworkgroups=(40, 1, 1), workgroupsize=5)
    wanted = view.astype(np.float64)
    wanted = np.trunc(wanted) if target.kind == "i" else wanted.astype(target)
    near(ggml.result(out, (40, 5), target), wanted, target, 0)


@pytest.mark.parametrize("kind", ["q4_0", "q8_0"])
def test_copy_quantises(ggml_root: Path, kind: str) -> None:
    rows, k = 4, 128
    x = np.random.default_rng(18).standard_normal((rows, k)).astype(np.float32)
    size = {"q4_0": 18, "q8_0": 34}[kind]
    row = k // 32 * size
    members = ggml.extents("0", x) | ggml.extents("", x, row_bytes=row) | {"nk0": k // 32, "nb0": size}
    out = ggml.out((rows, row), np.uint8)
    kernel = ggml.kernel(ggml_root, f"kernel_cpy_f32_{kind}")
    kernel(ggml.args(ggml_root, "cpy", **members), ggml.raw(x), out, numworkgroups=(rows, 1, 1), workgroupsize=k // 32)
    blocks = out.numpy().view(np.uint8).reshape(-1, size)
    scale = blocks[:, :2].copy().view(np.float16).astype(np.float64)
    codes = blocks[:, 2:]
    if kind == "q8_0":
        values = codes.view(np.int8) * scale
    else:
        values = (np.hstack([codes & 15, codes >> 4]).astype(np.float64) - 8) * scale
    # Half a step, and the rounding of the scale; q4_0's top code is one step short.
    step = np.abs(scale) * (0.51 if kind == "q8_0" else 1.01) + 1e-3 * np.abs(x.reshape(-1, 32))
    assert (np.abs(values - x.reshape(-1, 32)) <= step).all()


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_im2col(ggml_root: Path, dtype: str) -> None:
    rng = np.random.default_rng(19)
    n, c, h, w, kh, kw = 2, 3, 7, 9, 3, 2
    x = rng.standard_normal((n, c, h, w)).astype(np.float32)
    oh, ow = h + 2 - kh + 1, w + 2 - kw + 1
    options = ggml.args(
        ggml_root, "im2col", ofs0=c * h * w, ofs1=h * w, IW=w, IH=h, CHW=c * kh * kw, s0=1, s1=1, p0=1, p1=1, d0=1, d1=1,
        N=n, KH=kh, KW=kw, KHW=kh * kw,
    )  # fmt: skip
    shape = (n, oh, ow, c, kh, kw)
    out = ggml.out(shape, DTYPES[dtype])
    k = ggml.kernel(ggml_root, f"kernel_im2col_{dtype}")
    k(options, mk.array(x), out, numworkgroups=(c, oh, ow), workgroupsize=(n, kh, kw))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    wanted = np.lib.stride_tricks.sliding_window_view(padded, (kh, kw), (2, 3)).transpose(0, 2, 3, 1, 4, 5)
    near(ggml.result(out, shape, DTYPES[dtype]), wanted.astype(DTYPES[dtype]), DTYPES[dtype], 0)


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_conv_2d(ggml_root: Path, dtype: str) -> None:
    rng = np.random.default_rng(20)
    n, c, o, h, w, kh, kw = 2, 3, 4, 8, 9, 3, 3
    x = rng.standard_normal((n, c, h, w)).astype(np.float32)
    f = rng.standard_normal((o, c, kh, kw)).astype(DTYPES[dtype])
    oh, ow = h, w
    result = np.zeros((n, o, oh, ow), np.float32)
    members = {
        k: v
        for which, a in (("0", f), ("1", x), ("", result))
        for k, v in ggml.extents(which, a).items()
        if k[:2] == "nb"
    }
    members |= {"IW": w, "IH": h, "KW": kw, "KH": kh, "IC": c, "OC": o, "OW": ow, "OH": oh, "N": n}
    members |= dict.fromkeys(("s0", "s1", "p0", "p1", "d0", "d1"), 1)
    out = ggml.out(result.shape, np.float32)
    k = ggml.kernel(ggml_root, f"kernel_conv_2d_{dtype}_f32")
    k(ggml.args(ggml_root, "conv_2d", **members), ggml.raw(f), ggml.raw(x), out, numworkgroups=5, workgroupsize=64)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (kh, kw), (2, 3))
    wanted = np.einsum("nchwij,ocij->nohw", windows.astype(np.float64), f.astype(np.float64))
    near(ggml.result(out, result.shape, np.float32), wanted, np.float32, 64, scale=10.0)


LOCKSTEP = pytest.mark.xfail(
    os.environ.get("METALKI_EXECUTOR") == "scalar",
    reason="all lanes read a threadgroup word, then one lane writes it, with no barrier between: needs lockstep",
    raises=AssertionError,
    strict=False,
)


@pytest.mark.parametrize("kv", ["f16", "q8_0", "q4_0"])
@pytest.mark.parametrize("simdgroups", [1, pytest.param(4, marks=LOCKSTEP)])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_of_one_query(ggml_root: Path, kv: str, simdgroups: int, masked: bool) -> None:
    rng = np.random.default_rng(21)
    d, heads, kv_heads, n = 64, 4, 2, 96
    q = rng.standard_normal((heads, 1, d)).astype(np.float32)
    if kv == "f16":
        pair = [rng.standard_normal((kv_heads * n, d)).astype(np.float16) for _ in range(2)]
        stored, values = pair, [p.astype(np.float64) for p in pair]
    else:
        made = [ggml.BLOCKS[kv][0](rng, kv_heads * n, d) for _ in range(2)]
        stored, values = [m[0] for m in made], [m[1] for m in made]
    row = stored[0].nbytes // (kv_heads * n)
    mask = np.where(rng.random((1, n)) < 0.3, -np.inf, 0).astype(np.float16)
    options = ggml.args(
        ggml_root, "flash_attn_ext_vec", ne01=1, ne02=heads, ne03=1, nb01=d * 4, nb02=d * 4, nb03=heads * d * 4, ne11=n,
        ne_12_2=kv_heads, ne_12_3=1, ns10=d, nb11=row, nb12=n * row, nb13=kv_heads * n * row, ns20=d, nb21=row,
        nb22=n * row, nb23=kv_heads * n * row, ne31=1, ne32=1, ne33=1, nb31=n * 2, nb32=n * 2, nb33=n * 2, ne1=heads, ne2=1,
        ne3=1, scale=0.125, m0=1.0, m1=1.0, n_head_log2=1,
    )  # fmt: skip
    prefix = "FC_flash_attn_ext_vec_"
    constants = {f"{prefix}has_{x}": False for x in ("sinks", "bias", "scap", "kvpad")} | {f"{prefix}has_mask": masked}
    constants |= {f"{prefix}ns10": d, f"{prefix}ns20": d, f"{prefix}nsg": simdgroups, f"{prefix}nwg": 1}
    kernel = ggml.kernel(ggml_root, f"kernel_flash_attn_ext_vec_{kv}_dk64_dv64", **constants)
    out = ggml.out((heads, d), np.float32)
    shared = mk.threadgroup((128 + 4 * 32 + 2 * 128) * simdgroups * 2)
    source = ggml.raw(q)
    given = {"args": options, "k": ggml.raw(stored[0]), "v": ggml.raw(stored[1]), "mask": ggml.raw(mask), "dst": out}
    # Sinks and padding are switched off, and so is what newer versions add.
    values_by_name = {
        x.name: given.get(x.name, shared if x.kind == "threadgroup" else source) for x in kernel.arguments
    }
    kernel.launch(values_by_name, numworkgroups=(1, heads, 1), workgroupsize=(32, simdgroups, 1))
    keys, vals = (v.reshape(kv_heads, n, d).repeat(heads // kv_heads, 0) for v in values)
    scores = np.einsum("hd,hnd->hn", q[:, 0].astype(np.float64), keys) * 0.125 + (
        mask.astype(np.float64) if masked else 0
    )
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = np.einsum("hn,hnd->hd", weights / weights.sum(-1, keepdims=True), vals)
    near(ggml.result(out, (heads, d), np.float32), wanted, np.float16, 4, scale=0.5)


@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("kv", ["f32", "f16", "bf16", "q8_0", "q4_0"])
def test_attention_of_many_queries(ggml_root: Path, kv: str, size: int) -> None:
    """Eight queries a threadgroup, scores and results in simdgroup matrices."""
    rng = np.random.default_rng(22)
    heads, kv_heads, queries, n, simdgroups = 4, 2, 11, 128, 4
    q = rng.standard_normal((heads, queries, size)).astype(np.float32)
    if kv in ggml.BLOCKS:
        made = [ggml.BLOCKS[kv][0](rng, kv_heads * n, size) for _ in range(2)]
        stored, values = [m[0] for m in made], [m[1] for m in made]
    else:
        stored = [rng.standard_normal((kv_heads * n, size)).astype(DTYPES[kv]) for _ in range(2)]
        values = [x.astype(np.float64) for x in stored]
    row = stored[0].nbytes // (kv_heads * n)
    strides = {f"nb{i}{j}": b for i in (1, 2) for j, b in ((1, row), (2, n * row), (3, kv_heads * n * row))}
    options = ggml.args(
        ggml_root, "flash_attn_ext", ne01=queries, ne02=heads, ne03=1, nb01=size * 4, nb02=queries * size * 4,
        nb03=q.nbytes, ne11=n, ne_12_2=kv_heads, ne_12_3=1, ns10=size, ns20=size, **strides, ne31=queries, ne32=1, ne33=1,
        ne1=heads, ne2=queries, ne3=1, scale=size**-0.5, m0=1.0, m1=1.0, n_head_log2=1,
    )  # fmt: skip
    prefix = "FC_flash_attn_ext_"
    constants = {f"{prefix}has_{x}": False for x in ("mask", "sinks", "bias", "scap", "kvpad")}
    constants |= {f"{prefix}bc_mask": False, f"{prefix}ns10": size, f"{prefix}ns20": size, f"{prefix}nsg": simdgroups}
    kernel = ggml.kernel(ggml_root, f"kernel_flash_attn_ext_{kv}_dk{size}_dv{size}", **constants)
    out = ggml.out((queries, heads, size), np.float32)
    halves = 8 * (size + 2 * size + 4 * 64) + 16 * 32 * simdgroups
    other = ggml.raw(np.zeros(4096, np.int8))
    kernel(
        options, ggml.raw(q), ggml.raw(stored[0]), ggml.raw(stored[1]), other, other, other, other, out,
        mk.threadgroup(halves * 2 * 2), numworkgroups=(-(-queries // 8), heads, 1), workgroupsize=(32, simdgroups, 1),
    )  # fmt: skip
    keys, vals = (v.reshape(kv_heads, n, size).repeat(heads // kv_heads, 0) for v in values)
    scores = np.einsum("hqd,hnd->hqn", q.astype(np.float64), keys) * size**-0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = np.einsum("hqn,hnd->qhd", weights / weights.sum(-1, keepdims=True), vals)
    kind = DTYPES["bf16"] if kv == "bf16" else np.float16
    near(ggml.result(out, wanted.shape, np.float32), wanted, kind, 4, scale=1.0)


def test_arange(ggml_root: Path) -> None:
    out = ggml.out((77,), np.float32)
    options = ggml.args(ggml_root, "arange", ne0=77, start=-3.0, step=0.5)
    ggml.kernel(ggml_root, "kernel_arange_f32")(options, out, numworkgroups=1, workgroupsize=32)
    near(ggml.result(out, (77,), np.float32), -3.0 + 0.5 * np.arange(77), np.float32, 1)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_concat(ggml_root: Path, dtype: str) -> None:
    a, b = (np.random.default_rng(i).integers(-9, 9, (3, n)).astype(DTYPES[dtype]) for i, n in ((0, 5), (1, 8)))
    wanted = np.concatenate([a, b], 1)
    members = ggml.extents("0", a) | ggml.extents("1", b) | ggml.extents("", wanted) | {"dim": 0}
    out = ggml.out(wanted.shape, wanted.dtype)
    k = ggml.kernel(ggml_root, f"kernel_concat_{dtype}")
    k(
        ggml.args(ggml_root, "concat", **members),
        ggml.raw(a),
        ggml.raw(b),
        out,
        numworkgroups=(3, 1, 1),
        workgroupsize=8,
    )
    near(ggml.result(out, wanted.shape, wanted.dtype), wanted, wanted.dtype, 0)
