"""Motors that turn with more than one joint (wrists)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, final

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import ModelError
from steelyard.model.parameters import Column
from steelyard.model.robot import Robot
from steelyard.model.terms.law import AppliedLaw
from steelyard.model.terms.laws import ACCELERATION, SMOOTH_SIGN, VISCOUS
from steelyard.model.terms.term import Entry, Motion, Width, linear_unit


@final
@dataclass(frozen=True)
class Coupling(Width):
    """Rotor inertia and friction of coupled motors, q̇_motor = C q̇ and τ = Cᵀ τ_motor (P0 eqs 34–35, corrected).

    For a motor k that turns with several joints, in every row j with C_kj ≠ 0 and with ω_k = (C q̇)_k, ω̇_k = (C q̈)_k:
        rotor J_k      C_kj (ω̇_k − C_kj q̈_j)
        joint_k.Fvm    C_kj (ω_k − C_kj q̇_j)
        joint_k.Fcm    C_kj sign(ω_k)
    The self terms C_kj² q̈_j and C_kj² q̇_j stay in joint_j's own Ia and Fv, which contain the motors' parts, as in the
    papers (Ia₅ = N₅²Ja₅ + N₆²Ja₆): Ia = (C∘C)ᵀ J. Hence J = (C∘C)⁻ᵀ Ia, and no new inertia is identified: the cross
    terms are added to the columns joint.Ia of the rotor term.
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
            unit = linear_unit(unit) if joint.is_prismatic else unit
            return Column(joint.name, symbol, unit, robot.nominal.get(f"{joint.name}.{symbol}"))

        tied, _ = _tied(robot)
        inertia = tuple(Entry(j, column(m, "Ia", "kg.m2")) for m, j in tied)
        friction = (("Fvm", "N.m.s"), ("Fcm", "N.m"))
        return inertia + tuple(Entry(j, column(k, symbol, unit)) for symbol, unit in friction for k, j in pairs)

    def fill(self, robot: Robot, motion: Motion) -> Array:
        k, j, share = robot.coupled_arrays
        speed, acceleration = robot.motor_map @ motion.v, robot.motor_map @ motion.a
        inertia = _tied(robot)[1] @ (share * (acceleration[k] - share * motion.a[j]))
        viscous = share * (speed[k] - share * motion.v[j])
        return np.concatenate([inertia, viscous, share * SMOOTH_SIGN.value(speed[k], self.width)])

    def laws(self, robot: Robot) -> tuple[AppliedLaw, ...]:
        k, j, share = robot.coupled_arrays
        # C_kj (C_k − C_kj e_j), what a motor feels of the other joints
        cross = share * (robot.motor_map[k] - share * np.eye(robot.dof)[j])
        return (
            *(AppliedLaw(ACCELERATION, along) for along in _tied(robot)[1] @ cross),
            *(AppliedLaw(VISCOUS, along) for along in cross),
            *(
                AppliedLaw(SMOOTH_SIGN, robot.motor_map[m], (self.width,), float(part))
                for m, part in zip(k, share[:, 0], strict=True)
            ),
        )


def _tied(robot: Robot) -> tuple[tuple[tuple[int, int], ...], Array]:
    return _tied_inertia(robot.motor_map.tobytes(), robot.dof, robot.coupled)


@lru_cache(maxsize=64)
def _tied_inertia(
    motor_map: bytes, dof: int, pairs: tuple[tuple[int, int], ...]
) -> tuple[tuple[tuple[int, int], ...], Array]:
    """Places (m, j) of the columns joint_m.Ia in row j, and how the motors' cross terms (pairs) add up to them.

    J_k = Σ_m S_km Ia_m with S = (C∘C)⁻ᵀ, so place (m, j) takes S_km of the cross term of every pair (k, j).
    """
    c = np.frombuffer(motor_map).reshape(dof, dof)
    shares = np.linalg.inv(c * c).T
    shares[np.abs(shares) < 1e-12] = 0.0
    places = tuple(dict.fromkeys((m, j) for k, j in pairs for m in range(dof) if shares[k, m] != 0.0))
    mixing = np.array([[shares[k, m] if i == j else 0.0 for k, i in pairs] for m, j in places])
    return places, mixing
