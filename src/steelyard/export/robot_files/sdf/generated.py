"""A new SDF of a robot from another format: links, joints, limits, inertias and friction; no shapes."""

from __future__ import annotations

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
from steelyard.export.robot_files.sdf.edited import HOLDS, inertial_lines
from steelyard.export.robot_files.urdf import dynamics_values
from steelyard.export.robot_files.urdf_new import file_stem
from steelyard.export.robot_files.xml_edit import escaped, opening
from steelyard.formats.robots.sdf.frames import WORLD
from steelyard.formats.robots.sdf.reader import read_sdf
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.model.pose import Pose
from steelyard.model.robot import BASE, Joint, Robot

VERSION = "1.7"


def generated_sdf(model: Model, theta: Array, load: str = UNLOADED) -> Export:
    """An SDF with the kinematics of the model's robot and the values of theta (C,), read back and compared.

    `load` names the payload that theta has in its links already.
    """
    held = drives(model, theta, HOLDS, "SDF", load=load)
    frames = on_axes(model.robot)
    matched = match(model, theta, frames, held)
    robot = matched.file
    if robot.loops:
        names = ", ".join(loop.name for loop in robot.loops)
        raise OutputError(f"'{robot.name}' has loops ({names}), which this target does not write. Write MJCF.")
    if empty := [link.name for link in robot.links if link.inertia is None or not link.inertia[9] > 0.0]:
        raise OutputError(
            f"Gazebo gives a link without mass 1 kg, and {', '.join(empty)} has none. Write MJCF, or state a mass."
        )
    lines = ['<?xml version="1.0"?>', opening("sdf", {"version": VERSION}), *_lines(robot), "</sdf>", ""]
    name, written = f"{file_stem(robot)}.sdf", "\n".join(lines).encode()
    parity = matched.compared(read_sdf(written, name), name)
    notes = (*held.notes, *lump_notes(frames, new_bodies(frames, robot)), matched.gravity_note)
    return Export("sdf", {name: written}, held.left_out, parity=parity, friction=held.lines, notes=notes)


def _lines(robot: Robot) -> Iterator[str]:
    yield "  " + opening("model", {"name": robot.name})
    if robot.base != WORLD:  # every SDF has the world itself
        yield "    " + opening("link", {"name": robot.base}) + "</link>"
        yield "    " + opening("joint", {"name": f"{robot.base}_to_world", "type": "fixed"})
        yield f"      <parent>{WORLD}</parent><child>{escaped(robot.base)}</child>"
        yield "    </joint>"
    for link, joint in zip(robot.links, robot.joints, strict=True):
        parent = robot.base if joint.parent == BASE else robot.links[joint.parent].name
        assert link.inertia is not None
        bodies = split(link, link.inertia)
        yield from _link(link.name, bodies[link.name], parent, joint.pose)
        yield from _joint(joint, parent, link.name)
        for lump in link.lumps:
            body = bodies.get(lump.name, np.zeros(10))
            if not body[9] > 0.0:  # a link without mass would get 1 kg
                yield "    " + opening("frame", {"name": lump.name, "attached_to": link.name})
                yield f"      <pose>{_pose(lump.pose)}</pose>"
                yield "    </frame>"
                continue
            yield from _link(lump.name, body, link.name, lump.pose)
            yield "    " + opening("joint", {"name": lump.joint, "type": "fixed"})
            yield f"      <parent>{escaped(link.name)}</parent><child>{escaped(lump.name)}</child>"
            yield "    </joint>"
    yield "  </model>"


def _link(name: str, vector: Array, parent: str, pose: Pose) -> Iterator[str]:
    yield "    " + opening("link", {"name": name})
    frame = {} if parent == WORLD else {"relative_to": parent}
    yield "      " + opening("pose", frame) + f"{_pose(pose)}</pose>"
    yield from (f"      {line}" for line in inertial_lines(inertial(vector)))
    yield "    </link>"


def _joint(joint: Joint, parent: str, child: str) -> Iterator[str]:
    kind = "prismatic" if joint.is_prismatic else "revolute"
    limits = joint.limits
    values = {"lower": limits.lower, "upper": limits.upper, "velocity": limits.velocity, "effort": limits.effort}
    yield "    " + opening("joint", {"name": joint.name, "type": kind})
    yield f"      <parent>{escaped(parent)}</parent><child>{escaped(child)}</child>"
    yield "      <axis>"
    yield f"        <xyz>{numbers(joint.axis)}</xyz>"
    if limit := [f"<{key}>{number(x)}</{key}>" for key, x in values.items() if np.isfinite(x)]:
        yield f"        <limit>{''.join(limit)}</limit>"
    if dynamics := dynamics_values(joint.drive):
        inner = "".join(f"<{key}>{value}</{key}>" for key, value in dynamics.items())
        yield f"        <dynamics>{inner}</dynamics>"
    yield "      </axis>"
    yield "    </joint>"


def _pose(pose: Pose) -> str:
    return f"{numbers(pose.position)} {numbers(roll_pitch_yaw(pose.rotation))}"
