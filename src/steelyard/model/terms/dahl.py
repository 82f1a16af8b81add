"""Pre-sliding: friction that reverses only after a little travel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from steelyard._arrays import Array
from steelyard._kernels.laws import dahl_states
from steelyard.model.robot import Robot
from steelyard.model.terms.law import AppliedLaw
from steelyard.model.terms.laws import DAHL
from steelyard.model.terms.term import PAST, Cycles, Entry, Motion, Offer, joint_entries, shape_name


@final
@dataclass(frozen=True)
class Dahl:
    """τ_j += Fd_j z_j  [N·m] with Dahl's state  dz/dq = (1 − z sign(dq)) / length,  −1 ≤ z ≤ 1.

    z follows sign(q̇) after a travel of `length` [rad | m] rather than at once: teeth and seals yield before they slide.
    It is a function of the past positions alone, so the column is linear in Fd and needs no estimate. The state starts
    at zero in every stretch, which no longer matters after a few lengths. Column `joint.Fd2` for 2 mrad (or mm).
    """

    length: float = 2e-3
    name: ClassVar[str] = "dahl"
    uses: ClassVar[tuple[str, ...]] = (PAST,)

    def __post_init__(self) -> None:
        if not (np.isfinite(self.length) and self.length > 0.0):
            raise ValueError(f"Dahl's length must be positive [rad | m], not {self.length!r}.")

    @property
    def symbol(self) -> str:
        return f"Fd{shape_name(round(1e3 * self.length, 6))}"

    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        return joint_entries(robot, self.symbol, "N.m", (None,) * robot.dof)

    def fill(self, robot: Robot, motion: Motion) -> Array:
        past = {} if motion.past is None else motion.past
        # last position and state of every joint, (2, n); before the first sample the joint stood where it starts
        carried = past.setdefault(self.symbol, np.stack([motion.q[:, 0], np.zeros(robot.dof)]))
        out = np.empty_like(motion.q)
        dahl_states(motion.q, self.length, carried, out)
        return out

    def laws(self, robot: Robot) -> tuple[AppliedLaw, ...]:
        return tuple(AppliedLaw(DAHL, own, (self.length,)) for own in np.eye(robot.dof))

    @classmethod
    def offers(cls, cycles: Cycles) -> tuple[Offer, ...]:
        return (Offer("dahl 10 mrad", cls(1e-2)), Offer("dahl 50 mrad", cls(5e-2)))
