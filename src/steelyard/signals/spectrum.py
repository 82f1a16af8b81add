"""What the signals of a log can tell: how fast the dynamics are that they show, hence the cut-offs (P4 §III.A), and how
coarsely they are rounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
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

# P4 §III.A: ω_fq ≥ 5 ω_dyn for the positions, ω_Fp ≥ 2 ω_dyn for the parallel filter.
POSITION_FACTOR, PARALLEL_FACTOR = 5.0, 2.0
# f_dyn is the frequency below which this part of the effort's power lies.
POWER = 0.99
# Of the joints of a run the upper quartile counts: of five or more, one that swings in its own resonance sets nothing.
_QUARTILE = 0.75
# The rule's factors are the least (P4: ≥): on a short log they are raised together until so many rows a joint are left,
# at the usual 2.5 rows a period of the parallel filter.
LEAST_ROWS, ROWS_A_PERIOD = 200, 2.5
# A digital filter still has its shape at this part of the rate.
HIGHEST = 0.4
# Length of a segment [s] where the log allows: an eighth of a hertz is told apart.
_SEGMENT_S = 8.0
_LEAST_SAMPLES = 64
# A band ends where the spectrum, averaged over so many bins, is no more than so many times its floor; a spectrum that
# never rises above the second multiple shows noise alone.
_BINS, _ENDS, _SHOWS = 5, 4.0, 10.0
# Differences below this part of a channel's largest value are what single precision leaves of zero.
_DUST = 2.0**-22
# A step of rounding is seen when so many of the differences up to so many steps are whole multiples of it to a tenth.
_WHOLE, _SEEN_STEPS = 0.95, 1000.0
# So many pairs of neighbours, spread over the rows, tell it.
_PAIRS = 4096
# Rounding is told of when it makes this part of the effort's, or of the acceleration's, root mean square; it is a
# warning at the second part.
_COARSE_EFFORT, _COARSE_MOTION = (0.01, 0.1), (0.1, 0.5)


@dataclass(frozen=True)
class Bandwidth:
    """f_dyn [Hz] of one joint of one run: the frequency below which 99 % of its effort's power lies, in the band in
    which effort and position stand above their noise; zero where they never do."""

    run: str
    joint: str
    f_dyn_hz: float


@dataclass(frozen=True)
class Cutoffs:
    """Proposed filters: `cutoff_hz` of `Preparation`, `lowpass_hz` of `Problem` [Hz]; the rule in words; evidence."""

    f_dyn_hz: float
    cutoff_hz: float
    lowpass_hz: float
    rule: str
    evidence: tuple[Bandwidth, ...]


def propose_cutoffs(runs: Sequence[Samples], progress: Progress | None = None) -> Cutoffs:
    """One f_dyn for all runs, the largest of their joints' upper quartiles, and the cut-offs that follow from it.

    For every joint, with Welch spectra S of its effort and its position and their noise floors N (medians over
    frequency):  f_dyn = min { f : ∫₀^f (S_τ − N_τ)₊ ≥ 0.99 ∫₀^B (S_τ − N_τ)₊ },  where the band B ends when S_τ or S_q
    sinks into its floor. Give samples prepared without `cutoff_hz`: a filter would hide the position's noise.
    """
    by_run = [tuple(_bandwidths(run, progress)) for run in runs]
    quartiles = [quartile for bandwidths in by_run if (quartile := _upper_quartile(bandwidths)) is not None]
    shown = max(quartiles, key=attrgetter("f_dyn_hz"), default=None)
    if shown is None:
        names = ", ".join(f"'{run.name}'" for run in runs) or "(no runs)"
        raise DataError(
            f"No joint of {names} moves and works above its noise, so no cut-off follows from the spectrum. Check the "
            "channel map, record a livelier motion, or set cutoff_hz and lowpass_hz by hand."
        )
    f_dyn = float(f"{shown.f_dyn_hz:.3g}")
    rate = float(min(run.rate for run in runs))
    seconds = sum((stretch.window[1] - stretch.window[0]) / run.rate for run in runs for stretch in run.stretches)
    raised = float(f"{max(1.0, LEAST_ROWS / (ROWS_A_PERIOD * PARALLEL_FACTOR * f_dyn * seconds)):.3g}")
    wanted = {"cutoff_hz": POSITION_FACTOR * raised, "lowpass_hz": PARALLEL_FACTOR * raised}
    chosen = {name: min(factor * f_dyn, HIGHEST * rate) for name, factor in wanted.items()}
    words = [
        f"{name} = {factor:.3g} f_dyn = {factor * f_dyn:.4g}"
        + (f", lowered to {chosen[name]:.4g} ({HIGHEST:g} of the rate)" if chosen[name] < factor * f_dyn else "")
        for name, factor in wanted.items()
    ]
    if raised > 1.0:
        words.append(
            f"both {raised:.3g} times the rule's so that {LEAST_ROWS} rows a joint are left of {seconds:.3g} s"
        )
    where = f"{shown.joint}'s effort" + (f" in '{shown.run}'" if len(runs) > 1 else "")
    reason = f"{POWER:.0%} of the power of {where} above its noise"
    return Cutoffs(
        f_dyn, rule=f"f_dyn = {f_dyn:g} Hz ({reason}), {', '.join(words)}", evidence=tuple(chain(*by_run)), **chosen
    )


def _upper_quartile(bandwidths: Sequence[Bandwidth]) -> Bandwidth | None:
    """The joint at the upper quartile of f_dyn among those that show any."""
    shown = sorted((b for b in bandwidths if b.f_dyn_hz > 0.0), key=attrgetter("f_dyn_hz"))
    return shown[int(np.ceil(_QUARTILE * (len(shown) - 1)))] if shown else None


def _bandwidths(run: Samples, progress: Progress | None) -> Iterator[Bandwidth]:
    longest = max(stretch.window[1] - stretch.window[0] for stretch in run.stretches)
    if longest < _LEAST_SAMPLES:
        raise DataError(
            f"Run '{run.name}' has {longest} samples in a row; a spectrum needs {_LEAST_SAMPLES}. Record longer, widen "
            "its window, or set cutoff_hz and lowpass_hz by hand."
        )
    length = min(longest, round(_SEGMENT_S * run.rate))
    frequency = np.fft.rfftfreq(length, 1.0 / run.rate)[1:]
    # A second difference hides no fast motion behind the leakage of slow motion; white noise is this shape in it.
    noise = (2.0 * np.sin(np.pi * frequency / run.rate)) ** 4
    efforts, positions = np.zeros((2, len(run.joints), len(frequency)))
    for q, effort in _segments(run, length, progress):
        efforts += periodogram(effort, run.rate, "hann")[1][:, 1:]
        positions += periodogram(np.diff(q, 2, axis=1), run.rate, "hann", nfft=length)[1][:, 1:] / noise
    for j, joint in enumerate(run.joints):
        ends = [0 if run.dead[j] else _end(spectrum[j]) for spectrum in (efforts, positions)]
        power = np.cumsum(np.maximum(efforts[j] - np.median(efforts[j]), 0.0)[: min(ends)])
        f_dyn = frequency[np.searchsorted(power, POWER * power[-1])] if len(power) else 0.0
        yield Bandwidth(run.name, joint, float(f_dyn))


def _end(spectrum: Array) -> int:
    """How many bins from zero belong to the band that holds the spectrum's peak; none where there is only noise."""
    floor = np.median(spectrum)
    level = uniform_filter1d(spectrum, _BINS, mode="nearest")
    peak = int(np.argmax(level))
    if not level[peak] > _SHOWS * floor:
        return 0
    sunk: NDArray[np.int64] = np.flatnonzero(level[peak:] <= _ENDS * floor)
    return peak + int(sunk[0]) if len(sunk) else len(spectrum)


def _segments(run: Samples, length: int, progress: Progress | None = None) -> Iterator[tuple[Array, Array]]:
    """Positions and efforts (n, length) of half-overlapping segments, counted from the start of each window."""
    hop, seen = max(1, length // 2), 0
    for index, pieces in groupby(run.open(), key=attrgetter("stretch")):
        first, stop = run.stretches[index].window
        held = np.empty((2, len(run.joints), 0))
        for piece in pieces:
            seen += piece.q.shape[1]
            if progress is not None:
                progress(f"spectrum of {run.name}", seen, run.count)
            inside = slice(max(first - piece.first, 0), max(stop - piece.first, 0))
            held = np.concatenate([held, np.stack([piece.q[:, inside], piece.effort[:, inside]])], axis=2)
            while held.shape[2] >= length:
                yield held[0, :, :length], held[1, :, :length]
                held = held[:, :, hop:]


def quanta(signal: Linear, raw: Array) -> Array:
    """Rounding of a signal, (n,) in its own unit, from its columns as logged (n, N): the largest step among the columns
    a joint's value is made of, zero where none is seen."""
    count = raw.shape[1]
    at = np.arange(count - 1) if count <= _PAIRS else np.linspace(0, count - 2, _PAIRS).astype(int)
    now = raw[:, at]
    steps = [_quantum(*channel) for channel in zip(np.abs(raw[:, at + 1] - now), np.abs(now).max(axis=1), strict=True)]
    return np.max(np.abs(signal.matrix) * np.array(steps), axis=1)


def _quantum(change: Array, size: float) -> float:
    """The smallest difference between neighbouring values, which reach `size`, if nearly all others are whole multiples
    of it; zero if not."""
    change = change[change > _DUST * size]
    if not len(change):
        return 0.0
    step = float(np.min(change))
    seen = change[change < _SEEN_STEPS * step]
    # the more steps a difference holds, the better it tells their size: widen as the size gets known
    for span in (1.5, 10.0, 100.0, _SEEN_STEPS):
        near = seen[seen < span * step]
        whole = np.round(near / step)
        step = float(near @ whole / (whole @ whole))
    told = np.mean(np.abs(seen / step - np.round(seen / step)) < 0.1)
    return step if 2 * len(seen) >= len(change) and told >= _WHOLE else 0.0


def rounding_findings(
    joints: Sequence[str], q: Array, effort: Array, steps: tuple[Array, Array], lag: int
) -> Iterator[Finding]:
    """Where rounding by `steps` (of q, of effort; (n,) each) is a noticeable part of efforts or accelerations (n, N).

    Accelerations are second differences over `lag` rows, half a period of the cut-off: rounding, of variance step²/12,
    enters them with the weights 1, −2, 1.
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
                    f"the {what} of {joint} comes in steps of {size:.3g}: rounding is {part:.0%} of its {of}",
                    joint,
                    fix,
                )
