"""The defaults that came before `auto`, as explicit settings of a project, to be compared with the present ones.

cut-offs      f_dyn, below which 99 % of an effort's power lies: cutoff_hz = 5 f_dyn, lowpass_hz = 2 f_dyn, both
              raised on a short log until 200 rows per joint are left
terms         rotor, viscous, Coulomb, offset, power law, load, Dahl
estimator     wls
delays        the common one if the joints agree within their error bars, else each joint's own
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.ndimage import uniform_filter1d
from scipy.signal import periodogram
from whole_runs import Whole, whole

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.identification.delays import ALIKE, Delays, estimate_delays
from steelyard.identification.first_fit import with_load
from steelyard.model.terms import plain_terms
from steelyard.project.automatic import Resolved, resolve_auto
from steelyard.project.project import Project
from steelyard.regression.information import Information
from steelyard.regression.problem import Problem
from steelyard.signals.prepare import Preparation, prepare
from steelyard.signals.samples import Samples

POSITION_FACTOR, PARALLEL_FACTOR = 5.0, 2.0
# Fraction of the power of an effort below f_dyn, and the quantile of the joints of a run that counts.
POWER, QUARTILE = 0.99, 0.75
LEAST_ROWS, ROWS_PER_PERIOD = 200, 2.5
# A filter keeps its shape up to this fraction of the rate.
HIGHEST = 0.4
SEGMENT_S = 8.0
# A band ends where the spectrum, averaged over this many bins, is less than this multiple of its floor; one that never
# exceeds the second multiple contains only noise.
BINS, ENDS, SHOWS = 5, 4.0, 10.0
GEAR_TERMS = ("power-law", "load", "dahl")


class FormerCutoffs(NamedTuple):
    """Filters of positions and rows [Hz]."""

    cutoff_hz: float
    lowpass_hz: float


def resolve_former(project: Project) -> Resolved:
    """The project as the former defaults set it, whatever estimator, terms and filters it states."""
    robot = project.robot()
    plain = plain_terms(robot)
    terms = [*plain, *(term for term in GEAR_TERMS if term not in plain)]
    cutoffs = former_cutoffs(tuple(_unfiltered(project)))
    stated = project.with_spec(estimator="wls", terms=terms).with_prepare(delay="auto", **cutoffs._asdict())
    resolved = resolve_auto(stated, delays=False)
    delay = former_delay(with_load(resolved.problem))
    found = resolved.project.with_prepare(delay=list(delay))
    return replace(resolved, project=found, problem=replace(resolved.problem, delay=delay))


def former_delay(problem: Problem, information: Information | None = None) -> tuple[float, ...]:
    """Time by which the efforts are read later [s], (n,); zero where the delays cannot be estimated."""
    try:
        return former_correction(estimate_delays(problem, information))
    except EstimationError:
        return (0.0,) * problem.model.robot.dof


def former_correction(found: Delays) -> tuple[float, ...]:
    """Corrected part of estimated delays [s], (n,): none that is not significant, or too long to be plausible."""
    if found.agree > ALIKE:
        return found.correction
    each = zip(found.seconds, found.significant, strict=True)
    return tuple(float(d) if sure and abs(d) <= found.believable else 0.0 for d, sure in each)


def former_cutoffs(runs: Sequence[Samples]) -> FormerCutoffs:
    """Cut-offs from the spectra of the efforts of runs that were prepared without a filter.

    For every joint, with Welch spectra S of effort and position and their noise floors N (medians over frequency):
    f_dyn = min { f : ∫₀^f (S_τ − N_τ)₊ ≥ 0.99 ∫₀^B (S_τ − N_τ)₊ }, where the band B ends when S_τ or S_q reaches its
    floor. One f_dyn for all runs: the largest of the upper quartiles of their joints.
    """
    quartiles = [found for run in runs if (found := _upper_quartile(list(_dynamics(run)))) > 0.0]
    if not quartiles:
        raise EstimationError("No joint moves and works above its noise: the former rule gives no cut-offs.")
    f_dyn = float(f"{max(quartiles):.3g}")
    rate = min(run.rate for run in runs)
    seconds = sum((stretch.window[1] - stretch.window[0]) / run.rate for run in runs for stretch in run.stretches)
    raised = float(f"{max(1.0, LEAST_ROWS / (ROWS_PER_PERIOD * PARALLEL_FACTOR * f_dyn * seconds)):.3g}")
    return FormerCutoffs(*(min(x * raised * f_dyn, HIGHEST * rate) for x in (POSITION_FACTOR, PARALLEL_FACTOR)))


def _unfiltered(project: Project) -> Iterator[Samples]:
    """The runs to identify, without a filter of their positions."""
    spec, channels = project.spec.prepare, project.spec.channels.channel_map()
    raw = Preparation(None, spec.rate_hz, spec.gap_s, spec.missing)
    for run in project.spec.run:
        if run.role == "identify":
            log = project.recording(run)
            yield prepare(log, project.robot(), channels, raw, rows=run.rows, seconds=run.seconds, load=run.load)


def _upper_quartile(frequencies: Sequence[float]) -> float:
    """The upper quartile of the frequencies above zero; zero if there are none."""
    shown = sorted(f for f in frequencies if f > 0.0)
    return shown[int(np.ceil(QUARTILE * (len(shown) - 1)))] if shown else 0.0


def _dynamics(run: Samples) -> Iterator[float]:
    """f_dyn [Hz] of every joint of a run; zero where effort or position never exceed their noise."""
    length = min(max(s.window[1] - s.window[0] for s in run.stretches), round(SEGMENT_S * run.rate))
    frequency = np.fft.rfftfreq(length, 1.0 / run.rate)[1:]
    # a second difference prevents leakage of slow motion into high frequencies; white noise has this shape in it
    noise = (2.0 * np.sin(np.pi * frequency / run.rate)) ** 4
    efforts, positions = np.zeros((2, len(run.joints), len(frequency)))
    for part in _segments(run, length):
        efforts += periodogram(part.effort, run.rate, "hann")[1][:, 1:]
        positions += periodogram(np.diff(part.q, 2, axis=1), run.rate, "hann", nfft=length)[1][:, 1:] / noise
    for j in range(len(run.joints)):
        ends = [0 if run.constant_effort[j] else _end(spectrum[j]) for spectrum in (efforts, positions)]
        power = np.cumsum(np.maximum(efforts[j] - np.median(efforts[j]), 0.0)[: min(ends)])
        yield float(frequency[np.searchsorted(power, POWER * power[-1])]) if len(power) else 0.0


def _segments(run: Samples, length: int) -> Iterator[Whole]:
    """Half-overlapping segments, counted from the start of each window."""
    for part, stretch in zip(whole(run), run.stretches, strict=True):
        for first in range(stretch.window[0], stretch.window[1] - length + 1, max(1, length // 2)):
            yield part.between(first, first + length)


def _end(spectrum: Array) -> int:
    """Number of bins from zero in the band that holds the spectrum's peak; none where there is only noise."""
    floor = np.median(spectrum)
    level = uniform_filter1d(spectrum, BINS, mode="nearest")
    peak = int(np.argmax(level))
    if not level[peak] > SHOWS * floor:
        return 0
    below = np.flatnonzero(level[peak:] <= ENDS * floor)
    return peak + int(below[0]) if len(below) else len(spectrum)
