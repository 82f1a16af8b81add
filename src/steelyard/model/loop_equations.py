"""The loops of a robot as equations: their rows, the joints in them, and postures that satisfy them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard._kernels.loops import constraints as kernels
from steelyard.model.loops import COMPONENTS, FrameLoop, JointLoop
from steelyard.model.pose import Pose
from steelyard.model.robot import Robot

# An entry of J below this is always zero: others are of order one at a random posture.
_ZERO = 1e-11


@dataclass(frozen=True)
class LoopEquations:
    """c(q) = 0 of a robot's loops. Rows are in radians or robot lengths, and so are the columns of `jacobian`: `unit`
    (n,) is 1 for a revolute joint and the robot's length [m] for a prismatic one. `names` (m,): the loop of a row."""

    robot: Robot
    constraints: kernels.LoopConstraints
    unit: Array
    names: tuple[str, ...]

    @cached_property
    def passive(self) -> NDArray[np.int64]:
        return np.setdiff1d(np.arange(len(self.robot.joints)), self.robot.axis_index)

    @cached_property
    def start(self) -> Array:
        return np.zeros(len(self.robot.joints)) if self.robot.home is None else np.asarray(self.robot.home, float)

    def rows_of(self, loop: str) -> list[int]:
        return [r for r, name in enumerate(self.names) if name == loop]

    def at(self, q: Array) -> tuple[Array, Array]:
        """c (m,) and J (m, n) with scaled rows and columns at q (n,)."""
        c, jacobian = np.empty(len(self.names)), np.empty((len(self.names), len(self.robot.joints)))
        kernels.equations(self.constraints, np.ascontiguousarray(q, float), c, jacobian)
        return c, jacobian * self.unit

    def residual(self, q: Array) -> Array:
        return self.at(q)[0]

    def jacobian(self, q: Array) -> Array:
        return self.at(q)[1]

    @cached_property
    def pattern(self) -> NDArray[np.bool_]:
        """(m, n): entries of J that are not always zero, found at random postures of the cut robot."""
        random = np.random.default_rng(7)
        postures = random.uniform(-2.0, 2.0, (3, len(self.robot.joints))) * self.unit
        return np.any([np.abs(self.jacobian(q)) > _ZERO for q in postures], axis=0)

    def placed(self, slot: Callable[[int, int], int]) -> tuple[NDArray[np.int64], Array, int]:
        """Entries (E, 4) and their scales (E,) with passive joints first and in their units, and the number of these;
        entries outside `pattern` are left out. slot(row, joint) is the index of an entry."""
        entry, scale = self.constraints.entry, self.constraints.entry_scale
        kept = [e for e in range(len(entry)) if self.pattern[entry[e, 0], entry[e, 1]]]
        inner = [e for e in kept if entry[e, 1] in self.passive]
        order = inner + [e for e in kept if entry[e, 1] not in self.passive]
        placed = entry[order].reshape(-1, 4)
        placed[:, 3] = [slot(int(r), int(j)) for r, j in placed[:, :2]]
        unit = np.where(np.isin(placed[:, 1], self.passive), self.unit[placed[:, 1]], 1.0)
        return placed, scale[order] * unit, len(inner)

    def solved(self, q: Array, free: NDArray[np.int64], rounds: int = 200) -> Array:
        """The posture found by Gauss–Newton from q by moving the joints `free`, in the sense of least squares.

        Steps are at most half a radian or robot length and are halved until they reduce the error.
        """
        c, jacobian = self.at(q)
        for _ in range(rounds):
            if np.linalg.norm(c) < 1e-15:
                break
            step = np.linalg.lstsq(jacobian[:, free], -c, rcond=1e-9)[0]
            step *= min(1.0, 0.5 / max(float(np.linalg.norm(step)), 1e-300))
            for _ in range(30):
                trial = q.copy()
                trial[free] += step * self.unit[free]
                trial_c, trial_jacobian = self.at(trial)
                if np.linalg.norm(trial_c) < np.linalg.norm(c):
                    break
                step = 0.5 * step
            else:
                break
            q, c, jacobian = trial, trial_c, trial_jacobian
        return q

    def neighbours(self, q: Array, count: int = 4, distance: float = 0.05) -> list[Array]:
        """Closed postures near the closed posture q: steps along the remaining freedoms, closed again."""
        random, everything = np.random.default_rng(11), np.arange(len(q))
        out = []
        for _ in range(count):
            _, sizes, rows = np.linalg.svd(self.jacobian(q))
            tangent = rows[int(np.sum(sizes > 1e-7 * sizes[0])) :]
            step = random.normal(size=len(tangent)) @ tangent if len(tangent) else np.zeros(len(q))
            step *= distance / max(float(np.max(np.abs(step))), 1e-300)
            out.append(self.solved(q + step * self.unit, everything, 50))
        return out


def loop_equations(robot: Robot) -> LoopEquations:
    """Rows of all loops of a robot, in its loops' order and in the order of their components."""
    frames = [loop for loop in robot.loops if isinstance(loop, FrameLoop)]
    start = np.zeros(len(robot.joints)) if robot.home is None else np.asarray(robot.home, float)
    length = _length(robot, frames, start)
    unit = np.array([length if joint.is_prismatic else 1.0 for joint in robot.joints])
    names: list[str] = []
    frame: list[int] = []
    kind: list[int] = []
    scale: list[float] = []
    follower: list[tuple[int, int, int]] = []
    entry: list[tuple[int, int, int, int]] = []
    weight: list[float] = []
    curves: list[tuple[float, ...]] = []

    def add(row: int, joint: int, made: int, factor: float) -> None:
        entry.append((row, joint, made, len(entry)))
        weight.append(factor)

    for loop in robot.loops:
        if isinstance(loop, JointLoop):
            row, joint, other = len(names), robot.joint_index(loop.joint), robot.joint_index(loop.other)
            names.append(loop.name)
            frame.append(-1)
            kind.append(len(curves))
            scale.append(1.0 / unit[joint])
            follower.append((row, joint, other))
            curves.append(loop.polynomial or (0.0,))
            add(row, joint, kernels.FOLLOWER, scale[-1])
            add(row, other, kernels.SLOPE, scale[-1])
            continue
        signs = _signs(robot, loop)
        for component in loop.components:
            row, number = len(names), COMPONENTS.index(component)
            names.append(loop.name)
            frame.append(frames.index(loop))
            kind.append(number)
            scale.append(1.0 / length if number < 3 else 1.0)
            for joint, sign in signs.items():
                slides = robot.joints[joint].is_prismatic
                if number < 3:
                    add(row, joint, kernels.FORCE if slides else kernels.WRENCH, sign)
                elif not slides:
                    add(row, joint, kernels.MOMENT, sign)
    table = np.zeros((len(curves), max([len(c) for c in curves], default=1)))
    for p, curve in enumerate(curves):
        table[p, : len(curve)] = curve
    constraints = kernels.LoopConstraints(
        joint=np.array([(joint.parent, not joint.is_prismatic) for joint in robot.joints], np.int64),
        geometry=np.stack([np.concatenate([joint.placement.ravel(), joint.screw]) for joint in robot.joints]),
        links=np.array([[robot.link_index(end.link) + 1 for end in f.ends] for f in frames], np.int64).reshape(-1, 2),
        poses=np.array([[_flat(end.pose) for end in f.ends] for f in frames], float).reshape(-1, 2, 12),
        row=np.column_stack([frame, kind]).astype(np.int64),
        row_scale=np.array(scale, float),
        follower=np.array(follower, np.int64).reshape(-1, 3),
        curve=table,
        entry=np.array(entry, np.int64).reshape(-1, 4),
        entry_scale=np.array(weight, float),
        passive_entries=0,
    )
    return LoopEquations(robot, constraints, unit, tuple(names))


def _signs(robot: Robot, loop: FrameLoop) -> dict[int, float]:
    """Joints that move one end of a loop and not the other: +1 if they carry the second, −1 the first."""
    first, second = (set(robot.ancestors(robot.link_index(end.link))) for end in loop.ends)
    return {j: 1.0 if j in second else -1.0 for j in sorted(first ^ second)}


def _flat(pose: Pose) -> Array:
    return np.concatenate([np.asarray(pose.rotation, float).ravel(), np.asarray(pose.position, float)])


def _length(robot: Robot, frames: list[FrameLoop], q: Array) -> float:
    """The largest extent [m] of the robot at q, over the origins of links and the frames of loops; 1 if zero."""
    poses: list[Pose] = []
    for joint, x in zip(robot.joints, q, strict=True):
        p0, p1, p2, p3 = joint.placement
        here = p0 + np.sin(x) * p1 + (1.0 - np.cos(x)) * p2 + x * p3
        own = Pose(here[:, :3], here[:, 3])
        poses.append(own if joint.parent < 0 else poses[joint.parent] @ own)
    points = [pose.position for pose in poses]
    for loop in frames:
        for end in loop.ends:
            link = robot.link_index(end.link)
            points.append((end.pose if link < 0 else poses[link] @ end.pose).position)
    extent = float(np.max(np.ptp(np.array(points), axis=0)))
    return extent if extent > 1e-9 else 1.0
