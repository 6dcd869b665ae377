"""`python -m metalki info` and `python -m metalki --cmake-dir`."""

from __future__ import annotations

import argparse
from pathlib import Path


def main() -> int:
    """Runs the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m metalki", description="What this installation of metalki is.")
    parser.add_argument("--cmake-dir", action="store_true", help="print where find_package(metalki) finds its files")
    parser.add_argument("command", nargs="?", choices=["info"], help="info: versions and devices")
    given = parser.parse_args()
    if given.cmake_dir:
        print(Path(__file__).resolve().parent / "cmake")
        return 0
    from . import kernel_interface

    kernel_interface.versioninfo(kernel_interface.MetalBackend())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
