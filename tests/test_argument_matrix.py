"""Every dtype against every MSL type, in every form an array can come in; and whatever an int may look like in a geometry."""

from __future__ import annotations

import array as array_module
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metalki as mk
from metalki import kernel_interface as KI

B = mk.MetalBackend()
HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
STRUCT = "struct pair_t { float a; int b; };\n"
SCALARS: dict[str, Any] = {
    "bool": np.bool_,
    "char": np.int8,
    "uchar": np.uint8,
    "short": np.int16,
    "ushort": np.uint16,
    "int": np.int32,
    "uint": np.uint32,
    "long": np.int64,
    "ulong": np.uint64,
    "half": np.float16,
    "bfloat": ml_dtypes.bfloat16,
    "float": np.float32,
}
PAIR = np.dtype([("a", np.float32), ("b", np.int32)])
DTYPES: dict[str, np.dtype[Any]] = {np.dtype(d).name: np.dtype(d) for d in SCALARS.values()} | {"pair": PAIR}
# MSL type: the scalar that its arrays hold, its elements.
TYPES: dict[str, tuple[str, int]] = {name: (name, 1) for name in SCALARS}
for _name in SCALARS:
    TYPES |= {f"{_name}{n}": (_name, 4 if n == 3 else n) for n in (2, 3, 4)}
    if _name not in ("bool",):
        TYPES |= {f"packed_{_name}{n}": (_name, n) for n in (2, 3, 4)}
TYPES |= {f"{t}{c}x{r}": (t, c * (4 if r == 3 else r)) for t in ("float", "half") for c in (2, 3, 4) for r in (2, 3, 4)}
TYPES |= {"atomic_int": ("int", 1), "atomic_uint": ("uint", 1), "atomic<float>": ("float", 1), "pair_t": ("struct", 1)}
ONE_BYTE = ("char", "uchar")


def matches(name: str, dtype: np.dtype[Any]) -> bool:
    scalar, _ = TYPES[name]
    if scalar == "struct":
        return dtype == PAIR or dtype.itemsize == 1
    return dtype == np.dtype(SCALARS[scalar]) or (scalar in ONE_BYTE and dtype.itemsize == 1)


def values(dtype: np.dtype[Any], count: int) -> np.ndarray:
    if dtype == PAIR:
        return np.array([(i + 0.5, -i) for i in range(count)], PAIR)
    return (np.arange(count) % 2 if dtype == np.bool_ else np.arange(count) % 100).astype(dtype)


@pytest.mark.parametrize("name", TYPES)
def test_every_dtype_for_every_type(name: str) -> None:
    scalar, elements = TYPES[name]
    count, struct = 4 * elements, scalar == "struct"
    load = "atomic_load_explicit(from + i, memory_order_relaxed)" if name.startswith("atomic") else "from[i]"
    store = "atomic_store_explicit(to + i, v, memory_order_relaxed)" if name.startswith("atomic") else "to[i] = v"
    qualifier = "" if name.startswith("atomic") else "const "
    kernel = mk.Kernel(
        f"{HEAD}{STRUCT}kernel void k(device {name}* to, device {qualifier}{name}* from) "
        f"{{ for (int i = 0; i < 4; ++i) {{ auto v = {load}; {store}; }} }}"
    )
    good = mk.zeros(4, PAIR) if struct else mk.zeros(count, SCALARS[scalar])
    for dtype in DTYPES.values():
        source = values(dtype, 8 * count if dtype.itemsize == 1 and struct else count)
        there, target = mk.array(source), mk.zeros(source.shape, dtype)
        if not matches(name, dtype):
            for bad in (there, source):
                with pytest.raises(mk.ArgumentError, match=r"argument 1 .*from"):
                    kernel(good, bad, ndrange=1)
            continue
        kernel(target, there, ndrange=1)
        copied = 4 * 8 if struct else count * dtype.itemsize
        assert target.numpy().tobytes()[:copied] == _known(name, source.tobytes()[:copied], target.numpy().tobytes())
        out = np.zeros_like(source)
        kernel(out, source, ndrange=1)  # numpy in, numpy back
        assert out.tobytes() == target.numpy().tobytes()


def _known(name: str, expected: bytes, got: bytes) -> bytes:
    """Padding of three-component vectors and matrix columns need not be copied."""
    scalar, _ = TYPES[name]
    plain = name.removeprefix("packed_") == name
    if scalar == "struct" or not plain or not name.endswith("3"):
        return expected
    size = 4 * np.dtype(SCALARS[scalar]).itemsize
    step = size // 4
    return b"".join(expected[i : i + 3 * step] + got[i + 3 * step : i + size] for i in range(0, len(expected), size))


COPY = mk.Kernel(
    HEAD
    + "kernel void k(device float* to, device const float* from, uint i [[thread_position_in_grid]]) { to[i] = from[i]; }"
)


class OnlyDlpack:
    """What other libraries' arrays look like."""

    def __init__(self, host: np.ndarray) -> None:
        self._host = host

    def __dlpack__(self, **options: Any) -> Any:
        return self._host.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._host.__dlpack_device__()


FORMS = {
    "numpy": lambda a: a,
    "memoryview": memoryview,
    "array.array": lambda a: array_module.array("f", a.tolist()),
    "dlpack": OnlyDlpack,
    "metalki": mk.array,
    "view of metalki": lambda a: mk.array(np.concatenate([a[:4], a]))[4:],
    "reshaped": lambda a: mk.array(a.reshape(2, -1)),
    "strided": lambda a: np.repeat(a, 2)[::2],
    "negative stride": lambda a: a[::-1].copy()[::-1],
    "transposed": lambda a: a.reshape(4, -1).T.copy().T,
    "read-only": lambda a: np.frombuffer(a.tobytes(), np.float32),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_an_input(form: str) -> None:
    a = np.arange(16, dtype=np.float32)
    out = mk.zeros(16)
    given_array = FORMS[form](a)
    if form in ("strided", "negative stride", "transposed"):
        with pytest.raises(mk.ArgumentError, match="contiguous"):
            COPY(out, given_array, ndrange=16)
        return
    COPY(out, given_array, ndrange=16)
    expected = given_array._host if isinstance(given_array, OnlyDlpack) else given_array
    assert out.numpy().tolist() == np.asarray(expected, np.float32).reshape(-1).tolist()


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_an_output(form: str) -> None:
    a = np.arange(16, dtype=np.float32)
    target = FORMS[form](np.zeros(16, np.float32))
    if form in ("read-only", "strided", "negative stride", "transposed"):
        with pytest.raises(mk.ArgumentError, match=r"contiguous|read-only"):
            COPY(target, a, ndrange=16)
        return
    COPY(target, a, ndrange=16)
    assert np.asarray(target._host if isinstance(target, OnlyDlpack) else target).reshape(-1).tolist() == a.tolist()


def test_arrays_without_axes_and_without_elements() -> None:
    out = mk.zeros(())
    COPY(out, np.array(7, np.float32), ndrange=1)
    assert out.numpy()[()] == 7
    empty = mk.zeros(0)
    for shape in (0, (0, 3), (3, 0, 2)):
        assert mk.zeros(shape).numpy().shape == (shape if isinstance(shape, tuple) else (shape,))
    COPY(empty, empty, ndrange=0)
    COPY(np.zeros(0, np.float32), np.zeros((0, 3), np.float32), ndrange=0)
    for bad in (empty, np.zeros(0, np.float32), np.zeros((0, 4), np.float32)):
        with pytest.raises(mk.ArgumentError, match="argument 1"):
            COPY(mk.zeros(4), bad, ndrange=1)


@settings(max_examples=80, deadline=None)
@given(shape=st.lists(st.integers(0, 5), max_size=4), start=st.integers(0, 5), stop=st.integers(0, 5))
def test_slices_of_any_shape_are_the_bytes_numpy_means(shape: list[int], start: int, stop: int) -> None:
    host = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    there = mk.array(host)
    assert there.numpy().tolist() == host.tolist()
    if not shape:
        return
    part, expected = there[start:stop], host[start:stop]
    assert part.shape == expected.shape
    if expected.size:
        out = mk.zeros(expected.shape)
        COPY(out, part, ndrange=expected.size)
        assert out.numpy().tolist() == expected.tolist()


class Index:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __index__(self) -> Any:
        return self.value


class Raises:
    def __index__(self) -> int:
        raise KeyError("from __index__")


INT_LIKE = [lambda n: n, np.int8, np.uint8, np.int64, np.uint64, lambda n: np.array(n), Index, lambda n: Index(n)]


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    kinds=st.lists(st.integers(0, len(INT_LIKE) - 1), min_size=3, max_size=3),
    as_list=st.booleans(),
)
def test_whatever_has_an_index_is_an_int(sizes: list[int], kinds: list[int], as_list: bool) -> None:
    count = mk.Kernel(
        HEAD + "kernel void count(device atomic_uint* n) { atomic_fetch_add_explicit(n, 1, memory_order_relaxed); }"
    )
    geometry = [INT_LIKE[kind](size) for kind, size in zip(kinds, sizes, strict=False)]
    total = mk.zeros(1, np.uint32)
    count(total, ndrange=geometry if as_list else tuple(geometry))
    assert total.numpy()[0] == int(np.prod(sizes))
    groups = KI.launch_configuration(count, tuple(geometry))
    assert all(isinstance(n, int) for part in groups for n in part)


HUGE = [2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**33, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30]
GEOMETRIES = (
    st.sampled_from(HUGE) | st.integers(-3, 3) | st.sampled_from([True, False, None, 1.0, "1", b"1", Index("x")])
)


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(["ndrange", "numworkgroups"]),
    value=GEOMETRIES | st.lists(GEOMETRIES, max_size=5) | st.lists(GEOMETRIES, max_size=5).map(tuple),
    group=st.none() | GEOMETRIES | st.lists(GEOMETRIES, max_size=4).map(tuple),
    cap=st.none() | GEOMETRIES,
)
def test_any_geometry_is_run_or_refused(name: str, value: Any, group: Any, cap: Any) -> None:
    """An access outside of everything shows what was launched in spite of a bad geometry; huge good ones are not started."""
    kernel = mk.Kernel("kernel void k(device int* a) { a[0] = 1; }")
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    if all(isinstance(n, int) and n > 0 for n in items) and any(n > 1000 for n in items) and len(items) in (1, 2, 3):
        if max(items) < 2**32:
            return  # right, but would run for hours
        with pytest.raises(mk.ArgumentError):
            kernel(mk.zeros(1, np.int32), **{name: value}, workgroupsize=group, max_work_group_size=cap)
        return
    a = mk.zeros(1, np.int32)
    try:
        kernel(a, **{name: value}, workgroupsize=group, max_work_group_size=cap)
    except mk.ArgumentError:
        assert a.numpy()[0] == 0
        return
    mk.synchronize()
    assert a.numpy()[0] == int(0 not in items)


@pytest.mark.parametrize("option", ["ndrange", "numworkgroups", "workgroupsize", "max_work_group_size"])
def test_errors_of_index_pass_through(option: str) -> None:
    a = mk.zeros(1, np.int32)
    kernel = mk.Kernel("kernel void k(device int* a) { a[0] = 1; }")
    rest = {} if option in ("ndrange", "numworkgroups") else {"ndrange": 4}
    with pytest.raises(KeyError, match="from __index__"):
        kernel(a, **rest, **{option: Raises()})
    with pytest.raises(KeyError, match="from __index__"):
        KI.launch_configuration(kernel, (4, Raises()))


@settings(max_examples=200, deadline=None)
@given(
    value=st.sampled_from(HUGE) | st.integers(-2, 3) | st.lists(st.sampled_from([0, 1, *HUGE]), max_size=5).map(tuple)
)
def test_launch_configuration_of_anything(value: Any) -> None:
    kernel = mk.Kernel("kernel void k(device int* a) { a[0] = 1; }")
    sizes = value if isinstance(value, tuple) else (value,)
    if 1 <= len(sizes) <= 3 and all(0 <= n < 2**63 for n in sizes):
        groups, size = KI.launch_configuration(kernel, value)
        assert all(-(-n // s) == g for n, s, g in zip(sizes, size, groups, strict=True))
        assert 1 <= int(np.prod(size)) <= KI.kernel_max_work_group_size(kernel)
    else:
        with pytest.raises(mk.ArgumentError):
            KI.launch_configuration(kernel, value)


@pytest.mark.parametrize("bad", [3, "x", object(), [object()], {"a": 1}, 2.5])
def test_bad_uses_and_queues(bad: Any) -> None:
    kernel = mk.Kernel("kernel void k(device int* a) { a[0] = 1; }")
    for option in ("uses", "queue"):
        with pytest.raises(mk.ArgumentError, match=option):
            kernel(mk.zeros(1, np.int32), ndrange=1, **{option: bad})
