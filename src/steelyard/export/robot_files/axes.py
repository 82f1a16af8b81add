"""A robot as new files need it: every link frame on its joint's axis, no nominal values; and rotations as angles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from steelyard._arrays import Array
from steelyard.model.loops import Attachment, FrameLoop, Loop
from steelyard.model.parameters import transformed_inertia
from steelyard.model.pose import Pose
from steelyard.model.robot import BASE, Drive, Joint, Link, Robot


def on_axes(robot: Robot) -> Robot:
    """The same robot with link frames moved, without rotation, to a point on their joints' axes.

    pose · exp([S]q) = pose · T(p) · exp([(axis, 0)]q) · T(−p) with p = point: in the frame at p the joint rotates about
    its own origin, and everything on the link is expressed in that frame too. Nominal drives, springs and couplings are
    left out: a new file contains only identified values.
    """
    points = {BASE: np.zeros(3)} | {i: _point(joint) for i, joint in enumerate(robot.joints)}
    joints = tuple(_shifted(joint, points[joint.parent], points[i]) for i, joint in enumerate(robot.joints))
    links = tuple(_moved(link, points[i]) for i, link in enumerate(robot.links))
    loops = tuple(_reattached(robot, loop, points) for loop in robot.loops)
    return replace(
        robot, joints=joints, links=links, loops=loops, springs=(), compensator=None, coupling=None, nominal={}
    )


def _shifted(joint: Joint, before: Array, here: Array) -> Joint:
    pose = Pose(position=-before) @ joint.pose @ Pose(position=here)
    return replace(joint, pose=pose, point=np.zeros(3), drive=Drive())


def _point(joint: Joint) -> Array:
    return np.zeros(3) if joint.is_prismatic else np.asarray(joint.point, float)


def _moved(link: Link, point: Array) -> Link:
    lumps = tuple(replace(lump, pose=Pose(position=-point) @ lump.pose) for lump in link.lumps)
    inertia = None if link.inertia is None else transformed_inertia(link.inertia, np.eye(3), -point)
    return replace(link, inertia=inertia, lumps=lumps)


def _reattached(robot: Robot, loop: Loop, points: dict[int, Array]) -> Loop:
    if not isinstance(loop, FrameLoop):
        return loop
    first, second = (
        Attachment(end.link, Pose(position=-points[robot.link_index(end.link)]) @ end.pose) for end in loop.ends
    )
    return replace(loop, ends=(first, second))


def roll_pitch_yaw(rotation: Array) -> Array:
    """(3,) [rad] with Rz(yaw) Ry(pitch) Rx(roll) = rotation.

    Roll and pitch are computed after the yaw is removed, which is exact where they are not unique (pitch ±π/2).
    """
    yaw = np.arctan2(rotation[1, 0], rotation[0, 0])
    c, s = np.cos(yaw), np.sin(yaw)
    rest = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]]) @ rotation
    return np.array([np.arctan2(-rest[1, 2], rest[1, 1]), np.arctan2(-rest[2, 0], rest[0, 0]), yaw])
