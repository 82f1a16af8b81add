"""Parallel low-pass and decimation: one linear-phase filter for effort and every column (P0 §III, P4 §III.A)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import DataError

# Length of the filter in periods of its cut-off. With a Hamming window the transition ends at 1.55 fc. A longer filter
# is sharper but costs rows at both ends of every stretch.
SUPPORT_PERIODS = 3.0
# Half length, in samples, of the interpolator that shifts the filter by a fraction of a sample.
INTERPOLATOR = 12
_LONGEST = 10_000_000


@dataclass(frozen=True)
class Decimator:
    """y_k = Σ_m h_m x_{kD+m}, h symmetric of odd length L with Σ h = 1; row k is centred on sample kD + (L−1)/2.

    Rows exist only where their whole support lies in the data, so there are no edge effects. Zeros on either side leave
    space for `shifted` copies of the filter, which read the signal up to `reach` samples earlier or later.
    """

    taps: Array
    factor: int
    reach: int = 0

    @staticmethod
    def design(rate: float, lowpass_hz: float | None, factor: int | None, furthest: float = 0.0) -> Decimator:
        """Hamming-windowed sinc with cut-off `lowpass_hz` [Hz]; by default 2.5 rows per period of the cut-off are kept.

        `furthest` [s] is the longest shift that will be requested.
        """
        if factor is not None and not 1 <= factor <= _LONGEST:
            raise DataError(f"prepare.decimate must be a whole number from 1 to {_LONGEST}, not {factor}.")
        reach = int(np.ceil(abs(furthest) * rate - 1e-9))
        space = reach + INTERPOLATOR if reach else 0
        if lowpass_hz is None:
            return Decimator(np.pad(np.ones(1), space), factor or 1, reach)
        if not 0.0 < lowpass_hz < 0.5 * rate:
            raise DataError(
                f"prepare.lowpass_hz = {lowpass_hz:g} must lie between 0 and half the rate ({0.5 * rate:.6g} Hz)."
            )
        if SUPPORT_PERIODS * rate / lowpass_hz > _LONGEST:
            raise DataError(
                f"prepare.lowpass_hz = {lowpass_hz:g} is too low for data at {rate:.6g} Hz: the filter would be too "
                "long. Raise lowpass_hz."
            )
        # a rate computed from a clock has rounding errors, which must not lengthen the filter
        half = int(np.ceil(0.5 * SUPPORT_PERIODS * rate / lowpass_hz * (1.0 - 1e-9)))
        taps = _windowed_sinc(np.arange(-half, half + 1.0), half, lowpass_hz / rate)
        return Decimator(np.pad(taps, space), factor or _thinning(rate, lowpass_hz), reach)

    @property
    def half(self) -> int:
        return (len(self.taps) - 1) // 2

    def rows(self, samples: int) -> int:
        """Number of rows that `samples` consecutive samples give."""
        return max(0, (samples - len(self.taps)) // self.factor + 1)

    def shifted(self, samples: float) -> Array:
        """Taps (L,) that give the same rows of the signal delayed by `samples` (may be a fraction): y(t +
        samples/rate).

        The filter itself is interpolated by a windowed sinc, so its gain is the same at every shift, also for noise, up
        to nearly half the rate. If copies passed less noise than the filter, a fit of the delay would prefer them.
        """
        if abs(samples) > self.reach + 1e-6:
            raise DataError(f"A shift of {samples:g} samples exceeds the reach of this filter ({self.reach} samples).")
        whole = round(samples)
        moved = np.roll(self.taps, whole)
        if samples == whole:
            return moved
        taps = np.convolve(moved, _interpolator(samples - whole))[INTERPOLATOR:-INTERPOLATOR]
        return taps / taps.sum()


def _interpolator(part: float) -> Array:
    """Sinc under a Blackman window, taps (2·INTERPOLATOR + 1,) that delay by `part` of a sample, from −½ to ½."""
    places = np.arange(-INTERPOLATOR, INTERPOLATOR + 1.0) - part
    turn = np.pi * places / (INTERPOLATOR + 0.5)
    return np.sinc(places) * (0.42 + 0.5 * np.cos(turn) + 0.08 * np.cos(2.0 * turn))


def _thinning(rate: float, lowpass_hz: float) -> int:
    """Number of samples per row that leaves 2.5 rows per period, robust to rounding of the rate."""
    return max(1, int(rate / (2.5 * lowpass_hz) + 1e-6))


def _windowed_sinc(places: Array, half: int, cutoff: float) -> Array:
    """2f sinc(2f x) (0.54 + 0.46 cos πx/half) at places x [samples], cut-off f [per sample], scaled to a sum of one."""
    window = np.where(np.abs(places) <= half, 0.54 + 0.46 * np.cos(np.pi * places / half), 0.0)
    taps = np.sinc(2.0 * cutoff * places) * window
    return taps / taps.sum()


@dataclass
class DecimationStream:
    """Running decimation of tiles (channels, T): each tile is multiplied once by a slice of the filter (a polyphase
    matrix product) and the result is added to the rows that its samples belong to. `taps` replace the decimator's own.
    """

    decimator: Decimator
    taps: Array | None = None
    seen: int = 0
    done: int = 0
    _open: Array | None = None
    _weights: dict[tuple[int, int, int], Array] = field(default_factory=dict)

    def push(self, tile: Array) -> Iterator[tuple[int, Array]]:
        """Rows completed by this tile, as (number of the first, values (channels, rows))."""
        factor, length = self.decimator.factor, len(self.decimator.taps)
        width = tile.shape[1]
        # rows touched by samples seen … seen + width − 1
        last = (self.seen + width - 1) // factor
        touched = last - self.done + 1
        if touched <= 0:
            self.seen += width
            return
        part = tile @ self._slice(self.seen - self.done * factor, width, touched)
        if self._open is not None:
            part[:, : self._open.shape[1]] += self._open
        self.seen += width
        finished = min(touched, max(0, (self.seen - length) // factor + 1 - self.done))
        self._open = part[:, finished:]
        if finished:
            first = self.done
            self.done += finished
            yield first, part[:, :finished]

    def _slice(self, lead: int, width: int, touched: int) -> Array:
        """Weights (width, touched) of samples lead, lead + 1, … counted from the first sample of the first open row."""
        key = (lead, width, touched)
        if key not in self._weights:
            if len(self._weights) > 256:
                self._weights.clear()
            index = (lead + np.arange(width))[:, None] - self.decimator.factor * np.arange(touched)
            inside = (index >= 0) & (index < len(self.decimator.taps))
            taps = self.decimator.taps if self.taps is None else self.taps
            self._weights[key] = np.where(inside, taps[np.where(inside, index, 0)], 0.0)
        return self._weights[key]
