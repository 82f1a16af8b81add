"""The contract of a term: an effect that is linear in its parameters and adds to the joint torques.

A term names its columns once and fills them on a tile of samples:

    τ[row_e] += value_e(t) · θ[column_e]      for every entry e

`entries` says which (joint row, column) pairs are not zero; `fill` gives their values in that order, as an array
(entries, B). A column may be fed by several terms (a wrist coupling adds to the rotor's column): contributions add,
and the first term that names the column states its unit and nominal value. What a term takes from the acceleration must
not depend on q (it goes into the mass matrix as a constant).

Optional parts of the contract:

    laws(robot)     the entries' values as data, an `AppliedLaw` each. A term with laws can be simulated, designed for
                    and exported; None for a robot where it cannot
    needs           names of the terms that it requires in the same model
    uses            what it takes besides q, v and a, of "time", "load" and "past"; `Motion` then holds the values
    nonnegative     symbols of its columns whose parameters are never negative
    offers(cycles)  class method: the forms of the term that a selection of terms tries; `cycles` per joint turn of the
                    gears where they are known, else None
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from steelyard._arrays import Array
from steelyard.model.parameters import Column
from steelyard.model.robot import Robot
from steelyard.model.terms.law import AppliedLaw


class Motion(NamedTuple):
    """A tile of consecutive samples: joint positions, velocities and accelerations, each (n, B) [rad | m, /s, /s²].

    t      (B,) time since the run's start [s], for terms that use "time"
    load   (n, B) torque the gears carry, for terms that use "load" [N·m | N]
    past   memory of terms that use "past", carried from tile to tile, by their column names; a new dict: no memory yet
    base   (9, B) motion of a floating base, see `model.floating.base_motion`
    """

    q: Array
    v: Array
    a: Array
    t: Array | None = None
    load: Array | None = None
    past: dict[str, Any] | None = None
    base: Array | None = None


class Entry(NamedTuple):
    """A place of the regressor that a term fills: the joint's row and the column."""

    row: int
    column: Column


TIME, LOAD, PAST = "time", "load", "past"
# For placebos: a ratio that no gear has.
GOLDEN = 0.5 * (1.0 + 5.0**0.5)


@runtime_checkable
class Term(Protocol):
    """What the model requires of a term. Options are the fields of a frozen dataclass."""

    name: ClassVar[str]

    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        """The places this term fills, in the order of `fill`'s rows."""
        ...

    def fill(self, robot: Robot, motion: Motion) -> Array:
        """Values (entries, B) of those places for a tile of motion."""
        ...


def uses(term: Term) -> tuple[str, ...]:
    """What a term takes from the motion besides q, v and a."""
    return getattr(term, "uses", ())


def laws_of(term: Term, robot: Robot) -> tuple[AppliedLaw, ...] | None:
    """The laws of a term's entries; None where it has none."""
    laws: Callable[[Robot], tuple[AppliedLaw, ...] | None] | None = getattr(term, "laws", None)
    return None if laws is None else laws(robot)


@dataclass(frozen=True)
class Offer:
    """A term that a selection tries under a label. A placebo has the form of one and no meaning; an offer with a
    `rival` (the label of a placebo) must improve the fit by more than that."""

    label: str
    term: Term
    placebo: bool = False
    rival: str | None = None


Cycles = Sequence[float] | float | None


def joint_entries(robot: Robot, symbol: str, unit: str, nominal: tuple[float | None, ...]) -> tuple[Entry, ...]:
    """A column `joint.symbol` per joint, in its own row; N.m becomes N for a prismatic joint."""
    return tuple(
        Entry(j, Column(joint.name, symbol, linear_unit(unit) if joint.is_prismatic else unit, value))
        for j, (joint, value) in enumerate(zip(robot.joints, nominal, strict=True))
    )


def linear_unit(unit: str) -> str:
    """The unit of a prismatic joint that corresponds to a drive-chain unit of a revolute one."""
    return {
        "kg.m2": "kg", "N.m.s": "N.s/m", "N.m": "N", "N.m.s^p": "N.(s/m)^p", "N.m/h": "N/h", "N.m.s/h": "N.s/m/h",
        "(N.m)^(1-p)": "N^(1-p)",
    }.get(unit, unit)  # fmt: skip


def shape_name(value: float) -> str:
    """A shape parameter as part of a column's symbol, without a dot: 2 → "2", 0.5 → "0p5"."""
    return f"{value:g}".replace(".", "p").replace("-", "m").replace("+", "")


@dataclass(frozen=True)
class Width:
    """Shared option of terms with a sign: 0 for sign(v), else the width of tanh(v / width) [rad/s | m/s]."""

    width: float = 0.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.width) and self.width >= 0.0):
            raise ValueError(f"The width of a smooth sign must be zero or positive, not {self.width!r}.")
