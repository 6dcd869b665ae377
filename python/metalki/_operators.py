"""The operators of arrays: each is the array primitive of its meaning.

Made in loops rather than written out, which the import of the package would have to read; _operators.pyi declares them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _core

__all__ = ["Operators", "algorithms"]

# operator: primitive; there is `a op b`, `b op a` for an operand that is no Array, and `a op= b`
_ARITHMETIC = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "pow",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
    "matmul": "matmul",
}
_COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_OF_ONE = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}


class Operators(_core.ArrayBase):
    """A device array with the operators of Python."""


def algorithms() -> Any:
    """The array primitives, loaded when first used."""
    from . import algorithms

    return algorithms


def _can_operate(value: Any) -> bool:
    return isinstance(value, (Operators, np.ndarray, np.generic, bool, int, float))


def _binary(function: str) -> Any:
    def operator(self: Any, other: Any) -> Any:
        return getattr(algorithms(), function)(self, other) if _can_operate(other) else NotImplemented

    return operator


def _swapped(function: str) -> Any:
    def operator(self: Any, other: Any) -> Any:
        return getattr(algorithms(), function)(other, self) if _can_operate(other) else NotImplemented

    return operator


def _in_place(function: str) -> Any:
    def operator(self: Any, other: Any) -> Any:
        return getattr(algorithms(), function)(self, other, out=self) if _can_operate(other) else NotImplemented

    return operator


def _unary(function: str) -> Any:
    def operator(self: Any) -> Any:
        return getattr(algorithms(), function)(self)

    return operator


def _give(symbol: str, operator: Any) -> None:
    operator.__name__ = f"__{symbol}__"
    operator.__qualname__ = f"Array.__{symbol}__"
    setattr(Operators, operator.__name__, operator)


for _symbol, _function in _ARITHMETIC.items():
    _give(_symbol, _binary(_function))
    _give("r" + _symbol, _swapped(_function))
    if _symbol != "matmul":  # whose result may have another shape
        _give("i" + _symbol, _in_place(_function))
for _symbol, _function in _COMPARISONS.items():
    _give(_symbol, _binary(_function))
for _symbol, _function in _OF_ONE.items():
    _give(_symbol, _unary(_function))
