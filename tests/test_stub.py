"""The type stub of the native part against the module itself."""

from __future__ import annotations

import ast
from pathlib import Path

import metalki
from metalki import _core


def test_the_stub_names_what_the_module_has() -> None:
    stub = Path(metalki.__file__).with_name("_core.pyi")
    declared: dict[str, set[str]] = {}
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            members = node.body if isinstance(node, ast.ClassDef) else []
            declared[node.name] = {member.name for member in members if isinstance(member, ast.FunctionDef)}
    public = {name for name in vars(_core) if not name.startswith("__")}
    assert set(declared) == public
    for name, members in declared.items():
        missing = {m for m in members - {"__buffer__"} if not hasattr(getattr(_core, name), m)}
        assert not missing, f"{name} has no {missing}"
        there = {m for m in vars(getattr(_core, name)) if not m.startswith("__")} if members else set()
        assert there <= members, f"the stub of {name} lacks {there - members}"
