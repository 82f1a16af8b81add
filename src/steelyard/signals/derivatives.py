"""Velocities and accelerations: by differences of filtered positions or by a smoother, and the choice between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, Protocol, final

import numpy as np
from scipy.signal import butter, sosfiltfilt

from steelyard._arrays import Array
from steelyard._kernels.smoothing import smooth
from steelyard.signals.clock import Rows, interpolated
from steelyard.signals.samples import Samples

Derivatives = Literal["differences", "smoother"]
DERIVATIVES: tuple[Derivatives, ...] = ("differences", "smoother")

BUTTERWORTH_ORDER = 4
# Memory of the zero-phase filter, in periods of its cut-off. The slowest pole decays as exp(−2.4 fc t): after fifteen
# periods nothing is left in double precision, so a block filtered with that halo equals the whole run filtered at once.
HALO_PERIODS = 15.0
# Periods dropped at both ends of a stretch: after four periods less than 1e-4 of the edge effect is left.
EDGE_PERIODS = 4.0
# Samples on either side that the derivatives need: a five-point central difference reaches two samples, and velocity
# and acceleration take two differences.
DIFFERENCE_REACH = 2
# The smoother models the end of the data, so it needs only half as many periods.
SMOOTHER_EDGE_PERIODS = 2.0
# After this many e-foldings of the slowest mode, the influence of a row is below double precision.
_FOLDINGS = 36.0
# Lower bound on a velocity's noise relative to a position's, at the cut-off. With it the position dominates below a
# tenth of the cut-off, so that the memory of the smoother stays bounded.
_LEAST_RATIO = 1e-2


@final
@dataclass(frozen=True)
class Differences:
    """Zero-phase Butterworth filter of positions, and of velocities where they were measured, with five-point central
    differences for the derivatives that were not measured. `cutoff_hz` = None filters nothing; `rate` in Hz."""

    cutoff_hz: float | None
    rate: float

    @property
    def edge(self) -> int:
        """Samples dropped at each end of a stretch."""
        return self._samples(EDGE_PERIODS)

    @property
    def halo(self) -> int:
        """Samples on either side of a block that its values depend on."""
        return self._samples(HALO_PERIODS)

    def _samples(self, periods: float) -> int:
        filtered = 0.0 if self.cutoff_hz is None else periods / self.cutoff_hz
        return int(np.ceil(filtered * self.rate)) + 2 * DIFFERENCE_REACH

    def __call__(self, q: Array, v: Array | None) -> tuple[Array, Array, Array]:
        """Position, velocity and acceleration (n, N) from uniform rows q, v (n, N)."""
        q = self._lowpass(q)
        v = _derivative(q, self.rate) if v is None else self._lowpass(v)
        return q, v, _derivative(v, self.rate)

    def _lowpass(self, x: Array) -> Array:
        if self.cutoff_hz is None:
            return x
        sections = butter(BUTTERWORTH_ORDER, self.cutoff_hz, fs=self.rate, output="sos")
        padding = min(x.shape[1] - 1, 3 * (BUTTERWORTH_ORDER + 1))
        return np.asarray(sosfiltfilt(sections, x, axis=1, padlen=padding))

    def history(self, measured: bool) -> list[str]:
        """Description of the processing, as text; `measured` says whether velocities were logged."""
        lines = []
        if self.cutoff_hz is not None:
            lines.append(
                f"{_what(measured)}: zero-phase Butterworth, order {BUTTERWORTH_ORDER}, {self.cutoff_hz:g} Hz; "
                f"{self.edge} samples dropped at both ends of each stretch"
            )
        differentiated = "acceleration" if measured else "velocity and acceleration"
        return [*lines, f"{differentiated}: five-point central differences"]


def _what(measured: bool) -> str:
    return "positions and measured velocities" if measured else "positions"


def _derivative(x: Array, rate: float) -> Array:
    """(8 (x₊₁ − x₋₁) − (x₊₂ − x₋₂)) / (12 Δt), exact for quartics; two samples at each end repeat their neighbour."""
    out = np.empty_like(x)
    if x.shape[1] < 5:
        return np.zeros_like(x)
    out[:, 2:-2] = (8.0 * (x[:, 3:-1] - x[:, 1:-3]) - (x[:, 4:] - x[:, :-4])) * (rate / 12.0)
    out[:, :2], out[:, -2:] = out[:, 2:3], out[:, -3:-2]
    return out


@final
@dataclass(frozen=True)
class Smoother:
    """Kalman filter and smoother of every joint, driven by white snap, on rows at any times.

    With white noise of spectral density R on the positions and R_v on measured velocities the smoothed position is

        q̂(ω) = (q/R + ω² (v/iω)/R_v) / (1/R + ω²/R_v + ω⁸/κ).

    The snap's density κ is set so that half the amplitude remains at `cutoff_hz` [Hz]; without velocities this is the
    response 1/(1 + (f/fc)⁸) of a fourth-order Butterworth run forwards and backwards. `rate` [Hz] is the sample rate,
    `step` [s] the usual time between rows, `noise_ratio` [1/s²] the ratio of the velocity noise variance to the
    position noise variance, None without velocities.
    """

    cutoff_hz: float
    rate: float
    step: float
    noise_ratio: float | None = None

    @cached_property
    def _ratio(self) -> float:
        """R_v/R with time counted in 1/ω_c, infinite without velocities."""
        if self.noise_ratio is None:
            return np.inf
        return max(_LEAST_RATIO, self.noise_ratio / (2.0 * np.pi * self.cutoff_hz) ** 2)

    @property
    def edge(self) -> int:
        """Samples dropped at each end of a stretch."""
        return int(np.ceil(SMOOTHER_EDGE_PERIODS / self.cutoff_hz * self.rate))

    @cached_property
    def halo(self) -> int:
        """Samples on either side of a block that its values depend on.

        The modes are the roots of (1 + 1/r) ω⁸ + ω²/r + 1 = 0 with r = R_v/R and ω in units of the cut-off.
        """
        weight = 1.0 / self._ratio
        squares = np.roots([1.0 + weight, 0.0, 0.0, weight, 1.0])
        slowest = np.min(np.abs(np.real(np.emath.sqrt(-squares))))
        return int(np.ceil(_FOLDINGS / (slowest * 2.0 * np.pi * self.cutoff_hz) * self.rate))

    def __call__(self, t: Array, q: Array, v: Array | None, grid: Array) -> tuple[Array, Array, Array]:
        """Position, velocity and acceleration (n, G) at times grid (G,) [s] from rows q, v (n, N) at times t."""
        unit = 2.0 * np.pi * self.cutoff_hz
        times = np.union1d(t, grid)
        row, sample = np.full(len(times), -1), np.full(len(times), -1)
        row[np.searchsorted(times, t)] = np.arange(len(t))
        sample[np.searchsorted(times, grid)] = np.arange(len(grid))
        step = unit * np.diff(times, prepend=times[0])
        usual = np.median(step)
        # on a uniform clock all steps are made exactly equal, so that the kernel computes one transition for all
        step[np.abs(step - usual) <= 1e-6 * usual] = usual
        measured = q[None] if v is None else np.stack([q, v / unit])
        density = unit * self.step / (1.0 + 1.0 / self._ratio)
        out = np.empty((3, len(q), len(grid)))
        smooth(step, row, sample, np.ascontiguousarray(measured), self._ratio, density, out)
        return out[0], unit * out[1], unit**2 * out[2]

    def history(self, measured: bool) -> list[str]:
        """Description of the processing, as text; `measured` says whether velocities were logged."""
        weighed = ""
        if self.noise_ratio is not None:
            weighed = f", velocities {np.sqrt(self.noise_ratio):.3g} times as noisy as positions (per second)"
        return [
            f"{_what(measured)}: Kalman smoother driven by white snap at the times of the log, half amplitude at "
            f"{self.cutoff_hz:g} Hz{weighed}; {self.edge} samples dropped at both ends of each stretch"
        ]


class Grid(NamedTuple):
    """Uniform times start + k/rate, k < length, in blocks of `size`."""

    start: float
    rate: float
    length: int
    size: int


class RowBlock(NamedTuple):
    """A block of a grid that starts at grid index `first`, and the rows t (m,), x (channels, m) around it. Times are
    relative to the block's first."""

    first: int
    grid: Array
    t: Array
    x: Array


def row_blocks(parts: Iterable[Rows], grid: Grid, reach: float, longest: float) -> Iterator[RowBlock]:
    """Blocks of a grid with their rows and those up to `reach` [s] on either side, independent of the reader's chunks.

    Where rows are further apart than `longest` [s], stale rows of a rest were removed: the constant values are
    restored.
    """
    held_t: list[Array] = []
    held_x: list[Array] = []
    first = 0
    waiting = iter(parts)
    part = next(waiting, None)
    while part is not None:
        held_t.append(part.t - grid.start)
        held_x.append(part.x)
        part = next(waiting, None)
        while first < grid.length:
            times = np.arange(first, min(first + grid.size, grid.length)) / grid.rate
            if part is not None and held_t[-1][-1] <= times[-1] + reach:
                break
            t, x = np.concatenate(held_t), np.concatenate(held_x, axis=1)
            held_t, held_x = [t], [x]
            # two more rows, for the interpolation of efforts and across a rest
            low, high = max(0, np.searchsorted(t, times[0] - reach) - 2), np.searchsorted(t, times[-1] + reach) + 2
            if part is not None and high > len(t):
                break
            inside, bounds = times - times[0], (-reach, times[-1] - times[0] + reach)
            around = _refilled(t[low:high] - times[0], x[:, low:high], longest, 1.0 / grid.rate, bounds)
            yield RowBlock(first, inside, *around)
            first += len(times)
            later = max(0, np.searchsorted(t, first / grid.rate - reach) - 2)
            held_t, held_x = [t[later:]], [x[:, later:]]


def _refilled(t: Array, x: Array, longest: float, step: float, bounds: tuple[float, float]) -> tuple[Array, Array]:
    """Rows with steps longer than `longest` filled by interpolation within the bounds, every `step` after the row
    before."""
    rests = [k for k in np.flatnonzero(np.diff(t) > longest) if t[k + 1] > bounds[0] and t[k] < bounds[1]]
    if not rests:
        return t, x
    times = [t]
    for k in rests:
        low, high = max(t[k] + step, bounds[0]), min(t[k + 1], bounds[1])
        times.append(t[k] + step * np.arange(np.ceil((low - t[k]) / step), np.floor((high - t[k]) / step)))
    filled = np.unique(np.concatenate(times))
    return filled, interpolated(t, x, filled)


def noise(t: Array, x: Array) -> Array:
    """Standard deviation of the white noise of channels x (n, N) at times t (N,): RMS difference between a row and the
    cubic through two rows on either side, relative to that of unit noise."""
    places = [t[k : len(t) - 4 + k] for k in range(5)]
    weights = [-np.ones_like(places[2])]
    around = (0, 1, 3, 4)
    for k in around:
        others = [m for m in around if m != k]
        weights.append(np.prod([(places[2] - places[m]) / (places[k] - places[m]) for m in others], axis=0))
    rest = sum(w * x[:, k : x.shape[1] - 4 + k] for w, k in zip(weights, (2, *around), strict=True))
    scale = np.sqrt(np.sum(np.square(weights), axis=0))
    return np.sqrt(np.mean((rest / scale) ** 2, axis=1))


def noise_ratio(t: Array, q: Array, v: Array, cutoff_hz: float) -> float:
    """Ratio of the velocity noise variance to the position noise variance [1/s²], one for all joints (geometric mean).

    Without noise in either, both get the same weight at the cut-off.
    """
    of_q, of_v = noise(t, q), noise(t, v)
    noisy = (of_q > 0.0) & (of_v > 0.0)
    if not noisy.any():
        return float((2.0 * np.pi * cutoff_hz) ** 2)
    return float(np.exp(2.0 * np.mean(np.log(of_v[noisy] / of_q[noisy]))))


class FoldScore(Protocol):
    """A fold's score: ‖error‖/‖effort‖ in total; root-mean-square errors and rows by joint."""

    @property
    def total(self) -> float: ...
    @property
    def rmse(self) -> Mapping[str, float]: ...
    @property
    def rows(self) -> Mapping[str, int]: ...


class ScoredFold(Protocol):
    @property
    def score(self) -> FoldScore: ...


class CrossValidated(Protocol):
    """The attributes of a `CrossValidation` that are used here."""

    @property
    def folds(self) -> Sequence[ScoredFold]: ...


# Fraction by which the smoother must lower the error to be chosen over the default.
LEAST_GAIN = 0.002


@dataclass(frozen=True)
class DerivativeChoice:
    """Which derivatives predict held-out rows better: ‖error‖/‖effort‖ of both, the improvement by the smoother, and
    the standard error of the improvement over the folds (infinite where the folds cannot be paired)."""

    derivatives: Derivatives
    differences_error: float
    smoother_error: float
    gain: float
    standard_error: float

    @property
    def verdict(self) -> str:
        compared = (
            f"relative error on held-out rows {self.smoother_error:.2%} with the smoother, "
            f"{self.differences_error:.2%} with differences"
        )
        if not np.isfinite(self.standard_error):
            return f"Derivatives by differences: {compared}; not compared, because their folds hold different rows."
        by = f"{100 * self.gain:.2f} ± {100 * self.standard_error:.2f} percentage points"
        if self.derivatives == "smoother":
            return f"Derivatives by the smoother: {compared}, an improvement of {by}."
        errors = f"{self.smoother_error:.2%} and {self.differences_error:.2%}"
        lower = round(self.smoother_error, 4) < round(self.differences_error, 4)
        better = "significantly better" if lower else "better"
        return f"Derivatives by differences: the smoother is not {better} on held-out rows ({errors})."


def choose_derivatives(
    samples_of: Callable[[Derivatives], Sequence[Samples]],
    cross_validated: Callable[[Sequence[Samples]], CrossValidated],
) -> DerivativeChoice:
    """The smoother if its cross-validated error is lower by more than one standard error of the folds' differences.

    `samples_of` prepares the runs with the given derivatives; `cross_validated` observes and scores runs. Each is
    called twice. Both methods are scored on the same rows, those that remain with differences.
    """
    differences = samples_of("differences")
    smoothed = [run.cut_to(other) for run, other in zip(samples_of("smoother"), differences, strict=True)]
    squares = {"differences": _squares(cross_validated(differences)), "smoother": _squares(cross_validated(smoothed))}
    parts = [error / max(np.sum(effort), np.finfo(float).tiny) for error, effort in squares.values()]
    errors = {name: float(np.sqrt(np.sum(part))) for name, part in zip(squares, parts, strict=True)}
    gain = errors["differences"] - errors["smoother"]
    count = len(parts[0])
    spread = np.inf
    if count == len(parts[1]):
        # δ(error) = δ(error²)/(sum of both errors)
        scale = max(errors["differences"] + errors["smoother"], np.finfo(float).tiny)
        spread = float(np.sqrt(count) * np.std(parts[0] - parts[1], ddof=1) / scale)
    chosen: Derivatives = "smoother" if gain > max(spread, LEAST_GAIN * errors["differences"]) else "differences"
    return DerivativeChoice(chosen, errors["differences"], errors["smoother"], gain, spread)


def _squares(scored: CrossValidated) -> tuple[Array, Array]:
    """Sums of squared errors and of squared efforts, one of each per fold."""
    scores = [fold.score for fold in scored.folds]
    error = np.array([sum(np.nan_to_num(s.rmse[j]) ** 2 * rows for j, rows in s.rows.items()) for s in scores])
    total = np.array([s.total for s in scores])
    return error, np.divide(error, total**2, out=np.zeros_like(error), where=total > 0.0)
