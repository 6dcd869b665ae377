"""candle's quantised products, its indexing, transposed convolutions and attention, compared with numpy in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import candle
import ggml
import numpy as np
import pytest
from compare import DTYPES, near

import metalki as mk

FLOATS = ["f32", "f16", "bf16"]
# Rows that a threadgroup takes, and its shape, as candle dispatches the block types.
MAT_VEC = {"q4_0": (8, (8, 8, 1)), "q8_0": (8, (8, 8, 1)), "q4_K": (4, (4, 8, 1)), "q6_K": (2, (2, 32, 1))}


def by_name(kernel: mk.Kernel, **values: Any) -> dict[str, Any]:
    """The values that a kernel's parameters name; others are not asked for."""
    return {argument.name: values[argument.name] for argument in kernel.arguments}


def product_members(blocks: np.ndarray, rows: int, k: int, y: np.ndarray) -> dict[str, Any]:
    """Lengths and byte strides of weights and of inputs in ggml's names."""
    row = blocks.nbytes // rows
    lengths = {"ne00": k, "ne01": rows, "ne02": 1, "ne10": k, "ne11": len(y), "ne12": 1, "ne0": rows, "ne1": len(y)}
    strides = {"nb00": 1, "nb01": row, "nb02": rows * row, "nb03": rows * row}
    strides |= {"nb10": 4, "nb11": 4 * k, "nb12": y.nbytes, "nb13": y.nbytes}
    return lengths | strides | {"r2": 1, "r3": 1}


@pytest.mark.parametrize("kind", MAT_VEC)
def test_quantised_mat_vec(candle_root: Path, kind: str) -> None:
    rng = np.random.default_rng(20)
    rows, k = 32, 768
    blocks, values = ggml.BLOCKS[kind][0](rng, rows, k)
    y = rng.standard_normal((2, k)).astype(np.float32)
    kernel = candle.kernel(candle_root, "quantized", f"kernel_mul_mv_{kind}_f32")
    out = mk.zeros((2, rows))
    given = {"src0": ggml.raw(blocks), "src1": mk.array(y), "dst": out}
    per_group, group = MAT_VEC[kind]
    arguments = by_name(kernel, **given, **product_members(blocks, rows, k, y))
    kernel(arguments, numworkgroups=(rows // per_group, 2, 1), workgroupsize=group)
    wanted = y.astype(np.float64) @ values.T
    near(out.numpy(), wanted, np.float32, 64, scale=float(np.abs(wanted).max()))


@pytest.mark.parametrize("kind", [*MAT_VEC, "f16", "f32"])
def test_quantised_mat_mat(candle_root: Path, kind: str) -> None:
    rng = np.random.default_rng(21)
    rows, n, k = 64, 41, 256
    if kind in MAT_VEC:
        blocks, values = ggml.BLOCKS[kind][0](rng, rows, k)
    else:
        blocks = rng.standard_normal((rows, k)).astype(DTYPES[kind])
        values = blocks.astype(np.float64)
    y = rng.standard_normal((n, k)).astype(np.float32)
    kernel = candle.kernel(candle_root, "quantized", f"kernel_mul_mm_{kind}_f32")
    out = mk.zeros((n, rows))
    given = {"src0": ggml.raw(blocks).view(np.uint8), "src1": mk.array(y.view(np.uint8)), "dst": out}
    given |= {"shared_memory": mk.threadgroup(8192)}
    arguments = by_name(kernel, **given, **product_members(blocks, rows, k, y))
    kernel(arguments, numworkgroups=(-(-n // 32), -(-rows // 64), 1), workgroupsize=128)
    wanted = y.astype(np.float64) @ values.T
    near(out.numpy(), wanted, np.float16, 2, scale=float(np.abs(wanted).max()))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("index", ["u8", "u32", "i64"])
def test_gather(candle_root: Path, index: str, dtype: str) -> None:
    rng = np.random.default_rng(22)
    x = rng.standard_normal((3, 7, 4)).astype(DTYPES[dtype])
    ids = rng.integers(0, 7, (3, 5, 4)).astype({"u8": np.uint8}.get(index, DTYPES.get(index)))
    out = mk.zeros(ids.shape, x.dtype)
    k = candle.kernel(candle_root, "indexing", f"gather_{index}_{dtype}")
    sizes = {"dst_size": ids.size, "left_size": 3, "src_dim_size": 7, "right_size": 4, "ids_size": 5}
    k(by_name(k, **sizes, input=mk.array(x), input_ids=mk.array(ids), output=out), ndrange=ids.size)
    near(out.numpy(), np.take_along_axis(x, ids.astype(np.int64), 1), x.dtype, 0)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", ["s", "sa"])
def test_scatter(candle_root: Path, kind: str, dtype: str) -> None:
    rng = np.random.default_rng(23)
    x = rng.integers(-8, 8, (3, 5, 4)).astype(DTYPES[dtype])
    ids = np.stack([rng.permutation(7)[:5] for _ in range(12)]).reshape(3, 4, 5).transpose(0, 2, 1).astype(np.uint32)
    start = rng.integers(-8, 8, (3, 7, 4)).astype(x.dtype)
    out = mk.array(start)
    k = candle.kernel(candle_root, "indexing", f"{kind}_u32_{dtype}")
    sizes = {"dst_size": 12, "left_size": 3, "src_dim_size": 5, "right_size": 4, "dst_dim_size": 7}
    k(by_name(k, **sizes, input=mk.array(x), input_ids=mk.array(ids.copy()), output=out), ndrange=12)
    wanted = start.astype(np.float64)
    old = np.take_along_axis(wanted, ids.astype(np.int64), 1) if kind == "sa" else 0
    np.put_along_axis(wanted, ids.astype(np.int64), x + old, 1)
    near(out.numpy(), wanted, x.dtype, 0)


@pytest.mark.parametrize("dtype", FLOATS)
def test_index_add(candle_root: Path, dtype: str) -> None:
    rng = np.random.default_rng(24)
    x, start = (rng.integers(-8, 8, (3, n, 4)).astype(DTYPES[dtype]) for n in (5, 7))
    ids = np.array([6, 0, 6, 2, 0], np.uint32)
    out = mk.array(start)
    k = candle.kernel(candle_root, "indexing", f"ia_u32_{dtype}")
    sizes = {"dst_size": 12, "left_size": 3, "src_dim_size": 5, "right_size": 4, "dst_dim_size": 7, "ids_dim_size": 5}
    k(by_name(k, **sizes, input=mk.array(x), input_ids=mk.array(ids), output=out), ndrange=12)
    wanted = start.astype(np.float64)
    for j, i in enumerate(ids):
        wanted[:, i] += x[:, j]
    near(out.numpy(), wanted, x.dtype, 0)


@pytest.mark.parametrize("dtype", FLOATS)
def test_upsample_nearest(candle_root: Path, dtype: str) -> None:
    x = np.random.default_rng(25).standard_normal((2, 3, 4, 5)).astype(DTYPES[dtype])
    out = mk.zeros((2, 3, 8, 10), x.dtype)
    k = candle.kernel(candle_root, "conv", f"upsample_nearest2d_{dtype}")
    k(8, 10, 0.5, 0.5, candle.sizes(*x.shape), candle.strides(x), mk.array(x), out, ndrange=out.size)
    near(out.numpy(), x.repeat(2, 2).repeat(2, 3), x.dtype, 0)


@pytest.mark.parametrize("dtype", FLOATS)
def test_transposed_convolution(candle_root: Path, dtype: str) -> None:
    rng = np.random.default_rng(26)
    b, c, o, h, w, size, stride = 2, 3, 4, 5, 6, 3, 2
    x = rng.standard_normal((b, c, h, w)).astype(DTYPES[dtype])
    weights = rng.standard_normal((c, o, size, size)).astype(x.dtype)
    rows, columns = (h - 1) * stride + size, (w - 1) * stride + size
    wanted = np.zeros((b, o, rows, columns))
    for i in range(size):
        for j in range(size):
            part = np.einsum("bchw,co->bohw", x.astype(np.float64), weights[:, :, i, j].astype(np.float64))
            wanted[:, :, i : i + h * stride : stride, j : j + w * stride : stride] += part
    out = mk.zeros(wanted.shape, x.dtype)
    k = candle.kernel(candle_root, "conv", f"conv_transpose2d_{dtype}")
    shapes = (candle.sizes(*x.shape), candle.strides(x), candle.sizes(*weights.shape), candle.strides(weights))
    k(columns, rows, stride, 0, 0, 1, *shapes, mk.array(x), mk.array(weights), out, ndrange=out.size)
    near(out.numpy(), wanted, x.dtype, 16, scale=4.0)


ATTENTION = {"float32": (np.float32, 64), "float16": (np.float16, 4), "bfloat16": (DTYPES["bf16"], 4)}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [32, 64, 128])
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_of_many_queries(candle_root: Path, name: str, size: int, causal: bool) -> None:
    dtype, ulps = ATTENTION[name]
    rng = np.random.default_rng(27)
    heads, kv_heads = 4, 2
    length = 96 if causal else 75  # the kernel reads whole blocks of queries when it masks by their order
    q = rng.standard_normal((heads, length, size)).astype(dtype)
    k, v = (rng.standard_normal((kv_heads, length, size)).astype(dtype) for _ in range(2))
    bq, bk = 32, 16 if size == 128 else 32
    constants = {"align_Q": False, "align_K": False, "has_mask": False, "do_causal": causal}
    kernel_name = f"steel_attention_{name}_bq{bq}_bk{bk}_bd{size}_wm4_wn1_mask{name}"
    kernel = candle.kernel(candle_root, "scaled_dot_product_attention", kernel_name, **constants)
    members: list[Any] = [(n, "i4") for n in ("B", "H", "D", "qL", "kL", "gqa")] + [("scale", "f4"), ("cap", "f4")]
    members += [(n, "i4") for n in ("NQ", "NK", "NQa", "NKa", "qrem", "krem", "qoff")]
    members += [(n, "i8", (3,)) for n in ("Q", "K", "V", "O")]
    params = np.zeros((), np.dtype(members, align=True))
    blocks, keys, scale = -(-length // bq), -(-length // bk), size**-0.5
    numbers = (1, heads, size, length, length, heads // kv_heads, scale, 1.0, blocks, keys, length // bq, length // bk)
    for member, number in zip(params.dtype.names or (), (*numbers, length % bq, length % bk, 0), strict=False):
        params[member] = number
    for member, count in (("Q", heads), ("K", kv_heads), ("V", kv_heads), ("O", heads)):
        params[member] = (count * length * size, length * size, size)
    out = mk.zeros(q.shape, q.dtype)
    given = {"Q": mk.array(q), "K": mk.array(k), "V": mk.array(v), "O": out, "params": params.tobytes()}
    arguments = {argument.name: given.get(argument.name) for argument in kernel.arguments}
    kernel(arguments, numworkgroups=(blocks, heads, 1), workgroupsize=(32, 4, 1))
    k64, v64 = (x.astype(np.float64).repeat(heads // kv_heads, 0) for x in (k, v))
    scores = np.einsum("hqd,hkd->hqk", q.astype(np.float64), k64) * scale
    if causal:
        scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = np.einsum("hqk,hkd->hqd", weights / weights.sum(-1, keepdims=True), v64)
    near(out.numpy(), wanted, q.dtype, ulps, scale=1.0)
