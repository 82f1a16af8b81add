"""Noise of a twin's efforts: like the residual of a fit, with the slow part that the fit absorbed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft, rfftfreq

from steelyard._arrays import Array
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Piece, Samples, joined

# The limit of the factor by which an absorbed part is scaled up.
MOST_CORRECTION = 3.0
# A frequency takes the amplitude of one within this many bins, or within this share of it: a fit leaves no residual at
# the exact frequencies of the motion.
_NEAR_BINS, _NEAR_SHARE = 6, 0.1
# Octaves are counted from one period in 16 s: slower ones have too few frequencies for a power.
_SLOWEST_S, OCTAVES = 16.0, 24
# The residual of each stretch (n, N) by run, at full rate.
Residuals = Mapping[str, Sequence[Array]]


def whole_stretches(run: Samples) -> Iterator[Piece]:
    """One piece per stretch."""
    for _, pieces in groupby(run.open(), key=attrgetter("stretch")):
        yield joined(list(pieces))._replace(first=0)


def times_of(run: Samples, piece: Piece) -> Array:
    """Seconds since the run's start, counted as in `observe`."""
    stretch = run.stretches[piece.stretch]
    return stretch.start - run.stretches[0].start + np.arange(piece.q.shape[1]) / run.rate


def torque_of(problem: Problem, run: Samples, piece: Piece, theta: Array) -> Array:
    """τ (n, N) of a stretch."""
    t = times_of(run, piece)
    return problem.model.torque(piece.q, piece.v, piece.a, theta, t, load=run.load, base=piece.base)


def late(problem: Problem, run: Samples, x: Array, sense: float) -> Array:
    """x (n, N) at the times t − delay of each joint (sense = −1) or t + delay (1)."""
    if not any(problem.delay):
        return x
    t = np.arange(x.shape[1]) / run.rate
    return np.stack([np.interp(t + sense * late, t, row) for late, row in zip(problem.delay, x, strict=True)])


def residuals(problem: Problem, theta: Array) -> Residuals:
    """Effort minus prediction where the joint moves inside the rows that are used, else zero, for every run.

    Scaled so that the power is that of the part that is used.
    """
    return {run.name: list(_residuals(problem, run, theta)) for run in problem.runs}


def _residuals(problem: Problem, run: Samples, theta: Array) -> Iterator[Array]:
    for piece in whole_stretches(run):
        stretch, v = run.stretches[piece.stretch], np.abs(piece.v)
        rest = late(problem, run, problem.torque(piece.effort), 1.0) - torque_of(problem, run, piece, theta)
        at = np.arange(v.shape[1])
        inside = (at >= max(stretch.clean[0], stretch.window[0])) & (at < min(stretch.clean[1], stretch.window[1]))
        counts = inside & (v >= problem.rest_speeds[:, None])
        share = np.mean(counts, axis=1, keepdims=True)
        yield np.where(counts, rest, 0.0) / np.sqrt(np.where(share > 0.0, share, 1.0))


def noise_like(x: Array, rng: np.random.Generator, rate: float = 1.0, factor: Array | None = None) -> Array:
    """Gaussian-like noise (n, N) whose spectra, and cross-spectra between rows, are those of x.

    Every frequency gets a random phase, the same in all rows, and the amplitudes of x at a frequency nearby. `factor`
    (n, bands) scales the amplitudes by octave of frequency (`octaves`), with `rate` in Hz.
    """
    count = x.shape[1]
    length = 2 * count
    spectrum = np.asarray(rfft(x, length, axis=1))
    bins = np.arange(spectrum.shape[1])
    reach = np.maximum(_NEAR_BINS, (_NEAR_SHARE * bins).astype(int))
    # the mean of x is not that of the noise: offsets of the model have taken it up
    taken = np.clip(bins + rng.integers(-reach, reach + 1), 1, bins[-1])
    turned = spectrum[:, taken] * np.exp(2j * np.pi * rng.random(len(bins)))
    if factor is not None:
        turned *= factor[:, octaves(length, rate)]
    turned[:, 0] = np.sqrt(2.0) * np.real(turned[:, 0])
    return np.sqrt(length / count) * np.asarray(irfft(turned, length, axis=1))[:, :count]


def octaves(length: int, rate: float) -> NDArray[np.int64]:
    """Octave, counted from 1/16 Hz, of every frequency of a real transform: slower ones belong to the first."""
    with np.errstate(divide="ignore"):
        octave = np.floor(np.log2(rfftfreq(length, 1.0 / rate) * _SLOWEST_S))
    return np.clip(octave, 0, OCTAVES - 1).astype(np.int64)


def absorption(problem: Problem, wanted: Residuals, left: Sequence[Residuals]) -> Array:
    """Factor (n, OCTAVES) on the amplitudes of the noise for which fits leave the residuals `wanted`.

    A fit absorbs a part of the noise, more of slow than of fast noise; position noise adds to it. `left` are the
    residuals of fits of noise with the spectrum of `wanted`: factor² = power wanted / power left, by octave.
    """
    rates = {run.name: run.rate for run in problem.runs}
    have = np.mean([_powers(one, rates) for one in left], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.sqrt(_powers(wanted, rates) / have)
    return np.clip(np.where(np.isfinite(factor), factor, 1.0), 1.0 / MOST_CORRECTION, MOST_CORRECTION)


def _powers(rests: Residuals, rates: Mapping[str, float]) -> Array:
    """Sums of squared amplitudes (n, OCTAVES) over all stretches."""
    out = np.zeros((len(next(iter(rests.values()))[0]), OCTAVES))
    for name, parts in rests.items():
        for x in parts:
            length = 2 * x.shape[1]
            power = np.abs(np.asarray(rfft(x, length, axis=1))) ** 2 / x.shape[1]
            np.add.at(out.T, octaves(length, rates[name]), power.T)
    return out
