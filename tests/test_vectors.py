"""What the vectoriser makes of a kernel, seen in its disassembly, and what it must not change."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import metalki as mk

pytestmark = pytest.mark.skipif(
    mk.device().kind != "cpu" or os.environ.get("METALKI_EXECUTOR") == "scalar", reason="other devices make no vectors"
)

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"


def code(text: str) -> str:
    return mk.Kernel(HEAD + text).disassemble("llvm")


def test_consecutive_addresses_are_wide_accesses() -> None:
    text = code(
        "kernel void k(device float* o, device const float* a, uint i [[thread_position_in_grid]]) { o[i + 1] = a[i] * 2; }"
    )
    assert "load <32 x float>" in text
    assert "store <32 x float>" in text
    assert "masked.gather" not in text
    assert "masked.scatter" not in text


def test_uniform_loops_need_no_mask() -> None:
    text = code(
        "kernel void k(device float* o, device const float* a, constant uint& n, uint i [[thread_position_in_grid]],"
        " uint l [[thread_index_in_simdgroup]]) { float s = 0; for (uint k = 0; k < n; ++k) s += a[k * 32 + l]; o[i] = s; }"
    )
    assert "runs SIMD-groups as vectors" in text
    assert "masked.load" not in text


def test_simd_functions_are_vector_operations() -> None:
    text = code(
        "kernel void k(device float* o, device const float* a, uint i [[thread_position_in_grid]])"
        " { o[i] = simd_sum(a[i]) + simd_shuffle_xor(a[i], 1); }"
    )
    assert "shufflevector" in text
    assert not re.search(r"call .*@__metalki_rt_simd", text)


def test_barriers_become_loops() -> None:
    text = code(
        "kernel void k(device float* o, uint t [[thread_position_in_threadgroup]]) {"
        " threadgroup float s[64]; s[t] = t; threadgroup_barrier(mem_flags::mem_threadgroup); o[t] = s[63 - t]; }"
    )
    assert "__metalki_rt_barrier" not in text


def test_what_has_to_run_thread_by_thread_says_why() -> None:
    body = "".join(f"x = sin(x) * {i}.5f + a[i + {i}];" for i in range(1200))
    text = code(
        "kernel void k(device float* o, device const float* a, uint i [[thread_position_in_grid]])"
        f" {{ float x = a[i]; {body} o[i] = x; }}"
    )
    assert re.match(r"; runs thread by thread: too much code for vectors: \d+ instructions", text)


@pytest.mark.parametrize("n", [1, 31, 32, 33, 1000, 8191, 8192, 8193])
def test_lengths_around_vectors_and_rows(n: int) -> None:
    out = mk.zeros(n + 8, np.uint32)
    mk.Kernel(HEAD + "kernel void k(device uint* o, uint i [[thread_position_in_grid]]) { o[i] += i * 3 + 1; }")(
        out, ndrange=n
    )
    assert out.numpy()[:n].tolist() == [3 * i + 1 for i in range(n)]
    assert not out.numpy()[n:].any()


def test_the_scalar_executor_gives_the_same() -> None:
    program = """
import sys
import numpy as np
import metalki as mk
k = mk.Kernel('''#include <metal_stdlib>
using namespace metal;
kernel void k(device float* o, device const float* a, uint i [[thread_position_in_grid]]) {
    float s = 0;
    for (uint j = 0; j < i % 13; ++j) { if (a[j] > 0.5f) continue; s += simd_sum(a[i]) * a[j]; if (s > 90) break; }
    o[i] = s + simd_prefix_inclusive_sum(a[i]);
}''', options={"math_mode": "safe"})
out = mk.zeros(777)
k(out, np.random.default_rng(3).random(777, dtype=np.float32), ndrange=777, workgroupsize=96)
sys.stdout.write(out.numpy().tobytes().hex())
"""
    results = [
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"METALKI_EXECUTOR": choice},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for choice in ("", "scalar")
    ]
    first, second = (np.frombuffer(bytes.fromhex(text), np.float32) for text in results)
    assert np.allclose(first, second, rtol=1e-5)


ROWS = """
kernel void rows(device T* o, device const T* a, constant uint& stride, constant uint& limit, device const uint* order,
                 uint2 p [[thread_position_in_grid]], uint2 l [[thread_position_in_threadgroup]],
                 uint2 size [[threads_per_threadgroup]]) {
    uint row = order[min(p.y, limit)];
    T x = a[row * stride + p.x] + a[(p.y + 1) * stride - 1 - l.x] + a[p.y * stride];
    if (p.y % 3 != 1) o[p.y * stride + p.x] = x;
    else if (p.x > 2 && x > T(-1000)) o[(p.y & limit) * stride + (p.x ^ l.x)] = a[p.y / 3 * stride + p.x] * T(2);
}"""


@pytest.mark.parametrize(
    "threadgroup", [(16, 2), (8, 4), (4, 8), (16, 16), (2, 16), (16, 4, 2), (8, 3), (32, 4), (5, 7)]
)
@pytest.mark.parametrize("kind", ["float", "half", "short", "float2", "uchar4"])
def test_lanes_in_rows_of_a_matrix(threadgroup: tuple[int, ...], kind: str) -> None:
    """Rows whose distance is known at run time, loaded and stored by runs of lanes; some lanes stay off."""
    width, height = 4 * threadgroup[0] + 3, 5 * threadgroup[1] + 1
    stride, limit = width + 6, 127
    parts = int(kind[-1]) if kind[-1].isdigit() else 1
    scalar = kind.rstrip("24")
    numbers = {"float": np.float32, "half": np.float16, "short": np.int16, "uchar": np.uint8}[scalar]
    rng = np.random.default_rng(5)
    a = rng.integers(0, 60, (height + 1, stride, parts)).astype(numbers)
    order = np.minimum(rng.permutation(height), limit).astype(np.uint32)
    text = ROWS.replace("T", kind) if parts == 1 else ROWS.replace("T", kind).replace("&& x > ", "&& x.y > ")
    text = text.replace(f"{kind}(-1000)", f"{scalar}(0)" if scalar == "uchar" else f"{scalar}(-1000)")
    out = mk.array(np.zeros_like(a))
    mk.Kernel(HEAD + text)(
        out, mk.array(a), stride, limit, mk.array(order), ndrange=(width, height), workgroupsize=threadgroup
    )
    want = np.zeros_like(a)
    with np.errstate(over="ignore"):
        for y in range(height):
            for x in range(width):
                lane = x % threadgroup[0]
                total = a[order[min(y, limit)], x] + a[y, stride - 1 - lane] + a[y, 0]
                if y % 3 != 1:
                    want[y, x] = total
                elif x > 2 and (scalar != "uchar" or total[1] > 0):
                    want[y & limit, x ^ lane] = a[y // 3, x] * numbers(2)
    got = out.numpy()
    assert np.array_equal(got, want), np.argwhere(got != want)[:5]


def test_rows_of_a_matrix_are_loaded_in_runs() -> None:
    text = code(
        "kernel void k(device float* o, device const float* a, constant uint& n, uint l [[thread_index_in_simdgroup]])"
        "{ o[(l / 8) * n + l % 8] = a[(l / 16) * n + l % 16]; }"
    )
    assert text.count("load <16 x float>") == 2
    assert text.count("store <8 x float>") == 4
    assert "masked.gather" not in text
    assert "masked.scatter" not in text


STRUCTURE = "struct S { uchar a[3]; uchar b[9]; short c[3]; half d[2]; float e[8]; };\n"
RECORD = np.dtype(
    [("a", np.uint8, 3), ("b", np.uint8, 9), ("c", np.int16, 3), ("d", np.float16, 2), ("e", np.float32, 8)], align=True
)


def records(n: int) -> np.ndarray:
    random = np.random.default_rng(n)
    out = np.zeros(n, RECORD)
    for name in RECORD.names or ():
        field = out[name]
        out[name] = (
            random.integers(-100, 100, field.shape) if field.dtype != np.uint8 else random.integers(0, 256, field.shape)
        )
    return out


@pytest.mark.parametrize("n", [32, 33, 100])
@pytest.mark.parametrize("place", ["i", "i % 3", "perm[i]", "i / 4 * 2 + i % 2"])
def test_neighbours_in_memory_are_read_as_what_they_are(n: int, place: str) -> None:
    text = (
        HEAD
        + STRUCTURE
        + "kernel void k(device float* o, device const S* s, device const uint* perm, uint i [[thread_position_in_grid]]) {"
        f" device const S& r = s[{place}]; float t = 0;"
        " for (int k = 0; k < 3; ++k) t += r.a[k] * float(1 + k) + r.c[k];"
        " for (int k = 0; k < 9; ++k) t += r.b[k] * float(k + 4);"
        " t += float(r.d[0]) * 3 - float(r.d[1]); for (int k = 0; k < 8; ++k) t += r.e[k] * float(k); o[i] = t; }"
    )
    data, out, i = records(n), mk.zeros(n), np.arange(n)
    perm = np.random.default_rng(1).permutation(n).astype(np.uint32)
    mk.Kernel(text)(out, mk.array(data.view(np.uint8)), mk.array(perm), ndrange=n)
    at = {"i": i, "i % 3": i % 3, "perm[i]": perm, "i / 4 * 2 + i % 2": i // 4 * 2 + i % 2}[place]
    r = {name: data[name][at].astype(np.float64) for name in RECORD.names or ()}
    wanted = r["a"] @ [1, 2, 3] + r["c"].sum(1) + r["b"] @ np.arange(4, 13) + r["d"] @ [3, -1] + r["e"] @ np.arange(8)
    assert np.array_equal(out.numpy(), wanted)


def test_small_numbers_are_not_gathered_one_by_one() -> None:
    text = code(
        STRUCTURE + "kernel void k(device float* o, device const S* s, device const uint* perm,"
        " uint i [[thread_position_in_grid]]) { device const S& r = s[perm[i]]; float t = r.a[1];"
        " for (int k = 0; k < 8; ++k) t += r.b[k]; o[i] = t; }"
    )
    assert "masked.gather.v32i8" not in text
    assert "masked.gather.v32i64" in text


def test_a_write_between_neighbours_is_seen() -> None:
    k = mk.Kernel(
        HEAD + "kernel void k(device uchar* a, device uchar* o, uint i [[thread_position_in_grid]]) {"
        " uchar x = a[4 * i]; a[4 * i + 1] = x + 1; uchar y = a[4 * i + 1]; a[4 * i] = 9;"
        " o[2 * i] = y; o[2 * i + 1] = a[4 * i]; }"
    )
    data, out = np.arange(256, dtype=np.uint8), mk.zeros(128, np.uint8)
    k(mk.array(data), out, ndrange=64)
    assert np.array_equal(out.numpy().reshape(-1, 2), np.stack([data[::4] + 1, np.full(64, 9)], 1))


def test_lanes_that_are_off_may_have_a_zero_as_divisor() -> None:
    out = mk.zeros(64, np.uint32)
    mk.Kernel(
        HEAD
        + """kernel void k(device uint* o, uint lane [[thread_index_in_simdgroup]], uint i [[thread_position_in_grid]]) {
        uint s = 1, d = lane * lane; if (i % 4 == 3) { if (d != 0) s += lane % d; } o[i] = s; }"""
    )(out, ndrange=64, workgroupsize=32)
    assert out.numpy().tolist() == [1 + (i % 32 if i % 4 == 3 else 0) for i in range(64)]


ATOMICS = """#define R memory_order_relaxed
kernel void k(device atomic_uint* total, device uint* seen, device const uint* a, uint i [[thread_position_in_grid]],
              uint t [[thread_position_in_threadgroup]]) {
    threadgroup atomic_uint bins[16]; threadgroup atomic_int least;
    if (t < 16) atomic_store_explicit(&bins[t], 0, R);
    if (t == 0) atomic_store_explicit(&least, 1000, R);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    seen[i] = atomic_fetch_add_explicit(&bins[a[i] % 16], a[i], R);
    if (a[i] % 3 == 0) atomic_fetch_min_explicit(&least, int(a[i]), R);
    uint old = 0; while (!atomic_compare_exchange_weak_explicit(&bins[15], &old, old + 1, R, R)) {}
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t < 16) atomic_fetch_add_explicit(&total[t], atomic_load_explicit(&bins[t], R), R);
    if (t == 16) atomic_fetch_add_explicit(&total[16], uint(atomic_load_explicit(&least, R)), R); }
"""


@pytest.mark.parametrize("size", [64, 50])
def test_atomics_of_threadgroup_memory(size: int) -> None:
    groups = 5
    a = np.random.default_rng(size).integers(1, 100, (groups, size), dtype=np.uint32)
    total, seen = mk.zeros(17, np.uint32), mk.zeros((groups, size), np.uint32)
    mk.Kernel(HEAD + ATOMICS)(total, seen, mk.array(a), ndrange=groups * size, workgroupsize=size)
    wanted = np.zeros(17, np.uint32)
    for group, old in zip(a, seen.numpy(), strict=True):
        for bin in range(16):
            inside = group % 16 == bin
            wanted[bin] += group[inside].sum(dtype=np.uint32) + (size if bin == 15 else 0)
            if bin != 15:  # each one found what another had left
                assert set(old[inside]) <= {0, *(old[inside] + group[inside])}
        wanted[16] += group[group % 3 == 0].min()
    assert np.array_equal(total.numpy(), wanted)


LOOPS = """
kernel void k(device int* o, uint i [[thread_position_in_grid]]) {
    int s = 0;
    for (int j = 0; j < 4; j++) {
        if ((i + j) & 1) continue;
        s += simd_sum(1) * (j + 1);
    }
    for (int j = 0; j < 6; j++) {
        if (j == int(i % 3)) continue;
        if (j > 3 && (i & 1)) break;
        s += 1000 * simd_sum(1);
        if ((i ^ j) & 1) continue;
        s += 100000 * simd_sum(1);
    }
    o[i] = s;
}"""


@pytest.mark.parametrize("executor", ["vectors", "scalar"])
def test_lanes_that_continue_wait_for_the_end_of_the_iteration(monkeypatch: pytest.MonkeyPatch, executor: str) -> None:
    i = np.arange(32)
    expected = np.zeros(32, int)
    for j in range(4):
        inside = (i + j) % 2 == 0
        expected[inside] += inside.sum() * (j + 1)
    left = np.zeros(32, bool)
    for j in range(6):
        inside = ~left & (j != i % 3)
        left |= inside & (j > 3) & (i % 2 == 1)
        inside &= ~left
        expected[inside] += 1000 * inside.sum()
        inside &= (i ^ j) % 2 == 0
        expected[inside] += 100000 * inside.sum()
    monkeypatch.setenv("METALKI_EXECUTOR", executor)
    out = mk.zeros(32, np.int32)
    mk.Kernel(HEAD + LOOPS + f"// {executor}")(out, ndrange=32)
    np.testing.assert_array_equal(out.numpy(), expected)


LITTLE_LEFT = """
inline uint steps(uint n) { uint c = 0; while (n != 0u && c < 40u) { n = (n & 1u) ? n * 3u + 1u : n >> 1; ++c; } return c; }
kernel void k(device uint* o, device const float* f, device const long* al, constant uint& n,
              uint3 gid [[thread_position_in_grid]], uint3 gsz [[threads_per_grid]],
              uint3 tsz [[threads_per_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
    const uint i = gid.x + gsz.x * (gid.y + gsz.y * gid.z); uint sum = 1u; int x0 = int(i) - 40;
    { const uint m = steps(31u) % 6u; for (uint j = 0; j < m; ++j) {} }
    sum += uint(ulong(simd_active_threads_mask()));
    if (true) { o[i] = i; return; }
    if (f[(lane + 7u) & 1023u] > 1) {}
    if ((int(x0 ^ x0) << 5) != int(int(x0 & int(-32)) % int(16))) {
        { const uint m = addsat(gid.x % 3u, 15u) % 3u; for (uint j = 0; j < m; ++j) { if (al[j & 1023u] > 5) {} } }
        { const uint m = (((tsz.x ^ n)) & 3u) + 1u; for (uint j = 0; j < m; ++j) {} }
    }
}
"""


@pytest.mark.parametrize("executor", ["vector", "scalar"])
def test_a_kernel_that_begins_with_what_goes(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first instruction asks for a thread's place, and is replaced while the others are: that ended the process once."""
    monkeypatch.setenv("METALKI_EXECUTOR", executor)
    out = mk.zeros(64, np.uint32)
    kernel = mk.Kernel(HEAD + LITTLE_LEFT + f"// {executor}")
    kernel(out, np.zeros(1024, np.float32), np.zeros(1024, np.int64), np.uint32(1), ndrange=64)
    np.testing.assert_array_equal(out.numpy(), np.arange(64))


PLACES = {
    "tile": "((l / 4 & 4) + l / 2 % 4) * stride + (l / 4 & 2) * 2 + l % 2 * 2",
    "tile transposed": "((l / 4 & 2) * 2 + l % 2 * 2) * stride + (l / 4 & 4) + l / 2 % 4",
    "every second": "2 * l",
    "every third": "3 * l",
    "backwards": "31 - l",
    "neighbours change places": "l ^ 5",
    "four rows taken in turn": "l % 4 * stride + l / 4",
    "rows with a gap": "l / 8 * stride + l % 8 * 3",
    "eight rows, some twice": "(l * 3 & 7) * stride + (l >> 4)",
    "too many rows": "(l >> 1) * stride + l",
}


@pytest.mark.parametrize("kind", ["float", "half", "uchar", "ulong", "ushort2"])
@pytest.mark.parametrize("place", PLACES, ids=lambda name: name.replace(" ", "-"))
def test_lanes_close_together(place: str, kind: str) -> None:
    """Loads and stores of places that lie close together in a few rows; the neighbours of each are read too."""
    stride, parts = 83, 2 if kind[-1] == "2" else 1
    scalar = kind.rstrip("2")
    numbers = {"float": np.float32, "half": np.float16, "uchar": np.uint8, "ulong": np.uint64, "ushort": np.uint16}[
        scalar
    ]
    a = np.random.default_rng(3).integers(0, 40, (20 * stride, parts)).astype(numbers)
    out, sums = mk.array(np.zeros_like(a)), mk.array(np.zeros((32, parts), numbers))
    mk.Kernel(
        HEAD
        + f"""kernel void k(device {kind}* o, device {kind}* sums, device const {kind}* a, constant uint& stride,
                            uint l [[thread_index_in_simdgroup]]) {{
            uint p = {PLACES[place]}; o[p] = a[p + 1]; sums[l] = a[p] + a[p + 2] + a[p + 1]; }}"""
    )(out, sums, mk.array(a), stride, ndrange=32)
    want, want_sums = np.zeros_like(a), np.zeros((32, parts), numbers)
    for lane in range(32):
        p = eval(PLACES[place].replace("/", "//"), {"l": lane, "stride": stride})
        want[p] = a[p + 1]
        want_sums[lane] = a[p] + a[p + 2] + a[p + 1]
    assert np.array_equal(out.numpy(), want)
    assert np.array_equal(sums.numpy(), want_sums)


@pytest.mark.parametrize("kind", ["float", "half", "bfloat"])
@pytest.mark.parametrize("transposed", ["false", "true"])
def test_matrices_of_a_simdgroup(kind: str, transposed: str) -> None:
    """A block of products in loops that are unrolled; rows whose distance is known at run time only."""
    n, k = 40, 24
    numbers = {"float": np.float32, "half": np.float16, "bfloat": mk.bfloat16}[kind]
    rng = np.random.default_rng(8)
    a, b = rng.integers(-3, 4, (16, k)).astype(numbers), rng.integers(-3, 4, (k, n)).astype(numbers)
    out = mk.zeros((n, 16) if transposed == "true" else (16, n), np.float32)
    text = f"""#include <metal_simdgroup_matrix>
    kernel void block(device float* c, device const {kind}* a, device const {kind}* b, constant uint& n, constant uint& k,
                      constant uint& ldc, uint g [[threadgroup_position_in_grid]]) {{
        simdgroup_float8x8 sums[2]; simdgroup_matrix<{kind}, 8, 8> x[2], y;
        for (int i = 0; i < 2; ++i) sums[i] = simdgroup_float8x8(0);
        for (uint q = 0; q < k; q += 8) {{
            for (int i = 0; i < 2; ++i) simdgroup_load(x[i], a + i * 8 * k + q, k);
            simdgroup_load(y, b + q * n + g * 8, n);
            for (int i = 0; i < 2; ++i) simdgroup_multiply_accumulate(sums[i], x[i], y, sums[i]); }}
        for (int i = 0; i < 2; ++i)
            if ({transposed}) simdgroup_store(sums[i], c + g * 8 * ldc + i * 8, ldc, ulong2(0), true);
            else simdgroup_store(sums[i], c + i * 8 * ldc + g * 8, ldc); }}"""
    mk.Kernel(HEAD + text)(out, mk.array(a), mk.array(b), n, k, out.shape[1], numworkgroups=n // 8, workgroupsize=32)
    want = a.astype(np.float32) @ b.astype(np.float32)
    assert np.array_equal(out.numpy(), want.T if transposed == "true" else want)


@pytest.mark.parametrize("dtype", ["short", "uint", "float", "long"])
@pytest.mark.parametrize("keeps", ["x[i] > 0", "x[i] <= 0", "lane % 3 == 1", "true", "false"])
def test_lanes_that_store_side_by_side(dtype: str, keeps: str) -> None:
    """A lane's place is its rank among those that store: the compiler may use one store for all lanes."""
    kernel = mk.Kernel(f"""#include <metal_stdlib>
    using namespace metal;
    kernel void compact(device {dtype}* out, device const {dtype}* x, device uint* counts, constant uint& n,
                        uint i [[thread_position_in_grid]], uint group [[threadgroup_position_in_grid]],
                        uint lane [[thread_index_in_simdgroup]]) {{
        const bool keep = i < n && ({keeps}), other = i < n && !keep;
        const uint votes = (uint)(simd_vote::vote_t)simd_ballot(keep);
        const uint rest = (uint)(simd_vote::vote_t)simd_ballot(other);
        const uint below = (1u << lane) - 1;
        device {dtype}* own = out + group * 32;
        if (keep) own[popcount(votes & below)] = x[i];
        if (other) (own + popcount(votes))[popcount(rest & below)] = x[i];
        if (lane == 0) counts[group] = popcount(votes);
    }}""")
    numpy_type = {"short": np.int16, "uint": np.uint32, "float": np.float32, "long": np.int64}[dtype]
    rng = np.random.default_rng(3)
    for n in (1, 31, 32, 33, 1000):
        host = rng.integers(-3 if dtype != "uint" else 0, 4, n).astype(numpy_type)
        groups = -(-n // 32)
        out, counts = mk.zeros(groups * 32, numpy_type), mk.zeros(groups, np.uint32)
        kernel(out, mk.array(host), counts, n, numworkgroups=groups, workgroupsize=32)
        lane = np.arange(n) % 32
        kept = {"x[i] > 0": host > 0, "x[i] <= 0": host <= 0, "lane % 3 == 1": lane % 3 == 1}.get(keeps)
        kept = np.full(n, keeps == "true") if kept is None else kept
        for group in range(groups):
            part = slice(group * 32, min(group * 32 + 32, n))
            wanted = np.concatenate([host[part][kept[part]], host[part][~kept[part]]])
            assert np.array_equal(out.numpy()[group * 32 :][: wanted.size], wanted)
            assert counts.numpy()[group] == kept[part].sum()


@pytest.mark.parametrize("kind", ["float", "float4", "ushort", "uchar", "ulong"])
@pytest.mark.parametrize("shape", [(1 << 22,), (4099, 1031), (33, 1027, 129)], ids=str)
def test_launches_that_write_more_than_the_caches_hold(kind: str, shape: tuple[int, ...]) -> None:
    """Rows that begin anywhere in a line of the cache; a buffer that is read as well is written as usual."""
    scalar, parts = kind.rstrip("4"), 4 if kind[-1] == "4" else 1
    types = {"float": np.float32, "ushort": np.uint16, "uchar": np.uint8, "ulong": np.uint64}
    n = int(np.prod(shape))
    a = np.arange(n * parts, dtype=np.uint32).astype(types[scalar]).reshape(n, parts)
    first, second, third = mk.zeros((n, parts), types[scalar]), mk.zeros((n, parts), types[scalar]), mk.array(a)
    mk.Kernel(
        HEAD
        + f"""kernel void k(device {kind}* first, device {kind}* second, device {kind}* third, device const {kind}* a,
                            uint3 i [[thread_position_in_grid]], uint3 s [[threads_per_grid]]) {{
            uint p = (i.z * s.y + i.y) * s.x + i.x; first[p] = a[p]; second[p] = a[p] + {kind}(1);
            third[p] = third[p] + a[p]; }}"""
    )(first, second, third, mk.array(a), ndrange=shape)
    assert np.array_equal(first.numpy(), a)
    assert np.array_equal(second.numpy(), a + types[scalar](1))
    assert np.array_equal(third.numpy(), a + a)


CONDITIONS = {
    "inside": ("i.x > 0 && i.y > 0 && i.x < s.x - 1", lambda x, y, a, shape: (x > 0) & (y > 0) & (x < shape[0] - 1)),
    "some rows": ("i.y % 3 == 1", lambda x, y, a, shape: (y % 3 == 1) & (x >= 0)),
    "some words": ("a[p] % 7 > 1", lambda x, y, a, shape: a % 7 > 1),
    "none": ("a[p] == 0xffffffff", lambda x, y, a, shape: a < 0),
}


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("shape", [(1 << 22, 2), (4099, 1031), (67, 65000)], ids=str)
def test_large_launches_that_write_where_a_condition_holds(condition: str, shape: tuple[int, int]) -> None:
    text, holds = CONDITIONS[condition]
    a = np.arange(shape[0] * shape[1], dtype=np.uint32).reshape(shape[1], shape[0])
    out, other = mk.zeros(a.shape, np.uint32), mk.zeros(a.shape, np.uint32)
    mk.Kernel(
        HEAD
        + f"""kernel void k(device uint* out, device uint* other, device const uint* a,
                            uint2 i [[thread_position_in_grid]], uint2 s [[threads_per_grid]]) {{
            uint p = i.y * s.x + i.x; if ({text}) out[p] = a[p] + 1; else other[p] = a[p] + 2; }}"""
    )(out, other, mk.array(a), ndrange=shape)
    picked = holds(np.arange(shape[0])[None, :], np.arange(shape[1])[:, None], a.astype(np.int64), shape)
    assert np.array_equal(out.numpy(), np.where(picked, a + 1, 0))
    assert np.array_equal(other.numpy(), np.where(picked, 0, a + 2))


def test_large_launches_have_stores_past_the_caches() -> None:
    head = "kernel void k(device float* o, device const float* a, uint i [[thread_position_in_grid]])"
    assert "!nontemporal" in code(head + "{ o[i] = a[i]; }")
    assert "!nontemporal" in code(head + "{ if (a[i] > 0) o[i] = a[i]; }")
    assert "!nontemporal" not in code(head + "{ for (uint k = 0; k < uint(a[i]); ++k) o[i + k] = a[i]; }")
    assert "!nontemporal" not in code(head + "{ o[i] += a[i]; }")


def test_a_loop_left_by_a_condition_of_an_earlier_block() -> None:
    k = mk.Kernel(
        HEAD
        + """kernel void k(device uint* o, uint3 gid [[thread_position_in_grid]], uint3 gsz [[threads_per_grid]]) {
        uint sum = 1, n = (gsz.x & 3) + 1, k = 0;
        while (k < n) { ++k; const uint m = sum % 3; for (uint j = m; j > 0; --j) {
            if ((rotate(28u, gid.x % (gid.x | 1)) & 2) == 0) { o[2 * gid.x] = 5; return; } } }
        o[2 * gid.x + 1] = sum; }"""
    )
    out = mk.zeros((384, 2), np.uint32)
    k(out, ndrange=384, workgroupsize=128)
    turns = np.arange(384) % (np.arange(384) | 1) % 32
    left = ((28 << turns | 28 >> (32 - turns) % 32 * (turns > 0)) & 2) == 0
    assert np.array_equal(out.numpy(), np.where(left[:, None], [5, 0], [0, 1]))


LEAVING = HEAD + (
    "kernel void k(device uint* o, device const uint* a, uint i [[thread_position_in_grid]]) {"
    " uint s = 0; for (uint j = 0; j < (a[i] & 31u); ++j) { if ((a[i] >> j) & 1u) s += j; else if (s & 4u) continue; ++s; }"
    " if (s & 1u) o[i] = s; }"
)
CONVERTING = (
    HEAD
    + "kernel void k(device uint* o, device const float* a, uint i [[thread_position_in_grid]]) { o[i] = uint(a[i]); }"
)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="names processors of x86-64")
@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3"])
@pytest.mark.parametrize("source", [LEAVING, CONVERTING], ids=["masks", "conversions"])
def test_older_processors_do_not_go_lane_by_lane(cpu: str, source: str) -> None:
    script = "import sys, metalki as mk; print(mk.Kernel(sys.argv[1]).disassemble('asm'))"
    environment = {**os.environ, "METALKI_CPU": cpu}
    done = subprocess.run(
        [sys.executable, "-c", script, source], env=environment, check=True, capture_output=True, text=True
    )
    inserted = re.findall(r"\bv?pinsr[bwd]\b|\bv?pextr[bwd]\b|\bv?movd\b|\bv?cvttss2si\b", done.stdout)
    assert len(inserted) < 12, inserted


def test_the_second_position_of_a_row_is_any_number() -> None:
    kernel = mk.Kernel(
        "kernel void k(device uint* o, device const uint* a, uint3 p [[thread_position_in_grid]]) {"
        " const uint i = p.x + 32 * p.y; uint sum = 1;"
        " for (uint k = 0; k < a[i & 3]; ++k) {"
        "  if (((p.x - p.y) & 3u) != 0u) { o[i] = 5; return; } sum += a[(p.x ^ k) & 7u]; }"
        " o[i] = sum; }"
    )
    values = np.array([0, 7, 14, 21, 28, 35, 42, 49], np.uint32)
    out = mk.zeros(384, np.uint32)
    kernel(out, mk.array(values), ndrange=(32, 12), workgroupsize=(32, 4))
    for row, column in np.ndindex(12, 32):
        rounds = int(values[column & 3])
        ends = rounds > 0 and (column - row) & 3 != 0
        wanted = 5 if ends else 1 + sum(int(values[(column ^ k) & 7]) for k in range(rounds))
        assert out.numpy()[row * 32 + column] == wanted, (row, column)


def test_addresses_that_are_added_up_in_many_ways_compile_at_once() -> None:
    """Each sum takes two that take two: to follow every way from the address to the exclusive or would not end."""
    sums = " ".join("z = x + y; x = y; y = z;" for _ in range(60))
    kernel = mk.Kernel(
        "kernel void k(device uint* o, device const uint* a, constant uint& n, uint i [[thread_position_in_grid]])"
        f" {{ uint x = i ^ n, y = a[i], z; {sums} if (a[i + 1] > 3) o[y & 1023] = 1; if (a[i] > 5) o[y] = 1; }}"
    )
    out = mk.zeros(1024, np.uint32)
    kernel(out, mk.array(np.full(64, 4, np.uint32)), 1, ndrange=32)
    assert out.numpy().any()


GRIDS = [(31, 5, 3), (255, 7, 4), (1, 300, 2), (64, 64, 2), (8193, 3, 1), (5, 1, 7000)]
INDICES = {
    "p.x + n.x * (p.y + n.y * p.z)": lambda x, y, z, n: x + n[0] * (y + n[1] * z),
    "(p.z * n.y + p.y) * n.x + p.x": lambda x, y, z, n: x + n[0] * (y + n[1] * z),
    "p.x + p.y * n.x": lambda x, y, z, n: x + n[0] * y,
    "p.x + n.x * p.y + p.z": lambda x, y, z, n: x + n[0] * y + z,
    "p.x * n.y + p.y": lambda x, y, z, n: x * n[1] + y,
}


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("index", list(INDICES))
def test_rows_that_lie_end_to_end(index: str, grid: tuple[int, int, int]) -> None:
    visit = mk.Kernel(
        HEAD + "kernel void k(device atomic_uint* o, device uint* last, uint3 p [[thread_position_in_grid]],"
        f" uint3 n [[threads_per_grid]]) {{ uint i = {index};"
        " atomic_fetch_add_explicit(&o[i], 1u, memory_order_relaxed); last[i] = i * 3; }"
    )
    x, y, z = (a.ravel() for a in np.meshgrid(*map(np.arange, grid), indexing="ij"))
    wanted = INDICES[index](x, y, z, grid)
    visits, last = mk.zeros(int(wanted.max()) + 1, np.uint32), mk.zeros(int(wanted.max()) + 1, np.uint32)
    visit(visits, last, ndrange=grid)
    np.testing.assert_array_equal(visits.numpy(), np.bincount(wanted))
    np.testing.assert_array_equal(last.numpy(), np.where(visits.numpy() > 0, 3 * np.arange(last.size), 0))


def test_a_grid_of_more_threads_than_numbers() -> None:
    k = mk.Kernel(
        HEAD
        + "kernel void k(device atomic_uint* o, uint2 p [[thread_position_in_grid]], uint2 n [[threads_per_grid]]) {"
        " uint i = p.x + n.x * p.y; if (i < 40) atomic_fetch_add_explicit(&o[i], 1u, memory_order_relaxed); }"
    )
    counts = mk.zeros(40, np.uint32)
    k(counts, ndrange=(2**31, 2)), k(counts, ndrange=(2**31 + 11, 2))
    assert counts.numpy().tolist() == [3] * 22 + [2] * 18


def test_a_fault_tells_which_threads_ran() -> None:
    k = mk.Kernel(
        HEAD + "kernel void k(device uint* o, uint3 p [[thread_position_in_grid]], uint3 n [[threads_per_grid]]) {"
        " uint i = p.x + n.x * (p.y + n.y * p.z); o[i == 20000 ? 1u << 31 : i] = i; }"
    )
    with pytest.raises(mk.DeviceError, match=r"in the threads from .* to .* of the grid") as fault:
        k(mk.zeros(100 * 100 * 3, np.uint32), ndrange=(100, 100, 3)), mk.synchronize()
    first, last = (
        x + 100 * (y + 100 * z)
        for x, y, z in (map(int, found) for found in re.findall(r"\((\d+), (\d+), (\d+)\)", str(fault.value)))
    )
    assert first <= 20000 <= last < first + 8192


def test_comparisons_of_positions_for_many_lanes_compile_at_once() -> None:
    k = mk.Kernel(
        HEAD
        + """inline uint early(uint a, uint b) {
            if (a > b) return a - b;
            for (uint k = 0; k < 6u; ++k) { if ((b >> k) == a) return k; b ^= k; }
            return b; }
        kernel void k(device uint* o, device uint* p, device const uint* a, uint3 g [[thread_position_in_grid]],
                      uint3 s [[threads_per_grid]]) {
            const uint i = g.x + s.x * (g.y + s.y * g.z); uint sum = 1, four[4] = {3, 1, i, 3};
            switch ((early(2u, g.x) - g.y) % 4u) {
            case 0: four[rotate(sum, g.y) % 4u] = 2 * i; break;
            case 1: p[i] = a[(i + 3u) & 63u] * 7u;
            case 2: { const uint n = reverse_bits(1000u) >> ((sum + i) & 31u); for (uint k = 0; k < n % 3u; ++k) {} }
            default: {} }
            for (uint j = 0; j < 4u; ++j) sum = sum * 7u + four[j];
            o[i] = sum; }"""
    )

    def early(b: int) -> int:
        if b < 2:
            return 2 - b
        for j in range(6):
            if b >> j == 2:
                return j
            b ^= j
        return b

    out, picked = mk.zeros((6, 64), np.uint32), mk.zeros((6, 64), np.uint32)
    k(out, picked, mk.array(np.arange(64, dtype=np.uint32)), ndrange=(64, 6))
    for y, x in np.ndindex(6, 64):
        i, case = x + 64 * y, (early(x) - y) % 4
        four = [3, 1, i, 3]
        if case == 0:
            four[(1 << y) % 4] = 2 * i
        total = 1
        for number in four:
            total = (total * 7 + number) % 2**32
        assert out.numpy()[y, x] == total
        assert picked.numpy()[y, x] == ((i + 3) % 64 * 7 if case == 1 else 0)
