"""mk.broadcast: an MSL expression over broadcast arrays, one fused kernel per types and expression."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import _array, _core, _dtypes
from .._array import Array
from .._kernel import Kernel
from .._text import shown
from ..errors import ArgumentError
from . import _common as c
from .geometry import CHUNK, CPU_CHUNK, Layout, broadcast_strides, contiguous_strides, layout, merged

__all__ = ["broadcast"]

# Names of the arrays that are given by position: x0, x1, ... and these.
_POSITIONAL = ("xyzw", "abcdefgh")

# C++ computes narrow integers in int and half with a float literal in float. The result goes back to the type that numpy
# would give it, unless the expression's own type is another kind.
_NARROWING = """
template <typename R, typename N, bool small_integer, bool small_float> struct ki_narrowed { typedef R type; };
template <typename N, bool f> struct ki_narrowed<int, N, true, f> { typedef N type; };
template <typename N, bool i> struct ki_narrowed<float, N, i, true> { typedef N type; };
"""


# A SIMD-group's part of operands that lie in one row: four steps at a time, then the rest.
_CHUNKED = """const ix ki_first = (ix)ki_group * CHUNK, ki_last = min(ki_first + CHUNK, ki_size);
    ix ki_at = ki_first;
    for (; ki_at + 128 <= ki_last; ki_at += 128) {
        const ix ki_i = ki_at + ki_lane;
        KI_ONE(ki_i) KI_ONE(ki_i + 32) KI_ONE(ki_i + 64) KI_ONE(ki_i + 96)
    }
    for (; ki_at < ki_last; ki_at += 32)
        if (ki_at + ki_lane < ki_last) KI_ONE(ki_at + ki_lane)"""


class Operand(NamedTuple):
    """An input of an element-wise kernel: an array with its steps, or a number (`strides` is None)."""

    name: str
    value: Any
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None
    offset: int = 0


class Request(NamedTuple):
    """An element-wise operation: what is computed of which inputs, and where its results go."""

    expr: str
    inputs: list[Operand]
    shape: tuple[int, ...]
    dtype: np.dtype[Any] | None  # None: that of the expression
    out_strides: tuple[int, ...] | None = None  # None: C order
    out_offset: int = 0
    prelude: str = ""  # functions that the expression calls
    safe: bool = False  # the compiler must not contract or reorder floating-point arithmetic

    def device(self, out: Array | None) -> _core.Device | None:
        """Where the arrays among the inputs, or the output, are; None without any."""
        like = next((o.value for o in self.inputs if o.strides is not None), out)
        return None if like is None else like.device


def broadcast(expr: str, *arrays: Any, out: Array | None = None, dtype: Any = None, **named: Any) -> Array:
    """Computes the MSL expression `expr` for every element of the broadcast arrays and scalars, in one pass.

    Arrays given by keyword have that name in the expression; those given by position are x0, x1, ..., and also x, y, z, w or
    a, b, c, .... The result has the broadcast shape. Its dtype is `dtype` or that of `out`; without them it is the
    expression's type in MSL, where integers below 32 bits and half stay what they are although C++ promotes them. Python
    scalars take the arrays' type as numpy has it. Raises ArgumentError for shapes that do not go together and CompileError
    for an expression that is none."""
    signature = _signature(expr, arrays, named, out, dtype)
    if signature is not None:
        known = _known.get(signature)
        if known is not None and (known.plan is not None or _is_zero((*arrays, *named.values())[0])):
            return _again(known, (*arrays, *named.values()), out)
    values = _named(expr, arrays, named)
    if not values:
        raise ArgumentError("broadcast: at least one array or scalar is expected, none was given")
    shapes = [v.shape for v in values.values() if isinstance(v, Array)]
    shape = c.broadcast_shapes(shapes, "broadcast")
    if out is not None:
        shape = c.check_out(out, shape, "broadcast").shape
    wanted = None if dtype is None else _dtypes.normalize(dtype, "broadcast")
    if out is not None:
        if wanted is not None and wanted != out.dtype:
            raise ArgumentError(f"broadcast: out has dtype {out.dtype}, dtype {wanted} was asked for")
        wanted = out.dtype
    request = Request(expr, operands(values, shape, "broadcast"), shape, wanted)
    result = run(request, out)
    if signature is not None:
        remember(signature, request, out)
    return result


class Known(NamedTuple):
    """An element-wise operation whose plan is found by the types and shapes of its inputs alone."""

    plan: Plan | None  # None for a number that goes into all elements, as long as it was zero
    kinds: tuple[np.dtype[Any] | None, ...]  # of the numbers among the inputs; None for arrays
    shape: tuple[int, ...]
    first: int  # the first array among the inputs
    is_number: bool  # the result is the only input, a number


_known: dict[Any, Known] = {}
_NUMBERS = (int, float, bool)
_NUMPY_NUMBERS = frozenset(np.dtype(t).type for t in "bBhHiIlLqQef")


def _signature(expr: Any, arrays: tuple[Any, ...], named: dict[str, Any], out: Any, dtype: Any) -> Any:
    """What decides the plan; None for inputs that have to be looked at each time."""
    parts: list[Any] = [expr, dtype, len(arrays), *named]
    is_array = False
    for value in (*arrays, *named.values()):
        if type(value) is Array:
            is_array = True
            parts.append((value.dtype, value.shape, value.device))
        elif type(value) in _NUMBERS or type(value) in _NUMPY_NUMBERS:
            parts.append(type(value))
        else:
            return None
    if out is not None:
        if type(out) is not Array:
            return None
        is_array = True
        parts.append((out.dtype, out.shape, out.device))
    return tuple(parts) if is_array and (dtype is None or isinstance(dtype, (type, np.dtype, str))) else None


def remember(signature: Any, request: Request, out: Array | None = None) -> None:
    """Keeps the plan that `run` has just used."""
    if 0 in request.shape:
        return
    inputs = request.inputs
    plan, is_number = c._cache.get(_key(request, request.device(out))), _is_number(request)
    if plan is not None or is_number:
        if len(_known) >= c._MOST_CACHED:
            _known.clear()
        kinds = tuple(o.dtype if o.strides is None else None for o in inputs)
        first = next((i for i, o in enumerate(inputs) if o.strides is not None), -1)  # -1: only `out` is an array
        _known[signature] = Known(plan, kinds, request.shape, first, is_number)


def _again(known: Known, values: tuple[Any, ...], out: Array | None) -> Array:
    arguments: list[Any] = [
        v if kind is None else c.check_scalar(v, kind, "broadcast") for v, kind in zip(values, known.kinds, strict=True)
    ]
    if known.is_number and out is not None and _is_zero(arguments[0]):
        _core.fill_bytes(out, 0, None)
        return out
    plan = known.plan
    assert plan is not None
    if out is None:
        like = values[known.first]
        out = _array.empty(known.shape, plan.result, like.storage, device=like.device)
    elif any(k is None and _shares(out, v) for v, k in zip(values, known.kinds, strict=True)):
        return run(_moved(_again(known, values, None), out.dtype), out)
    if plan.parameter is not None:
        arguments.append(plan.parameter)
    _launch(plan, [out, *arguments])
    return out


def _is_number(request: Request) -> bool:
    """Whether every element of the result is the number that is the only input."""
    inputs = request.inputs
    return len(inputs) == 1 and inputs[0].strides is None and request.expr == inputs[0].name and not request.prelude


def _is_zero(value: Any) -> bool:
    """Whether all bytes of a number are zero."""
    return bool(value == 0) and math.copysign(1.0, value) > 0


def _shares(out: Array, value: Array) -> bool:
    """Whether they overlap without being the same array."""
    start, other = out.gpu_address, value.gpu_address
    if start == other and out.shape == value.shape and out.dtype == value.dtype:
        return False
    return other < start + out.nbytes and start < other + value.nbytes


def _named(expr: str, arrays: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(expr, str):
        raise ArgumentError(f"broadcast: the expression is a str, {type(expr).__name__} was given")
    words = set(re.findall(r"[A-Za-z_]\w*", expr))
    values: dict[str, Any] = {}
    for i, value in enumerate(arrays):
        names = [f"x{i}", *(letters[i] for letters in _POSITIONAL if i < len(letters))]
        found = next((n for n in names if n in words and n not in named and n not in values), f"x{i}")
        values[found] = value
    for name, value in named.items():
        if not name.isidentifier() or not name.isascii():
            raise ArgumentError(f"broadcast: {shown(name)} is no name that a kernel can have")
        values[name] = value
    return {k: v if c.is_scalar(v) else c.as_operand(v, "broadcast") for k, v in values.items()}


def operands(values: dict[str, Any], shape: tuple[int, ...], what: str) -> list[Operand]:
    """The inputs, arrays broadcast to `shape`, scalars in numpy's type for them."""
    common = None
    result = []
    for name, value in values.items():
        if isinstance(value, Array):
            result.append(Operand(name, value, value.dtype, broadcast_strides(value.shape, shape)))
            continue
        if isinstance(value, np.generic) and not isinstance(value, (float, np.bool_)):
            result.append(Operand(name, value, value.dtype, None))
            continue
        if common is None:
            common = [v.dtype for v in values.values() if isinstance(v, Array)]
            common = [c.promote(common, what)] if common else []
        value = value.item() if isinstance(value, np.generic) else value
        kind = c.result_type([*common, value], what)
        if isinstance(value, bool):
            kind = c.BOOL
        result.append(Operand(name, c.check_scalar(value, kind, what), kind, None))
    return result


class Plan(NamedTuple):
    """A compiled element-wise kernel and its grid."""

    kernel: Kernel
    result: np.dtype[Any]
    parameter: bytes | int | None
    ndrange: tuple[int, ...]
    groups: int | None


def run(request: Request, out: Array | None = None) -> Array:
    """Launches the operation; the result goes to `out`, or to a new array."""
    shape = request.shape
    if out is not None and any(_overlaps(out, o, request.out_strides) for o in request.inputs):
        apart = run(request._replace(dtype=request.dtype or out.dtype, out_strides=None, out_offset=0))
        return run(_moved(apart, out.dtype, request.out_strides, request.out_offset), out)
    if out is not None and request.out_strides is None and _is_number(request) and _is_zero(request.inputs[0].value):
        if out.size:
            _core.fill_bytes(out, 0, None)  # quicker than a kernel: memory need not be read to be written
        return out
    device = request.device(out)
    key = _key(request, device)
    plan = c._cache.get(key)
    if plan is None:
        plan = c.cached(key, lambda: _plan(request, device))
    if out is None:
        like = next((o.value for o in request.inputs if o.strides is not None), None)
        out = c.result_like(shape, plan.result, like)
    if out.size == 0 or 0 in shape:
        return out
    arguments = [out, *[o.value for o in request.inputs]]
    if plan.parameter is not None:
        arguments.append(plan.parameter)
    _launch(plan, arguments)
    return out


def _launch(plan: Plan, arguments: list[Any]) -> None:
    if plan.groups is None:
        plan.kernel(*arguments, ndrange=plan.ndrange)
    else:
        plan.kernel(*arguments, numworkgroups=plan.groups, workgroupsize=32)


def _key(request: Request, device: _core.Device | None) -> Any:
    own = tuple([(o.name, o.dtype, o.strides, o.offset) for o in request.inputs])
    return request.expr, request[2:], device, own


def _overlaps(out: Array, o: Operand, out_strides: tuple[int, ...] | None) -> bool:
    """Whether writing to `out` would change what other threads still read: the same memory at other indices."""
    if o.strides is None:
        return False
    start, end = out.gpu_address, out.gpu_address + out.nbytes
    if o.value.gpu_address >= end or o.value.gpu_address + o.value.nbytes <= start:
        return False
    if o.value.gpu_address == start and o.dtype == out.dtype and o.offset == 0 and out_strides is None:
        own = contiguous_strides(out.shape)
        return any(a != b for a, b, size in zip(o.strides, own, out.shape, strict=True) if size > 1)
    return True


def _moved(x: Array, dtype: np.dtype[Any], out_strides: tuple[int, ...] | None = None, out_offset: int = 0) -> Request:
    """A copy of `x`."""
    from_x = [Operand("x", x, x.dtype, contiguous_strides(x.shape))]
    return Request("x", from_x, x.shape, dtype, out_strides, out_offset)


def _plan(request: Request, device: _core.Device | None) -> Plan:
    inputs, shape = request.inputs, request.shape
    arrays = [o for o in inputs if o.strides is not None]
    out_strides = contiguous_strides(shape) if request.out_strides is None else request.out_strides
    steps = [out_strides, *[o.strides or () for o in arrays]]
    sizes = [1 if s == 0 else s for s in shape]  # an empty result still needs its dtype
    chunk = CPU_CHUNK if device is not None and device.kind == "cpu" else CHUNK
    where = layout(merged(sizes, steps, [request.out_offset, *[o.offset for o in arrays]]), chunk)
    names = tuple((o.name, o.dtype, o.strides is None) for o in inputs)
    options = {"math_mode": "safe"} if request.safe else None
    kernel = c.cached(
        ("map", request.expr, request.prelude, request.safe, names, request.dtype, where.key, device),
        lambda: c.compiled(source(request, where), "ki_map", options),
    )
    found = kernel.arguments[0].dtype
    if found is None:
        raise ArgumentError(
            f"broadcast: the expression {request.expr!r} gives {kernel.arguments[0].type_name}, which is no number"
        )
    return Plan(kernel, found, where.parameter, where.ndrange, where.groups)


def source(request: Request, where: Layout) -> str:
    """The kernel's text."""
    inputs, dtype = request.inputs, request.dtype
    types = [c.msl(o.dtype, "broadcast") for o in inputs]
    parameters = ", ".join(f"{t} {o.name}" for o, t in zip(inputs, types, strict=True))
    text = [c.PRELUDE, where.declaration, request.prelude]
    text.append(f"inline auto ki_f({parameters}) {{ return ({request.expr}); }}\n")
    made = f"decltype(ki_f({', '.join(f'{t}()' for t in types)}))"
    if dtype is not None:
        text.append(f"typedef {c.msl(dtype, 'broadcast')} ki_o;\n")
    else:
        text.append(_NARROWING)
        array_types = [o.dtype for o in inputs if o.strides is not None] or [o.dtype for o in inputs]
        narrow, integer, small = _narrow(array_types)
        text.append(f"typedef ki_narrowed<{made}, {narrow}, {integer}, {small}>::type ki_o;\n")
    arguments, loads, numbers, count = [], [], [], 0
    for k, (o, t) in enumerate(zip(inputs, types, strict=True)):
        if o.strides is None:
            arguments.append(f"constant {t}& ki_p{k}")
            loads.append(f"ki_s{k}")
            numbers.append(f"const {t} ki_s{k} = ki_p{k};")
        else:
            count += 1
            arguments.append(f"device const {t}* ki_p{k}")
            loads.append(f"ki_p{k}[i{count}]")
    geometry = [] if where.parameter is None else ["constant ki_geometry& g"]
    if where.groups is not None:
        geometry = ["constant ix& ki_size"]
    signature = ", ".join(["device ki_o* ki_out", *arguments, *geometry, where.position])
    body = f"{where.statements}\n    ki_out[i0] = (ki_o)ki_f({', '.join(loads)});"
    if where.groups is not None:
        text.append(f"#define KI_ONE(ki_index) {{ const ix at = ki_index; {body} }}\n".replace("\n    ", " "))
        body = _CHUNKED.replace("CHUNK", str(where.chunk))
    text.append(f"kernel void ki_map({signature}) {{\n    {' '.join(numbers)}\n    {body}\n}}\n")
    return "".join(text)


def _narrow(dtypes: list[np.dtype[Any]]) -> tuple[str, str, str]:
    """The inputs' common type, and whether C++ would widen it as an integer or as a float."""
    try:
        common = c.promote(dtypes, "broadcast")
    except ArgumentError:
        return "float", "false", "false"
    integer = common.kind in "iu" and common.itemsize < 4
    small = c.is_float(common) and common.itemsize < 4
    return c.msl(common, "broadcast"), str(integer).lower(), str(small).lower()
