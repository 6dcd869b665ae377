"""tinygrad's METAL device on metalki: tinygrad schedules and renders MSL as it does on a Mac, metalki compiles and runs it.

install() puts this module in the place of tinygrad's own ops_metal, which needs Apple's frameworks.
"""

from __future__ import annotations

import os
import sys
from typing import Any

os.environ.update(DEV="METAL", PARALLEL="0")  # read at tinygrad's import; its worker processes would miss this module

import numpy as np
from tinygrad.device import Compiled, CompileError, Compiler, LRUAllocator, Program
from tinygrad.renderer.cstyle import MetalRenderer

import metalki as mk

OPTIONS = {"math_mode": "safe"}  # tinygrad passes -fno-fast-math
ARCHITECTURE = "Apple9"
rendered: dict[str, str] = {}  # kernel name -> MSL, of all that was compiled


class MetalCompiler(Compiler):  # type: ignore[misc]
    """Checks the source; what is kept as compiled code is the source itself."""

    def __init__(self) -> None:
        super().__init__(None)  # no cache on disk: every kernel is compiled in every run

    def compile(self, src: str) -> bytes:
        try:
            names = mk.compile(src, options=OPTIONS).function_names
        except mk.CompileError as error:
            raise CompileError(f"{error}\n{src}") from error
        rendered.update(dict.fromkeys(names, src))
        return src.encode()


class MetalProgram(Program):  # type: ignore[misc]
    """One kernel; arguments are bound in order, sizes of symbolic shapes follow the buffers."""

    def __init__(self, dev: Any, obj: Any) -> None:
        self.device, self.name, self.profile_key = dev.device, obj.name, obj.profile_key
        self.kernel = mk.compile(obj.lib.decode(), options=OPTIONS).kernel(obj.name)

    def __call__(
        self,
        *bufs: Any,
        global_size: tuple[int, int, int] = (1, 1, 1),
        local_size: tuple[int, int, int] = (1, 1, 1),
        vals: tuple[int, ...] = (),
        wait: bool = False,
        **_: Any,
    ) -> float | None:
        arguments = [*self.matching(bufs), *vals]
        self.kernel.launch(tuple(arguments), numworkgroups=tuple(global_size), workgroupsize=tuple(local_size))
        if wait:
            mk.synchronize()
        return 0.0 if wait else None

    def matching(self, bufs: tuple[Any, ...]) -> list[mk.Array]:
        """tinygrad's buffers are bytes: each is viewed as the kernel declares it."""
        wanted = [argument.dtype for argument in self.kernel.arguments if argument.kind == "buffer"]
        return [
            buf[: buf.nbytes // dtype.itemsize * dtype.itemsize].view(dtype)
            for buf, dtype in zip(bufs, wanted, strict=False)
        ]


class MetalAllocator(LRUAllocator):  # type: ignore[misc]
    """Buffers are arrays of bytes in shared storage."""

    def _alloc(self, size: int, options: Any) -> mk.Array:
        return mk.zeros(-(-size // 16) * 16, np.uint8)

    def _copyin(self, dest: mk.Array, src: memoryview) -> None:
        dest.numpy()[: src.nbytes] = np.frombuffer(src, np.uint8)

    def _copyout(self, dest: memoryview, src: mk.Array) -> None:
        np.frombuffer(dest, np.uint8)[:] = src.numpy()[: dest.nbytes]

    def _offset(self, buf: mk.Array, size: int, offset: int) -> mk.Array:
        return buf[offset : offset + size]


class MetalDevice(Compiled):  # type: ignore[misc]
    """What tinygrad opens as METAL."""

    def __init__(self, device: str) -> None:
        super().__init__(device, MetalAllocator(self), [MetalRenderer], MetalProgram, None, arch=ARCHITECTURE)

    def synchronize(self) -> None:
        mk.synchronize()


def install() -> None:
    """Makes this tinygrad's METAL device in this process; it is the default one."""
    sys.modules["tinygrad.runtime.ops_metal"] = sys.modules[__name__]
