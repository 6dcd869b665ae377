"""What only a GPU can show: memory shared with other CUDA libraries, order on the device, faults. Skipped without one.

`METALKI_DEVICE=cuda:0 python -m pytest tests` runs all other tests there as well."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import metalki as mk
from metalki import kernel_interface as KI

pytestmark = pytest.mark.cuda

GPUS = [d for d in mk.devices() if d.kind == "cuda"]
HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
SCALE = HEAD + (
    "kernel void scale(device float* to, device const float* from, constant float& by,"
    " uint i [[thread_position_in_grid]]) { to[i] = from[i] * by; }"
)
SPIN = HEAD + (
    "kernel void spin(device atomic_uint* stop, constant uint& rounds) {"
    " for (uint k = 0; k < rounds; ++k) if (atomic_load_explicit(stop, memory_order_relaxed)) return; }"
)


@pytest.fixture(autouse=True)
def gpu() -> Iterator[mk.Device]:
    if not GPUS:
        pytest.skip("there is no NVIDIA GPU")
    with mk.use_device(GPUS[0]) as device:
        yield device


def test_a_gpu_is_listed_and_tells_its_facts(gpu: mk.Device) -> None:
    assert gpu.id == "cuda:0"
    assert "NVIDIA" in gpu.name
    assert gpu.thread_execution_width == 32
    assert gpu.max_threads_per_threadgroup == 1024
    assert gpu.threadgroup_memory_length > 48 << 10
    assert gpu.multiprocessor_count > 1


@pytest.mark.parametrize("storage", ["shared", "private"])
def test_a_kernel_runs_on_both_kinds_of_memory(storage: str) -> None:
    source = np.arange(1000, dtype=np.float32)
    x, y = mk.array(source, storage=storage), mk.empty(1000, storage=storage)
    mk.Kernel(SCALE)(y, x, 3, ndrange=1000)
    assert np.array_equal(y.numpy(), source * 3)


def test_dynamic_threadgroup_memory_goes_up_to_the_device_limit(gpu: mk.Device) -> None:
    k = mk.Kernel(
        HEAD
        + "kernel void reverse(device float* a, threadgroup float* t, constant uint& n, uint i [[thread_index_in_threadgroup]],"
        " uint s [[threads_per_threadgroup]]) { for (uint j = i; j < n; j += s) t[j] = a[j];"
        " threadgroup_barrier(mem_flags::mem_threadgroup); for (uint j = i; j < n; j += s) a[j] = t[n - 1 - j]; }"
    )
    for nbytes in (1024, 48 << 10, gpu.threadgroup_memory_length // 16 * 16):
        n = nbytes // 4
        values = np.arange(n, dtype=np.float32)
        a = mk.array(values)
        k(a, mk.threadgroup(nbytes), n, numworkgroups=1, workgroupsize=256)
        assert np.array_equal(a.numpy(), values[::-1])
    with pytest.raises(mk.MetalkiError, match="threadgroup memory"):
        k(a, mk.threadgroup(gpu.threadgroup_memory_length + 16), 4, numworkgroups=1, workgroupsize=256)


@pytest.mark.parametrize("grid", [(3, 70000, 1), (2, 3, 70000), (1, 65536, 65), (1 << 20, 1, 1)])
@pytest.mark.parametrize("group", [(1, 1, 1), (1, 1, 1024), (2, 2, 65), (32, 4, 1)])
def test_grids_and_groups_beyond_what_cuda_launches_at_once(grid: tuple[int, ...], group: tuple[int, ...]) -> None:
    k = mk.Kernel(
        HEAD + "kernel void mark(device uint* a, uint3 p [[thread_position_in_grid]], uint3 n [[threads_per_grid]])"
        " { a[(p.z * n.y + p.y) * n.x + p.x] += 1; }"
    )
    a = mk.zeros(int(np.prod(grid)), np.uint32, "private")
    k(a, ndrange=grid, workgroupsize=group)
    assert np.all(a.numpy() == 1)


def test_cupy_shares_memory_both_ways() -> None:
    cp = pytest.importorskip("cupy")
    k = mk.Kernel(SCALE)
    x = cp.arange(1000, dtype=cp.float32)
    y = mk.asarray(x)
    assert isinstance(y, mk.Array)
    assert y.gpu_address == x.data.ptr
    assert y.shape == (1000,)
    z = mk.empty(1000, np.float32, "private")
    k(z, y, 2, ndrange=1000)
    back = cp.asarray(z)
    assert back.data.ptr == z.gpu_address
    assert cp.array_equal(back, x * 2)
    assert cp.from_dlpack(z).data.ptr == z.gpu_address


def test_launches_come_between_what_the_callers_stream_does() -> None:
    cp = pytest.importorskip("cupy")
    k = mk.Kernel(SCALE)
    n = 1 << 24
    for stream in (cp.cuda.Stream.null, cp.cuda.Stream(non_blocking=True)):
        with stream:
            x, y = cp.zeros(n, cp.float32), cp.zeros(n, cp.float32)
            for _ in range(20):
                x += 1  # ours has to come behind this, and before the next
                k(y, x, 2, ndrange=n)
                y += 1
            total = float(y.sum())
        assert total == n * 41.0


def test_torch_tensors_are_arguments_and_arrays_are_tensors() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(1000, dtype=torch.float32, device="cuda")
    y = torch.zeros_like(x)
    mk.Kernel(SCALE)(y, x, 2, ndrange=1000)
    assert torch.equal(y, x * 2)
    a = mk.array(np.arange(12, dtype=np.float32).reshape(3, 4), storage="private")
    t = torch.from_dlpack(a)
    assert t.device.type == "cuda"
    assert t.data_ptr() == a.gpu_address
    assert tuple(t.shape) == (3, 4)
    t += 1
    torch.cuda.synchronize()
    assert np.array_equal(a.numpy(), np.arange(12, dtype=np.float32).reshape(3, 4) + 1)
    assert torch.as_tensor(a, device="cuda").data_ptr() == a.gpu_address
    half = torch.ones(8, dtype=torch.bfloat16, device="cuda")
    assert mk.asarray(half.view(torch.int16)).gpu_address == half.data_ptr()
    with pytest.raises(mk.ArgumentError, match="contiguous"):
        mk.asarray(x[::2])


def test_jax_arrays_are_read_without_a_copy() -> None:
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU")
    x = jax.numpy.arange(1000, dtype=jax.numpy.float32)
    x.block_until_ready()
    y = mk.empty(1000, np.float32, "private")
    mk.Kernel(SCALE)(y, x, 2, ndrange=1000)
    assert np.array_equal(y.numpy(), np.arange(1000, dtype=np.float32) * 2)
    z = jax.dlpack.from_dlpack(y)
    assert np.array_equal(np.asarray(z), np.arange(1000, dtype=np.float32) * 2)


def test_numba_shares_memory_both_ways() -> None:
    cuda = pytest.importorskip("numba.cuda")
    x = cuda.to_device(np.arange(1000, dtype=np.float32))
    y = mk.empty(1000, np.float32, "private")
    mk.Kernel(SCALE)(y, x, 2, ndrange=1000)
    there = cuda.as_cuda_array(y)
    assert np.array_equal(there.copy_to_host(), np.arange(1000, dtype=np.float32) * 2)


def test_events_order_queues_on_the_device_while_the_host_goes_on() -> None:
    backend = mk.MetalBackend()
    first, second = mk.Queue(), mk.Queue()
    stop, spin = mk.zeros(1, np.uint32), mk.Kernel(SPIN)
    x, y = mk.zeros(1000), mk.zeros(1000)
    spin(stop, 20_000_000, ndrange=1, queue=first)
    mk.Kernel(SCALE)(x, mk.ones(1000), 5, ndrange=1000, queue=first)
    event = KI.record_event(backend, queue=first)
    KI.wait_event(backend, event, queue=second)
    mk.Kernel(SCALE)(y, x, 2, ndrange=1000, queue=second)
    second.flush()
    time.sleep(0.05)
    assert not event.is_complete
    _release(stop)
    second.synchronize()
    assert event.is_complete
    assert np.all(y.numpy() == 10)
    first.synchronize()


def _release(stop: Any) -> None:
    """Ends a spinning kernel: the memory is the host's as well, but .numpy() would wait for the kernel."""
    import ctypes

    ctypes.c_uint32.from_address(stop.gpu_address).value = 1


FAULT = """
import numpy as np, metalki as mk
HEAD = "#include <metal_stdlib>\\nusing namespace metal;\\n"
bad = mk.Kernel(HEAD + "kernel void poke(device uint* a, constant ulong& at) { *(device uint*)(at) = a[0]; }")
good = mk.Kernel(HEAD + "kernel void add(device uint* a, uint i [[thread_position_in_grid]]) { a[i] += 1; }")
shared, private = mk.ones(100, np.uint32), mk.ones(100, np.uint32, "private")
good(shared, ndrange=100)
mk.synchronize()
bad(shared, 64, ndrange=1)
try:
    mk.synchronize()
except mk.DeviceError as error:
    print("told:", "poke" in str(error), "illegal" in str(error).lower(), error)
print("shared:", np.unique(shared.numpy()))
try:
    good(private, ndrange=100)
    mk.synchronize()
    print("private: no error")
except mk.MetalkiError as error:
    print("private:", "lost" in str(error))
try:
    fresh = mk.ones(100, np.uint32, "private")
    good(fresh, ndrange=100)
    print("fresh:", np.unique(fresh.numpy()))
except mk.DeviceError as error:
    print("fresh:", "Start the process anew" in str(error))
try:
    mk.Kernel(HEAD + "kernel void later(device uint* a) { a[0] = 7; }")(shared, ndrange=1)
    mk.synchronize()
    print("later:", shared.numpy()[0])
except mk.DeviceError as error:
    print("later:", "Start the process anew" in str(error))
mk.set_device("cpu")
there = mk.ones(100, np.uint32)
mk.Kernel(HEAD + "kernel void add(device uint* a, uint i [[thread_position_in_grid]]) { a[i] += 1; }")(there, ndrange=100)
print("cpu:", np.unique(there.numpy()))
"""


def test_a_fault_is_reported_and_the_device_is_usable_again_or_says_that_it_is_not() -> None:
    # In a process of its own: the context goes, and with it what other tests have in it.
    run = subprocess.run(
        [sys.executable, "-c", FAULT],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"METALKI_DEVICE": "cuda:0"},
    )
    assert run.returncode == 0, run.stderr
    text = run.stdout
    assert "told: True True" in text, text
    assert "shared: [2]" in text, text
    assert "private: True" in text, text
    assert "fresh: [2]" in text or "fresh: True" in text, text
    assert "later: 7" in text or "later: True" in text, text
    assert "cpu: [2]" in text, text


def test_two_gpus_in_one_process() -> None:
    if len(GPUS) < 2:
        pytest.skip("there is one GPU")
    results = []
    for device in GPUS:
        with mk.use_device(device):
            x = mk.array(np.arange(1000, dtype=np.float32), storage="private")
            y = mk.empty(1000, np.float32, "private")
            mk.Kernel(SCALE)(y, x, 2, ndrange=1000)
            results.append(y)
    for y in results:
        assert np.array_equal(y.numpy(), np.arange(1000, dtype=np.float32) * 2)
    moved = mk.array(results[0], device=GPUS[1])
    assert moved.device == GPUS[1]
    assert np.array_equal(moved.numpy(), results[0].numpy())


@pytest.mark.parametrize("threads", [(32, 2, 1), (64, 1, 1)])
@pytest.mark.parametrize("odd", [0, 1])
def test_threadgroups_that_share_a_block_keep_their_results(threads: tuple[int, int, int], odd: int) -> None:
    """Many rows of a product, a SIMD-group each; those behind the last are left out, launch after launch."""
    kernel = mk.Kernel(
        HEAD + "kernel void rows(device float* out, device const ushort* a, device const float* x, constant uint& rows,"
        " uint3 group [[threadgroup_position_in_grid]], uint simd [[simdgroup_index_in_threadgroup]],"
        " uint lane [[thread_index_in_simdgroup]]) { uint row = group.x * 2 + simd; float sum = 0;"
        " for (uint k = 8 * lane; k < 512; k += 256) for (uint i = 0; i < 8; ++i)"
        " sum += (a[row % 1000 * 512 + k + i] & 0x0ff0) * x[k + i];"
        " sum = simd_sum(sum); if (lane == 0 && row < rows) out[row] = sum; }"
    )
    groups = 2 * mk.device().multiprocessor_count * 2048 // 16 + odd
    rows = 2 * groups - 3
    random = np.random.default_rng(odd)
    a = random.integers(0, 1 << 16, (1000, 512)).astype(np.uint16)
    x = random.integers(-4, 5, 512).astype(np.float32)
    given = (mk.array(a.reshape(-1), storage="private"), mk.array(x, storage="private"), rows)
    expected = np.resize((a & 0x0FF0).astype(np.float64) @ x, rows)
    for _ in range(6):
        out = mk.full(2 * groups, -1, np.float32, "private")
        kernel(out, *given, numworkgroups=groups, workgroupsize=threads)
        np.testing.assert_array_equal(out.numpy(), np.append(expected, [-1, -1, -1]).astype(np.float32))
