"""Limits of a motion, and bounds of its position, velocity, acceleration and jerk that hold for all t.

A grid gives no bound between its points. Bounds here come from closed forms, from Bernstein coefficients (a polynomial
lies within their hull), from an inequality for trigonometric polynomials, or from a grid with a bound of the second
derivative. None is too small, and none is more than 1 % too large, except those of a trapezoidal acceleration, which
are the limits of its profile.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from itertools import pairwise

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import DataError, choices
from steelyard.motion.bspline import BSpline
from steelyard.motion.limits import MotionLimits
from steelyard.motion.trajectory import Chain, Fourier, Quintic, Trajectory, TrapezoidalAcceleration

# Grid points per shortest period: a peak between them is at most 1 / cos(π / this) times the largest value on the grid.
PROOF_POINTS = 128
# The quintic step b(s) = 10 s³ − 15 s⁴ + 6 s⁵ and its derivatives of order 1 to 5: largest absolute values on [0, 1].
STEP_PEAKS = (1.0, 1.875, 10.0 / np.sqrt(3.0), 60.0, 360.0, 720.0)
_QUANTITIES = ("position", "velocity", "acceleration", "jerk")
# Quantities whose limit is a lower bound.
_LEAST = ("lower position", "clearance")


@dataclass(frozen=True, eq=False)
class MotionBounds:
    """For all t, each (n,): `lower` ≤ q ≤ `upper` [rad | m], |q̇| ≤ `velocity`, |q̈| ≤ `acceleration`, |q⃛| ≤ `jerk`.

    Where the jerk is discontinuous (a trapezoidal acceleration), its bound is that of the pieces; where the
    acceleration is discontinuous, the bound of the jerk is infinite.
    """

    lower: Array
    upper: Array
    velocity: Array
    acceleration: Array
    jerk: Array


@dataclass(frozen=True)
class LimitUse:
    """Extreme value of a motion compared with its limit. `proven`: for all t; else at `samples` instants.

    For a clearance, `joint` is the pair and the limit is the smallest distance allowed.
    """

    joint: str
    quantity: str
    value: float
    limit: float
    proven: bool
    samples: int = 0

    @property
    def share(self) -> float:
        if self.quantity == "clearance":
            return self.limit / self.value if self.value > 0.0 else np.inf
        return abs(self.value) / abs(self.limit) if self.limit else np.inf

    @property
    def beyond(self) -> float:
        """Amount by which the limit is exceeded; negative where it holds."""
        return self.limit - self.value if self.quantity in _LEAST else self.value - self.limit


def limit_use(trajectory: Trajectory, limits: MotionLimits, joints: tuple[str, ...]) -> tuple[LimitUse, ...]:
    """Every finite limit of position, velocity, acceleration and jerk with the bound that is proven for all t."""
    bounds = proven_bounds(trajectory)
    rows = (
        ("lower position", bounds.lower, limits.lower),
        ("upper position", bounds.upper, limits.upper),
        ("velocity", bounds.velocity, limits.velocity),
        ("acceleration", bounds.acceleration, limits.acceleration),
        ("jerk", bounds.jerk, limits.jerk),
    )
    return tuple(
        LimitUse(joint, quantity, float(value[i]), float(limit[i]), proven=True)
        for quantity, value, limit in rows
        for i, joint in enumerate(joints)
        if np.isfinite(limit[i])
    )


@singledispatch
def proven_bounds(trajectory: Trajectory) -> MotionBounds:
    """Bounds of a motion that hold for all t, from 0 to its end and at rest before and after."""
    known = ("Fourier", "BSpline", "Quintic", "TrapezoidalAcceleration", "Chain")
    raise DataError(
        "Bounds cannot be proven for this kind of motion. " + choices("kind", type(trajectory).__name__, known)
    )


@proven_bounds.register
def _(trajectory: Quintic) -> MotionBounds:
    step, span = np.abs(np.diff(trajectory.points, axis=1)), np.diff(trajectory.times)
    speed, acceleration, jerk = (np.max(STEP_PEAKS[k] * step / span**k, axis=1) for k in (1, 2, 3))
    return MotionBounds(trajectory.points.min(axis=1), trajectory.points.max(axis=1), speed, acceleration, jerk)


@proven_bounds.register
def _(trajectory: TrapezoidalAcceleration) -> MotionBounds:
    """Velocities are those of `extremes`; accelerations and jerks are the limits of the profile."""
    extremes, acceleration = trajectory.extremes(), trajectory.acceleration
    return MotionBounds(
        extremes.lower, extremes.upper, extremes.speed, acceleration, acceleration / trajectory.jerk_time
    )


@proven_bounds.register
def _(trajectory: BSpline) -> MotionBounds:
    q, *rest = trajectory.hulls()
    return MotionBounds(q.min(axis=1), q.max(axis=1), *(np.abs(x).max(axis=1) for x in rest))


@proven_bounds.register
def _(trajectory: Chain) -> MotionBounds:
    parts = [proven_bounds(part) for part in trajectory.parts]
    return MotionBounds(
        np.min([p.lower for p in parts], axis=0),
        *(np.max([getattr(p, name) for p in parts], axis=0) for name in ("upper", *_QUANTITIES[1:])),
    )


@proven_bounds.register
def _(trajectory: Fourier) -> MotionBounds:
    return _windowed(trajectory) if trajectory.blend > 0.0 else _periodic(trajectory)


def grid_share(harmonics: int, points: int) -> float:
    """cos(π H / M). The maximum absolute value of a trigonometric polynomial of degree H is at most its largest
    absolute value at M > 2 H equal steps of its period, divided by this (Ehlich and Zeller 1964, by Bernstein's
    inequality)."""
    return float(np.cos(np.pi * harmonics / points))


def _periodic(trajectory: Fourier) -> MotionBounds:
    """Bounds over the whole period, also where the motion is shorter, centred on the mid-range of the grid values."""
    harmonics = trajectory.sine.shape[1]
    points = PROOF_POINTS * harmonics
    q, *rest = _series(trajectory, np.arange(points) / (points * trajectory.frequency_hz), 4)
    share = grid_share(harmonics, points)
    low, high = q.min(axis=1), q.max(axis=1)
    middle, half = 0.5 * (low + high), 0.5 * (high - low) / share
    speed, acceleration, jerk = (np.abs(x).max(axis=1) / share for x in rest)
    # where it does not begin at rest, the velocity jumps: acceleration and jerk are not bounded there
    _, v, a = trajectory.at([0.0, trajectory.duration])
    starts = np.abs(v).max(axis=1) > 1e-9 * np.maximum(speed, 1e-300)
    jumps = starts | (np.abs(a).max(axis=1) > 1e-9 * np.maximum(acceleration, 1e-300))
    return MotionBounds(
        trajectory.offset + middle - half,
        trajectory.offset + middle + half,
        speed,
        np.where(starts, np.inf, acceleration),
        np.where(jumps, np.inf, jerk),
    )


def _windowed(trajectory: Fourier) -> MotionBounds:
    """q − q0 = w s, and f ≤ max on a grid of step h + h²/8 max |f''| with |f''| bounded by sums over the series.

    |(w s)^(k)| ≤ Σ_i C(k, i) |w^(i)| |s^(k−i)|, |w^(i)| ≤ |b^(i)| / blendⁱ. The window is constant outside the blends,
    and its third derivative jumps at their ends, which are grid points: between them everything is smooth.
    """
    duration, blend, harmonics = trajectory.duration, trajectory.blend, trajectory.sine.shape[1]
    pulsation = 2 * np.pi * trajectory.frequency_hz * np.arange(1, harmonics + 1)
    amplitude = np.hypot(trajectory.sine, trajectory.cosine)
    size = np.stack([(amplitude * pulsation ** (m - 1)).sum(axis=1) for m in range(6)])
    window = np.array([STEP_PEAKS[i] / blend**i for i in range(6)])
    fastest = 1.0 / (trajectory.frequency_hz * harmonics)
    edges = np.unique(np.array([0.0, blend, duration - blend, duration]))
    found: list[tuple[Array, ...]] = []
    for left, right in pairwise(edges):
        bent = bool(left < blend or right > duration - blend)
        scale = min(fastest, blend) if bent else fastest
        count = 4 * PROOF_POINTS * max(1, int(np.ceil((right - left) / scale)))
        t = np.linspace(left, right, count + 1)
        step = (right - left) / count
        values = _product(_series(trajectory, t, 4), _window(trajectory, t, float(left + right) / 2))
        orders = range(6) if bent else range(1)
        slack = [
            step**2 / 8 * sum(_BINOMIAL[k + 2][i] * window[i] * size[k + 2 - i] for i in orders if i <= k + 2)
            for k in range(4)
        ]
        q = values[0]
        found.append(
            (
                q.min(axis=1) - slack[0],
                q.max(axis=1) + slack[0],
                *(np.abs(x).max(axis=1) + more for x, more in zip(values[1:], slack[1:], strict=True)),
            )
        )
    lower, *upper = zip(*found, strict=True)
    bounds = [np.max(x, axis=0) for x in upper]
    return MotionBounds(trajectory.offset + np.min(lower, axis=0), trajectory.offset + bounds[0], *bounds[1:])


_BINOMIAL = ((1,), (1, 1), (1, 2, 1), (1, 3, 3, 1), (1, 4, 6, 4, 1), (1, 5, 10, 10, 5, 1))


def _series(trajectory: Fourier, t: Array, orders: int) -> list[Array]:
    """The series without its offset and its derivatives, `orders` arrays (n, N)."""
    pulsation = 2 * np.pi * trajectory.frequency_hz * np.arange(1, trajectory.sine.shape[1] + 1)
    angle = np.outer(pulsation, t)
    out = []
    for k in range(orders):
        # d/dt turns sin(x) into ω sin(x + π/2)
        turned = angle + 0.5 * np.pi * k
        weight = pulsation ** (k - 1)
        out.append((trajectory.sine * weight) @ np.sin(turned) - (trajectory.cosine * weight) @ np.cos(turned))
    return out


def _window(trajectory: Fourier, t: Array, middle: float) -> list[Array]:
    """w and its first three derivatives in the interval of time that contains `middle`."""
    if trajectory.blend <= middle <= trajectory.duration - trajectory.blend:
        return [np.ones_like(t), *[np.zeros_like(t)] * 3]
    leaving = middle > trajectory.duration / 2
    step = np.polynomial.Polynomial([0.0, 0.0, 0.0, 10.0, -15.0, 6.0])
    s = (trajectory.duration - t if leaving else t) / trajectory.blend
    way = (-1.0 if leaving else 1.0) / trajectory.blend
    return [np.asarray((step.deriv(k) if k else step)(s)) * way**k for k in range(4)]


def _product(series: list[Array], window: list[Array]) -> list[Array]:
    """Derivatives of a product by Leibniz' rule."""
    return [np.sum([_BINOMIAL[k][i] * window[i] * series[k - i] for i in range(k + 1)], axis=0) for k in range(4)]
