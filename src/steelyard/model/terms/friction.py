"""Viscous and Coulomb friction, their asymmetric kinds, and a constant offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from steelyard._arrays import Array
from steelyard._kernels.laws import ABSOLUTE, CONSTANT, NEGATIVE_SIGN, POSITIVE_SIGN, SMOOTH_SIGN, VISCOUS
from steelyard.model.robot import Robot
from steelyard.model.terms.term import Entry, Law, Motion, Width, joint_entries, joint_laws, smooth_sign


@final
@dataclass(frozen=True)
class Viscous:
    """τ_j += Fv_j q̇_j  [N·m·s]."""

    name: ClassVar[str] = "viscous"

    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        return joint_entries(robot, "Fv", "N.m.s", tuple(j.drive.viscous for j in robot.joints))

    def fill(self, robot: Robot, motion: Motion) -> Array:
        return motion.v

    def laws(self, robot: Robot) -> tuple[Law, ...]:
        return joint_laws(robot, VISCOUS)


@final
@dataclass(frozen=True)
class Coulomb(Width):
    """τ_j += Fc_j sign(q̇_j)  [N·m], with tanh(q̇ / width) for a stated width."""

    name: ClassVar[str] = "coulomb"

    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        return joint_entries(robot, "Fc", "N.m", tuple(j.drive.coulomb for j in robot.joints))

    def fill(self, robot: Robot, motion: Motion) -> Array:
        return smooth_sign(motion.v, self.width)

    def laws(self, robot: Robot) -> tuple[Law, ...]:
        return joint_laws(robot, SMOOTH_SIGN, self.width)


@final
@dataclass(frozen=True)
class AsymmetricCoulomb(Width):
    """Two levels: τ_j += Fcp_j max(s, 0) + Fcn_j min(s, 0) with s = sign(q̇_j), both positive for real friction.

    With an offset beside it one of the three cannot be told apart (Fcp − Fcn moves into the offset): the base
    parameters show the regrouping.
    """

    name: ClassVar[str] = "asymmetric-coulomb"

    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        nominal = tuple(j.drive.coulomb for j in robot.joints)
        return joint_entries(robot, "Fcp", "N.m", nominal) + joint_entries(robot, "Fcn", "N.m", nominal)

    def fill(self, robot: Robot, motion: Motion) -> Array:
        sign = smooth_sign(motion.v, self.width)
        return np.concatenate([np.maximum(sign, 0.0), np.minimum(sign, 0.0)])

    def laws(self, robot: Robot) -> tuple[Law, ...]:
        return joint_laws(robot, POSITIVE_SIGN, self.width) + joint_laws(robot, NEGATIVE_SIGN, self.width)


@final
@dataclass(frozen=True)
class AsymmetricViscous:
    """The even part of viscous friction: τ_j += Fve_j |q̇_j|  [N·m·s]; Fv ± Fve are the slopes of the two ways."""

    name: ClassVar[str] = "asymmetric-viscous"
    needs: ClassVar[tuple[str, ...]] = ("viscous",)

    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        return joint_entries(robot, "Fve", "N.m.s", (None,) * robot.dof)

    def fill(self, robot: Robot, motion: Motion) -> Array:
        return np.abs(motion.v)

    def laws(self, robot: Robot) -> tuple[Law, ...]:
        return joint_laws(robot, ABSOLUTE)


@final
@dataclass(frozen=True)
class Offset:
    """τ_j += off_j  [N·m]: current offset and the even part of asymmetric friction."""

    name: ClassVar[str] = "offset"

    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        return joint_entries(robot, "off", "N.m", tuple(j.drive.offset for j in robot.joints))

    def fill(self, robot: Robot, motion: Motion) -> Array:
        return np.ones_like(motion.v)

    def laws(self, robot: Robot) -> tuple[Law, ...]:
        return joint_laws(robot, CONSTANT)
