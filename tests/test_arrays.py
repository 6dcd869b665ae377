"""Device arrays: exchange with other libraries, views, lifetime, what is refused."""

from __future__ import annotations

import dataclasses
import gc
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import metalki as mk
from metalki import kernel_interface as KI

B = mk.MetalBackend()
DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("storage", ["shared", "private"])
def test_numpy_round_trip(dtype: str, storage: str) -> None:
    host = (np.arange(24) % 2).reshape(2, 3, 4).astype(dtype)
    array = mk.array(host, storage=storage)
    assert (array.shape, array.dtype, array.ndim, array.size, array.nbytes) == (
        (2, 3, 4),
        host.dtype,
        3,
        24,
        host.nbytes,
    )
    assert array.strides == host.strides
    assert array.storage == storage
    np.testing.assert_array_equal(array.numpy(), host)
    np.testing.assert_array_equal(np.asarray(array.copy()), host)


def test_bfloat16() -> None:
    array = mk.array([1.5, 2.0], "bfloat16")
    assert array.dtype.name == "bfloat16"
    assert array.numpy().astype(np.float32).tolist() == [1.5, 2.0]


class Exporter:
    """Nothing but DLPack, as arrays of other libraries offer it."""

    def __init__(self, host: np.ndarray) -> None:
        self.host = host

    def __dlpack__(self, **options: Any) -> Any:
        return self.host.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.host.__dlpack_device__()


def test_dlpack_both_ways() -> None:
    array = mk.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    view = np.from_dlpack(array)
    view[1, 2] = 50
    assert array.numpy()[1, 2] == 50  # the same memory
    taken = mk.array(Exporter(np.arange(4, dtype=np.int16)))
    assert taken.dtype == np.int16
    assert taken.numpy().tolist() == [0, 1, 2, 3]
    kernel = mk.Kernel("kernel void k(device int* o, device const int* i) { o[0] = i[3]; }")
    out = mk.zeros(1, np.int32)
    kernel(out, Exporter(np.arange(4, dtype=np.int32)), ndrange=1)
    assert out.numpy()[0] == 3


def test_dlpack_view_outlives_the_array() -> None:
    view = np.from_dlpack(mk.full(1000, 7, np.int32))
    gc.collect()
    mk.zeros(1000, np.int32)
    assert (view == 7).all()


def test_buffer_protocol() -> None:
    array = mk.array(np.arange(6, dtype=np.int32).reshape(2, 3))
    view = memoryview(array)
    assert (view.shape, view.format, view.itemsize) == ((2, 3), "i", 4)
    view[1, 2] = 9
    assert array.numpy()[1, 2] == 9
    assert bytes(mk.array(b"abc")) == b"abc"
    with pytest.raises(BufferError):
        memoryview(mk.zeros(3, storage="private"))


def test_slices_and_views_share_memory() -> None:
    array = mk.array(np.arange(12, dtype=np.float32).reshape(4, 3))
    assert array[1:3].numpy().tolist() == [[3, 4, 5], [6, 7, 8]]
    assert array[-1].numpy().tolist() == [9, 10, 11]
    assert array[1:3][1][2:].numpy().tolist() == [8]
    assert array[2:2].shape == (0, 3)
    assert [row.numpy()[0] for row in array] == [0, 3, 6, 9]
    array[1].numpy()[:] = -1
    assert array.reshape(12).numpy()[3:6].tolist() == [-1, -1, -1]
    assert array.reshape(-1, 2).shape == (6, 2)
    assert array.view(np.uint8).shape == (4, 12)
    assert array[1:].gpu_address - array.gpu_address == 12
    assert KI.get_backend(array[1:]) == B
    kernel = mk.Kernel("kernel void k(device float* a) { a[0] = 100; }")
    kernel(array[2:], ndrange=1)
    assert array.numpy()[2, 0] == 100


@pytest.mark.parametrize("key", [slice(None, None, 2), slice(None, None, -1), "a", 1.5, None, (slice(None), 1), [0, 1]])
def test_other_slices_are_refused(key: Any) -> None:
    with pytest.raises(mk.ArgumentError):
        mk.zeros((4, 3))[key]


def test_contiguous_parts_of_several_axes_are_views() -> None:
    host = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    array = mk.array(host)
    for key in (
        (0, 1),
        (1, slice(1, 3)),
        (1, 2, 3),
        (1, -1, slice(2, None)),
        (0, ...),
        (..., slice(None)),
        (None, 1, None),
    ):
        part = array[key]
        assert part.tolist() == host[key].tolist()
        assert part.shape == host[key].shape
    array[1, 2, 1:3].numpy()[:] = 7
    assert array.numpy()[1, 2].tolist() == [20, 7, 7, 23]
    assert array[1:2, 1].tolist() == host[1:2, 1].tolist()
    for key in ((0, slice(None), 1), (slice(None), slice(1, 3)), (0, slice(None, None, 2)), (True, 0), (0, 1.5)):
        with pytest.raises(mk.ArgumentError):
            array[key]
    for key in ((0, 3), (0, 0, 0, 0), (..., ...)):
        with pytest.raises(IndexError):
            array[key]


def test_indices_out_of_range() -> None:
    for index in (4, -5):
        with pytest.raises(IndexError):
            mk.zeros(4)[index]
    with pytest.raises(IndexError):
        mk.zeros(())[0]


@pytest.mark.parametrize("shape", [-1, (2, -1), "8", 2.5, (2, 2.5), None, (1,) * 33, 2**63, (2**40, 2**40)])
def test_bad_shapes(shape: Any) -> None:
    with pytest.raises((mk.ArgumentError, mk.OutOfMemoryError)):
        mk.empty(shape)


@pytest.mark.parametrize("dtype", [np.float64, np.complex64, object, "U3", ">f4", "nonsense", np.dtype([("a", "O")])])
def test_dtypes_no_device_array_can_have(dtype: Any) -> None:
    if dtype is np.float64 and mk.device().supports_float64:
        pytest.skip("the device has float64")
    with pytest.raises(mk.ArgumentError):
        mk.zeros(3, dtype)


def test_too_much_memory_is_an_error_of_its_own() -> None:
    with pytest.raises(mk.OutOfMemoryError) as caught:
        mk.empty(2**50, np.uint8)
    assert isinstance(caught.value, MemoryError)


@dataclasses.dataclass
class Model:
    weights: Any
    name: str


@dataclasses.dataclass(frozen=True)
class Frozen:
    weights: Any


class Pair(NamedTuple):
    first: Any
    second: Any


def test_adapt_goes_through_containers_and_back() -> None:
    host = np.arange(3, dtype=np.float32)
    tree = {"a": [host, (host, 3)], "b": Model(host, "m"), "c": Pair(host, "s"), "d": Frozen(host), "e": None}
    there = KI.adapt(B, tree)
    assert isinstance(there["a"][0], mk.Array)
    assert isinstance(there["b"].weights, mk.Array)
    assert isinstance(there["c"], Pair)
    assert there["b"].name == "m"
    back = KI.adapt(np.ndarray, there)
    for found in (back["a"][0], back["a"][1][0], back["b"].weights, back["c"].first, back["d"].weights):
        assert isinstance(found, np.ndarray)
        assert found.tolist() == [0, 1, 2]
    assert tree["b"].weights is host


def test_copyto_between_all_places() -> None:
    source = np.arange(100, dtype=np.int32)
    first, second = mk.zeros(100, np.int32), mk.zeros(100, np.int32, storage="private")
    back = np.zeros((200,), np.int32)
    KI.copyto(B, first, source)
    source[:] = 0  # it was read before the call returned
    KI.copyto(B, second, first)
    KI.copyto(B, back[50:150], second)
    KI.synchronize(B)
    assert back[50:150].tolist() == list(range(100))
    assert not back[:50].any()
    assert not back[150:].any()


def test_overlapping_copies_on_one_array() -> None:
    array = mk.array(np.arange(10, dtype=np.uint8))
    KI.copyto(B, array[1:], array[:-1])
    assert array.numpy().tolist() == [0, 0, 1, 2, 3, 4, 5, 6, 7, 8]


def test_host_memory_lives_until_the_copy_is_done() -> None:
    slow = mk.Kernel("kernel void k(device volatile uint* a) { for (uint i = 0; i < 100000000u; ++i) a[0] = i; }")
    a = mk.zeros(1, np.uint32)
    slow(a, ndrange=1)
    for _ in range(20):
        KI.copyto(B, np.zeros(1, np.uint32), a)
    gc.collect()
    KI.synchronize(B)


def test_freed_arrays_are_refused_everywhere() -> None:
    array = mk.zeros(4)
    view = array[1:]
    KI.unsafe_free(array)
    KI.unsafe_free(array)
    kernel = mk.Kernel("kernel void k(device float* a) { a[0] = 1; }")
    for use in (
        lambda: array.numpy(),
        lambda: view.numpy(),
        lambda: kernel(array, ndrange=1),
        lambda: kernel(view, ndrange=1),
        lambda: KI.copyto(B, array, np.zeros(4, np.float32)),
        lambda: array.gpu_address,
    ):
        with pytest.raises(mk.ArgumentError, match="freed"):
            use()
    assert "freed" in repr(array)


def test_arrays_freed_while_kernels_use_them() -> None:
    kernel = mk.Kernel("kernel void k(device uint* a, uint i [[thread_position_in_grid]]) { a[i] = i; }")
    for dispose in (lambda a: None, KI.unsafe_free):
        for _ in range(50):
            array = mk.zeros(10_000, np.uint32)
            kernel(array, ndrange=10_000)
            dispose(array)
            del array
    mk.synchronize()


def test_empty_arrays() -> None:
    array = mk.zeros((0, 3))
    assert array.numpy().shape == (0, 3)
    assert array.copy().size == 0
    assert len(array) == 0
    assert np.from_dlpack(array).size == 0


def test_repr_shows_contents() -> None:
    assert "3." in repr(mk.full(2, 3.0))
    assert "private" in repr(mk.zeros(2, storage="private"))


def test_truth_length_and_assignment() -> None:
    with pytest.raises(mk.ArgumentError):
        bool(mk.zeros(2))
    x = mk.zeros(2)
    x[0] = 1
    assert x.tolist() == [1, 0]
    with pytest.raises(mk.ArgumentError):
        x[[0, 1]] = 1
    with pytest.raises(TypeError):
        len(mk.zeros(()))


def test_making_arrays_does_not_wait_for_the_device() -> None:
    slow = mk.Kernel("kernel void k(device volatile uint* a) { for (uint i = 0; i < 400000000u; ++i) a[0] = i; }")
    a = mk.zeros(1, np.uint32)
    slow(a, ndrange=1)
    event = KI.record_event(B)
    made = [mk.array(np.arange(9).reshape(3, 3).T), mk.full(3, 2), mk.array([1.0], "bfloat16"), mk.zeros(4)]
    assert not event.is_complete
    assert made[0].numpy().tolist() == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    assert event.is_complete


@pytest.mark.parametrize("storage", ["shared", "private"])
@pytest.mark.parametrize("nbytes", [300, 70_000, 2_048_000, 5 << 20, 40 << 20])
def test_zeros_are_zero_in_memory_that_was_used_before(storage: str, nbytes: int) -> None:
    for _ in range(3):
        used = [mk.full(nbytes, 0xA5, np.uint8, storage) for _ in range(2)]
        del used
        fresh = [mk.zeros(nbytes, np.uint8, storage) for _ in range(2)]
        assert not any(a.numpy().any() for a in fresh)
        assert fresh[0].gpu_address % 256 == 0


def test_freed_memory_of_one_array_never_reaches_another_that_lives() -> None:
    n = 300_000
    kernel = mk.Kernel("kernel void add(device uint* x, uint i [[thread_position_in_grid]]) { x[i] += 1; }")
    kept = []
    for number in range(40):
        gone, a = mk.zeros(n, np.uint32), mk.full(n, number, np.uint32)
        kernel(gone, ndrange=n)
        kernel(a, ndrange=n)
        del gone  # while its launch may still run
        kept.append(a)
        if len(kept) > 5:
            first = kept.pop(0).numpy()
            assert (first == number - 4).all()


def test_memory_kept_for_the_next_array_is_bounded() -> None:
    def resident() -> int:
        pages = Path("/proc/self/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGESIZE")

    if not Path("/proc/self/statm").exists():
        pytest.skip("needs /proc")
    before = resident()
    many = [mk.ones((8 << 20) // 4) for _ in range(60)]
    mk.synchronize()
    assert resident() > before + (400 << 20)
    del many
    mk.ones(10).numpy()
    assert resident() < before + (180 << 20)


@pytest.mark.parametrize("storage", ["shared", "private"])
@pytest.mark.parametrize("offset", [0, 1, 3, 4, 4093])
@pytest.mark.parametrize("nbytes", [1, 65_535, 65_536, 200_003, 1_600_001])
def test_copyto_host_memory_at_any_address(storage: str, offset: int, nbytes: int) -> None:
    host = np.arange(nbytes + offset + 5).astype(np.uint8)[offset : offset + nbytes]
    device = mk.zeros(nbytes, np.uint8, storage)
    KI.copyto(B, device, host)
    host_before = host.copy()
    host[:] = 0  # the bytes had been read when copyto returned
    around = np.full(nbytes + 2 * offset, 7, np.uint8)
    back = around[offset : offset + nbytes]
    KI.copyto(B, back, device)
    mk.synchronize()
    assert np.array_equal(back, host_before)
    assert (around[:offset] == 7).all()
    assert (around[offset + nbytes :] == 7).all()
    frozen = host_before.copy()
    frozen.flags.writeable = False
    KI.copyto(B, device, frozen)
    assert np.array_equal(device.numpy(), host_before)


def test_copyto_a_view_of_the_same_memory() -> None:
    for n in (100, 1 << 20):
        x = mk.array(np.arange(n, dtype=np.uint32))
        KI.copyto(B, x[10:], x.numpy()[:-10])
        assert np.array_equal(x.numpy()[10:], np.arange(n - 10))
        x = mk.array(np.arange(n, dtype=np.uint32))
        KI.copyto(B, x.numpy()[:-10], x[10:])
        mk.synchronize()
        assert np.array_equal(x.numpy()[:-10], np.arange(10, n))


def test_copyto_behind_work_under_way() -> None:
    n = 200_000
    kernel = mk.Kernel("kernel void add(device uint* x, uint i [[thread_position_in_grid]]) { x[i] += 1; }")
    for storage in ("shared", "private"):
        x, back = mk.zeros(n, np.uint32, storage), np.zeros(n, np.uint32)
        for number in range(20):
            host = np.full(n, number, np.uint32)
            KI.copyto(B, x, host)
            host[:] = 99
            kernel(x, ndrange=n)
            KI.copyto(B, back, x)
            mk.synchronize()
            assert (back == number + 1).all()


def test_private_storage_is_no_view_for_numpy() -> None:
    with pytest.raises(ValueError, match="copy"):
        mk.empty(3, np.int32, "private").__array__(copy=False)
