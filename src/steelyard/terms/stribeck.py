"""Friction that falls off with speed: the Stribeck effect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from steelyard.parameters import Array
from steelyard.robot import Robot
from steelyard.terms.term import Entry, Motion, motor_friction, per_motor, shape_name


@final
@dataclass(frozen=True)
class Stribeck:
    """τ_j += Fs_j sign(q̇_j) exp(−(|q̇_j| / speed)²)  [N·m]: what friction at the lowest speeds exceeds Coulomb's.

    Column `joint.Fs100` for a speed of 100 mrad/s (mm/s on a slide).
    """

    speed: float = 0.1
    name: ClassVar[str] = "stribeck"

    def __post_init__(self) -> None:
        if not (np.isfinite(self.speed) and self.speed > 0.0):
            raise ValueError(f"The Stribeck speed must be positive [rad/s | m/s], not {self.speed!r}.")

    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        return per_motor(robot, f"Fs{shape_name(round(1e3 * self.speed, 6))}", "N.m")

    def fill(self, robot: Robot, motion: Motion) -> Array:
        return motor_friction(robot, motion.v, lambda v: np.sign(v) * np.exp(-((v / self.speed) ** 2)))
