"""Random kernels, run thread by thread and as vectors: both must give the same, bit by bit.

python tests/differential/run.py [--count 1000] [--seed 0] [--out FOLDER] [--no-minimise]
python tests/differential/run.py --one SEED         prints one kernel, runs it, and makes it smaller if it fails
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grammar
import launches
import numpy as np
from tree import Block, minimise

SECONDS = 120.0  # for one source
KERNELS = 25  # of one source
WORKER = Path(__file__).parent / "worker.py"
OUTPUTS = ("o", "os", "oc", "ov", "at", "aw")
EXECUTORS = ("scalar", "vector")


class Worker:
    """A process with one executor, started again when it has died or hung."""

    def __init__(self, executor: str, folder: Path) -> None:
        self.executor = executor
        self.folder = folder
        self.process: subprocess.Popen[str] | None = None
        self.log = folder / f"{executor}.log"

    def start(self) -> subprocess.Popen[str]:
        """The process, started if there is none."""
        if self.process is None:
            environment = {**os.environ, "METALKI_CACHE": "0", "METALKI_VERIFY": "1", "METALKI_DEBUG_VECTORS": "1"}
            environment["METALKI_EXECUTOR"] = self.executor
            with self.log.open("a") as log:
                self.process = subprocess.Popen(
                    [sys.executable, str(WORKER)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=environment,
                    text=True,
                )
        return self.process

    def send(self, request: dict[str, Any]) -> None:
        """Hands over a request."""
        process = self.start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass

    def receive(self, seconds: float) -> dict[str, str] | str:
        """Verdicts by name, or "died ..." or "hung" for the whole source."""
        process = self.start()
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], seconds)
        line = process.stdout.readline() if ready else ""
        if line:
            answer: dict[str, str] = json.loads(line)
            return answer
        verdict = f"died with status {process.wait()}" if ready else "hung"
        self.close()
        return verdict

    def close(self) -> None:
        """Ends the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@dataclass
class Case:
    """A kernel with its launches."""

    seed: int
    floats: bool
    kernel: grammar.Kernel
    body: Block
    launches: list[Any] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"k{self.seed}"


def case(seed: int) -> Case:
    """The kernel of a seed. Where there are no floats, operations may be taken together."""
    floats = seed // KERNELS % 4 != 3
    return Case(seed, floats, *grammar.kernel_tree(seed, floats), launches.shapes(seed))


class Pair:
    """Both executors."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workers = [Worker(executor, folder) for executor in EXECUTORS]

    def run(self, cases: list[Case], seconds: float = SECONDS) -> dict[int, str]:
        """Verdict by seed: "ok", "refused ..." (by both), or what is wrong."""
        path = self.folder / "source.metal"
        path.write_text(grammar.source([grammar.kernel_text(c.kernel, c.body, c.name) for c in cases]))
        by_name = {c.name: c.launches for c in cases}
        mode = "safe" if cases[0].floats else "fast"
        outputs = [self.folder / f"{worker.executor}.npz" for worker in self.workers]
        for worker, file in zip(self.workers, outputs, strict=True):
            file.unlink(missing_ok=True)
            worker.send({"source": str(path), "math_mode": mode, "launches": by_name, "outputs": str(file)})
        end = time.monotonic() + seconds
        answers = [worker.receive(max(1.0, end - time.monotonic())) for worker in self.workers]
        if any(isinstance(answer, str) for answer in answers):
            if len(cases) > 1:
                out: dict[int, str] = {}
                for one in cases:
                    out |= self.run([one], seconds / 4)
                return out
            words = [f"{w.executor} {a}" for w, a in zip(self.workers, answers, strict=True) if isinstance(a, str)]
            return {cases[0].seed: ", ".join(words)}
        scalar, vector = answers
        assert isinstance(scalar, dict)
        assert isinstance(vector, dict)
        if len(cases) > 1 and not outputs[0].exists():
            return {
                seed: text for one in cases for seed, text in self.run([one], seconds).items()
            }  # one does not compile
        verdicts = {}
        with _arrays(outputs[0]) as left, _arrays(outputs[1]) as right:
            for one in cases:
                verdicts[one.seed] = verdict(one, scalar[one.name], vector[one.name], left, right)
        return verdicts

    def close(self) -> None:
        """Ends both processes."""
        for worker in self.workers:
            worker.close()


class _arrays:
    """The arrays of an npz file, or none."""

    def __init__(self, path: Path) -> None:
        self.file = np.load(path) if path.exists() else None

    def __enter__(self) -> Any:
        return self.file if self.file is not None else {}

    def __exit__(self, *_: object) -> None:
        if self.file is not None:
            self.file.close()


def errors_only(text: str) -> str:
    """Without the warnings before the first error of a compiler's message."""
    lines = text.split("\n")
    first = next((n for n, line in enumerate(lines) if " error: " in line), 0)
    return text.split(":")[0] + ": " + "\n".join(lines[first : first + 3]) if first else text


def verdict(one: Case, scalar: str, vector: str, left: Any, right: Any) -> str:
    """Compares what both executors made of a kernel."""
    if scalar != "ok" or vector != "ok":
        scalar, vector = errors_only(scalar), errors_only(vector)
        if scalar.startswith("CompileError") and scalar == vector:
            return "refused " + scalar
        return f"scalar: {scalar}; vector: {vector}"
    for number, (group, grid) in enumerate(one.launches):
        for part in OUTPUTS:
            key = f"{one.name}/{number}/{part}"
            a, b = left[key], right[key]
            if not np.array_equal(a, b):
                at = np.flatnonzero(a != b)
                return (
                    f"differs: threadgroup {group}, ndrange {grid}, {part}: {at.size} of {a.size} differ, "
                    f"first at {at[0]}: scalar {a[at[0]]}, vector {b[at[0]]}"
                )
    return "ok"


def kind_of(text: str) -> str:
    """What must stay the same while a kernel is made smaller."""
    return text.split(" ")[0] if not text.startswith("scalar:") else text[:60]


def make_smaller(pair: Pair, one: Case, text: str) -> Case:
    """The smallest kernel found that fails in the same way."""
    kind = kind_of(text)
    wanted = [x for x in one.launches if f"threadgroup {x[0]}, ndrange {x[1]}" in text] or one.launches

    def fails(body: Block) -> bool:
        smaller = Case(one.seed, one.floats, one.kernel, body, wanted)
        return kind_of(pair.run([smaller], 20)[one.seed]) == kind

    return Case(one.seed, one.floats, one.kernel, minimise(one.body, fails), wanted)


def report(folder: Path, one: Case, text: str) -> None:
    """Leaves a failing kernel in a file."""
    path = folder / f"{one.seed}.metal"
    path.write_text(
        f"// {text}\n// {one.launches}\n" + grammar.source([grammar.kernel_text(one.kernel, one.body, one.name)])
    )


def run(count: int, first: int, folder: Path, smaller: bool) -> Counter[str]:
    """Runs `count` kernels from seed `first` on and returns how many came to which end; findings go to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        pair = Pair(Path(scratch))
        for start in range(first, first + count, KERNELS):
            cases = [case(seed) for seed in range(start, min(start + KERNELS, first + count))]
            for seed, text in pair.run(cases).items():
                counts[text if text == "ok" else "refused" if text.startswith("refused") else "wrong"] += 1
                if text == "ok":
                    continue
                print(f"seed {seed}: {text[:400]}", flush=True)
                failing = cases[seed - start]
                if smaller and not text.startswith("refused"):
                    failing = make_smaller(pair, failing, text)
                report(folder, failing, text)
            done = start + len(cases) - first
            if done % (KERNELS * 4) == 0:
                rate = done / (time.monotonic() - started)
                print(f"{done} of {count}, {rate:.1f} a second: {dict(counts)}", flush=True)
        pair.close()
        log = pair.workers[1].log
        reasons = Counter(
            line.split(": ", 2)[-1] for line in log.read_text().splitlines() if line.startswith("metalki vectors: ")
        )
        for reason, number in reasons.most_common():
            print(f"thread by thread: {number} x {reason}")
        counts["scalar"] = sum(reasons.values())
    return counts


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("differential-findings"))
    parser.add_argument("--no-minimise", action="store_true")
    parser.add_argument("--one", type=int)
    given = parser.parse_args()
    if given.one is not None:
        one = case(given.one)
        print(grammar.kernel_text(one.kernel, one.body, one.name))
        counts = run(1, given.one, given.out, not given.no_minimise)
    else:
        counts = run(given.count, given.seed, given.out, not given.no_minimise)
    print(dict(counts))
    return 1 if counts["wrong"] or counts["refused"] else 0


if __name__ == "__main__":
    sys.exit(main())
