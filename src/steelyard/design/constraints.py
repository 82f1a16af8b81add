"""MotionRules: all limits of a motion, and how close it comes to each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from steelyard._arrays import Array
from steelyard.design.forecast import sample_times
from steelyard.errors import DataError
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.motion.bounds import LimitUse, MotionLimits, limit_use
from steelyard.motion.clearance import Clearance, proven_clearance
from steelyard.motion.trajectory import Trajectory

# Rate at which torques are checked [Hz]; joint motions vary over tenths of a second.
TORQUE_RATE_HZ = 5000.0
# Tolerance of a torque on another grid of times, as a fraction of its limit.
TORQUE_SLACK = 1e-3


@final
@dataclass(frozen=True, eq=False)
class MotionRules:
    """Limits of the joints, torques of the nominal model θ (C,) with a load, and clearances.

    Without `theta` no torque is checked; without `clearance` no distance is checked.
    """

    model: Model
    limits: MotionLimits
    theta: Array | None = None
    load: str = UNLOADED
    clearance: Clearance | None = None

    def limit_use(self, trajectory: Trajectory) -> tuple[LimitUse, ...]:
        """Every limit with the extreme value of the motion, proven for all t except torques (at `TORQUE_RATE_HZ`)."""
        return (
            *limit_use(trajectory, self.limits, self.model.robot.axis_names),
            *self.forces_and_distances(trajectory),
        )

    def forces_and_distances(self, trajectory: Trajectory) -> tuple[LimitUse, ...]:
        """The rows that depend on all joints: torques at `TORQUE_RATE_HZ`, clearances for all t."""
        near = () if self.clearance is None else proven_clearance(trajectory, self.clearance)
        return (*self._torques(trajectory), *near)

    def torque(self, q: Array, v: Array, a: Array) -> Array | None:
        """τ (n, N) of the nominal model; None without one."""
        return None if self.theta is None else self.model.torque(q, v, a, self.theta, load=self.load)

    def peak_torque(self, trajectory: Trajectory) -> Array | None:
        """The largest |τ| (n,) of the nominal model at `TORQUE_RATE_HZ`; None without one."""
        tau = self.torque(*trajectory.at(_torque_times(trajectory)))
        return None if tau is None else np.abs(tau).max(axis=1)

    def _torques(self, trajectory: Trajectory) -> list[LimitUse]:
        peak = self.peak_torque(trajectory) if np.isfinite(self.limits.torque).any() else None
        if peak is None:
            return []
        samples = len(_torque_times(trajectory))
        return [
            LimitUse(joint, "torque", float(peak[i]), float(self.limits.torque[i]), proven=False, samples=samples)
            for i, joint in enumerate(self.model.robot.axis_names)
            if np.isfinite(self.limits.torque[i])
        ]


def _torque_times(trajectory: Trajectory) -> Array:
    return sample_times(trajectory.duration, TORQUE_RATE_HZ)


def broken(rows: tuple[LimitUse, ...]) -> tuple[LimitUse, ...]:
    """The rows that do not hold, the worst first; NaN does not hold."""
    return tuple(sorted((row for row in rows if not row.beyond <= tolerance(row)), key=lambda row: -row.beyond))


def check_rows(rows: tuple[LimitUse, ...], what: str) -> None:
    """Raises an error that names the worst exceeded limit and by how much."""
    wrong = broken(rows)
    if wrong:
        listed = "; ".join(
            f"{row.quantity} of {row.joint} is {row.value:.6g}, {row.beyond:.4g} beyond its limit {row.limit:.6g}"
            for row in wrong[:3]
        )
        raise DataError(f"{what} exceeds its limits: {listed}. Nothing was written.")


def holds_always(row: LimitUse) -> bool:
    """Whether a row holds for all t; a clearance always does, and `proven` says whether its bound is tight."""
    return row.proven or row.quantity == "clearance"


def used(row: LimitUse) -> float:
    """The used fraction of a limit; NaN for positions, for which a fraction has no meaning."""
    return float("nan") if row.quantity.endswith("position") else row.share


def tolerance(row: LimitUse) -> float:
    """Rounding; for a torque `TORQUE_SLACK` of the limit, since different grids of times give different peaks."""
    return TORQUE_SLACK * row.limit if row.quantity == "torque" else 1e-9 * max(1.0, abs(row.limit))
