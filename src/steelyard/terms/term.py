"""The contract of a term: an effect that is linear in its parameters and adds to the joint torques.

A term names its columns once and fills them on a tile of samples:

    τ[row_e] += value_e(t) · θ[column_e]      for every entry e

`entries` says which (joint row, column) pairs are not zero; `fill` gives their values in that order, as an array
(entries, B). A column may be fed by several terms (a wrist coupling adds to the rotor's column): contributions add,
and the first term that names the column says its unit and nominal value. A term that only makes sense beside
another says so in a class attribute `needs`. What a term takes from the acceleration must not depend on q (it goes
into the mass matrix as a constant).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from steelyard.parameters import Array, Column
from steelyard.robot import Robot


class Motion(NamedTuple):
    """Joint positions, velocities and accelerations of a tile, each (n, B) [rad | m, /s, /s²]."""

    q: Array
    v: Array
    a: Array


class Entry(NamedTuple):
    """A place of the regressor that a term fills: the joint's row and the column."""

    row: int
    column: Column


@runtime_checkable
class Term(Protocol):
    """What the model asks of a term. Options are the fields of a frozen dataclass."""

    name: ClassVar[str]

    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        """The places this term fills, in the order of `fill`'s rows."""
        ...

    def fill(self, robot: Robot, motion: Motion) -> Array:
        """Values (entries, B) of those places for a tile of motion."""
        ...


def smooth_sign(v: Array, width: float) -> Array:
    """sign(v), or tanh(v / width) where a width [rad/s | m/s] is stated."""
    return np.sign(v) if width == 0.0 else np.tanh(v / width)


def per_joint(robot: Robot, symbol: str, unit: str, nominal: tuple[float | None, ...]) -> tuple[Entry, ...]:
    """One column `joint.symbol` for every joint, on its own row; a prismatic joint's N.m become N."""
    return tuple(
        Entry(j, Column(joint.name, symbol, linear_unit(unit) if joint.is_prismatic else unit, value))
        for j, (joint, value) in enumerate(zip(robot.joints, nominal, strict=True))
    )


def linear_unit(unit: str) -> str:
    """The prismatic twin of a rotary drive-chain unit."""
    return {"kg.m2": "kg", "N.m.s": "N.s/m", "N.m": "N"}.get(unit, unit)


@dataclass(frozen=True)
class Width:
    """Shared option of the friction terms: 0 for sign(v), else the width of tanh(v / width) [rad/s | m/s]."""

    width: float = 0.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.width) and self.width >= 0.0):
            raise ValueError(f"The width of a smooth sign must be zero or positive, not {self.width!r}.")
