"""BSpline: a smooth rest-to-rest motion given by control points, each with a local effect."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import comb
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import BSpline as Spline

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.motion.trajectory import Extremes, Motion, positive

# With v and a zero at both ends, the first three control points are equal, and so are the last three.
_RESTING = 3
# Number of parts into which a piece is cut before its control polygon serves as a bound; the error decreases with the
# square of this number.
_PARTS = 8


@final
@dataclass(frozen=True, eq=False)
class BSpline:
    """q_i(t) = Σ_k `points`_ik N_k(t) on uniform knots over `duration` [s]; `degree` 3 to 7, points (n, K) [rad | m].

    The first point and the last are taken three times, which makes the motion start and end there with zero velocity
    and acceleration. K + 4 B-splines make K + 4 − degree pieces of equal length.
    """

    points: Array
    duration: float
    degree: int = 5

    def __post_init__(self) -> None:
        points = np.array(self.points, float)
        if points.ndim != 2 or not points.size or not np.all(np.isfinite(points)):
            raise DataError(f"The points of a B-spline must be finite and shaped (joints, points), not {points.shape}.")
        check_spline(points.shape[1], self.degree)
        positive("duration", self.duration)
        points.flags.writeable = False
        object.__setattr__(self, "points", points)

    @property
    def dof(self) -> int:
        return self.points.shape[0]

    @cached_property
    def _splines(self) -> tuple[Spline, ...]:
        whole = _spline(self.points.shape[1], self.duration, self.degree)
        own = Spline(whole.t, np.asarray(whole.c) @ self.points.T, self.degree, extrapolate=True)
        return (own, own.derivative(1), own.derivative(2))

    def at(self, t: ArrayLike) -> Motion:
        times = np.array(t, float)
        if times.ndim != 1 or not np.all(np.isfinite(times)):
            raise DataError(f"The times of a trajectory must be finite and shaped (samples,), not {times.shape}.")
        inside = np.clip(times, 0.0, self.duration)
        q, v, a = (np.ascontiguousarray(np.asarray(spline(inside)).T) for spline in self._splines)
        # at rest at both ends within rounding, and exactly at rest outside
        outside = np.abs(times - self.duration / 2) >= self.duration / 2
        v[:, outside] = 0.0
        a[:, outside] = 0.0
        return q, v, a

    def hulls(self) -> tuple[Array, Array, Array, Array]:
        """Control values (n, M) of q, v, a and jerk: their range bounds each quantity for all t."""
        q, v, a, jerk = (rows @ self.points.T for rows in hull_rows(self.points.shape[1], self.duration, self.degree))
        return q.T, v.T, a.T, jerk.T

    def extremes(self) -> Extremes:
        """Bounds from the hulls: never too small, and too large by at most a hundredth of the curvature of the last
        piece."""
        q, v, *_ = self.hulls()
        return Extremes(q.min(axis=1), q.max(axis=1), np.abs(v).max(axis=1))


def check_spline(points: int, degree: int) -> None:
    if not 3 <= degree <= 7:
        raise DataError(f"The degree of a B-spline motion must be 3 to 7, not {degree}.")
    if points < max(2, degree - 3):
        raise DataError(f"A B-spline of degree {degree} needs at least {max(2, degree - 3)} points, not {points}.")


def basis_rows(points: int, duration: float, degree: int, t: Array) -> Array:
    """(4, points, N): contribution of every point to q, v, a and jerk at the times t (N,) within the motion [s]."""
    whole = _spline(points, duration, degree)
    return np.stack([np.asarray(whole.derivative(k)(t) if k else whole(t)).T for k in range(4)])


def hull_rows(points: int, duration: float, degree: int) -> tuple[Array, ...]:
    """For each of q, v, a and jerk, a matrix (M, points) that gives the Bernstein coefficients of `_PARTS` parts per
    piece.

    A polynomial lies within the hull of its Bernstein coefficients: bounds on these hold for all t. The coefficients
    are computed from as many values inside the part, by the inverse of the Bernstein basis there.
    """
    whole = _spline(points, duration, degree)
    knots = np.unique(whole.t)
    edges = np.unique(np.concatenate([np.linspace(a, b, _PARTS + 1) for a, b in pairwise(knots)]))
    out = []
    for order in range(4):
        rank = degree - order
        # nodes strictly inside: at a knot a derivative may jump
        nodes = 0.5 - 0.5 * np.cos(np.pi * (np.arange(rank + 1) + 0.5) / (rank + 1))
        bernstein = np.stack([comb(rank, k) * nodes**k * (1.0 - nodes) ** (rank - k) for k in range(rank + 1)], axis=1)
        spline = whole.derivative(order) if order else whole
        times = edges[:-1, None] + np.diff(edges)[:, None] * nodes
        values = np.asarray(spline(times))
        out.append(np.einsum("kn,pnc->pkc", np.linalg.inv(bernstein), values).reshape(-1, points))
    return tuple(out)


def _spline(points: int, duration: float, degree: int) -> Spline:
    """The basis as one spline with one column per point; c (points + 4, points) repeats the end points three times."""
    count = points + 2 * (_RESTING - 1)
    inner = np.linspace(0.0, duration, count - degree + 1)
    knots = np.concatenate([np.zeros(degree), inner, np.full(degree, duration)])
    repeat = np.clip(np.arange(count) - (_RESTING - 1), 0, points - 1)
    return Spline(knots, np.eye(points)[repeat], degree, extrapolate=True)
