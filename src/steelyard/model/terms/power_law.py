"""Friction that grows with a power of the speed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from steelyard._arrays import Array
from steelyard._kernels.laws import POWER
from steelyard.model.robot import Robot
from steelyard.model.terms.term import Entry, Law, Motion, motor_friction, motor_laws, per_motor, shape_name


@final
@dataclass(frozen=True)
class PowerLaw:
    """τ_j += Fp_j sign(q̇_j) |q̇_j|^exponent  [N·m·s^p]; column `joint.Fp50` for the default, the square root.

    Lubricated gears shear-thin: their friction bends over between the Coulomb level and the viscous slope, as the root
    does. Motors that turn with several joints (`[coupling]`) get a column `joint.Fp50m` on their own speed.
    """

    exponent: float = 0.5
    name: ClassVar[str] = "power-law"

    def __post_init__(self) -> None:
        if not 0.0 < self.exponent <= 4.0:
            raise ValueError(f"The exponent of a power law must lie above 0 and up to 4, not {self.exponent!r}.")

    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        return per_motor(robot, f"Fp{shape_name(round(100.0 * self.exponent, 6))}", "N.m.s^p")

    def fill(self, robot: Robot, motion: Motion) -> Array:
        if self.exponent == 0.5:
            return motor_friction(robot, motion.v, lambda v: np.copysign(np.sqrt(np.abs(v)), v))
        return motor_friction(robot, motion.v, lambda v: np.copysign(np.abs(v) ** self.exponent, v))

    def laws(self, robot: Robot) -> tuple[Law, ...]:
        return motor_laws(robot, POWER, self.exponent)
