"""Families of motions: rest to rest, and linear in a few numbers per joint.

q_i(t) = Σ_k x_ik Φ_k(t). Velocities, accelerations and jerks are linear in x too, so limits on them are linear
inequalities, and a finite number of these holds for all t (`guards`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple, Protocol, final

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.motion.bounds import PROOF_POINTS, grid_share
from steelyard.motion.bspline import BSpline, basis_rows, check_spline, hull_rows
from steelyard.motion.trajectory import Fourier, Trajectory

# Guards per shortest period of a Fourier series: they lose 1 − cos(π / 32) = 0.5 % of every limit.
_GUARDS_PER_PERIOD = 32


class Guard(NamedTuple):
    """|rows · x − c| ≤ share · limit for every row implies |q^(k)(t) − c| ≤ limit for all t; rows (M, K)."""

    rows: Array
    share: float


class Family(Protocol):
    """A frozen set of options that gives a basis for a duration [s]."""

    name: ClassVar[str]

    @property
    def size(self) -> int:
        """Number K of coefficients per joint."""
        ...

    def basis(self, duration: float, t: Array) -> Array:
        """Φ and its first three derivatives at the times t (N,), (4, K, N). `constant` gives a motion at rest."""
        ...

    def constant(self) -> Array:
        """The coefficients (K,) of a joint at rest at position 1."""
        ...

    def guards(self, duration: float) -> tuple[Guard, ...]:
        """For position, velocity, acceleration and jerk, the rows whose bounds make the limit hold for all t."""
        ...

    def trajectory(self, x: Array, duration: float) -> Trajectory:
        """The motion of x (n, K)."""
        ...


@final
@dataclass(frozen=True)
class FourierFamily:
    """Finite Fourier series of `harmonics`, `cycles` periods in the duration, starting and ending at rest.

    q = q0 + Σ_l a_l/(ωl) sin(ωlt) − b_l/(ωl) cos(ωlt) with Σ a_l = 0 and Σ l b_l = 0: velocity and acceleration are
    zero at the start and, as the series is periodic, at the end. A joint has 2 H − 1 coefficients: q0 and those in an
    orthonormal basis of the position amplitudes that satisfy the two conditions.
    """

    harmonics: int = 5
    cycles: int = 1
    name: ClassVar[str] = "fourier"

    def __post_init__(self) -> None:
        if self.harmonics < 2:
            raise DataError(f"A Fourier series that starts at rest needs at least two harmonics, not {self.harmonics}.")
        if self.cycles < 1:
            raise DataError(f"A Fourier series needs at least one period in its duration, not {self.cycles}.")

    @property
    def size(self) -> int:
        return 2 * self.harmonics - 1

    def basis(self, duration: float, t: Array) -> Array:
        pulsation = 2 * np.pi * self.cycles / duration * np.arange(1, self.harmonics + 1)
        angle = np.outer(pulsation, t)
        out = np.zeros((4, self.size, len(t)))
        out[0, 0] = 1.0
        for k in range(4):
            turned, weight = angle + 0.5 * np.pi * k, (pulsation**k)[:, None]
            out[k, 1:] = self._free.T @ np.concatenate([weight * np.sin(turned), weight * np.cos(turned)])
        return out

    def constant(self) -> Array:
        return np.eye(self.size)[0]

    def guards(self, duration: float) -> tuple[Guard, ...]:
        points = _GUARDS_PER_PERIOD * self.harmonics
        rows = self.basis(duration, np.arange(points) * duration / (self.cycles * points))
        # slightly less than the guards allow, so that the finer grid of `proven_bounds` finds no limit exceeded
        share = grid_share(self.harmonics, points) * grid_share(1, PROOF_POINTS)
        return tuple(Guard(np.ascontiguousarray(part.T), share) for part in rows)

    def trajectory(self, x: Array, duration: float) -> Fourier:
        frequency = self.cycles / duration
        pulsation = 2 * np.pi * frequency * np.arange(1, self.harmonics + 1)
        sine, cosine = np.split(x[:, 1:] @ self._free.T, 2, axis=1)
        return Fourier(x[:, 0], sine * pulsation, -cosine * pulsation, frequency, duration)

    @property
    def _free(self) -> Array:
        return _resting(self.harmonics)


@lru_cache(maxsize=64)
def _resting(harmonics: int) -> Array:
    """(2 H, 2 H − 2): amplitudes of sines and cosines of which Σ l sine_l = 0 and Σ l² cosine_l = 0, orthonormal."""
    order = np.arange(1.0, harmonics + 1)
    parts = []
    for condition in (order, order**2):
        # the last H − 1 columns of a full QR of the condition are orthogonal to it
        parts.append(np.linalg.qr(condition[:, None], mode="complete")[0][:, 1:])
    out = np.zeros((2 * harmonics, 2 * harmonics - 2))
    out[:harmonics, : harmonics - 1], out[harmonics:, harmonics - 1 :] = parts
    return out


@final
@dataclass(frozen=True)
class BSplineFamily:
    """B-splines of `points` control points per joint and `degree`: rest to rest; the end may differ from the start."""

    points: int = 12
    degree: int = 5
    name: ClassVar[str] = "b-spline"

    def __post_init__(self) -> None:
        check_spline(self.points, self.degree)

    @property
    def size(self) -> int:
        return self.points

    def basis(self, duration: float, t: Array) -> Array:
        return basis_rows(self.points, duration, self.degree, t)

    def constant(self) -> Array:
        return np.ones(self.points)

    def guards(self, duration: float) -> tuple[Guard, ...]:
        return tuple(Guard(rows, 1.0) for rows in hull_rows(self.points, duration, self.degree))

    def trajectory(self, x: Array, duration: float) -> BSpline:
        return BSpline(x, duration, self.degree)
