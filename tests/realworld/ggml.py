"""How ggml's kernels want to be launched: argument structs, byte strides, quantised blocks, threadgroup memory."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import sources

import metalki as mk

SIMD = 32
_SCALARS = {
    "int8_t": "i1", "uint8_t": "u1", "int16_t": "i2", "uint16_t": "u2", "int32_t": "i4", "uint32_t": "u4", "int": "i4",
    "int64_t": "i8", "uint64_t": "u8", "size_t": "u8", "float": "f4", "bool": "?",
}  # fmt: skip


@lru_cache(maxsize=1)
def structs(root: Path) -> dict[str, np.dtype]:
    """The argument structs as aligned numpy dtypes, by what follows `ggml_metal_kargs_`; versions add members."""
    text = (root / "src/ggml-metal/ggml-metal-impl.h").read_text(encoding="utf-8")
    text = re.sub(r"//[^\n]*", "", text)
    found = {}
    for body, name in re.findall(r"typedef struct\s*\{([^}]*)\}\s*ggml_metal_kargs_(\w+)\s*;", text):
        members: list[Any] = []
        for kind, member, count in re.findall(r"(\w+)\s+(\w+)\s*(?:\[\s*(\d+)\s*\])?\s*;", body):
            if kind in _SCALARS:
                members.append((member, _SCALARS[kind], (int(count),)) if count else (member, _SCALARS[kind]))
        found[name] = np.dtype(members, align=True)
    return found


def args(root: Path, struct: str, **members: Any) -> bytes:
    """An argument struct; members that are not named, and ones this version does not have, are zero or left out."""
    value = np.zeros((), structs(root)[struct])
    for name, number in members.items():
        if name in value.dtype.names:
            value[name] = number
    return value.tobytes()


def extents(
    which: str, array: np.ndarray, shape: tuple[int, ...] | None = None, row_bytes: int | None = None
) -> dict[str, Any]:
    """ne/nb members of a C-ordered array: which="0" for src0 (ne00...), "1" for src1, "" for dst (ne0...).

    Quantised rows give the logical shape and the bytes of a row.
    """
    lengths = list(reversed(shape or array.shape)) + [1] * 4
    unit = array.itemsize if row_bytes is None else 1
    strides = [unit, row_bytes if row_bytes is not None else unit * lengths[0]]
    for n in lengths[1:3]:
        strides.append(strides[-1] * n)
    out: dict[str, Any] = {}
    for i in range(4):
        out[f"ne{which}{i}"] = lengths[i]
        out[f"nb{which}{i}"] = strides[i]
    return out


_where: dict[Path, dict[str, str]] = {}


def kernel(root: Path, name: str, **constants: Any) -> mk.Kernel:
    """The kernel of that name with those function constants, from whichever file holds it (newer versions have several)."""
    known = _where.setdefault(root, {})
    if name not in known:
        files = sources.GGML.files(root)
        stem = re.sub(r"^kernel_|_(f32|f16|bf16|q\d|iq\d).*$", "", name)
        for path in sorted(files, key=lambda p: f"kernel_{stem}" not in p.read_text(encoding="utf-8")):
            library = sources.library(sources.GGML, root, path.relative_to(root / sources.GGML.kernels).as_posix())
            known.update(
                dict.fromkeys(library.function_names, path.relative_to(root / sources.GGML.kernels).as_posix())
            )
            if name in known:
                break
    library = sources.library(sources.GGML, root, known[name])
    try:
        return library.kernel(name, function_constants=constants or None)
    except mk.ArgumentError as error:  # newer versions have further switches, which are off
        more = re.findall(r"'(FC_\w+)'", str(error))
        if not more or any(x in constants for x in more):
            raise
        return library.kernel(name, function_constants=constants | dict.fromkeys(more, False))


def raw(array: np.ndarray) -> mk.Array:
    """The array's bytes: most of ggml's kernels take `char` pointers."""
    return mk.array(np.ascontiguousarray(array).reshape(-1).view(np.int8))


def out(shape: tuple[int, ...], dtype: Any) -> mk.Array:
    """An output of that many elements, in bytes, filled with a pattern that no result has."""
    return mk.full(int(np.prod(shape)) * np.dtype(dtype).itemsize, 0x7B, np.int8)


def result(array: mk.Array, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """What a kernel wrote, in float64 where it is a number with a fraction."""
    values = array.numpy().view(dtype).reshape(shape)
    return values.astype(np.float64) if np.dtype(dtype).kind in "fV" else values.copy()


def _halves(rng: np.random.Generator, n: int, scale: float = 0.02) -> np.ndarray:
    return (rng.uniform(0.5, 1.5, (n, 1)) * scale).astype(np.float16)


def blocks_q4_0(rng: np.random.Generator, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Random 4-bit blocks of 32: a half scale, then nibbles; element i and i + 16 share a byte. Returns bytes, values."""
    n = rows * columns // 32
    scale = _halves(rng, n)
    codes = rng.integers(0, 16, (n, 32), dtype=np.uint8)
    packed = codes[:, :16] | codes[:, 16:] << 4
    values = (codes.astype(np.float64) - 8) * scale.astype(np.float64)
    return np.hstack([scale.view(np.uint8), packed]), values.reshape(rows, columns)


def blocks_q8_0(rng: np.random.Generator, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Random 8-bit blocks of 32: a half scale, then signed bytes."""
    n = rows * columns // 32
    scale = _halves(rng, n, 0.002)
    codes = rng.integers(-127, 128, (n, 32), dtype=np.int8)
    return np.hstack([scale.view(np.uint8), codes.view(np.uint8)]), (codes * scale.astype(np.float64)).reshape(
        rows, columns
    )


def blocks_q4_k(rng: np.random.Generator, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Random super-blocks of 256: two half scales, eight 6-bit scales and minima in 12 bytes, then nibbles."""
    n = rows * columns // 256
    d, dmin = _halves(rng, n, 0.002), _halves(rng, n, 0.002)
    scales = rng.integers(0, 64, (n, 8), dtype=np.uint8)
    minima = rng.integers(0, 64, (n, 8), dtype=np.uint8)
    codes = rng.integers(0, 16, (n, 4, 2, 32), dtype=np.uint8)
    packed_scales = np.hstack([
        scales[:, :4] | scales[:, 4:] >> 4 << 6,
        minima[:, :4] | minima[:, 4:] >> 4 << 6,
        scales[:, 4:] & 15 | (minima[:, 4:] & 15) << 4,
    ])  # fmt: skip
    packed = (codes[:, :, 0] | codes[:, :, 1] << 4).reshape(n, 128)
    per_sub_block = codes.reshape(n, 8, 32).astype(np.float64)
    values = (d * scales.astype(np.float64))[..., None] * per_sub_block - (dmin * minima.astype(np.float64))[..., None]
    return np.hstack([d.view(np.uint8), dmin.view(np.uint8), packed_scales, packed]), values.reshape(rows, columns)


def blocks_q6_k(rng: np.random.Generator, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Random super-blocks of 256: low nibbles, high bit pairs, sixteen signed scales, a half scale."""
    n = rows * columns // 256
    d = _halves(rng, n, 0.001)
    scales = rng.integers(-32, 33, (n, 16), dtype=np.int8)
    codes = rng.integers(0, 64, (n, 2, 4, 32), dtype=np.uint8)  # half, quarter, element
    low, high = codes & 15, codes >> 4
    ql = np.concatenate([low[:, :, 0] | low[:, :, 2] << 4, low[:, :, 1] | low[:, :, 3] << 4], axis=2).reshape(n, 128)
    qh = (high[:, :, 0] | high[:, :, 1] << 2 | high[:, :, 2] << 4 | high[:, :, 3] << 6).reshape(n, 64)
    sixteens = codes.reshape(n, 16, 16).astype(np.float64) - 32
    values = sixteens * (d.astype(np.float64) * scales)[..., None]
    return np.hstack([ql, qh, scales.view(np.uint8), d.view(np.uint8)]), values.reshape(rows, columns)


BLOCKS = {"q4_0": (blocks_q4_0, 32), "q8_0": (blocks_q8_0, 32), "q4_K": (blocks_q4_k, 256), "q6_K": (blocks_q6_k, 256)}
