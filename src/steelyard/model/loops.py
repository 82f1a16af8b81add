"""Loops that close the tree of a robot, which axes then move which joints, and what makes no sense of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import RobotError, choices
from steelyard.model.pose import Pose

if TYPE_CHECKING:
    from steelyard.model.robot import Robot

Component = Literal["x", "y", "z", "rx", "ry", "rz"]
COMPONENTS: tuple[Component, ...] = get_args(Component)
POINT, AXIS, FRAME = COMPONENTS[:3], COMPONENTS[:5], COMPONENTS


@dataclass(frozen=True)
class Attachment:
    """A frame fixed to a link, seen from the link; one on the base is seen from the world, as gravity is."""

    link: str
    pose: Pose = field(default_factory=Pose)


@dataclass(frozen=True)
class FrameLoop:
    """Two frames A and B, on two links, that the cut joint keeps together in the named components, each zero:

        x y z    the position of B's origin along A's x, y, z
        rx       −y_A · z_B        ry   x_A · z_B        rz   −x_A · y_B

    which for small turns are the angles of B about A's axes. `POINT` (x y z) is a ball joint that was cut, `AXIS` (all
    but rz) a revolute joint about z, `FRAME` (all) a rigid connection.
    """

    name: str
    ends: tuple[Attachment, Attachment]
    components: tuple[Component, ...] = FRAME


@dataclass(frozen=True)
class JointLoop:
    """A joint that follows another by gears or a linkage: q_joint = Σ_k polynomial[k] · q_other^k [rad | m]."""

    name: str
    joint: str
    other: str
    polynomial: tuple[float, ...] = (0.0, 1.0)


Loop = FrameLoop | JointLoop
# No robot is assembled further away [rad | m].
_FARTHEST = 1e6


def check_loop(robot: Robot, loop: Loop) -> None:
    """Refuse a loop that does not fit the robot's links and joints."""
    what = f"Loop '{loop.name}': "
    if [other.name for other in robot.loops].count(loop.name) > 1:
        raise RobotError(f"Two loops of '{robot.name}' are called '{loop.name}'. Give each a name of its own.")
    if isinstance(loop, JointLoop):
        for joint in (loop.joint, loop.other):
            if joint not in robot.joint_names:
                raise RobotError(what + choices("joint", joint, robot.joint_names))
        if loop.joint == loop.other:
            raise RobotError(f"{what}joint '{loop.joint}' cannot follow itself.")
        if not np.all(np.isfinite(loop.polynomial)):
            raise RobotError(f"{what}a coefficient is not finite.")
        return
    links = (robot.base, *(link.name for link in robot.links))
    for end in loop.ends:
        if end.link not in links:
            raise RobotError(what + choices("link", end.link, links))
        if not (np.all(np.isfinite(end.pose.rotation)) and np.all(np.isfinite(end.pose.position))):
            raise RobotError(f"{what}a number of the frame on '{end.link}' is not finite.")
    if loop.ends[0].link == loop.ends[1].link:
        raise RobotError(f"{what}both ends are on '{loop.ends[0].link}', so it closes nothing.")
    for component in loop.components:
        if component not in COMPONENTS:
            raise RobotError(what + choices("component", component, COMPONENTS))
    if not loop.components or len(set(loop.components)) != len(loop.components):
        raise RobotError(f"{what}name every component it keeps together once, of {', '.join(COMPONENTS)}.")


def check_actuation(robot: Robot) -> None:
    """Refuse axes that are no joints of the robot, or a robot with loops that names none."""
    if not robot.loops:
        if robot.actuated is not None and robot.actuated != robot.joint_names:
            raise RobotError(
                f"Robot '{robot.name}' names its actuated joints and has no loops: every joint of an open robot is "
                "driven. State the loops that move the passive ones, or leave out 'actuated'."
            )
        return
    if not robot.actuated:
        raise RobotError(
            f"Robot '{robot.name}' has loops, so it must name the joints that motors drive: 'actuated', of "
            f"{', '.join(j.name for j in robot.joints if not j.bare)}."
        )
    for name in robot.actuated:
        if name not in robot.joint_names:
            raise RobotError(f"actuated: {choices('joint', name, robot.joint_names)}")
        if robot.joints[robot.joint_index(name)].bare:
            raise RobotError(f"actuated: '{name}' is a coordinate of a free body, which no motor drives.")
    if len(set(robot.actuated)) != len(robot.actuated):
        raise RobotError(f"actuated names a joint twice: {', '.join(robot.actuated)}.")
    if robot.home is not None:
        home = np.asarray(robot.home, float)
        if home.shape != (len(robot.joints),) or not np.all(np.abs(home) < _FARTHEST):
            raise RobotError(
                f"home must hold {len(robot.joints)} numbers [rad | m] of a sane size, one a joint of '{robot.name}'."
            )


def check_legs(robot: Robot) -> None:
    """Refuse legs that cannot be alike."""
    listed = [name for leg in robot.legs for name in leg]
    for name in listed:
        if name not in robot.joint_names:
            raise RobotError(f"legs: {choices('joint', name, robot.joint_names)}")
    if len(set(listed)) != len(listed):
        raise RobotError("legs: a joint is listed twice.")
    if robot.legs and (len(robot.legs) < 2 or not all(robot.legs)):
        raise RobotError("legs: name the joints of two legs or more, none of them empty, or leave it out.")
    for name in listed:
        joint = robot.joint_index(name)
        if robot.joints[joint].bare:
            raise RobotError(f"legs: '{name}' is a coordinate of a free body, which is no part of a leg.")
        own = next(leg for leg in robot.legs if name in leg)
        other = next((x for x in listed if x not in own and robot.joint_index(x) in robot.ancestors(joint)), None)
        if other is not None:
            raise RobotError(f"legs: '{name}' hangs on '{other}' of another leg, so that the two are not alike.")
    if len({tuple(name in robot.axis_names for name in leg) for leg in robot.legs}) > 1:
        raise RobotError("legs: legs that are alike are driven at the same joints.")
    if len({tuple(robot.joints[robot.joint_index(n)].is_prismatic for n in leg) for leg in robot.legs}) > 1:
        raise RobotError("legs: legs that are alike have as many joints, of the same kinds in the same order.")


def reach(robot: Robot) -> NDArray[np.bool_]:
    """Which axes can move which joint, (joints, n): an axis itself alone, a passive joint all axes of its loops.

    Loops that have a joint in common, or a chain of such loops, move together; others do not know of each other.
    """
    together = [_joints_of(robot, loop) for loop in robot.loops]
    merged: list[set[int]] = []
    for joints in together:
        apart = [other for other in merged if not other & joints]
        merged = [*apart, joints.union(*(other for other in merged if other & joints))]
    out = np.zeros((len(robot.joints), robot.dof), bool)
    for group in merged:
        out[np.ix_(sorted(group), [a for a, j in enumerate(robot.axis_index) if j in group])] = True
    out[robot.axis_index] = np.eye(robot.dof, dtype=bool)
    return out


def _joints_of(robot: Robot, loop: Loop) -> set[int]:
    """The joints that can change a loop's constraint."""
    if isinstance(loop, JointLoop):
        return {robot.joint_index(loop.joint), robot.joint_index(loop.other)}
    first, second = (set(robot.ancestors(robot.link_index(end.link))) for end in loop.ends)
    return first ^ second
