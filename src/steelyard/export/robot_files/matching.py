"""Matching of the identified robot and the robot of the user's file: joints, and links in the file's frames.

The two may have different frames on the same links and different world frames (a DH table, and a URDF of the same arm).
They describe the same mechanism: with constant B (world frame) and X_i (frame of link i),

    ᵒT_i(q) = B · ᶠT_i(q) · X_i⁻¹    for all q, so at q = 0

B is the motion that maps the file's joint axes to ours. Parity on random states decides whether it is the same
mechanism.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.errors import ModelError, OutputError
from steelyard.export.parity import Parity, checked_parity, random_states
from steelyard.export.robot_files.drives import JointDrives
from steelyard.formats.robots.holding import hold
from steelyard.model.model import Model
from steelyard.model.parameters import transformed_inertia
from steelyard.model.pose import Pose
from steelyard.model.robot import BASE, STANDARD_GRAVITY, Robot
from steelyard.model.terms import Coulomb, Rotor, Springs, Term, Viscous

# Frames nearer than this [m, rad] are equal except for rounding.
SAME_FRAME = 1e-12
# Axes of two files nearer than this [m, rad] are the same: angles are often written with ten digits.
SAME_AXIS = 1e-6
# Gravity within this share of the standard one is the usual one: it varies by 0.5 % over the Earth.
USUAL = 0.005


@dataclass(frozen=True)
class Match:
    """The same mechanism twice, with the identified links (lumps included) and the drives to write.

    `identified` is the robot of the model, `file` that of the user's file in its own frames; `axes` (n,) holds the axis
    of the first that is axis k of the second, and `world` is the world frame of the second in that of the first.
    """

    identified: Robot
    file: Robot
    axes: NDArray[np.int64]
    world: Pose

    @property
    def gravity(self) -> Array:
        """Gravity (3,) of the identification in the world frame of the file [m/s²]."""
        gravity = self.world.rotation.T @ self.identified.gravity
        return np.where(np.abs(gravity) < SAME_AXIS, 0.0, gravity)

    @property
    def gravity_note(self) -> str:
        """What a simulator must be set to, for formats without gravity."""
        x, y, z = self.gravity.tolist()
        size = float(np.linalg.norm(self.gravity))
        if not size:
            return (
                "Gravity 0 in the identification: the identified efforts hold no weight, as if the robot were "
                "weightless. Switch gravity off in your simulator, or compensate the weight there."
            )
        note = f"Gravity {size:.6g} m/s², ({x:.6g}, {y:.6g}, {z:.6g}) in the file's world: set it in your simulator."
        usual = np.linalg.norm(self.gravity - STANDARD_GRAVITY) <= USUAL * size
        return note if usual else f"{note} It is not the usual (0, 0, -9.81), which simulators assume."

    def compared(self, written: Robot, what: str) -> Parity:
        """Torques of the file read back compared with the identified ones: bodies, rotors, and springs if identified.

        Friction is compared with the values to write. The reported parity is without friction, because these values
        need not be all of the identified friction.
        """
        springs: tuple[Term, ...] = (Springs(),) if self.identified.nominal else ()
        self._compared(written, what, (Rotor(), Viscous(), Coulomb(), *springs))
        return self._compared(written, what, (Rotor(), *springs))

    def _compared(self, written: Robot, what: str, terms: tuple[Term, ...]) -> Parity:
        wanted = Model(self.identified, terms)
        given = Model(written.with_gravity(self.gravity.tolist()), terms)
        values = _nominal(wanted), _nominal(given)
        # joints may be read back in another order: MuJoCo numbers them branch after branch
        axes = self.axes[[self.file.axis_names.index(name) for name in written.axis_names]]

        def of_file(q: Array, v: Array, a: Array) -> Array:
            out = np.empty_like(q)
            out[axes] = given.torque(q[axes], v[axes], a[axes], values[1])
            return out

        return checked_parity(
            lambda q, v, a: wanted.torque(q, v, a, values[0]), of_file, random_states(wanted), f"'{what}'"
        )


def match(model: Model, theta: Array, file: Robot, held: JointDrives) -> Match:
    """The robot of a file with the parameters theta (C,) of the model; joints are matched by their names.

    If no name agrees, they are matched by their order, as for a DH table and a URDF of the same arm.
    """
    ours = model.robot
    partner = _partners(ours, file)
    frames = _frames(ours), _frames(file)
    world = _world(ours, file, partner)
    inertias = model.link_inertias(theta)
    own_links, links = list(ours.links), list(file.links)
    own_joints, joints = list(ours.joints), list(file.joints)
    for i, k in enumerate(partner):
        drive = held.drive(own_joints[i].name, joints[k].drive)
        own_joints[i], joints[k] = replace(own_joints[i], drive=drive), replace(joints[k], drive=drive)
        if not own_links[i].virtual:
            own_links[i] = replace(own_links[i], inertia=inertias[i])
            links[k] = replace(links[k], inertia=_seen_from(frames[0][i], world @ frames[1][k], inertias[i]))
    axis = {int(partner[j]): n for n, j in enumerate(ours.axis_index)}
    if set(axis) != {int(k) for k in file.axis_index}:
        raise OutputError(
            f"The file drives {', '.join(file.axis_names)}, and the model that was identified "
            f"{', '.join(ours.axis_names)}. Give the file the result was made from."
        )
    return Match(
        replace(ours, links=tuple(own_links), joints=tuple(own_joints), coupling=None, nominal=dict(held.springs)),
        replace(file, links=tuple(links), joints=tuple(joints), nominal=file.nominal | dict(held.springs)),
        np.array([axis[int(k)] for k in file.axis_index], np.int64),
        world,
    )


def restated(ours: Robot, file: Robot) -> Robot:
    """Our robot with the bodies, drives and springs that a file of the same mechanism states, in our frames."""
    partner, frames = _partners(ours, file), (_frames(ours), _frames(file))
    world = _world(ours, file, partner)
    links, joints = list(ours.links), list(ours.joints)
    for i, k in enumerate(partner):
        joints[i] = replace(joints[i], drive=file.joints[k].drive)
        inertia = file.links[k].inertia
        if not links[i].virtual:
            seen = None if inertia is None else _seen_from(world @ frames[1][k], frames[0][i], inertia)
            links[i] = replace(links[i], inertia=seen)
    return replace(ours, links=tuple(links), joints=tuple(joints), nominal=dict(file.nominal))


def gravity_in(ours: Robot, file: Robot) -> Array:
    """Gravity (3,) of the robot of a file of the same mechanism, in our world; ours where they are the same."""
    gravity = _world(ours, file, _partners(ours, file)).rotation @ file.gravity
    return ours.gravity if np.allclose(gravity, ours.gravity, rtol=0.0, atol=SAME_AXIS) else gravity


def as_held(file: Robot, identified: Robot) -> Robot:
    """The robot of a file with those joints held that were held when the model was identified."""
    return hold(file, {name: value for name, value in identified.held.items() if name in file.joint_names})


def _nominal(model: Model) -> Array:
    theta = model.layout.nominal
    if theta is None:
        silent = ", ".join(link.name for link in model.robot.links if link.inertia is None)
        raise ModelError(f"Links without inertia in '{model.robot.name}': {silent}.")
    return theta


def _partners(ours: Robot, file: Robot) -> NDArray[np.int64]:
    """Index of the file's joint for each of our joints, (joints,)."""
    if set(ours.joint_names) == set(file.joint_names):
        return np.array([file.joint_names.index(name) for name in ours.joint_names], np.int64)
    common = set(ours.joint_names) & set(file.joint_names)
    kinds = [[joint.is_prismatic for joint in robot.joints] for robot in (ours, file)]
    if common or kinds[0] != kinds[1] or ours.parents != file.parents:
        raise OutputError(
            f"The joints of the file ({', '.join(file.joint_names)}) are not those that were identified "
            f"({', '.join(ours.joint_names)}). Give the file the result was made from, or one of the same joints."
        )
    return np.arange(len(ours.joints))


def _frames(robot: Robot) -> list[Pose]:
    """ʷᵒʳˡᵈT_link of every link with all joints at zero."""
    out: list[Pose] = []
    for joint in robot.joints:
        out.append(joint.pose if joint.parent == BASE else out[joint.parent] @ joint.pose)
    return out


class _Axis(NamedTuple):
    """A joint's axis in the world at q = 0: its direction (3,), and a point of it (3,), None where it slides."""

    direction: Array
    point: Array | None


def _axes(robot: Robot, joints: Iterable[int]) -> list[_Axis]:
    frames = _frames(robot)
    out = []
    for k in joints:
        joint, frame = robot.joints[k], frames[k]
        point = None if joint.is_prismatic else frame.rotation @ joint.point + frame.position
        out.append(_Axis(frame.rotation @ joint.axis, point))
    return out


def _world(our_robot: Robot, file: Robot, partner: NDArray[np.int64]) -> Pose:
    """B: the identity where the axes agree, else the least-squares motion of their directions, then of their points.

    If all axes are parallel, a rotation about them is not determined, and gravity must agree too.
    """
    ours, theirs = _axes(our_robot, range(len(partner))), _axes(file, partner)
    if _apart(Pose(), ours, theirs) <= SAME_AXIS:
        return Pose()
    vectors = [np.array([axis.direction for axis in axes] + _offsets(axes)) for axes in (ours, theirs)]
    if np.linalg.matrix_rank(vectors[0], tol=SAME_AXIS) < 2:
        vectors = [np.vstack([v, robot.gravity]) for v, robot in zip(vectors, (our_robot, file), strict=True)]
    left, _, right = np.linalg.svd(vectors[0].T @ vectors[1])
    flip = np.diag([1.0, 1.0, np.sign(np.linalg.det(left @ right))])
    rotation = left @ flip @ right
    across = [np.eye(3) - np.outer(axis.direction, axis.direction) for axis in ours if axis.point is not None]
    gaps = [a.point - rotation @ b.point for a, b in zip(ours, theirs, strict=True) if a.point is not None]
    if not across:
        return Pose(rotation)
    lack = np.concatenate([p @ gap for p, gap in zip(across, gaps, strict=True)])
    return Pose(rotation, np.asarray(np.linalg.lstsq(np.vstack(across), lack, rcond=None)[0], float))


def _apart(world: Pose, ours: list[_Axis], theirs: list[_Axis]) -> float:
    """Largest difference of directions and distance of points from their axes after the file's world was moved."""
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        worst = max(worst, float(np.linalg.norm(a.direction - world.rotation @ b.direction)))
        if a.point is not None and b.point is not None:
            gap = world.rotation @ b.point + world.position - a.point
            worst = max(worst, float(np.linalg.norm(np.cross(a.direction, gap))))
    return worst


def _offsets(axes: list[_Axis]) -> list[Array]:
    """Steps from one axis to the next parallel one: if all are parallel, their directions leave a rotation
    undetermined."""
    out = []
    turning = [axis for axis in axes if axis.point is not None]
    for a, b in itertools.pairwise(turning):
        if a.point is not None and b.point is not None and abs(a.direction @ b.direction) > 1.0 - SAME_AXIS:
            step = b.point - a.point
            out.append(step - (step @ a.direction) * a.direction)
    return out


def _seen_from(ours: Pose, theirs: Pose, inertia: Array) -> Array:
    """Ten parameters of a link, transformed from our frame to the file's."""
    change = theirs.inverse() @ ours
    if max(np.abs(change.rotation - np.eye(3)).max(), np.abs(change.position).max()) <= SAME_FRAME:
        return inertia
    return transformed_inertia(inertia, change.rotation, change.position)
