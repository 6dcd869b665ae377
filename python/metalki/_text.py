"""Text that reaches the native part, which takes UTF-8."""

from __future__ import annotations

from .errors import ArgumentError


def unicode_text(what: str, text: str) -> str:
    """`text` itself. Raises ArgumentError, naming `what`, for lone surrogates: those of undecodable file names, for example."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ArgumentError(f"{what} is not valid Unicode: {error}") from None
    return text
