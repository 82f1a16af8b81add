"""A new MJCF of a robot from another format: bodies, joints, ranges, inertias, drives, motors and loops.

A joint that the loops keep away from zero gets its position at home as `ref`, at which MuJoCo assembles the robot: the
body is then at pose · exp([S] ref). A free platform is one body with a free joint, at home.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import OutputError
from steelyard.export.export import Export
from steelyard.export.robot_files.axes import on_axes
from steelyard.export.robot_files.drives import drives
from steelyard.export.robot_files.fixed_bodies import lump_notes, new_bodies, split
from steelyard.export.robot_files.inertial import inertial, numbers
from steelyard.export.robot_files.matching import match
from steelyard.export.robot_files.mjcf import HOLDS, compiled_back, drive_values, inertial_values
from steelyard.export.robot_files.mjcf_check import checked_by_mujoco
from steelyard.export.robot_files.urdf_new import file_stem
from steelyard.export.robot_files.xml_edit import opening, tag
from steelyard.model.loops import FRAME, POINT, FrameLoop, JointLoop, Loop
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.model.pose import Pose
from steelyard.model.robot import BASE, Joint, Robot

# MuJoCo requires both ends of a range.
UNLIMITED = 1e9
# MuJoCo must use the written values: no inertia from shapes, no bounds, no balancing.
COMPILER = '<compiler angle="radian" inertiafromgeom="false" balanceinertia="false" boundmass="0" boundinertia="0"/>'
DEGREES = 5  # coefficients of a <joint> equality


def generated_mjcf(model: Model, theta: Array, load: str = UNLOADED) -> Export:
    """An MJCF with the kinematics of the model's robot and the values of theta (C,), read back and compared.

    `load` names the payload that theta has in its links already.
    """
    held = drives(model, theta, HOLDS, "MJCF", load=load)
    frames = on_axes(model.robot)
    matched = match(model, theta, frames, held)
    robot = matched.file
    text = "\n".join(_Writer(robot).lines())
    path = Path(f"{file_stem(robot)}.xml")
    parity = matched.compared(compiled_back(text, path), path.name)
    checked_by_mujoco(text, path, matched)
    fast = [joint.name for joint in robot.axes if np.isfinite(joint.limits.velocity)]
    note = (f"The velocity limits of {', '.join(fast)}: MJCF has no place for them.",) if fast else ()
    return Export(
        "mjcf",
        {path.name: text.encode()},
        (*held.left_out, *note),
        parity=parity,
        friction=held.lines,
        notes=(*held.notes, *lump_notes(frames, new_bodies(frames, robot))),
    )


class _Writer:
    """The elements of a robot, body inside body."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self.home = np.zeros(len(robot.joints)) if robot.home is None else robot.home
        self.below: dict[int, list[int]] = defaultdict(list)
        for i, parent in enumerate(robot.parents):
            self.below[parent].append(i)
        self.sites: dict[str, list[str]] = defaultdict(list)
        self.equalities = [self._equality(loop) for loop in robot.loops]

    def lines(self) -> Iterator[str]:
        yield opening("mujoco", {"model": self.robot.name})
        yield f"  {COMPILER}"
        yield "  " + tag("option", {"gravity": numbers(self.robot.gravity)})
        yield "  <worldbody>"
        yield from (f"    {site}" for site in self.sites[self.robot.base])
        for i in self.below[BASE]:
            yield from self._body(i, "    ")
        yield "  </worldbody>"
        if self.equalities:
            yield from ["  <equality>", *(f"    {one}" for one in self.equalities), "  </equality>"]
        yield "  <actuator>"
        motors = ({"name": f"{axis}_motor", "joint": axis} for axis in self.robot.axis_names)
        yield from ("    " + tag("motor", motor) for motor in motors)
        yield from ["  </actuator>", "</mujoco>", ""]

    def _body(self, first: int, indent: str) -> Iterator[str]:
        joints = [self.robot.joints[first]]
        pose, i = joints[0].pose @ _displaced(joints[0], self.home[first]), first
        while self.robot.links[i].virtual:  # the coordinates of one free body
            (i,) = self.below[i]
            joints.append(self.robot.joints[i])
            pose = pose @ self.robot.joints[i].pose @ _displaced(self.robot.joints[i], self.home[i])
        link = self.robot.links[i]
        assert link.inertia is not None
        bodies = split(link, link.inertia)
        yield indent + opening("body", {"name": link.name} | _pose(pose))
        yield from self._inertial(bodies[link.name], indent)
        yield f"{indent}  {_joint(joints, float(self.home[i]))}"
        yield from (f"{indent}  {site}" for site in self.sites[link.name])
        for lump in link.lumps:
            yield f"{indent}  " + opening("body", {"name": lump.name} | _pose(lump.pose))
            yield from self._inertial(bodies.get(lump.name, np.zeros(10)), f"{indent}  ")
            yield f"{indent}  </body>"
        for k in self.below[i]:
            yield from self._body(k, f"{indent}  ")
        yield f"{indent}</body>"

    def _inertial(self, vector: Array, indent: str) -> Iterator[str]:
        if vector.any():
            yield f"{indent}  {tag('inertial', inertial_values(inertial(vector)))}"

    def _equality(self, loop: Loop) -> str:
        if isinstance(loop, JointLoop) and len(loop.polynomial) <= DEGREES:
            return tag(
                "joint", {"name": loop.name, "joint1": loop.joint, "joint2": loop.other} | self._polynomial(loop)
            )
        kind = {POINT: "connect", FRAME: "weld"}.get(loop.components) if isinstance(loop, FrameLoop) else None
        if kind is None or isinstance(loop, JointLoop):
            raise OutputError(
                f"Loop '{loop.name}' of '{self.robot.name}' has no equal in MuJoCo, which closes loops at a point "
                "(x y z), as a whole (all six) or between two joints. Cut the loop at a ball joint "
                "and identify again."
            )
        names = [f"{loop.name}.{end}" for end in ("A", "B")]
        for name, end in zip(names, loop.ends, strict=True):
            self.sites[end.link].append(tag("site", {"name": name} | _pose(end.pose)))
        return tag(kind, {"name": loop.name, "site1": names[0], "site2": names[1]})

    def _polynomial(self, loop: JointLoop) -> dict[str, str]:
        """q₁ − ref₁ = Σ_k polycoef[k] (q₂ − ref₂)^k, which is q₁ in powers of q₂ written about the references."""
        first, second = (self.home[self.robot.joint_index(name)] for name in (loop.joint, loop.other))
        shifted = np.polynomial.Polynomial(loop.polynomial)(np.polynomial.Polynomial([second, 1.0])) - first
        coefficients = np.zeros(DEGREES)
        coefficients[: len(shifted.coef)] = shifted.coef
        return {"polycoef": numbers(coefficients)}


def _joint(joints: list[Joint], home: float) -> str:
    if len(joints) > 1:
        name = joints[0].name.rpartition(".")[0]
        return tag("freejoint", {"name": name}) if len(joints) == 6 else tag("joint", {"name": name, "type": "ball"})
    (joint,) = joints
    kind = "slide" if joint.is_prismatic else "hinge"
    values = {"name": joint.name, "type": kind, "axis": numbers(joint.axis)}
    if home:
        values["ref"] = numbers(np.array([home]))
    limits = joint.limits
    if np.isfinite([limits.lower, limits.upper]).any():
        values["range"] = numbers(np.clip([limits.lower, limits.upper], -UNLIMITED, UNLIMITED))
    if np.isfinite(limits.effort):
        values["actuatorfrcrange"] = numbers(np.array([-limits.effort, limits.effort]))
    return tag("joint", values | drive_values(joint.drive))


def _displaced(joint: Joint, q: float) -> Pose:
    """exp([S] q) of a joint that turns about its frame's origin."""
    if q == 0.0:
        return Pose()
    placement = joint.placement
    moved = placement[0] + np.sin(q) * placement[1] + (1.0 - np.cos(q)) * placement[2] + q * placement[3]
    return joint.pose.inverse() @ Pose(moved[:, :3], moved[:, 3])


def _pose(pose: Pose) -> dict[str, str]:
    return {"pos": numbers(pose.position), "quat": numbers(_quaternion(pose.rotation))}


def _quaternion(rotation: Array) -> Array:
    """(w, x, y, z) of a rotation matrix, computed from its largest component so that no digits are lost."""
    r = rotation
    squares = np.array([1.0 + np.trace(r), *(1.0 + 2.0 * r[k, k] - np.trace(r) for k in range(3))])
    k = int(np.argmax(squares))
    odd = np.array([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]])
    out = np.empty(4)
    out[0], out[1:] = (squares[0], odd) if k == 0 else (odd[k - 1], (r + r.T)[k - 1])
    out[k] = squares[k]
    return out / np.linalg.norm(out)
