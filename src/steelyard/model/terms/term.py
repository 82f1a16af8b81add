"""The contract of a term: an effect that is linear in its parameters and adds to the joint torques.

A term names its columns once and fills them on a tile of samples:

    τ[row_e] += value_e(t) · θ[column_e]      for every entry e

`entries` says which (joint row, column) pairs are not zero; `fill` gives their values in that order, as an array
(entries, B). A column may be fed by several terms (a wrist coupling adds to the rotor's column): contributions add,
and the first term that names the column says its unit and nominal value. What a term takes from the acceleration must
not depend on q (it goes into the mass matrix as a constant).

A term that can be simulated has a method `laws(robot)` beside them: for every entry the same value as data, a `Law`.

Two class attributes are optional: `needs` names the terms it only makes sense beside; `uses` lists what it takes
besides q, v and a, of "time", "load" and "past". Of these `Motion` then holds the values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from steelyard._arrays import Array
from steelyard.model.parameters import Column
from steelyard.model.robot import Robot


class Motion(NamedTuple):
    """A tile of consecutive samples: joint positions, velocities and accelerations, each (n, B) [rad | m, /s, /s²].

    t      (B,) time since the run's start [s], for terms that use "time"
    load   (n, B) torque the gears carry, for terms that use "load" [N·m | N]
    past   what terms that use "past" carry from one tile to the next, by their column names; a new dict starts anew
    """

    q: Array
    v: Array
    a: Array
    t: Array | None = None
    load: Array | None = None
    past: dict[str, Any] | None = None


class Entry(NamedTuple):
    """A place of the regressor that a term fills: the joint's row and the column."""

    row: int
    column: Column


class Law(NamedTuple):
    """The value of an entry as data for the compiled simulation: share · f(x; shape), f by `kind` of `kernels.laws`.

    The coordinate x is along · q, along · q̇ or along · q̈ with `along` (n,), as the kind says: a joint's own position
    or velocity, or the speed of a motor that turns with several joints.
    """

    kind: int
    along: Array
    shape: tuple[float, ...] = ()
    share: float = 1.0


TIME, LOAD, PAST = "time", "load", "past"
# For placebos: the ratio no gear has.
GOLDEN = 0.5 * (1.0 + 5.0**0.5)


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


def uses(term: Term) -> tuple[str, ...]:
    """What a term takes from the motion besides q, v and a."""
    return getattr(term, "uses", ())


def laws_of(term: Term, robot: Robot) -> tuple[Law, ...] | None:
    """The laws of a term's entries, None where it cannot be simulated."""
    laws: Callable[[Robot], tuple[Law, ...] | None] | None = getattr(term, "laws", None)
    return None if laws is None else laws(robot)


def smooth_sign(v: Array, width: float) -> Array:
    """sign(v), or tanh(v / width) where a width [rad/s | m/s] is stated."""
    return np.sign(v) if width == 0.0 else np.tanh(v / width)


def joint_entries(robot: Robot, symbol: str, unit: str, nominal: tuple[float | None, ...]) -> tuple[Entry, ...]:
    """One column `joint.symbol` for every joint, on its own row; a prismatic joint's N.m become N."""
    return tuple(
        Entry(j, Column(joint.name, symbol, linear_unit(unit) if joint.is_prismatic else unit, value))
        for j, (joint, value) in enumerate(zip(robot.joints, nominal, strict=True))
    )


def linear_unit(unit: str) -> str:
    """The prismatic twin of a rotary drive-chain unit."""
    return {
        "kg.m2": "kg", "N.m.s": "N.s/m", "N.m": "N", "N.m.s^p": "N.(s/m)^p", "N.m/h": "N/h", "N.m.s/h": "N.s/m/h",
        "(N.m)^(1-p)": "N^(1-p)",
    }.get(unit, unit)  # fmt: skip


def per_motor(robot: Robot, symbol: str, unit: str) -> tuple[Entry, ...]:
    """One column a joint, and `joint.symbol + m` for the friction of every motor k that turns with several joints."""
    own = joint_entries(robot, symbol, unit, (None,) * robot.dof)
    return own + tuple(
        Entry(
            j, Column(robot.joints[k].name, f"{symbol}m", linear_unit(unit) if robot.joints[k].is_prismatic else unit)
        )
        for k, j in robot.coupled
    )


def motor_friction(robot: Robot, v: Array, law: Callable[[Array], Array]) -> Array:
    """Values of `per_motor`'s entries: law(q̇_j) in row j, and C_kj law((C q̇)_k) for coupled motors (P0 eq. 35)."""
    own = law(v)
    if not robot.coupled:
        return own
    k, _, share = robot.coupled_arrays
    return np.concatenate([own, share * law(robot.motor_map @ v)[k]])


def joint_laws(robot: Robot, kind: int, *shape: float) -> tuple[Law, ...]:
    """The laws of `joint_entries`'s entries: each of its own joint."""
    return tuple(Law(kind, own, shape) for own in np.eye(robot.dof))


def motor_laws(robot: Robot, kind: int, *shape: float) -> tuple[Law, ...]:
    """The laws of `per_motor`'s entries, as `motor_friction` fills them."""
    coupled = (Law(kind, robot.motor_map[k], shape, float(robot.motor_map[k, j])) for k, j in robot.coupled)
    return (*joint_laws(robot, kind, *shape), *coupled)


def shape_name(value: float) -> str:
    """A shape parameter as part of a column's symbol, without a dot: 2 → "2", 0.5 → "0p5"."""
    return f"{value:g}".replace(".", "p").replace("-", "m").replace("+", "")


@dataclass(frozen=True)
class Width:
    """Shared option of the friction terms: 0 for sign(v), else the width of tanh(v / width) [rad/s | m/s]."""

    width: float = 0.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.width) and self.width >= 0.0):
            raise ValueError(f"The width of a smooth sign must be zero or positive, not {self.width!r}.")
