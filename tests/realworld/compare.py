"""Comparison with float64 references, and the dtypes by the names that kernels use."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = {
    "f32": np.dtype(np.float32), "float32": np.dtype(np.float32), "float": np.dtype(np.float32),
    "f16": np.dtype(np.float16), "float16": np.dtype(np.float16), "float16_t": np.dtype(np.float16),
    "bf16": BF16, "bfloat16": BF16, "bfloat16_t": BF16,
    "u8": np.dtype(np.uint8), "u32": np.dtype(np.uint32), "i64": np.dtype(np.int64), "i32": np.dtype(np.int32),
    "int32": np.dtype(np.int32), "uint32": np.dtype(np.uint32), "int64": np.dtype(np.int64),
}  # fmt: skip
ROUNDING = {np.dtype(np.float32): 6e-8, np.dtype(np.float16): 5e-4, BF16: 4e-3}


def near(got: Any, wanted: Any, dtype: Any, ulps: float = 16.0, scale: float | None = None) -> None:
    """Asserts |got - wanted| <= ulps roundings of the dtype, relative to the wanted number or to `scale` if that is more."""
    got64, wanted64 = np.asarray(got).astype(np.float64), np.asarray(wanted).astype(np.float64)
    assert got64.shape == wanted64.shape, (got64.shape, wanted64.shape)
    rounding = ROUNDING.get(np.dtype(dtype), 0.0) * ulps
    with np.errstate(invalid="ignore"):
        allowed = rounding * np.maximum(np.abs(wanted64), scale if scale is not None else 1e-30) + (rounding and 1e-37)
    same = (got64 == wanted64) | (np.isnan(got64) & np.isnan(wanted64))
    with np.errstate(invalid="ignore"):
        wrong = ~(same | (np.abs(got64 - wanted64) <= allowed))
    if wrong.any():
        where = tuple(int(i[0]) for i in np.nonzero(wrong))
        raise AssertionError(
            f"{int(wrong.sum())} of {wrong.size} wrong, first at {where}: got {got64[where]!r}, wanted {wanted64[where]!r}, "
            f"allowed difference {np.broadcast_to(allowed, wrong.shape)[where]:.3g}; "
            f"got {got64.ravel()[:8]}, wanted {wanted64.ravel()[:8]}"
        )
