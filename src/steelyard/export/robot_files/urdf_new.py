"""A new URDF of a robot from another format: links, joints, limits, inertias and friction; no shapes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import OutputError
from steelyard.export.export import Export
from steelyard.export.robot_files.axes import on_axes, roll_pitch_yaw
from steelyard.export.robot_files.drives import drives
from steelyard.export.robot_files.fixed_bodies import lump_notes, new_bodies, split
from steelyard.export.robot_files.inertial import inertial, number, numbers
from steelyard.export.robot_files.matching import match
from steelyard.export.robot_files.urdf import HOLDS, dynamics_values, inertial_lines
from steelyard.export.robot_files.xml_edit import opening, tag
from steelyard.formats.robots.urdf import read_urdf
from steelyard.model.loops import JointLoop
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.model.pose import Pose
from steelyard.model.robot import BASE, Joint, Limits, Robot

# URDF requires a number for every limit; this one means "no limit" [rad | m, /s, N·m | N].
UNLIMITED = 1e9


def generated_urdf(model: Model, theta: Array, load: str = UNLOADED) -> Export:
    """A URDF with the kinematics of the model's robot and the values of theta (C,), read back and compared.

    `load` names the payload that theta has in its links already.
    """
    held = drives(model, theta, HOLDS, "URDF", load=load)
    frames = on_axes(model.robot)
    matched = match(model, theta, frames, held)
    robot = matched.file
    refused = [loop.name for loop in robot.loops if not (isinstance(loop, JointLoop) and len(loop.polynomial) <= 2)]
    if refused:
        raise OutputError(f"URDF describes trees, and '{robot.name}' has loops: {', '.join(refused)}. Write MJCF.")
    lines = ['<?xml version="1.0"?>', opening("robot", {"name": robot.name}), *_lines(robot), "</robot>", ""]
    name = f"{file_stem(robot)}.urdf"
    written = "\n".join(lines).encode()
    parity = matched.compared(read_urdf(written, name), name)
    notes = (*held.notes, *lump_notes(frames, new_bodies(frames, robot)), matched.gravity_note)
    return Export("urdf", {name: written}, held.left_out, parity=parity, friction=held.lines, notes=notes)


def file_stem(robot: Robot) -> str:
    """The file name of a robot."""
    return re.sub(r"[^\w.-]+", "_", robot.name).strip("._") or "robot"


def _lines(robot: Robot) -> Iterator[str]:
    yield "  " + tag("link", {"name": robot.base})
    mimics = {loop.joint: loop for loop in robot.loops if isinstance(loop, JointLoop)}
    for link, joint in zip(robot.links, robot.joints, strict=True):
        parent = robot.base if joint.parent == BASE else robot.links[joint.parent].name
        yield from _joint(joint, parent, link.name, mimics.get(joint.name))
        assert link.inertia is not None
        bodies = split(link, link.inertia)
        yield from _link(link.name, bodies[link.name])
        for lump in link.lumps:
            yield "  " + opening("joint", {"name": lump.joint, "type": "fixed"})
            yield from _ends(link.name, lump.name, lump.pose)
            yield "  </joint>"
            yield from _link(lump.name, bodies.get(lump.name, np.zeros(10)))


def _link(name: str, vector: Array) -> Iterator[str]:
    if not vector.any():
        yield "  " + tag("link", {"name": name})
        return
    yield "  " + opening("link", {"name": name})
    yield from (f"    {line}" for line in inertial_lines(inertial(vector)))
    yield "  </link>"


def _joint(joint: Joint, parent: str, child: str, mimic: JointLoop | None) -> Iterator[str]:
    limits = joint.limits
    bounded = np.isfinite([limits.lower, limits.upper]).any()
    kind = "prismatic" if joint.is_prismatic else "revolute" if bounded else "continuous"
    yield "  " + opening("joint", {"name": joint.name, "type": kind})
    yield from _ends(parent, child, joint.pose)
    yield "    " + tag("axis", {"xyz": numbers(joint.axis)})
    if kind != "continuous" or np.isfinite([limits.velocity, limits.effort]).any():
        yield "    " + tag("limit", _limits(limits, bounded=kind != "continuous"))
    if dynamics := dynamics_values(joint.drive):
        yield "    " + tag("dynamics", dynamics)
    if mimic is not None:
        offset, multiplier = (*mimic.polynomial, 0.0)[:2]
        values = {"joint": mimic.other, "multiplier": number(multiplier), "offset": number(offset)}
        yield "    " + tag("mimic", values)
    yield "  </joint>"


def _ends(parent: str, child: str, pose: Pose) -> Iterator[str]:
    origin = {"xyz": numbers(pose.position), "rpy": numbers(roll_pitch_yaw(pose.rotation))}
    yield "    " + tag("origin", origin)
    yield "    " + tag("parent", {"link": parent})
    yield "    " + tag("child", {"link": child})


def _limits(limits: Limits, *, bounded: bool) -> dict[str, str]:
    given = {"effort": limits.effort, "velocity": limits.velocity}
    given = {"lower": limits.lower, "upper": limits.upper} | given if bounded else given
    return {key: number(np.clip(x, -UNLIMITED, UNLIMITED)) for key, x in given.items()}
