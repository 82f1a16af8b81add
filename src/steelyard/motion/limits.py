"""MotionLimits: the limits of a motion, per joint."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import DataError, few
from steelyard.model.robot import Robot


@dataclass(frozen=True, eq=False)
class MotionLimits:
    """Limits of a motion, each (n,): positions [rad | m], their rates [/s, /s², /s³], torques [N·m | N].

    An infinite limit leaves a quantity free. `torque` bounds the torque of the nominal model.
    """

    lower: Array
    upper: Array
    velocity: Array
    acceleration: Array
    jerk: Array = field(default_factory=lambda: np.array(np.inf))
    torque: Array = field(default_factory=lambda: np.array(np.inf))

    def __post_init__(self) -> None:
        size = max(np.size(getattr(self, name)) for name in self.__dataclass_fields__)
        for name in self.__dataclass_fields__:
            given = np.asarray(getattr(self, name), float)
            if given.shape not in ((), (1,), (size,)) or np.any(np.isnan(given)):
                raise DataError(f"The limits of {name} must be one number, or one for each of {size} joints: {given}.")
            values = np.array(np.broadcast_to(given, size))
            values.flags.writeable = False
            object.__setattr__(self, name, values)

    @staticmethod
    def of(
        robot: Robot,
        acceleration: Array | float,
        jerk: Array | float = np.inf,
        *,
        share: float = 0.95,
        torque_share: float = 0.9,
    ) -> MotionLimits:
        """A fraction `share` of the robot file's ranges and speeds and `torque_share` of its efforts; the rest is a
        margin.

        Robot files give no accelerations: state them [rad/s² | m/s²]. A joint without a range gets ±π rad or ±1 m.
        """
        if not (0.0 < share <= 1.0 and 0.0 < torque_share <= 1.0):
            raise DataError(f"Shares of the limits must be above 0 and at most 1, not {share} and {torque_share}.")
        reach = np.array([1.0 if joint.is_prismatic else np.pi for joint in robot.axes])
        lower = np.array([joint.limits.lower for joint in robot.axes])
        upper = np.array([joint.limits.upper for joint in robot.axes])
        lower = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper - 2 * reach, -reach))
        upper = np.where(np.isfinite(upper), upper, lower + 2 * reach)
        middle, half = 0.5 * (lower + upper), 0.5 * share * (upper - lower)
        return MotionLimits(
            middle - half,
            middle + half,
            share * np.array([joint.limits.velocity for joint in robot.axes]),
            np.broadcast_to(np.asarray(acceleration, float), robot.dof),
            np.broadcast_to(np.asarray(jerk, float), robot.dof),
            torque_share * np.array([joint.limits.effort for joint in robot.axes]),
        )


# Default where a limit is not stated: speed [rad/s | m/s], and time to reach the top speed.
UNSTATED_SPEED = (np.pi, 0.5)
SPEED_UP_S = 0.5


def completed(robot: Robot, limits: MotionLimits) -> tuple[MotionLimits, tuple[str, ...]]:
    """Limits with defaults for the velocities and accelerations that are not stated, and sentences about these.

    An infinite velocity becomes `UNSTATED_SPEED` (one value for revolute, one for prismatic joints), then an infinite
    acceleration becomes velocity / `SPEED_UP_S`: robot files give no accelerations.
    """
    usual = np.array([UNSTATED_SPEED[joint.is_prismatic] for joint in robot.axes])
    velocity = np.where(np.isfinite(limits.velocity), limits.velocity, usual)
    acceleration = np.where(np.isfinite(limits.acceleration), limits.acceleration, velocity / SPEED_UP_S)
    said = []
    for what, before, after in (
        ("velocity", limits.velocity, velocity),
        ("acceleration", limits.acceleration, acceleration),
    ):
        taken = [k for k in range(robot.dof) if not np.isfinite(before[k])]
        if taken:
            unit = "/s²" if what == "acceleration" else "/s"
            why = f", top speed in {SPEED_UP_S:g} s" if what == "acceleration" else ""
            listed = few(
                f"{robot.axis_names[k]} {after[k]:.3g} {'m' if robot.axes[k].is_prismatic else 'rad'}{unit}"
                for k in taken
            )
            place = f"[joint.{robot.axis_names[taken[0]]}] {what} = …"
            said.append(
                f"No limit of {what} is given; assumed{why}: {listed}. State those of your robot in a limits file "
                f"(--limits), e.g. {place}"
            )
    return replace(limits, velocity=velocity, acceleration=acceleration), tuple(said)
