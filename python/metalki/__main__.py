"""The command line: `python -m metalki --help`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

_FORMS = """a number (3, 0xff, 2.5, true); several for a vector (1,2,3); an array FILL:DTYPE:SHAPE or DTYPE:SHAPE
(zeros:float32:1024, arange:int32:16x16, random:float32:1000, 7:uint8:64); FILE.npy; threadgroup:BYTES or
threadgroup:DTYPE:SHAPE; none for what a function constant switches off. With out: before it an array is printed also when
the kernel only reads it. NAME=... gives the argument of that name"""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit status: 0 done, 1 what was asked for failed, 2 wrong usage."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.cmake_dir:
        print(Path(__file__).resolve().parent / "cmake")
        return 0
    if given.command is None:
        parser.print_help()
        return 2
    try:
        return int(given.function(given))
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m metalki", description="Compute kernels in the Metal Shading Language."
    )
    parser.add_argument("--cmake-dir", action="store_true", help="print where find_package(metalki) finds its files")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    info = commands.add_parser("info", help="versions, devices and the cache folder")
    info.set_defaults(function=_info)

    cache = commands.add_parser("cache", help="the folder of compiled kernels")
    cache.add_argument(
        "action", choices=["info", "clear"], help="info: place and size; clear: delete the kernels in it"
    )
    cache.set_defaults(function=_cache)

    check = commands.add_parser("check", help="compile files and print errors and warnings as file:line:column")
    check.add_argument("files", nargs="+", metavar="FILE.metal")
    check.add_argument("--werror", action="store_true", help="exit with 1 for warnings too")
    check.add_argument("--no-kernels", action="store_true", help="only parse: generate no code for the kernels")
    _add_options(check)
    check.set_defaults(function=_check)

    run = commands.add_parser(
        "run",
        help="launch a kernel of a file",
        epilog=f"SPEC is {_FORMS}. Arrays that the kernel writes are printed.",
    )
    run.add_argument("file", metavar="FILE.metal")
    run.add_argument("--kernel", metavar="NAME", help="may be left out where the file has one kernel")
    run.add_argument(
        "--arg", action="append", default=[], metavar="SPEC", help="one per argument, in the kernel's order"
    )
    run.add_argument("--ndrange", metavar="X[,Y[,Z]]", help="threads in all")
    run.add_argument("--numworkgroups", metavar="X[,Y[,Z]]", help="work-groups, in place of --ndrange")
    run.add_argument("--workgroupsize", metavar="X[,Y[,Z]]", help="threads of a work-group; chosen when left out")
    run.add_argument("--constant", action="append", default=[], metavar="NAME=VALUE", help="a function constant")
    run.add_argument("--print", type=_count, default=10, dest="count", metavar="N", help="elements shown (default 10)")
    run.add_argument(
        "--save", action="append", default=[], metavar="ARG=FILE.npy", help="store an array argument, by name"
    )
    run.add_argument("--time", action="store_true", help="print how long the kernel ran on the device")
    run.add_argument("--device", metavar="NAME", help='such as "cpu"')
    _add_options(run)
    run.set_defaults(function=_run)
    return parser


def _count(text: str) -> int:
    count = int(text)
    if count < 0:
        raise argparse.ArgumentTypeError(f"a number of elements is expected, {count} was given")
    return count


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-D", action="append", default=[], dest="macros", metavar="NAME[=VALUE]", help="define a macro")
    parser.add_argument(
        "-I", action="append", default=[], dest="include_dirs", metavar="FOLDER", help="search for headers"
    )
    parser.add_argument("--math-mode", choices=["safe", "relaxed", "fast"], default="relaxed")


def _info(given: argparse.Namespace) -> int:
    from . import kernel_interface

    kernel_interface.versioninfo(kernel_interface.MetalBackend())
    return 0


def _cache(given: argparse.Namespace) -> int:
    from . import _cache

    root = _cache.folder()
    if root is None:
        print("the cache is off (METALKI_CACHE=0, or there is no home folder)")
        return 0
    try:
        count, size = _cache.clear() if given.action == "clear" else _cache.usage()
    except OSError as error:
        print(f"cache {given.action}: {error}", file=sys.stderr)
        return 1
    print(f"{root}: {count} records, {size / 1e6:.1f} MB{' deleted' if given.action == 'clear' else ''}")
    return 0


def _check(given: argparse.Namespace) -> int:
    from . import _command_line

    return _command_line.check(given)


def _run(given: argparse.Namespace) -> int:
    from . import _command_line

    return _command_line.run(given)


if __name__ == "__main__":
    raise SystemExit(main())
