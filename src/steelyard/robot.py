"""Robot: geometry and nominal values of a serial or tree mechanism, frozen; no dynamics here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import RobotError, choices
from steelyard.parameters import Array, skew, transformed_inertia

JointKind = Literal["revolute", "continuous", "prismatic"]
# Degrees of freedom a joint adds. A free joint (platform, floating base) would add six.
DEGREES_OF_FREEDOM: dict[str, int] = {"revolute": 1, "continuous": 1, "prismatic": 1, "fixed": 0}
STANDARD_GRAVITY = (0.0, 0.0, -9.80665)
BASE = -1


@dataclass(frozen=True)
class Pose:
    """ᴬT_B: `rotation` (3, 3) and `position` (3,) [m] of frame B seen from frame A."""

    rotation: Array = field(default_factory=lambda: np.eye(3))
    position: Array = field(default_factory=lambda: np.zeros(3))

    def __matmul__(self, other: Pose) -> Pose:
        return Pose(self.rotation @ other.rotation, self.rotation @ other.position + self.position)

    def inverse(self) -> Pose:
        return Pose(self.rotation.T, -self.rotation.T @ self.position)


@dataclass(frozen=True)
class Lump:
    """A body joined to a link by fixed joints: remembered so that results can be put back on it."""

    name: str
    pose: Pose
    inertia: Array | None
    joint: str


@dataclass(frozen=True)
class Link:
    """A moving body. `inertia` (10,) is about the link frame's origin with every lump included; None if unknown."""

    name: str
    inertia: Array | None = None
    lumps: tuple[Lump, ...] = ()


@dataclass(frozen=True)
class Limits:
    """Joint limits, ±inf where the file is silent [rad | m, rad/s | m/s, N·m | N]."""

    lower: float = -np.inf
    upper: float = np.inf
    velocity: float = np.inf
    effort: float = np.inf


@dataclass(frozen=True)
class Drive:
    """Nominal drive-chain values seen from the joint; None where the file is silent."""

    rotor: float | None = None
    viscous: float | None = None
    coulomb: float | None = None
    offset: float | None = None


@dataclass(frozen=True)
class Joint:
    """A joint that moves link i (its child has the joint's index) against `parent` (a link index, or BASE).

    ᵖᵃʳᵉⁿᵗT_child(q) = pose · exp([S]ₓ q) with the constant screw S = (axis, point × axis) in the child's frame:
    a revolute axis through `point`, or a translation along `axis`. `point` is zero except for distal (standard)
    DH frames, whose origin does not lie on their own joint's axis.
    """

    name: str
    kind: JointKind
    parent: int
    pose: Pose
    axis: Array
    point: Array = field(default_factory=lambda: np.zeros(3))
    limits: Limits = Limits()
    drive: Drive = Drive()

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
class GasCompensator:
    """A gas cylinder that carries part of a joint's gravity load: anchors, diameters [m], gas, and the angle [rad] to
    add to the joint's position so that the two anchors line up at zero."""

    joint: str
    anchor_below: float
    anchor_above: float
    piston_diameter: float
    rod_diameter: float
    gas_mass: float
    gas_volume: float
    angle: float
    compressibility: float = 1.0
    gas_constant: float = 296.8
    temperature: float = 293.15


@dataclass(frozen=True)
class JointSpring:
    """A spring on the joint's own axis: τ = K (q − free), or K q + K0 where the free position [rad | m] is unknown."""

    name: str
    joint: str
    free: float | None = None


@dataclass(frozen=True)
class CrankSpring:
    """A spring from a point beside a revolute joint's axis to a crank on the link it moves: a balancer (P2 eqs 23–33).

    Anchors [m] from the axis and `angle` [rad] as of a `GasCompensator`: they line up where q + angle is zero, and the
    spring is then shortest. The pull is Kr L + K0, or Kr (L − free) with a stated free length [m].
    """

    name: str
    joint: str
    anchor_below: float
    anchor_above: float
    angle: float
    free: float | None = None

    def __post_init__(self) -> None:
        if not (self.anchor_below > 0.0 and self.anchor_above > 0.0):
            raise RobotError(f"Spring '{self.name}': anchor_below and anchor_above must be positive lengths [m].")


@dataclass(frozen=True)
class Anchor:
    """A point [m] fixed to a link, in the link's frame; one on the base is in the world's frame, as gravity is."""

    link: str
    point: Array


@dataclass(frozen=True)
class TensionSpring:
    """A spring between two points: it pulls with Kr L + K0, or Kr (L − free) with a stated free length [m]."""

    name: str
    ends: tuple[Anchor, Anchor]
    free: float | None = None


@dataclass(frozen=True)
class ConstantForceSpring:
    """A spring that pulls two points together with a force F that does not depend on their distance."""

    name: str
    ends: tuple[Anchor, Anchor]


Spring = JointSpring | CrankSpring | TensionSpring | ConstantForceSpring


@dataclass(frozen=True)
class Robot:
    """A tree of links and moving joints; joint i moves link i; parents come before children.

    `coupling` (n, n) maps joint to motor velocities, both seen from the joint side: q̇_motor = C q̇, τ = Cᵀ τ_motor.
    `terms` names what the robot's file suggests to identify besides the links; None where it suggests nothing.
    """

    name: str
    links: tuple[Link, ...]
    joints: tuple[Joint, ...]
    gravity: Array = field(default_factory=lambda: np.array(STANDARD_GRAVITY))
    coupling: Array | None = None
    nominal: dict[str, float] = field(default_factory=dict)
    base: str = "base"
    source: str = ""
    sha256: str = ""
    terms: tuple[str, ...] | None = None
    compensator: GasCompensator | None = None
    springs: tuple[Spring, ...] = ()

    def __post_init__(self) -> None:
        if len(self.links) != len(self.joints) or not self.joints:
            raise RobotError(f"Robot '{self.name}' has {len(self.joints)} moving joints; it needs at least one.")
        for what, names in (("joint", self.joint_names), ("link", tuple(k.name for k in self.links))):
            if len(set(names)) != len(names):
                raise RobotError(f"Robot '{self.name}' has two {what}s of the same name: {', '.join(names)}.")
        for i, joint in enumerate(self.joints):
            if not BASE <= joint.parent < i:
                raise RobotError(f"Joint '{joint.name}' of '{self.name}' comes before its parent link.")
        for spring in self.springs:
            self._check(spring)

    def _check(self, spring: Spring) -> None:
        links = tuple(link.name for link in self.links)
        if [other.name for other in self.springs].count(spring.name) > 1:
            raise RobotError(f"Two springs of '{self.name}' are called '{spring.name}'. Give each a name of its own.")
        if not spring.name or spring.name in (*links, *self.joint_names):
            raise RobotError(
                f"A spring of '{self.name}' cannot be called '{spring.name}': its columns are named after it, so give "
                "it a name that no link and no joint has."
            )
        what = f"Spring '{spring.name}': "
        numbers = [x for x in vars(spring).values() if isinstance(x, float | int)]
        numbers += [] if isinstance(spring, JointSpring | CrankSpring) else [x for e in spring.ends for x in e.point]
        if not np.all(np.isfinite(numbers)):
            raise RobotError(f"{what}a number is not finite. Leave 'free' out where it is unknown.")
        if isinstance(spring, JointSpring | CrankSpring):
            if spring.joint not in self.joint_names:
                raise RobotError(what + choices("joint", spring.joint, self.joint_names))
            if isinstance(spring, CrankSpring) and self.joints[self.joint_index(spring.joint)].is_prismatic:
                raise RobotError(f"{what}a crank turns, and joint '{spring.joint}' slides. Use kind 'tension'.")
            return
        for end in spring.ends:
            if end.link not in (self.base, *links):
                raise RobotError(what + choices("link", end.link, (self.base, *links)))
        if spring.ends[0].link == spring.ends[1].link:
            raise RobotError(f"{what}both ends are on '{spring.ends[0].link}', so no joint moves it.")

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        return tuple(joint.name for joint in self.joints)

    @property
    def dof(self) -> int:
        return len(self.joints)

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
    def motor_map(self) -> Array:
        """C (n, n), the identity where nothing is coupled."""
        return np.eye(self.dof) if self.coupling is None else self.coupling

    @cached_property
    def coupled(self) -> tuple[tuple[int, int], ...]:
        """(motor k, joint j) with C_kj ≠ 0 for every motor that turns with a joint other than its own."""
        c = self.motor_map
        return tuple((int(k), int(j)) for k, j in np.argwhere(c) if np.count_nonzero(c[k]) > 1)

    @cached_property
    def coupled_arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """`coupled` as arrays: motors k (P,), joints j (P,) and their shares C_kj (P, 1)."""
        k, j = np.array(self.coupled, np.int64).reshape(-1, 2).T
        return k, j, self.motor_map[k, j][:, None]

    def with_gravity(self, gravity: Sequence[float]) -> Robot:
        """The same robot in another gravity field [m/s²], e.g. mounted on a wall."""
        g = np.asarray(gravity, float)
        if g.shape != (3,) or not np.all(np.isfinite(g)):
            raise RobotError(f"Gravity must be three finite numbers [m/s²], not {gravity!r}.")
        return replace(self, gravity=g)


def lumped(link: Link, lumps: Sequence[Lump]) -> Link:
    """The link with bodies on fixed joints added to its nominal inertia, and remembered.

    A link whose own inertia is unknown stays unknown; a lump without inertia (a frame, a flange) adds nothing.
    """
    if link.inertia is None:
        return replace(link, lumps=link.lumps + tuple(lumps))
    total = link.inertia.copy()
    for lump in lumps:
        if lump.inertia is not None:
            total = total + transformed_inertia(lump.inertia, lump.pose.rotation, lump.pose.position)
    return replace(link, inertia=total, lumps=link.lumps + tuple(lumps))
