"""Motors that turn with more than one joint (wrists)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from steelyard.errors import ModelError
from steelyard.parameters import Array, Column
from steelyard.robot import Robot
from steelyard.terms.term import Entry, Motion, Width, linear_unit, smooth_sign


@final
@dataclass(frozen=True)
class Coupling(Width):
    """Rotor inertia and friction of coupled motors, q̇_motor = C q̇ and τ = Cᵀ τ_motor (P0 eqs 34–35, corrected).

    For a motor k that turns with several joints, in every row j with C_kj ≠ 0 and with ω_k = (C q̇)_k, ω̇_k = (C q̈)_k:
        joint_k.Ia  (shared with Rotor)  C_kj (ω̇_k − C_kj q̈_j)
        joint_k.Fvm                      C_kj (ω_k − C_kj q̇_j)
        joint_k.Fcm                      C_kj sign(ω_k)
    The self terms C_kj² q̈_j and C_kj² q̇_j stay in joint_j's own Ia and Fv, which therefore contain the motor's part,
    as in the papers (Ia₅ = N₅²Ja₅ + N₆²Ja₆).
    """

    name: ClassVar[str] = "coupling"
    needs: ClassVar[tuple[str, ...]] = ("rotor",)

    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        pairs = robot.coupled
        if not pairs:
            raise ModelError(
                f"Term 'coupling' needs a robot with coupled motors, and '{robot.name}' has none. "
                "Leave the term out, or state the coupling in the robot file ([coupling] joint6 = { joint5 = 1.0 })."
            )

        def column(k: int, symbol: str, unit: str) -> Column:
            joint = robot.joints[k]
            name = f"{joint.name}.{symbol}"
            unit = linear_unit(unit) if joint.is_prismatic else unit
            return Column(joint.name, symbol, unit, robot.nominal.get(name))

        kinds = (("Ia", "kg.m2"), ("Fvm", "N.m.s"), ("Fcm", "N.m"))
        return tuple(Entry(j, column(k, symbol, unit)) for symbol, unit in kinds for k, j in pairs)

    def fill(self, robot: Robot, motion: Motion) -> Array:
        k, j = np.array(robot.coupled).T
        share = robot.motor_map[k, j][:, None]
        speed, acceleration = robot.motor_map @ motion.v, robot.motor_map @ motion.a
        inertia = share * (acceleration[k] - share * motion.a[j])
        viscous = share * (speed[k] - share * motion.v[j])
        return np.concatenate([inertia, viscous, share * smooth_sign(speed[k], self.width)])
