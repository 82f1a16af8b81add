"""A hydro-pneumatic gravity compensator: its nominal torque as one column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import ModelError
from steelyard.model.parameters import Column
from steelyard.model.robot import Robot
from steelyard.model.springs import GasCompensator
from steelyard.model.terms.law import AppliedLaw
from steelyard.model.terms.laws import GAS
from steelyard.model.terms.term import Entry, Motion


@final
@dataclass(frozen=True)
class Compensator:
    """The torque of a gas cylinder between two links, scaled: τ_j += scale · h p A, with scale 1 ± `width`.

    δ = q_j + angle,  L = √(D² + k² − 2 D k cos δ),  h = D k sin δ / L,  A = π (d_piston² − d_rod²)/4,
    p = Z R T m / (V − (L − (D − k)) A)    (isothermal real gas; Weigand et al. 2021)
    """

    width: float = 0.2
    name: ClassVar[str] = "compensator"

    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        cylinder = _cylinder(robot)
        row = robot.joint_index(cylinder.joint)
        return (Entry(row, Column("compensator", "scale", "1", 1.0, self.width, kind="spring")),)

    def fill(self, robot: Robot, motion: Motion) -> Array:
        cylinder = _cylinder(robot)
        return compensator_torque(cylinder, motion.q[robot.joint_index(cylinder.joint)])[None]

    def laws(self, robot: Robot) -> tuple[AppliedLaw, ...]:
        return (gas_law(robot, _cylinder(robot)),)


def gas_law(robot: Robot, cylinder: GasCompensator) -> AppliedLaw:
    """The torque of the cylinder as data."""
    return AppliedLaw(GAS, np.eye(robot.dof)[robot.joint_index(cylinder.joint)], _shape(cylinder))


def compensator_torque(cylinder: GasCompensator, q: Array) -> Array:
    """Torque the motor must add [N·m] at joint positions q [rad]."""
    return GAS.value(q, *_shape(cylinder))


def _shape(cylinder: GasCompensator) -> tuple[float, ...]:
    """Shape of `laws.GAS`: anchors, angle, area of the piston, volume and charge Z R T m of the gas."""
    area = 0.25 * np.pi * (cylinder.piston_diameter**2 - cylinder.rod_diameter**2)
    charge = cylinder.compressibility * cylinder.gas_constant * cylinder.temperature * cylinder.gas_mass
    return (cylinder.anchor_below, cylinder.anchor_above, cylinder.angle, area, cylinder.gas_volume, charge)


def _cylinder(robot: Robot) -> GasCompensator:
    if robot.compensator is None:
        raise ModelError(
            f"Term 'compensator' needs a robot with a gravity compensator, and '{robot.name}' has none. "
            "Leave the term out, or add a [compensator] table to the robot file."
        )
    return robot.compensator
