"""Compiles and launches the kernels of one source after the other, with the executor that the environment names.

A line of JSON in (name of the source file, math mode, launches of each kernel, file for the outputs), one out.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import numpy as np

import metalki as mk

SIZE = 1024
OUTPUTS = ("o", "os", "oc", "ov", "at", "aw")
RECORD = np.dtype(
    {
        "names": ["a", "b", "c", "d", "f", "v", "t"],
        "formats": ["<u4", "<i4", "<i2", "u1", "<f4", ("<u4", 4), ("<u2", 4)],
        "offsets": [0, 4, 8, 10, 12, 16, 32],
        "itemsize": 48,
    }
)


def inputs() -> list[Any]:
    """What every kernel reads: small and large numbers, zeros among them."""
    r = np.random.default_rng(7)
    words = r.integers(0, 2**32, SIZE, dtype=np.uint32)
    words[::3] &= 31
    words[5::16] = 0
    shorts = r.integers(-(2**15), 2**15, SIZE, dtype=np.int16)
    shorts[::4] %= 9
    longs = r.integers(-(2**63), 2**63 - 1, SIZE, dtype=np.int64)
    longs[::3] %= 1000
    floats = (r.integers(-64, 64, SIZE) / 4).astype(np.float32)
    halves = (r.integers(-32, 32, SIZE) / 4).astype(np.float16)
    records = np.zeros(64, RECORD)
    for name in "abcd":
        records[name] = r.integers(0, 100, 64)
    records["f"] = r.integers(-20, 20, 64) / 2
    records["v"] = r.integers(0, 50, (64, 4))
    records["t"] = r.integers(0, 2**16, (64, 4))
    quads = r.integers(0, 2**32, 4 * SIZE, dtype=np.uint32)
    flat = [words, r.integers(0, 256, SIZE, dtype=np.uint8), shorts, longs, floats, halves, quads, records]
    return [mk.array(array) for array in flat]


def launch(kernel: mk.Kernel, given: list[Any], group: list[int], grid: list[int]) -> list[np.ndarray]:
    """Outputs of one launch, as whole numbers."""
    total = int(np.prod(grid))
    outputs = [
        mk.zeros(total * 8, np.uint32),
        mk.zeros(total * 3, np.uint16),
        mk.zeros(total * 4, np.uint8),
        mk.zeros(total * 4, np.float32),
        mk.zeros(96, np.uint32),
        mk.array(np.array([0] * 8 + [2**64 - 1] * 8, np.uint64)),
    ]
    record = given[-1].numpy()[3].tobytes()
    kernel(*outputs[:5], *given, record, 37, outputs[5], ndrange=tuple(grid), workgroupsize=tuple(group))
    mk.synchronize()
    return [output.numpy().view(f"u{output.dtype.itemsize}") for output in outputs]


def run(request: dict[str, Any], given: list[Any]) -> dict[str, str]:
    """What became of each kernel: "ok", or the error's text."""
    verdicts: dict[str, str] = {}
    arrays: dict[str, np.ndarray] = {}
    try:
        with open(request["source"]) as file:
            library = mk.compile(file.read(), options={"math_mode": request["math_mode"]})
    except Exception as error:
        return dict.fromkeys(request["launches"], f"{type(error).__name__}: {error}")
    for name, launches in request["launches"].items():
        try:
            kernel = library.kernel(name, {0: int(name[1:]) % 5, 1: int(name[1:]) % 3 == 0})
            for number, (group, grid) in enumerate(launches):
                for part, array in zip(OUTPUTS, launch(kernel, given, group, grid), strict=True):
                    arrays[f"{name}/{number}/{part}"] = array
            verdicts[name] = "ok"
        except Exception as error:
            verdicts[name] = f"{type(error).__name__}: {error}"
    np.savez(request["outputs"], **arrays)
    return verdicts


def main() -> None:
    """Serves requests until the input ends."""
    warnings.simplefilter("ignore")
    given = inputs()
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line), given)), flush=True)


if __name__ == "__main__":
    main()
