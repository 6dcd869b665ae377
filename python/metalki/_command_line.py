"""`python -m metalki check` and `run`."""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from . import _array, _compile, _device, _kernel, _profile
from ._shell_arguments import FORMS, argument_from, number, sizes
from .errors import ArgumentError, CompileError, CompileWarning, MetalkiError


def _options(given: argparse.Namespace) -> dict[str, Any]:
    macros = [macro.partition("=") for macro in given.macros]
    return {
        "macros": {name: value if equals else "1" for name, equals, value in macros},
        "include_dirs": given.include_dirs,
        "math_mode": given.math_mode,
    }


def check(given: argparse.Namespace) -> int:
    """Compiles every file, all their kernels included; 1 when one of them has an error, or a warning with --werror."""
    warnings.simplefilter("ignore", CompileWarning)  # printed below
    found = [_check_file(Path(file), _options(given), given.no_kernels) for file in given.files]
    return 1 if any(errors or (given.werror and warned) for errors, warned in found) else 0


def _check_file(file: Path, options: dict[str, Any], no_kernels: bool) -> tuple[bool, bool]:
    """Whether the file has errors, and whether it has warnings."""
    try:
        library = _compile.compile(file, options=options)
    except CompileError as error:
        print(str(error).rstrip(), file=sys.stderr)
        return True, False
    except MetalkiError as error:
        print(f"{file}:1:1: error: {error}", file=sys.stderr)
        return True, False
    for d in library.warnings:
        print(f"{d.file}:{d.line}:{d.column}: {d.severity}: {d.message}", file=sys.stderr)
    broken = [name for name in library.function_names if not no_kernels and _check_kernel(file, library, name)]
    return bool(broken), any(d.severity == "warning" for d in library.warnings)


def _check_kernel(file: Path, library: _compile.Library, name: str) -> bool:
    try:
        library[name]
    except CompileError as error:
        text = str(error).rstrip()
        print(text if re.match(r"[^\n]*:\d+:\d+: ", text) else f"{file}:1:1: error: {text}", file=sys.stderr)
        return True
    except ArgumentError:  # function constants without values: nothing is known of this kernel yet
        return False
    return False


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
    specs = _in_order(kernel, given.arg)
    values = [argument_from(spec) for spec in specs]
    saves = _saves(given.save, kernel, values)
    geometry: dict[str, Any] = {
        name: sizes(getattr(given, name), f"--{name}")
        for name in ("ndrange", "numworkgroups", "workgroupsize")
        if getattr(given, name) is not None
    }
    if given.ndrange is None and given.numworkgroups is None:
        raise ArgumentError("give --ndrange X[,Y[,Z]], the number of threads, or --numworkgroups")
    with _profile.profile() as profile:
        kernel.launch(tuple(values), **geometry)
    for argument, spec, value in zip(kernel.arguments, specs, values, strict=True):
        if isinstance(value, _array.Array) and (argument.access != "read" or spec.startswith("out:")):
            _show(argument.name, value.numpy(), given.count)
    for file, array in saves:
        np.save(file, array.numpy())
    if given.time:
        print(profile.table(), file=sys.stderr)


def _in_order(kernel: Any, given: list[str]) -> list[str]:
    """One word for each argument of the kernel: NAME=SPEC by name, the others fill the rest in order."""
    names = [argument.name for argument in kernel.arguments]
    named: dict[str, str] = {}
    rest = []
    for spec in given:
        name, equals, value = spec.partition("=")
        if equals and name in names and name not in named:
            named[name] = value
        elif equals and name.isidentifier():
            raise ArgumentError(
                f"--arg {spec!r}: {name!r} is given twice"
                if name in named
                else f"--arg {spec!r}: kernel {kernel.name!r} has no argument {name!r}; it has {', '.join(names)}"
            )
        else:
            rest.append(spec)
    if len(named) + len(rest) != len(names):
        wanted = "".join(f"\n  {_described(argument)}" for argument in kernel.arguments)
        raise ArgumentError(
            f"kernel {kernel.name!r} takes {len(names)} --arg, {len(given)} were given:{wanted}\neach is {FORMS}"
        )
    return [named[name] if name in named else rest.pop(0) for name in names]


def _described(argument: Any) -> str:
    example = {"threadgroup": "threadgroup:1024", "texture": "", "sampler": ""}.get(argument.kind)
    if example is None and argument.dtype is not None:
        one = argument.access == "read" and argument.rows == argument.columns == 1 and not argument.is_address
        example = f"zeros:{argument.dtype}:1024" + (", or a number" if one else "")
    kind = f"{argument.name}: {argument.kind}, {argument.type_name}, {argument.access}"
    return f"{kind} (such as {example})" if example else kind


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
        value = number(text)
        if not equals or value is None:
            raise ArgumentError(f"--constant {constant!r}: NAME=NUMBER is expected")
        result[int(name) if name.isdecimal() else name] = value
    return result or None
