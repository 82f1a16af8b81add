"""Slow drift: friction that changes as the robot warms up, and an offset that changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from steelyard._arrays import Array
from steelyard.model.robot import Robot
from steelyard.model.terms.term import GOLDEN, TIME, Cycles, Entry, Motion, Offer, joint_entries


@final
@dataclass(frozen=True)
class Drift:
    """τ_j += offt_j t + Fvt_j t q̇_j, t the time since the run's start in hours: an offset and a viscosity that drift.

    Judge it by runs left out, never by blocks of one run: over a short log, time can replace any slow effect.
    `shuffled` makes it a placebo: every five seconds another time of the same minute, in no order.
    """

    shuffled: bool = False
    name: ClassVar[str] = "drift"
    uses: ClassVar[tuple[str, ...]] = (TIME,)

    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        silent, mark = (None,) * robot.dof, "x" if self.shuffled else ""
        return joint_entries(robot, f"offt{mark}", "N.m/h", silent) + joint_entries(
            robot, f"Fvt{mark}", "N.m.s/h", silent
        )

    def fill(self, robot: Robot, motion: Motion) -> Array:
        assert motion.t is not None
        hours = motion.t / 3600.0
        if self.shuffled:
            # multiples of the golden ratio modulo one: well spread, never in order, the same every time
            hours = np.mod(np.floor(motion.t / 5.0) * GOLDEN, 1.0) / 60.0
        return np.concatenate([np.broadcast_to(hours, motion.v.shape), hours * motion.v])

    @classmethod
    def offers(cls, cycles: Cycles) -> tuple[Offer, ...]:
        placebo = "shuffled drift"
        return (Offer("drift", cls(), rival=placebo), Offer(placebo, cls(shuffled=True), placebo=True))
