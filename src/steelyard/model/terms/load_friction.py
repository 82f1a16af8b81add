"""Friction that grows with the torque a gear carries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from steelyard._arrays import Array
from steelyard._kernels import laws
from steelyard.model.robot import Robot
from steelyard.model.terms.term import (
    LOAD,
    Entry,
    Law,
    Motion,
    Width,
    joint_entries,
    joint_laws,
    shape_name,
    smooth_sign,
)


@final
@dataclass(frozen=True)
class LoadFriction(Width):
    """τ_j += Fl_j sign(q̇_j) |τ_rigid,j|^exponent  [1]: teeth and bearings rub harder under load.

    τ_rigid is the torque of the rigid bodies (and of a gravity compensator) for parameters known beforehand: the
    robot file's nominal ones, or those of a first fit without this term (`Model.carried`). Column `joint.Fl`, or
    `joint.Fl200` for an exponent of 2.
    """

    exponent: float = 1.0
    name: ClassVar[str] = "load"
    uses: ClassVar[tuple[str, ...]] = (LOAD,)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.exponent <= 4.0:
            raise ValueError(f"The exponent of load friction must lie above 0 and up to 4, not {self.exponent!r}.")

    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        if self.exponent == 1.0:
            return joint_entries(robot, "Fl", "1", (None,) * robot.dof)
        return joint_entries(
            robot, f"Fl{shape_name(round(100.0 * self.exponent, 6))}", "(N.m)^(1-p)", (None,) * robot.dof
        )

    def fill(self, robot: Robot, motion: Motion) -> Array:
        assert motion.load is not None
        size = np.abs(motion.load) if self.exponent == 1.0 else np.abs(motion.load) ** self.exponent
        return smooth_sign(motion.v, self.width) * size

    def laws(self, robot: Robot) -> tuple[Law, ...]:
        return joint_laws(robot, laws.LOAD, self.width, self.exponent)
