"""Reads the few facts that the macOS cross-check needs from a 64-bit Mach-O file."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

MAGIC_64 = 0xFEEDFACF
CPU_ARM64 = 0x0100000C
FILETYPE_DYLIB = 6
COMMAND_SYMTAB = 0x2
COMMAND_LOAD_DYLIB = 0xC
STABS = 0xE0
TYPE_MASK = 0x0E
EXTERNAL = 0x01


@dataclass
class MachO:
    """Header facts, the libraries to load, and the external symbols that are defined and undefined."""

    cpu: int
    filetype: int
    libraries: list[str] = field(default_factory=list)
    defined: set[str] = field(default_factory=set)
    undefined: set[str] = field(default_factory=set)


def _text(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode()


def _read_symbols(data: bytes, command: int, result: MachO) -> None:
    symbols, count, strings, _ = struct.unpack_from("<4I", data, command + 8)
    for index in range(count):
        name, kind, _, _, _ = struct.unpack_from("<IBBHQ", data, symbols + 16 * index)
        if kind & STABS or not kind & EXTERNAL:
            continue
        (result.defined if kind & TYPE_MASK else result.undefined).add(_text(data, strings + name))


def read(path: Path) -> MachO:
    """The facts of the file at `path`; ValueError when it is not a 64-bit Mach-O file."""
    data = path.read_bytes()
    magic, cpu, _, filetype, commands = struct.unpack_from("<5I", data)
    if magic != MAGIC_64:
        raise ValueError(f"{path} is not a 64-bit Mach-O file: it starts with {magic:#x}")
    result = MachO(cpu, filetype)
    offset = 32
    for _ in range(commands):
        command, size = struct.unpack_from("<2I", data, offset)
        if command == COMMAND_SYMTAB:
            _read_symbols(data, offset, result)
        elif command == COMMAND_LOAD_DYLIB:
            result.libraries.append(_text(data, offset + struct.unpack_from("<I", data, offset + 8)[0]))
        offset += size
    return result
