"""Signals that are not measurements: constant, frozen for a while, or clipped at a limit."""

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

# A value held for this long [s] and this many rows, while the robot moves, was not measured again.
_HELD_S, _HELD_ROWS = 0.1, 5
# After a freeze a position jumps by this many of its usual largest steps.
_CATCH_UP = 4.0
# At a limit: this many rows at the extreme, this many of them consecutive, and this many times as often as the next
# value.
_CUT_ROWS, _CUT_RUN, _CUT_SPIKE = 8, 4, 5


class Fault(NamedTuple):
    """A finding, the joint whose rows it affects (None for a velocity or whole rows), and whether it affects the motion
    from which every joint's rows are made."""

    finding: Finding
    joint: int | None
    spoils_motion: bool


class _Holds(NamedTuple):
    """Intervals of equal values: first row, rows, and seconds until the value changes."""

    first: NDArray[np.int64]
    rows: NDArray[np.int64]
    seconds: Array


def signal_faults(track: Track, time_factor: float, joints: tuple[str, ...]) -> Iterator[Fault]:
    """Faults of every column of a track; `time_factor` corrects its clock."""
    channels, t = track.channels, track.t * time_factor
    moving, travel = _moving(track.q), np.ptp(track.q, axis=1)
    for label, linear in (("position", channels.q), ("velocity", channels.v), ("effort", channels.effort)):
        if linear is None:
            continue
        motion = label == "position"
        for j, place in enumerate(channels.places(linear)):
            if label == "velocity" and travel[j] < LITTLE[0]:
                continue  # a joint at rest has no speed to measure
            x = track.raw[place]
            if np.ptp(x) <= 1e-12 * np.abs(x).max(initial=0.0):
                finding = _constant(track, label, linear, j, joints[j], float(x[0]))
                yield Fault(finding, None if label == "velocity" else j, motion)
                continue
            holds = _holds(x, t)
            if label == "effort":
                cut = _cut_off(x, holds)
                if cut is not None:
                    yield Fault(_saturated(track, joints[j], *cut), j, False)
                    continue
            frozen = _frozen(label, x, holds, moving)
            if len(frozen):
                finding = _stale(track, label, linear, j, joints[j], holds, frozen, t)
                yield Fault(finding, None if label == "velocity" else j, motion)
    yield from _frozen_rows(track, t)


def _holds(x: Array, t: Array) -> _Holds:
    cuts = np.flatnonzero(np.diff(x) != 0.0) + 1
    first = np.concatenate([[0], cuts])
    rows = np.diff(np.concatenate([first, [len(x)]]))
    end = np.minimum(first + rows, len(x) - 1)
    return _Holds(first, rows, t[end] - t[first])


def _moving(q: Array) -> Array:
    """For every row, the fraction of its whole path covered so far by the joint that moves most, (N,)."""
    travel = np.maximum(np.ptp(q, axis=1, keepdims=True), 1e-12)
    return np.concatenate([[0.0], np.cumsum(np.abs(np.diff(q, axis=1) / travel).max(axis=0))])


def _frozen(label: str, x: Array, holds: _Holds, moving: Array) -> NDArray[np.int64]:
    """Holds that are not rests: the robot moved meanwhile, or the position jumped afterwards."""
    long = np.flatnonzero((holds.seconds >= _HELD_S) & (holds.rows >= _HELD_ROWS))
    last = holds.first[long] + holds.rows[long]
    inside = last < len(x)
    if label == "position":
        steps = np.abs(np.diff(x))
        usual = np.quantile(steps[steps > 0.0], 0.99)
        leap = np.zeros(len(long))
        leap[inside] = np.abs(x[last[inside]] - x[last[inside] - 1])
        return long[leap > _CATCH_UP * usual]
    # the robot's path between the rows of the hold: in a rest it is only noise
    way = moving[last - 1] - moving[holds.first[long]]
    still = (x[holds.first[long]] == 0.0) & (label == "velocity")
    return long[(way > 0.01) & ~still]


def _cut_off(x: Array, holds: _Holds) -> tuple[float, float] | None:
    """(limit, fraction of rows at it) of a clipped signal; None if its extremes are mere peaks."""
    values = x[holds.first]
    levels, met = np.unique(x, return_counts=True)
    found = []
    for limit, count, neighbour in ((levels[-1], met[-1], met[-2]), (levels[0], met[0], met[1])):
        longest = holds.rows[values == limit].max()
        if count >= max(_CUT_ROWS, _CUT_SPIKE * neighbour) and longest >= _CUT_RUN:
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
        "check its column in the channel map, and that the drive reports it",
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
        f"the {label} of {name} (column '{_column(linear, j)}') does not change in '{track.name}' while the robot "
        f"moves, {len(frozen)} times, the longest {holds.seconds[longest]:.3g} s from {t[holds.first[longest]]:.4g} s",
        name,
        "fix the logger, or exclude these times with 'seconds' in the [[run]]",
    )


def _saturated(track: Track, name: str, limit: float, share: float) -> Finding:
    return Finding(
        "saturated-effort",
        "error",
        f"the effort of {name} is clipped at {limit:.4g} (as logged) in {share:.1%} of the rows of '{track.name}'",
        name,
        "record a slower motion, or raise the limit of the drive or the logger; rows at a limit are not valid",
    )


def _frozen_rows(track: Track, t: Array) -> Iterator[Fault]:
    """Whole rows that were repeated while the robot moved: the clock went on, then every position jumps."""
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
                f"no channel of '{track.name}' changes while the robot moves, {len(leaps)} times, the longest "
                f"{step[worst]:.3g} s from {t[worst]:.4g} s: the logger repeated its last row",
                track.name,
                "fix the logger, or exclude these times with 'seconds' in the [[run]]",
            ),
            None,
            True,
        )
