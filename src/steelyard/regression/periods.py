"""Periods: whether a motion repeats itself, found from its speeds.

What a model lacks (ripple, the shape of friction) leaves the same residual in every period of a periodic motion. Blocks
of time that are left out in turn then resemble each other, and do not show that error; blocks of one phase do.
"""

from __future__ import annotations

import numpy as np

from steelyard._arrays import Array

# A motion repeats itself where its speeds and those one period later have at least this correlation, after one below
# the second.
REPEATS, APART = 0.9, 0.5
# Rows that are looked at.
MOST_ROWS = 16384
# Rows of the shortest period: a twelfth of it must be a row.
FEWEST_ROWS = 12

# A step in time that differs from the usual one by more than this fraction is a gap.
GAP = 0.5


def period(v: Array) -> float:
    """Number of rows after which speeds v (n, m) repeat themselves; infinite if not within two thirds of the rows.

    With r(l) = Σ v(k) v(k + l) / √(Σ v(k)² Σ v(k + l)²), every joint in units of its deviation, it is the first maximum
    above 0.9, refined by its multiples.
    """
    v = v[:, :MOST_ROWS]
    size = np.std(v, axis=1, keepdims=True)
    v = v[size[:, 0] > 0.0] / size[size > 0.0][:, None]
    count = v.shape[1]
    longest = 2 * count // 3
    if not len(v) or longest <= FEWEST_ROWS:
        return np.inf
    spectrum = np.fft.rfft(v, 1 << (2 * count - 1).bit_length(), axis=1)
    products = np.fft.irfft(np.sum(np.abs(spectrum) ** 2, axis=0))[: longest + 1]
    power = np.concatenate([[0.0], np.cumsum(np.sum(v**2, axis=0))])
    lags = np.arange(longest + 1)
    r = products / np.sqrt(power[count - lags] * (power[-1] - power[lags]))
    low = np.flatnonzero(r < APART)
    if not len(low):
        return np.inf
    peaks = 1 + np.flatnonzero((r[1:-1] >= r[:-2]) & (r[1:-1] > r[2:]) & (r[1:-1] > REPEATS))
    peaks = peaks[peaks > max(low[0], FEWEST_ROWS)]
    if not len(peaks):
        return np.inf
    found = _summit(r, int(peaks[0]))
    for peak in peaks[1:]:
        times = round(peak / found)
        if times and abs(peak / found - times) < 0.1:
            found = _summit(r, int(peak)) / times
    return found


def _summit(r: Array, k: int) -> float:
    """The place of the maximum of the parabola through r at k − 1, k, k + 1."""
    before, here, after = r[k - 1 : k + 2]
    bend = before - 2.0 * here + after
    return k + (0.5 * (before - after) / bend if bend < 0.0 else 0.0)


class SpeedRecord:
    """The first gap-free rows of a run as they pass: times and speeds."""

    def __init__(self) -> None:
        self.t: list[Array] = []
        self.v: list[Array] = []
        self.rows = 0

    def add(self, t: Array, v: Array) -> None:
        """Rows at t (m,) [s] with speeds v (n, m)."""
        if self.rows < MOST_ROWS:
            self.t.append(t)
            self.v.append(v)
            self.rows += len(t)

    @property
    def period(self) -> float:
        """The period of the longest gap-free stretch [s]; infinite without one."""
        if self.rows < FEWEST_ROWS:
            return np.inf
        t, v = np.concatenate(self.t), np.concatenate(self.v, axis=1)
        step = float(np.median(np.diff(t)))
        parts = np.split(np.arange(len(t)), 1 + np.flatnonzero(np.abs(np.diff(t) / step - 1.0) > GAP))
        longest = max(parts, key=len)
        return step * period(v[:, longest])
