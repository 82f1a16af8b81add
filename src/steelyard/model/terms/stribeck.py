"""Friction that falls off with speed: the Stribeck effect."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from steelyard._arrays import Array
from steelyard._kernels.laws import STRIBECK
from steelyard.model.robot import Robot
from steelyard.model.terms.term import (
    Entry,
    Law,
    Motion,
    Width,
    motor_friction,
    motor_laws,
    per_motor,
    shape_name,
    smooth_sign,
)


@final
@dataclass(frozen=True)
class Stribeck(Width):
    """τ_j += Fs_j sign(q̇_j) exp(−(|q̇_j| / speed)²)  [N·m]: what friction at the lowest speeds exceeds Coulomb's.

    Column `joint.Fs100` for a speed of 100 mrad/s (mm/s on a slide).
    """

    speed: float = 0.1
    # by name only, so that the speed comes first
    width: float = field(default=0.0, kw_only=True)
    name: ClassVar[str] = "stribeck"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (np.isfinite(self.speed) and self.speed > 0.0):
            raise ValueError(f"The Stribeck speed must be positive [rad/s | m/s], not {self.speed!r}.")

    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        return per_motor(robot, f"Fs{shape_name(round(1e3 * self.speed, 6))}", "N.m")

    def fill(self, robot: Robot, motion: Motion) -> Array:
        return motor_friction(robot, motion.v, lambda v: smooth_sign(v, self.width) * np.exp(-((v / self.speed) ** 2)))

    def laws(self, robot: Robot) -> tuple[Law, ...]:
        return motor_laws(robot, STRIBECK, self.width, self.speed)
