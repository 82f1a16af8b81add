"""Commanded motion of a log, on the samples of the measured motion."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import cumulative_trapezoid

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.signals.channels import Linear, ResolvedChannels
from steelyard.signals.clock import Survey, Tally, clean, interpolated, split_at_gaps
from steelyard.signals.derivatives import Differences
from steelyard.signals.recording import CHUNK_ROWS, Recording
from steelyard.signals.samples import Commanded
from steelyard.signals.spectrum import quanta


def commanded(
    recording: Recording,
    channels: ResolvedChannels,
    gap: float,
    drop_missing: bool,
    survey: Survey,
    counts: Sequence[int],
    rate: float | None,
    cutoff_hz: float | None,
) -> tuple[Commanded, ...]:
    """The reference of every stretch: on `counts` samples at `rate` [Hz], or on its rows if the rate is None.

    A reference is exact: the zero-phase filter at `cutoff_hz` only removes rounding and interpolation errors.
    Derivatives that were not commanded are five-point differences of those that were. If only velocities were
    commanded, positions are their integral from the start of the stretch.
    """
    signals = [signal for signal in (channels.reference, channels.reference_v) if signal is not None]
    names = dict.fromkeys((*channels.columns, *(name for signal in signals for name in signal.columns)))
    chunks = list(recording.chunks(tuple(names)))
    log = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in names}
    measured = Recording.from_arrays(recording.name, {name: log[name] for name in channels.columns})
    rows = clean(measured, channels, CHUNK_ROWS, drop_missing, Tally())
    rounded = any(quanta(signal, np.stack([log[name] for name in signal.columns])).any() for signal in signals)
    method = Differences(cutoff_hz if rounded or rate is not None else None, rate or survey.mean_rate)
    out = []
    for number, group in groupby(split_at_gaps(rows, gap, channels.places(channels.q)), key=itemgetter(0)):
        parts = [part for _, part in group]
        t, at = np.concatenate([part.t for part in parts]), np.concatenate([part.number for part in parts])

        def on_samples(signal: Linear, t: Array = t, at: NDArray[np.int64] = at, number: int = number) -> Array:
            raw = np.stack([log[name][at] for name in signal.columns])
            _check_finite(recording.name, signal, raw, at)
            if rate is None:
                return signal(raw)
            return interpolated(t, signal(raw), survey.spans[number].start + np.arange(counts[number]) / rate)

        v = None if channels.reference_v is None else on_samples(channels.reference_v)
        if channels.reference is not None:
            q = on_samples(channels.reference)
        else:
            assert v is not None
            start = channels.q(np.stack([log[name][at[:1]] for name in channels.q.columns]))
            q = start + cumulative_trapezoid(v, dx=1.0 / method.rate, axis=1, initial=0.0)
        out.append(Commanded(*method(q, v)))
    return tuple(out)


def reference_history(channels: ResolvedChannels) -> list[str]:
    """Description of the commanded signals, as text."""
    if not channels.has_reference:
        return []
    said = {
        True: "commanded positions",
        False: "commanded velocities, integrated from the first position of each stretch",
    }
    both = " and velocities" if channels.reference is not None and channels.reference_v is not None else ""
    return [f"reference: {said[channels.reference is not None]}{both}"]


def _check_finite(log: str, signal: Linear, raw: Array, at: NDArray[np.int64]) -> None:
    if not np.all(np.isfinite(raw)):
        column, row = np.argwhere(~np.isfinite(raw))[0]
        raise DataError(
            f"Log '{log}': the reference '{signal.columns[column]}' is NaN or empty in row {int(at[row]) + 1}. A robot "
            'cannot be simulated with it: fix the log, or set reference = "measured" in [experiment].'
        )
