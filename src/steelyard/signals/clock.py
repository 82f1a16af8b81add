"""Clock of a log: stale rows, gaps, jitter; a survey of the motion; and resampling of raw rows on a uniform grid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.signals.channels import ResolvedChannels
from steelyard.signals.episodes import Lateness
from steelyard.signals.magnitudes import measurable
from steelyard.signals.recording import Progress, Recording

# Number of first rows that give the clock's usual step and the rounding of every channel. It counts rows, not chunks,
# so that the answer does not depend on how the file was read.
_HEAD_ROWS = 65536
# Steps within this fraction of the usual one count as a uniform clock.
_UNIFORM = 0.01
# A position channel that moves by more than this [its own unit] across stale rows was frozen by the logger.
_REST_JUMP = 0.01
# Neighbouring steps that differ by more than this factor are not jitter.
_UNEVEN = 5.0
# A joint moves when it is faster than this [rad/s | m/s].
_MOVING = 0.01
# An effort is clipped where at least this many rows of the motion repeat its extreme value, and that value occurs this
# many times as often as the next one. (The rounded top of a sine occurs 2.4 times as often.)
_CLIPPED_ROWS, _CLIPPED_SPIKE = 5, 5.0


class Rows(NamedTuple):
    """Raw rows that survived cleaning: row number in the log from 0, time [s], values (channels, m), and the longest
    step [s] of the log's own clock since the last row that survived."""

    number: NDArray[np.int64]
    t: Array
    x: Array
    hole: Array


class Span(NamedTuple):
    """A gap-free part of the log: its rows after cleaning and its first and last time [s]."""

    rows: int
    start: float
    end: float


@dataclass(frozen=True)
class Survey:
    """The result of one pass over the whole log: the clock, the travel of each joint, and whether efforts were clipped.

    saturation (n,): fraction of the rows at an extreme of the joint's effort channel if that extreme is a limit, else
    zero; limit (n,): that extreme, as logged.
    """

    rows: int
    stale: int
    repeated_times: int
    missing: int
    late: int
    step: float
    shortest_step: float
    longest_step: float
    spans: tuple[Span, ...]
    top_speed: Array
    lowest: Array
    highest: Array
    constant_effort: NDArray[np.bool_]
    largest_step: Array
    window: tuple[float, float]
    saturation: Array
    limit: Array

    @property
    def is_uniform(self) -> bool:
        """True when every step inside the spans is the usual one."""
        return max(self.longest_step - self.step, self.step - self.shortest_step) <= _UNIFORM * self.step

    @property
    def mean_rate(self) -> float:
        """Rows per second inside the spans [Hz]."""
        steps = sum(span.rows - 1 for span in self.spans)
        return steps / sum(span.end - span.start for span in self.spans)


class Tally:
    """Counts of the rows that `clean` removed, filled as its rows are consumed."""

    def __init__(self) -> None:
        self.rows = self.stale = self.repeated_times = self.missing = self.late = 0


def clean(
    recording: Recording, channels: ResolvedChannels, chunk_rows: int, drop_missing: bool, tally: Tally
) -> Iterator[Rows]:
    """Rows in order, without stale ones (equal to the row before in every channel), on a clock that only advances.

    Single rows that lie before the latest time arrived late and are dropped.
    """
    names = channels.columns
    lateness = Lateness()
    last_t, last_x, pending = -np.inf, np.full((len(names) - 1, 1), np.nan), 0.0
    for chunk in recording.chunks(names, chunk_rows):
        raw = np.stack([chunk[name] for name in names])
        number = np.arange(tally.rows, tally.rows + raw.shape[1])
        tally.rows += raw.shape[1]
        finite = np.isfinite(raw).all(axis=0)
        if not finite.all():
            if not drop_missing:
                column, row = np.argwhere(~np.isfinite(raw))[0]
                raise DataError(
                    f"Log '{recording.name}': column '{names[column]}' is NaN or empty in row {number[row] + 1}. "
                    'Fix the log, or set missing = "drop" in [prepare] to drop such rows.'
                )
            tally.missing += int((~finite).sum())
            raw, number = raw[:, finite], number[finite]
        if not raw.shape[1]:
            continue
        raw = measurable(raw, recording.name, names, number)
        t, x = raw[0] * channels.time_factor, raw[1:]
        late, restart = lateness(t)
        if restart is not None:
            row = int(number[0]) + restart if restart < 0 else int(number[restart])
            raise DataError(
                f"Log '{recording.name}': time goes backwards in row {row + 1} ('{channels.time}'). If the clock "
                "restarts there, give each part a [[run]] with episode = 0, 1, … (`steelyard init` writes them); "
                "otherwise correct the time column in [channels]."
            )
        if late.any():
            tally.late += int(late.sum())
            t, x, number = t[~late], x[:, ~late], number[~late]
            if not len(t):
                continue
        step = np.diff(t, prepend=last_t)
        stale = _repeats(x, last_x)
        frozen = (step == 0.0) & ~stale
        tally.stale += int(stale.sum())
        tally.repeated_times += int(frozen.sum())
        last_t, last_x = t[-1], x[:, -1:]
        keep = ~(stale | frozen)
        # longest clock step up to and including each kept row; steps after the last kept row are carried to the next
        # chunk
        steps = np.where(np.isfinite(step), step, 0.0)
        steps[0] = max(steps[0], pending)
        kept = np.flatnonzero(keep)
        starts = np.concatenate([[0], kept[:-1] + 1]) if len(kept) else np.zeros(0, np.int64)
        pending = float(steps[kept[-1] + 1 :].max(initial=0.0)) if len(kept) else float(steps.max())
        if len(kept):
            hole = np.maximum.reduceat(np.append(steps, 0.0), np.append(starts, len(steps)))[: len(kept)]
            yield Rows(number[keep], t[keep], x[:, keep], hole)


def _repeats(x: Array, last: Array) -> NDArray[np.bool_]:
    """Rows (columns of x) equal to the one before in every channel. The first channel excludes nearly all others."""
    out = np.diff(x[0], prepend=last[0]) == 0.0
    rows = np.flatnonzero(out)
    before = np.where(rows > 0, x[:, np.maximum(rows - 1, 0)], last)
    out[rows] = np.all(x[:, rows] == before, axis=0)
    return out


@dataclass(frozen=True)
class Head:
    """The first rows of a log after cleaning: times t (m,) [s] and values x (channels, m) as logged."""

    t: Array
    x: Array

    @cached_property
    def step(self) -> float:
        """Median step [s]."""
        return float(np.median(np.diff(self.t)))


def head(recording: Recording, channels: ResolvedChannels, drop_missing: bool) -> Head:
    """The first rows of a log; raises an error where there are too few."""
    parts: list[Rows] = []
    for rows in clean(recording, channels, _HEAD_ROWS, drop_missing, Tally()):
        parts.append(rows)
        if rows.number[-1] >= _HEAD_ROWS - 1:
            break
    count = sum(int(np.sum(rows.number < _HEAD_ROWS)) for rows in parts)
    if count < 8:
        raise DataError(
            f"Log '{recording.name}' has {count} distinct rows, too few for an identification. Check the channel map, "
            "or record a longer motion."
        )
    t, x = np.concatenate([rows.t for rows in parts]), np.concatenate([rows.x for rows in parts], axis=1)
    return Head(t[:count], x[:, :count])


class _Extremes:
    """The two largest distinct values of every channel, their number of occurrences, and the number of rows of the
    motion that repeat the largest; filled as rows are consumed, independent of how they are cut into chunks."""

    def __init__(self, n: int) -> None:
        self.values, self.counts = np.full((2, n), -np.inf), np.zeros((2, n))
        self.repeats, self.before = np.zeros(n), np.full(n, np.nan)

    def add(self, x: Array, moving: NDArray[np.bool_]) -> None:
        top = np.max(x, axis=1)
        at_top = x == top[:, None]
        self._meet(top, np.sum(at_top, axis=1))
        below = np.where(at_top, -np.inf, x)
        second = np.max(below, axis=1)
        self._meet(second, np.sum(below == second[:, None], axis=1))
        at_top &= (top == self.values[0])[:, None]
        self.repeats += np.sum(at_top[:, 1:] & at_top[:, :-1] & moving[1:], axis=1)
        self.repeats += at_top[:, 0] & (self.before == self.values[0]) & moving[0]
        self.before = x[:, -1]

    def _meet(self, value: Array, count: NDArray[np.int64]) -> None:
        first, second = self.values
        self.repeats[value > first] = 0.0
        fresh = [value > first, (value < first) & (value > second)]
        for equal, counts in zip((value == first, value == second), self.counts, strict=True):
            counts[equal & np.isfinite(value)] += count[equal & np.isfinite(value)]
        self.values[1] = np.where(fresh[0], first, np.where(fresh[1], value, second))
        self.counts[1] = np.where(fresh[0], self.counts[0], np.where(fresh[1], count, self.counts[1]))
        self.values[0], self.counts[0] = np.where(fresh[0], value, first), np.where(fresh[0], count, self.counts[0])

    @property
    def clipped(self) -> NDArray[np.bool_]:
        """Channels whose largest value is a limit. Zero is not a limit: a drive that is switched off reports zero."""
        spike = self.counts[0] >= _CLIPPED_SPIKE * self.counts[1]
        return spike & (self.repeats >= _CLIPPED_ROWS) & (self.values[0] != 0.0)


def split_at_gaps(rows: Iterable[Rows], gap: float, positions: Sequence[int]) -> Iterator[tuple[int, Rows]]:
    """Rows cut where the clock jumps by more than `gap` [s], each with the number of its span.

    Rows may also be missing because they were stale. If the `positions` channels did not jump meanwhile, the robot
    stood still and a quantised log repeated its values: that is a rest, not a gap.
    """
    span, last, last_x = 0, None, np.empty((len(positions), 1))
    for part in rows:
        step = np.diff(part.t, prepend=part.t[0] if last is None else last)
        long = np.flatnonzero(step > gap)
        if len(long):
            now = part.x[:, long][positions]
            before = np.where(long > 0, part.x[:, np.maximum(long - 1, 0)][positions], last_x)
            moved = np.abs(now - before).max(axis=0) > _REST_JUMP
            long = long[moved | (part.hole[long] > gap)]
        cuts = long
        last, last_x = part.t[-1], part.x[positions, -1:]
        # unique: a jump at the part's first row must give one cut, not an empty span and a second cut
        for first, stop in pairwise(sorted({0, *cuts.tolist(), len(part.t)})):
            span += int(first in cuts)
            yield span, Rows(part.number[first:stop], part.t[first:stop], part.x[:, first:stop], part.hole[first:stop])


def survey(
    recording: Recording,
    channels: ResolvedChannels,
    gap: float,
    lag_seconds: float,
    step: float,
    rows_wanted: tuple[int, int] | None,
    chunk_rows: int,
    drop_missing: bool,
    progress: Progress | None = None,
) -> Survey:
    """One pass over the log: spans, clock, top speed (over `lag_seconds`, so that noise does not set it) and travel.

    `rows_wanted` are 1-based row numbers of the log; their times bound the window.
    """
    tally = Tally()
    lag = max(1, round(lag_seconds / step))
    spans: list[Span] = []
    shortest, longest = np.inf, 0.0
    n = len(channels.q.columns)
    top, low, high = np.zeros(n), np.full(n, np.inf), np.full(n, -np.inf)
    where = channels.places(channels.q)
    effort_at = channels.places(channels.effort)
    effort_low, effort_high = np.full(n, np.inf), np.full(n, -np.inf)
    extremes = (_Extremes(n), _Extremes(n))
    leap = np.zeros(n)
    window = (-np.inf, np.inf)
    tail_t, tail_q = np.empty(0), np.empty((n, 0))
    current = -1
    for number, rows in split_at_gaps(clean(recording, channels, chunk_rows, drop_missing, tally), gap, where):
        part = recording.fraction(tally.rows)
        if progress is not None and part is not None:
            progress(f"reading {recording.name}", round(1000 * part), 1000)
        logged = rows.x[effort_at]
        q, effort = channels.q(rows.x[where]), channels.effort(logged)
        effort_low, effort_high = (
            np.minimum(effort_low, effort.min(axis=1)),
            np.maximum(effort_high, effort.max(axis=1)),
        )
        if number != current:
            current = number
            spans.append(Span(0, rows.t[0], rows.t[0]))
            tail_t, tail_q = np.empty(0), np.empty((n, 0))
        t_all, q_all = np.concatenate([tail_t, rows.t]), np.concatenate([tail_q, q], axis=1)
        steps = np.diff(t_all[max(0, len(tail_t) - 1) :])
        if len(steps):
            shortest, longest = min(shortest, steps.min()), max(longest, steps.max())
        steps_q = np.abs(np.diff(q_all[:, max(0, len(tail_t) - 1) :], axis=1))
        leap = np.maximum(leap, steps_q.max(axis=1, initial=0.0))
        moving = np.zeros(len(rows.t), bool)
        if len(t_all) > lag:
            speed = np.abs(q_all[:, lag:] - q_all[:, :-lag]) / (t_all[lag:] - t_all[:-lag])
            top = np.maximum(top, speed.max(axis=1))
            moving[-speed.shape[1] :] = (speed > _MOVING).any(axis=0)
        for extreme, side in zip(extremes, (logged, -logged), strict=True):
            extreme.add(side, moving)
        low, high = np.minimum(low, q.min(axis=1)), np.maximum(high, q.max(axis=1))
        spans[-1] = Span(spans[-1].rows + len(rows.t), spans[-1].start, rows.t[-1])
        tail_t, tail_q = t_all[-lag:], q_all[:, -lag:]
        if rows_wanted is not None:
            first, last = rows_wanted[0] - 1, rows_wanted[1] - 1
            inside = (rows.number >= first) & (rows.number <= last)
            if inside.any():
                start = rows.t[inside][0] if np.isinf(window[0]) else window[0]
                window = (start, rows.t[inside][-1])
    if rows_wanted is not None and (rows_wanted[1] > tally.rows or np.isinf(window[0])):
        raise DataError(
            f"Log '{recording.name}': rows {rows_wanted[0]} to {rows_wanted[1]} were requested, and it has "
            f"{tally.rows} rows."
        )
    kept = sum(span.rows for span in spans)
    clipped = [np.where(extreme.clipped, extreme.counts[0] / kept, 0.0) for extreme in extremes]
    return Survey(
        tally.rows,
        tally.stale,
        tally.repeated_times,
        tally.missing,
        tally.late,
        step,
        float(shortest),
        float(longest),
        tuple(spans),
        top,
        low,
        high,
        effort_low == effort_high,
        leap,
        (float(window[0]), float(window[1])),
        clipped[0] + clipped[1],
        np.where(clipped[0] >= clipped[1], extremes[0].values[0], -extremes[1].values[0]),
    )


def on_grid(rows: Iterable[Rows], start: float, rate: float, count: int) -> Iterator[Array]:
    """Values (channels, B) at start + k/rate, k < count, by local cubic Hermite interpolation.

    Slopes are those of the parabola through a row and its neighbours, m = (h₋δ₊ + h₊δ₋)/(h₋ + h₊). Every value
    therefore depends on four rows only, and not on the chunks in which they were read.
    """
    t, x = np.empty(0), np.empty((0, 0))
    done = 0
    parts = iter(rows)
    upcoming = next(parts, None)
    while upcoming is not None:
        part, upcoming = upcoming, next(parts, None)
        t = np.concatenate([t, part.t])
        x = np.concatenate([x, part.x], axis=1) if x.size else part.x
        if len(t) < 4 and upcoming is not None:
            continue
        stop = count if upcoming is None else min(count, int(np.ceil((t[-2] - start) * rate - 1e-9)))
        if stop > done:
            yield interpolated(t, x, start + np.arange(done, stop) / rate)
            done = stop
        # the next value lies beyond t[-2]: keep the interval that holds it and one more row on its left
        if len(t) > 4:
            t, x = t[-4:], x[:, -4:]


def interpolated(t: Array, x: Array, grid: Array) -> Array:
    """Channels x (channels, m), given at times t (m,), interpolated at the times of a grid within t; see `on_grid`."""
    if len(t) == 1:  # a single row between two gaps
        return np.repeat(x, len(grid), axis=1)
    h = np.diff(t)
    delta = np.diff(x, axis=1) / h
    slope = np.empty_like(x)
    before, after = delta[:, :-1], delta[:, 1:]
    slope[:, 1:-1] = (h[:-1] * after + h[1:] * before) / (h[:-1] + h[1:])
    # next to a long interval (a rest whose rows were stale) that slope would overshoot: take the flatter side, or zero
    uneven = np.maximum(h[:-1], h[1:]) > _UNEVEN * np.minimum(h[:-1], h[1:])
    flatter = np.where(before * after > 0.0, np.sign(before) * np.minimum(np.abs(before), np.abs(after)), 0.0)
    slope[:, 1:-1] = np.where(uneven, flatter, slope[:, 1:-1])
    slope[:, 0], slope[:, -1] = delta[:, 0], delta[:, -1]
    k = np.clip(np.searchsorted(t, grid, side="right") - 1, 0, len(t) - 2)
    s = np.clip((grid - t[k]) / h[k], 0.0, 1.0)
    rest = 1.0 - s
    return (
        x[:, k] * (1.0 + 2.0 * s) * rest**2
        + x[:, k + 1] * (3.0 - 2.0 * s) * s**2
        + h[k] * (slope[:, k] * s * rest**2 - slope[:, k + 1] * s**2 * rest)
    )
