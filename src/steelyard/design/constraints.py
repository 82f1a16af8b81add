"""MotionRules: everything a motion must keep to, and how near it comes to each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from steelyard._arrays import Array
from steelyard.design.forecast import sample_times
from steelyard.errors import DataError
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.motion.bounds import MotionLimits, Reached, reached
from steelyard.motion.clearance import Clearance, proven_clearance
from steelyard.motion.trajectory import Trajectory

# Rate at which torques are looked at [Hz]; a motion of joints bends over tenths of a second.
TORQUE_RATE_HZ = 5000.0
# What another grid of times may see more of a torque, as a share of its limit.
TORQUE_SLACK = 1e-3


@final
@dataclass(frozen=True, eq=False)
class MotionRules:
    """Limits of the joints, torques of the nominal model θ (C,) with a load, and what is to be kept clear of.

    Without `theta` no torque is looked at; without `clearance` nothing is in the way.
    """

    model: Model
    limits: MotionLimits
    theta: Array | None = None
    load: str = UNLOADED
    clearance: Clearance | None = None

    def reached(self, trajectory: Trajectory) -> tuple[Reached, ...]:
        """Every limit beside what the motion reaches: proven for all t, but torques, at `TORQUE_RATE_HZ`."""
        return (*reached(trajectory, self.limits, self.model.robot.axis_names), *self.forces_and_distances(trajectory))

    def forces_and_distances(self, trajectory: Trajectory) -> tuple[Reached, ...]:
        """Those rows that no joint tells alone: torques at `TORQUE_RATE_HZ`, clearances for all t."""
        near = () if self.clearance is None else proven_clearance(trajectory, self.clearance)
        return (*self._torques(trajectory), *near)

    def torque(self, q: Array, v: Array, a: Array) -> Array | None:
        """τ (n, N) of the nominal model; None without one."""
        return None if self.theta is None else self.model.torque(q, v, a, self.theta, load=self.load)

    def peak_torque(self, trajectory: Trajectory) -> Array | None:
        """The largest |τ| (n,) of the nominal model at `TORQUE_RATE_HZ`; None without one."""
        tau = self.torque(*trajectory.at(_torque_times(trajectory)))
        return None if tau is None else np.abs(tau).max(axis=1)

    def _torques(self, trajectory: Trajectory) -> list[Reached]:
        peak = self.peak_torque(trajectory) if np.isfinite(self.limits.torque).any() else None
        if peak is None:
            return []
        samples = len(_torque_times(trajectory))
        return [
            Reached(joint, "torque", float(peak[i]), float(self.limits.torque[i]), proven=False, samples=samples)
            for i, joint in enumerate(self.model.robot.axis_names)
            if np.isfinite(self.limits.torque[i])
        ]


def _torque_times(trajectory: Trajectory) -> Array:
    return sample_times(trajectory.duration, TORQUE_RATE_HZ)


def broken(rows: tuple[Reached, ...]) -> tuple[Reached, ...]:
    """Those that do not hold, the farthest beyond first; what is not a number does not hold."""
    return tuple(sorted((row for row in rows if not row.beyond <= tolerance(row)), key=lambda row: -row.beyond))


def check_rows(rows: tuple[Reached, ...], what: str) -> None:
    """An error that names the worst of what is passed and by how much."""
    wrong = broken(rows)
    if wrong:
        listed = "; ".join(
            f"{row.quantity} of {row.joint} is {row.value:.6g}, {row.beyond:.4g} beyond {row.limit:.6g}"
            for row in wrong[:3]
        )
        raise DataError(f"{what} does not keep to its limits: {listed}. Nothing was written.")


def holds_always(row: Reached) -> bool:
    """Whether what is reached is proven for all t; a clearance always is, `proven` says that it is not too small."""
    return row.proven or row.quantity == "clearance"


def used(row: Reached) -> float:
    """The share of a limit that is used; NaN for positions, of which no share says anything."""
    return float("nan") if row.quantity.endswith("position") else row.share


def tolerance(row: Reached) -> float:
    """Rounding; of a torque `TORQUE_SLACK` of the limit, as every grid of times sees another peak."""
    return TORQUE_SLACK * row.limit if row.quantity == "torque" else 1e-9 * max(1.0, abs(row.limit))
