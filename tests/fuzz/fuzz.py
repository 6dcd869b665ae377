"""Fuzzes the compiler: many sources, each compiled and made into pipelines in a process that may die, hang or swell.

python tests/fuzz/fuzz.py [--minutes 30] [--first SEED] [--out FOLDER]      what it finds goes to FOLDER
python tests/fuzz/fuzz.py --one SEED                                        prints one source and what becomes of it
python tests/fuzz/fuzz.py --minimise FILE                                   the smallest source that still fails so

A source is right when it compiles or is refused with a CompileError that has a message. Findings are: the process died, it
used too much time or memory, another exception came out, or a message shows the compiler's own names.
"""

from __future__ import annotations

import argparse
import os
import re
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import generate

SECONDS = 30.0  # of processor time for one source; the wall clock says little on a busy machine
PATIENCE = 20  # the wall clock may show this many times more before a process that waits is taken for hung
MEGABYTES = 3000
SOURCES_PER_PROCESS = 1500
# Names of this implementation that nobody who writes MSL should meet in a message.
INTERNAL = re.compile(
    r"__attribute__|ext_vector_type|opencl_|addrspace|annotate|metalki_|__entry|__native|__g<|__l<|__swizzle|prefix\.h"
)

WORKER = """
import resource, struct, sys, warnings
sys.path.insert(0, sys.argv[1])
warnings.simplefilter("ignore")
import metalki as mk
megabytes = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
while size := sys.stdin.buffer.read(4):
    source = sys.stdin.buffer.read(struct.unpack("<I", size)[0]).decode("utf-8", "surrogatepass")
    try:
        library = mk.compile(source)
        for name in library.function_names:
            library.kernel(name)
        verdict = "ok"
    except mk.CompileError as error:
        verdict = "refused " + str(error) if str(error).strip() else "odd empty message"
    except mk.MetalkiError as error:
        verdict = "refused " + str(error)
    except BaseException as error:
        verdict = f"odd {type(error).__name__}: {error}"
    answer = verdict.encode("utf-8", "replace")[:20000]
    sys.stdout.buffer.write(struct.pack("<I", len(answer)) + answer)
    sys.stdout.buffer.flush()
"""


class Worker:
    """A process that compiles sources one after the other."""

    def __init__(self) -> None:
        environment = {**os.environ, "METALKI_CACHE": "0"}
        folder = str(Path(__file__).parent)
        command = [sys.executable, "-c", WORKER, folder, str(MEGABYTES)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )
        self.done = 0

    def verdict(self, source: str) -> str:
        """What became of a source: "ok", "refused ...", or a finding: "odd ...", "died ...", "hung"."""
        data = source.encode("utf-8", "surrogatepass")
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin
        assert stdout
        self.done += 1
        try:
            stdin.write(len(data).to_bytes(4, "little") + data)
            stdin.flush()
        except BrokenPipeError:
            return self.death()
        answer, started, used = b"", time.monotonic(), self.processor_seconds()
        while len(answer) < 4 or len(answer) < 4 + int.from_bytes(answer[:4], "little"):
            ready, _, _ = select.select([stdout], [], [], SECONDS / 30)
            if not ready:
                if self.processor_seconds() - used < SECONDS and time.monotonic() - started < PATIENCE * SECONDS:
                    continue
                self.close()
                return f"hung: more than {SECONDS:.0f} seconds"
            piece = os.read(stdout.fileno(), 1 << 16)
            if not piece:
                return self.death()
            answer += piece
        return answer[4:].decode("utf-8", "replace")

    def processor_seconds(self) -> float:
        """What the process has used so far; 0 where /proc is missing."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def death(self) -> str:
        _, errors = self.process.communicate()
        return f"died with status {self.process.returncode}: {errors.decode('utf-8', 'replace')[-2000:]}"

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        if self.alive:
            self.process.kill()
        self.process.communicate()


def finding(verdict: str, source: str) -> str | None:
    """The kind of a finding; None when all is well. A name that the source has itself may be in a message."""
    kind = verdict.split(":")[0].split(" ")[0]
    if kind in ("odd", "died", "hung"):
        return kind
    leaked = INTERNAL.search(without_source(verdict))
    if kind == "refused" and leaked and leaked[0] not in source:
        return f"leaked-{re.sub(r'[^a-z_]', '', leaked[0])}"
    return None


def without_source(message: str) -> str:
    """A message without the lines of the source that it quotes."""
    return "\n".join(line for line in message.splitlines() if re.search(r":\d+:\d+: |^refused", line))


class Fuzzer:
    """Runs sources and keeps count."""

    def __init__(self) -> None:
        self.worker = Worker()
        self.counts: Counter[str] = Counter()

    def run(self, source: str) -> tuple[str | None, str]:
        if not self.worker.alive or self.worker.done >= SOURCES_PER_PROCESS:
            self.worker.close()
            self.worker = Worker()
        verdict = self.worker.verdict(source)
        kind = finding(verdict, source)
        self.counts[kind or verdict.split(" ")[0]] += 1
        return kind, verdict


def minimised(source: str, kind: str, check: Callable[[str], str | None]) -> str:
    """Tokens are left out, in ever shorter pieces, as long as the source fails in the same way."""
    text = generate.tokens(source)
    size = len(text) // 2
    while size >= 1:
        at = 0
        while at < len(text):
            shorter = text[:at] + text[at + size :]
            if check("".join(shorter)) == kind:
                text = shorter
            else:
                at += size
        size //= 2
    return "".join(text)


def fuzz(first: int, minutes: float, out: Path) -> int:
    fuzzer, files, started, shown = Fuzzer(), generate.corpus(), time.monotonic(), 0.0
    seed = first
    try:
        while time.monotonic() - started < 60 * minutes:
            source = generate.source(seed, files)
            kind, verdict = fuzzer.run(source)
            if kind and fuzzer.counts[kind] <= 40:
                out.mkdir(parents=True, exist_ok=True)
                (out / f"{kind}-{seed}.metal").write_text(source, "utf-8", "surrogatepass")
                (out / f"{kind}-{seed}.txt").write_text(verdict, "utf-8", "replace")
            seed += 1
            if time.monotonic() - shown > 20:
                shown = time.monotonic()
                print(f"{shown - started:7.0f} s, {seed - first} sources: {dict(fuzzer.counts)}", flush=True)
    except KeyboardInterrupt:
        pass
    print(f"{time.monotonic() - started:.0f} seconds, seeds {first} to {seed - 1}: {dict(fuzzer.counts)}")
    return int(any(finding_kind in ("odd", "died", "hung") for finding_kind in fuzzer.counts))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--first", type=int, default=0, help="number of the first source")
    parser.add_argument("--out", type=Path, default=Path("fuzz_findings"))
    parser.add_argument("--one", type=int, help="only the source with this number")
    parser.add_argument("--minimise", type=Path, help="a source that fails")
    options = parser.parse_args()
    if options.one is not None or options.minimise is not None:
        fuzzer = Fuzzer()
        source = (
            options.minimise.read_text("utf-8") if options.minimise else generate.source(options.one, generate.corpus())
        )
        kind, verdict = fuzzer.run(source)
        if options.minimise and kind:
            source = minimised(source, kind, lambda text: fuzzer.run(text)[0])
        print(source, "-" * 80, verdict, sep="\n")
        return int(kind is not None)
    return fuzz(options.first, options.minutes, options.out)


if __name__ == "__main__":
    sys.exit(main())
