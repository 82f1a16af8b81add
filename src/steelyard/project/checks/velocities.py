"""Measured velocities compared with the slopes of the positions: unit, clock, sign and order without a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from steelyard._arrays import Array
from steelyard.findings import Finding
from steelyard.project.checks.tracks import Track

# Correlation from which on a slope and a velocity are the same motion.
_SAME = 0.9
# Factor up to which they agree: filters in the drive and rounding reduce a velocity.
_AGREES = 1.15


class Slopes(NamedTuple):
    """Slopes of the positions on the measured velocities: factor (n, n) of dq_i/dt = factor_ij v_j, and their
    correlation (n, n). Without a fault the factors on the diagonal are 1.

    Noise of the velocities makes a factor too small, by its correlation squared at most.
    """

    factor: Array
    correlation: Array

    @property
    def common(self) -> float | None:
        """The factor (without its sign) shared by all joints with enough motion; None if they do not agree."""
        same = np.abs(np.diagonal(self.correlation)) > _SAME
        if not same.any():
            return None
        logs = np.log(np.abs(np.diagonal(self.factor)[same]))
        middle = float(np.median(logs))
        return float(np.exp(middle)) if np.mean(np.abs(logs - middle) < 0.05) >= 0.6 else None

    def certain(self, tolerance: float) -> bool:
        """Whether the common factor differs from 1 by more than the relative `tolerance`, whatever the noise."""
        same = np.abs(np.diagonal(self.correlation)) > _SAME
        if self.common is None or not same.any():
            return False
        noise = float(np.median(2.0 * np.abs(np.log(np.abs(np.diagonal(self.correlation)[same])))))
        low = np.log(self.common)
        return bool(low > tolerance or low + noise < -tolerance)


def slopes_of(tracks: Sequence[Track]) -> Slopes | None:
    """Slopes of all tracks that have measured velocities, over a few rows so that rounding does not matter."""
    slope, measured = [], []
    for track in tracks:
        v = track.v
        if v is None or len(track.t) < 16:
            continue
        half = 3
        t, q = track.t, track.q
        took = t[2 * half :] - t[: -2 * half]
        even = took < 4.0 * half * track.step
        slope.append(((q[:, 2 * half :] - q[:, : -2 * half]) / took)[:, even])
        # the mean of v over the same rows
        total = np.cumsum(np.concatenate([np.zeros((len(v), 1)), v], axis=1), axis=1)
        mean = (total[:, 2 * half + 1 :] - total[:, : -2 * half - 1]) / (2 * half + 1)
        measured.append(mean[:, even])
    if not slope:
        return None
    s, m = np.concatenate(slope, axis=1), np.concatenate(measured, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        cross = s @ m.T
        factor = np.nan_to_num(cross / np.sum(m**2, axis=1))
        correlation = np.nan_to_num(cross / np.sqrt(np.outer(np.sum(s**2, axis=1), np.sum(m**2, axis=1))))
    return Slopes(factor, correlation)


def conflicts(slopes: Slopes, turned: Array, names: Sequence[str]) -> Iterator[Finding]:
    """Joints whose measured velocity contradicts their position, with `turned` (n, n) the edits found for positions:
    the velocity is wrong, or a position fault that the model cannot detect."""
    factor, correlation = turned @ slopes.factor, _signed(turned) @ slopes.correlation
    strength = np.abs(correlation)
    for i, name in enumerate(names):
        if strength[i].max(initial=0.0) < _SAME:
            continue
        j = int(np.argmax(strength[i]))
        size = float(factor[i, i])
        if j != i and strength[i, i] < _SAME:
            if i < j or strength[j, i] < _SAME:
                yield _swapped(names[min(i, j)], names[max(i, j)])
        elif size < 0.0:
            yield _flipped(name, size)
        elif abs(np.log(size)) > np.log(_AGREES):
            yield _scaled(name, size)


def _signed(turned: Array) -> Array:
    """The effect of the edit on correlations: signs and order without sizes."""
    return np.sign(turned) * (np.abs(turned) > 1e-12)


def _swapped(one: str, other: str) -> Finding:
    return Finding(
        "swapped-columns",
        "error",
        f"the position of {one} follows the measured velocity of {other}: columns are swapped",
        f"{one}, {other}",
        f"swap the columns of {one} and {other} in [channels] v or q",
    )


def _flipped(name: str, size: float) -> Finding:
    return Finding(
        "wrong-sign",
        "error",
        f"position and measured velocity of {name} have opposite signs: dq/dt = {size:.3g} v",
        name,
        f"invert 'sign' of {name} in [channels] v (or q)",
    )


def _scaled(name: str, size: float) -> Finding:
    if abs(abs(np.log(size)) - np.log(180.0 / np.pi)) < np.log(_AGREES):
        return Finding(
            "wrong-angle-unit",
            "error",
            f"position and measured velocity of {name} have different angle units: dq/dt = {size:.4g} v",
            name,
            f"set the unit of {name} in [channels] v or q: one is in degrees",
        )
    return Finding(
        "wrong-ratio",
        "error",
        f"position and measured velocity of {name} differ by a factor: dq/dt = {size:.4g} v",
        name,
        f"correct 'ratio' or the unit of {name} in [channels] v or q",
    )
