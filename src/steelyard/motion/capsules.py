"""Capsules for the links of a robot: along its skeleton, or the smallest that enclose points of its shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import ConvexHull, QhullError

from steelyard._arrays import LARGEST, Array
from steelyard.errors import DataError
from steelyard.model.pose import Pose
from steelyard.model.robot import BASE, Joint, Robot
from steelyard.motion.obstacles import Capsule

# Number of radii tried for the capsule of least volume, from the thinnest capsule to a ball.
_RADII = 48
# Number of steps towards the centre of the points seen along an axis; the error decreases as 1 / steps.
_STEPS = 100
# More points than this are first reduced to those of their hull.
_MANY = 100
# Points closer than this [m] are merged; no capsule is thinner.
_SMALLEST = 1e-4
# Relative increase of the radius, so that rounding leaves no point outside.
_ROUNDING = 1e-9


class Enclosure(NamedTuple):
    """Ends along an axis and radius of a capsule [m]."""

    start: float
    end: float
    radius: float

    @property
    def volume(self) -> float:
        return np.pi * self.radius**2 * (self.end - self.start + 4.0 / 3.0 * self.radius)


def enclosing(along: Array, off: Array) -> Enclosure:
    """The capsule of least volume about an axis that contains points given by `along` (N,) and distance `off` (N,) [m].

    A radius R ≥ max off contains a point if the start is not beyond  along + √(R² − off²)  and the end not before along
    − √(R² − off²):  for every R the shortest capsule is known.
    """
    thinnest = float(off.max())
    middle = 0.5 * (float(along.min()) + float(along.max()))
    ball = float(np.hypot(along - middle, off).max())
    best = None
    for radius in np.linspace(thinnest, ball, _RADII):
        reach = np.sqrt(np.maximum(radius**2 - off**2, 0.0))
        start, end = float((along + reach).min()), float((along - reach).max())
        if start > end:
            start = end = 0.5 * (start + end)
        found = Enclosure(start, end, float(max(radius, _SMALLEST)) * (1.0 + _ROUNDING))
        if best is None or found.volume < best.volume:
            best = found
    assert best is not None
    return best


def enclosing_capsule(points: ArrayLike, link: str) -> Capsule:
    """A small capsule that encloses points (N, 3) [m] of a link, in the link's frame.

    Its axis is the principal direction of the points that gives the least volume, through the centre of the smallest
    circle around the points as seen along it.
    """
    cloud = np.array(points, float)
    if cloud.ndim != 2 or cloud.shape[1] != 3 or not len(cloud) or not np.all(np.abs(cloud) <= LARGEST):
        raise DataError(
            f"The points that the capsule of {link} encloses must be (N, 3) numbers up to {LARGEST:g}, not "
            f"{cloud.shape}."
        )
    cloud = _corners(cloud)
    centre = 0.5 * (cloud.min(axis=0) + cloud.max(axis=0))
    from_mean = cloud - cloud.mean(axis=0)
    directions = np.linalg.eigh(from_mean.T @ from_mean)[1].T
    found = []
    for k, axis in enumerate(directions):
        flat = (cloud - centre) @ np.delete(directions, k, axis=0).T
        middle = _middle(flat)
        through = centre + middle @ np.delete(directions, k, axis=0)
        enclosure = enclosing((cloud - through) @ axis, np.linalg.norm(flat - middle, axis=1))
        found.append((enclosure.volume, k, enclosure, axis, through))
    _, _, best, axis, through = min(found, key=lambda one: one[:2])
    return Capsule(link, through + best.start * axis, through + best.end * axis, best.radius)


def _corners(cloud: Array) -> Array:
    """The distinct points that span the hull (a mesh repeats a corner for every face)."""
    cloud = np.unique(cloud, axis=0)
    if len(cloud) <= _MANY:
        return cloud
    try:
        return cloud[ConvexHull(cloud).vertices]
    except QhullError:
        # flat or thin clouds have no hull: keep all their points
        return cloud


def _middle(flat: Array) -> Array:
    """Approximate centre of the smallest circle around points (N, 2): decreasing steps to the farthest point."""
    middle = 0.5 * (flat.min(axis=0) + flat.max(axis=0))
    best, least = middle, np.inf
    for k in range(1, _STEPS):
        distance = np.linalg.norm(flat - middle, axis=1)
        far = int(np.argmax(distance))
        if distance[far] < least:
            best, least = middle, float(distance[far])
        middle = middle + (flat[far] - middle) / (k + 1)
    return best


def skeleton(robot: Robot, radius: float) -> tuple[Capsule, ...]:
    """Capsules of one radius [m] along the robot's skeleton, for files that give no shapes.

    Every link gets one from a point of its own joint's axis to each joint it carries, to the frame of each body fixed
    on it (a flange, a tool), and to its own frame, which distal DH frames have at the far end of the link. The base
    gets the same from its own position. The rail of a prismatic joint, the path of its origin within its limits,
    belongs to the link that carries it. A link with none of these apart from its own joint becomes a ball, since
    nothing is known of its extent. The result is coarse: casings extend beyond a skeleton.
    """
    out = []
    for i in (BASE, *robot.bodies.tolist()):
        name = "base" if i == BASE else robot.links[i].name
        own = _start(robot, i)
        ways = [(own, far) for far in _carried(robot, i)]
        ways += [rail for joint in robot.joints if joint.parent == i and (rail := _rail(joint)) is not None]
        ways = [(a, b) for a, b in ways if np.linalg.norm(b - a) > _SMALLEST] or [(own, own)]
        out += [Capsule(name, a, b, radius) for a, b in _once(ways)]
    return tuple(out)


def skeleton_length(robot: Robot) -> float:
    """The longest path [m] along the skeleton from a first joint to the bodies that the last link carries, or its own
    frame."""
    to_joint: list[float] = []
    longest = 0.0
    for i, joint in enumerate(robot.joints):
        before = 0.0
        if joint.parent != BASE:
            before = to_joint[joint.parent] + float(np.linalg.norm(_met(joint) - _start(robot, joint.parent)))
        to_joint.append(before)
        longest = max(longest, *(before + float(np.linalg.norm(far - _start(robot, i))) for far in _carried(robot, i)))
    return longest


def _start(robot: Robot, link: int) -> Array:
    """Start of the capsules of a link, in its frame: on its own joint's axis; for the base, its own position."""
    return robot.fixed.get(robot.base, Pose()).position if link == BASE else _pivot(robot.joints[link])


def _pivot(joint: Joint) -> Array:
    """A point of a joint's axis in the frame of its own link."""
    return np.zeros(3) if joint.is_prismatic else joint.point


def _met(joint: Joint) -> Array:
    """Position of a joint in the frame of the link that carries it; for a prismatic joint, the middle of its rail."""
    rail = _rail(joint)
    return joint.pose.rotation @ _pivot(joint) + joint.pose.position if rail is None else 0.5 * (rail[0] + rail[1])


def _carried(robot: Robot, link: int) -> Iterator[Array]:
    """Positions of the joints and the fixed bodies on a link, in its frame, and the frame's own origin."""
    yield from (_met(joint) for joint in robot.joints if joint.parent == link)
    if link != BASE:
        yield from (lump.pose.position for lump in robot.links[link].lumps)
        yield np.zeros(3)


def _rail(joint: Joint) -> tuple[Array, Array] | None:
    """Path of a prismatic joint's origin in the frame of the link that carries it; None for other joints."""
    limits = joint.limits
    if not (joint.is_prismatic and np.isfinite(limits.lower) and np.isfinite(limits.upper)):
        return None
    way = joint.pose.rotation @ joint.axis
    return joint.pose.position + limits.lower * way, joint.pose.position + limits.upper * way


def _once(ways: list[tuple[Array, Array]]) -> list[tuple[Array, Array]]:
    """Segments without duplicates."""
    kept: list[tuple[Array, Array]] = []
    for one in ways:
        if not any(max(np.abs(one[0] - a).max(), np.abs(one[1] - b).max()) < _SMALLEST for a, b in kept):
            kept.append(one)
    return kept
