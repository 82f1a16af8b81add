"""Rotor inertia seen from the joint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from steelyard._arrays import Array
from steelyard._kernels.laws import ACCELERATION
from steelyard.model.robot import Robot
from steelyard.model.terms.term import Entry, Law, Motion, joint_entries, joint_laws


@final
@dataclass(frozen=True)
class Rotor:
    """Inertia of motor and gear, N² J [kg·m²]:  τ_j += Ia_j q̈_j  (P0 eq. 3)."""

    name: ClassVar[str] = "rotor"

    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        return joint_entries(robot, "Ia", "kg.m2", tuple(j.drive.rotor for j in robot.joints))

    def fill(self, robot: Robot, motion: Motion) -> Array:
        return motion.a

    def laws(self, robot: Robot) -> tuple[Law, ...]:
        return joint_laws(robot, ACCELERATION)
