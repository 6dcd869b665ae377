"""Makes pipelines of all kernels of ggml and candle, and of some of every family and type of MLX's; prints what fails.

python tests/realworld/make_pipelines.py --sources FOLDER [--jobs 2] [--project ggml] [--file NAME] [--everything]

Several processes share the work. Compiled kernels go to metalki's cache on disk, so that a run that was stopped goes on
where it was. The exit status is 0 when every kernel became a pipeline.
"""

from __future__ import annotations

import argparse
import concurrent.futures as futures
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from pathlib import Path

import pipelines
import sources

import metalki as mk

CHUNK = 24
SECONDS_PER_LINE = 10.0


@dataclass(frozen=True)
class Chunk:
    """Some kernels of one file."""

    project: str
    root: str
    file: str
    names: tuple[str, ...]


@dataclass
class Count:
    """What became of one project's kernels."""

    files: int = 0
    found: int = 0
    wanted: int = 0
    made: int = 0
    failures: dict[str, str] = field(default_factory=dict)


def project_named(name: str) -> sources.Project:
    return next(project for project in sources.PROJECTS if project.name == name)


def names_of(project_name: str, root: str, file: str) -> list[str] | str:
    """In a worker: the kernels of one file, or the compiler's message."""
    warnings.simplefilter("ignore", mk.CompileWarning)
    try:
        return sources.library(project_named(project_name), Path(root), file).function_names
    except Exception as error:  # told to the parent, whatever it is
        return str(error)


def make(chunk: Chunk) -> list[tuple[str, str | None]]:
    """In a worker: makes the chunk's pipelines; each name with its problem."""
    warnings.simplefilter("ignore", mk.CompileWarning)
    library = sources.library(project_named(chunk.project), Path(chunk.root), chunk.file)
    return [(name, pipelines.pipeline_problem(library, name)) for name in chunk.names]


class Progress:
    """One line that is written over on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        self.started = self.shown = time.monotonic()
        self.terminal = sys.stderr.isatty()

    def show(self, counts: dict[str, Count], at: str, last: bool = False) -> None:
        now = time.monotonic()
        if not last and now - self.shown < (0.2 if self.terminal else SECONDS_PER_LINE):
            return
        self.shown = now
        parts = [f"{name} {c.made + len(c.failures)}/{c.wanted}" for name, c in counts.items()]
        failed = sum(len(c.failures) for c in counts.values())
        line = f"{now - self.started:7.0f} s  {', '.join(parts)}, {failed} failed  {at}"
        print(
            f"\r\033[K{line[:118]}" if self.terminal else line,
            end="" if self.terminal else "\n",
            file=sys.stderr,
            flush=True,
        )


class Pool:
    """Worker processes; one that dies is replaced, and the kernel that killed it is found."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.executor = self.new_executor()

    def new_executor(self) -> futures.ProcessPoolExecutor:
        return futures.ProcessPoolExecutor(self.jobs, mp_context=multiprocessing.get_context("spawn"))

    def run(self, chunks: list[Chunk]) -> Iterator[tuple[Chunk, list[tuple[str, str | None]]]]:
        """Results in the order in which they come; few chunks are handed out at a time, so that few are lost to a crash."""
        todo = chunks[::-1]
        running: dict[futures.Future[list[tuple[str, str | None]]], Chunk] = {}
        while todo or running:
            while todo and len(running) < self.jobs:
                chunk = todo.pop()
                running[self.executor.submit(make, chunk)] = chunk
            done, _ = futures.wait(running, return_when=futures.FIRST_COMPLETED)
            crashed = []
            for future in done:
                chunk = running.pop(future)
                try:
                    yield chunk, future.result()
                except BrokenProcessPool:
                    crashed.append(chunk)
                except Exception as error:
                    yield chunk, [(name, f"{type(error).__name__}: {error}") for name in chunk.names]
            if crashed:
                crashed += list(running.values())
                running.clear()
                self.executor = self.new_executor()
                for chunk in crashed:
                    yield chunk, self.one_by_one(chunk)

    def one_by_one(self, chunk: Chunk) -> list[tuple[str, str | None]]:
        results: list[tuple[str, str | None]] = []
        for name in chunk.names:
            try:
                results += self.executor.submit(make, replace(chunk, names=(name,))).result()
            except BrokenProcessPool:
                results.append((name, "the process died"))
                self.executor = self.new_executor()
        return results


def plan(options: argparse.Namespace, pool: Pool, counts: dict[str, Count]) -> list[Chunk]:
    """The kernels of all files, in chunks; a file that does not compile is a failure by itself."""
    chunks = []
    for project in sources.PROJECTS:
        root = project.root(options.sources)
        if options.project not in (None, project.name):
            continue
        if root is None:
            print(f"no sources of {project.name} in {options.sources}: skipped", file=sys.stderr)
            continue
        count = counts.setdefault(project.name, Count())
        for path in project.files(root):
            if sources.needs_tensor_headers(path, project, root) or (options.file and options.file not in path.name):
                continue
            file = path.relative_to(root / project.kernels).as_posix()
            names = pool.executor.submit(names_of, project.name, str(root), file).result()
            if isinstance(names, str):
                count.failures[file] = names
                continue
            count.files += 1
            count.found += len(names)
            chosen = names if options.everything else pipelines.chosen_kernels(project, names)
            count.wanted += len(chosen)
            starts = range(0, len(chosen), CHUNK)
            chunks += [Chunk(project.name, str(root), file, tuple(chosen[n : n + CHUNK])) for n in starts]
    return chunks


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sources", type=Path, default=Path(os.environ.get(sources.VARIABLE) or sources.cache_folder())
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes; all cores when left out")
    parser.add_argument("--project", choices=[project.name for project in sources.PROJECTS])
    parser.add_argument("--file", help="only files whose name contains this")
    parser.add_argument("--everything", action="store_true", help="all of MLX's kernels too, not a number of each kind")
    options = parser.parse_args()
    counts: dict[str, Count] = {}
    pool, progress = Pool(options.jobs), Progress()
    for chunk, results in pool.run(plan(options, pool, counts)):
        count = counts[chunk.project]
        for name, problem in results:
            if problem is None:
                count.made += 1
            else:
                count.failures[f"{chunk.file}: {name}"] = problem
                print(f"\nFAILED {chunk.project}/{chunk.file}: {name}: {problem}", flush=True)
        progress.show(counts, chunk.file)
    progress.show(counts, "done", last=True)
    for name, count in counts.items():
        print(f"\n{name}: {count.files} files, {count.found} kernels, {count.made} of {count.wanted} pipelines made")
        for failed, problem in count.failures.items():
            print(f"  failed: {failed}: {problem}")
    return int(not counts or any(count.failures for count in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
