"""Clearance: distances of a robot's capsules from one another, from planes and boxes; at postures, and for all t."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard._kernels import clearance as kernel
from steelyard.errors import DataError, ModelError, choices
from steelyard.model.robot import BASE, Robot
from steelyard.motion.bounds import LimitUse, proven_bounds
from steelyard.motion.obstacles import Capsule, Surroundings
from steelyard.motion.trajectory import Trajectory

# Number of postures drawn to find the pairs that touch in all of them.
_POSTURES = 512
# Number of time intervals at the start of a proof, each cut in four if its bound is too low, and the largest number of
# evaluations.
_STRETCHES, _CUTS, _LOOKS = 512, 4, 400_000
# Accuracy of a proven clearance against the smallest one seen: this fraction of what is left above the margin, or this
# length [m].
_SHARE, _LENGTH = 0.1, 1e-3
# Rounding error of a distance of a few metres [m].
_ROUNDING = 1e-9


class _Shapes(NamedTuple):
    """Capsules and pairs in the form that `kernels.clearance` takes."""

    link: NDArray[np.int64]
    ends: Array
    pairs: NDArray[np.int64]
    planes: Array
    boxes: Array


@final
@dataclass(frozen=True, eq=False)
class Clearance:
    """Distances of the pairs that are checked, made by `Clearance.of`.

    names      of the pairs, "link3 - floor", "link2 - link5"; capsules of a link that has several are numbered
    left_out   pairs that are not checked, with the reason: pairs that touch in every posture (for links connected by a
               joint: that are never farther apart than the margin), ignored pairs, links without a capsule
    """

    robot: Robot
    surroundings: Surroundings
    names: tuple[str, ...]
    left_out: tuple[str, ...]
    pairs: tuple[tuple[int, int, int], ...]

    @staticmethod
    def of(robot: Robot, surroundings: Surroundings) -> Clearance:
        """The pairs of a robot that may touch; raises an error for a link, plane or box that does not exist."""
        if robot.loops:
            raise ModelError(f"Robot '{robot.name}' has loops, and clearances are implemented for open robots only.")
        named = [link.name for link in robot.links if not link.virtual]
        for capsule in surroundings.capsules:
            if capsule.link not in (*named, "base", robot.base):
                raise DataError(f"A capsule's link: {choices('link', capsule.link, ('base', *named))}")
        ignored = _ignored(robot, surroundings)
        labels = _labels(robot, surroundings.capsules)
        every = tuple(_pairs(robot, surroundings))
        whole = Clearance(robot, surroundings, tuple(_name(pair, labels, surroundings) for pair in every), (), every)
        farthest = whole.distances(_postures(robot)).max(axis=1, initial=-np.inf)
        kept: list[int] = []
        left_out: dict[str, list[str]] = {}
        for k, pair in enumerate(every):
            why = _why_not(pair, float(farthest[k]), robot, surroundings, ignored)
            if why is None:
                kept.append(k)
            else:
                left_out.setdefault(why, []).append(whole.names[k])
        covered = {capsule.link for capsule in surroundings.capsules}
        if bare := [name for name in named if name not in covered]:
            left_out["no capsule"] = bare
        return Clearance(
            robot,
            surroundings,
            tuple(whole.names[k] for k in kept),
            tuple(f"{', '.join(names)}: {why}" for why, names in left_out.items()),
            tuple(every[k] for k in kept),
        )

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def margin(self) -> float:
        return self.surroundings.margin

    @cached_property
    def radii(self) -> Array:
        """Sum of the radii of every pair, (P,) [m]."""
        capsules = self.surroundings.capsules
        return np.array(
            [capsules[a].radius + (capsules[b].radius if kind == kernel.CAPSULE else 0.0) for kind, a, b in self.pairs]
        )

    def distances(self, q: Array) -> Array:
        """d (P, N) [m] of every pair at the postures q (n, N), negative where they overlap.

        For two capsules it is at least −(r₁ + r₂). For a capsule and a box it is that of the axis point nearest to, or
        deepest in, the box, minus the radius.
        """
        q = np.ascontiguousarray(q, float)
        out = np.empty((len(self), q.shape[1]))
        kernel.distances(*self._mechanism[:2], *self._shapes, q, out)
        out -= self.radii[:, None]
        return out

    def back(self, q: Array, weights: Array) -> Array:
        """(n, N): gradient of Σ_p weights[p, s] d_p(q_s) in q, sample by sample, for weights (P, N).

        Exact where the closest points are unique. Where they are not (parallel axes, a capsule that lies flat on a
        plane or face) it is the gradient for one pair of them; inside a box, for the nearest face; where two axes
        cross, zero.
        """
        q = np.ascontiguousarray(q, float)
        out = np.empty_like(q)
        kernel.distances_back(*self._mechanism, *self._shapes, q, np.ascontiguousarray(weights, float), out)
        return out

    def levers(self, lower: Array, upper: Array) -> Array:
        """(P, n): largest rate of change of a pair's distance per unit of a joint's velocity [m/rad | 1].

        Joint j moves a point of a link at most at the point's distance from axis j, which is bounded along the chain
        for all postures; prismatic joints are taken within `lower` and `upper` (n,) [m]. A joint that carries both
        sides of a pair does not change their distance.
        """
        out = np.zeros((len(self), len(self.robot.joints)))
        for row, (kind, one, two) in zip(out, self.pairs, strict=True):
            sides = [self.surroundings.capsules[one]]
            if kind == kernel.CAPSULE:
                sides.append(self.surroundings.capsules[two])
            carried = [set(self.robot.ancestors(self.robot.link_index(side.link))) for side in sides]
            both = carried[0] & carried[1] if len(sides) == 2 else set()
            for side in sides:
                for joint, lever in _levers(self.robot, side, lower, upper):
                    if joint not in both:
                        row[joint] = lever
        return out

    @cached_property
    def _mechanism(self) -> tuple[NDArray[np.int64], Array, Array]:
        joints = self.robot.joints
        return (
            np.array(self.robot.parents, np.int64),
            np.stack([joint.placement for joint in joints]),
            np.stack([joint.screw for joint in joints]),
        )

    @cached_property
    def _shapes(self) -> _Shapes:
        capsules, planes, boxes = self.surroundings.capsules, self.surroundings.planes, self.surroundings.boxes
        return _Shapes(
            np.array([self.robot.link_index(capsule.link) for capsule in capsules], np.int64),
            np.stack([np.stack([capsule.start, capsule.end]) for capsule in capsules]),
            np.array(self.pairs, np.int64).reshape(-1, 3),
            np.array([[*plane.normal, plane.offset] for plane in planes]).reshape(-1, 4),
            np.array([[*box.centre, *(0.5 * box.size), *box.rotation.ravel()] for box in boxes]).reshape(-1, 15),
        )


def proven_clearance(trajectory: Trajectory, clearance: Clearance) -> tuple[LimitUse, ...]:
    """For every pair, a lower bound of its distance [m] for all t, with the margin.

    In a time interval of half length h about t₀ the distance is at least  d(t₀) − h Σ_j r_j max |q̇_j|,  with the
    levers r_j and  max |q̇_j| ≤ min(|q̇_j(t₀)| + h max |q̈_j|, max over all t)  of `proven_bounds`. Intervals whose
    bound is below the smallest distance seen elsewhere, or below the margin, are cut further. A row that is not
    `proven` reached the limit of evaluations: its bound holds for all t, but may be too low. Where a distance below the
    margin was seen, the bound is at most that.
    """
    if trajectory.dof != clearance.robot.dof:
        raise DataError(f"The motion has {trajectory.dof} joints; '{clearance.robot.name}' has {clearance.robot.dof}.")
    bounds, margin = proven_bounds(trajectory), clearance.margin
    levers = clearance.levers(bounds.lower, bounds.upper)
    half = 0.5 * trajectory.duration / _STRETCHES
    middle = half * (2.0 * np.arange(_STRETCHES) + 1.0)
    waiting = np.ones((len(clearance), _STRETCHES), bool)
    least, seen, looks = np.full(len(clearance), np.inf), np.full(len(clearance), np.inf), 0
    while True:
        q, v, _ = trajectory.at(middle)
        distance = clearance.distances(q)
        looks += len(middle)
        seen = np.minimum(seen, distance.min(axis=1, initial=np.inf))
        speed = np.minimum(bounds.velocity[:, None], np.abs(v) + half * bounds.acceleration[:, None])
        lowest = distance - half * (levers @ speed) - _ROUNDING
        wanted = seen - np.maximum(_LENGTH, _SHARE * (seen - margin))
        wanted = np.where(seen >= margin, np.maximum(wanted, margin), wanted)
        decided = lowest >= wanted[:, None]
        out_of_looks = looks + _CUTS * np.count_nonzero(np.any(waiting & ~decided, axis=0)) > _LOOKS
        settled = waiting & (decided | out_of_looks)
        least = np.minimum(least, np.where(settled, lowest, np.inf).min(axis=1, initial=np.inf))
        proven = ~np.any(waiting & ~decided, axis=1)
        again = np.any(waiting & ~settled, axis=0)
        if not again.any():
            break
        half /= _CUTS
        steps = half * (2.0 * np.arange(_CUTS) + 1.0 - _CUTS)
        waiting = np.repeat((waiting & ~settled)[:, again], _CUTS, axis=1)
        middle = (middle[again][:, None] + steps).ravel()
    return tuple(
        LimitUse(name, "clearance", float(least[k]), margin, proven=bool(proven[k]), samples=looks)
        for k, name in enumerate(clearance.names)
    )


# --- Pairs ------------------------------------------------------------------------------------------------------------


def _pairs(robot: Robot, surroundings: Surroundings) -> Iterator[tuple[int, int, int]]:
    """Kind, capsule and other side of every pair whose sides move relative to each other."""
    link = [robot.link_index(capsule.link) for capsule in surroundings.capsules]
    moving = [c for c, i in enumerate(link) if i != BASE]
    for kind, others in ((kernel.PLANE, surroundings.planes), (kernel.BOX, surroundings.boxes)):
        yield from ((kind, c, k) for k in range(len(others)) for c in moving)
    if not surroundings.self_collision:
        return
    yield from ((kernel.CAPSULE, a, b) for a, b in combinations(range(len(link)), 2) if link[a] != link[b])


def _why_not(
    pair: tuple[int, int, int], farthest: float, robot: Robot, surroundings: Surroundings, ignored: set[frozenset[str]]
) -> str | None:
    """Why a pair is not checked, given the largest distance `farthest` [m] of its sides; None if it must be checked.

    Capsules that share a point of a joint's axis touch at any joint angle. Capsules of neighbouring links with a gap
    narrower than the margin are left out too: the gap comes from the design of the robot, and no motion can widen it.
    """
    kind, one, two = pair
    if frozenset(_links(pair, robot, surroundings)) in ignored:
        return "ignored on request"
    if kind != kernel.CAPSULE:
        return None
    above, below = sorted(robot.link_index(surroundings.capsules[side].link) for side in (one, two))
    if _solid_parent(robot, below) == above:
        near = "touch" if farthest <= 0.0 else "are closer than the margin"
        return f"neighbours that {near} in every posture" if farthest <= surroundings.margin else None
    return "touch in every posture" if farthest <= 0.0 else None


def _solid_parent(robot: Robot, link: int) -> int:
    """The next link towards the base that has a body, or the base."""
    above = robot.parents[link]
    while above != BASE and robot.links[above].virtual:
        above = robot.parents[above]
    return above


def _labels(robot: Robot, capsules: tuple[Capsule, ...]) -> list[str]:
    names = ["base" if robot.link_index(capsule.link) == BASE else capsule.link for capsule in capsules]
    count, seen, out = Counter(names), Counter[str](), []
    for name in names:
        seen[name] += 1
        out.append(name if count[name] == 1 else f"{name}/{seen[name]}")
    return out


def _name(pair: tuple[int, int, int], labels: list[str], surroundings: Surroundings) -> str:
    kind, one, two = pair
    if kind == kernel.CAPSULE:
        return f"{labels[one]} - {labels[two]}"
    return f"{labels[one]} - {(surroundings.planes if kind == kernel.PLANE else surroundings.boxes)[two].name}"


def _links(pair: tuple[int, int, int], robot: Robot, surroundings: Surroundings) -> tuple[str, str]:
    """Both sides of a pair by the names that `ignored` uses; the base is "base"."""
    kind, one, two = pair
    first = surroundings.capsules[one].link
    if kind == kernel.CAPSULE:
        second = surroundings.capsules[two].link
    else:
        second = (surroundings.planes if kind == kernel.PLANE else surroundings.boxes)[two].name
    return _plain(robot, first), _plain(robot, second)


def _plain(robot: Robot, name: str) -> str:
    return "base" if name == robot.base else name


def _ignored(robot: Robot, surroundings: Surroundings) -> set[frozenset[str]]:
    links = [link.name for link in robot.links if not link.virtual]
    known = ("base", *links, *(thing.name for thing in (*surroundings.planes, *surroundings.boxes)))
    for pair in surroundings.ignored:
        for name in pair:
            if _plain(robot, name) not in known:
                raise DataError(f"A pair to ignore: {choices('link, plane or box', name, known)}")
    return {frozenset(_plain(robot, name) for name in pair) for pair in surroundings.ignored}


def _postures(robot: Robot) -> Array:
    """(n, `_POSTURES`) within the robot's ranges, ±π rad or ±1 m where it states none; always the same postures."""
    reach = np.array([1.0 if joint.is_prismatic else np.pi for joint in robot.joints])
    lower = np.array([joint.limits.lower for joint in robot.joints])
    upper = np.array([joint.limits.upper for joint in robot.joints])
    lower, upper = np.where(np.isfinite(lower), lower, -reach), np.where(np.isfinite(upper), upper, reach)
    return np.random.default_rng(0).uniform(lower[:, None], upper[:, None], (len(reach), _POSTURES))


def _levers(robot: Robot, capsule: Capsule, lower: Array, upper: Array) -> Iterator[tuple[int, float]]:
    """For every joint that carries a capsule, the largest distance of the capsule's axis from the joint's, for all
    postures [m].

    `points` are centres of balls of one radius in the frame of the current link: the capsule's ends (a distance is
    largest at an end), then a point of each joint's axis along the chain, about which the rest rotates.
    """
    points, ball = np.stack([capsule.start, capsule.end]), 0.0
    for j in robot.ancestors(robot.link_index(capsule.link)):
        joint = robot.joints[j]
        if joint.is_prismatic:
            yield j, 1.0
            pivot = joint.axis * 0.5 * (lower[j] + upper[j])
            ball += float(np.linalg.norm(points, axis=1).max() + 0.5 * (upper[j] - lower[j]))
        else:
            away = points - joint.point
            yield j, float(np.linalg.norm(np.cross(joint.axis, away), axis=1).max() + ball)
            pivot = joint.point
            ball += float(np.linalg.norm(away, axis=1).max())
        points = (joint.pose.rotation @ pivot + joint.pose.position)[None]
