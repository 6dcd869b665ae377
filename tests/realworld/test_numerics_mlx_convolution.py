"""MLX's convolutions, gradients of its norms, 4- and 8-bit floats and searches, compared with numpy in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx
import numpy as np
import pytest
from compare import DTYPES, near

import metalki as mk

FLOATS = ["float32", "float16", "bfloat16"]


def convolution(n: int, c: int, o: int, size: tuple[int, int], weights: tuple[int, int], **members: Any) -> np.ndarray:
    """MLXConvParams<2> of a convolution with step 1; strides and padding are named in `members`."""
    fields: list[Any] = [("N", "i4"), ("C", "i4"), ("O", "i4")]
    fields += [(name, "i4", (2,)) for name in ("iS", "wS", "oS", "str", "pad", "kdil", "idil")]
    fields += [(name, "i8", (4,)) for name in ("in", "wt", "out")] + [("groups", "i4"), ("flip", "?")]
    params = np.zeros((), np.dtype(fields, align=True))
    params["N"], params["C"], params["O"], params["iS"], params["wS"] = n, c, o, size, weights
    params["str"], params["kdil"], params["idil"], params["groups"] = 1, 1, 1, 1
    for name, value in members.items():
        params[name] = value
    return params


def channels_last(n: int, h: int, w: int, c: int) -> tuple[int, int, int, int]:
    return h * w * c, w * c, c, 1


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("dtype", FLOATS)
def test_depthwise_convolution(mlx_root: Path, dtype: str, step: int) -> None:
    rng = np.random.default_rng(30)
    n, h, w, c, size = 2, 9, 11, 16, 3
    x = rng.standard_normal((n, h, w, c)).astype(DTYPES[dtype])
    weights = rng.standard_normal((c, size, size)).astype(x.dtype)
    oh, ow = (h + 2 - size) // step + 1, (w + 2 - size) // step + 1
    params = convolution(
        n, c, c, (h, w), (size, size), oS=(oh, ow), pad=1, str=step, groups=c, wt=(size * size, size, 1, 1),
        **{"in": channels_last(n, h, w, c), "out": channels_last(n, oh, ow, c)},
    )  # fmt: skip
    constants: dict[int | str, Any] = {"ker_h": size, "ker_w": size, "str_h": step, "str_w": step}
    constants |= {"tgp_h": 4, "tgp_w": 8, "do_flip": False}
    kernel = mlx.kernel(mlx_root, "kernels/conv", f"depthwise_conv_2d_{dtype}", constants)
    out = mk.zeros((n, oh, ow, c), x.dtype)
    groups = (c // 8, -(-ow // 8), n * -(-oh // 4))
    kernel(mk.array(x), mk.array(weights), out, params.tobytes(), numworkgroups=groups, workgroupsize=(8, 8, 4))
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), (1, 2))[:, ::step, ::step]
    near(out.numpy(), np.einsum("nhwcij,cij->nhwc", windows, weights.astype(np.float64)), x.dtype, 16, scale=2.0)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_winograd_convolution(mlx_root: Path, dtype: str) -> None:
    """Weights, inputs and outputs are transformed by MLX's kernels; the products in between are numpy's."""
    rng = np.random.default_rng(31)
    n, h, w, c, o, tile, inner = 1, 12, 18, 32, 32, 6, 8
    x = rng.standard_normal((n, h + 2, w + 2, c)).astype(DTYPES[dtype])  # with the padding
    weights = rng.standard_normal((o, 3, 3, c)).astype(x.dtype)
    tiles = (w // tile, h // tile)
    count = n * tiles[0] * tiles[1]
    params = convolution(
        n, c, o, (h + 2, w + 2), (3, 3), oS=(h, w),
        **{"in": channels_last(n, h + 2, w + 2, c), "wt": channels_last(o, 3, 3, c), "out": channels_last(n, h, w, o)},
    ).tobytes()  # fmt: skip
    file = "kernels/conv"
    turned = mk.zeros((inner * inner, c, o), x.dtype)
    kernel = mlx.kernel(mlx_root, file, f"winograd_conv_2d_weight_transform_{dtype}_bc32")
    kernel(mk.array(weights), turned, c, o, numworkgroups=(o // 4, 1, 1), workgroupsize=(32, 4, 1))
    inputs = mk.zeros((inner * inner, count, c), x.dtype)
    kernel = mlx.kernel(mlx_root, file, f"winograd_conv_2d_input_transform_{dtype}_bc32")
    kernel(mk.array(x), inputs, params, numworkgroups=(*tiles, n), workgroupsize=(32, 2, 2))
    products = inputs.numpy().astype(np.float64) @ turned.numpy().astype(np.float64)
    out = mk.zeros((n, h, w, o), x.dtype)
    kernel = mlx.kernel(mlx_root, file, f"winograd_conv_2d_output_transform_{dtype}_bo32")
    kernel(mk.array(products.astype(x.dtype)), out, params, numworkgroups=(*tiles, n), workgroupsize=(32, 2, 2))
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), (1, 2))
    wanted = np.einsum("nhwcij,oijc->nhwo", windows, weights.astype(np.float64))
    # The transforms' large coefficients cancel, which costs a 16-bit number several bits.
    near(out.numpy(), wanted, x.dtype, 64, scale=float(np.abs(wanted).max()))


@pytest.mark.parametrize("n", [5, 4096, 20001])
@pytest.mark.parametrize("dtype", FLOATS)
def test_dot_product(mlx_root: Path, dtype: str, n: int) -> None:
    rng = np.random.default_rng(32)
    a, b = (rng.standard_normal(n).astype(DTYPES[dtype]) for _ in range(2))
    groups = -(-n // (512 * 32))
    out = mk.zeros(groups)
    kernel = mlx.kernel(mlx_root, "kernels/dot", f"dot_product_{dtype}_it32_tg512_sg16")
    kernel(mk.array(a), mk.array(b), out, n, numworkgroups=groups, workgroupsize=512)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    near(out.numpy().astype(np.float64).sum(), wanted, np.float32, 64, scale=float(n**0.5))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "uint8"])
def test_searchsorted(mlx_root: Path, dtype: str, side: Any) -> None:
    kind = np.dtype(np.uint8) if dtype == "uint8" else DTYPES[dtype]
    rng = np.random.default_rng(33)
    a, v = np.sort(rng.integers(0, 40, 60)).astype(kind), rng.integers(0, 42, (3, 7)).astype(kind)
    out = mk.zeros(v.shape, np.uint32)
    kernel = mlx.kernel(mlx_root, "searchsorted", f"searchsorted_{dtype}_{side}")
    kernel(mk.array(a), mk.array(v), out, a.size, 1, ndrange=(7, 3, 1))
    assert (out.numpy() == np.searchsorted(a.astype(np.int64), v.astype(np.int64), side)).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_gradient_of_layer_norm(mlx_root: Path, dtype: str) -> None:
    rng = np.random.default_rng(34)
    rows, n, eps = 5, 256, 1e-5
    x, g = (rng.standard_normal((rows, n)).astype(DTYPES[dtype]) for _ in range(2))
    w = rng.standard_normal(n).astype(x.dtype)
    gx, gw = mk.zeros(x.shape, x.dtype), mk.zeros(x.shape, x.dtype)
    kernel = mlx.kernel(mlx_root, "layer_norm", f"vjp_layer_norm{dtype}", {"has_w": True})
    given: dict[str, Any] = {"x": mk.array(x), "w": mk.array(w), "g": mk.array(g), "gx": gx, "gw": gw, "eps": eps}
    given |= {"axis_size": n, "w_stride": 1, "n_rows": rows, "rows_per_group": 1}
    threads = mlx.rows_of_threads(n, 8)
    kernel({a.name: given[a.name] for a in kernel.arguments}, numworkgroups=rows, workgroupsize=threads)
    x64, g64, w64 = (v.astype(np.float64) for v in (x, g, w))
    deviation = 1 / np.sqrt(x64.var(-1, keepdims=True) + eps)
    normal = (x64 - x64.mean(-1, keepdims=True)) * deviation
    weighted = g64 * w64
    inner = weighted - weighted.mean(-1, keepdims=True) - normal * (weighted * normal).mean(-1, keepdims=True)
    near(gx.numpy(), deviation * inner, x.dtype, 16, scale=2.0)
    near(gw.numpy(), g64 * normal, x.dtype, 16, scale=2.0)


def fp4(codes: np.ndarray) -> np.ndarray:
    """Values of 4-bit floats: a sign, two bits of exponent, one of fraction."""
    return np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])[codes]


@pytest.mark.parametrize("dtype", ["float", "float16_t", "bfloat16_t"])
@pytest.mark.parametrize("kind", ["dequantize", "qmv_fast", "qmm_t"])
def test_mxfp4(mlx_root: Path, kind: str, dtype: str) -> None:
    """Groups of 32 four-bit floats share a power of two."""
    rng = np.random.default_rng(35)
    m, n, k, group = 5, 64, 512, 32
    codes = rng.integers(0, 16, (n, k), dtype=np.uint8)
    packed = codes[:, 0::2] | codes[:, 1::2] << 4
    scales = rng.integers(122, 128, (n, k // group), dtype=np.uint8)
    values = fp4(codes) * np.exp2(scales.astype(np.float64) - 127).repeat(group, 1)
    file, suffix = "fp_quantized", f"{dtype}_gs_{group}_b_4"
    names = [f"mxfp4_{kind}_{suffix}" + end for end in ("_hgs_false", "_batch_0", "_alN_true_batch_0")]
    library = mlx.sources.library(mlx.sources.MLX, mlx_root, f"{file}.metal")
    name = next((x for x in names if x in library.function_names), None)
    if name is None:
        pytest.skip(f"this version names the kernel {names[0]} otherwise")
    kernel = library.kernel(name)
    if kind == "dequantize":
        out = mk.zeros((n, k), DTYPES[dtype])
        given: dict[str, Any] = {
            "w": mk.array(packed),
            "scales": mk.array(scales),
            "out": out,
            "global_scale": mk.zeros(1),
        }
        kernel({a.name: given[a.name] for a in kernel.arguments}, ndrange=(n * k // 2, 1))
        near(out.numpy(), values, DTYPES[dtype], 2)
        return
    x = rng.standard_normal((m, k)).astype(DTYPES[dtype])
    out = mk.zeros((m, n), x.dtype)
    none = mlx.longs(0)
    given = {"w": mk.array(packed.view(np.uint32)), "scales": mk.array(scales), "x": mk.array(x), "y": out}
    given["global_scale"] = mk.zeros(1)
    given |= {"in_vec_size": k, "out_vec_size": n, "K": k, "N": n, "M": m, "x_batch_ndims": 0, "w_batch_ndims": 0}
    given |= {"x_shape": mlx.ints(1), "w_shape": mlx.ints(1)} | dict.fromkeys(
        ("x_strides", "w_strides", "s_strides"), none
    )
    arguments = {a.name: given.get(a.name) for a in kernel.arguments}
    if kind == "qmm_t":
        kernel(arguments, numworkgroups=(n // 32, -(-m // 32), 1), workgroupsize=(32, 2, 2))
    else:
        kernel(arguments, numworkgroups=(m, n // 8, 1), workgroupsize=(32, 2, 1))
    wanted = x.astype(np.float64) @ values.T
    near(out.numpy(), wanted, x.dtype, 64 if dtype == "float" else 4, scale=float(np.abs(wanted).max()))
