"""The clock of a log: stale rows, gaps, jitter; and raw rows laid on a uniform grid, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard.channels import ResolvedChannels
from steelyard.errors import DataError
from steelyard.parameters import Array
from steelyard.recording import Recording

# The first rows, from which the clock's usual step is read. A number of rows, not of chunks, so that the answer does
# not depend on how the file was read.
_HEAD_ROWS = 65536
# Steps within this fraction of the usual one count as a uniform clock.
_UNIFORM = 0.01


class Rows(NamedTuple):
    """Raw rows that survived cleaning: row number in the log from 0, time [s], values (channels, m)."""

    number: NDArray[np.int64]
    t: Array
    x: Array


class Span(NamedTuple):
    """A gap-free part of the log: its rows after cleaning and its first and last time [s]."""

    rows: int
    start: float
    end: float


@dataclass(frozen=True)
class Survey:
    """What one look at the whole log told: the clock and how far each joint was moved."""

    rows: int
    stale: int
    repeated_times: int
    missing: int
    step: float
    shortest_step: float
    longest_step: float
    spans: tuple[Span, ...]
    top_speed: Array
    lowest: Array
    highest: Array
    window: tuple[float, float]

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
    """Counts of what `clean` left out, filled as its rows are consumed."""

    def __init__(self) -> None:
        self.rows = self.stale = self.repeated_times = self.missing = 0


def clean(
    recording: Recording, channels: ResolvedChannels, chunk_rows: int, drop_missing: bool, tally: Tally
) -> Iterator[Rows]:
    """Rows in order, without stale ones (equal to the row before in every channel), on a clock that only advances."""
    names = channels.columns
    last_t, last_x = -np.inf, np.full((len(names) - 1, 1), np.nan)
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
                    'Mend the log, or set missing = "drop" under [prepare] to leave such rows out.'
                )
            tally.missing += int((~finite).sum())
            raw, number = raw[:, finite], number[finite]
        if not raw.shape[1]:
            continue
        t, x = raw[0] * channels.time_factor, raw[1:]
        step = np.diff(t, prepend=last_t)
        if np.any(step < 0):
            row = int(np.argmax(step < 0))
            raise DataError(
                f"Log '{recording.name}': time goes backwards in row {number[row] + 1} ('{channels.time}' steps by "
                f"{step[row]:.6g} s). Split the log there, or name the right time column."
            )
        stale = np.all(np.diff(x, axis=1, prepend=last_x) == 0.0, axis=0)
        frozen = (step == 0.0) & ~stale
        tally.stale += int(stale.sum())
        tally.repeated_times += int(frozen.sum())
        last_t, last_x = t[-1], x[:, -1:]
        keep = ~(stale | frozen)
        if keep.any():
            yield Rows(number[keep], t[keep], x[:, keep])


def usual_step(recording: Recording, channels: ResolvedChannels, drop_missing: bool) -> float:
    """Median step [s] of the log's first rows after cleaning."""
    head: list[Array] = []
    for rows in clean(recording, channels, _HEAD_ROWS, drop_missing, Tally()):
        head.append(rows.t[rows.number < _HEAD_ROWS])
        if rows.number[-1] >= _HEAD_ROWS - 1:
            break
    t = np.concatenate(head) if head else np.empty(0)
    if len(t) < 8:
        raise DataError(
            f"Log '{recording.name}' has {len(t)} distinct rows; that is too short to identify anything. "
            "Check the channel map, or record a longer motion."
        )
    return float(np.median(np.diff(t)))


def split_at_gaps(rows: Iterable[Rows], gap: float) -> Iterator[tuple[int, Rows]]:
    """Rows cut where the clock jumps by more than `gap` [s], each with the number of its span."""
    span, last = 0, None
    for part in rows:
        step = np.diff(part.t, prepend=part.t[0] if last is None else last)
        cuts = np.flatnonzero(step > gap)
        last = part.t[-1]
        # unique: a jump at the part's first row is one cut, not an empty span and another
        for first, stop in pairwise(sorted({0, *cuts.tolist(), len(part.t)})):
            span += int(first in cuts)
            yield span, Rows(part.number[first:stop], part.t[first:stop], part.x[:, first:stop])


def survey(
    recording: Recording,
    channels: ResolvedChannels,
    gap: float,
    lag_seconds: float,
    step: float,
    rows_wanted: tuple[int, int] | None,
    chunk_rows: int,
    drop_missing: bool,
) -> Survey:
    """One look at the log: spans, clock, top speed (over `lag_seconds`, so that noise does not set it) and travel.

    `rows_wanted` are 1-based row numbers of the log; their times bound the window.
    """
    tally = Tally()
    lag = max(1, round(lag_seconds / step))
    spans: list[Span] = []
    shortest, longest = np.inf, 0.0
    n = len(channels.q.columns)
    top, low, high = np.zeros(n), np.full(n, np.inf), np.full(n, -np.inf)
    where = [channels.columns.index(name) - 1 for name in channels.q.columns]
    window = (-np.inf, np.inf)
    tail_t, tail_q = np.empty(0), np.empty((n, 0))
    current = -1
    for number, rows in split_at_gaps(clean(recording, channels, chunk_rows, drop_missing, tally), gap):
        q = channels.q(rows.x[where])
        if number != current:
            current = number
            spans.append(Span(0, rows.t[0], rows.t[0]))
            tail_t, tail_q = np.empty(0), np.empty((n, 0))
        t_all, q_all = np.concatenate([tail_t, rows.t]), np.concatenate([tail_q, q], axis=1)
        steps = np.diff(t_all[max(0, len(tail_t) - 1) :])
        if len(steps):
            shortest, longest = min(shortest, steps.min()), max(longest, steps.max())
        if len(t_all) > lag:
            speed = np.abs(q_all[:, lag:] - q_all[:, :-lag]) / (t_all[lag:] - t_all[:-lag])
            top = np.maximum(top, speed.max(axis=1))
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
            f"Log '{recording.name}': rows {rows_wanted[0]} to {rows_wanted[1]} were asked for, it has {tally.rows}."
        )
    return Survey(
        tally.rows,
        tally.stale,
        tally.repeated_times,
        tally.missing,
        step,
        float(shortest),
        float(longest),
        tuple(spans),
        top,
        low,
        high,
        (float(window[0]), float(window[1])),
    )


def on_grid(rows: Iterable[Rows], start: float, rate: float, count: int) -> Iterator[Array]:
    """Values (channels, B) at start + k/rate, k < count, by local cubic Hermite interpolation.

    Slopes are those of the parabola through a row and its neighbours, m = (h₋δ₊ + h₊δ₋)/(h₋ + h₊), so every value
    depends on four rows only and not on the chunks they came in.
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
            yield _hermite(t, x, start + np.arange(done, stop) / rate)
            done = stop
        # the next value lies beyond t[-2]: keep the interval it is in and one row more on its left
        if len(t) > 4:
            t, x = t[-4:], x[:, -4:]


def _hermite(t: Array, x: Array, grid: Array) -> Array:
    if len(t) == 1:  # a row alone between two gaps
        return np.repeat(x, len(grid), axis=1)
    h = np.diff(t)
    delta = np.diff(x, axis=1) / h
    slope = np.empty_like(x)
    slope[:, 1:-1] = (h[:-1] * delta[:, 1:] + h[1:] * delta[:, :-1]) / (h[:-1] + h[1:])
    slope[:, 0], slope[:, -1] = delta[:, 0], delta[:, -1]
    k = np.clip(np.searchsorted(t, grid, side="right") - 1, 0, len(t) - 2)
    s = np.clip((grid - t[k]) / h[k], 0.0, 1.0)
    rest = 1.0 - s
    return (
        x[:, k] * (1.0 + 2.0 * s) * rest**2
        + x[:, k + 1] * (3.0 - 2.0 * s) * s**2
        + h[k] * (slope[:, k] * s * rest**2 - slope[:, k + 1] * s**2 * rest)
    )
