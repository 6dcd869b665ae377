"""Conversion of launch arguments by the declared MSL type, and the geometry of launches."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import metalki as mk
from metalki import _cuda
from metalki import kernel_interface as KI

B = mk.MetalBackend()
HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
VALUE = HEAD + "kernel void k(device T* out, constant T& v) { out[0] = v; }"
INTEGERS = {
    "char": np.int8,
    "uchar": np.uint8,
    "short": np.int16,
    "ushort": np.uint16,
    "int": np.int32,
    "uint": np.uint32,
    "long": np.int64,
    "ulong": np.uint64,
}
FLOATS = {"half": np.float16, "float": np.float32}


def value_kernel(name: str) -> mk.Kernel:
    return mk.Kernel(VALUE, options={"macros": {"T": name}})


def passed(name: str, dtype: Any, value: Any) -> Any:
    """What the kernel saw."""
    out = mk.zeros(1, dtype)
    value_kernel(name)(out, value, ndrange=1)
    return out.numpy()[0]


@pytest.mark.parametrize("name", INTEGERS)
@settings(max_examples=60, deadline=None)
@given(value=st.integers(-(2**70), 2**70) | st.integers(-300, 300))
def test_integers_arrive_or_are_refused(name: str, value: int) -> None:
    limits = np.iinfo(INTEGERS[name])
    if limits.min <= value <= limits.max:
        assert int(passed(name, INTEGERS[name], value)) == value
    else:
        with pytest.raises(mk.ArgumentError, match="argument 1"):
            passed(name, INTEGERS[name], value)


@pytest.mark.parametrize("name", INTEGERS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_numpy_integers_arrive_or_are_refused(name: str, data: Any) -> None:
    source = data.draw(st.sampled_from(list(INTEGERS.values())))
    limits = np.iinfo(source)
    value = source(data.draw(st.integers(int(limits.min), int(limits.max))))
    target = np.iinfo(INTEGERS[name])
    if target.min <= int(value) <= target.max:
        assert int(passed(name, INTEGERS[name], value)) == int(value)
    else:
        with pytest.raises(mk.ArgumentError, match="argument 1"):
            passed(name, INTEGERS[name], value)


@pytest.mark.parametrize("name", FLOATS)
@settings(max_examples=100, deadline=None)
@given(value=st.floats() | st.floats(width=32) | st.floats(width=16) | st.integers(-100_000, 100_000))
def test_floats_are_rounded_to_nearest_or_refused(name: str, value: float) -> None:
    with np.errstate(over="ignore"):
        expected = np.float64(value).astype(FLOATS[name])
    if math.isfinite(value) and not np.isfinite(expected):
        with pytest.raises(mk.ArgumentError, match="argument 1"):
            passed(name, FLOATS[name], value)
        return
    for given_as in (value, np.float64(value)):
        found = passed(name, FLOATS[name], given_as)
        assert found.tobytes() == expected.tobytes() or (np.isnan(found) and np.isnan(expected))


@settings(max_examples=60, deadline=None)
@given(value=st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**126), max_value=2.0**126))
def test_bfloat_scalars_round_to_nearest_even(value: float) -> None:
    import ml_dtypes

    expected = np.float32(value).astype(ml_dtypes.bfloat16)
    out = mk.zeros(1, "bfloat16")
    value_kernel("bfloat")(out, np.float32(value), ndrange=1)
    assert out.numpy()[0].tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize(
    "value",
    [
        *(1.0, np.float32(1), np.float16(1), 1j, "1", b"", [], [1], (1,), [[1]], (1, 2), object(), float("nan")),
        *(np.datetime64("2020-01-01"), np.timedelta64(1), np.complex64(1), np.str_("1")),
    ],
)
def test_integers_take_nothing_else(name: str, value: Any) -> None:
    with pytest.raises(mk.ArgumentError, match="argument 1"):
        passed(name, INTEGERS[name], value)


@pytest.mark.parametrize(
    "value", [1j, "1", b"", [1.0], (1.0,), np.datetime64("2020-01-01"), np.timedelta64(1), np.complex128(1), None]
)
def test_floats_take_nothing_but_numbers(value: Any) -> None:
    with pytest.raises(mk.ArgumentError, match="argument 1"):
        passed("float", np.float32, value)


def test_a_number_may_come_as_an_array_of_its_type() -> None:
    for array in (
        np.array([7], np.uint32),
        np.array([7, 8], np.uint32),
        mk.array(np.array([7], np.uint32)),
        np.array(7),
    ):
        assert passed("uint", np.uint32, array) == 7
    for wrong in (np.array([7]), np.array([7], np.int32), np.array([7.0])):
        with pytest.raises(mk.ArgumentError, match="dtype uint32"):
            passed("uint", np.uint32, wrong)


def test_numpy_arrays_that_overlap_are_refused_where_one_is_written() -> None:
    kernel = mk.Kernel(
        "kernel void k(device float* o, device const float* a, device const float* b, uint i [[thread_position_in_grid]])"
        "{ o[i] = a[i] + b[i]; }"
    )
    host = np.arange(12, dtype=np.float32)
    for arguments in ((host[:8], host[4:], host[:8]), (host[4:], host[:8], host[:8]), (host, host[4:], host[4:])):
        with pytest.raises(mk.ArgumentError, match="shares part of its memory"):
            kernel(*arguments, ndrange=4)
    assert host.tolist() == list(range(12))
    out = np.zeros(4, np.float32)
    kernel(out, host[:8], host[4:], ndrange=4)  # only read
    kernel(host[:4], host[4:8], host[8:], ndrange=4)  # side by side
    assert out.tolist() == [4, 6, 8, 10]
    assert host.tolist()[:4] == [12, 14, 16, 18]


class _Shown:
    """Hands numpy its own memory, or a copy of it."""

    def __init__(self, *, copies: bool) -> None:
        self.memory = np.arange(3, dtype=np.int32)
        self.copies = copies

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.memory.copy() if self.copies else self.memory


def test_what_numpy_only_sees_as_a_copy_is_refused_where_the_kernel_writes() -> None:
    kernel = mk.Kernel("kernel void k(device int* a, uint i [[thread_position_in_grid]]) { a[i] += 1; }")
    shown = _Shown(copies=False)
    kernel(shown, ndrange=3)
    assert shown.memory.tolist() == [1, 2, 3]
    with pytest.raises(mk.ArgumentError, match=r"'a'.*copy"):
        kernel(_Shown(copies=True), ndrange=3)
    wide = mk.Kernel("kernel void k(device long* a, uint i [[thread_position_in_grid]]) { a[i] += 1; }")
    with pytest.raises(mk.ArgumentError, match=r"'a'.*copy"):
        wide(range(3), ndrange=3)


def test_vectors_and_matrices_are_laid_out_as_msl_wants() -> None:
    source = HEAD + "kernel void k(device float* out, constant V& v) { ASSIGN }"
    for name, count in (("float2", 2), ("float3", 3), ("float4", 4)):
        assign = "".join(f"out[{i}] = v[{i}];" for i in range(count))
        kernel = mk.Kernel(source, options={"macros": {"V": name, "ASSIGN": assign}})
        numbers = [float(i + 1) for i in range(count)]
        for value in (tuple(numbers), numbers, np.array(numbers), np.array(numbers, np.float32)):
            out = mk.zeros(4)
            kernel(out, value, ndrange=1)
            assert out.numpy()[:count].tolist() == numbers
    assign = "for (int c = 0; c < 3; ++c) for (int r = 0; r < 3; ++r) out[c * 3 + r] = v[c][r];"
    kernel = mk.Kernel(source, options={"macros": {"V": "float3x3", "ASSIGN": assign}})
    out = mk.zeros(9)
    kernel(out, np.arange(9.0).reshape(3, 3), ndrange=1)
    assert out.numpy().tolist() == list(range(9))


STRUCT = HEAD + "struct P { float a; int b; uchar c; };\nkernel void k(device float* out, constant P& p, device P* q) "
STRUCT += "{ out[0] = p.a + p.b + p.c; q[0].b = q[1].b + 1; }"
POINT = np.dtype({"names": ["a", "b", "c"], "formats": ["f4", "i4", "u1"], "offsets": [0, 4, 8], "itemsize": 12})


def test_structs_from_numpy_and_bytes() -> None:
    kernel = mk.Kernel(STRUCT)
    point = np.zeros((), POINT)
    point["a"], point["b"], point["c"] = 1.5, 20, 200
    many = np.zeros(2, POINT)
    many["b"] = [0, 41]
    for value in (point[()], point.tobytes(), point, bytearray(point.tobytes())):
        out, points = mk.zeros(1), mk.array(many)
        kernel(out, value, points, ndrange=1)
        assert out.numpy()[0] == 221.5
        assert points.numpy()["b"].tolist() == [42, 41]
    kernel(mk.zeros(1), point[()], many, ndrange=1)
    assert many["b"].tolist() == [42, 41]
    raw = mk.array(many).view(np.uint8)
    kernel(mk.zeros(1), point[()], raw, ndrange=1)
    assert raw.view(POINT).numpy()["b"].tolist() == [42, 41]
    small = np.zeros((), [("a", "f4"), ("b", "i4")])
    for bad in (small[()], b"1234", 3, 1.5, (1, 2, 3), np.zeros(3, np.float32), None):
        with pytest.raises(mk.ArgumentError, match="argument 1"):
            kernel(mk.zeros(1), bad, mk.array(many), ndrange=1)


THREADGROUP = (
    HEAD
    + """kernel void k(device float* out, threadgroup float* s, uint i [[thread_position_in_threadgroup]]) {
    s[i] = i; threadgroup_barrier(mem_flags::mem_threadgroup); out[i] = s[31 - i]; }"""
)


def test_threadgroup_arguments() -> None:
    kernel = mk.Kernel(THREADGROUP)
    for memory in (mk.threadgroup(128), mk.threadgroup(32, np.float32), mk.threadgroup((4, 8), np.float32)):
        out = mk.zeros(32)
        kernel(out, memory, ndrange=32, workgroupsize=32)
        assert out.numpy().tolist() == list(range(31, -1, -1))
    for bad in (128, None, mk.zeros(32), mk.threadgroup(2**24), mk.threadgroup(0), np.zeros(32, np.float32)):
        with pytest.raises(mk.ArgumentError, match="argument 1"):
            kernel(mk.zeros(32), bad, ndrange=32)
    with pytest.raises(mk.ArgumentError):
        mk.threadgroup(-1)
    with pytest.raises(mk.ArgumentError):
        mk.threadgroup((2, 2))


POSITIONS = (
    HEAD
    + """kernel void k(device uint* hits, device uint* sizes, constant uint3& n, uint3 g [[thread_position_in_grid]],
    uint3 l [[thread_position_in_threadgroup]], uint3 w [[threadgroup_position_in_grid]],
    uint3 s [[threads_per_threadgroup]], uint3 all [[threads_per_grid]]) {
    uint i = (g.z * n.y + g.y) * n.x + g.x;
    hits[i] += 1 + 10 * uint(all(g == w * s + l)) + 100 * uint(::metal::all(all == n));
    sizes[i] = l.x;
}""".replace("uint(all(g", "uint(::metal::all(g")
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    ndrange=st.lists(st.integers(1, 19), min_size=1, max_size=3).map(tuple),
    workgroupsize=st.none() | st.lists(st.integers(1, 7), min_size=1, max_size=3).map(tuple),
)
def test_every_thread_of_the_ndrange_runs_once(ndrange: tuple[int, ...], workgroupsize: tuple[int, ...] | None) -> None:
    full = (*ndrange, 1, 1)[:3]
    hits = mk.zeros(full[::-1], np.uint32)
    sizes = mk.zeros(full[::-1], np.uint32)
    mk.Kernel(POSITIONS)(hits, sizes, full, ndrange=ndrange, workgroupsize=workgroupsize)
    group = (*(workgroupsize or KI.launch_configuration(mk.Kernel(POSITIONS), ndrange)[1]), 1, 1)[:3]
    np.testing.assert_array_equal(hits.numpy() % 10, 1)
    if all(n % g == 0 for n, g in zip(full, group, strict=True)):
        np.testing.assert_array_equal(hits.numpy(), 111)  # in partial groups threads_per_threadgroup is smaller
    np.testing.assert_array_equal(hits.numpy() // 100, 1)
    expected = np.broadcast_to(np.arange(full[0]) % group[0], full[::-1])
    np.testing.assert_array_equal(sizes.numpy(), expected)


@settings(max_examples=30, deadline=None)
@given(
    groups=st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple),
    size=st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple),
)
def test_numworkgroups(groups: tuple[int, ...], size: tuple[int, ...]) -> None:
    pairs = itertools.zip_longest(groups, size, fillvalue=1)
    full = (*(g * s for g, s in pairs), 1, 1)[:3]
    hits = mk.zeros(full[::-1], np.uint32)
    mk.Kernel(POSITIONS)(hits, mk.zeros_like(hits), full, numworkgroups=groups, workgroupsize=size)
    np.testing.assert_array_equal(hits.numpy(), 111)


@pytest.mark.parametrize("name", ["ndrange", "numworkgroups", "workgroupsize"])
@settings(max_examples=60, deadline=None)
@given(
    value=st.integers(-3, -1)
    | st.integers(2**32, 2**80)
    | st.floats()
    | st.text()
    | st.binary()
    | st.lists(st.integers(1, 3), min_size=4)
    | st.lists(st.floats(), min_size=1, max_size=3)
    | st.complex_numbers()
)
def test_nonsense_geometry_is_refused(name: str, value: Any) -> None:
    geometry = {name: value} if name != "workgroupsize" else {name: value, "ndrange": 8}
    with pytest.raises(mk.ArgumentError, match='launch of "k"'):
        value_kernel("int")(mk.zeros(1, np.int32), 1, **geometry)


def test_launch_configuration_covers_the_work() -> None:
    kernel = mk.Kernel(POSITIONS)
    for ndrange in (1, 7, 128, 129, 2**20, (5, 3), (1000, 1000), (3, 5, 7), (256, 256, 4)):
        groups, size = KI.launch_configuration(kernel, ndrange)
        sizes = (ndrange,) if isinstance(ndrange, int) else ndrange
        assert all((g - 1) * s < n <= g * s for g, s, n in zip(groups, size, sizes, strict=True))
        assert math.prod(size) <= KI.kernel_max_work_group_size(kernel)
        _, capped = KI.launch_configuration(kernel, ndrange, max_work_group_size=1)
        assert math.prod(capped) == 1
    assert KI.kernel_max_work_group_size(kernel, max_work_items=1) == 1


def test_the_31_buffer_limit_is_reported_well() -> None:
    source = "kernel void k(%s) {}"
    most = ", ".join(f"device int* a{i}" for i in range(31))
    assert len(mk.Kernel(source % most).arguments) == 31
    with pytest.raises((mk.ArgumentError, mk.CompileError), match="31"):
        mk.Kernel(source % (most + ", " + ", ".join(f"device int* b{i}" for i in range(10))))


def test_a_launch_allocates_nothing_on_the_python_heap() -> None:
    buffers = ", ".join(f"device float* a{i}" for i in range(8))
    numbers = ", ".join(f"constant {t}& n{i}" for i, t in enumerate(["float", "int", "uint", "half", "float", "int"]))
    kernel = mk.Kernel(f"kernel void k({buffers}, {numbers}) {{}}")
    arguments = (*(mk.zeros(4) for _ in range(8)), 1.5, 3, 4, 0.5, np.float32(1.5), np.int32(3))

    def launches() -> None:
        for _ in range(100):
            kernel.launch(arguments, ndrange=1)

    launches()
    mk.synchronize()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        launches()
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after == before
    assert peak - before < 512  # the loop's own
    mk.synchronize()


def test_objects_that_were_never_made_are_refused() -> None:
    kernel = mk.Kernel("kernel void k(device float* o) { o[0] = 1; }")
    array, queue = mk.Array.__new__(mk.Array), mk.Queue.__new__(mk.Queue)
    with pytest.raises(mk.ArgumentError, match=r'argument 0 "o".*__init__'):
        kernel(array, ndrange=1)
    with pytest.raises(mk.ArgumentError, match="uses"):
        kernel(mk.zeros(1), ndrange=1, uses=(array,))
    with pytest.raises(BufferError):
        memoryview(array)
    with pytest.raises(mk.ArgumentError, match="queue"):
        kernel(mk.zeros(1), ndrange=1, queue=queue)
    with pytest.raises(mk.ArgumentError, match="synchronize"):
        mk.synchronize(queue)


@pytest.mark.parametrize("name", ["uchar", "ushort", "uint"])
def test_slices_start_at_any_element(name: str) -> None:
    kernel = mk.Kernel(
        "kernel void k(device T* o, constant T* a, device const T* b, uint i [[thread_position_in_grid]])"
        " { o[i] = a[i] + b[i]; }",
        options={"macros": {"T": name}},
    )
    a = mk.array(np.arange(40, dtype=INTEGERS[name]))
    for start in range(1, 9):
        out = mk.zeros(16, a.dtype)
        kernel(out[start:], a[start:], a[start + 1 :], ndrange=5)
        expected = np.zeros(16, a.dtype)
        expected[start : start + 5] = 2 * np.arange(5) + 2 * start + 1
        np.testing.assert_array_equal(out.numpy(), expected)


class _OnAGpu:
    """What another CUDA library's empty array looks like."""

    asked = 0

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self.asked += 1
        return {"shape": (0, 3), "typestr": "<f4", "data": (0, True), "strides": None, "version": 3, "stream": 7}


class _KeepsItsMemory:
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        raise RuntimeError("it needs gradients")

    def __dlpack__(self) -> None: ...


def test_a_foreign_gpu_array_is_asked_for_its_memory_once() -> None:
    given = _OnAGpu()
    foreign = _cuda.adopt(given, mk.device(), "test")
    assert foreign is not None
    assert given.asked == 1
    assert (foreign.array.shape, foreign.array.dtype, foreign.stream, foreign.read_only) == (
        (0, 3),
        np.float32,
        7,
        True,
    )
    assert _cuda.adopt(np.zeros(3), mk.device(), "test") is None
    assert _cuda.adopt(object(), mk.device(), "test") is None
    with pytest.raises(
        mk.ArgumentError, match="test: a _KeepsItsMemory does not hand its memory over: it needs gradients"
    ):
        _cuda.adopt(_KeepsItsMemory(), mk.device(), "test")


_LONE = "a\udc80"  # what Python makes of file names that are not UTF-8


@pytest.mark.parametrize(
    "call",
    [
        lambda: mk.compile("// " + _LONE),
        lambda: mk.compile("", options={"macros": {"A": _LONE}}),
        lambda: mk.compile("", options={"headers": {"a.h": _LONE}}),
        lambda: mk.compile("", options={"headers": {_LONE: ""}}),
        lambda: mk.compile("", options={"include_dirs": [_LONE]}),
        lambda: mk.compile("", options={"language_version": _LONE}),
        lambda: mk.Kernel("kernel void k() {}", _LONE),
        lambda: mk.compile("kernel void k() {}")[_LONE],
        lambda: mk.Kernel("kernel void k() {}", function_constants={_LONE: 1}),
        lambda: mk.Queue(label=_LONE),
        lambda: mk.set_device(_LONE),
    ],
)
def test_text_that_is_not_unicode(call: Any) -> None:
    with pytest.raises(mk.ArgumentError, match="Unicode"):
        call()
