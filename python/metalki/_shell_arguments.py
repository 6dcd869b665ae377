"""Launch arguments written as words of a shell: what `python -m metalki run --arg` takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _arguments, _array
from .__main__ import _FORMS as FORMS
from .errors import ArgumentError

__all__ = ["FORMS", "argument_from", "number", "sizes"]

_FILLS = ("zeros", "ones", "arange", "random")


def argument_from(spec: str) -> Any:
    """The launch argument that a word means. Raises ArgumentError that says what is possible."""
    spec = spec.removeprefix("out:")
    if spec == "none":
        return None
    value = number(spec)
    if value is not None:
        return value
    if spec.startswith("@") or spec.endswith(".npy"):
        return _from_file(spec)
    if "," in spec and ":" not in spec:
        numbers = [number(part) for part in spec.strip("[]()").split(",") if part]
        if numbers and None not in numbers:
            return tuple(numbers)
    parts = spec.split(":")
    if parts[0] == "threadgroup" and len(parts) in (2, 3):
        return _threadgroup(spec, parts[1:])
    if len(parts) == 2:
        return _filled(spec, "zeros", *parts)
    if len(parts) == 3:
        # Both orders: people begin with what they think of first.
        first_is_fill = parts[0] in _FILLS or number(parts[0]) is not None
        fill, dtype, shape = parts if first_is_fill else (parts[2], parts[0], parts[1])
        return _filled(spec, fill, dtype, shape)
    raise ArgumentError(f"--arg {spec!r} is none of: {FORMS}")


def number(text: str) -> Any:
    """The bool, int or float that `text` writes; None when it is none."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (lambda t: int(t, 0), float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def sizes(text: str, what: str) -> tuple[int, ...]:
    """Sizes such as 16x16 or 16,16. Raises ArgumentError naming `what`."""
    try:
        return tuple(int(size) for size in text.replace("x", ",").split(","))
    except ValueError:
        raise ArgumentError(f"{what}: X, X,Y or X,Y,Z is expected, {text!r} was given") from None


def _from_file(spec: str) -> _array.Array:
    try:
        return _array.array(np.load(spec.removeprefix("@"), allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise ArgumentError(f"--arg {spec}: the file cannot be read: {error}") from error


def _threadgroup(spec: str, parts: list[str]) -> _arguments.ThreadgroupMemory:
    if len(parts) == 1 and parts[0].isdecimal():
        return _arguments.threadgroup(int(parts[0]))
    if len(parts) == 2:
        return _arguments.threadgroup(sizes(parts[1], f"--arg {spec}"), parts[0])
    raise ArgumentError(f"--arg {spec!r}: threadgroup:BYTES or threadgroup:DTYPE:SHAPE is expected")


def _filled(spec: str, fill: str, dtype: str, shape_text: str) -> _array.Array:
    value = number(fill)
    if fill not in _FILLS and value is None:
        raise ArgumentError(f"--arg {spec!r}: FILL is {', '.join(_FILLS)} or a number, {fill!r} was given")
    shape = sizes(shape_text, f"--arg {spec}")
    try:
        result = _array.zeros(shape, dtype)  # refuses what no array can have
    except ArgumentError as error:
        raise ArgumentError(f"--arg {spec!r}: {str(error).removeprefix('zeros: ')}") from None
    if fill == "zeros":
        return result
    if fill == "ones":
        value = 1
    if value is not None:
        return _array.full(result.shape, value, dtype)
    if fill == "arange":
        return _array.array(np.arange(result.size).reshape(result.shape), dtype)
    floats = np.random.default_rng(0).random(result.shape)
    return _array.array(floats * 100 if result.dtype.kind in "iu" else floats, dtype)
