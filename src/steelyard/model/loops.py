"""Loops that close the tree of a robot, the checks of one loop, and the axes that move each joint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import RobotError, choices
from steelyard.model.pose import Pose

Component = Literal["x", "y", "z", "rx", "ry", "rz"]
COMPONENTS: tuple[Component, ...] = get_args(Component)
POINT, AXIS, FRAME = COMPONENTS[:3], COMPONENTS[:5], COMPONENTS


@dataclass(frozen=True)
class Attachment:
    """A frame fixed to a link, relative to the link; one on the base is relative to the world, as gravity is."""

    link: str
    pose: Pose = field(default_factory=Pose)


@dataclass(frozen=True)
class FrameLoop:
    """Two frames A and B, on two links, that the cut joint keeps together: the named components are zero.

        x y z    the position of B's origin along A's x, y, z
        rx       −y_A · z_B        ry   x_A · z_B        rz   −x_A · y_B

    For small rotations these are the angles of B about A's axes. `POINT` (x y z) is a ball joint that was cut, `AXIS`
    (all but rz) a revolute joint about z, `FRAME` (all) a rigid connection.
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


def check_loop(loop: Loop, links: Sequence[str], joints: Sequence[str]) -> None:
    """Raises an error for a loop that does not fit the names of a robot's links (base included) and joints."""
    what = f"Loop '{loop.name}': "
    if isinstance(loop, JointLoop):
        for joint in (loop.joint, loop.other):
            if joint not in joints:
                raise RobotError(what + choices("joint", joint, joints))
        if loop.joint == loop.other:
            raise RobotError(f"{what}joint '{loop.joint}' cannot follow itself.")
        if not np.all(np.isfinite(loop.polynomial)):
            raise RobotError(f"{what}a coefficient is not finite.")
        return
    for end in loop.ends:
        if end.link not in links:
            raise RobotError(what + choices("link", end.link, links))
        if not (np.all(np.isfinite(end.pose.rotation)) and np.all(np.isfinite(end.pose.position))):
            raise RobotError(f"{what}a number of the frame on '{end.link}' is not finite.")
    if loop.ends[0].link == loop.ends[1].link:
        raise RobotError(f"{what}both ends are on '{loop.ends[0].link}', so it constrains nothing.")
    for component in loop.components:
        if component not in COMPONENTS:
            raise RobotError(what + choices("component", component, COMPONENTS))
    if not loop.components or len(set(loop.components)) != len(loop.components):
        raise RobotError(f"{what}list every constrained component once, of {', '.join(COMPONENTS)}.")


def reach(loops: Sequence[set[int]], joints: int, axes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the axes (n,) can move which joint, (joints, n): an axis only itself, a passive joint all axes of its
    loops. `loops` has the joints that can change each loop's constraint.

    Loops with a common joint, or connected by a chain of such loops, move together; others are independent.
    """
    merged: list[set[int]] = []
    for loop in loops:
        apart = [other for other in merged if not other & loop]
        merged = [*apart, loop.union(*(other for other in merged if other & loop))]
    out = np.zeros((joints, len(axes)), bool)
    for group in merged:
        out[np.ix_(sorted(group), [a for a, j in enumerate(axes) if j in group])] = True
    out[axes] = np.eye(len(axes), dtype=bool)
    return out
