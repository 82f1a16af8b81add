"""Too little motion: joints that hardly move determine neither inertia nor gravity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steelyard._arrays import Array
from steelyard.findings import Finding
from steelyard.model.robot import Robot

# A joint that travels less [rad | m] determines only friction.
LITTLE = (0.05, 0.01)


def hardly_moving(robot: Robot, travel: Array) -> tuple[int, ...]:
    return tuple(
        j for j, joint in enumerate(robot.axes) if travel[j] < (LITTLE[1] if joint.is_prismatic else LITTLE[0])
    )


def motion_findings(robot: Robot, travel: Array, joints: Sequence[int]) -> tuple[Finding, ...]:
    """One finding for a robot that hardly moves, or one for each joint that does not."""
    if len(joints) == robot.dof:
        widest = int(np.argmax(travel))
        return (
            Finding(
                "little-motion",
                "error",
                f"no joint moves enough for an identification: {robot.axis_names[widest]} has the largest travel, "
                f"{travel[widest]:.3g} rad or m",
                "all joints",
                "record a motion that uses the joints' ranges and speeds; check the unit of the positions",
            ),
        )
    return tuple(
        Finding(
            "little-motion",
            "error",
            f"{robot.axis_names[j]} travels {travel[j]:.3g} rad or m: its inertia and gravity torque are not excited, "
            "and faults of its signals cannot be detected",
            robot.axis_names[j],
            "record a motion of this joint, or check its column and unit in the channel map",
        )
        for j in joints
    )
