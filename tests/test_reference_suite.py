"""The counterpart of every test of KernelAbstractions' and KernelInterface's test-suites, on every device present."""

from __future__ import annotations

import array as array_module
import io
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import metalki as mk
from metalki import kernel_interface as KI

HEAD = "#include <metal_stdlib>\n#include <kernel_interface>\nusing namespace metal;\n"
Shape = tuple[int, ...]


@pytest.fixture(params=[d.id for d in mk.devices()], autouse=True)
def device(request: pytest.FixtureRequest) -> Iterator[mk.Device]:
    with mk.use_device(request.param) as chosen:
        yield chosen


@pytest.fixture
def b() -> mk.MetalBackend:
    return mk.MetalBackend()


def kernel(body: str, parameters: str = "device uint* out", name: str = "k") -> mk.Kernel:
    return mk.Kernel(f"{HEAD}kernel void {name}({parameters}, KI_ARGS) {{ {body} }}")


def run(k: mk.Kernel, *arguments: Any, **geometry: Any) -> None:
    k(*arguments, **geometry)
    mk.synchronize()


# Launch parameters


@pytest.mark.parametrize("ndrange", [64, (64,), (16, 4), (4, 4, 4), np.int32(64), [8, 8]])
@pytest.mark.parametrize("group", [None, 8, (8,), (4, 2), (2, 2, 2)])
def test_launch_parameters(ndrange: Any, group: Any) -> None:
    out = mk.zeros(64, np.uint32)
    run(
        kernel("out[ki::linear(KI.get_global_id(), KI.get_global_size())] += 1;"),
        out,
        ndrange=ndrange,
        workgroupsize=group,
    )
    assert (out.numpy() == 1).all()


@pytest.mark.parametrize("groups", [4, (4,), (2, 2), (2, 2, 1)])
@pytest.mark.parametrize("size", [16, (16,), (4, 4), (4, 2, 2)])
def test_launch_parameters_by_groups(groups: Any, size: Any) -> None:
    out = mk.zeros(64, np.uint32)
    run(
        kernel("out[ki::linear(KI.get_global_id(), KI.get_global_size())] += 1;"),
        out,
        numworkgroups=groups,
        workgroupsize=size,
    )
    assert (out.numpy() == 1).all()


@pytest.mark.parametrize("option", ["ndrange", "numworkgroups", "workgroupsize"])
@pytest.mark.parametrize("value", [(2, 2, 2, 2), (), -1, (4, -4), 2.0, "4", (1.5, 2), None, object()])
def test_four_dimensions_and_nonsense_are_refused(option: str, value: Any) -> None:
    if value is None and option == "workgroupsize":
        value = (0, 1)
    out = mk.zeros(64, np.uint32)
    geometry = {"ndrange": 8} if option == "workgroupsize" else {}
    with pytest.raises(mk.ArgumentError):
        kernel("out[0] = 1;")(out, **geometry, **{option: value})
    assert not out.numpy().any()


@pytest.mark.parametrize("ndrange", [0, (0,), (4, 0), (0, 4, 4)])
def test_an_empty_ndrange_launches_nothing(ndrange: Any) -> None:
    out = mk.zeros(1, np.uint32)
    run(kernel("out[0] = 1;"), out, ndrange=ndrange)
    assert out.numpy()[0] == 0


# Positions


@pytest.mark.parametrize(
    ("ndrange", "group"),
    [((16,), (8,)), ((17,), (8,)), ((9, 7), (4, 4)), ((5, 6, 7), (2, 3, 4)), ((3, 1, 2), (4, 1, 1))],
)
def test_positions_are_consistent(ndrange: Shape, group: Shape) -> None:
    """Also the linear and Cartesian index, global, local and of the group, for sizes that are no multiples."""
    body = """
        uint3 g = KI.get_global_id(), l = KI.get_local_id(), w = KI.get_group_id();
        uint i = ki::linear(g, KI.get_global_size());
        uint3 back = ki::cartesian<3>(i, KI.get_global_size());
        device uint* p = out + 16 * i;
        for (int a = 0; a < 3; ++a) { p[a] = g[a]; p[3 + a] = l[a]; p[6 + a] = w[a]; p[9 + a] = KI.get_num_groups()[a]; }
        p[12] = all(back == g);
        p[13] = all(ki::expand(w, l, size) == g);
        p[14] = all(KI.get_global_size() == range) && all(KI.get_local_size() <= size);
        p[15] = 1;"""
    full, block = ndrange + (1,) * (3 - len(ndrange)), group + (1,) * (3 - len(group))
    out = mk.zeros((*reversed(full), 16), np.uint32)
    k = kernel(body, "device uint* out, constant uint3& range, constant uint3& size")
    run(k, out, full, block, ndrange=ndrange, workgroupsize=group)
    for x, y, z in itertools.product(*map(range, full)):
        got = out.numpy()[z, y, x].tolist()
        where, sizes = (x, y, z), list(zip((x, y, z), block, strict=True))
        assert got[:3] == list(where)
        assert got[3:6] == [p % s for p, s in sizes]
        assert got[6:9] == [p // s for p, s in sizes]
        assert got[9:12] == [-(-n // s) for n, s in zip(full, block, strict=True)]
        assert got[12:] == [1, 1, 1, 1]


@pytest.mark.parametrize(("count", "groups"), [(128, 2), (129, 3)])
def test_partition(count: int, groups: int) -> None:
    k = kernel(
        "atomic_fetch_add_explicit(out + KI.get_group_id().x, 1, memory_order_relaxed);", "device atomic_uint* out"
    )
    out = mk.zeros(4, np.uint32)
    run(k, out, ndrange=count, workgroupsize=64)
    assert out.numpy().tolist() == [min(64, max(0, count - 64 * g)) for g in range(4)]
    chosen, size = KI.launch_configuration(k, count, 64)
    assert chosen[0] * size[0] >= count
    assert groups == -(-count // 64)


def test_kernel_max_work_group_size(b: mk.MetalBackend) -> None:
    k = kernel("out[0] = 1;")
    assert 1 <= KI.kernel_max_work_group_size(k) <= KI.max_work_group_size(b)
    assert KI.kernel_max_work_group_size(k, max_work_items=1) == 1
    assert KI.kernel_max_work_group_size(k, max_work_items=10**9) == KI.kernel_max_work_group_size(k)
    with pytest.raises(mk.ArgumentError):
        KI.kernel_max_work_group_size(k, max_work_items=0)


@pytest.mark.parametrize("shape", [(8,), (4, 6), (3, 5, 4), (2, 3, 4, 5)])
def test_nd_iteration_equals_the_cartesian_enumeration(shape: Shape) -> None:
    n, count = len(shape), math.prod(shape)
    kind = "uint" if n == 1 else f"uint{n}"
    store = "out[i] = p;" if n == 1 else f"for (int a = 0; a < {n}; ++a) out[{n} * i + a] = p[a];"
    k = kernel(
        f"uint i = ki::expand(KI.get_group_id(), KI.get_local_id(), uint3(8, 1, 1)).x; {kind} p = ki::cartesian<{n}>(i, shape);"
        + store,
        f"device uint* out, constant {kind}& shape",
    )
    out = mk.zeros((count, n), np.uint32)
    run(k, out, shape[0] if n == 1 else shape, ndrange=count, workgroupsize=8)
    x_fastest = [tuple(reversed(p)) for p in itertools.product(*map(range, reversed(shape)))]
    assert [tuple(p) for p in out.numpy().tolist()] == x_fastest


# Memory of groups and threads


def test_local_memory_reverse() -> None:
    k = kernel(
        "KI_LOCALMEM(float, tile, 32); uint l = KI.get_local_id().x; tile[l] = a[KI.get_global_id().x]; KI.barrier();"
        "out[KI.get_global_id().x] = tile[31 - l];",
        "device float* out, device const float* a",
    )
    a = np.arange(96, dtype=np.float32)
    out = mk.zeros(96)
    run(k, out, a, ndrange=96, workgroupsize=32)
    assert (out.numpy() == a.reshape(3, 32)[:, ::-1].reshape(-1)).all()


def test_local_memory_in_a_loop_with_a_barrier() -> None:
    k = kernel(
        """KI_LOCALMEM(uint, tile, 16); uint l = KI.get_local_id().x; tile[l] = l;
        for (uint step = 0; step < 5; ++step) {
            KI.barrier(); uint next = tile[(l + 1) % 16]; KI.barrier(); tile[l] = next;
        }
        out[KI.get_global_id().x] = tile[l];"""
    )
    out = mk.zeros(32, np.uint32)
    run(k, out, ndrange=32, workgroupsize=16)
    assert out.numpy().tolist() == [(i + 5) % 16 for i in range(16)] * 2


def test_two_local_arrays() -> None:
    k = kernel(
        """KI_LOCALMEM(float, one, 16); KI_LOCALMEM(int, two, 4, 4); uint l = KI.get_local_id().x;
        one[l] = l * 0.5f; two[l / 4][l % 4] = -int(l); KI.barrier();
        out[l] = one[15 - l] + two[(15 - l) / 4][(15 - l) % 4];""",
        "device float* out",
    )
    out = mk.zeros(16)
    run(k, out, ndrange=16, workgroupsize=16)
    assert out.numpy().tolist() == [-0.5 * (15 - i) for i in range(16)]


@pytest.mark.parametrize("size", [1, 8, 33, 128])
def test_local_memory_sized_by_the_group(size: int) -> None:
    k = kernel(
        "uint l = KI.get_local_id().x, n = KI.get_local_size().x; tile[l] = l; KI.barrier();"
        "out[KI.get_global_id().x] = tile[n - 1 - l];",
        "device uint* out, threadgroup uint* tile",
    )
    out = mk.zeros(size * 3, np.uint32)
    run(k, out, mk.threadgroup(size, np.uint32), ndrange=size * 3, workgroupsize=size)
    assert out.numpy().tolist() == list(range(size))[::-1] * 3


def test_private_arrays_across_barriers() -> None:
    k = kernel(
        """uint mine[4]; uint l = KI.get_local_id().x;
        for (uint i = 0; i < 4; ++i) mine[i] = l * 10 + i;
        KI.barrier();
        uint sum = 0;
        for (uint i = 0; i < 4; ++i) { KI.barrier(); sum += mine[i]; mine[i] += 1; }
        KI.barrier();
        for (uint i = 0; i < 4; ++i) sum += 1000 * (mine[i] - l * 10 - i);
        out[KI.get_global_id().x] = sum;"""
    )
    out = mk.zeros(40, np.uint32)
    run(k, out, ndrange=40, workgroupsize=40)
    assert out.numpy().tolist() == [40 * i + 6 + 4000 for i in range(40)]


def test_reduction_over_the_last_axis_per_thread() -> None:
    k = kernel(
        "uint2 p = KI.get_global_id().xy; float sum[1] = {0}; "
        "for (uint j = 0; j < n; ++j) sum[0] += a[(p.y * 5 + p.x) * n + j];"
        "out[p.y * 5 + p.x] = sum[0];",
        "device float* out, device const float* a, constant uint& n",
    )
    a = np.random.default_rng(1).random((4, 5, 17), np.float32)
    out = mk.zeros((4, 5))
    run(k, out, a, 17, ndrange=(5, 4), workgroupsize=(2, 2))
    assert np.allclose(out.numpy(), a.sum(axis=2), rtol=1e-6)


def test_unrolled_loops() -> None:
    k = kernel(
        """uint mine[5]; uint i = KI.get_global_id().x;
        _Pragma("clang loop unroll(full)") for (uint j = 0; j < 5; ++j) mine[j] = i * j;
        KI.barrier();
        uint sum = 0;
        _Pragma("unroll") for (uint j = 0; j < 5; ++j) sum += mine[j];
        out[i] = sum;"""
    )
    out = mk.zeros(64, np.uint32)
    run(k, out, ndrange=64, workgroupsize=16)
    assert out.numpy().tolist() == [10 * i for i in range(64)]


# Sub-groups


@pytest.mark.parametrize("size", [32, 64, 40, 7])
def test_sub_groups(b: mk.MetalBackend, size: int) -> None:
    k = kernel(
        """uint i = KI.get_global_id().x; device uint* p = out + 8 * i;
        p[0] = KI.get_sub_group_size(); p[1] = KI.get_max_sub_group_size(); p[2] = KI.get_num_sub_groups();
        p[3] = KI.get_sub_group_id(); p[4] = KI.get_sub_group_local_id(); p[5] = simd_sum(1u);
        uint next = KI.shfl_down(i, 1); KI.sub_group_barrier();
        p[6] = KI.get_sub_group_local_id() + 1 < KI.get_sub_group_size() ? next : i + 1;"""
    )
    out = mk.zeros((size, 8), np.uint32)
    run(k, out, ndrange=size, workgroupsize=size)
    width = KI.sub_group_size(b)
    for i, got in enumerate(out.numpy()[:, :7].tolist()):
        members = min(width, size - i // width * width)
        assert got == [members, width, -(-size // width), i // width, i % width, members, i + 1]


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32"])
def test_shfl_down_types(b: mk.MetalBackend, name: str) -> None:
    msl = {"int8": "char", "uint8": "uchar", "int16": "short", "uint16": "ushort", "int32": "int", "uint32": "uint"}
    msl |= {"float16": "half", "float32": "float"}
    assert np.dtype(name) in KI.shfl_down_types(b)
    k = kernel(
        "uint i = KI.get_global_id().x; out[i] = KI.shfl_down(a[i], 4);",
        f"device {msl[name]}* out, device const {msl[name]}* a",
    )
    a, out = np.arange(32).astype(name), mk.zeros(32, name)
    run(k, out, a, ndrange=32, workgroupsize=32)
    assert (out.numpy()[:28] == a[4:]).all()


# Numbers

_INTEGERS = {"char": "int8", "uchar": "uint8", "short": "int16", "ushort": "uint16", "int": "int32", "uint": "uint32"}
_INTEGERS |= {"long": "int64", "ulong": "uint64"}


@pytest.mark.parametrize("function", ["ceil", "floor", "round"])
@pytest.mark.parametrize("msl", _INTEGERS)
def test_conversions_to_every_integer_width(function: str, msl: str) -> None:
    dtype = np.dtype(_INTEGERS[msl])
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(2)
    low, high = max(limits.min, -(2**62)), min(limits.max, 2**62)
    a = np.concatenate(
        [rng.uniform(max(low, -100), 100, 400), [0.5, 1.5, 2.5, 0.0, 99.5], rng.uniform(low + 1, high - 1, 200)]
    )
    a = a.astype(np.float32)
    a = a[(a > low + 1) & (a < high - 1)]
    k = kernel(
        f"uint i = KI.get_global_id().x; out[i] = {msl}({function}(a[i]));", f"device {msl}* out, device const float* a"
    )
    out = mk.zeros(a.size, dtype)
    run(k, out, a, ndrange=a.size)
    wide = a.astype(np.float64)
    # MSL rounds halves away from zero.
    expected = {"ceil": np.ceil, "floor": np.floor, "round": lambda v: np.trunc(v + np.copysign(0.5, v))}[function](
        wide
    )
    assert (out.numpy() == expected.astype(dtype)).all()


@pytest.mark.parametrize("mode", ["safe", "relaxed", "fast"])
@pytest.mark.parametrize("name", ["gamma", "erf", "erfc"])
def test_special_functions(name: str, mode: str) -> None:
    x = {
        "gamma": np.concatenate(
            [np.linspace(-8.3, 35, 5000), np.geomspace(1e-6, 0.5, 200), -np.geomspace(1e-6, 0.4, 200)]
        ),
        "erf": np.linspace(-6, 6, 5001),
        "erfc": np.linspace(-6, 9.2, 5001),
    }[name].astype(np.float32)
    k = mk.Kernel(
        f"{HEAD}kernel void f(device float* o, device const float* x, KI_ARGS) "
        f"{{ uint i = KI.get_global_id().x; o[i] = ki::{name}(x[i]); }}",
        options={"math_mode": mode},
    )
    out = mk.zeros(x.size)
    run(k, out, x, ndrange=x.size)
    expected = np.array([getattr(math, name)(float(v)) if v != 0 else 0 for v in x])
    expected[x == 0] = {"gamma": np.inf, "erf": 0, "erfc": 1}[name]
    assert np.allclose(out.numpy(), expected, rtol=2e-5 if name == "gamma" else 2e-6, atol=1e-37)


def test_special_functions_at_their_ends() -> None:
    x = np.array([0, -0.0, 40, -3, np.inf, np.nan, -np.inf, -50.5], np.float32)
    out = mk.zeros((3, 8))
    k = kernel(
        "uint i = KI.get_global_id().x; o[i] = ki::gamma(x[i]); o[8 + i] = ki::erf(x[i]); o[16 + i] = ki::erfc(x[i]);",
        "device float* o, device const float* x",
    )
    run(k, out, x, ndrange=8)
    gamma, erf, erfc = out.numpy().tolist()
    assert gamma[:3] == [math.inf, -math.inf, math.inf]
    assert math.isnan(gamma[3])
    assert gamma[4] == math.inf
    assert gamma[7] == 0
    assert [erf[i] for i in (0, 2, 4, 6)] == [0, 1, 1, -1]
    assert [erfc[i] for i in (0, 2, 4, 6)] == [1, 0, 0, 2]
    assert all(math.isnan(row[5]) for row in (gamma, erf, erfc))


# Host side


def test_copyto_round_trip(b: mk.MetalBackend) -> None:
    host, back = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    one, two = KI.allocate(b, np.float32, 1000), KI.allocate(b, np.float32, 1000, unified=True)
    KI.copyto(b, one, host)
    KI.copyto(b, two, one)
    KI.copyto(b, back, two)
    KI.synchronize(b)
    assert (back == host).all()
    KI.copyto(b, back[10:20], two[500:510])  # host views
    KI.synchronize(b)
    assert back[10:20].tolist() == host[500:510].tolist()
    with pytest.raises(mk.ArgumentError):
        KI.copyto(b, one, host[:999])


def test_zeros_and_ones(b: mk.MetalBackend) -> None:
    assert KI.zeros(b, np.int16, (3, 4)).numpy().tolist() == np.zeros((3, 4)).tolist()
    assert KI.ones(b, np.float16, (3, 4)).numpy().tolist() == np.ones((3, 4)).tolist()


def test_device_selection(b: mk.MetalBackend, device: mk.Device) -> None:
    assert KI.functional(b)
    count = KI.ndevices(b)
    assert count == len(mk.devices()) >= 1
    assert KI.device(b) == device.index
    for index in range(count):
        KI.set_device(b, index)
        assert KI.device(b) == index
    for index in (-1, count, 10**20):
        with pytest.raises(mk.ArgumentError, match=device.id):
            KI.set_device(b, index)
    KI.set_device(b, device.index)


def test_facts_of_the_device(b: mk.MetalBackend) -> None:
    assert all(isinstance(f(b), bool) for f in (KI.supports_unified, KI.supports_atomics, KI.supports_float64))
    assert all(f(b) >= 1 for f in (KI.max_work_group_size, KI.sub_group_size, KI.multiprocessor_count))


def test_printing_is_captured(capsys: pytest.CaptureFixture[str]) -> None:
    run(kernel('KI.print("thread %u of %s\\n", KI.get_global_id().x, "four");'), mk.zeros(1, np.uint32), ndrange=4)
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == [f"thread {i} of four" for i in range(4)]


def test_reflection_per_launch(b: mk.MetalBackend) -> None:
    source = HEAD + "kernel void shown(device uint* out, KI_ARGS) { out[KI.get_global_id().x] = 42; }"
    launched = KI.launch(b, source, (mk.zeros(8, np.uint32),), ndrange=8)
    only_compiled = KI.launch(b, source, (mk.zeros(8, np.uint32),), launch=False)
    assert launched is only_compiled
    assert launched.disassemble("msl") == source
    if mk.device().kind == "cpu":
        text = launched.disassemble("llvm")
        assert "define" in text
        assert "42" in text
        assert launched.disassemble("asm")
    with pytest.raises(mk.ArgumentError, match=r"llvm|msl"):
        launched.disassemble("wasm")


@dataclass
class Model:
    weights: Any
    parts: Any
    name: str = "m"


def test_adapt_both_ways(b: mk.MetalBackend) -> None:
    host = Model(np.ones(3, np.float32), ([np.arange(4), "text"], {"k": (np.zeros(2, np.int8), None)}), "model")
    there = KI.adapt(b, host)
    assert isinstance(there, Model)
    assert isinstance(there.weights, mk.Array)
    assert isinstance(there.parts[0][0], mk.Array)
    assert there.parts[0][1] == "text"
    assert there.parts[1]["k"][1] is None
    back = KI.adapt(np.ndarray, there)
    assert isinstance(back.weights, np.ndarray)
    assert back.parts[0][0].tolist() == [0, 1, 2, 3]
    assert back.parts[1]["k"][0].dtype == np.int8
    assert isinstance(host.weights, np.ndarray)  # what was given is left alone


def test_adapt_takes_any_host_array_and_leaves_the_rest(b: mk.MetalBackend) -> None:
    buffer = array_module.array("f", [1, 2])
    there = KI.adapt(
        b, (buffer, memoryview(buffer), np.float32(3), b"bytes", "text", 4, np.array(["a"]), {1: np.array(2)})
    )
    assert [type(x) for x in there[:2]] == [mk.Array, mk.Array]
    assert there[2:6] == (np.float32(3), b"bytes", "text", 4)
    assert isinstance(there[6], np.ndarray)
    assert there[7][1].shape == ()
    with pytest.raises(mk.ArgumentError, match="float64"):
        KI.adapt(b, [np.zeros(3)])


def test_get_backend(b: mk.MetalBackend) -> None:
    a = mk.zeros((4, 6), np.float32)
    for x in (a, a[1:3], a.reshape(24), a.view(np.uint32), a[2]):
        assert KI.get_backend(x) == b
    with pytest.raises(mk.ArgumentError):
        KI.get_backend(np.zeros(3))


def test_spawn_ordering(b: mk.MetalBackend) -> None:
    add = kernel(
        "for (uint k = 0; k < 200000; ++k) out[1] = k; out[0] = out[0] * 10 + n;", "device uint* out, constant uint& n"
    )
    out = mk.zeros(2, np.uint32)
    add(out, 1, ndrange=1)
    task = KI.spawn(lambda: add(out, 2, ndrange=1) or "value")
    task.wait()
    add(out, 3, ndrange=1)
    inner = KI.spawn(lambda: KI.spawn(lambda: add(out, 4, ndrange=1)).wait())
    inner.wait()
    add(out, 5, ndrange=1)
    KI.synchronize(b)
    assert out.numpy()[0] == 12345
    assert task.result() == "value"


def test_versioninfo(b: mk.MetalBackend, device: mk.Device, capsys: pytest.CaptureFixture[str]) -> None:
    KI.versioninfo(b)
    printed = capsys.readouterr().out
    text = io.StringIO()
    KI.versioninfo(b, text)
    assert printed == text.getvalue()
    for part in ("metalki", mk.__version__, "provider", "compiler", "MSL", device.id, "cache", "Python", "numpy", "OS"):
        assert part in printed
    with pytest.raises(mk.ArgumentError, match="versioninfo"):
        KI.versioninfo(b, 3)  # type: ignore[arg-type]


def test_forty_one_arguments() -> None:
    """The reference test-suite passes 41 arguments; Metal has 31 buffers, which is said clearly and before anything runs."""
    parameters = ", ".join(f"device float* a{i}" for i in range(41))
    with pytest.raises((mk.CompileError, mk.ArgumentError), match=r"41.*31|31.*41|31 buffer"):
        mk.Kernel(f"kernel void many({parameters}) {{ a0[0] = a40[0]; }}")
    parameters = ", ".join(f"device float* a{i}" for i in range(31))
    arrays = [mk.zeros(1) for _ in range(31)]
    run(mk.Kernel(f"kernel void enough({parameters}) {{ a30[0] = 7; }}"), *arrays, ndrange=1)
    assert arrays[30].numpy()[0] == 7
