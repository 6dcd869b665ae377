"""The exceptions metalki raises: mistakes of the caller, faults of the device and failed compiles are different types."""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "ArgumentError",
    "CompileError",
    "CompileWarning",
    "DeviceError",
    "Diagnostic",
    "LaunchError",
    "MetalkiError",
    "OutOfMemoryError",
]


class Diagnostic(NamedTuple):
    """One message of the compiler. `line` and `column` count from 1; 0 means not known.

    `severity` is "error", "warning" or "note"; `file` is "program_source" for source given as text."""

    line: int
    column: int
    severity: str
    message: str
    file: str = "program_source"


class MetalkiError(Exception):
    """Base of everything metalki raises."""


class CompileError(MetalkiError):
    """The source does not compile. Its text is the compiler's; `diagnostics` has one entry per message.

    `line` and `column` are those of the first error, None when not known.
    """

    def __init__(self, text: str, diagnostics: list[Diagnostic] | None = None) -> None:
        super().__init__(text)
        self.diagnostics: list[Diagnostic] = list(diagnostics or [])
        first = next((d for d in self.diagnostics if d.severity == "error" and d.line), None)
        self.line: int | None = first.line if first else None
        self.column: int | None = first.column if first else None

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.diagnostics)


class CompileWarning(UserWarning):
    """What the compiler warned of, as `file:line:column: message`."""


class ArgumentError(MetalkiError, ValueError):
    """A value given to metalki is not one it can take. Nothing has been done."""


class LaunchError(MetalkiError):
    """A launch was refused for a reason other than its arguments. Nothing has been started."""


class DeviceError(MetalkiError):
    """The device reported a fault while it ran something; raised once, by the next wait."""


class OutOfMemoryError(MetalkiError, MemoryError):
    """Memory could not be had. The message states the size asked for and the limits."""


_Entries = list[tuple[int, int, str, bytes, bytes]]


def _diagnostics(entries: _Entries, file: str | None = None) -> list[Diagnostic]:
    """Native diagnostics; `file` stands for the source itself where it was read from a file."""
    result = []
    for line, column, severity, text, name in entries:
        shown = name.decode(errors="replace") or "program_source"
        if file and shown == "program_source":
            shown = file
        result.append(Diagnostic(line, column, severity, text.decode(errors="replace"), shown))
    return result


def _compile_error(text: bytes, entries: _Entries) -> CompileError:
    return CompileError(text.decode(errors="replace"), _diagnostics(entries))
