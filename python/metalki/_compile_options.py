"""The options of a compilation: checked, and in the form that the native part takes."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from typing import Any

from ._text import shown, unicode_text
from .errors import ArgumentError

_OPTIONS = ("macros", "math_mode", "language_version", "include_dirs", "headers")
_MATH_MODES = ("fast", "relaxed", "safe")


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options in the form the native part takes. Raises ArgumentError for unknown names and bad values."""
    given = _mapping(options, "options")
    unknown = [name for name in given if name not in _OPTIONS]
    if unknown:
        raise ArgumentError(f"compile: there is no option {shown(unknown[0])}; there are {', '.join(_OPTIONS)}")
    mode = given.get("math_mode", "relaxed")
    if not isinstance(mode, str) or mode not in _MATH_MODES:
        raise ArgumentError(f'compile: math_mode is "fast", "relaxed" or "safe", {shown(mode)} was given')
    version = given.get("language_version")
    if version is not None and not isinstance(version, str):
        raise ArgumentError(f'compile: language_version is a str such as "3.2", {shown(version)} was given')
    return {
        "macros": [(_macro_name(k), _macro(k, v)) for k, v in _mapping(given.get("macros"), "macros").items()],
        "math_mode": mode,
        "language_version": unicode_text("compile: language_version", version or ""),
        "include_dirs": [unicode_text("compile: a folder of include_dirs", folder) for folder in _folders(given)],
        "headers": [(_name(k, "headers"), _text(k, v)) for k, v in _mapping(given.get("headers"), "headers").items()],
    }


def _folders(options: Mapping[str, Any]) -> list[str]:
    given = options.get("include_dirs")
    if given is None:
        return []
    if not isinstance(given, (str, bytes)):
        with contextlib.suppress(TypeError):  # what cannot be iterated over, or holds other things than paths
            return [os.fsdecode(folder) for folder in given]
    raise ArgumentError(f"compile: include_dirs is a list of folders, {shown(given)} was given")


def _mapping(value: Any, what: str) -> Mapping[Any, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ArgumentError(f"compile: {what} is a dict, {type(value).__name__} was given")
    return value


def _name(name: Any, what: str) -> str:
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"compile: {what} has names as keys, {shown(name)} was given")
    return unicode_text(f"compile: a name of {what}", name)


def _macro_name(name: Any) -> str:
    """An identifier, or one with parameters: "MIN(a, b)"."""
    if not re.fullmatch(r"[A-Za-z_]\w*(\([\w\s,.]*\))?", _name(name, "macros"), re.ASCII):
        raise ArgumentError(f"compile: {shown(name)} is not the name of a macro")
    return str(name)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"compile: header {shown(name)} is a str, {type(value).__name__} was given")
    return unicode_text(f"compile: header {shown(name)}", value)


def _macro(name: Any, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    if not isinstance(value, (int, float, str)):
        raise ArgumentError(f"compile: macro {shown(name)} is a str or a number, {type(value).__name__} was given")
    try:
        text = str(value)
    except ValueError as error:  # an int of thousands of digits
        raise ArgumentError(f"compile: macro {shown(name)}: {error}") from None
    if "\n" in text:
        raise ArgumentError(f"compile: macro {shown(name)} is one line of text, {shown(value)} was given")
    return unicode_text(f"compile: macro {shown(name)}", text)
