"""Values that nobody would give on purpose, in every place that takes one: each is refused as what it is, shortly."""

from __future__ import annotations

import array as array_module
import decimal
import fractions
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import metalki as mk
from metalki import kernel_interface as KI

B = mk.MetalBackend()
HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
SOURCE = HEAD + (
    "kernel void vadd(device float* c, device const float* a, constant uint& n, uint i [[thread_position_in_grid]])"
    " { if (i < n) c[i] = a[i] + 1; }"
)
TYPES = ("float4", "packed_float3", "float4x4", "half", "char", "uchar", "bool", "atomic_int", "ulong")


class OwnError(Exception):
    """What the objects below raise; it may come out as it is."""


class _Raises:
    def __getattr__(self, name: str) -> Any:
        raise OwnError(name)

    def _raise(self, *_: Any, **__: Any) -> Any:
        raise OwnError

    __repr__ = __index__ = __array__ = __dlpack__ = __iter__ = __len__ = __getitem__ = __bool__ = _raise
    __hash__ = object.__hash__


class _NoText:
    def __repr__(self) -> str:
        raise OwnError


class _LongText:
    def __repr__(self) -> str:
        return "x" * 1_000_000


class _HugeIndex:
    def __index__(self) -> int:
        return 10**5000


class _TextIndex:
    def __index__(self) -> int:
        return "7"  # type: ignore[return-value]


def _freed() -> mk.Array:
    a = mk.zeros(4)
    KI.unsafe_free(a)
    return a


HOSTILE: list[Any] = [
    *(None, True, -1, 0, 1.5, float("nan"), float("inf"), 10**5000, -(10**5000), 2**40, 2**63, 2**64, 1j),
    *("", "x", "\ud800", "\0", b"", b"x", bytearray(b"xx"), (), [], {}, set(), object(), ..., NotImplemented, slice(1)),
    *(_Raises(), _NoText(), _LongText(), _HugeIndex(), _TextIndex(), (10**5000,), (_NoText(),), (1,) * 100, [[[]]]),
    *(np.float32(1), np.int64(-5), np.datetime64("2020"), np.str_("x"), np.complex64(1), np.array(5), np.array([])),
    *(np.zeros((2, 2)), np.array(["a"]), np.array([object()]), np.ma.array([1, 2]), decimal.Decimal(3)),
    *(fractions.Fraction(1, 2), range(3), memoryview(b"abc"), array_module.array("d", [1]), pathlib.Path("/none/such")),
    *(mk, int, _freed(), mk.threadgroup(16)),
]


def _places() -> dict[str, Callable[[Any], Any]]:
    kernel, arguments = mk.Kernel(SOURCE), (mk.zeros(8), mk.ones(8), 8)
    c, a, _ = arguments
    library = mk.compile(SOURCE)
    constants = mk.compile(
        HEAD + "constant int N [[function_constant(0)]]; kernel void f(device float* c) { c[0] = N; }"
    )
    local = mk.Kernel(HEAD + "kernel void g(threadgroup float* v, device int* o) { o[0] = v != 0; }")
    text = mk.Kernel(HEAD + "kernel void g(texture2d<float> t, sampler s, device int* o) { o[0] = t.get_width(); }")
    texture, sampler, out = mk.Texture((4, 4), "r32float"), mk.Sampler(), mk.zeros(4, np.int32)
    with mk.profile() as profile:
        kernel(*arguments, ndrange=8)
    places: dict[str, Callable[[Any], Any]] = {
        "set_device": lambda v: KI.set_device(B, v),
        "priority": lambda v: KI.priority(B, v),
        "a back end": lambda v: KI.ndevices(v),
        "full: value": lambda v: mk.full(3, v),
        "full: int": lambda v: mk.full(3, v, np.int32),
        "array": mk.array,
        "array: dtype": lambda v: mk.array([1, 2], v),
        "array: storage": lambda v: mk.array([1, 2], storage=v),
        "asarray": mk.asarray,
        "asarray: copy": lambda v: mk.asarray(a, copy=v),
        "empty_like": mk.empty_like,
        "zeros_like": mk.zeros_like,
        "allocate: unified": lambda v: KI.allocate(B, "f4", 3, unified=v),
        "copyto: dst": lambda v: KI.copyto(B, v, a),
        "copyto: src": lambda v: KI.copyto(B, c, v),
        "adapt": lambda v: KI.adapt(B, [{1: (v,)}]),
        "adapt: to": lambda v: KI.adapt(v, [1]),
        "reshape": a.reshape,
        "view": a.view,
        "index": lambda v: a[v],
        "indices": lambda v: a[v,],
        "synchronize": mk.synchronize,
        "wait_event": lambda v: KI.wait_event(B, v),
        "Queue": mk.Queue,
        "Queue: label": lambda v: mk.Queue(label=v),
        "Queue: priority": lambda v: mk.Queue(priority=v),
        "Queue: time_limit": lambda v: mk.Queue(time_limit=v),
        "spawn": lambda v: KI.spawn(v) if v is not int else None,
        "threadgroup": mk.threadgroup,
        "threadgroup: dtype": lambda v: mk.threadgroup(3, v),
        "compile": mk.compile,
        "options": lambda v: mk.compile(SOURCE, options=v),
        "macro": lambda v: mk.compile(SOURCE, options={"macros": {"A": v}}),
        "header": lambda v: mk.compile(SOURCE, options={"headers": {"a.h": v}}),
        "folder": lambda v: mk.compile(SOURCE, options={"include_dirs": [v]}),
        "Kernel: name": lambda v: mk.Kernel(SOURCE, v),
        "function_constants": lambda v: mk.Kernel(SOURCE, function_constants=v),
        "function constant": lambda v: constants.kernel("f", {0: v}),
        "library[]": lambda v: library[v],
        "in library": lambda v: v in library,
        "disassemble": kernel.disassemble,
        "kernel_max_work_group_size": lambda v: KI.kernel_max_work_group_size(v),
        "max_work_items": lambda v: KI.kernel_max_work_group_size(kernel, v),
        "launch_configuration": lambda v: KI.launch_configuration(v, 8),
        "launch_configuration: ndrange": lambda v: KI.launch_configuration(kernel, v),
        "launch: arguments": lambda v: kernel.launch(v, ndrange=8),
        "launch: launch": lambda v: KI.launch(B, kernel, arguments, ndrange=8, launch=v),
        "threadgroup argument": lambda v: local(v, out, ndrange=1),
        "threadgroup argument's size": lambda v: local(mk.threadgroup(v), out, ndrange=1),
        "texture argument": lambda v: text(v, sampler, out, ndrange=1),
        "sampler argument": lambda v: text(texture, v, out, ndrange=1),
        "Texture": lambda v: mk.Texture(v, "r32float"),
        "Texture: format": lambda v: mk.Texture((4, 4), v),
        "Texture: type": lambda v: mk.Texture((4, 4), "r32float", type=v),
        "Texture: label": lambda v: mk.Texture((4, 4), "r32float", label=v),
        "Texture: mip_levels": lambda v: mk.Texture((4, 4), "r32float", mip_levels=v),
        "Texture.copy_from": texture.copy_from,
        "Profile.save": lambda v: profile.save(v) if not isinstance(v, str) or v == "\0" else None,
    }
    for make in (mk.empty, mk.zeros, mk.ones):
        places |= {
            f"{make.__name__}: shape": make,
            f"{make.__name__}: size": lambda v, make=make: make((2, v)),
            f"{make.__name__}: dtype": lambda v, make=make: make(3, v),
            f"{make.__name__}: device": lambda v, make=make: make(3, device=v),
        }
    for name in ("math_mode", "language_version", "include_dirs", "headers", "macros"):
        places[f"option {name}"] = lambda v, name=name: mk.compile(SOURCE, options={name: v})
    for name in ("ndrange", "numworkgroups", "workgroupsize", "max_work_group_size", "queue", "uses"):
        usual = {} if name in ("ndrange", "numworkgroups") else {"ndrange": 8}
        places[f"launch: {name}"] = lambda v, name=name, usual=usual: kernel(*arguments, **usual, **{name: v})
        places[f"launch: ({name},)"] = lambda v, name=name, usual=usual: kernel(*arguments, **usual, **{name: (v,)})
    for i in range(3):
        places[f"argument {i}"] = lambda v, i=i: kernel(*arguments[:i], v, *arguments[i + 1 :], ndrange=8)
    for name in TYPES:
        pointee = mk.Kernel(HEAD + f"kernel void g(device const {name}* v, device int* o) {{ o[0] = v != 0; }}")
        places[f"{name}*"] = lambda v, pointee=pointee: pointee(v, out, ndrange=1)
    return places


def _complaint(call: Callable[[Any], Any], value: Any) -> str | None:
    """What is wrong with how a value was taken or refused; None when nothing is."""
    try:
        call(value)
    except (mk.MetalkiError, IndexError) as error:
        return None if len(str(error)) < 2000 else f"a message of {len(str(error))} characters"
    except OwnError:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:100]}"
    return None


@pytest.mark.filterwarnings("ignore")
def test_every_value_is_taken_or_refused_as_what_it_is() -> None:
    complaints = []
    for place, call in _places().items():
        for position, value in enumerate(HOSTILE):
            if complaint := _complaint(call, value):
                complaints.append(f"{place}, value {position} ({type(value).__name__}): {complaint}")
    KI.set_device(B, 0)
    mk.synchronize()
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize(
    ("name", "scalar", "nbytes"),
    [
        ("packed_float3", np.float32, 12),
        ("float4x4", np.float32, 64),
        ("atomic_int", np.int32, 4),
        ("packed_uchar3", np.uint8, 3),
    ],
)
def test_types_that_the_kernel_only_names_are_described(name: str, scalar: Any, nbytes: int) -> None:
    kernel = mk.Kernel(HEAD + f"kernel void only_named(device const {name}* v, device int* o) {{ o[0] = v != 0; }}")
    argument = kernel.arguments[0]
    assert (argument.type_name, argument.dtype, argument.nbytes) == (name, scalar, nbytes)
    with pytest.raises(mk.ArgumentError, match="'v'"):
        kernel(mk.zeros(64, np.float16), mk.zeros(1, np.int32), ndrange=1)


@pytest.mark.parametrize("declaration", ["", "struct opaque;"])
def test_pointees_without_a_size_take_any_bytes(declaration: str) -> None:
    pointee = "opaque" if declaration else "void"
    kernel = mk.Kernel(
        declaration + f"kernel void sizeless(device const {pointee}* v, device int* o) {{ o[0] = v != 0; }}"
    )
    out = mk.zeros(1, np.int32)
    kernel(b"xyz", out, ndrange=1)
    assert out.numpy()[0] == 1
