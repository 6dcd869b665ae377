"""Text that reaches the native part, which takes UTF-8, and values in messages."""

from __future__ import annotations

from .errors import ArgumentError


def unicode_text(what: str, text: str) -> str:
    """`text` itself. Raises ArgumentError, naming `what`, for lone surrogates: those of undecodable file names, for example."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ArgumentError(f"{what} is not valid Unicode: {error}") from None
    return text


def flag(what: str, value: object) -> bool:
    """Whether `value` is true. Raises ArgumentError, naming `what`, for what cannot say, such as arrays."""
    try:
        return bool(value)
    except Exception as error:
        raise ArgumentError(f"{what} is True or False, {shown(value)} was given") from error


_MOST_SHOWN = 200  # characters


def shown(value: object) -> str:
    """repr(value) for a message: cut where it is long, the type's name where there is none to be had."""
    try:
        text = repr(value)
    except Exception:  # an int of thousands of digits, an object that is not made yet, one that refuses
        return f"<{type(value).__name__}>"
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."
