"""Episodes: a log that holds several motions, separated by a column that numbers them or by a clock that restarts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.signals.recording import Chunk, Recording

# A clock restarts where this many rows in succession lie before its latest time; fewer are rows that arrived late.
RESTART_ROWS = 10


class Episode(NamedTuple):
    """The number of an episode and its rows in the log, counted from 0."""

    number: int
    rows: range


@dataclass(frozen=True)
class Episodes:
    """The rule that cuts a log: a new value of `column`; or, where that is a clock that `restarts`, a step back that
    lasts for `RESTART_ROWS`.

    Episodes between restarts are counted from 0.
    """

    column: str
    restarts: bool = False

    def found_in(self, recording: Recording) -> tuple[Episode, ...]:
        """The episodes in the order of the log, from one pass over the column."""
        blocks = (chunk[self.column] for chunk in recording.chunks([self.column]))
        return self._restarted(blocks) if self.restarts else self._numbered(recording, blocks)

    def _restarted(self, blocks: Iterable[Array]) -> tuple[Episode, ...]:
        rows = 0

        def counted() -> Iterator[Array]:
            nonlocal rows
            for block in blocks:
                rows += block.size
                yield block

        starts = [0, *restarts(counted())]
        return tuple(Episode(k, range(*ends)) for k, ends in enumerate(pairwise([*starts, rows])) if rows)

    def _numbered(self, recording: Recording, blocks: Iterable[Array]) -> tuple[Episode, ...]:
        starts: list[int] = []
        numbers: list[float] = []
        last, rows = np.nan, 0
        for values in blocks:
            self._check(recording, values)
            if rows == 0:
                starts.append(0)
                numbers.append(values[0])
            at, last = _changes(values, last)
            starts += (rows + at).tolist()
            numbers += values[at].tolist()
            rows += values.size
        parts = zip(numbers, pairwise([*starts, rows]), strict=True)
        return tuple(Episode(int(x), range(*ends)) for x, ends in parts)

    def chosen(self, recording: Recording, number: int | None) -> Recording:
        """One episode of a recording; `number` may be None if there is only one."""
        return rows_of(recording, self.rows(recording, number))

    def rows(self, recording: Recording, number: int | None) -> range:
        """The rows of an episode; raises an error that lists the episodes where there is no such one."""
        file, found = recording.name, self.found_in(recording)
        shown = ", ".join(str(one.number) for one in found[:20]) + (", …" if len(found) > 20 else "")
        if number is None and len(found) > 1:
            raise DataError(
                f"'{file}' contains {len(found)} episodes: {shown}. Choose one: episode = {found[0].number} in the "
                f"[[run]], or --episode {found[0].number}. `steelyard init` writes a [[run]] for each."
            )
        places = [one.rows for one in found if number in (None, one.number)]
        if not places:
            raise DataError(f"'{file}' has no episode {number}. Valid: {shown}.")
        if len(places) > 1:
            raise DataError(
                f"The rows of episode {number} are in {len(places)} separate places of '{file}'. Sort the log by "
                f"'{self.column}'."
            )
        return places[0]

    def _check(self, recording: Recording, values: Array) -> None:
        if np.isnan(values).any():
            raise DataError(f"'{recording.name}' has rows without an {self.column}. Export the log again.")
        if not np.array_equal(values, np.round(values)):
            raise DataError(
                f"'{self.column}' of '{recording.name}' does not number episodes: some values are not whole."
            )


def one_episode(recording: Recording, number: int | None, rule: Episodes | None = None) -> Recording:
    """An episode of a log, by the column that its format names, else by `rule`; None for the only one.

    A log that only a restart of its clock could separate is whole without a number.
    """
    if recording.episode_column:
        rule = Episodes(recording.episode_column)
    if rule is None and number is not None:
        raise DataError(
            "'episode' is for LeRobot datasets and for projects whose clock restarts or whose [channels] name an "
            f"episode column, and '{recording.source}' has neither. Remove it."
        )
    if rule is None or (rule.restarts and number is None):
        return recording
    return rule.chosen(recording, number)


def rows_of(recording: Recording, rows: range) -> Recording:
    """Some consecutive rows of a recording as one of their own."""
    return replace(recording, rows=len(rows), rows_estimate=None, opener=_SomeRows(recording, rows), _small={})


@dataclass(frozen=True)
class _SomeRows:
    whole: Recording
    rows: range

    def blocks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        done = 0
        for chunk in self.whole.chunks(columns):
            size = chunk[columns[0]].size
            first, stop = max(self.rows.start - done, 0), min(self.rows.stop - done, size)
            if first < stop:
                yield {name: values[first:stop] for name, values in chunk.items()}
            done += size
            if done >= self.rows.stop:
                return

    def digest(self) -> str:
        return self.whole.sha256


def _changes(values: Array, last: float) -> tuple[NDArray[np.intp], float]:
    """Rows at which a new number begins, and the last number, which the next chunk goes on from."""
    step = np.diff(values, prepend=values[0] if np.isnan(last) else last)
    return np.flatnonzero(step != 0.0), float(values[-1])


class Lateness:
    """Rows before the latest time so far, read block by block: single ones arrived late, `RESTART_ROWS` in succession
    are a clock that restarted with the first of them."""

    def __init__(self) -> None:
        self.latest, self.run = -np.inf, 0

    def __call__(self, t: Array) -> tuple[NDArray[np.bool_], int | None]:
        """Which of the finite times t (m,) are late; and, where the clock restarts, the row of t of the first late one,
        negative if it was in an earlier block."""
        before = np.maximum.accumulate(np.concatenate([[self.latest], t]))
        late = t < before[:-1]
        rows = np.arange(len(t))
        # number of late rows in succession up to each row, across blocks
        run = rows - np.maximum.accumulate(np.where(late, -1 - self.run, rows))
        found = np.flatnonzero(late & (run >= RESTART_ROWS))
        if len(found):
            return late, int(found[0]) - RESTART_ROWS + 1
        if len(t):
            self.latest, self.run = float(before[-1]), int(run[-1]) if late[-1] else 0
        return late, None


def restarts(blocks: Iterable[Array]) -> Iterator[int]:
    """Rows at which a clock restarts, counted from 0 over all blocks."""
    lateness, done = Lateness(), 0
    rest, places = np.empty(0), np.empty(0, np.intp)
    for block in blocks:
        finite = np.flatnonzero(np.isfinite(block))
        # the last rows may be the first of a run of late ones: they are read again after a restart
        t, at = np.concatenate([rest, block[finite]]), np.concatenate([places, done + finite])
        new = len(rest)
        while (start := lateness(t[new:])[1]) is not None:
            t, at = t[new + start :], at[new + start :]
            yield int(at[0])
            lateness, new = Lateness(), 0
        rest, places = t[-RESTART_ROWS:], at[-RESTART_ROWS:]
        done += len(block)
