"""The clock's unit: e.g. milliseconds stated as seconds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steelyard.findings import Finding
from steelyard.project.checks.tracks import Track
from steelyard.project.checks.velocities import Slopes
from steelyard.signals.channels import TIME_UNITS

# Robots are logged at ten to ten thousand rows per second: three decades, so that only one unit of time fits.
PLAUSIBLE_RATE = (10.0, 10_000.0)
# Largest plausible top speed of the fastest joint [rad/s | m/s].
PLAUSIBLE_SPEED = (0.02, 30.0)
# Measured velocities and the slopes of the positions agree within this factor, or the clock is wrong.
_CLOCK_TOLERANCE = 0.05


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
    if common is not None and abs(np.log(common)) > _CLOCK_TOLERANCE:
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
