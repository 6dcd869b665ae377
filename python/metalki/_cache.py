"""The folder in which compiled kernels outlive the process."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["clear", "folder", "records"]

_GROUP = re.compile(r"[0-9a-f]{2}")
_RECORD = re.compile(r"[0-9a-f]{62}(\.[0-9]+\.[0-9]+\.tmp)?")


def folder() -> Path | None:
    """METALKI_CACHE_DIR, or `metalki` in XDG_CACHE_HOME, or ~/.cache/metalki; None when METALKI_CACHE=0 switches it off."""
    if os.environ.get("METALKI_CACHE") == "0":
        return None
    if chosen := os.environ.get("METALKI_CACHE_DIR"):
        return Path(chosen)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "metalki"
    if home := os.environ.get("HOME"):
        return Path(home) / ".cache" / "metalki"
    return None


def records() -> Iterator[Path]:
    """The cache's files. Other files in the folder, which may be any that the user named, are not among them."""
    root = folder()
    if root is None or not root.is_dir():
        return
    for group in sorted(root.iterdir()):
        if _GROUP.fullmatch(group.name) and group.is_dir() and not group.is_symlink():
            yield from (file for file in sorted(group.iterdir()) if _RECORD.fullmatch(file.name) and file.is_file())


def usage() -> tuple[int, int]:
    """Number of records and their bytes."""
    count = size = 0
    for file in records():
        try:
            size += file.stat().st_size
            count += 1
        except FileNotFoundError:  # another process cleared it
            continue
    return count, size


def clear() -> tuple[int, int]:
    """Deletes the records; returns their number and bytes. Processes that run go on. Raises OSError for what stays."""
    count = size = 0
    for file in list(records()):
        try:
            bytes_here = file.stat().st_size
            file.unlink()
        except FileNotFoundError:
            continue
        count, size = count + 1, size + bytes_here
        if not any(file.parent.iterdir()):
            file.parent.rmdir()
    return count, size
