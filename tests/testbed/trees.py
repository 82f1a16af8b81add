"""Random robots and the two oracles they are checked against; evidence scripts call `worst_errors` with more trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from steelyard._arrays import Array
from steelyard.model.loops import FRAME, POINT, FrameLoop
from steelyard.model.model import Model
from steelyard.model.parameters import inertial_vector, transformed_inertia
from steelyard.model.pose import Pose
from steelyard.model.robot import BASE, Drive, Joint, JointKind, Link, Robot
from steelyard.model.terms import Rotor

KINDS: tuple[JointKind, ...] = ("revolute", "continuous", "prismatic")


class State(NamedTuple):
    """Joint positions, velocities and accelerations, each (n, N)."""

    q: Array
    v: Array
    a: Array


# --- Random robots ----------------------------------------------------------------------------------------------------


def random_rotation(rng: np.random.Generator) -> Array:
    return Rotation.random(rng=rng).as_matrix()


def random_pose(rng: np.random.Generator) -> Pose:
    return Pose(random_rotation(rng), rng.uniform(-0.5, 0.5, 3))


def random_axis(rng: np.random.Generator) -> Array:
    """Any direction; one time in three a coordinate axis, where rotations are full of exact zeros."""
    if rng.uniform() < 1 / 3:
        return np.eye(3)[rng.integers(3)] * rng.choice([-1.0, 1.0])
    axis = rng.normal(size=3)
    return axis / np.linalg.norm(axis)


def random_inertia(rng: np.random.Generator) -> Array:
    """Ten parameters of a body that can exist: a mass with centre and a positive covariance of its density."""
    mass = float(np.exp(rng.uniform(np.log(0.1), np.log(20.0))))
    spread = rng.uniform(-0.15, 0.15, (3, 3))
    second = mass * (spread @ spread.T + 1e-4 * np.eye(3))
    return inertial_vector(mass, rng.uniform(-0.3, 0.3, 3), np.trace(second) * np.eye(3) - second)


def random_tree(rng: np.random.Generator, joints: int, *, off_axis: bool = False, chain: bool = False) -> Robot:
    """A robot with any poses, axes, kinds of joint, inertias, rotors and gravity; it branches unless `chain`.

    With `off_axis` the origins of the link frames lie beside their joints' axes, as in distal DH tables.
    """
    made = []
    for i in range(joints):
        parent = i - 1 if chain else int(rng.integers(BASE, i))
        made.append(
            Joint(
                f"joint{i + 1}",
                KINDS[rng.choice(3, p=[0.4, 0.3, 0.3])],
                parent,
                random_pose(rng),
                random_axis(rng),
                point=rng.uniform(-0.4, 0.4, 3) if off_axis else np.zeros(3),
                drive=Drive(rotor=float(rng.uniform(0.01, 1.0))),
            )
        )
    links = tuple(Link(f"link{i + 1}", random_inertia(rng)) for i in range(joints))
    return Robot("random tree", links, tuple(made), gravity=rng.normal(size=3) * 6.0)


def random_state(rng: np.random.Generator, robot: Robot, samples: int) -> State:
    shape = (robot.dof, samples)
    return State(rng.uniform(-np.pi, np.pi, shape), rng.normal(size=shape), rng.normal(size=shape))


def rigid_model(robot: Robot) -> tuple[Model, Array]:
    """The model with rotors and no friction, and its nominal parameters."""
    model = Model(robot, terms=[Rotor()])
    theta = model.layout.nominal
    assert theta is not None
    return model, theta


def rotors(robot: Robot) -> Array:
    return np.array([joint.drive.rotor or 0.0 for joint in robot.joints])


def motion_of(joint: Joint, q: float) -> Pose:
    """ᵖᵃʳᵉⁿᵗT_child(q), written out without the kernels' coefficients."""
    if joint.is_prismatic:
        return joint.pose @ Pose(np.eye(3), q * joint.axis)
    turn = Rotation.from_rotvec(q * joint.axis).as_matrix()
    return joint.pose @ Pose(turn, joint.point - turn @ joint.point)


def link_poses(robot: Robot, q: Array) -> list[Pose]:
    """ᵇᵃˢᵉT_link of every link at one q (n,)."""
    poses: list[Pose] = []
    for joint, x in zip(robot.joints, q, strict=True):
        step = motion_of(joint, float(x))
        poses.append(step if joint.parent == BASE else poses[joint.parent] @ step)
    return poses


def potential_energy(robot: Robot, q: Array) -> float:
    """U = −Σ g · (m p + R mc)."""
    total = 0.0
    for link, pose in zip(robot.links, link_poses(robot, q), strict=True):
        assert link.inertia is not None
        moment = pose.rotation @ link.inertia[6:9] + link.inertia[9] * pose.position
        total -= float(robot.gravity @ moment)
    return total


# --- The same robot, written differently ------------------------------------------------------------------------------


def relabelled(robot: Robot, rng: np.random.Generator) -> Robot:
    """Other names for links and joints."""
    marks = rng.permutation(robot.dof)
    links = tuple(replace(link, name=f"body{m}") for link, m in zip(robot.links, marks, strict=True))
    joints = tuple(replace(joint, name=f"axis{m}") for joint, m in zip(robot.joints, marks, strict=True))
    return replace(robot, links=links, joints=joints)


def reordered(robot: Robot, rng: np.random.Generator) -> tuple[Robot, list[int]]:
    """The joints in another order with parents before children; `order[k]` is the old index of the new joint k."""
    order: list[int] = []
    ready = [i for i, parent in enumerate(robot.parents) if parent == BASE]
    while ready:
        i = ready.pop(int(rng.integers(len(ready))))
        order.append(i)
        ready += [k for k, parent in enumerate(robot.parents) if parent == i]
    place = {BASE: BASE} | {old: new for new, old in enumerate(order)}
    joints = tuple(replace(robot.joints[i], parent=place[robot.joints[i].parent]) for i in order)
    return replace(robot, joints=joints, links=tuple(robot.links[i] for i in order)), order


def with_base(robot: Robot, pose: Pose) -> Robot:
    """The same robot described in another base frame, gravity included; `pose` is ⁿᵉʷT_old."""
    joints = tuple(replace(j, pose=pose @ j.pose) if j.parent == BASE else j for j in robot.joints)
    return replace(robot, joints=joints, gravity=pose.rotation @ robot.gravity)


def with_link_frame(robot: Robot, link: int, change: Pose) -> Robot:
    """The same robot with the frame of one link moved; `change` is ᵒˡᵈT_new.

    pose · exp([S]q) · X = (pose · X) · exp([Ad(X⁻¹)S]q), and children and inertia are seen from the new frame.
    """
    back = change.inverse()
    joints = list(robot.joints)
    here = joints[link]
    joints[link] = replace(
        here,
        pose=here.pose @ change,
        axis=back.rotation @ here.axis,
        point=back.rotation @ here.point + back.position,
    )
    for k, joint in enumerate(joints):
        if joint.parent == link:
            joints[k] = replace(joint, pose=back @ joint.pose)
    links = list(robot.links)
    inertia = links[link].inertia
    assert inertia is not None
    links[link] = replace(links[link], inertia=transformed_inertia(inertia, back.rotation, back.position))
    return replace(robot, joints=tuple(joints), links=tuple(links))


def depth_first(robot: Robot) -> list[int]:
    """Joint indices branch after branch, as both oracles want to hear them."""

    def branch(link: int) -> list[int]:
        below = [k for k, parent in enumerate(robot.parents) if parent == link]
        return [i for k in below for i in (k, *branch(k))]

    return branch(BASE)


# --- Pinocchio --------------------------------------------------------------------------------------------------------


class Pinocchio:
    """The robot in Pinocchio. Its joint frames lie on their axes, so off-axis link frames are carried as constants."""

    def __init__(self, robot: Robot) -> None:
        import pinocchio as pin

        self.pin, self.model, self.order = pin, pin.Model(), depth_first(robot)
        self.model.gravity.linear = robot.gravity
        self.number = number = {BASE: 0}
        for i in self.order:
            joint, link = robot.joints[i], robot.links[i]
            before = Pose() if joint.parent == BASE else Pose(position=-robot.joints[joint.parent].point)
            place = before @ joint.pose @ Pose(position=joint.point)
            kind = pin.JointModelPrismaticUnaligned if joint.is_prismatic else pin.JointModelRevoluteUnaligned
            number[i] = self.model.addJoint(
                number[joint.parent], kind(joint.axis), pin.SE3(place.rotation, place.position), joint.name
            )
            if link.virtual:
                continue
            assert link.inertia is not None
            xx, xy, xz, yy, yz, zz, mx, my, mz, m = transformed_inertia(link.inertia, np.eye(3), -joint.point)
            body = pin.Inertia.FromDynamicParameters(np.array([m, mx, my, mz, xx, xy, yy, xz, yz, zz]))
            self.model.appendBodyToJoint(number[i], body, pin.SE3.Identity())
        self.model.armature = rotors(robot)[self.order]
        self.data = self.model.createData()

    def torque(self, state: State) -> Array:
        return self._each(lambda q, v, a: self.pin.rnea(self.model, self.data, q, v, a), state)

    def acceleration(self, q: Array, v: Array, tau: Array) -> Array:
        return self._each(lambda *x: self.pin.aba(self.model, self.data, *x), State(q, v, tau))

    def mass_matrix(self, q: Array) -> Array:
        out = np.empty((len(q), *q.shape))
        for s in range(q.shape[1]):
            upper = np.triu(self.pin.crba(self.model, self.data, np.ascontiguousarray(q[self.order, s])))
            out[np.ix_(self.order, self.order, [s])] = (upper + np.triu(upper, 1).T)[:, :, None]
        return out

    def _each(self, compute: Callable[[Array, Array, Array], Array], state: State) -> Array:
        out = np.empty_like(state.q)
        for s in range(out.shape[1]):
            q, v, third = (np.ascontiguousarray(x[self.order, s]) for x in state)
            out[self.order, s] = compute(q, v, third)
        return out


# --- MuJoCo -----------------------------------------------------------------------------------------------------------


class Mujoco:
    """The robot in MuJoCo, by way of MJCF text: no geometry, no contact, no friction, inertias taken as they are."""

    def __init__(self, robot: Robot) -> None:
        import mujoco

        self.mujoco, self.order = mujoco, depth_first(robot)
        self.model = mujoco.MjModel.from_xml_string(mjcf_text(robot))
        self.data = mujoco.MjData(self.model)

    def torque(self, state: State) -> Array:
        out = np.empty_like(state.q)
        for s in range(out.shape[1]):
            self.data.qpos, self.data.qvel, self.data.qacc = (x[self.order, s] for x in state)
            self.mujoco.mj_inverse(self.model, self.data)
            out[self.order, s] = self.data.qfrc_inverse
        return out


def mjcf_text(robot: Robot) -> str:
    """MJCF of a robot with nominal inertias; every number is printed so that it reads back exactly.

    The coordinates of a free body become joints of one body, for MuJoCo wants mass in every body that moves. Loops are
    cut: their frames are sites, and points and whole frames are equalities too, whose Jacobian MuJoCo then gives.
    """
    sites: dict[str, str] = {robot.base: ""} | {link.name: "" for link in robot.links}
    equalities = ""
    for loop in robot.loops:
        if not isinstance(loop, FrameLoop):
            continue
        for end, mark in zip(loop.ends, "AB", strict=True):
            sites[end.link] += f'<site name="{loop.name}.{mark}" {_mjcf_pose(end.pose)}/>'
        kind = {POINT: "connect", FRAME: "weld"}.get(loop.components)
        equalities += f'<{kind} site1="{loop.name}.A" site2="{loop.name}.B"/>' if kind else ""

    def body(first: int) -> str:
        joint = robot.joints[first]
        at, i, coordinates = _mjcf_pose(joint.pose), first, _mjcf_joint(joint)
        while robot.links[i].virtual:
            (i,) = (k for k, parent in enumerate(robot.parents) if parent == i)
            joint = robot.joints[i]
            assert np.array_equal(joint.pose.rotation, np.eye(3))
            assert not joint.pose.position.any()
            coordinates += _mjcf_joint(joint)
        vector = robot.links[i].inertia
        assert vector is not None
        com = vector[6:9] / vector[9]
        xx, xy, xz, yy, yz, zz = transformed_inertia(vector, np.eye(3), -com)[:6]
        inside = "".join(body(k) for k, parent in enumerate(robot.parents) if parent == i)
        return (
            f'<body name="{robot.links[i].name}" {at}>'
            f'<inertial pos="{_mjcf_numbers(com)}" mass="{float(vector[9])!r}" '
            f'fullinertia="{_mjcf_numbers([xx, yy, zz, xy, xz, yz])}"/>'
            f"{coordinates}{sites[robot.links[i].name]}{inside}</body>"
        )

    bodies = "".join(body(i) for i, parent in enumerate(robot.parents) if parent == BASE)
    constraint = "" if equalities else 'constraint="disable" '
    return (
        '<mujoco><compiler angle="radian" inertiafromgeom="false" balanceinertia="false" boundmass="0" '
        'boundinertia="0"/>'
        f'<option gravity="{_mjcf_numbers(robot.gravity)}" jacobian="dense">'
        f'<flag {constraint}contact="disable"/></option>'
        f"<worldbody>{sites[robot.base]}{bodies}</worldbody><equality>{equalities}</equality></mujoco>"
    )


def _mjcf_numbers(values: Any) -> str:
    return " ".join(repr(float(x)) for x in values)


def _mjcf_pose(pose: Pose) -> str:
    x, y, z, w = Rotation.from_matrix(pose.rotation).as_quat()
    return f'pos="{_mjcf_numbers(pose.position)}" quat="{_mjcf_numbers([w, x, y, z])}"'


def _mjcf_joint(joint: Joint) -> str:
    kind = "slide" if joint.is_prismatic else "hinge"
    return (
        f'<joint name="{joint.name}" type="{kind}" axis="{_mjcf_numbers(joint.axis)}" '
        f'pos="{_mjcf_numbers(joint.point)}" armature="{float(joint.drive.rotor or 0.0)!r}" '
        'damping="0" stiffness="0" frictionloss="0"/>'
    )


# --- Worst errors over many trees -------------------------------------------------------------------------------------


def relative(given: Array, wanted: Array) -> float:
    """Largest difference over the largest wanted value."""
    return float(np.abs(given - wanted).max() / np.abs(wanted).max())


def worst_errors(count: int, seed: int, oracle: str, largest: int = 12, samples: int = 5) -> dict[str, float]:
    """Worst relative differences to `oracle` over `count` random trees of 1 to `largest` joints.

    Torques are relative to the largest torque of the tree, and `joint torque` to the joint's own. Every second tree
    has off-axis link frames.
    """
    rng = np.random.default_rng(seed)
    worst: dict[str, float] = {}

    def note(what: str, error: float) -> None:
        worst[what] = max(worst.get(what, 0.0), error) if error == error else float("nan")

    for tree in range(count):
        robot = random_tree(rng, 1 + tree % largest, off_axis=tree % 2 == 1)
        model, theta = rigid_model(robot)
        state = random_state(rng, robot, samples)
        regressor = np.einsum("jcs,c->js", model.regressor(*state), theta)
        torque = model.torque(*state, theta)
        other = {"pinocchio": Pinocchio, "mujoco": Mujoco}[oracle](robot)
        wanted = other.torque(state)
        note("regressor", relative(regressor, wanted))
        note("torque", relative(torque, wanted))
        note("joint torque", max(relative(torque[j], wanted[j]) for j in range(robot.dof)))
        if isinstance(other, Pinocchio):
            note("mass matrix", relative(model.mass_matrix(state.q, theta), other.mass_matrix(state.q)))
            tau = wanted + rng.normal(size=wanted.shape)
            given = model.forward(state.q, state.v, tau, theta)
            note("acceleration", relative(given, other.acceleration(state.q, state.v, tau)))
    return worst
