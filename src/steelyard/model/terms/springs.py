"""Springs and balancers: the torque the motors must add to stretch them, linear in stiffness and preload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from steelyard._arrays import Array
from steelyard._kernels.trigonometry import sine_cosine
from steelyard.errors import ModelError
from steelyard.model.parameters import Column
from steelyard.model.robot import Robot
from steelyard.model.springs import Anchor, ConstantForceSpring, CrankSpring, JointSpring, Spring
from steelyard.model.terms.law import AppliedLaw
from steelyard.model.terms.laws import CONSTANT, CRANK, LINEAR, over_length
from steelyard.model.terms.term import Entry, Motion


@final
@dataclass(frozen=True)
class Springs:
    """All springs of the robot: τ = ∂U/∂q of the energy U stored in them, which is what the motors must supply.

    A spring that pulls with F = Kr L + K0 stores U = Kr L²/2 + K0 L, so its columns are, in the row of every joint that
    changes its length L:
        name.Kr   L ∂L/∂q            [N/m]     with a stated free length (L − free) ∂L/∂q, and no K0
        name.K0   ∂L/∂q              [N]       the force extrapolated to L = 0
        name.F    ∂L/∂q              [N]       of a constant force
    and of a spring on a joint
        name.K    q − free           [N.m/rad | N/m]
        name.K0   1                  [N.m | N]   where the free position is unknown: one with the joint's offset
    A nominal value of the robot file is trusted to ± `width` of itself in a prior.
    """

    width: float = 0.2
    name: ClassVar[str] = "springs"

    def __post_init__(self) -> None:
        if not (np.isfinite(self.width) and self.width > 0.0):
            raise ValueError(f"The width of springs' nominal values must be a positive share, not {self.width!r}.")

    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        if not robot.springs:
            raise ModelError(
                f"Term 'springs' needs a robot with springs, and '{robot.name}' has none. "
                "Leave the term out, or add [[spring]] tables to the robot file."
            )
        return tuple(
            Entry(row, self._column(robot, spring, symbol, unit))
            for spring in robot.springs
            for symbol, unit in _parameters(robot, spring)
            for row in _rows(robot, spring)
        )

    def _column(self, robot: Robot, spring: Spring, symbol: str, unit: str) -> Column:
        nominal = robot.nominal.get(f"{spring.name}.{symbol}")
        width = self.width * abs(nominal) if nominal else None
        return Column(spring.name, symbol, unit, nominal, width, kind="spring")

    def fill(self, robot: Robot, motion: Motion) -> Array:
        return np.concatenate([values for spring in robot.springs for values in _values(robot, spring, motion.q)])

    def laws(self, robot: Robot) -> tuple[AppliedLaw, ...] | None:
        found = [_laws(robot, spring) for spring in robot.springs]
        return None if None in found else tuple(law for laws in found for law in laws or ())


def _laws(robot: Robot, spring: Spring) -> list[AppliedLaw] | None:
    """Laws of a spring's columns, in the order of the entries; None where it lies between two points."""
    if not isinstance(spring, JointSpring | CrankSpring):
        return None
    own = np.eye(robot.dof)[robot.joint_index(spring.joint)]
    if isinstance(spring, JointSpring):
        free = [AppliedLaw(LINEAR, own, (0.0,)), AppliedLaw(CONSTANT, own)]
        return free if spring.free is None else [AppliedLaw(LINEAR, own, (spring.free,))]
    crank = (spring.anchor_below, spring.anchor_above, spring.angle)
    if spring.free is None:
        return [AppliedLaw(CRANK, own, (*crank, 1.0, 0.0)), AppliedLaw(CRANK, own, (*crank, 0.0, 1.0))]
    return [AppliedLaw(CRANK, own, (*crank, 1.0, -spring.free))]


def nominal_spring_torque(robot: Robot, q: Array) -> Array:
    """Torque (n, B) the motors must add for the robot file's values of its springs; a value that is not stated counts
    as zero [N.m | N]."""
    tau = np.zeros_like(q)
    for spring in robot.springs:
        stated = [robot.nominal.get(f"{spring.name}.{symbol}", 0.0) for symbol, _ in _parameters(robot, spring)]
        if any(stated):
            values = _values(robot, spring, q)
            tau[list(_rows(robot, spring))] += sum(x * rows for x, rows in zip(stated, values, strict=True))
    return tau


def _parameters(robot: Robot, spring: Spring) -> tuple[tuple[str, str], ...]:
    """(symbol, unit) of a spring's columns."""
    if isinstance(spring, ConstantForceSpring):
        return (("F", "N"),)
    if isinstance(spring, JointSpring):
        slides = robot.joints[robot.joint_index(spring.joint)].is_prismatic
        both = (("K", "N/m"), ("K0", "N")) if slides else (("K", "N.m/rad"), ("K0", "N.m"))
    else:
        both = (("Kr", "N/m"), ("K0", "N"))
    return both if spring.free is None else both[:1]


def _rows(robot: Robot, spring: Spring) -> tuple[int, ...]:
    """Joints that can change a spring's length. Those that carry both ends move it as a whole."""
    if isinstance(spring, JointSpring | CrankSpring):
        return (robot.joint_index(spring.joint),)
    branches = _branches(robot, spring.ends)
    return branches[0] + branches[1]


def _values(robot: Robot, spring: Spring, q: Array) -> list[Array]:
    """An array (rows, B) per column of a spring."""
    if isinstance(spring, JointSpring | CrankSpring):
        own = q[[robot.joint_index(spring.joint)]]
        return [one.law.value(own, *one.shape) for one in _laws(robot, spring) or ()]
    length, stretch = _two_points(robot, spring.ends, q)
    slope = over_length(stretch, length)
    if isinstance(spring, ConstantForceSpring):
        return [slope]
    return [stretch, slope] if spring.free is None else [stretch - spring.free * slope]


# --- Two points on a tree ---------------------------------------------------------------------------------------------


def _branches(robot: Robot, ends: tuple[Anchor, Anchor]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The joints from each end, its own first, down to where the two meet."""
    first, second = (robot.ancestors(robot.link_index(end.link)) for end in ends)
    shared = set(first) & set(second)
    return tuple(j for j in first if j not in shared), tuple(j for j in second if j not in shared)


def _two_points(robot: Robot, ends: tuple[Anchor, Anchor], q: Array) -> tuple[Array, Array]:
    """Length L (B,) between two points and L ∂L/∂q (rows, B) of the joints between them.

    With d from the first point to the second, L ∂L/∂q_j = ± dᵀ ∂p/∂q_j for the point p that joint j carries. Points are
    transformed into the frame where the branches meet, and d back from there: products are taken in the joints' frames.
    """
    branches = _branches(robot, ends)
    poses = iter(_poses(robot, branches[0] + branches[1], q))
    points: list[Array] = []
    ways: list[list[tuple[Array, Array]]] = []
    for end, branch in zip(ends, branches, strict=True):
        point, way = end.point[:, None], []
        for j in branch:
            pose, twist = next(poses), robot.joints[j].twist
            way.append((pose[:, :3], twist[:, :3] @ point + twist[:, 3:]))
            point = np.einsum("ikb,kb->ib", pose[:, :3], point) + pose[:, 3]
        points.append(point)
        ways.append(way)
    difference = points[1] - points[0]
    rows: list[Array] = []
    for sign, way in zip((-1.0, 1.0), ways, strict=True):
        seen, gradients = difference, []
        for rotation, velocity in reversed(way):
            seen = np.einsum("ikb,ib->kb", rotation, seen)
            gradients.append(sign * np.einsum("kb,kb->b", velocity, seen))
        rows += reversed(gradients)
    return np.sqrt(np.einsum("kb,kb->b", difference, difference)), np.stack(rows)


def _poses(robot: Robot, joints: Sequence[int], q: Array) -> Array:
    """[R | p](q) of the joints, (joints, 3, 4, B)."""
    own = q[list(joints)]
    sine, cosine = np.empty_like(own), np.empty_like(own)
    sine_cosine(own.ravel(), sine.ravel(), cosine.ravel())
    basis = np.stack([np.ones_like(own), sine, 1.0 - cosine, own], axis=1)
    placement = np.array([robot.joints[j].placement for j in joints]).reshape(-1, 4, 12)
    return (placement.transpose(0, 2, 1) @ basis).reshape(-1, 3, 4, q.shape[1])
