"""Robots with loops and the two oracles they are checked against, MuJoCo and Pinocchio; no kernel, no closure of ours.

Both know the tree; MuJoCo's Jacobians of points, and their rates, make the constraints and so the motion of the passive
joints. Pinocchio closes its tree with constraints of its own and gives back the acceleration.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import Polynomial
from scipy.linalg import qr

from steelyard._arrays import Array
from steelyard.model.loops import AXIS, COMPONENTS, FRAME, POINT, Attachment, Component, FrameLoop, JointLoop, Loop
from steelyard.model.pose import Pose
from steelyard.model.robot import BASE, Drive, Robot
from testbed.trees import Mujoco, Pinocchio, State, link_poses, random_inertia, random_pose, random_state, random_tree

# A turn about A's axis k is −(A's axis) · (B's axis) of these, with this sign (see `FrameLoop`)
TURNS = {"rx": (-1.0, 1, 2), "ry": (1.0, 0, 2), "rz": (-1.0, 0, 1)}
# A random robot is kept only if its passive joints hold it this well: smallest singular value of their Jacobian
FIRM = 0.05


class Answer(NamedTuple):
    """What an oracle says of a state of the axes: tree motion (n_t, N), map G (n_t, n_a, N), effort (n_a, N)."""

    q: Array
    v: Array
    a: Array
    map: Array
    torque: Array


class Rows(NamedTuple):
    """Constraints at one state: value c (r,), Jacobian J (r, n_t), rate J̇q̇ (r,)."""

    value: Array
    jacobian: Array
    rate: Array


# --- Robots -----------------------------------------------------------------------------------------------------------


def with_random_bodies(robot: Robot, rng: np.random.Generator) -> Robot:
    """The same mechanism with other inertias, and a rotor at every joint, passive ones too."""
    links = tuple(link if link.virtual else replace(link, inertia=random_inertia(rng)) for link in robot.links)
    joints = tuple(
        joint if joint.bare else replace(joint, drive=Drive(rotor=float(rng.uniform(0.01, 1.0))))
        for joint in robot.joints
    )
    return replace(robot, links=links, joints=joints)


def random_looped(rng: np.random.Generator, joints: int) -> Robot:
    """A random tree closed at a random posture by one or two loops of any kind, held firmly by its passive joints.

    What the loops hold is drawn first, and then trees until one is held firmly and an axis moves its passive joints.
    These are the joints whose columns a QR with pivoting takes first; all others are axes. At least one axis stays, so
    `joints` must be two or more.
    """
    held: list[tuple[Component, ...]] = []
    spare = joints - 1
    for _ in range(int(rng.integers(1, 3))):
        if spare > 0:
            held.append(_random_components(rng, spare))
            spare -= max(len(held[-1]), 1)
    while True:
        tree = random_tree(rng, joints, off_axis=bool(rng.integers(2)), chain=bool(rng.integers(2)))
        home = random_state(rng, tree, 1).q[:, 0]
        loops = tuple(_random_loop(rng, tree, home, f"loop{k + 1}", c) for k, c in enumerate(held))
        trial = replace(tree, loops=loops, actuated=tree.joint_names)
        jacobian = MujocoLoops(trial).rows(home, np.zeros(joints)).jacobian
        passive, axes = np.split(np.asarray(qr(jacobian, pivoting=True)[-1]), [len(jacobian)])
        firm = np.linalg.svd(jacobian[:, passive], compute_uv=False)[-1] > FIRM
        if firm and np.abs(jacobian[:, axes]).max() > FIRM:
            names = tuple(tree.joint_names[j] for j in rng.permutation(axes))
            return replace(trial, actuated=names, home=home)


def _random_components(rng: np.random.Generator, most: int) -> tuple[Component, ...]:
    """A usual set of components or any other, at most `most`; none stands for a joint that follows another."""
    usual = [kind for kind in ((), POINT, AXIS, FRAME) if len(kind) <= most]
    if rng.uniform() < 0.7:
        return usual[rng.integers(len(usual))]
    count = int(rng.integers(1, min(most, 6) + 1))
    return tuple(COMPONENTS[k] for k in rng.permutation(6)[:count])


def _random_loop(
    rng: np.random.Generator, tree: Robot, home: Array, name: str, components: tuple[Component, ...]
) -> Loop:
    """A loop between any two links, or joints where it holds no component, that is closed at home."""
    if not components:
        joint, other = (int(j) for j in rng.choice(len(tree.joints), 2, replace=False))
        slope = Polynomial([0.0, *rng.uniform(-0.5, 0.5, 3)])
        polynomial = (slope + home[joint] - slope(home[other])).coef
        return JointLoop(name, tree.joints[joint].name, tree.joints[other].name, tuple(polynomial.tolist()))
    names, poses = [tree.base, *(k.name for k in tree.links)], [Pose(), *link_poses(tree, home)]
    one, two = (int(k) for k in rng.choice(len(names), 2, replace=False))
    if rng.integers(2):
        one, two = rng.permutation([0, len(names) - 1])  # the longest loop of a chain
    frame = random_pose(rng)
    ends = Attachment(names[one], frame), Attachment(names[two], poses[two].inverse() @ poses[one] @ frame)
    return FrameLoop(name, ends, components)


def states_within_limits(rng: np.random.Generator, robot: Robot, count: int, reach: float = 0.1) -> State:
    """Random states of the axes (n_a, N): within the limits, or `reach` about home where there are none."""
    home = np.zeros(len(robot.joints)) if robot.home is None else robot.home
    low = [max(axis.limits.lower, home[j] - reach) for j, axis in zip(robot.axis_index, robot.axes, strict=True)]
    high = [min(axis.limits.upper, home[j] + reach) for j, axis in zip(robot.axis_index, robot.axes, strict=True)]
    shape = (robot.dof, count)
    q = rng.uniform(np.array(low)[:, None], np.array(high)[:, None], shape)
    return State(q, rng.normal(size=shape), rng.normal(size=shape))


# --- MuJoCo -----------------------------------------------------------------------------------------------------------


class MujocoLoops(Mujoco):
    """MuJoCo's tree, closed by rows made of its Jacobians: motion of all joints and effort of the axes."""

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot)
        self.robot = robot
        self.axes = robot.axis_index
        self.passive = np.setdiff1d(np.arange(len(robot.joints)), self.axes)
        self.home = np.zeros(len(robot.joints)) if robot.home is None else robot.home

    def answer(self, state: State, steps: int = 4) -> Answer:
        """τ_a = Gᵀ (M a + h) at every sample; each is reached from home in `steps` straight steps of the axes."""
        each = [self._answer(q, v, a, steps) for q, v, a in zip(state.q.T, state.v.T, state.a.T, strict=True)]
        return Answer(*(np.stack(part, axis=-1) for part in zip(*each, strict=True)))

    def _answer(self, q_a: Array, v_a: Array, a_a: Array, steps: int) -> tuple[Array, ...]:
        q = self.closed(q_a, steps)
        v, a = np.zeros_like(q), np.zeros_like(q)
        rows = self.rows(q, v)
        follow = np.zeros((len(q), len(q_a)))
        follow[self.axes] = np.eye(len(q_a))
        follow[self.passive] = self._follow(rows.jacobian, -rows.jacobian[:, self.axes])
        v = follow @ v_a
        rows = self.rows(q, v)
        a[self.axes] = a_a
        a[self.passive] = self._follow(rows.jacobian, -rows.rate - rows.jacobian[:, self.axes] @ a_a)
        inertial, tau = np.zeros(len(q)), np.zeros(len(q))
        self.mujoco.mj_mulM(self.model, self.data, inertial, np.ascontiguousarray(a[self.order]))
        tau[self.order] = inertial + self.data.qfrc_bias
        return q, v, a, follow, follow.T @ tau

    def closed(self, q_a: Array, steps: int = 4) -> Array:
        """q (n_t,) with the axes at q_a, on the branch of home."""
        q, still = self.home.copy(), np.zeros(len(self.home))
        for share in np.linspace(0.0, 1.0, steps + 1):
            q[self.axes] = (1.0 - share) * self.home[self.axes] + share * q_a
            last = np.inf
            for _ in range(30):
                rows = self.rows(q, still)
                step = self._follow(rows.jacobian, -rows.value)
                q[self.passive] += step
                size = np.abs(step).max()
                if size < 1e-9 and size > 0.1 * last:  # it converges quadratically until rounding stops it
                    break
                last = size
            assert np.abs(self.rows(q, still).value).max() < 1e-12, f"{self.robot.name} does not close at {q_a}"
        return q

    def _follow(self, jacobian: Array, wanted: Array) -> Array:
        return np.asarray(np.linalg.lstsq(jacobian[:, self.passive], wanted, rcond=None)[0], float)

    def rows(self, q: Array, v: Array) -> Rows:
        """All constraints at one state (n_t,)."""
        self.data.qpos, self.data.qvel = q[self.order], v[self.order]
        self.mujoco.mj_fwdPosition(self.model, self.data)
        self.mujoco.mj_fwdVelocity(self.model, self.data)
        parts = [
            self._joint_rows(loop, q, v) if isinstance(loop, JointLoop) else self._frame_rows(loop, v)
            for loop in self.robot.loops
        ]
        return Rows(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def equality_jacobian(self) -> Array:
        """MuJoCo's own Jacobian of its connect and weld equalities at the last state, (rows, n_t)."""
        out = np.zeros((self.data.nefc, len(self.home)))
        out[:, self.order] = np.reshape(self.data.efc_J, out.shape)
        return out

    def _joint_rows(self, loop: JointLoop, q: Array, v: Array) -> Rows:
        joint, other = self.robot.joint_index(loop.joint), self.robot.joint_index(loop.other)
        law = Polynomial(loop.polynomial)
        jacobian = np.zeros((1, len(q)))
        jacobian[0, joint], jacobian[0, other] = 1.0, -law.deriv()(q[other])
        rate = -law.deriv(2)(q[other]) * v[other] ** 2
        return Rows(np.array([q[joint] - law(q[other])]), jacobian, np.array([rate]))

    def _frame_rows(self, loop: FrameLoop, v: Array) -> Rows:
        """Each component by the product rule, from the two bodies' Jacobians at B's origin and their rates."""
        data = self.data
        a, b = (data.site(f"{loop.name}.{mark}") for mark in "AB")
        frame_a, frame_b = a.xmat.reshape(3, 3), b.xmat.reshape(3, 3)
        (go1, turn1, go_rate1, turn_rate1), (go2, turn2, go_rate2, turn_rate2) = (
            self._body(end.link, b.xpos) for end in loop.ends
        )
        apart, spin1, spin2 = (go2 - go1) @ v, turn1 @ v, turn2 @ v
        values, jacobian, rates = [], [], []
        for component in loop.components:
            if component in POINT:
                n = frame_a[:, POINT.index(component)]
                values.append(n @ (b.xpos - a.xpos))
                jacobian.append(n @ (go2 - go1))
                # n turns with body 1, and so does the point of body 1 that is under B, which B leaves with `apart`
                rates.append(n @ (go_rate2 - go_rate1) @ v - n @ np.cross(spin1, apart) + np.cross(spin1, n) @ apart)
            else:
                sign, i, k = TURNS[component]
                x, y = sign * frame_a[:, i], frame_b[:, k]
                lever, lever_rate = np.cross(y, x), np.cross(np.cross(spin2, y), x) + np.cross(y, np.cross(spin1, x))
                values.append(x @ y)
                jacobian.append(lever @ (turn2 - turn1))
                rates.append(lever @ (turn_rate2 - turn_rate1) @ v + lever_rate @ (spin2 - spin1))
        return Rows(np.array(values), np.array(jacobian), np.array(rates))

    def _body(self, link: str, point: Array) -> list[Array]:
        """Jacobians (3, n_t) of a body's point under `point` and of its turning, then the rates of both."""
        name = "world" if link == self.robot.base else link
        number, size = self.model.body(name).id, (3, len(self.home))
        given = [np.zeros(size) for _ in range(4)]
        self.mujoco.mj_jac(self.model, self.data, given[0], given[1], point, number)
        self.mujoco.mj_jacDot(self.model, self.data, given[2], given[3], point, number)
        out = [np.zeros(size) for _ in range(4)]
        for mine, theirs in zip(out, given, strict=True):
            mine[:, self.order] = theirs
        return out


# --- Pinocchio --------------------------------------------------------------------------------------------------------


class PinocchioLoops(Pinocchio):
    """Pinocchio's tree with rigid constraints: points (an axis is two of them) and whole frames, no others."""

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot)
        self.robot = robot
        constraints = [c for loop in robot.loops for c in self._constraints(loop)]
        self.constraints = self.pin.StdVec_RigidConstraintModel()
        self.constraint_data = self.pin.StdVec_RigidConstraintData()
        for constraint in constraints:
            self.constraints.append(constraint)
            self.constraint_data.append(constraint.createData())
        four = int(self.pin.__version__.split(".")[0]) >= 4
        self.pin.initConstraintDynamics(
            self.model, self.data, self.constraints, *([self.constraint_data] if four else [])
        )

    @staticmethod
    def knows(loop: Loop) -> bool:
        return isinstance(loop, FrameLoop) and loop.components in (POINT, AXIS, FRAME)

    def _constraints(self, loop: Loop) -> list[Any]:
        assert isinstance(loop, FrameLoop)
        kind = self.pin.ContactType.CONTACT_6D if loop.components == FRAME else self.pin.ContactType.CONTACT_3D
        along = [np.zeros(3), np.array([0.0, 0.0, 0.4])][: 2 if loop.components == AXIS else 1]
        return [
            self.pin.RigidConstraintModel(
                kind, self.model, *(x for end in loop.ends for x in self._place(end, shift)), self.pin.LOCAL
            )
            for shift in along
        ]

    def _place(self, end: Attachment, shift: Array) -> tuple[int, Any]:
        """Number of the joint that carries the frame, and the frame seen from the joint, which lies on its axis."""
        link = self.robot.link_index(end.link)
        before = Pose() if link == BASE else Pose(position=-self.robot.joints[link].point)
        place = before @ end.pose @ Pose(position=shift)
        return self.number[link], self.pin.SE3(place.rotation, place.position)

    def closed_acceleration(self, q: Array, v: Array, tau: Array) -> Array:
        """q̈ (n_t, N) of all joints from a closed state q, v (n_t, N) and the effort of the axes (n_a, N).

        The constraints may say a thing twice (planar robots in space), so a small μ is needed; its iterations then
        take its effect away.
        """
        settings = self.pin.ProximalSettings(1e-15, 1e-15, 1e-9, 50)
        full = np.zeros_like(q)
        full[self.robot.axis_index] = tau
        return self._each(
            lambda *x: self.pin.constraintDynamics(
                self.model, self.data, *x, self.constraints, self.constraint_data, settings
            ).copy(),
            State(q, v, full),
        )
