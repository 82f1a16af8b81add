"""Folds: the one way in which every cross-validation leaves blocks of time out of a fit, with a guard around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from steelyard.errors import EstimationError
from steelyard.regression.information import Information, Time

# Rows that are closer than this many periods of the parallel filter resemble each other.
GUARD_PERIODS = 3.0


class GuardedFold(NamedTuple):
    """A part of the rows: time blocks that are `scored` (left out), and those that the fit keeps, away from them."""

    scored: tuple[Time, ...]
    kept: tuple[Time, ...]


def guard_seconds(lowpass_hz: float | None) -> float:
    """Gap [s] on both sides of rows that are left out, 3 / lowpass_hz; without a parallel filter zero."""
    return 0.0 if lowpass_hz is None else GUARD_PERIODS / lowpass_hz


def guarded_folds(
    information: Information, left_out_groups: Sequence[Sequence[Time]], reference: Information | None = None
) -> tuple[GuardedFold, ...]:
    """One fold per group of time blocks that is left out; the fit keeps the blocks of `information` that are further
    than the guard (`Information.guard` [s]) from each of them.

    The groups are blocks of `reference` if it is given: the same runs in other rows. Every run is on its own clock.
    """
    source = information if reference is None else reference
    guard = max(information.guard, source.guard)
    if reference is None and not guard:
        return tuple(
            GuardedFold(tuple(group), tuple(time for time in information.times if time not in set(group)))
            for group in left_out_groups
        )
    spans = {time: _span(information, time) for time in information.times}
    folds = []
    for group in left_out_groups:
        taken: dict[str, list[tuple[float, float]]] = {}
        for time in group:
            low, high = _span(source, time)
            taken.setdefault(time[0], []).append((low - guard, high + guard))
        kept = tuple(
            time
            for time, (start, stop) in spans.items()
            if all(stop < low or start > high for low, high in taken.get(time[0], ()))
        )
        folds.append(GuardedFold(tuple(group), kept))
    return tuple(folds)


def stretches(information: Information, count: int, every_load: bool = False) -> list[tuple[Time, ...]]:
    """About `count` groups of neighbouring time blocks with equal rows.

    With `every_load` each has a part of every load case and none a whole one: drive gains need all of them.
    """
    if not every_load:
        return list(information.clusters(count))
    loads = dict.fromkeys(time[1] for time in information.times)
    parts = [information.at([time for time in information.times if time[1] == load]).clusters(count) for load in loads]
    fewest = min(len(part) for part in parts)
    return [tuple(time for part in parts for group in part[k::fewest] for time in group) for k in range(fewest)]


def _span(information: Information, time: Time) -> tuple[float, float]:
    """First and last time [s] of a block; it ends where the next one starts."""
    run, load, block = time
    if time not in information.starts:
        raise EstimationError(
            f"Run '{run}' has no times of its blocks, so no guard can be kept: observe the run again."
        )
    start = information.starts[time]
    return start, information.starts.get((run, load, block + 1), start)
