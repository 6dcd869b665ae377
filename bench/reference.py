"""The benchmark suite of Metal.jl under its own names, over metalki's array primitives, with numpy's time beside each row.

    python bench/reference.py [--json FILE] [--compare OLD.json] [--filter TEXT] [--threads N] [--seconds S]

Sizes are the reference's: 512 x 1000 float32 and Int64, 3 x 1,000,000 for the long ones. Julia's arrays are column-major, so
its 512 x 1000 is (1000, 512) here, dims=1 is the last axis and dims=2 the first; the elements lie in memory alike. Every
time is a median, in nanoseconds, and includes the wait for the device. The JSON is what github-action-benchmark reads as
"customSmallerIsBetter".
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Action = Callable[[], object]


class Row(NamedTuple):
    """A row of the suite: what is timed, what numpy does instead (None where it has nothing alike)."""

    name: str
    run: Action
    numpy: Action | None


class Result(NamedTuple):
    """Nanoseconds: the median, half the distance between the quartiles, and numpy's median."""

    name: str
    median: float
    spread: float
    numpy: float | None


def measure(actions: list[Action], seconds: float) -> list[list[float]]:
    """Nanoseconds of single calls, a list for each action: what fits in `seconds`, at least five rounds.

    The actions take turns, some calls of each, so that what else the machine does falls on all of them."""
    takes_turns = []
    for action in actions:
        action()
        start = time.perf_counter_ns()
        action()
        once = max(time.perf_counter_ns() - start, 50)
        takes_turns.append((action, max(1, int(20_000 / once)), max(1, int(2e6 / max(once, 20_000)))))
    times: list[list[float]] = [[] for _ in actions]
    end = time.perf_counter_ns() + int(seconds * 1e9 * len(actions))
    while len(times[0]) < 5 or (time.perf_counter_ns() < end and len(times[0]) < 2000):
        for (action, calls, turns), own in zip(takes_turns, times, strict=True):
            for _ in range(turns):
                start = time.perf_counter_ns()
                for _ in range(calls):
                    action()
                own.append((time.perf_counter_ns() - start) / calls)
    return times


def result(row: Row, seconds: float) -> Result:
    """Runs a row."""
    own, *plain = measure([row.run] if row.numpy is None else [row.run, row.numpy], seconds)
    low, middle, high = statistics.quantiles(own, n=4)
    return Result(row.name, middle, (high - low) / 2, statistics.median(plain[0]) if plain else None)


def rows() -> Iterator[Row]:
    """All rows but those of latency, which need processes of their own."""
    import metalki as mk

    yield from storage_rows(mk)
    yield from array_rows(mk)
    yield from random_rows(mk)
    yield from kernel_rows(mk)
    yield from integration_rows(mk)


def waited(mk: Any, function: Callable[..., object], *arguments: Any, **options: Any) -> Action:
    """A call that waits for the device."""

    def run() -> None:
        function(*arguments, **options)
        mk.synchronize()

    return run


def storage_rows(mk: Any) -> Iterator[Row]:
    """Copies and what iterates, in private and in shared storage."""
    from metalki import kernel_interface as KI

    backend = mk.MetalBackend()
    rng = np.random.default_rng(123)
    matrix = rng.random((1000, 512), np.float32)
    integers = rng.integers(-10, 11, 512000)
    bools = rng.integers(0, 2, 512000).astype(bool)
    for storage in ("private", "shared"):
        group = f"array/{storage}"
        gpu, other = mk.array(matrix, storage=storage), mk.array(matrix, storage=storage)
        vector = gpu.reshape(-1)
        gpu_integers, gpu_bools = mk.array(integers, storage=storage), mk.array(bools, storage=storage)
        host, flat = matrix.copy(), matrix.reshape(-1)
        yield Row(f"{group}/copy", waited(mk, mk.copy, gpu), matrix.copy)
        copyto = KI.copyto
        yield Row(
            f"{group}/copyto!/cpu_to_gpu", waited(mk, copyto, backend, gpu, host), lambda h=host: np.copyto(h, matrix)
        )
        yield Row(
            f"{group}/copyto!/gpu_to_cpu", waited(mk, copyto, backend, host, gpu), lambda h=host: np.copyto(h, matrix)
        )
        yield Row(
            f"{group}/copyto!/gpu_to_gpu", waited(mk, copyto, backend, other, gpu), lambda h=host: np.copyto(h, matrix)
        )
        group += "/iteration"
        yield Row(
            f"{group}/scalar",
            lambda v=vector: [v[i].item() for i in range(10)],
            lambda f=flat: [f[i] for i in range(10)],
        )
        yield Row(f"{group}/logical", waited(mk, lambda v, b: v[b], vector, gpu_bools), lambda f=flat: f[bools])
        yield Row(f"{group}/findall/bool", waited(mk, mk.findall, gpu_bools), lambda: np.flatnonzero(bools))
        yield Row(
            f"{group}/findall/int",
            waited(mk, mk.findall, "x & 1", gpu_integers),
            lambda: np.flatnonzero(integers & 1),
        )
        yield Row(f"{group}/findfirst/bool", waited(mk, mk.findfirst, gpu_bools), lambda: np.argmax(bools))
        yield Row(
            f"{group}/findfirst/int",
            waited(mk, mk.findfirst, "x & 1", gpu_integers),
            lambda: np.argmax((integers & 1).astype(bool)),
        )
        yield Row(f"{group}/findmin/1d", waited(mk, mk.findmin, vector), lambda f=flat: (f.min(), f.argmin()))
        yield Row(
            f"{group}/findmin/2d",
            waited(mk, mk.findmin, gpu, axis=1),
            lambda m=matrix: (m.min(1), m.argmin(1)),
        )


def array_rows(mk: Any) -> Iterator[Row]:
    """Construction, broadcast, accumulate, reduce, mapreduce, sort, permutedims."""
    rng = np.random.default_rng(123)
    yield Row("array/construct", lambda: mk.empty(1, np.int64), lambda: np.empty(1, np.int64))
    floats = {"": rng.random((1000, 512), np.float32), "L": rng.random((1_000_000, 3), np.float32)}
    integers = {k: rng.integers(-10, 11, f.shape) for k, f in floats.items()}
    matrix, filled = mk.array(floats[""]), floats[""].copy()
    yield Row(
        "array/broadcast", waited(mk, mk.broadcast, "v", v=np.float32(0), out=matrix.copy()), lambda: filled.fill(0)
    )
    for dtype, hosts in (("Float32", floats), ("Int64", integers)):
        places = [("1d", hosts[""].reshape(-1), 0)]
        places += [(f"dims={d}{k}", hosts[k], 2 - d) for k in ("", "L") for d in (1, 2)]
        for name, host, axis in places:
            gpu = mk.array(host)
            yield Row(
                f"array/accumulate/{dtype}/{name}",
                waited(mk, mk.accumulate, "+", gpu, axis),
                lambda h=host, a=axis: h.cumsum(a),
            )
            yield Row(
                f"array/reductions/reduce/{dtype}/{name}",
                waited(mk, mk.reduce, "+", gpu, axis),
                lambda h=host, a=axis: h.sum(a),
            )
            yield Row(
                f"array/reductions/mapreduce/{dtype}/{name}",
                waited(mk, mk.mapreduce, "x + 1", "+", gpu, axis=axis),
                lambda h=host, a=axis: (h + 1).sum(a),
            )
    host = floats[""]
    yield Row("array/sorting/1d", waited(mk, mk.sort, matrix.reshape(-1)), lambda: np.sort(host.reshape(-1)))
    yield Row("array/sorting/2d", waited(mk, mk.sort, matrix, axis=1), lambda: np.sort(host, 1))
    for name, shape, axes in (
        ("2d", (1000, 512), (1, 0)),
        ("3d", (25, 40, 512), (1, 2, 0)),
        ("4d", (10, 10, 10, 512), (1, 0, 3, 2)),
    ):
        gpu, plain = matrix.reshape(shape), host.reshape(shape)
        yield Row(
            f"array/permutedims/{name}",
            waited(mk, mk.permute_dims, gpu, axes),
            lambda p=plain, a=axes: np.ascontiguousarray(p.transpose(a)),
        )
    square = rng.random((1024, 1024), np.float32)
    gpu = mk.array(square)
    yield Row("array/matmul/Float32/1024", waited(mk, mk.matmul, gpu, gpu), lambda: square @ square)


def random_rows(mk: Any) -> Iterator[Row]:
    """Random numbers, new and in place."""
    mine, other = mk.random.Generator(1), np.random.default_rng(1)
    n, whole = 512000, {"low": -(2**63), "high": 2**63 - 1, "endpoint": True}
    floats, integers = mk.empty(n), mk.empty(n, np.int64)
    plain = np.empty(n, np.float32)
    yield Row("array/random/rand/Float32", waited(mk, mine.random, n), lambda: other.random(n, np.float32))
    yield Row(
        "array/random/rand/Int64", waited(mk, mine.integers, size=n, **whole), lambda: other.integers(size=n, **whole)
    )
    yield Row(
        "array/random/rand!/Float32",
        waited(mk, mine.random, out=floats),
        lambda: other.random(dtype=np.float32, out=plain),
    )
    yield Row(
        "array/random/rand!/Int64",
        waited(mk, mine.integers, out=integers, **whole),
        lambda: other.integers(size=n, **whole),
    )
    yield Row(
        "array/random/randn/Float32", waited(mk, mine.normal, size=n), lambda: other.standard_normal(n, np.float32)
    )
    yield Row(
        "array/random/randn!/Float32",
        waited(mk, mine.normal, out=floats),
        lambda: other.standard_normal(dtype=np.float32, out=plain),
    )


KERNELS = """
#include <metal_stdlib>
using namespace metal;
kernel void nothing() {}
kernel void indexing(device float* to, device const float* from, uint i [[thread_position_in_grid]]) { to[i] = from[i]; }
kernel void indexing_checked(device float* to, device const float* from, constant uint& size,
                             uint i [[thread_position_in_grid]]) {
    if (i < size) to[i] = from[i];
}
kernel void draw(device float* to, constant uint& seed, uint i [[thread_position_in_grid]]) {
    uint4 c = uint4(i, 0, 0, 0);
    uint2 k = uint2(seed, 0);
    for (int round = 0; round < 10; ++round) {
        const uint a = mulhi(0xD2511F53u, c.x), b = mulhi(0xCD9E8D57u, c.z);
        c = uint4(b ^ c.y ^ k.x, 0xCD9E8D57u * c.z, a ^ c.w ^ k.y, 0xD2511F53u * c.x);
        k += uint2(0x9E3779B9u, 0xBB67AE85u);
    }
    to[i] = (float)(c.x >> 8) * 0x1p-24f;
}
kernel void add_matrices(device float* y, device const float* x1, device const float* x2, constant uint& n,
                         uint i [[thread_position_in_grid]]) {
    if (i < n) y[i] = x1[i] + x2[i];
}
#define SLICES(count, pick)                                                                                      \\
    kernel void add_slices_##count(device float* y0, device float* y1, device float* y2, device const float* a0,   \\
                                   device const float* a1, device const float* a2, device const float* b0,        \\
                                   device const float* b1, device const float* b2, constant uint& n,              \\
                                   uint2 at [[thread_position_in_grid]], uint2 group [[threadgroup_position_in_grid]]) { \\
        device float* y = pick(y);                                                                                \\
        device const float* a = pick(a);                                                                          \\
        device const float* b = pick(b);                                                                          \\
        if (at.x < n) y[at.x] = a[at.x] + b[at.x];                                                                \\
    }
#define PICK1(v) v##0
#define PICK2(v) (group.y == 0 ? v##0 : v##1)
#define PICK3(v) (group.y == 0 ? v##0 : group.y == 1 ? v##1 : v##2)
SLICES(1, PICK1)
SLICES(2, PICK2)
SLICES(3, PICK3)
kernel void add_row(device float* y, device const float* x1, device const float* x2, constant uint& m,
                    uint group [[threadgroup_position_in_grid]], uint thread_index [[thread_position_in_threadgroup]],
                    uint threads [[threads_per_threadgroup]]) {
    const uint offset = group * m;
    const float x = x2[group];
    for (uint i = thread_index; i < m; i += threads) y[offset + i] = x1[offset + i] + x;
}
"""


def kernel_rows(mk: Any) -> Iterator[Row]:
    """Kernels of one's own, launched by hand, and waiting."""
    library = mk.compile(KERNELS)
    source, target = mk.random.Generator(1).random((1000, 512)), mk.empty((1000, 512))
    host, other = source.numpy(), np.empty((1000, 512), np.float32)
    nothing, indexing, checked, draw = (library[n] for n in ("nothing", "indexing", "indexing_checked", "draw"))
    rng, n = np.random.default_rng(1), host.size
    shape = {"numworkgroups": 1000, "workgroupsize": 512}

    def launched(kernel: Any, *arguments: Any) -> Action:
        def run() -> None:
            kernel(*arguments, **shape)
            mk.synchronize()

        return run

    yield Row("kernel/launch", lambda: nothing(ndrange=1), None)
    yield Row("kernel/indexing", launched(indexing, target, source), lambda: np.copyto(other, host))
    yield Row("kernel/indexing_checked", launched(checked, target, source, n), lambda: np.copyto(other, host))
    yield Row("kernel/rand", launched(draw, target, 7), lambda: rng.random(dtype=np.float32, out=other))
    yield Row("metal/synchronization/stream", mk.synchronize, None)
    yield Row("metal/synchronization/context", mk.device_synchronize, None)


def integration_rows(mk: Any) -> Iterator[Row]:
    """Sums of matrices given by value, and a matrix with a vector."""
    library = mk.compile(KERNELS)
    rng, shape = np.random.default_rng(1), (1536, 3072)
    x1, x2 = ([rng.standard_normal(shape, np.float32) for _ in range(3)] for _ in range(2))
    a, b, y = [mk.array(x) for x in x1], [mk.array(x) for x in x2], [mk.empty(shape) for _ in range(3)]
    out, n = [np.empty(shape, np.float32) for _ in range(3)], x1[0].size
    groups = n // 256

    def reference() -> None:
        library["add_matrices"](y[0], a[0], b[0], n, numworkgroups=groups, workgroupsize=256)
        mk.synchronize()

    def slices(count: int) -> Action:
        kernel = library[f"add_slices_{count}"]

        def run() -> None:
            kernel(*y, *a, *b, n, numworkgroups=(groups, count), workgroupsize=256)
            mk.synchronize()

        return run

    def plainly(count: int) -> Action:
        def run() -> None:
            for i in range(count):
                np.add(x1[i], x2[i], out=out[i])

        return run

    yield Row("integration/byval/reference", reference, plainly(1))
    for count in (1, 2, 3):
        yield Row(f"integration/byval/slices={count}", slices(count), plainly(count))
    column = rng.standard_normal((1536, 1), np.float32)
    vector, kernel = mk.array(column), library["add_row"]

    def metaldevrt() -> None:
        kernel(y[0], a[0], vector, 3072, numworkgroups=1536, workgroupsize=256)
        mk.synchronize()

    yield Row("integration/metaldevrt", metaldevrt, lambda: np.add(x1[0], column, out=out[0]))


FIRST_KERNEL = "import metalki as mk; mk.Kernel('kernel void k() {}')(ndrange=1); mk.synchronize()"


def latency_results() -> Iterator[Result]:
    """New processes: the import, and the import with a first kernel compiled (no cache) and run."""

    def started(code: str) -> list[float]:
        times = []
        for _ in range(7):
            start = time.perf_counter_ns()
            subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "METALKI_CACHE": "0"})
            times.append(float(time.perf_counter_ns() - start))
        return times

    plain = statistics.median(started("import numpy"))
    for name, code in (("latency/import", "import metalki"), ("latency/ttfp", FIRST_KERNEL)):
        times = started(code)
        low, middle, high = statistics.quantiles(times, n=4)
        yield Result(name, middle, (high - low) / 2, plain)


def text_of(value: float) -> str:
    """Nanoseconds for people."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} ns"


def table(results: list[Result], old: dict[str, float]) -> None:
    """Prints the rows: our time, numpy's, their ratio, and the ratio to the old time."""
    width = max(len(r.name) for r in results)
    print(f"{'':{width}} {'metalki':>10} {'numpy':>10} {'ratio':>7}" + (f" {'old':>10} {'new/old':>8}" if old else ""))
    for r in results:
        line = f"{r.name:{width}} {text_of(r.median):>10} "
        line += f"{text_of(r.numpy):>10} {r.median / r.numpy:7.2f}" if r.numpy else f"{'-':>10} {'-':>7}"
        if old:
            before = old.get(r.name)
            line += f" {text_of(before):>10} {r.median / before:8.2f}" if before else f" {'-':>10} {'-':>8}"
        print(line)
    missing = sorted(set(old) - {r.name for r in results})
    if missing:
        print("only in the old file: " + ", ".join(missing))


def as_json(results: list[Result]) -> list[dict[str, Any]]:
    """What github-action-benchmark reads as customSmallerIsBetter."""
    found = []
    for r in results:
        entry = {"name": r.name, "unit": "ns", "value": round(r.median, 1), "range": f"± {r.spread:.1f}"}
        if r.numpy:
            entry["extra"] = f"numpy: {r.numpy:.1f} ns\nratio: {r.median / r.numpy:.3f}"
        found.append(entry)
    return found


def read_old(path: Path) -> dict[str, float]:
    """The times of an earlier run. Raises SystemExit for what is no such file."""
    try:
        return {str(entry["name"]): float(entry["value"]) for entry in json.loads(path.read_text(encoding="utf-8"))}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SystemExit(f"reference.py: {path} is no result of this suite: {error}") from None


def main(arguments: list[str] | None = None) -> int:
    """Runs the rows that were asked for, prints the table and writes the JSON."""
    parser = argparse.ArgumentParser(description="Metal.jl's benchmark suite over metalki, with numpy's times")
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--compare", type=Path, metavar="OLD.json", help="show ratios to an earlier run")
    parser.add_argument("--filter", default="", help="only rows whose name contains this")
    parser.add_argument("--threads", type=int, help="threads of the CPU device and of numpy's BLAS")
    parser.add_argument("--seconds", type=float, default=0.2, help="time for one row (0.2)")
    parser.add_argument("--list", action="store_true", help="only print the names")
    options = parser.parse_args(arguments)
    if options.threads and os.environ.get("METALKI_NUM_THREADS") != str(options.threads):
        names = ("METALKI_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
        os.environ.update(dict.fromkeys(names, str(options.threads)))
        if arguments is None:
            os.execv(sys.executable, [sys.executable, *sys.argv])  # BLAS reads them when numpy is loaded
    old = read_old(options.compare) if options.compare else {}
    results: list[Result] = []
    failures: list[str] = []
    if options.list:
        names = [*(r.name for r in rows()), "latency/import", "latency/ttfp"]
        print("\n".join(n for n in names if options.filter in n))
        return 0
    for row in rows():
        if options.filter in row.name:
            try:
                results.append(result(row, options.seconds))
            except Exception as error:
                failures.append(f"{row.name} failed: {type(error).__name__}: {str(error).strip().splitlines()[0]}")
    if any(options.filter in name for name in ("latency/import", "latency/ttfp")):
        results += [r for r in latency_results() if options.filter in r.name]
    if not results and not failures:
        raise SystemExit(f"reference.py: no row's name contains {options.filter!r}")
    if results:
        table(results, old)
    if options.json:
        options.json.write_text(json.dumps(as_json(results), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for line in failures:
        print(line, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
