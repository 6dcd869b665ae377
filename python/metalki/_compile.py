"""Compiling MSL source."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import _core, _device
from ._text import shown, unicode_text
from .errors import ArgumentError, CompileError, CompileWarning, Diagnostic, _diagnostics

if TYPE_CHECKING:
    from ._core import Kernel

__all__ = ["Library", "compile"]


class Library(_core.LibraryBase):
    """A compiled source: a mapping from kernel names to kernels."""

    _file: str | None = None

    def kernel(self, name: str | None = None, function_constants: Mapping[int | str, Any] | None = None) -> Kernel:
        """The kernel of that name; the only one when no name is given. Raises ArgumentError naming those there are."""
        from ._kernel import kernel_from_library

        return kernel_from_library(self, name, function_constants)

    @property
    def warnings(self) -> list[Diagnostic]:
        """What the compiler warned of."""
        return _diagnostics(self._warnings, self._file)

    def __getitem__(self, name: str) -> Kernel:
        if not isinstance(name, str):
            raise ArgumentError(f"Library: a kernel's name is expected, {shown(name)} was given")
        return self.kernel(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.function_names)

    def __len__(self) -> int:
        return len(self.function_names)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.function_names

    def keys(self) -> list[str]:
        """The kernels' names."""
        return list(self.function_names)

    def values(self) -> list[Kernel]:
        """All kernels."""
        return [self[name] for name in self]

    def items(self) -> list[tuple[str, Kernel]]:
        """All names and kernels."""
        return [(name, self[name]) for name in self]

    def get(self, name: str, default: Kernel | None = None) -> Kernel | None:
        """The kernel of that name, `default` when there is none."""
        return self[name] if name in self else default  # noqa: SIM401

    def __repr__(self) -> str:
        return f"<metalki.Library with {', '.join(self.function_names) or 'no kernels'}>"


# nanobind's metaclass and ABCMeta do not mix.
Mapping.register(Library)


def compile(source: str | os.PathLike[str], *, options: Mapping[str, Any] | None = None) -> Library:
    """Compiles MSL source text, or the .metal file that a pathlib.Path names, for the current device.

    options: macros={name: value}, math_mode="fast", "relaxed" (default) or "safe", language_version="3.2",
    include_dirs=[folders], headers={"name.h": text}. The same source and options are compiled once.
    Raises CompileError with the compiler's text, ArgumentError for options that make no sense.
    """
    return compile_for(_device.device(), source, options)


def source_text(source: Any) -> str:
    """The source's text; reads the file of a Path."""
    if isinstance(source, os.PathLike):
        try:
            with open(source, encoding="utf-8") as file:
                return file.read()
        except (OSError, ValueError) as error:
            raise ArgumentError(f"compile: the file {source} cannot be read: {error}") from error
    if not isinstance(source, str):
        raise ArgumentError(
            f"compile: MSL source as a str or a pathlib.Path is expected, {type(source).__name__} was given"
        )
    return unicode_text("compile: the source", source)


def compile_for(device: _core.Device, source: Any, options: Mapping[str, Any] | None) -> Library:
    """compile() for a given device."""
    text = source_text(source)
    checked = _checked(options)
    path = os.fsdecode(source) if isinstance(source, os.PathLike) else None
    if path is not None:
        checked["include_dirs"].insert(0, unicode_text("compile: the file's folder", os.path.dirname(path) or "."))
    try:
        library = Library(_core.compile(device, text, **checked))
    except CompileError as error:
        raise error if path is None else _in_file(error, path) from None
    library._file = path or library._file
    _warn_once(library)
    return library


def _checked(options: Mapping[str, Any] | None) -> dict[str, Any]:
    if options is None:
        return {"include_dirs": []}
    from ._compile_options import check_options  # most programs go without

    return check_options(options)


def _in_file(error: CompileError, file: str) -> CompileError:
    """The same error with the file's own name."""
    import re

    text = re.sub(r"^program_source(?=:)", lambda _: file, str(error), flags=re.MULTILINE)
    return CompileError(text, [d._replace(file=file) if d.file == "program_source" else d for d in error.diagnostics])


_warned: set[int] = set()


def _warn_once(library: Library) -> None:
    """Hands the compiler's warnings to Python's, pointing at the code that asked for the compilation."""
    if library._identity in _warned:
        return
    _warned.add(library._identity)  # libraries are kept, so an identity is not used twice
    found = [d for d in library.warnings if d.severity == "warning"]
    if not found:
        return
    import warnings

    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "metalki":
        frame, level = frame.f_back, level + 1
    for d in found:
        warnings.warn(f"{d.file}:{d.line}:{d.column}: {d.message}", CompileWarning, stacklevel=level)
