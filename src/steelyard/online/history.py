"""History of the parameters of a running identification, in constant memory."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from steelyard._arrays import Array
from steelyard.identification.result import Identification
from steelyard.online.change_cause import Change

# Smallest number of refreshes that are kept; at most twice as many.
KEPT = 500
RECENT = 40


class HistoryPoint(NamedTuple):
    """One refresh at time t of the log [s]: values and σ (b,), relative error of the effort, condition number of the
    scaled columns (excitation), and mass with σ of the body that would explain a change [kg], NaN without one."""

    t: float
    value: Array
    std: Array
    error: float
    condition: float
    mass: float
    mass_std: float


@dataclass(frozen=True)
class Curve:
    """Something over time: t (k,) [s], y (k,) and the half width of its band (k,), NaN where it is not known."""

    name: str
    unit: str
    t: Array
    y: Array
    half: Array


class History:
    """Refreshes over time. When there are too many, every second one is dropped, and from then on only half are kept;
    the `recent` ones are all kept."""

    def __init__(self) -> None:
        self.points: list[HistoryPoint] = []
        self.recent: deque[HistoryPoint] = deque(maxlen=RECENT)
        self._stride, self._count = 1, 0

    def add(self, t: float, result: Identification, change: Change | None = None) -> None:
        pickup = None if change is None else change.pickup
        mass = (np.nan, np.nan) if pickup is None else (pickup.mass, pickup.mass_std)
        now = HistoryPoint(t, result.value, result.std, result.relative_error.total, result.condition_scaled, *mass)
        self.recent.append(now)
        if self._count % self._stride == 0:
            self.points.append(now)
        self._count += 1
        if len(self.points) >= 2 * KEPT:
            self.points, self._stride = self.points[::2], 2 * self._stride

    def curves(self, result: Identification, sigmas: float = 2.0) -> tuple[Curve, ...]:
        """Relative error, condition number, mass since a change if there was one, and every base parameter with a band
        of ± `sigmas`, up to the last refresh."""
        if not self.recent:
            return ()
        points = [*self.points, *(one for one in [self.recent[-1]] if one is not self.points[-1])]
        t = np.array([one.t for one in points])
        none = np.full(len(t), np.nan)
        out = [
            Curve("relative error", "1", t, np.array([one.error for one in points]), none),
            Curve("condition number", "1", t, np.array([one.condition for one in points]), none),
        ]
        mass, std = (np.array([getattr(one, what) for one in points]) for what in ("mass", "mass_std"))
        if np.isfinite(mass).any():
            since = np.isfinite(mass)
            out.append(Curve("mass picked up", "kg", t[since], mass[since], sigmas * std[since]))
        values, stds = (np.stack([getattr(one, what) for one in points], axis=1) for what in ("value", "std"))
        named = zip(result.base.names, result.base.units, values, sigmas * stds, strict=True)
        return (*out, *(Curve(name, unit, t, y, half) for name, unit, y, half in named))
