"""Ramps: from a start posture to a motion and back again, at rest at both ends, within the limits of the motion."""

from __future__ import annotations

import numpy as np

from steelyard._arrays import Array
from steelyard.design.constraints import MotionRules, broken
from steelyard.errors import DataError
from steelyard.motion.bounds import STEP_PEAKS, Reached
from steelyard.motion.limits import MotionLimits
from steelyard.motion.trajectory import Chain, Quintic, Trajectory

# Share of the limits that a ramp may use: what a controller makes of its samples needs the rest.
USED = 0.98
# Where torques are too large a ramp is made so much longer, again and again: 18 times slower it weighs next to nothing
# more than the robot at rest does.
_SLOWER, _TRIES = 1.25, 14
# Nearer than this a motion begins where the robot stands already [rad | m].
_SAME = 1e-9


def ramped(trajectory: Trajectory, start: Array, rules: MotionRules, step: float = 0.0) -> Trajectory:
    """The motion with a way to its first posture from `start` (n,) and from its last one back, each straight in joint
    space and as short as velocity, acceleration and jerk allow, and the torques.

    With `step` [s] the ways last whole multiples of it, so that samples so far apart meet their ends.
    """
    ends = trajectory.at([0.0, trajectory.duration])[0]
    begin, end = ends.T
    there = _way(start, begin, rules, step, "from the start posture to the first of the motion", begin)
    back = _way(end, start, rules, step, "from the last posture of the motion back to the start", begin)
    parts = tuple(part for part in (there, trajectory, back) if part is not None)
    return trajectory if len(parts) == 1 else Chain(parts)


def shortest(distance: Array, limits: MotionLimits) -> float:
    """The least time [s] of a quintic step over `distance` (n,) within `USED` of the limits.

    T = max over joints of  15/8 d / v,  √(10/√3 d / a),  ∛(60 d / j)
    """
    tops = (limits.velocity, limits.acceleration, limits.jerk)
    return max(
        float(np.max((STEP_PEAKS[k] * distance / (USED * top)) ** (1 / k))) for k, top in enumerate(tops, start=1)
    )


def whole_steps(duration: float, step: float) -> float:
    """A duration [s] made longer until it is a whole number of steps; as it is where step is zero, or it is none."""
    return float(step * np.ceil(duration / step * (1.0 - 1e-12))) if step > 0.0 and duration > 0.0 else duration


def _way(first: Array, last: Array, rules: MotionRules, step: float, what: str, begin: Array) -> Quintic | None:
    """The way; None where there is nothing to go. The error where it is blocked names `begin`, the first posture."""
    distance = np.abs(last - first)
    if distance.max() < _SAME:
        return None

    def tried(duration: float) -> tuple[Quintic, tuple[Reached, ...]]:
        way = Quintic(np.column_stack([first, last]), np.array([0.0, whole_steps(duration, step)]))
        return way, broken(rules.reached(way))

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
        f"The straight way {what} is blocked: {row.quantity} of {row.joint} is {row.value:.4g}, "
        f"{row.beyond:.4g} beyond its limit of {row.limit:.4g}, however slowly it moves. Choose another --seed or "
        "--start. Or leave --start out and bring the robot to the first posture of the motion yourself: "
        f"{pasted(begin)}"
    )


def pasted(posture: Array) -> str:
    """A posture (n,) as --start takes it."""
    return ",".join(f"{x:z.6f}" for x in posture.tolist())
