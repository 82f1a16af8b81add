"""The clock's unit: e.g. milliseconds stated as seconds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steelyard.findings import Finding
from steelyard.project.checks.tracks import Track
from steelyard.project.checks.velocities import Slopes, slopes_of
from steelyard.signals.channels import TIME_UNITS

# Robots are logged at ten to ten thousand rows per second: three decades, so that only one unit of time fits.
PLAUSIBLE_RATE = (10.0, 10_000.0)
# Largest plausible top speed of the fastest joint [rad/s | m/s].
PLAUSIBLE_SPEED = (0.02, 30.0)
# Measured velocities and the slopes of the positions agree within this factor, or the clock is wrong: real logs agree
# within 0.4 %.
_CLOCK_TOLERANCE = 0.05
_CLOCK_SMALL = 0.02
# A clock drifts if that factor changes by more than this over the log, in parts of the log one after the other.
_CLOCK_DRIFT, _PARTS = 0.04, 6


def time_factor(tracks: Sequence[Track], slopes: Slopes | None) -> float:
    """Factor by which the clock has to be multiplied; 1 without evidence against it.

    The rate alone may be unusual: an implausible speed, or measured velocities with the same factor, must confirm it.
    """
    rate = 1.0 / float(np.median([track.step for track in tracks]))
    speed = max(_top_speed(track) for track in tracks)
    low, high = PLAUSIBLE_RATE
    factor = 1.0
    if not low <= rate <= high:
        factor = 1000.0 ** np.ceil(np.log(rate / high) / np.log(1000.0))
    # slope · t is the measured velocity: a clock in a unit 1000 times too large makes slopes 1000 times too small
    common = None if slopes is None else slopes.common
    if slopes is not None and common is not None and slopes.certain(_CLOCK_SMALL):
        if factor != 1.0 and abs(np.log(common / factor)) < _CLOCK_TOLERANCE:
            return float(factor)
        if low <= rate / common <= high and not _is_angle(common):
            return float(common)
    plausible = PLAUSIBLE_SPEED[0] <= speed <= PLAUSIBLE_SPEED[1]
    return float(factor) if factor != 1.0 and not plausible else 1.0


def time_finding(tracks: Sequence[Track], factor: float, slopes: Slopes | None) -> Finding:
    """The finding on the clock, `factor` being the one by which it has to be multiplied."""
    channels = tracks[0].channels
    rate = 1.0 / float(np.median([track.step for track in tracks]))
    speed = max(_top_speed(track) for track in tracks)
    stated = next((name for name, x in TIME_UNITS.items() if x == channels.time_factor), "s")
    is_in = next((name for name, x in TIME_UNITS.items() if np.isclose(x, factor * channels.time_factor, 0.01)), None)
    named = f"the clock is in {is_in} but mapped as {stated}" if is_in else "the clock runs at the wrong rate"
    told = ""
    if slopes is not None and slopes.common is not None:
        told = f"; positions change {slopes.common:.4g} times as fast as the measured velocities"
    return Finding(
        "wrong-time-unit",
        "error",
        f"{named}, off by a factor of {1.0 / factor:.4g}: as mapped, the log has {rate:.4g} rows per second, and its "
        f"fastest joint moves at {speed:.3g} rad/s or m/s{told}",
        channels.time,
        f'set unit = "{is_in}" of time in [channels]'
        if is_in
        else "correct the column or the unit of time in [channels]",
    )


def _is_angle(factor: float) -> bool:
    return bool(np.isclose(abs(np.log(factor)), np.log(180.0 / np.pi), atol=_CLOCK_TOLERANCE))


def _top_speed(track: Track) -> float:
    """Speed of the fastest joint over twenty rows, so that noise between two rows has no effect."""
    lag = min(20, len(track.t) - 1)
    moved, took = np.abs(track.q[:, lag:] - track.q[:, :-lag]), track.t[lag:] - track.t[:-lag]
    return float(np.quantile((moved / took).max(axis=0), 0.99))


def drift_finding(tracks: Sequence[Track], factor: float) -> Finding | None:
    """A finding on a clock whose rate changes: the factor between slopes and measured velocities in parts of a log."""
    for track in tracks:
        parts = [slopes_of([part]) for part in track.parts(_PARTS)]
        common = [None if part is None else part.common for part in parts]
        rates = np.array([np.nan if x is None else abs(x) / factor for x in common])
        if np.isnan(rates).sum() > 1:
            continue
        steps = np.diff(rates[np.isfinite(rates)])
        change = float(np.nanmax(rates) / np.nanmin(rates) - 1.0)
        # a rate that goes one way, by more than two neighbouring parts differ
        if change > _CLOCK_DRIFT and abs(np.sum(steps)) > 0.8 * np.sum(np.abs(steps)):
            return Finding(
                "drifting-clock",
                "error",
                f"the clock of '{track.name}' changes its rate by {change:.0%} during the log: positions change "
                f"{rates[np.isfinite(rates)][0]:.3f} times as fast as the measured velocities at first, and "
                f"{rates[np.isfinite(rates)][-1]:.3f} times in the end",
                track.channels.time,
            )
    return None
