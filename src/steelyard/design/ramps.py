"""Ramps: from a start posture to a motion and back, at rest at both ends, within the limits of the motion."""

from __future__ import annotations

import numpy as np

from steelyard._arrays import Array
from steelyard.design.constraints import MotionRules, broken
from steelyard.errors import DataError
from steelyard.motion.bounds import STEP_PEAKS, LimitUse
from steelyard.motion.limits import MotionLimits
from steelyard.motion.trajectory import Chain, Quintic, Trajectory

# Fraction of the limits that a ramp may use: the rest is for the interpolation of its samples by a controller.
USED = 0.98
# Factor by which a ramp is made longer while torques are too large, and the largest number of times: 18 times slower,
# its torques are almost those of the robot at rest.
_SLOWER, _TRIES = 1.25, 14
# Within this distance the robot is already at the start of the motion [rad | m].
_SAME = 1e-9


def ramped(trajectory: Trajectory, start: Array, rules: MotionRules, step: float = 0.0) -> Trajectory:
    """The motion preceded by a path from `start` (n,) to its first posture and followed by one from its last posture
    back, each straight in joint space and as short as velocity, acceleration, jerk and torques allow.

    With `step` [s] the paths last whole multiples of it, so that samples at this interval meet their ends.
    """
    ends = trajectory.at([0.0, trajectory.duration])[0]
    begin, end = ends.T
    there = _way(start, begin, rules, step, "from the start posture to the first posture of the motion", begin)
    back = _way(end, start, rules, step, "from the last posture of the motion back to the start", begin)
    parts = tuple(part for part in (there, trajectory, back) if part is not None)
    return trajectory if len(parts) == 1 else Chain(parts)


def shortest(distance: Array, limits: MotionLimits) -> float:
    """The shortest time [s] of a quintic step over `distance` (n,) within `USED` of the limits.

    T = max over joints of  15/8 d / v,  √(10/√3 d / a),  ∛(60 d / j)
    """
    tops = (limits.velocity, limits.acceleration, limits.jerk)
    return max(
        float(np.max((STEP_PEAKS[k] * distance / (USED * top)) ** (1 / k))) for k, top in enumerate(tops, start=1)
    )


def whole_steps(duration: float, step: float) -> float:
    """A duration [s] extended to a whole number of steps; unchanged where step or duration is zero."""
    return float(step * np.ceil(duration / step * (1.0 - 1e-12))) if step > 0.0 and duration > 0.0 else duration


def _way(first: Array, last: Array, rules: MotionRules, step: float, what: str, begin: Array) -> Quintic | None:
    """The path; None if it has no length. The error for a blocked path names `begin`, the first posture."""
    distance = np.abs(last - first)
    if distance.max() < _SAME:
        return None

    def tried(duration: float) -> tuple[Quintic, tuple[LimitUse, ...]]:
        way = Quintic(np.column_stack([first, last]), np.array([0.0, whole_steps(duration, step)]))
        return way, broken(rules.limit_use(way))

    fastest = shortest(distance, rules.limits)
    way, wrong = tried(fastest)
    for k in range(1, _TRIES):
        if any(row.quantity != "torque" for row in wrong):
            break
        if wrong:
            way, wrong = tried(fastest * _SLOWER**k)
    if not wrong:
        return way
    row = next((row for row in wrong if row.quantity != "torque"), wrong[0])
    raise DataError(
        f"The straight path {what} is blocked: {row.quantity} of {row.joint} is {row.value:.4g}, {row.beyond:.4g} "
        f"beyond its limit of {row.limit:.4g}, at any speed. Choose another --seed or --start, or remove --start and "
        f"move the robot to the first posture of the motion yourself: {pasted(begin)}"
    )


def pasted(posture: Array) -> str:
    """A posture (n,) in the format of the option --start."""
    return ",".join(f"{x:z.6f}" for x in posture.tolist())
