"""Kernels: what their arguments are, and how they are made."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _compile, _core, _device
from ._core import Kernel
from ._text import shown, unicode_text
from .errors import ArgumentError

__all__ = ["Kernel"]


_kernels: dict[Any, Kernel] = {}
_kernels_lock = threading.Lock()


def _forget_lock() -> None:
    global _kernels_lock
    _kernels_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_lock)  # its holder may be a thread that the child does not have
_MOST_KERNELS = 4096


def kernel_from_library(
    library: _core.LibraryBase, name: str | None, function_constants: Mapping[int | str, Any] | None
) -> Kernel:
    """The kernel `name` of `library`; the same name and constants give the same object."""
    if name is not None and not isinstance(name, str):
        raise ArgumentError(f"kernel_function: a kernel's name is a str, {shown(name)} was given")
    if name == "":
        raise ArgumentError("kernel_function: the kernel's name is empty")
    name = unicode_text("kernel_function: the kernel's name", name or "")
    kernel = _core.make_kernel(library, name, _constants(function_constants))
    with _kernels_lock:
        if len(_kernels) >= _MOST_KERNELS:
            _kernels.pop(next(iter(_kernels)))
        return _kernels.setdefault(kernel, kernel)


def make_kernel(
    source: Any,
    name: str | None = None,
    *,
    function_constants: Mapping[int | str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    device: _core.Device | None = None,
) -> Kernel:
    """A kernel from source text, a Path or a Library, on the current device."""
    if isinstance(source, _core.LibraryBase):
        if options is not None:
            raise ArgumentError("kernel_function: options belong to the compilation; a Library is compiled already")
        return kernel_from_library(source, name, function_constants)
    if not isinstance(source, (str, os.PathLike)):
        raise ArgumentError(
            f"kernel_function: MSL source, a pathlib.Path or a Library is expected, {type(source).__name__} was given"
        )
    library = _compile.compile_for(device or _device.device(), source, options)
    return kernel_from_library(library, name, function_constants)


def _constants(values: Mapping[int | str, Any] | None) -> list[tuple[int | str, list[Any]]]:
    if values is None:
        return []
    if not isinstance(values, Mapping):
        raise ArgumentError(f"function_constants: a dict is expected, {type(values).__name__} was given")
    result: list[tuple[int | str, list[Any]]] = []
    for key, value in values.items():
        if isinstance(key, str):
            unicode_text("function_constants: a name", key)
        else:
            try:
                key = key.__index__()
            except AttributeError:
                raise ArgumentError(f"function_constants: keys are indices or names, {shown(key)} was given") from None
            if not 0 <= key < 65536:
                raise ArgumentError(f"function_constants: an index is 0 to 65535, {shown(key)} was given")
        result.append((key, _numbers(key, value)))
    return result


def _numbers(key: int | str, value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        value = value.reshape(-1).tolist()
    items = list(value) if isinstance(value, (tuple, list)) else [value]
    numbers = [_dtypes_item(item) for item in items]
    if not numbers or not all(isinstance(n, (bool, int, float)) for n in numbers):
        raise ArgumentError(
            f"function constant {shown(key)}: a number or a tuple of numbers is expected, {shown(value)} was given"
        )
    return numbers


def _dtypes_item(item: Any) -> Any:
    if isinstance(item, np.generic) and item.dtype.kind in "biu":
        return item.item()
    is_real = isinstance(item, np.generic) and (item.dtype.kind == "f" or item.dtype.name == "bfloat16")
    return float(item) if is_real else item
