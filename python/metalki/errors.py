"""The exceptions metalki raises: mistakes of the caller, faults of the device and failed compiles are different types."""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "ArgumentError",
    "CompileError",
    "DeviceError",
    "Diagnostic",
    "LaunchError",
    "MetalkiError",
    "OutOfMemoryError",
]


class Diagnostic(NamedTuple):
    """One message of the compiler. `line` and `column` count from 1; 0 means not known."""

    line: int
    column: int
    severity: str
    message: str


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


class ArgumentError(MetalkiError, ValueError):
    """A value given to metalki is not one it can take. Nothing has been done."""


class LaunchError(MetalkiError):
    """A launch was refused for a reason other than its arguments. Nothing has been started."""


class DeviceError(MetalkiError):
    """The device reported a fault while it ran something; raised once, by the next wait."""


class OutOfMemoryError(MetalkiError, MemoryError):
    """Memory could not be had. The message states the size asked for and the limits."""


def _diagnostics(entries: list[tuple[int, int, str, bytes]]) -> list[Diagnostic]:
    return [
        Diagnostic(line, column, severity, text.decode(errors="replace")) for line, column, severity, text in entries
    ]


def _compile_error(text: bytes, entries: list[tuple[int, int, str, bytes]]) -> CompileError:
    return CompileError(text.decode(errors="replace"), _diagnostics(entries))
