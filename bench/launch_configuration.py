"""How good the work-group size is that a launch chooses: against the best one that a search finds, over many ndranges.

For each kernel and ndrange every sensible work-group size is timed in turn; where launches are slow, those that lose clearly
are timed once. The fastest then meets the chosen one in a
second, interleaved round of its own, as the winner of a search over noisy times always looks too good. Ratio: time of the
choice over time of the best, each the lower quartile of its rounds, which other programs on the machine disturb least.
Exits with 1 when a ratio is above 1.10.

On a busy machine METALKI_NUM_THREADS=1 and --cpu-time tell more: the least processor time of a launch instead of its duration.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import metalki as mk
from metalki import kernel_interface as KI

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
INDEX = "p.x + n.x * (p.y + n.y * p.z)"
POSITION = "uint3 p [[thread_position_in_grid]], uint3 n [[threads_per_grid]]"
MEMORY = f"kernel void memory(device float* o, device const float* a, {POSITION}) {{ uint i = {INDEX}; o[i] = a[i] * 2 + 1; }}"
COMPUTE = f"""kernel void compute(device float* o, device const float* a, {POSITION}) {{
    uint i = {INDEX}; float x = a[i];
    for (int k = 0; k < 200; ++k) x = fma(x, 0.999f, 0.1f);
    o[i] = x; }}"""
UNEVEN = f"""kernel void uneven(device float* o, device const float* a, {POSITION}) {{
    uint i = {INDEX}; float x = a[i];
    for (uint k = 0; k < (i * 2654435761u >> 25); ++k) x = x * 0.5f + 1;
    o[i] = x; }}"""
STENCIL = f"""kernel void stencil(device float* o, device const float* a, {POSITION}) {{
    uint i = {INDEX}; uint l = p.x ? i - 1 : i, r = p.x + 1 < n.x ? i + 1 : i;
    uint u = p.y ? i - n.x : i, d = p.y + 1 < n.y ? i + n.x : i;
    o[i] = 0.2f * (a[i] + a[l] + a[r] + a[u] + a[d]); }}"""
TILE = f"""kernel void tile(device float* o, device const float* a, threadgroup float* t, {POSITION},
    uint l [[thread_index_in_threadgroup]], uint3 s [[threads_per_threadgroup]]) {{
    uint i = {INDEX}; t[l] = a[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    o[i] = t[s.x * s.y * s.z - 1 - l]; }}"""
SIMD = f"""kernel void lanes(device float* o, device const float* a, {POSITION}) {{
    uint i = {INDEX}; o[i] = simd_sum(a[i]); }}"""

TREE = f"""kernel void tree(device float* o, device const float* a, {POSITION},
    uint l [[thread_index_in_threadgroup]], uint3 s [[threads_per_threadgroup]],
    uint3 g [[threadgroup_position_in_grid]], uint3 m [[threadgroups_per_grid]]) {{
    threadgroup float t[1024];
    uint i = {INDEX}; t[l] = a[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint half_size = s.x * s.y * s.z / 2; half_size > 0; half_size /= 2) {{
        if (l < half_size) t[l] += t[l + half_size];
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }}
    if (l == 0) o[g.x + m.x * (g.y + m.y * g.z)] = t[0]; }}"""

SUMS = f"""kernel void sums(device float* o, device const float* a, {POSITION},
    uint lane [[thread_index_in_simdgroup]], uint sg [[simdgroup_index_in_threadgroup]],
    uint sgs [[simdgroups_per_threadgroup]],
    uint3 g [[threadgroup_position_in_grid]], uint3 m [[threadgroups_per_grid]]) {{
    threadgroup float t[32];
    uint i = {INDEX}; float v = simd_sum(a[i]);
    if (lane == 0) t[sg] = v;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (sg == 0) {{
        v = simd_sum(lane < sgs ? t[lane] : 0.0f);
        if (lane == 0) o[g.x + m.x * (g.y + m.y * g.z)] = v; }} }}"""
BINS = f"""kernel void bins(device float* o, device const float* a, {POSITION},
    uint l [[thread_index_in_threadgroup]], uint3 s [[threads_per_threadgroup]]) {{
    device atomic_uint* total = (device atomic_uint*)o; threadgroup atomic_uint t[64];
    for (uint k = l; k < 64; k += s.x * s.y * s.z) atomic_store_explicit(&t[k], 0u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint i = {INDEX}; atomic_fetch_add_explicit(&t[uint(a[i] * 63)], 1u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint k = l; k < 64; k += s.x * s.y * s.z)
        if (uint count = atomic_load_explicit(&t[k], memory_order_relaxed))
            atomic_fetch_add_explicit(&total[k], count, memory_order_relaxed); }}"""
NEIGHBOURS = f"""kernel void neighbours(device float* o, device const float* a, threadgroup float* t, {POSITION},
    uint l [[thread_index_in_threadgroup]], uint3 s [[threads_per_threadgroup]]) {{
    uint i = {INDEX}; t[l] = a[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float v = t[l]; if (l > 0) v += t[l - 1]; if (l + 1 < s.x * s.y * s.z) v += t[l + 1];
    o[i] = v; }}"""
GROUPS = f"""kernel void by_groups(device float* o, device const float* a, uint3 n [[threads_per_grid]],
    uint3 l [[thread_position_in_threadgroup]], uint3 g [[threadgroup_position_in_grid]],
    uint3 s [[threads_per_threadgroup]]) {{
    uint3 p = g * s + l; uint i = {INDEX}; o[i] = a[i] * 2; }}"""

SOURCES = {
    "memory": MEMORY,
    "compute": COMPUTE,
    "uneven": UNEVEN,
    "stencil": STENCIL,
    "tile": TILE,
    "lanes": SIMD,
    "tree": TREE,
    "sums": SUMS,
    "bins": BINS,
    "neighbours": NEIGHBOURS,
    "by_groups": GROUPS,
}
TAKE_A_TILE = ("tile", "neighbours")

Shape = tuple[int, ...]
SHAPES: list[Shape] = [
    *((n,) for n in (1, 7, 31, 32, 33, 100, 1000, 1023, 4096, 65_537, 1_000_000, 2**20 + 1, 2**24, 2**26)),
    *((1, 1000), (1000, 1), (33, 57), (3, 4099), (640, 480), (1921, 1081), (4096, 4096), (8192, 8192)),
    *((3, 5, 7), (64, 64, 64), (127, 63, 31), (1, 1, 4096), (256, 256, 256), (512, 512, 256)),
]


@dataclass
class Case:
    """One kernel over one ndrange."""

    kernel: mk.Kernel
    shape: Shape
    arrays: tuple[mk.Array, mk.Array]
    takes_tile: bool

    def launch(self, group: Shape) -> None:
        arguments: tuple[object, ...] = self.arrays
        if self.takes_tile:
            arguments += (mk.threadgroup(4 * math.prod(group)),)
        self.kernel.launch(arguments, ndrange=self.shape, workgroupsize=group)


def groups_for(shape: Shape, limit: int) -> list[Shape]:
    """Powers of two in every axis, and the whole of a short axis."""
    axes = []
    for size in shape:
        sizes = {1 << k for k in range(11) if 1 << k <= size}
        axes.append(sorted(sizes | ({size} if size <= limit else set())))
    groups = [g for g in itertools.product(*axes) if math.prod(g) <= limit]
    if len(groups) > 40:  # small groups lose; a few of them show it
        groups = [g for g in groups if math.prod(g) >= 64] + groups[:: max(1, len(groups) // 8)]
    if len(groups) > 40:
        groups = groups[:: -(-len(groups) // 40)]
    return groups


clock = time.perf_counter


def seconds(case: Case, group: Shape, repeat: int) -> float:
    start = clock()
    for _ in range(repeat):
        case.launch(group)
    mk.synchronize()
    return (clock() - start) / repeat


SLOW = 0.02  # seconds of a launch, beside which the code for a group's size is made in no time


def that_may_win(case: Case, groups: list[Shape]) -> list[Shape]:
    """The groups without those that took half as long again as the fastest, launched once."""
    times = [seconds(case, group, 1) for group in groups]
    return [group for group, time_taken in zip(groups, times, strict=True) if time_taken < 1.5 * min(times) + 0.02]


def interleaved(case: Case, groups: list[Shape], rounds: int, repeat: int) -> list[float]:
    """Seconds of a launch for each group."""
    for group in groups if repeat > 1 else ():
        seconds(case, group, 1)  # code for a group's size is made by the first launch that has it
    times: list[list[float]] = [[] for _ in groups]
    for _ in range(rounds):
        for found, group in zip(times, groups, strict=True):
            found.append(seconds(case, group, repeat))
    return [min(t) if clock is time.process_time else sorted(t)[len(t) // 4] for t in times]


def ratio(case: Case, say: Callable[[str], None]) -> float:
    chosen = KI.launch_configuration(case.kernel, case.shape)[1]
    once = min(seconds(case, chosen, 1) for _ in range(3))
    repeat = max(1, min(200, int(1e-3 / once)))
    groups = groups_for(case.shape, KI.kernel_max_work_group_size(case.kernel))
    if once > SLOW:
        groups = that_may_win(case, groups)
    found = interleaved(case, groups, 2 if once > SLOW else 3, repeat)
    best = groups[min(range(len(groups)), key=found.__getitem__)]
    of_chosen, of_best = interleaved(case, [chosen, best], 5 if once > 0.05 else 15, repeat)
    result = 1.0 if chosen == best else of_chosen / of_best
    say(
        f"{case.kernel.name:<10} {case.shape!s:<18} chosen {chosen!s:<14} {of_chosen * 1e6:11.1f} us   "
        f"best {best!s:<14} {of_best * 1e6:11.1f} us   ratio {result:5.2f}"
    )
    return result


def main() -> int:
    global clock
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", default=",".join(SOURCES))
    parser.add_argument("--largest", type=int, default=2**26, help="ndranges with more threads are left out")
    parser.add_argument(
        "--slowest", type=float, default=1.0, help="cases whose launch takes longer, in s, are left out"
    )
    parser.add_argument("--cpu-time", action="store_true", help="compare processor time")
    given = parser.parse_args()
    if given.cpu_time:
        clock = time.process_time
    ratios = []
    for name in given.kernels.split(","):
        kernel = mk.Kernel(HEAD + SOURCES[name])
        for shape in SHAPES:
            size = math.prod(shape)
            if size > given.largest:
                continue
            arrays = (mk.zeros(max(size, 64)), mk.array(np.linspace(0, 1, size, dtype=np.float32)))
            case = Case(kernel, shape, arrays, name in TAKE_A_TILE)
            if seconds(case, KI.launch_configuration(kernel, shape)[1], 1) > given.slowest:
                print(f"{name:<10} {shape!s:<18} left out: slower than {given.slowest} s")
                continue
            ratios.append(ratio(case, lambda line: print(line, flush=True)))
    above = sum(r > 1.10 for r in ratios)
    print(
        f"{len(ratios)} cases: median ratio {statistics.median(ratios):.3f}, worst {max(ratios):.2f}, {above} above 1.10"
    )
    return 1 if above else 0


if __name__ == "__main__":
    raise SystemExit(main())
