"""What is known of a kernel's arguments. Imported when first asked for: dataclasses cost a third of the package's start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import _dtypes

__all__ = ["Argument", "describe_argument"]


@dataclass(frozen=True)
class Argument:
    """One argument of a kernel, in call order.

    `kind` is "buffer", "threadgroup", "texture" or "sampler"; `index` is Metal's index of that kind; `access` is "read",
    "write" or "read_write"; `type_name` is MSL's name of the pointee; `dtype` is its element's numpy dtype (None for
    structs); `nbytes` and `alignment` are those of the pointee as MSL lays it out.
    """

    name: str
    kind: str
    index: int
    access: str
    type_name: str
    dtype: np.dtype[Any] | None
    nbytes: int
    alignment: int
    active: bool = True
    rows: int = field(default=1, repr=False)
    columns: int = field(default=1, repr=False)
    code: int = field(default=0, repr=False)
    is_address: bool = field(default=False, repr=False)
    members: tuple[Any, ...] = field(default=(), repr=False)


def describe_argument(
    name: str,
    kind: str,
    index: int,
    access: str,
    type_name: str,
    code: int,
    rows: int,
    columns: int,
    nbytes: int,
    alignment: int,
    is_address: bool,
    active: bool,
    members: tuple[Any, ...],
) -> Argument:
    """Called by the native part, once per argument of a kernel."""
    dtype = np.dtype(np.uint64) if is_address else _dtypes.dtype_of_code(code)
    return Argument(
        name, kind, index, access, type_name, dtype, nbytes, alignment, active, rows, columns, code, is_address, members
    )
