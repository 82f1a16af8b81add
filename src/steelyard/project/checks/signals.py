"""Signals that are no measurement: constant, frozen for a while, or cut off at a limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.findings import Finding
from steelyard.project.checks.motion import LITTLE
from steelyard.project.checks.tracks import Track
from steelyard.signals.channels import Linear

# A value held for so long [s] and so many rows, while things move, was not measured anew.
_HELD_S, _HELD_ROWS = 0.1, 5
# After a freeze a position catches up by so many of its usual largest steps.
_CATCH_UP = 4.0
# At a limit: so many rows at the very extreme, so many of them in a row, and so many times as often as the next value.
_CUT_ROWS, _CUT_RUN, _CUT_SPIKE = 8, 4, 5


class Fault(NamedTuple):
    """A finding, the joint whose rows it spoils (None for a velocity or whole rows), and whether it spoils the motion
    that every joint's rows are made from."""

    finding: Finding
    joint: int | None
    spoils_motion: bool


class _Holds(NamedTuple):
    """Runs of equal values: first row, rows, and seconds until the value changes."""

    first: NDArray[np.int64]
    rows: NDArray[np.int64]
    seconds: Array


def signal_faults(track: Track, time_factor: float, joints: tuple[str, ...]) -> Iterator[Fault]:
    """Faults of every column of a track; `time_factor` mends its clock."""
    channels, t = track.channels, track.t * time_factor
    moving, travel = _moving(track.q), np.ptp(track.q, axis=1)
    for label, linear in (("position", channels.q), ("velocity", channels.v), ("effort", channels.effort)):
        if linear is None:
            continue
        motion = label == "position"
        for j, place in enumerate(channels.places(linear)):
            if label == "velocity" and travel[j] < LITTLE[0]:
                continue  # a joint that stands still has no speed to measure
            x = track.raw[place]
            if np.ptp(x) <= 1e-12 * np.abs(x).max(initial=0.0):
                told = _constant(track, label, linear, j, joints[j], float(x[0]))
                yield Fault(told, None if label == "velocity" else j, motion)
                continue
            holds = _holds(x, t)
            if label == "effort":
                cut = _cut_off(x, holds)
                if cut is not None:
                    yield Fault(_saturated(track, joints[j], *cut), j, False)
                    continue
            frozen = _frozen(label, x, holds, moving)
            if len(frozen):
                told = _stale(track, label, linear, j, joints[j], holds, frozen, t)
                yield Fault(told, None if label == "velocity" else j, motion)
    yield from _frozen_rows(track, t)


def _holds(x: Array, t: Array) -> _Holds:
    cuts = np.flatnonzero(np.diff(x) != 0.0) + 1
    first = np.concatenate([[0], cuts])
    rows = np.diff(np.concatenate([first, [len(x)]]))
    end = np.minimum(first + rows, len(x) - 1)
    return _Holds(first, rows, t[end] - t[first])


def _moving(q: Array) -> Array:
    """Row by row, the share of its whole way that the joint that moves most has covered so far, (N,)."""
    travel = np.maximum(np.ptp(q, axis=1, keepdims=True), 1e-12)
    return np.concatenate([[0.0], np.cumsum(np.abs(np.diff(q, axis=1) / travel).max(axis=0))])


def _frozen(label: str, x: Array, holds: _Holds, moving: Array) -> NDArray[np.int64]:
    """Holds that are no rest: the robot moved meanwhile, or the position had to catch up."""
    long = np.flatnonzero((holds.seconds >= _HELD_S) & (holds.rows >= _HELD_ROWS))
    last = holds.first[long] + holds.rows[long]
    inside = last < len(x)
    if label == "position":
        steps = np.abs(np.diff(x))
        usual = np.quantile(steps[steps > 0.0], 0.99)
        leap = np.zeros(len(long))
        leap[inside] = np.abs(x[last[inside]] - x[last[inside] - 1])
        return long[leap > _CATCH_UP * usual]
    # what the robot covered between the hold's rows: a rest covers nothing but noise
    way = moving[last - 1] - moving[holds.first[long]]
    still = (x[holds.first[long]] == 0.0) & (label == "velocity")
    return long[(way > 0.01) & ~still]


def _cut_off(x: Array, holds: _Holds) -> tuple[float, float] | None:
    """(limit, share of rows at it) of a signal that is cut off; None where its extremes are mere peaks."""
    values = x[holds.first]
    levels, met = np.unique(x, return_counts=True)
    found = []
    for limit, count, beside in ((levels[-1], met[-1], met[-2]), (levels[0], met[0], met[1])):
        longest = holds.rows[values == limit].max()
        if count >= max(_CUT_ROWS, _CUT_SPIKE * beside) and longest >= _CUT_RUN:
            found.append((float(limit), float(count / len(x))))
    return max(found, key=lambda one: one[1], default=None)


def _column(linear: Linear, j: int) -> str:
    return linear.columns[j]


def _constant(track: Track, label: str, linear: Linear, j: int, name: str, value: float) -> Finding:
    return Finding(
        "constant-channel",
        "error",
        f"the {label} of {name} (column '{_column(linear, j)}') is {value:.4g} in every row of '{track.name}'",
        name,
        "check its column in the channel map, or whether the drive reports it at all",
    )


def _stale(
    track: Track,
    label: str,
    linear: Linear,
    j: int,
    name: str,
    holds: _Holds,
    frozen: NDArray[np.int64],
    t: Array,
) -> Finding:
    longest = int(frozen[np.argmax(holds.seconds[frozen])])
    return Finding(
        "stale-channel",
        "error",
        f"the {label} of {name} (column '{_column(linear, j)}') stands still in '{track.name}' while the robot moves, "
        f"{len(frozen)} times, the longest {holds.seconds[longest]:.3g} s from {t[holds.first[longest]]:.4g} s",
        name,
        "mend the logger, or cut the log at these times with 'seconds'",
    )


def _saturated(track: Track, name: str, limit: float, share: float) -> Finding:
    return Finding(
        "saturated-effort",
        "error",
        f"the effort of {name} is cut off at {limit:.4g} (as logged) in {share:.1%} of the rows of '{track.name}'",
        name,
        "move more gently, or raise the limit of the drive or of the logger; rows at a limit are no measurement",
    )


def _frozen_rows(track: Track, t: Array) -> Iterator[Fault]:
    """Whole rows that were repeated while the robot moved on: the clock went on, then every position leaps."""
    step = np.diff(t)
    usual = float(np.median(step))
    long = np.flatnonzero((step > max(_HELD_S, _HELD_ROWS * usual)) & (track.hole[1:] < 2.5 * track.step))
    moved = np.abs(np.diff(track.q, axis=1))
    leaps = long[np.any(moved[:, long] > _CATCH_UP * np.quantile(moved, 0.99, axis=1, keepdims=True), axis=0)]
    if len(leaps):
        worst = int(leaps[np.argmax(step[leaps])])
        yield Fault(
            Finding(
                "stale-channel",
                "error",
                f"every channel of '{track.name}' stands still while the robot moves, {len(leaps)} times, the longest "
                f"{step[worst]:.3g} s from {t[worst]:.4g} s: the logger repeated its last row",
                track.name,
                "mend the logger, or cut the log at these times with 'seconds'",
            ),
            None,
            True,
        )
