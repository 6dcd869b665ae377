"""The language in bulk: the files in tests/language hold small MSL programs with what must come of them.

A case:

    === name[:type]            type of the array `o`, float when left out
    declarations before the kernel
    ---
    the body of `kernel void k(device type* o, uint i [[thread_position_in_grid]])`, run by one thread
    => 1 2 3                   what `o` starts with afterwards, or
    => refused 5: text         compiling fails; line (counted from the declarations' first) and a part of the message

Without `---` the text is the whole program. `@ {...}` gives options of the compiler as a Python dictionary. `=> compiles` asks
for nothing else, but every kernel of the program must become a pipeline or want function constants.
"""

from __future__ import annotations

import ast
import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import metalki as mk

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
DTYPES = {"float": np.float32, "int": np.int32, "uint": np.uint32, "half": np.float16}
INTERNALS = re.compile(
    r"\bvec<|ext_vector|__attribute__|opencl|__global|__local\b|__MSL|__metalki|/metalki/|SYCL|__storage|__[gl]'"
)


class Case(NamedTuple):
    """One program and its expectation."""

    name: str
    type: str
    source: str
    expected: str
    options: dict[str, Any]


def read_cases(path: Path) -> list[Case]:
    """The cases of one file, in order."""
    cases = []
    for block in re.split(r"^=== ", path.read_text(), flags=re.MULTILINE)[1:]:
        title, _, text = block.partition("\n")
        name, _, element = title.strip().partition(":")
        options: dict[str, Any] = {}
        program, expected = [], ""
        for line in text.rstrip("\n").split("\n"):
            if line.startswith("=> "):
                expected = line[3:].strip()
            elif line.startswith("@ "):
                options = ast.literal_eval(line[2:])
            else:
                program.append(line)
        element = element or "float"
        before, body, rest = "\n".join(program).partition("\n---\n")
        if program[0] == "---":
            before, body, rest = "", "---", "\n".join(program[1:])
        source = HEAD + before
        if body:
            source += f"\nkernel void k(device {element}* o, uint i [[thread_position_in_grid]]) {{\n{rest}\n}}\n"
        assert expected, name
        cases.append(Case(f"{path.stem}-{name}", element, source, expected, options))
    return cases


CASES = [case for path in sorted((Path(__file__).parent / "language").glob("*.txt")) for case in read_cases(path)]


@pytest.mark.filterwarnings("ignore::metalki.CompileWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    options = case.options or None
    if case.expected.startswith("refused"):
        check_refusal(case)
    elif case.expected == "compiles":
        library = mk.compile(case.source, options=options)
        for name in library.function_names:
            try:
                library[name]
            except mk.ArgumentError as error:
                if "function constant" not in str(error):
                    raise
    else:
        words = case.expected.split()
        expected = [float(int(w, 0)) if w.startswith("0x") else float(w) for w in words]
        out = mk.zeros(max(16, len(expected)), DTYPES[case.type])
        mk.Kernel(case.source, "k", options=options)(out, ndrange=1)
        np.testing.assert_allclose(out.numpy()[: len(expected)].astype(np.float64), expected, rtol=1e-5)


def check_refusal(case: Case) -> None:
    match = re.match(r"refused(?: (\d+))?: ?(.*)", case.expected)
    assert match
    with pytest.raises(mk.CompileError) as caught:
        mk.compile(case.source, options=case.options or None)
    error = caught.value
    errors = [d for d in error.diagnostics if d.severity == "error"]
    assert errors, str(error)
    assert match[2] in str(error)
    if match[1]:
        assert int(match[1]) + HEAD.count("\n") in [d.line for d in errors], str(error)
        assert "^" in str(error)
    messages = [d.message for d in error.diagnostics] + [str(d.file) for d in error.diagnostics]
    for message in messages:
        assert not INTERNALS.search(message), message


def test_warnings_reach_python() -> None:
    source = HEAD + "kernel void k(device float* o) {\n    float unused = 1;\n    o[0] = 2;\n}\n"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mk.compile(source)
    messages = [str(w.message) for w in caught if issubclass(w.category, mk.CompileWarning)]
    assert len(messages) == 1
    assert "unused variable 'unused'" in messages[0]
    assert ":4:11:" in messages[0]


def test_kernels_that_cannot_run_are_left_out_with_a_warning() -> None:
    source = HEAD + (
        "kernel void table(visible_function_table<float(float)> t [[buffer(0)]], device float* o) { o[0] = t[0](1); }\n"
        "kernel void plain(device float* o) { o[0] = 1; }\n"
    )
    with pytest.warns(mk.CompileWarning, match="kernel 'table' is left out"):
        library = mk.compile(source)
    assert library.function_names == ["plain"]


DIAGNOSTIC_PLACES = {
    "line directive": (
        '#line 100 "original.metal"\nkernel void k(device float* o) { o[0] = nope; }',
        "original.metal",
        100,
        41,
    ),
    "macro": ("#define BAD(x) (x).nope\nkernel void k(device float* o) { o[0] = BAD(o[1]); }", None, 2, 41),
    "after rewriting": (
        "kernel void k(device float4* v [[buffer(0)]]) { v[0].xy = v[1].zw + v[0].zw + nope; }",
        None,
        1,
        79,
    ),
    "in a template": (
        "template <class T> T f(T a) {\n  return a.nope;\n}\nkernel void k(device float* o) { o[0] = f(o[1]); }",
        None,
        2,
        11,
    ),
}


@pytest.mark.parametrize("name", DIAGNOSTIC_PLACES)
def test_places_of_diagnostics(name: str) -> None:
    text, file, line, column = DIAGNOSTIC_PLACES[name]
    with pytest.raises(mk.CompileError) as caught:
        mk.compile(text if "float4" not in text else "using namespace metal;\n#line 1\n" + text)
    places = [(d.line, d.column) for d in caught.value.diagnostics if d.severity == "error"]
    assert (line, column) in places, str(caught.value)
    if file:
        assert caught.value.diagnostics[0].file == file


def test_diagnostics_in_headers_name_the_header() -> None:
    source = HEAD + '#include "mine.h"\nkernel void k(device float* o) { o[0] = f(); }'
    with pytest.raises(mk.CompileError) as caught:
        mk.compile(source, options={"headers": {"mine.h": "\ninline float f() { return nope; }\n"}})
    first = caught.value.diagnostics[0]
    assert (first.file, first.line, first.column) == ("mine.h", 2, 27)
