"""Trajectory: analytic q(t), v(t), a(t) that excite a robot, with extremes that hold between samples too.

Arrays are lanes, (joints, samples) and (joints, points). Units are those of the joints: rad or m, s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Protocol, final, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard._arrays import Array
from steelyard.errors import DataError

Motion = tuple[Array, Array, Array]
Mask = NDArray[np.bool_]

_JOIN_TOLERANCE = 1e-6
_POINTS_PER_PERIOD = 128
_BISECTIONS = 52


@dataclass(frozen=True, eq=False)
class Extremes:
    """Lowest and highest position and highest speed of every joint over the whole trajectory, each (n,)."""

    lower: Array
    upper: Array
    speed: Array


@runtime_checkable
class Trajectory(Protocol):
    """A motion from t = 0 to `duration` [s]; before and after, the joints stand still at its ends."""

    @property
    def duration(self) -> float: ...

    @property
    def dof(self) -> int: ...

    def at(self, t: ArrayLike) -> Motion:
        """q, v, a, each (n, len(t)), at the times t [s]."""
        ...

    def extremes(self) -> Extremes:
        """Bounds that also hold between any samples."""
        ...


@final
@dataclass(frozen=True, eq=False)
class Quintic:
    """Rest to rest through `points` (n, K) at `times` (K,), from times[0] = 0, with zero v and a at each.

    q(t) = p_k + (p_{k+1} − p_k) b(s),  b(s) = 10 s³ − 15 s⁴ + 6 s⁵,  s = (t − t_k) / (t_{k+1} − t_k)
    """

    points: Array
    times: Array

    def __post_init__(self) -> None:
        points, times = _points(self.points), _frozen("times", self.times, 1)
        if times.size != points.shape[1]:
            raise DataError(f"{points.shape[1]} points need the same number of times, not {times.size}.")
        if times[0] != 0.0 or np.any(np.diff(times) <= 0.0):
            raise DataError(f"Times must start at 0 and increase, not {times.tolist()[:10]}.")
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "times", times)

    @property
    def duration(self) -> float:
        return float(self.times[-1])

    @property
    def dof(self) -> int:
        return self.points.shape[0]

    def at(self, t: ArrayLike) -> Motion:
        inside, still = _clipped(t, self.duration)
        k = np.clip(np.searchsorted(self.times, inside, side="right") - 1, 0, self.times.size - 2)
        span = np.diff(self.times)[k]
        b, db, ddb = _blend((inside - self.times[k]) / span)
        step = np.diff(self.points, axis=1)[:, k]
        return _standing(self.points[:, k] + step * b, step * db / span, step * ddb / span**2, still)

    def extremes(self) -> Extremes:
        """b is monotone: positions stay between the points; the speed peaks half-way, at 15/8 of the mean."""
        speed = 1.875 * np.abs(np.diff(self.points, axis=1)) / np.diff(self.times)
        return Extremes(self.points.min(axis=1), self.points.max(axis=1), speed.max(axis=1))


@final
@dataclass(frozen=True, eq=False)
class TrapezoidalAcceleration:
    """Rest to rest through `points` (n, K) with trapezoidal acceleration, as a robot controller interpolates (P0).

    Per segment each joint gets its fastest profile with acceleration ramps of `jerk_time` [s] within `velocity` (n,)
    and `acceleration` (n,). The slowest joint sets the duration T; the others are stretched in time by κ = T / T_i ≥ 1,
    which divides their speeds by κ and accelerations by κ², so that all limits hold.
    """

    points: Array
    velocity: Array
    acceleration: Array
    jerk_time: float = 0.05

    def __post_init__(self) -> None:
        points = _points(self.points)
        object.__setattr__(self, "points", points)
        for name in ("velocity", "acceleration"):
            limit = _frozen(name, np.atleast_1d(getattr(self, name)), 1)
            if limit.size not in (1, points.shape[0]) or np.any(limit <= 0.0):
                raise DataError(f"The {name} limit must be one positive number for each of {points.shape[0]} joints.")
            object.__setattr__(self, name, _frozen(name, np.broadcast_to(limit, points.shape[0]), 1))
        positive("jerk time", self.jerk_time)
        if np.any(np.all(np.diff(points, axis=1) == 0.0, axis=0)):
            raise DataError("Two consecutive points are equal. Remove one, and chain a `dwell` for a rest.")

    @property
    def duration(self) -> float:
        return float(self._pieces[0][0, -1])

    @property
    def dof(self) -> int:
        return self.points.shape[0]

    @cached_property
    def times(self) -> Array:
        """Time at which each point is reached (K,) [s]."""
        return self._pieces[0][0, ::7]

    @cached_property
    def _pieces(self) -> tuple[Array, ...]:
        """Knots and q, v, a, jerk at the start of each piece, (n, 7(K−1) + 1): seven pieces per segment."""
        step = np.diff(self.points, axis=1)
        ramp, hold, cruise = _fastest(np.abs(step), self.velocity[:, None], self.acceleration[:, None], self.jerk_time)
        total = 4 * ramp + 2 * hold + cruise
        # A joint that does not move in a segment has no duration of its own: use a profile of height zero.
        stretch = np.where(total > 0, total.max(axis=0) / np.where(total > 0, total, 1.0), 1.0)
        ramp = np.where(total > 0, ramp * stretch, total.max(axis=0) / 4)
        hold, cruise = hold * stretch, cruise * stretch
        height = np.divide(step, (ramp + hold) * (2 * ramp + hold + cruise))
        spans = np.stack([ramp, hold, ramp, cruise, ramp, hold, ramp], axis=-1)
        acceleration = height[..., None] * np.array([0, 1, 1, 0, 0, -1, -1])
        slope = height[..., None] * np.array([1, 0, -1, 0, -1, 0, 1]) / ramp[..., None]
        gained = acceleration * spans + slope * spans**2 / 2
        velocity = np.cumsum(gained, axis=-1) - gained
        moved = velocity * spans + acceleration * spans**2 / 2 + slope * spans**3 / 6
        position = self.points[:, :-1, None] + np.cumsum(moved, axis=-1) - moved
        # All joints start a segment together: the common start plus each joint's own phases.
        begin = np.concatenate([[0.0], np.cumsum(total.max(axis=0))])
        knots = begin[:-1, None] + np.cumsum(spans, axis=-1) - spans
        ends = (np.full((self.dof, 1), begin[-1]), self.points[:, -1:], *[np.zeros((self.dof, 1))] * 3)
        parts = (knots, position, velocity, acceleration, slope)
        return tuple(np.hstack([x.reshape(self.dof, -1), e]) for x, e in zip(parts, ends, strict=True))

    def at(self, t: ArrayLike) -> Motion:
        inside, still = _clipped(t, self.duration)
        out = np.empty((3, self.dof, inside.size))
        for i, (knots, q, v, a, slope) in enumerate(zip(*self._pieces, strict=True)):
            k = np.searchsorted(knots, inside, side="right") - 1
            dt = inside - knots[k]
            out[0, i] = q[k] + dt * (v[k] + dt * (a[k] / 2 + dt * slope[k] / 6))
            out[1, i] = v[k] + dt * (a[k] + dt * slope[k] / 2)
            out[2, i] = a[k] + dt * slope[k]
        return _standing(out[0], out[1], out[2], still)

    def extremes(self) -> Extremes:
        """Every segment is monotone, and its speed is highest where the cruise begins."""
        return Extremes(self.points.min(axis=1), self.points.max(axis=1), np.abs(self._pieces[2]).max(axis=1))


@final
@dataclass(frozen=True, eq=False)
class Fourier:
    """Finite Fourier series about `offset` q0 (n,), `sine` a and `cosine` b (n, H) [rad/s | m/s], ω = 2π frequency_hz.

    q_i(t) = q0_i + w(t) Σ_l [ a_il / (ω l) sin(ω l t) − b_il / (ω l) cos(ω l t) ],   l = 1 … H

    w = 1, or with `blend` > 0 [s] the quintic step b(t/blend) at the start and its mirror image at the end: the motion
    then starts and ends at rest at q0.
    """

    offset: Array
    sine: Array
    cosine: Array
    frequency_hz: float
    duration: float
    blend: float = 0.0

    def __post_init__(self) -> None:
        offset = _frozen("offset", self.offset, 1)
        sine, cosine = _frozen("sine", self.sine, 2), _frozen("cosine", self.cosine, 2)
        if sine.shape != cosine.shape or sine.shape[0] != offset.size or sine.shape[1] == 0:
            raise DataError(
                f"A Fourier series of {offset.size} joints needs sine and cosine of one shape ({offset.size}, "
                f"harmonics), not {sine.shape} and {cosine.shape}."
            )
        for name, value in (("offset", offset), ("sine", sine), ("cosine", cosine)):
            object.__setattr__(self, name, value)
        positive("frequency", self.frequency_hz)
        positive("duration", self.duration)
        if not 0.0 <= self.blend <= self.duration / 2:
            raise DataError(f"blend is {self.blend} s and must be between 0 and half the duration ({self.duration} s).")

    @property
    def dof(self) -> int:
        return self.offset.size

    def at(self, t: ArrayLike) -> Motion:
        inside, still = _clipped(t, self.duration)
        pulsation = 2 * np.pi * self.frequency_hz * np.arange(1, self.sine.shape[1] + 1)
        sin, cos = np.sin(np.outer(pulsation, inside)), np.cos(np.outer(pulsation, inside))
        series = (self.sine / pulsation) @ sin - (self.cosine / pulsation) @ cos
        slope = self.sine @ cos + self.cosine @ sin
        bend = (self.cosine * pulsation) @ cos - (self.sine * pulsation) @ sin
        w, dw, ddw = self._window(inside)
        q = self.offset[:, None] + w * series
        return _standing(q, dw * series + w * slope, ddw * series + 2 * dw * slope + w * bend, still)

    def _window(self, t: Array) -> Motion:
        if self.blend == 0.0:
            return np.ones_like(t), np.zeros_like(t), np.zeros_like(t)
        leaving = t > self.duration / 2
        b, db, ddb = _blend(np.minimum(np.where(leaving, self.duration - t, t) / self.blend, 1.0))
        return b, np.where(leaving, -db, db) / self.blend, ddb / self.blend**2

    def extremes(self) -> Extremes:
        """Extremes on a grid of 128 points per shortest period (and per blend), refined by bisection where v or
        a changes sign.

        A pair of extremes between two grid points that is missed is smaller than 1e-5 of the highest harmonic.
        """
        count = int(np.ceil(self.duration * self.frequency_hz * self.sine.shape[1] * _POINTS_PER_PERIOD)) + 2
        edge = np.linspace(0.0, self.blend, _POINTS_PER_PERIOD + 1)
        grid = np.unique(np.concatenate([np.linspace(0.0, self.duration, count), edge, self.duration - edge]))
        grid = grid[(grid >= 0.0) & (grid <= self.duration)]
        q, v, a = self.at(grid)
        turning, fastest = self._turning(grid, v, 1), self._turning(grid, a, 2)
        positions = np.hstack([q, self.at(turning)[0]])
        speeds = np.abs(np.hstack([v, self.at(fastest)[1]]))
        return Extremes(positions.min(axis=1), positions.max(axis=1), speeds.max(axis=1))

    def _turning(self, grid: Array, values: Array, order: int) -> Array:
        """Times at which v (order 1) or a (order 2) of any joint is zero, by bisection inside the grid's intervals."""
        joint, k = np.nonzero(values[:, :-1] * values[:, 1:] < 0.0)
        left, right, sign = grid[k], grid[k + 1], np.sign(values[joint, k])
        for _ in range(_BISECTIONS if joint.size else 0):
            middle = (left + right) / 2
            before = self.at(middle)[order][joint, np.arange(middle.size)] * sign > 0.0
            left, right = np.where(before, middle, left), np.where(before, right, middle)
        return (left + right) / 2


@final
@dataclass(frozen=True, eq=False)
class Chain:
    """Trajectories in sequence; each must begin at rest where the previous one ended."""

    parts: tuple[Trajectory, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts:
            raise DataError("A chain needs at least one trajectory.")
        for k, (one, two) in enumerate(pairwise(self.parts), start=1):
            _check_join(k, one, two)

    @property
    def duration(self) -> float:
        return float(self._starts[-1])

    @property
    def dof(self) -> int:
        return self.parts[0].dof

    @cached_property
    def _starts(self) -> Array:
        return np.concatenate([[0.0], np.cumsum([part.duration for part in self.parts])])

    def at(self, t: ArrayLike) -> Motion:
        inside, still = _clipped(t, self.duration)
        which = np.clip(np.searchsorted(self._starts, inside, side="right") - 1, 0, len(self.parts) - 1)
        out = np.empty((3, self.dof, inside.size))
        for k in np.unique(which):
            here = which == k
            out[:, :, here] = self.parts[k].at(inside[here] - self._starts[k])
        return _standing(out[0], out[1], out[2], still)

    def extremes(self) -> Extremes:
        parts = [part.extremes() for part in self.parts]
        lower, upper = np.min([p.lower for p in parts], axis=0), np.max([p.upper for p in parts], axis=0)
        return Extremes(lower, upper, np.max([p.speed for p in parts], axis=0))


def dwell(position: ArrayLike, duration: float) -> Quintic:
    """Standing still at `position` (n,) for `duration` [s]."""
    positive("duration of a dwell", duration)
    here = _frozen("position", position, 1)
    return Quintic(np.column_stack([here, here]), np.array([0.0, duration]))


def chain(parts: Sequence[Trajectory], rest: float = 0.0) -> Chain:
    """The parts in sequence, with a rest of `rest` [s] between them."""
    linked: list[Trajectory] = []
    for part in parts:
        if linked and rest != 0.0:
            linked.append(dwell(part.at([0.0])[0][:, 0], rest))
        linked.append(part)
    return Chain(tuple(linked))


def _fastest(distance: Array, velocity: Array, acceleration: Array, ramp: float) -> tuple[Array, Array, Array]:
    """Lengths of ramp, constant acceleration and cruise of the fastest profile over a distance, elementwise.

    With ramp r and hold h at acceleration A the joint reaches v = A (r + h) and covers A (r + h)(2 r + h) without
    cruise. h and the cruise are chosen such that peak speed and acceleration do not exceed the limits.
    """
    hold_at_limit = np.maximum(velocity / acceleration - ramp, 0.0)
    hold_for_distance = (np.sqrt(ramp**2 + 4 * distance / acceleration) - 3 * ramp) / 2
    hold = np.maximum(np.minimum(hold_at_limit, hold_for_distance), 0.0)
    # Where even the ramps alone would pass the velocity limit, the peak acceleration is lowered to velocity / ramp.
    reached = np.minimum(velocity, acceleration * (ramp + hold))
    cruise = np.maximum(distance / reached - (2 * ramp + hold), 0.0)
    moving = distance > 0.0
    return np.where(moving, ramp, 0.0), np.where(moving, hold, 0.0), np.where(moving, cruise, 0.0)


def _blend(s: Array) -> Motion:
    """b = 10 s³ − 15 s⁴ + 6 s⁵ and its first two derivatives with respect to s."""
    rest = 1.0 - s
    return s**3 * (10.0 + s * (6.0 * s - 15.0)), 30.0 * (s * rest) ** 2, 60.0 * s * rest * (rest - s)


def _clipped(t: ArrayLike, duration: float) -> tuple[Array, Mask]:
    """Times within [0, duration], and a mask of those outside by more than rounding."""
    times = _frozen("t", t, 1)
    outside = np.abs(times - duration / 2) > duration * (0.5 + 1e-9)
    return np.clip(times, 0.0, duration), outside


def _standing(q: Array, v: Array, a: Array, still: Mask) -> Motion:
    v[:, still] = 0.0
    a[:, still] = 0.0
    return q, v, a


def _check_join(k: int, one: Trajectory, two: Trajectory) -> None:
    if one.dof != two.dof:
        raise DataError(f"Part {k} of the chain moves {one.dof} joints and part {k + 1} moves {two.dof}.")
    end, start = one.at([one.duration]), two.at([0.0])
    if np.abs(end[0] - start[0]).max() > _JOIN_TOLERANCE:
        raise DataError(f"Part {k + 1} of the chain does not start where part {k} ends. Insert a Quintic between them.")
    if max(np.abs(end[1]).max(), np.abs(start[1]).max()) > _JOIN_TOLERANCE:
        raise DataError(f"Part {k} does not end at rest where part {k + 1} begins: set `blend` of the Fourier series.")


def _points(values: ArrayLike) -> Array:
    points = _frozen("points", values, 2)
    if points.shape[0] < 1 or points.shape[1] < 2:
        raise DataError(f"A trajectory needs at least two points, shaped (joints, points), not {points.shape}.")
    return points


def _frozen(name: str, values: ArrayLike, dimensions: int) -> Array:
    """A read-only finite copy with the expected number of dimensions."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"The {name} must be an array of numbers of equal row lengths.") from None
    if array.ndim != dimensions:
        raise DataError(f"The {name} must have {dimensions} dimension(s), not shape {array.shape}.")
    if not np.all(np.isfinite(array)):
        raise DataError(f"The {name} must be finite; NaN or infinity was given.")
    array.flags.writeable = False
    return array


def positive(name: str, value: float) -> None:
    if not (np.isfinite(value) and value > 0.0):
        raise DataError(f"The {name} must be a positive number, not {value}.")
