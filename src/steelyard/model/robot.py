"""Robot: geometry and nominal values of a tree of links, and the loops that close it; frozen; without dynamics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import LARGEST, Array
from steelyard._notebook import Displayed
from steelyard.errors import RobotError, check_name, choices
from steelyard.findings import Finding
from steelyard.model.loops import JointLoop, Loop, check_loop, reach
from steelyard.model.parameters import skew
from steelyard.model.pose import Pose
from steelyard.model.springs import GasCompensator, Spring, check_spring

JointKind = Literal["revolute", "continuous", "prismatic"]
# Degrees of freedom of a joint in a file. A free one (a floating base, the platform of a parallel robot) is read as six
# joints in a row, `Joint.bare`, on links without mass, `Link.virtual`.
DEGREES_OF_FREEDOM: dict[str, int] = {"revolute": 1, "continuous": 1, "prismatic": 1, "fixed": 0, "free": 6}
STANDARD_GRAVITY = (0.0, 0.0, -9.80665)
BASE = -1
# Largest home position of a joint [rad | m].
_FARTHEST = 1e6


@dataclass(frozen=True)
class Lump:
    """A body joined to a link by fixed joints: stored so that results can be assigned to it again."""

    name: str
    pose: Pose
    inertia: Array | None
    joint: str


@dataclass(frozen=True)
class Link:
    """A moving body. `inertia` (10,) is about the link frame's origin with every lump included; None if unknown.

    A `virtual` link is a frame between two coordinates of a free body: it has no mass and no columns.
    """

    name: str
    inertia: Array | None = None
    lumps: tuple[Lump, ...] = ()
    virtual: bool = False


@dataclass(frozen=True)
class Limits:
    """Joint limits, ±inf where the file gives none [rad | m, rad/s | m/s, N·m | N]."""

    lower: float = -np.inf
    upper: float = np.inf
    velocity: float = np.inf
    effort: float = np.inf


@dataclass(frozen=True)
class Drive:
    """Nominal drive-chain values on the joint side; None where the file gives none."""

    rotor: float | None = None
    viscous: float | None = None
    coulomb: float | None = None
    offset: float | None = None


@dataclass(frozen=True)
class Joint:
    """A joint that moves link i (its child has the joint's index) relative to `parent` (a link index, or BASE).

    ᵖᵃʳᵉⁿᵗT_child(q) = pose · exp([S]ₓ q) with the constant screw S = (axis, point × axis) in the child's frame: a
    revolute axis through `point`, or a translation along `axis`. `point` is zero except for distal (standard) DH
    frames, whose origin does not lie on their own joint's axis. A `bare` joint is a coordinate of a free body: it has
    no drive and no friction, so no term has a column for it.
    """

    name: str
    kind: JointKind
    parent: int
    pose: Pose
    axis: Array
    point: Array = field(default_factory=lambda: np.zeros(3))
    limits: Limits = Limits()
    drive: Drive = Drive()
    bare: bool = False

    @property
    def is_prismatic(self) -> bool:
        return self.kind == "prismatic"

    @cached_property
    def screw(self) -> Array:
        """S (6,): angular part, then the velocity of the child's origin, per unit of joint velocity."""
        if self.is_prismatic:
            return np.concatenate([np.zeros(3), self.axis])
        return np.concatenate([self.axis, np.cross(self.point, self.axis)])

    @cached_property
    def twist(self) -> Array:
        """(3, 4): a point x of the child's frame moves with twist · (x, 1) per unit of joint velocity."""
        return np.column_stack([skew(self.screw[:3]), self.screw[3:]])

    @cached_property
    def placement(self) -> Array:
        """Coefficients (4, 3, 4) of [R | p](q) = P₀ + sin q · P₁ + (1 − cos q) · P₂ + q · P₃ (Rodrigues)."""
        r0, p0 = self.pose.rotation, self.pose.position
        out = np.zeros((4, 3, 4))
        out[0] = np.column_stack([r0, p0])
        if self.is_prismatic:
            out[3, :, 3] = r0 @ self.axis
        else:
            k = skew(self.axis)
            for slot, turn in ((1, r0 @ k), (2, r0 @ k @ k)):
                out[slot] = np.column_stack([turn, -turn @ self.point])
        return out


@dataclass(frozen=True)
class Robot(Displayed):
    """A tree of links and moving joints; joint i moves link i; parents come before children.

    `loops` close the tree; then `actuated` names the joints with motors and encoders, as many as the robot has degrees
    of freedom: its `axes`. All others are passive and follow. `home` (joints,) is a posture near which the loops close:
    it selects one of several assembly modes. `legs` lists the joints of legs of the same design, in the same order in
    each. Without loops every joint is an axis, except the six coordinates of a floating base: they are axes only where
    `actuated` lists them, because the wrench on the base is known (`Robot.floats`).

    `coupling` (n, n) maps axis to motor velocities, both on the joint side: q̇_motor = C q̇, τ = Cᵀ τ_motor. `terms`
    names the terms that the robot's file suggests to identify in addition to the links; None without a suggestion.
    `fixed` holds the frames of the file's bodies that do not move, including the base, relative to the world. `held`
    are joints of the file that are read as fixed, and their positions [rad | m]. `findings` say what the reader left
    out or assumed.
    """

    name: str
    links: tuple[Link, ...]
    joints: tuple[Joint, ...]
    gravity: Array = field(default_factory=lambda: np.array(STANDARD_GRAVITY))
    coupling: Array | None = None
    nominal: dict[str, float] = field(default_factory=dict)
    base: str = "base"
    fixed: dict[str, Pose] = field(default_factory=dict)
    source: str = ""
    sha256: str = ""
    terms: tuple[str, ...] | None = None
    compensator: GasCompensator | None = None
    springs: tuple[Spring, ...] = ()
    loops: tuple[Loop, ...] = ()
    actuated: tuple[str, ...] | None = None
    home: Array | None = None
    legs: tuple[tuple[str, ...], ...] = ()
    held: dict[str, float] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    def __post_init__(self) -> None:
        if len(self.links) != len(self.joints) or not self.joints:
            raise RobotError(f"Robot '{self.name}' has {len(self.joints)} moving joints; it needs at least one.")
        for what, names in (("joint", self.joint_names), ("link", tuple(k.name for k in self.links))):
            for name in (self.name, *names):
                check_name(what if name in names else "robot", name)
            if len(set(names)) != len(names):
                raise RobotError(f"Robot '{self.name}' has two {what}s of the same name: {', '.join(names)}.")
        for i, joint in enumerate(self.joints):
            if not BASE <= joint.parent < i:
                raise RobotError(f"Joint '{joint.name}' of '{self.name}' comes before its parent link.")
        _check_names(self)
        links = (self.base, *(link.name for link in self.links))
        for spring in self.springs:
            check_spring(spring, links, self.joint_names, [j.name for j in self.joints if j.is_prismatic])
        for loop in self.loops:
            check_loop(loop, links, self.joint_names)
        _check_actuation(self)
        _check_legs(self)

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        return tuple(joint.name for joint in self.joints)

    @cached_property
    def axis_names(self) -> tuple[str, ...]:
        """Names of the joints driven by motors, in the order of every measured q, v, a and effort."""
        return self.joint_names[6 * self.floats :] if self.actuated is None else self.actuated

    @cached_property
    def floats(self) -> bool:
        """Whether the base moves: the first six joints are a free body that carries all others, in no loop."""
        free = self.parents[:6] == (BASE, 0, 1, 2, 3, 4) and all(joint.bare for joint in self.joints[:6])
        alone = free and len(self.joints) > 6 and BASE not in self.parents[6:]
        return alone and all(min(self._joints_of(loop)) >= 6 for loop in self.loops)

    @cached_property
    def axis_index(self) -> NDArray[np.int64]:
        """The joint of every axis, (n,)."""
        return np.array([self.joint_names.index(name) for name in self.axis_names], np.int64)

    @cached_property
    def axes(self) -> tuple[Joint, ...]:
        return tuple(self.joints[k] for k in self.axis_index)

    @property
    def dof(self) -> int:
        """Number of axes: all joints, or the actuated ones of a looped robot."""
        return len(self.axis_names)

    @cached_property
    def tree(self) -> Robot:
        """The robot with its loops cut and every joint an axis; itself without loops on a fixed base. The acceleration
        of a floating base is taken as an accelerometer measures it, so gravity is zero then."""
        if not self.loops and not self.floats:
            return self
        coupling = None
        if self.coupling is not None:
            coupling = np.eye(len(self.joints))
            coupling[np.ix_(self.axis_index, self.axis_index)] = self.coupling
        gravity, actuated = (np.zeros(3), self.joint_names) if self.floats else (self.gravity, None)
        return replace(self, loops=(), actuated=actuated, home=None, legs=(), coupling=coupling, gravity=gravity)

    @cached_property
    def reach(self) -> NDArray[np.bool_]:
        """Which axes can move which joint, (joints, n)."""
        return reach([self._joints_of(loop) for loop in self.loops], len(self.joints), self.axis_index)

    def _joints_of(self, loop: Loop) -> set[int]:
        """The joints that can change a loop's constraint."""
        if isinstance(loop, JointLoop):
            return {self.joint_index(loop.joint), self.joint_index(loop.other)}
        first, second = (set(self.ancestors(self.link_index(end.link))) for end in loop.ends)
        return first ^ second

    @cached_property
    def leg_places(self) -> dict[str, tuple[int, int]]:
        """For joints and links of equal legs: the place in its leg, and the index of the leg."""
        return {
            owner: (step, leg)
            for leg, joints in enumerate(self.legs)
            for step, joint in enumerate(joints)
            for owner in (joint, self.links[self.joint_index(joint)].name)
        }

    @cached_property
    def bodies(self) -> NDArray[np.int64]:
        """The links that have mass: all but virtual ones."""
        return np.array([i for i, link in enumerate(self.links) if not link.virtual], np.int64)

    @cached_property
    def parents(self) -> tuple[int, ...]:
        return tuple(joint.parent for joint in self.joints)

    def joint_index(self, name: str) -> int:
        if name not in self.joint_names:
            raise RobotError(choices(f"joint of robot '{self.name}'", name, self.joint_names))
        return self.joint_names.index(name)

    def link_index(self, name: str) -> int:
        """Index of a link; BASE for the base."""
        names = [link.name for link in self.links]
        return names.index(name) if name in names else BASE

    def ancestors(self, link: int) -> tuple[int, ...]:
        """The joints that carry a link, its own first."""
        chain = []
        while link != BASE:
            chain.append(link)
            link = self.parents[link]
        return tuple(chain)

    @cached_property
    def tilting(self) -> tuple[tuple[int, int], ...]:
        """(joint j, joint k on link j) for every two joints each of which loads the bearing of the other one.

        The torque or force of joint k acts on link j along axis k, and that of joint j on the same link along axis j.
        Between joints of one kind the angle of the axes, which is constant, must exceed 45°: more of it then acts
        across the other axis, on the bearing, than along it, on the drive. A force loads any bearing of a turning
        joint, and a torque any guide of a sliding one.
        """
        joints = self.joints
        return tuple(
            (j, k)
            for j, joint in enumerate(joints)
            for k, other in enumerate(joints)
            if other.parent == j
            and not (joint.bare or other.bare)
            and (
                joint.is_prismatic != other.is_prismatic
                or float(joint.axis @ other.pose.rotation @ other.axis) ** 2 < 0.5
            )
        )

    @cached_property
    def motor_map(self) -> Array:
        """C (n, n), the identity without couplings."""
        return np.eye(self.dof) if self.coupling is None else self.coupling

    @cached_property
    def coupled(self) -> tuple[tuple[int, int], ...]:
        """(motor k, joint j) with C_kj ≠ 0 for every motor coupled to a joint other than its own."""
        c = self.motor_map
        return tuple((int(k), int(j)) for k, j in np.argwhere(c) if np.count_nonzero(c[k]) > 1)

    @cached_property
    def coupled_arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """`coupled` as arrays: motors k (P,), joints j (P,) and their coefficients C_kj (P, 1)."""
        k, j = np.array(self.coupled, np.int64).reshape(-1, 2).T
        return k, j, self.motor_map[k, j][:, None]

    def with_gravity(self, gravity: Sequence[float]) -> Robot:
        """The same robot in another gravity field [m/s²], e.g. mounted on a wall."""
        g = np.asarray(gravity, float)
        if g.shape != (3,) or not np.all(np.abs(g) <= LARGEST):
            raise RobotError(f"Gravity must be three finite numbers [m/s²] up to {LARGEST:g}, not {gravity!r}.")
        return replace(self, gravity=g)


def _check_names(robot: Robot) -> None:
    """Raises an error for springs and loops whose names are taken."""
    for what, names in (("springs", [s.name for s in robot.springs]), ("loops", [k.name for k in robot.loops])):
        for name in names:
            if names.count(name) > 1:
                raise RobotError(f"Two {what} of '{robot.name}' are named '{name}'. Give each its own name.")
    for spring in robot.springs:
        if not spring.name or spring.name in (*(link.name for link in robot.links), *robot.joint_names):
            raise RobotError(
                f"A spring of '{robot.name}' cannot be named '{spring.name}': its columns are named after it, so give "
                "it a name that no link and no joint has."
            )


def _check_actuation(robot: Robot) -> None:
    """Raises an error for axes that are not joints of the robot, and for a robot with loops that names none."""
    if not robot.loops:
        if robot.actuated not in (None, robot.joint_names, robot.joint_names[6 * robot.floats :]):
            raise RobotError(
                f"Robot '{robot.name}' lists actuated joints but has no loops: every joint of an open robot is driven. "
                "Add the loops that move the passive ones, or remove 'actuated'."
            )
        return
    if not robot.actuated:
        raise RobotError(
            f"Robot '{robot.name}' has loops, so it must list the joints with motors in 'actuated', out of "
            f"{', '.join(j.name for j in robot.joints if not j.bare)}."
        )
    for name in robot.actuated:
        if name not in robot.joint_names:
            raise RobotError(f"actuated: {choices('joint', name, robot.joint_names)}")
        if robot.joints[robot.joint_index(name)].bare:
            raise RobotError(f"actuated: '{name}' is a coordinate of a free body, which has no motor.")
    if len(set(robot.actuated)) != len(robot.actuated):
        raise RobotError(f"actuated lists a joint twice: {', '.join(robot.actuated)}.")
    if robot.home is not None:
        home = np.asarray(robot.home, float)
        if home.shape != (len(robot.joints),) or not np.all(np.abs(home) < _FARTHEST):
            raise RobotError(
                f"home must contain {len(robot.joints)} finite numbers [rad | m], one per joint of '{robot.name}'."
            )


def _check_legs(robot: Robot) -> None:
    """Raises an error for legs that cannot be equal."""
    listed = [name for leg in robot.legs for name in leg]
    for name in listed:
        if name not in robot.joint_names:
            raise RobotError(f"legs: {choices('joint', name, robot.joint_names)}")
    for name in listed:
        if listed.count(name) > 1:
            where = " and ".join(str(k) for k, leg in enumerate(robot.legs, start=1) for own in leg if own == name)
            raise RobotError(f"legs: joint '{name}' is listed in legs {where}. List it once.")
    if robot.legs and (len(robot.legs) < 2 or not all(robot.legs)):
        raise RobotError("legs: list the joints of at least two legs, none of them empty, or remove it.")
    for name in listed:
        joint = robot.joint_index(name)
        if robot.joints[joint].bare:
            raise RobotError(f"legs: '{name}' is a coordinate of a free body, which is not part of a leg.")
        own = next(leg for leg in robot.legs if name in leg)
        other = next((x for x in listed if x not in own and robot.joint_index(x) in robot.ancestors(joint)), None)
        if other is not None:
            raise RobotError(f"legs: '{name}' depends on '{other}' of another leg, so the two are not identical.")
    if len({tuple(name in robot.axis_names for name in leg) for leg in robot.legs}) > 1:
        raise RobotError("legs: identical legs must have their motors at the same joints.")
    if len({tuple(robot.joints[robot.joint_index(n)].is_prismatic for n in leg) for leg in robot.legs}) > 1:
        raise RobotError(
            "legs: identical legs must have the same number of joints, of the same kinds in the same order."
        )
