"""Runs all examples and shows a table of results."""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

EXAMPLES = ("vadd", "copy3d", "matmul", "softmax", "mandelbrot")


def main() -> int:
    rows = []
    for name in EXAMPLES:
        output, start = io.StringIO(), time.perf_counter()
        try:
            with contextlib.redirect_stdout(output):
                module = importlib.import_module(name)
                status = module.main([]) if name == "mandelbrot" else module.main()
        except Exception as error:
            output.write(f"{type(error).__name__}: {error}")
            status = 1
        rows.append(
            (name, "ok" if status == 0 else "FAILED", time.perf_counter() - start, output.getvalue().splitlines())
        )
    print(f"{'example':<11} {'result':<7} {'seconds':>7}  what it says")
    for name, result, seconds, lines in rows:
        print(f"{name:<11} {result:<7} {seconds:7.2f}  {lines[0] if lines else ''}")
        for line in lines[1:]:
            print(" " * 29 + line)
    return 0 if all(row[1] == "ok" for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
