"""Straight-line code: sums of products of names, and the statements that name them.

A recursion over the links is carried out once on expressions instead of numbers. Products with zero vanish, factors of
one are left out, and statements whose name is not used are dropped: the code of a robot contains only the arithmetic
that this robot needs. The same text is valid C and Python: both have + − * /, and NumPy's functions are imported under
C's names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import ModelError
from steelyard.model.terms.law import CODE_FUNCTIONS

_NAME = re.compile(r"\b[A-Za-z_]\w*")
# Functions that statements may call, by their names in C, and how Python imports them from NumPy.
_NUMPY = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2",
    "atanh": "arctanh", "pow": "power",
}  # fmt: skip
FUNCTIONS = {name: f"{_NUMPY[name]} as {name}" if name in _NUMPY else name for name in CODE_FUNCTIONS}


@dataclass(frozen=True)
class Expression:
    """Σ coefficient · product of names, e.g. {(): 0.5, ("s3", "w2x"): -1.0}; a coefficient is never zero."""

    terms: Mapping[tuple[str, ...], float]

    def __add__(self, other: Expression) -> Expression:
        return _sum((self, other))

    def __sub__(self, other: Expression | float) -> Expression:
        return _sum((self, -other if isinstance(other, Expression) else number(-other)))

    def __neg__(self) -> Expression:
        return Expression({key: -x for key, x in self.terms.items()})

    def __mul__(self, other: Expression) -> Expression:
        products = (
            Expression({a + b: x * y}) for a, x in self.terms.items() for b, y in other.terms.items() if x * y != 0.0
        )
        return _sum(products)

    def __rmul__(self, factor: float) -> Expression:
        return number(factor) * self

    @property
    def simple(self) -> bool:
        """A number, a name or its negative: naming it would not make the code shorter."""
        if len(self.terms) > 1:
            return False
        return all(key == () or (len(key) == 1 and abs(x) == 1.0) for key, x in self.terms.items())

    def __str__(self) -> str:
        if not self.terms:
            return "0.0"
        text = "".join(_signed(key, x) for key, x in self.terms.items())
        return text.removeprefix(" + ") if text.startswith(" + ") else text.replace(" - ", "-", 1)


def _sum(parts: Iterable[Expression]) -> Expression:
    out: dict[tuple[str, ...], float] = {}
    for part in parts:
        for key, x in part.terms.items():
            out[key] = out.get(key, 0.0) + x
    return Expression({key: x for key, x in out.items() if x != 0.0})


def _signed(key: tuple[str, ...], x: float) -> str:
    size = abs(x)
    factors = key if key and size == 1.0 else (repr(size), *key)
    return (" - " if x < 0.0 else " + ") + "*".join(factors)


ZERO = Expression({})


def number(x: float) -> Expression:
    """A constant; written so that it reads back to the same bits."""
    x = float(x)
    if not np.isfinite(x):
        raise ModelError(f"A constant of the exported code is {x}: give every parameter a finite number.")
    return Expression({(): x}) if x != 0.0 else ZERO


def named(name: str) -> Expression:
    """The expression of a name, e.g. "v[2]"."""
    return Expression({(name,): 1.0})


def combination(weights: Array, name: str) -> Expression:
    """weights · name, e.g. 0.5*v[4] + v[5]."""
    return _sum(number(x) * named(f"{name}[{k}]") for k, x in enumerate(weights))


# --- Vectors of three -------------------------------------------------------------------------------------------------

Vector = tuple[Expression, Expression, Expression]
Matrix = tuple[Vector, Vector, Vector]
NOWHERE: Vector = (ZERO, ZERO, ZERO)


def numbers(values: Array) -> Vector:
    return vector([number(float(value)) for value in values])


def vector(values: Sequence[Expression]) -> Vector:
    x, y, z = values
    return x, y, z


def matrix(rows: Sequence[Sequence[Expression]]) -> Matrix:
    x, y, z = (vector(row) for row in rows)
    return x, y, z


def plus(*vectors: Vector) -> Vector:
    return vector([_sum(parts) for parts in zip(*vectors, strict=True)])


def scaled(factor: Expression, x: Vector) -> Vector:
    return factor * x[0], factor * x[1], factor * x[2]


def dot(a: Vector, b: Vector) -> Expression:
    return _sum(x * y for x, y in zip(a, b, strict=True))


def cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def turned(a: Matrix, x: Vector) -> Vector:
    """A x."""
    return dot(a[0], x), dot(a[1], x), dot(a[2], x)


def transposed(a: Matrix) -> Matrix:
    return matrix(tuple(zip(*a, strict=True)))


# --- Statements -------------------------------------------------------------------------------------------------------


class Statement(NamedTuple):
    """`name = text`, with the heading of the part it belongs to."""

    name: str
    text: str
    heading: str


@dataclass
class Program:
    """Statements in the order in which they were made; `outputs` are assignments such as tau[0] = …."""

    statements: list[Statement] = field(default_factory=list)
    outputs: list[Statement] = field(default_factory=list)
    heading: str = ""
    _called: dict[str, Expression] = field(default_factory=dict)

    def let(self, name: str, value: Expression) -> Expression:
        """The value as a name, or the value itself if it is simple."""
        if value.simple:
            return value
        self.statements.append(Statement(name, str(value), self.heading))
        return named(name)

    def let_vector(self, name: str, values: Vector) -> Vector:
        return vector([self.let(f"{name}{axis}", value) for axis, value in zip("xyz", values, strict=True)])

    def call(self, name: str, text: str) -> Expression:
        """A name for a value that is not a sum of products; the same text is computed once."""
        if text not in self._called:
            self.statements.append(Statement(name, text, self.heading))
            self._called[text] = named(name)
        return self._called[text]

    def give(self, target: str, value: Expression) -> None:
        self.outputs.append(Statement(target, str(value), self.heading))

    def live(self) -> tuple[Sequence[Statement], set[str]]:
        """The statements that the outputs need, and every name that occurs in them."""
        used = {name for output in self.outputs for name in _NAME.findall(output.text)}
        kept: list[Statement] = []
        for statement in reversed(self.statements):
            if statement.name in used:
                kept.append(statement)
                used.update(_NAME.findall(statement.text))
        return kept[::-1], used
