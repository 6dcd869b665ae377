"""The tables in docs/msl_support.md are true: supported means that it runs right, missing that it is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import probes
import pytest

import metalki as mk

PROBES = probes.read_probes()
TABLE = probes.read_table()
THREADS = 32
BATCH = 60
ROUNDING = {"half": 4e-3, "bfloat": 3e-2}


def within(value: float, tolerance: float) -> tuple[float, float]:
    """An expected value with a relative tolerance of its own."""
    return value, tolerance


def expected_values(probe: probes.Probe, i: int) -> tuple[float, float]:
    """The value that thread i should leave, and the relative difference that is allowed."""
    tolerance = next((t for kind, t in ROUNDING.items() if probe.cpp.startswith(kind)), 2e-5)
    value = eval(probe.expected, {"i": i, "cpp": probe.cpp, "within": within})  # the probes are our own files
    return value if isinstance(value, tuple) else (float(value), tolerance)


def check(probe: probes.Probe, left: np.ndarray[Any, Any]) -> str | None:
    """What is wrong with the components left by the threads, (threads, components) with NaN for those not written."""
    for i, components in enumerate(left if probe.expected else []):
        wanted, tolerance = expected_values(probe, i)
        written = components[~np.isnan(components)]
        if not written.size:
            return f"thread {i} left nothing"
        if not np.allclose(written, wanted, rtol=tolerance, atol=tolerance * 1e-3):
            return f"thread {i} left {written.tolist()}, {wanted} is expected"
    return None


def unwritten(count: int) -> mk.Array:
    return mk.array(np.full(count, np.nan, np.float32))


def argument_for(argument: mk.Argument) -> Any:
    """A value for a further argument of a probe's kernel: memory of zeros, a texture of its kind, a sampler."""
    if argument.kind == "sampler":
        return mk.Sampler("nearest")
    if argument.kind == "threadgroup":
        return mk.threadgroup(1024)
    if argument.kind == "texture":
        return texture_for(argument.type_name)
    if argument.dtype is None:
        return bytes(argument.nbytes)
    return mk.zeros(1024, argument.dtype)


# The MSL class: its type and the shape without channels.
SHAPES = {
    "texture1d": ("1d", (8,)),
    "texture1d_array": ("1d_array", (3, 8)),
    "texture2d": ("2d", (8, 8)),
    "texture2d_array": ("2d_array", (3, 8, 8)),
    "texture3d": ("3d", (4, 8, 8)),
    "texturecube": ("cube", (6, 8, 8)),
    "texturecube_array": ("cube_array", (3, 6, 8, 8)),
    "depth2d": ("2d", (8, 8)),
    "depth2d_array": ("2d_array", (3, 8, 8)),
}


def texture_for(type_name: str) -> mk.Texture:
    """A texture whose texels hold x + 10 y + 100 (layer, slice or face) in their first component and 1 in the last."""
    match = re.match(r"(?:metal::)?(\w+)<(\w+)", type_name)
    assert match, type_name
    kind, shape = SHAPES[match[1]]
    axes = np.indices(shape)
    value = sum(axes[-1 - n] * 10**n for n in range(min(len(shape), 3)))
    depth = match[1].startswith("depth")
    suffix = {"int": "sint", "short": "sint", "uint": "uint", "ushort": "uint"}.get(match[2], "float")
    dtype = {"sint": np.int32, "uint": np.uint32, "float": np.float32}[suffix]
    if depth:
        return mk.Texture(value.astype(np.float32), "depth32float", usage="read", type=kind)
    texels = np.stack([value, value, value, np.ones(shape)], -1).astype(dtype)
    return mk.Texture(texels, f"rgba32{suffix}", usage="read_write", type=kind)


def run_program(probe: probes.Probe) -> str | None:
    """Compiles a whole program, runs it when it says what it should leave, and returns what is wrong."""
    try:
        kernel = mk.Kernel(probe.program, "k")
        if not probe.expected:
            return None
        out = unwritten(THREADS)
        others = [argument_for(argument) for argument in kernel.arguments[1:]]
        kernel(out, *others, ndrange=THREADS, workgroupsize=THREADS)
        return check(probe, out.numpy().reshape(THREADS, 1))
    except mk.MetalkiError as error:
        return str(error)


def run_fragments(batch: list[probes.Probe]) -> list[str]:
    """Runs many fragments in one kernel; when it does not compile, each by itself to name those that are wrong."""
    out = unwritten(len(batch) * THREADS * 4)
    try:
        mk.Kernel(probes.program_of(batch))(out, ndrange=THREADS, workgroupsize=THREADS)
    except mk.MetalkiError as error:
        if len(batch) == 1:
            return [told(batch[0], str(error))]
        return [problem for probe in batch for problem in run_fragments([probe])]
    left = out.numpy().reshape(len(batch), THREADS, 4)
    return [told(probe, problem) for n, probe in enumerate(batch) if (problem := check(probe, left[n]))]


def told(probe: probes.Probe, problem: str) -> str:
    return f"{probe.where}: {probe.name} {probe.cpp}: {problem}"


def wrong_among(chosen: list[probes.Probe]) -> list[str]:
    fragments = [probe for probe in chosen if not probe.is_program]
    wrong = [p for at in range(0, len(fragments), BATCH) for p in run_fragments(fragments[at : at + BATCH])]
    for probe in chosen:
        if probe.is_program and (problem := run_program(probe)):
            wrong.append(told(probe, problem))
    return wrong


def test_table_and_probes_name_the_same_things() -> None:
    titles = [row.title for row in TABLE]
    assert sorted(titles) == sorted(PROBES), set(titles) ^ set(PROBES)
    for row in TABLE:
        assert sorted(row.supported + row.missing) == sorted(PROBES[row.title]), row.title
        state = "partly" if row.supported and row.missing else "supported" if row.supported else "not"
        assert row.state == state or (row.state == "refused" and state == "not"), row.title


@pytest.mark.parametrize("row", [row for row in TABLE if row.supported], ids=lambda row: row.title)
def test_supported_works(row: probes.Row) -> None:
    wrong = wrong_among([probe for name in row.supported for probe in PROBES[row.title].get(name, [])])
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("row", [row for row in TABLE if row.missing], ids=lambda row: row.title)
def test_missing_is_refused(row: probes.Row) -> None:
    """When this fails, something became supported: move it in the table."""
    works = []
    for name in row.missing:
        for probe in PROBES[row.title].get(name, []):
            try:
                mk.Kernel(probe.program, "k")
            except (mk.CompileError, mk.ArgumentError):  # the source, or the kernel in it
                continue
            works.append(told(probe, "compiles"))
    assert not works, "\n".join(works)
