"""Reads the probes of this folder and the table in docs/msl_support.md; README.md describes both formats."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
TABLE = FOLDER.parent.parent / "docs" / "msl_support.md"
HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
INTEGERS = ["char", "uchar", "short", "ushort", "int", "uint", "long", "ulong"]
GROUPS = {
    "-": [""],
    "floatN": ["float", "float2", "float3", "float4"],
    "halfN": ["half", "half2", "half3", "half4"],
    "bfloatN": ["bfloat", "bfloat2", "bfloat3", "bfloat4"],
    "ints": INTEGERS,
    "ints4": [name + "4" for name in INTEGERS],
}
# PUT stores the components of a value in the thread's place.
HELPERS = """
template <class V> void put_value(device float* at, V v) { at[0] = float(v); }
template <class V> void put_value(device float* at, vec<V, 2> v) { for (int c = 0; c < 2; c++) at[c] = float(v[c]); }
template <class V> void put_value(device float* at, vec<V, 3> v) { for (int c = 0; c < 3; c++) at[c] = float(v[c]); }
template <class V> void put_value(device float* at, vec<V, 4> v) { for (int c = 0; c < 4; c++) at[c] = float(v[c]); }
"""

# first(v): the first component of a scalar or vector, for programs.
FIRST = """
template <class V> float first(V v) { return float(v); }
template <class V> float first(vec<V, 2> v) { return float(v.x); }
template <class V> float first(vec<V, 3> v) { return float(v.x); }
"""


@dataclass(frozen=True)
class Probe:
    """One use of a listed name with one type: an expression or statements, or a whole program with a kernel `k`."""

    name: str
    cpp: str  # the type that T stands for, "" where there is none
    text: str
    is_program: bool
    expected: str  # a Python expression in i and cpp; "" when the probe is only compiled
    where: str

    @property
    def fragment(self) -> str:
        """The statements of a probe that is no program, in a scope of their own."""
        alias = f"typedef {self.cpp} T; " if self.cpp else ""
        return f"{{ {alias}\n{self.text}\n    }}"

    @property
    def program(self) -> str:
        """A whole program for this probe alone."""
        if not self.is_program:
            return program_of([self])
        alias = f"typedef {self.cpp} T;\n" if self.cpp else ""
        return HEAD + alias + (FIRST if "first(" in self.text else "") + self.text + "\n"


def program_of(probes: list[Probe]) -> str:
    """One kernel that runs many fragments; thread i leaves the components of number n at ((n * 32) + i) * 4."""
    body = "".join(
        f"    {{ device float* out_ = o + ({n} * 32 + i) * 4;\n    {probe.fragment} }}\n"
        for n, probe in enumerate(probes)
    )
    macro = "#define PUT(...) put_value(out_, (__VA_ARGS__))\n"
    return (
        f"{HEAD}{HELPERS}{macro}kernel void k(device float* o, uint i [[thread_index_in_threadgroup]]) {{\n{body}}}\n"
    )


def read_probes() -> dict[str, dict[str, list[Probe]]]:
    """Row title -> name -> probes, of all files."""
    rows: dict[str, dict[str, list[Probe]]] = {}
    for path in sorted(FOLDER.glob("*.probes")):
        title = ""
        lines = path.read_text(encoding="utf-8").splitlines()
        at = 0
        while at < len(lines):
            line, where = lines[at], f"{path.name}:{at + 1}"
            at += 1
            if not line.strip() or line.startswith("# "):
                continue
            if line.startswith("== "):
                title = line[3:].strip()
                assert title not in rows, f"{where}: the row '{title}' exists already"
                rows[title] = {}
                continue
            body = []
            while at < len(lines) and (lines[at].startswith("    ") or (body and not lines[at].strip())):
                body.append(lines[at][4:])
                at += 1
            rows[title].setdefault(re.split(r"\s*\| ", line)[0], []).extend(_probes(line, "\n".join(body), where))
    return rows


def _probes(line: str, body: str, where: str) -> list[Probe]:
    assert len(re.split(r"\s*\| ", line, maxsplit=2)) == 3, f"{where}: name, types and what to do are expected"
    name, types, rest = (part.strip() for part in re.split(r"\s*\| ", line, maxsplit=2))
    expression, arrow, expected = rest.rpartition("==>")
    assert arrow, f"{where}: '==>' is missing"
    assert bool(expression.strip()) != bool(body.strip()), f"{where}: an expression or an indented body is expected"
    is_program = bool(re.search(r"\bk\(", body))
    text = body.strip() if body.strip() else f"PUT({expression.strip()});"
    kinds = [kind for word in types.split() for kind in GROUPS.get(word, [word])]
    return [Probe(name, kind, text, is_program, expected.strip(), where) for kind in kinds]


@dataclass(frozen=True)
class Row:
    """One row of the table in the documentation."""

    section: str
    title: str
    state: str
    supported: list[str]
    missing: list[str]


def read_table() -> list[Row]:
    """The rows of all tables with the columns of the support table."""
    rows = []
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 5 and cells[0] != "Section" and not set(cells[0]) <= {"-", ":"}:
            rows.append(Row(cells[0], cells[1], cells[2], *(_names(cell) for cell in cells[3:])))
    return rows


def _names(cell: str) -> list[str]:
    return [name.replace("\\|", "|") for name in re.findall(r"`([^`]+)`", cell)]
