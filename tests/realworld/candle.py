"""How candle's kernels want to be launched: sizes and strides as size_t, then the arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import sources

import metalki as mk


def kernel(root: Path, file: str, name: str, **constants: Any) -> mk.Kernel:
    """A kernel of one of candle's files, by the file's stem."""
    return sources.library(sources.CANDLE, root, f"{file}.metal").kernel(name, function_constants=constants or None)


def sizes(*numbers: int) -> np.ndarray:
    """An array of size_t, for dims and strides."""
    return np.array(numbers, np.uint64)


def strides(array: np.ndarray) -> np.ndarray:
    """Strides in elements."""
    return sizes(*(s // array.itemsize for s in array.strides))


def work(dtype: Any, n: int) -> int:
    """Threads of a contiguous kernel: each takes as many elements as fit into eight bytes."""
    return -(-n // max(1, 8 // np.dtype(dtype).itemsize))
