"""LawTerm: a term each of whose columns is one law of every joint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import ModelError
from steelyard.model.parameters import Column
from steelyard.model.robot import Robot
from steelyard.model.terms.law import AppliedLaw, Law
from steelyard.model.terms.term import LOAD, Entry, Motion, joint_entries, linear_unit

Neighbour = Literal["next", "previous"]


@final
@dataclass(frozen=True)
class LawColumn:
    """A column `joint.symbol` per joint: τ_j += symbol_j f(x_j; shape).

    unit        of a revolute joint, e.g. "N.m"; a prismatic joint has N in the place of N.m
    shape       the numbers of the law's shape, in the order of `law.shape`
    drive       which of the robot file's drive values is the nominal one: "rotor", "viscous", "coulomb" or "offset"
    motors      adds a column `joint.symbol + m` for every motor k that turns with several joints, on its own speed:
                C_kj f((C q̇)_k) in row j (P0 eq. 35)
    correction  the parameter may be negative although the law is passive: it corrects other friction
    neighbour   the law takes the load of the "next" or "previous" joint in the place of its own; the column is on the
                joints whose bearing that load tilts (`Robot.tilting`), with `symbol2`, `symbol3`, … for the further
                joints on a link that carries several. `unit` is that of two revolute joints
    """

    symbol: str
    unit: str
    law: Law
    shape: tuple[float, ...] = ()
    drive: str | None = None
    motors: bool = False
    correction: bool = False
    neighbour: Neighbour | None = None

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.law.shape):
            raise ModelError(
                f"Column '{self.symbol}': the law '{self.law.name}' has the shape ({', '.join(self.law.shape)}), and "
                f"{self.shape} was given."
            )
        if self.motors and self.law.loaded:
            raise ModelError(
                f"Column '{self.symbol}': the law '{self.law.name}' depends on the load of a joint, which a motor that "
                "drives several joints does not have. Leave out `motors`."
            )
        if self.neighbour is not None and not self.law.loaded:
            raise ModelError(
                f"Column '{self.symbol}': the law '{self.law.name}' does not depend on a load. Leave out `neighbour`."
            )

    @property
    def nonnegative(self) -> bool:
        return self.law.passive and not self.correction

    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        if self.neighbour is not None:
            return self._tilted_entries(robot)
        nominal = tuple(None if self.drive is None else getattr(joint.drive, self.drive) for joint in robot.joints)
        own = joint_entries(robot, self.symbol, self.unit, nominal)
        if not self.motors:
            return own
        joints = robot.joints
        units = [linear_unit(self.unit) if joint.is_prismatic else self.unit for joint in joints]
        return own + tuple(Entry(j, Column(joints[k].name, f"{self.symbol}m", units[k])) for k, j in robot.coupled)

    def _tilted(self, robot: Robot) -> tuple[tuple[int, int], ...]:
        """(joint, neighbour whose load tilts its bearing)."""
        return robot.tilting if self.neighbour == "next" else tuple((k, j) for j, k in robot.tilting)

    def _tilted_entries(self, robot: Robot) -> tuple[Entry, ...]:
        seen: Counter[int] = Counter()
        out = []
        for j, k in self._tilted(robot):
            joint, neighbour = robot.joints[j], robot.joints[k]
            seen[j] += 1
            symbol = self.symbol if seen[j] == 1 else f"{self.symbol}{seen[j]}"
            unit = self.unit
            if unit == "1" and joint.is_prismatic != neighbour.is_prismatic:
                unit = "1/m" if joint.is_prismatic else "m"
            out.append(Entry(j, Column(joint.name, symbol, unit)))
        return tuple(out)

    def fill(self, robot: Robot, motion: Motion) -> Array:
        """Values (entries, B)."""
        x = motion.q if self.law.of == "q" else motion.a if self.law.of == "a" else motion.v
        if self.neighbour is not None:
            assert motion.load is not None
            own, neighbour = np.array(self._tilted(robot), np.int64).reshape(-1, 2).T
            return self.law.value(x[own], motion.load[neighbour], *self.shape)
        inputs = (motion.load,) if self.law.loaded else ()
        own = self.law.value(x, *inputs, *self.shape)
        if not (self.motors and robot.coupled):
            return own
        k, _, share = robot.coupled_arrays
        return np.concatenate([own, share * self.law.value(robot.motor_map @ x, *self.shape)[k]])

    def laws(self, robot: Robot) -> tuple[AppliedLaw, ...]:
        unit = np.eye(robot.dof)
        if self.neighbour is not None:
            return tuple(AppliedLaw(self.law, unit[j], self.shape, load_of=k) for j, k in self._tilted(robot))
        own = tuple(AppliedLaw(self.law, along, self.shape) for along in unit)
        if not self.motors:
            return own
        map = robot.motor_map
        return own + tuple(AppliedLaw(self.law, map[k], self.shape, float(map[k, j])) for k, j in robot.coupled)


class LawTerm(ABC):
    """A term made of laws: a frozen dataclass of options with a `name` that says what its columns are."""

    name: ClassVar[str]

    @abstractmethod
    def columns(self) -> tuple[LawColumn, ...]:
        """The columns per joint, for the options of this term."""

    @property
    @final
    def uses(self) -> tuple[str, ...]:
        return (LOAD,) if any(column.law.loaded for column in self.columns()) else ()

    @property
    @final
    def nonnegative(self) -> tuple[str, ...]:
        return tuple(column.symbol for column in self.columns() if column.nonnegative)

    @final
    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        return tuple(entry for column in self.columns() for entry in column.entries(robot))

    @final
    def fill(self, robot: Robot, motion: Motion) -> Array:
        values = [column.fill(robot, motion) for column in self.columns()]
        return values[0] if len(values) == 1 else np.concatenate(values)

    @final
    def laws(self, robot: Robot) -> tuple[AppliedLaw, ...]:
        return tuple(law for column in self.columns() for law in column.laws(robot))
