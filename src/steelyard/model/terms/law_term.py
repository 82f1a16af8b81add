"""LawTerm: a term each of whose columns is one law of every joint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import ModelError
from steelyard.model.parameters import Column
from steelyard.model.robot import Joint, Robot
from steelyard.model.terms.law import AppliedLaw, Law
from steelyard.model.terms.term import LOAD, Entry, Motion, joint_entries, linear_unit


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
    tilting     the law takes the load of the next joint, which tilts the bearing, and the column is on the joints
                that have such a joint (`Robot.tilting`). `unit` is that of two revolute joints
    """

    symbol: str
    unit: str
    law: Law
    shape: tuple[float, ...] = ()
    drive: str | None = None
    motors: bool = False
    correction: bool = False
    tilting: bool = False

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
        if self.tilting and not self.law.loaded:
            raise ModelError(
                f"Column '{self.symbol}': the law '{self.law.name}' does not depend on a load. Leave out `tilting`."
            )

    @property
    def nonnegative(self) -> bool:
        return self.law.passive and not self.correction

    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        if self.tilting:
            joints = robot.joints
            return tuple(
                Entry(j, Column(joints[j].name, self.symbol, self._tilting_unit(joints[j], joints[k])))
                for j, k in robot.tilting
            )
        nominal = tuple(None if self.drive is None else getattr(joint.drive, self.drive) for joint in robot.joints)
        own = joint_entries(robot, self.symbol, self.unit, nominal)
        if not self.motors:
            return own
        joints = robot.joints
        units = [linear_unit(self.unit) if joint.is_prismatic else self.unit for joint in joints]
        return own + tuple(Entry(j, Column(joints[k].name, f"{self.symbol}m", units[k])) for k, j in robot.coupled)

    def _tilting_unit(self, joint: Joint, following: Joint) -> str:
        """The unit where a force of one of the joints corresponds to a torque of the other."""
        if self.unit != "1" or joint.is_prismatic == following.is_prismatic:
            return self.unit
        return "1/m" if joint.is_prismatic else "m"

    def fill(self, robot: Robot, motion: Motion) -> Array:
        """Values (entries, B)."""
        x = motion.q if self.law.of == "q" else motion.a if self.law.of == "a" else motion.v
        if self.tilting:
            assert motion.load is not None
            own, following = np.array(robot.tilting, np.int64).reshape(-1, 2).T
            return self.law.value(x[own], motion.load[following], *self.shape)
        inputs = (motion.load,) if self.law.loaded else ()
        own = self.law.value(x, *inputs, *self.shape)
        if not (self.motors and robot.coupled):
            return own
        k, _, share = robot.coupled_arrays
        return np.concatenate([own, share * self.law.value(robot.motor_map @ x, *self.shape)[k]])

    def laws(self, robot: Robot) -> tuple[AppliedLaw, ...]:
        unit = np.eye(robot.dof)
        if self.tilting:
            return tuple(AppliedLaw(self.law, unit[j], self.shape, load_of=k) for j, k in robot.tilting)
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
