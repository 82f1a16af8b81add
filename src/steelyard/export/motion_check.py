"""Bounds, for all t, of the motion that a controller interpolates between written samples.

Two ways are common. `servoj` follows straight lines between positions. ROS 2's joint trajectory controller, given
velocities and accelerations too, uses a quintic polynomial through both ends of every step; tables (CSV, Parquet) are
assumed to be played in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Literal, final

import numpy as np
from numpy.typing import ArrayLike

from steelyard._arrays import Array
from steelyard.errors import OutputError
from steelyard.motion.bounds import MotionBounds, proven_bounds
from steelyard.motion.limits import MotionLimits
from steelyard.motion.trajectory import Extremes, Motion

Interpolation = Literal["linear", "quintic"]
# Tolerance of a bound for rounding, as a fraction of the limit.
_ROUNDING = 1e-7


@final
@dataclass(frozen=True, eq=False)
class Written:
    """Samples as a file holds them: t (N,) [s], and q, v, a (n, N); v and a None where only positions are written.

    Times are whole nanoseconds. `digit` is the last decimal of its numbers, 0 where it holds every bit.
    """

    joints: tuple[str, ...]
    t: Array
    q: Array
    v: Array | None
    a: Array | None
    digit: float

    @cached_property
    def step(self) -> Array:
        """Time between samples (N − 1,) [s], without the rounding of a difference of times."""
        return np.diff(np.rint(1e9 * self.t)) / 1e9


@final
@dataclass(frozen=True, eq=False)
class QuinticPlayback:
    """The trajectory of quintics through written positions, velocities and accelerations.

    Every step holds Bernstein coefficients of q − q₀, b_0 … b_5 with q₀ its first position: a polynomial lies within
    the hull of its own.

    b = 0,  h v₀/5,  2h v₀/5 + h² a₀/20,  Δ − 2h v₁/5 + h² a₁/20,  Δ − h v₁/5,  Δ = q₁ − q₀
    """

    written: Written

    @property
    def duration(self) -> float:
        return float(self.written.t[-1])

    @property
    def dof(self) -> int:
        return len(self.written.q)

    @cached_property
    def _pieces(self) -> tuple[Array, Array, Array, Array]:
        """Coefficients of q − q₀, v, a and jerk, (n, N − 1, 6), …, (n, N − 1, 3)."""
        q, v, a, h = self.written.q, self.written.v, self.written.a, self.written.step
        assert v is not None
        assert a is not None
        v0, a0, v1, a1 = v[:, :-1], a[:, :-1], v[:, 1:], a[:, 1:]
        # relative to q₀: a position has too few digits for its third differences
        far = np.diff(q, axis=1)
        points = np.stack(
            [
                np.zeros_like(far),
                h * v0 / 5,
                2 * h * v0 / 5 + h**2 * a0 / 20,
                far - 2 * h * v1 / 5 + h**2 * a1 / 20,
                far - h * v1 / 5,
                far,
            ],
            axis=-1,
        )
        speed = 5 * np.diff(points, axis=-1) / h[:, None]
        bend = 4 * np.diff(speed, axis=-1) / h[:, None]
        return points, speed, bend, 3 * np.diff(bend, axis=-1) / h[:, None]

    @cached_property
    def hulls(self) -> tuple[Array, Array, Array, Array]:
        """Coefficients of q, v, a and jerk of all steps, (n, M): each lies for all t within its own."""
        points, *rates = self._pieces
        first = self.written.q[:, :-1, None]
        q, v, a, jerk = (x.reshape(self.dof, -1) for x in (first + points, *rates))
        return q, v, a, jerk

    def at(self, t: ArrayLike) -> Motion:
        times = np.asarray(t, float)
        begin, step = self.written.t[:-1], self.written.step
        k = np.clip(np.searchsorted(begin, times, side="right") - 1, 0, len(begin) - 1)
        s = np.clip((times - begin[k]) / step[k], 0.0, 1.0)
        points, speed, bend, _ = (x[:, k] for x in self._pieces)
        q, v, a = self.written.q[:, k] + _bernstein(points, s), _bernstein(speed, s), _bernstein(bend, s)
        still = (times < 0.0) | (times > self.duration)
        v[:, still] = a[:, still] = 0.0
        return q, v, a

    def extremes(self) -> Extremes:
        bounds = proven_bounds(self)
        return Extremes(bounds.lower, bounds.upper, bounds.velocity)


@proven_bounds.register
def _(trajectory: QuinticPlayback) -> MotionBounds:
    q, *rates = trajectory.hulls
    return MotionBounds(q.min(axis=1), q.max(axis=1), *(np.abs(x).max(axis=1) for x in rates))


def _bernstein(points: Array, s: Array) -> Array:
    """Σ_k C(d, k) sᵏ (1 − s)^(d−k) b_k of coefficients (n, N, d + 1) at s (N,), (n, N)."""
    rank = points.shape[-1] - 1
    basis = np.stack([comb(rank, k) * s**k * (1.0 - s) ** (rank - k) for k in range(rank + 1)], axis=-1)
    return np.einsum("nsk,sk->ns", points, basis)


def check_playback(written: Written, limits: MotionLimits, interpolation: Interpolation) -> None:
    """An error that names the joint and the limit where the interpolated motion passes one."""
    linear = interpolation == "linear"
    q, *rates = _linear(written.q, written.step) if linear else QuinticPlayback(written).hulls
    finest, last = float(written.step.min()), 0.5 * max(written.digit, float(np.spacing(np.abs(q).max())))
    # error of derivatives of order 0 … 3 due to the last digits of the numbers
    weighs = [last * factor / finest**k for k, factor in enumerate((1, 2, 4, 8) if linear else (2, 20, 160, 960))]
    # quintics are the motion that will be played; differences of positions are only means of its derivatives, with the
    # error of the last digit
    slack = weighs if linear else [0.0] * 4
    rows = (
        ("lower position", limits.lower - q.min(axis=1), limits.lower, 0),
        ("upper position", q.max(axis=1) - limits.upper, limits.upper, 0),
        *(
            (what, np.abs(rate).max(axis=1) - limit, limit, order)
            for order, what, rate, limit in zip(
                (1, 2, 3),
                ("velocity", "acceleration", "jerk"),
                rates,
                (limits.velocity, limits.acceleration, limits.jerk),
                strict=True,
            )
        ),
    )
    for what, beyond, limit, order in rows:
        for joint, by, top in zip(written.joints, beyond.tolist(), limit.tolist(), strict=True):
            if np.isfinite(top) and by > slack[order] + _ROUNDING * max(1.0, abs(top)):
                raise OutputError(
                    f"Between the samples of the file ({interpolation} interpolation) {what} of {joint} would pass its "
                    f"limit of {top:.6g} by {by:.4g}. {_advice(by <= weighs[order], finest)} Nothing was written."
                )


def _advice(digits: bool, step: float) -> str:
    if digits:
        return f"At {1.0 / step:g} Hz the rounding of the positions is as large: write at a lower --rate."
    return (
        "Write at a higher --rate, choose a --duration that is a whole number of samples, or lower the limit a little."
    )


def _linear(q: Array, step: Array) -> tuple[Array, Array, Array, Array]:
    """Positions, and their divided differences of order 1 to 3: means of the derivatives of the sampled motion."""
    v = np.diff(q, axis=1) / step
    a = np.diff(v, axis=1) / (0.5 * (step[1:] + step[:-1]))
    return q, v, a, np.diff(a, axis=1) / step[1:-1]
