"""`python -m metalki check` and `run`."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from . import _arguments, _array, _compile, _device, _kernel
from .errors import ArgumentError, CompileError, CompileWarning, MetalkiError


def _options(given: argparse.Namespace) -> dict[str, Any]:
    macros = [macro.partition("=") for macro in given.macros]
    return {
        "macros": {name: value if equals else "1" for name, equals, value in macros},
        "include_dirs": given.include_dirs,
        "math_mode": given.math_mode,
    }


def check(given: argparse.Namespace) -> int:
    """Compiles every file, all their kernels included; 1 when one of them has an error."""
    warnings.simplefilter("ignore", CompileWarning)  # printed below
    return max([_check_file(Path(file), _options(given)) for file in given.files])


def _check_file(file: Path, options: dict[str, Any]) -> int:
    try:
        library = _compile.compile(file, options=options)
    except CompileError as error:
        print(str(error).rstrip(), file=sys.stderr)
        return 1
    except MetalkiError as error:
        print(f"{file}: error: {error}", file=sys.stderr)
        return 1
    for d in library.warnings:
        print(f"{d.file}:{d.line}:{d.column}: {d.severity}: {d.message}", file=sys.stderr)
    return 0


def run(given: argparse.Namespace) -> int:
    """Launches one kernel and prints the arrays it writes."""
    try:
        if given.device:
            _device.set_device(given.device)
        _run(given)
        return 0
    except (MetalkiError, OSError) as error:
        print(str(error).rstrip(), file=sys.stderr)
        return 1


def _run(given: argparse.Namespace) -> None:
    constants = _constants(given.constant)
    kernel = _kernel.make_kernel(Path(given.file), given.kernel, function_constants=constants, options=_options(given))
    specs = list(given.arg)
    if len(specs) != len(kernel.arguments):
        wanted = "".join(f"\n  {a.name}: {a.kind}, {a.type_name}, {a.access}" for a in kernel.arguments)
        raise ArgumentError(
            f"kernel {kernel.name!r} takes {len(kernel.arguments)} --arg, {len(specs)} were given:{wanted}"
        )
    values = [argument_from(spec) for spec in specs]
    saves = _saves(given.save, kernel, values)
    geometry: dict[str, Any] = {
        name: _sizes(getattr(given, name), name)
        for name in ("ndrange", "numworkgroups", "workgroupsize")
        if getattr(given, name) is not None
    }
    kernel.launch(tuple(values), **geometry)
    _device.device_synchronize()
    for argument, spec, value in zip(kernel.arguments, specs, values, strict=True):
        if isinstance(value, _array.Array) and (argument.access != "read" or spec.startswith("out:")):
            _show(argument.name, value.numpy(), given.count)
    for file, array in saves:
        np.save(file, array.numpy())


def _show(name: str, host: np.ndarray, count: int) -> None:
    flat = host.reshape(-1)
    shown = " ".join(str(number) for number in flat[: max(0, count)].tolist())
    more = " ..." if flat.size > count else ""
    print(f"{name} {host.dtype}{list(host.shape)}: {shown}{more}")


def _saves(given: list[str], kernel: Any, values: list[Any]) -> list[tuple[str, _array.Array]]:
    result = []
    arrays = {a.name: v for a, v in zip(kernel.arguments, values, strict=True) if isinstance(v, _array.Array)}
    for save in given:
        name, equals, file = save.partition("=")
        if not equals or not file or name not in arrays:
            raise ArgumentError(f"--save {save!r}: ARG=FILE.npy is expected, ARG one of {', '.join(arrays) or 'none'}")
        result.append((file, arrays[name]))
    return result


def _constants(given: list[str]) -> dict[int | str, Any] | None:
    result: dict[int | str, Any] = {}
    for constant in given:
        name, equals, text = constant.partition("=")
        value = _number(text)
        if not equals or value is None:
            raise ArgumentError(f"--constant {constant!r}: NAME=NUMBER is expected")
        result[int(name) if name.isdecimal() else name] = value
    return result or None


def _sizes(text: str, what: str) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in text.replace("x", ",").split(","))
    except ValueError:
        raise ArgumentError(f"--{what}: X, X,Y or X,Y,Z is expected, {text!r} was given") from None


def _number(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    for kind in (lambda t: int(t, 0), float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def argument_from(spec: str) -> Any:
    """The launch argument that a SPEC of the command line means."""
    if spec.startswith("@"):
        try:
            return _array.array(np.load(spec[1:], allow_pickle=False))
        except (OSError, ValueError) as error:
            raise ArgumentError(f"--arg {spec}: the file cannot be read: {error}") from error
    number = _number(spec)
    if number is not None:
        return number
    parts = spec.removeprefix("out:").split(":")
    if parts[0] == "threadgroup" and len(parts) == 2 and parts[1].isdecimal():
        return _arguments.threadgroup(int(parts[1]))
    if len(parts) not in (2, 3):
        raise ArgumentError(f"--arg {spec!r}: a number, DTYPE:SHAPE[:FILL], @FILE.npy or threadgroup:BYTES is expected")
    shape = _sizes(parts[1], f"arg {spec}")
    return _filled(spec, shape, parts[0], parts[2] if len(parts) == 3 else "zeros")


def _filled(spec: str, shape: tuple[int, ...], dtype: str, fill: str) -> _array.Array:
    if fill == "zeros":
        return _array.zeros(shape, dtype)
    size = _array.empty(shape, dtype).size  # refuses what no array can have
    if fill == "ones":
        return _array.ones(shape, dtype)
    if fill == "arange":
        return _array.array(np.arange(size).reshape(shape), dtype)
    if fill == "random":
        floats = np.random.default_rng(0).random(shape)
        return _array.array(floats * 100 if np.dtype(dtype).kind in "iu" else floats, dtype)
    value = _number(fill)
    if value is None:
        raise ArgumentError(f"--arg {spec!r}: FILL is zeros, ones, arange, random or a number")
    return _array.full(shape, value, dtype)
