"""Folds: blocks of time that are left out of a fit, with a guard around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from steelyard.regression.information import Information

# A time block: run, load case, index.
Time = tuple[str, str, int]
# Rows that are closer than this many periods of the parallel filter resemble each other.
GUARD_PERIODS = 3.0
# A stretch of a run: its name, first and last time [s].
Span = tuple[str, float, float]


def spans(information: Information, times: Sequence[Time]) -> tuple[Span, ...]:
    """The stretches of the runs that the time blocks cover, one per run."""
    out: dict[str, tuple[float, float]] = {}
    for time in times:
        start, stop = _span(information, time)
        low, high = out.get(time[0], (start, stop))
        out[time[0]] = (min(low, start), max(high, stop))
    return tuple((run, *span) for run, span in out.items())


def outside(information: Information, left_out: Sequence[Span], guard: float) -> Information:
    """The information without the blocks that reach into a stretch or are less than `guard` [s] away from it."""

    def apart(time: Time) -> bool:
        start, stop = _span(information, time)
        return all(run != time[0] or stop < low - guard or start > high + guard for run, low, high in left_out)

    kept = {time for time in information.times if apart(time)}
    return replace(information, blocks={key: part for key, part in information.blocks.items() if key[:3] in kept})


def _span(information: Information, time: Time) -> tuple[float, float]:
    """First and last time [s] of a block; it ends where the next one starts."""
    run, load, block = time
    start = information.starts[time]
    return start, information.starts.get((run, load, block + 1), start)
