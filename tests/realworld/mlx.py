"""How MLX's kernels want to be launched: arguments by buffer index, strides as int64, its own group shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import sources

import metalki as mk


def kernel(root: Path, file: str, name: str, constants: dict[int | str, Any] | None = None) -> mk.Kernel:
    """A kernel of one of MLX's files, by the end of the file's path without .metal."""
    return sources.library(sources.MLX, root, f"{file}.metal").kernel(name, function_constants=constants)


def launch(kernel: mk.Kernel, buffers: dict[int, Any], **geometry: Any) -> None:
    """Launches with arguments by buffer index; arguments that a constant switches off get None."""
    kernel.launch(tuple(buffers.get(argument.index) for argument in kernel.arguments), **geometry)


def ints(*numbers: int) -> np.ndarray:
    """A shape."""
    return np.array(numbers, np.int32)


def longs(*numbers: int) -> np.ndarray:
    """Strides in elements."""
    return np.array(numbers, np.int64)


def per_thread(dtype: Any) -> int:
    """Elements that one thread of the vectorised element-wise kernels takes."""
    return max(1, 8 // np.dtype(dtype).itemsize)


def rows_of_threads(n: int, reads: int = 4) -> int:
    """Threads of a row kernel: `reads` elements each, whole SIMD-groups."""
    return -(-n // (32 * reads)) * 32


def threefry(key: tuple[int, int], count: np.ndarray) -> np.ndarray:
    """Threefry-2x32 with 20 rounds of (n, 2) counters, as published by Salmon et al. (2011)."""
    mask = 0xFFFFFFFF
    schedule = [key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDA]
    x = [(count[:, i].astype(np.uint64) + schedule[i]) & mask for i in range(2)]
    for block in range(5):
        for rotation in ((13, 15, 26, 6), (17, 29, 16, 24))[block % 2]:
            x[0] = (x[0] + x[1]) & mask
            x[1] = ((x[1] << rotation) | (x[1] >> (32 - rotation))) & mask
            x[1] ^= x[0]
        x[0] = (x[0] + schedule[(block + 1) % 3]) & mask
        x[1] = (x[1] + schedule[(block + 2) % 3] + block + 1) & mask
    return np.stack(x, 1).astype(np.uint32)
