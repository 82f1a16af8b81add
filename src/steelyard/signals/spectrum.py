"""The spectra of a log: up to which frequency its accelerations are those of the motion, which gives the cut-off
frequencies, and how coarsely its signals are rounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d
from scipy.signal import periodogram

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.findings import Finding
from steelyard.signals.channels import Linear
from steelyard.signals.recording import Progress
from steelyard.signals.samples import Samples

# The constants of the rule were chosen on 100 simulated robots (evidence/generalise.py, seeds 20261118 and 7), where a
# factor of three in RISE or of 1.2 in BELOW_RISE changes the median error by 3 %. No recording was used, but for
# POSITION_FACTOR: of 1.25, 1.5, 1.8 and 2.5, 1.5 is the best on the simulated robots (mean ratio to the best filters
# 1.135 of the true torques, 2.5: 1.180), and on the recordings 1.25 to 1.8 are better than 2.5, whichever robot is
# left out.
# f_v of a joint: the frequency below which this fraction of its velocity power lies.
VELOCITY_POWER = 0.95
# The motion of a run ends at this multiple of the largest f_v; no f_v counts for more than this multiple of the median.
MOTION_FACTOR, LARGEST_OVER_MEDIAN = 2.0, 2.0
# Accelerations rise where the excess over this multiple of the lowest level so far reaches this fraction of the motion.
RISE_LEVEL, RISE = 4.0, 0.01
# Acceleration spectra are averaged over this fraction of the frequency to either side.
SMOOTHING = 0.15
# The parallel filter as a fraction of the frequency of that rise, and the filter of the positions as a multiple of it.
BELOW_RISE, POSITION_FACTOR = 0.7, 1.5
# Periods of the parallel filter that a log of one stretch must hold at least (65 rows at the usual 2.5 per period). Of
# these, both filters take the second number at the ends of every stretch: 8/1.5 for the positions, 3 for the rows.
LEAST_PERIODS, LOST_PERIODS = 26.0, 8.3
# The band of the accelerations: this fraction of their power below the rise. Above this multiple of it, rows contain
# noise and resonances but no motion, and a log with this many periods (500 rows) needs none of them. Multiples from 8
# to 24 do equally well on these robots (seed 20261118); on repeated point-to-point moves lower ones are better.
ACCELERATION_POWER, ABOVE_MOTION, ENOUGH_PERIODS = 0.95, 8.0, 200.0
# A digital filter keeps its shape up to this fraction of the rate.
HIGHEST = 0.4
# Length of a segment [s] if the log is long enough: the resolution is an eighth of a hertz.
_SEGMENT_S = 8.0
_LEAST_SAMPLES = 64
# The band of a position ends where its spectrum, averaged over this many bins, is less than this multiple of its floor;
# a spectrum that never exceeds the second multiple contains only noise.
_BINS, _ENDS, _SHOWS = 5, 4.0, 10.0
# Differences below this fraction of a channel's largest value are zero within single precision.
_DUST = 2.0**-22
# A rounding step is accepted when this fraction of the differences up to this many steps are whole multiples of it,
# within a tenth.
_WHOLE, _SEEN_STEPS = 0.95, 1000.0
# Number of pairs of neighbours, spread over the rows, that are used.
_PAIRS = 4096
# Rounding is reported when it makes this fraction of the RMS effort or acceleration, with a warning at the second
# fraction.
_COARSE_EFFORT, _COARSE_MOTION = (0.01, 0.1), (0.1, 0.5)


@dataclass(frozen=True)
class Bandwidth:
    """The motion and the disturbances of one joint in one run [Hz].

    motion_hz        f_v: 95 % of the velocity power lies below, in the band in which the position exceeds its noise
    rise_hz          where the accelerations rise again above the motion: encoder noise or a structural resonance
    acceleration_hz  f_a: 95 % of the power of the accelerations below that rise lies below
    """

    run: str
    joint: str
    motion_hz: float
    rise_hz: float
    acceleration_hz: float


@dataclass(frozen=True)
class Cutoffs:
    """Proposed filters: `cutoff_hz` of `Preparation`, `lowpass_hz` of `Problem` [Hz]; the rule as text; evidence."""

    motion_hz: float
    cutoff_hz: float
    lowpass_hz: float
    rule: str
    evidence: tuple[Bandwidth, ...]


def propose_cutoffs(runs: Sequence[Samples], progress: Progress | None = None) -> Cutoffs:
    """The highest parallel filter that keeps accelerations free of noise and resonances, for all runs.

    With Welch spectra S of the positions, A(f) = (2πf)⁴ S(f) is that of the accelerations. Beyond the motion, f > f_m,
    it falls until noise or a resonance makes it rise again. With its level Ā averaged over neighbouring frequencies,
    the rise of a joint is the lowest f with

        ∫_{f_m}^{f} (Ā(x) − 4 min_{y ≤ x} Ā(y))₊ dx  ≥  0.01 ∫_0^{f_m} A(x) dx

    so that the accelerations below it are those of the motion to 1 % of their power. lowpass_hz is 0.7 of the lowest
    rise of the joints, in the median of the runs, but not above 8 times the largest f_a where a log is long enough for
    500 rows there: a resonance that only the efforts show lies above. The efforts are not used themselves: they contain
    a resonance like any other motion.
    Give samples prepared without `cutoff_hz`: a filter would hide the noise of the positions.
    """
    by_run = [tuple(_bandwidths(run, progress)) for run in runs]
    moving = [shown for bandwidths in by_run if (shown := [b for b in bandwidths if b.motion_hz > 0.0])]
    if not moving:
        names = ", ".join(f"'{run.name}'" for run in runs) or "(no runs)"
        raise DataError(
            f"No joint of {names} moves above the noise of its position, so the spectrum gives no cut-off frequency. "
            "Check the channel map, record a faster motion, or set cutoff_hz and lowpass_hz in [prepare]."
        )
    lowest = sorted((min(shown, key=attrgetter("rise_hz")) for shown in moving), key=attrgetter("rise_hz"))
    deciding = lowest[(len(lowest) - 1) // 2]
    motion = max(b.motion_hz for shown in moving for b in shown)
    rate = float(min(run.rate for run in runs))
    seconds = [(stretch.window[1] - stretch.window[0]) / run.rate for run in runs for stretch in run.stretches]
    wanted, least = BELOW_RISE * deciding.rise_hz, _lowest(seconds, LEAST_PERIODS)
    acceleration = max(b.acceleration_hz for shown in moving for b in shown)
    useful = max(ABOVE_MOTION * acceleration, _lowest(seconds, ENOUGH_PERIODS))
    lowpass = min(max(wanted, least), useful, HIGHEST * rate)
    cutoff = min(POSITION_FACTOR * lowpass, HIGHEST * rate)
    where = f"{deciding.joint}" + (f" in '{deciding.run}'" if len(runs) > 1 else "")
    reason = f"the accelerations of {where} rise above the motion at {deciding.rise_hz:.3g} Hz"
    rule = f"{reason}, lowpass_hz = {BELOW_RISE:g} of it = {wanted:.3g}"
    if lowpass > wanted:
        rule += f", raised to {lowpass:.3g} for enough rows in {sum(seconds):.3g} s"
    elif lowpass == useful < wanted:
        rule += f", lowered to {lowpass:.3g} (the accelerations end at {acceleration:.3g} Hz)"
    elif lowpass < wanted:
        rule += f", lowered to {lowpass:.3g} ({HIGHEST:g} of the rate)"
    rule += f"; cutoff_hz = {POSITION_FACTOR:g} lowpass_hz = {POSITION_FACTOR * lowpass:.3g}"
    if cutoff < POSITION_FACTOR * lowpass:
        rule += f", lowered to {cutoff:.3g} ({HIGHEST:g} of the rate)"
    return Cutoffs(
        float(f"{motion:.3g}"),
        float(f"{cutoff:.3g}"),
        float(f"{lowpass:.3g}"),
        rule,
        tuple(b for r in by_run for b in r),
    )


def _lowest(seconds: Sequence[float], periods: float) -> float:
    """The lowest f [Hz] at which stretches of these lengths hold p `periods`: Σ (f T − 8.3)₊ = p − 8.3."""
    long = np.sort(np.asarray(seconds, np.float64))[::-1]
    # with the k longest stretches alone; the fewest Hz are those of the best k
    return float(np.min((periods + LOST_PERIODS * np.arange(len(long))) / np.cumsum(long)))


def _bandwidths(run: Samples, progress: Progress | None) -> Iterator[Bandwidth]:
    longest = max(stretch.window[1] - stretch.window[0] for stretch in run.stretches)
    if longest < _LEAST_SAMPLES:
        raise DataError(
            f"Run '{run.name}' has {longest} consecutive samples; a spectrum needs {_LEAST_SAMPLES}. Record longer, "
            "widen its window, or set cutoff_hz and lowpass_hz in [prepare]."
        )
    # a clock in the wrong unit makes a segment shorter than a spectrum
    length = min(longest, max(round(_SEGMENT_S * run.rate), _LEAST_SAMPLES))
    frequency = np.asarray(np.fft.rfftfreq(length, 1.0 / run.rate)[1:], np.float64)
    # The second difference prevents leakage of slow motion into high frequencies; white noise has this shape in it. Its
    # mean stays: without it, noise would look like motion in the lowest bins, where the shape is almost zero.
    noise = (2.0 * np.sin(np.pi * frequency / run.rate)) ** 4
    positions = np.zeros((len(run.joints), len(frequency)))
    for q in _segments(run, length, progress):
        bend = np.diff(q, 2, axis=1)
        power = periodogram(bend, run.rate, "hann", nfft=length, detrend=False)[1]  # type: ignore[arg-type]
        positions += power[:, 1:] / noise
    motion = np.array(
        [0.0 if run.constant_effort[j] else _motion(frequency, spectrum) for j, spectrum in enumerate(positions)]
    )
    top = 0.0
    if motion.any():
        top = MOTION_FACTOR * min(float(motion.max()), LARGEST_OVER_MEDIAN * float(np.median(motion[motion > 0.0])))
    for joint, f_v, spectrum in zip(run.joints, motion, positions, strict=True):
        rise, f_a = _accelerations(frequency, spectrum, top) if f_v else (0.0, 0.0)
        yield Bandwidth(run.name, joint, float(f_v), rise, f_a)


def _motion(frequency: Array, spectrum: Array) -> float:
    """f_v [Hz] of a joint from the spectrum of its position; zero if that is only noise."""
    floor = np.median(spectrum)
    level = uniform_filter1d(spectrum, _BINS, mode="nearest")
    peak = int(np.argmax(level))
    if not level[peak] > _SHOWS * floor:
        return 0.0
    below: NDArray[np.int64] = np.flatnonzero(level[peak:] <= _ENDS * floor)
    end = peak + int(below[0]) if len(below) else len(spectrum)
    power = np.cumsum(np.maximum(spectrum - floor, 0.0)[:end] * frequency[:end] ** 2)
    return float(frequency[np.searchsorted(power, VELOCITY_POWER * power[-1])])


def _accelerations(frequency: Array, spectrum: Array, top: float) -> tuple[float, float]:
    """Frequencies [Hz] at which the acceleration of a joint rises above its motion below `top`, and below which 95 % of
    its power up to there lies; `spectrum`: position."""
    acceleration = spectrum * frequency**4
    power = np.cumsum(acceleration)
    start, rise = int(np.searchsorted(frequency, top)), len(frequency) - 1
    if start < rise:
        level = _averaged(acceleration)[start:]
        excess = np.cumsum(np.maximum(level - RISE_LEVEL * np.minimum.accumulate(level), 0.0))
        above: NDArray[np.int64] = np.flatnonzero(excess > RISE * power[start])
        rise = start + int(above[0]) if len(above) else rise
    end = int(np.searchsorted(power, ACCELERATION_POWER * power[rise]))
    return float(frequency[rise]), float(frequency[end])


def _averaged(spectrum: Array) -> Array:
    """The mean over a window around each bin that grows with frequency, at least two bins to either side."""
    total = np.concatenate([[0.0], np.cumsum(spectrum)])
    bins = np.arange(len(spectrum))
    half = np.maximum(2, (SMOOTHING * (bins + 1)).astype(int))
    low, high = np.maximum(bins - half, 0), np.minimum(bins + half + 1, len(spectrum))
    return (total[high] - total[low]) / (high - low)


def _segments(run: Samples, length: int, progress: Progress | None = None) -> Iterator[Array]:
    """Positions (n, length) of half-overlapping segments, counted from the start of each window."""
    hop, seen = max(1, length // 2), 0
    for index, pieces in groupby(run.open(), key=attrgetter("stretch")):
        first, stop = run.stretches[index].window
        held = np.empty((len(run.joints), 0))
        for piece in pieces:
            seen += piece.q.shape[1]
            if progress is not None:
                progress(f"spectrum of {run.name}", seen, run.count)
            inside = slice(max(first - piece.first, 0), max(stop - piece.first, 0))
            held = np.concatenate([held, piece.q[:, inside]], axis=1)
            while held.shape[1] >= length:
                yield held[:, :length]
                held = held[:, hop:]


def quanta(signal: Linear, raw: Array) -> Array:
    """Rounding of a signal, (n,) in its own unit, from its columns as logged (n, N): the largest step among the columns
    that make up a joint's value, zero where none is found."""
    count = raw.shape[1]
    at = np.arange(count - 1) if count <= _PAIRS else np.linspace(0, count - 2, _PAIRS).astype(int)
    now = raw[:, at]
    steps = [_quantum(*channel) for channel in zip(np.abs(raw[:, at + 1] - now), np.abs(now).max(axis=1), strict=True)]
    return np.max(np.abs(signal.matrix) * np.array(steps), axis=1)


def _quantum(change: Array, size: float) -> float:
    """The smallest difference between neighbouring values (of size up to `size`) if nearly all others are whole
    multiples of it, else zero."""
    change = change[change > _DUST * size]
    if not len(change):
        return 0.0
    step = float(np.min(change))
    seen = change[change < _SEEN_STEPS * step]
    # a difference of many steps gives their size more precisely: widen the range as the size becomes known
    for span in (1.5, 10.0, 100.0, _SEEN_STEPS):
        near = seen[seen < span * step]
        whole = np.round(near / step)
        step = float(near @ whole / (whole @ whole))
    fraction = np.mean(np.abs(seen / step - np.round(seen / step)) < 0.1)
    return step if 2 * len(seen) >= len(change) and fraction >= _WHOLE else 0.0


def rounding_findings(
    joints: Sequence[str], q: Array, effort: Array, steps: tuple[Array, Array], lag: int
) -> Iterator[Finding]:
    """Findings where rounding by `steps` (of q, of effort; (n,) each) is a noticeable fraction of efforts or
    accelerations (n, N).

    Accelerations are second differences over `lag` rows, half a period of the cut-off. Rounding has the variance
    step²/12 and enters them with the weights 1, −2, 1.
    """
    far = max(0, q.shape[1] - 2 * lag)
    bend = q[:, 2 * lag :] - 2.0 * q[:, lag : lag + far] + q[:, :far]
    with np.errstate(invalid="ignore", divide="ignore"):
        of_motion = steps[0] * np.sqrt(0.5 * far / np.sum(bend**2, axis=1))
        of_effort = steps[1] / np.std(effort, axis=1)
    told = (
        ("position", steps[0], of_motion, _COARSE_MOTION, "acceleration", "log more digits, or lower cutoff_hz"),
        ("effort", steps[1], of_effort, _COARSE_EFFORT, "spread", "log more digits"),
    )
    for what, sizes, parts, (noticeable, dominant), of, fix in told:
        for joint, size, part in zip(joints, sizes, parts, strict=True):
            if noticeable < part < np.inf:
                yield Finding(
                    "coarse-quantisation",
                    "warning" if part > dominant else "info",
                    f"the {what} of {joint} is quantised in steps of {size:.3g}: rounding is {part:.0%} of its {of}",
                    joint,
                    fix,
                )
