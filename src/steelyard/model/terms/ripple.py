"""Torque ripple that repeats with the position of the motor or the gear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import ModelError
from steelyard.model.robot import Robot
from steelyard.model.terms.law import AppliedLaw
from steelyard.model.terms.laws import COSINE, SINE
from steelyard.model.terms.term import GOLDEN, Cycles, Entry, Motion, Offer, joint_entries


@final
@dataclass(frozen=True)
class Ripple:
    """τ_j += Rs_j sin(cycles_j q_j) + Rc_j cos(cycles_j q_j)  [N·m].

    `cycles` per joint turn, one number or one per joint: the gear ratio for once per motor turn, twice the ratio for a
    strain-wave gear, ratio × pole pairs for cogging. Columns `joint.Rs` and `joint.Rc`, `joint.Rsx` and `joint.Rcx` for
    a placebo. `placebo` multiplies the cycles by the golden ratio: a frequency that no gear has and that must not help.
    """

    cycles: float | Sequence[float] = 1.0
    placebo: bool = False
    name: ClassVar[str] = "ripple"

    def __post_init__(self) -> None:
        if not isinstance(self.cycles, int | float):
            object.__setattr__(self, "cycles", tuple(self.cycles))
        if not np.all(np.isfinite(self.cycles)) or np.any(np.asarray(self.cycles) <= 0.0):
            raise ValueError(f"The cycles of a ripple must be positive [per joint turn], not {self.cycles!r}.")

    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        mark = "x" if self.placebo else ""
        silent = (None,) * robot.dof
        return joint_entries(robot, f"Rs{mark}", "N.m", silent) + joint_entries(robot, f"Rc{mark}", "N.m", silent)

    def fill(self, robot: Robot, motion: Motion) -> Array:
        cycles = self._of_joints(robot)[:, None]
        return np.concatenate([law.value(motion.q, cycles) for law in (SINE, COSINE)])

    def laws(self, robot: Robot) -> tuple[AppliedLaw, ...]:
        every = tuple(zip(np.eye(robot.dof), self._of_joints(robot), strict=True))
        return tuple(AppliedLaw(law, own, (float(cycles),)) for law in (SINE, COSINE) for own, cycles in every)

    def _of_joints(self, robot: Robot) -> Array:
        """Cycles of each joint, (n,)."""
        cycles = np.asarray(self.cycles, float)
        if cycles.ndim and len(cycles) != robot.dof:
            raise ModelError(f"Term 'ripple' lists {len(cycles)} cycles for the {robot.dof} joints of '{robot.name}'.")
        return np.broadcast_to(cycles, robot.dof) * (GOLDEN if self.placebo else 1.0)

    @classmethod
    def offers(cls, cycles: Cycles) -> tuple[Offer, ...]:
        if cycles is None:
            return ()
        placebo = "ripple at a wrong frequency"
        return (Offer("ripple", cls(cycles), rival=placebo), Offer(placebo, cls(cycles, placebo=True), placebo=True))
