"""Sources as trees, so that a failing kernel can be made smaller without being parsed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Expression:
    """Text and operands in turn; `type` is an MSL type."""

    type: str
    parts: list[str | Expression]

    def text(self) -> str:
        return "".join(part if isinstance(part, str) else part.text() for part in self.parts)


@dataclass
class Block:
    """Statements between a pair of braces that the owner writes."""

    statements: list[Statement] = field(default_factory=list)

    def text(self, indent: str) -> str:
        return "".join(statement.text(indent) for statement in self.statements)


@dataclass
class Statement:
    """Text, expressions and blocks in turn. A `fixed` statement is never left out."""

    parts: list[str | Expression | Block]
    fixed: bool = False

    def text(self, indent: str) -> str:
        out = indent
        for part in self.parts:
            if isinstance(part, str):
                out += part
            elif isinstance(part, Expression):
                out += part.text()
            else:
                out += "\n" + part.text(indent + "    ") + indent
        return out + "\n"


Slot = tuple[list[Any], int]  # a place in the tree: a list and an index


def places(node: object) -> Iterator[Slot]:
    """All places of a tree that hold a node, outer ones first."""
    items: list[Any] = node.statements if isinstance(node, Block) else getattr(node, "parts", [])
    for index, item in enumerate(items):
        if not isinstance(item, str):
            yield items, index
            yield from places(item)


def smaller(items: list[Any], index: int) -> Iterator[list[Any]]:
    """What may stand in place of the node at items[index], best first."""
    node = items[index]
    if isinstance(node, Statement):
        if not node.fixed:
            yield []
            for part in node.parts:
                if isinstance(part, Block):
                    yield part.statements
    elif isinstance(node, Expression):
        if len(node.parts) > 1:
            yield [Expression(node.type, [f"{node.type}(1)"])]
        for inner in [held[place] for held, place in places(node)]:
            if isinstance(inner, Expression) and inner.type == node.type:
                yield [inner]


def minimise(tree: Block, fails: Callable[[Block], bool], progress: Callable[[int], None] = lambda size: None) -> Block:
    """The smallest tree found for which `fails` still holds."""
    changed = True
    while changed:
        changed = False
        number = 0
        while number < (total := sum(1 for _ in places(tree))):
            for choice in range(50):
                candidate = copy.deepcopy(tree)
                items, index = next(place for i, place in enumerate(places(candidate)) if i == number)
                options = list(smaller(items, index))
                if choice >= len(options):
                    break
                items[index : index + 1] = options[choice]
                if fails(candidate):
                    tree = candidate
                    changed = True
                    progress(total)
                    number -= 1
                    break
            number += 1
    return tree
