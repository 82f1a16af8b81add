"""Runs of logs: the episodes in each, files that continue each other, and one run that is kept to validate."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from steelyard.errors import DataError
from steelyard.signals.channels import TIME_UNITS
from steelyard.signals.composed import with_rate
from steelyard.signals.episodes import Episode, Episodes, Lateness
from steelyard.signals.guess.guess import GuessedClock
from steelyard.signals.recording import Recording

# Columns that number the motions in a log.
_NUMBERS_EPISODES = re.compile(r"(episode|pose|trial|run|segment)[ _.-]?(index|idx|id|number|no|nr)?", re.IGNORECASE)
# Shorter episodes [s] have no rows left between the edges of their filters.
_SHORTEST_S = 1.0
# A file continues another if it starts at most this many steps after its end.
_NEXT = 2.0


@dataclass(frozen=True)
class GuessedRun:
    """A run: numbers of the logs that continue each other, the episode of the only one, its rows, and its role."""

    logs: tuple[int, ...]
    episode: int | None
    rows: int
    role: str = "identify"


@dataclass(frozen=True)
class GuessedRuns:
    """The runs of some logs, the column that numbers episodes if there is one, and what was decided, as sentences."""

    runs: tuple[GuessedRun, ...]
    episode: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Part:
    """An episode of a log, or all of it: its rows and its first and last time [s]."""

    log: int
    number: int | None
    rows: int
    first: float
    last: float

    @property
    def is_long(self) -> bool:
        """True if rows are left between the edges of its filters."""
        return self.last - self.first >= _SHORTEST_S


def guess_runs(recordings: Sequence[Recording], clock: GuessedClock, split: bool = True) -> GuessedRuns:
    """The runs of logs with this clock, from one or two passes over the clock and the column of episodes.

    Without `split` every log is one run: its episode was chosen.
    """
    if clock.is_stated:
        recordings = [with_rate(one, clock.rate_hz) for one in recordings]
    episode, parts = _parts(recordings, clock, split)
    kept = [part for part in parts if part.number is None or part.is_long]
    if not kept:
        raise DataError(
            f"'{recordings[0].name}' has {len(parts)} episodes, and none lasts {_SHORTEST_S:g} s"
            + (f" on the clock '{clock.column}'" if episode is None else f" (numbered by '{episode}')")
            + ". Name another clock with --time, or record longer motions."
        )
    notes = list(_split_notes(recordings, clock, episode, parts, len(parts) - len(kept)))
    runs = _joined(kept, 1.0 / clock.rate_hz)
    for run in runs:
        if len(run.logs) > 1:
            named = ", ".join(f"'{recordings[log].name}'" for log in run.logs)
            notes.append(f"Joined to one run, because each starts where the one before ends: {named}.")
    runs, held_out = _with_validation(runs)
    if held_out is not None:
        which = " + ".join(recordings[log].name for log in held_out.logs)
        which += "" if held_out.episode is None else f", episode {held_out.episode}"
        notes.append(f'Kept to validate (role = "validate"): {which}. The other runs are fitted.')
    return GuessedRuns(tuple(runs), episode, tuple(notes))


def _parts(recordings: Sequence[Recording], clock: GuessedClock, split: bool) -> tuple[str | None, list[_Part]]:
    """The column that numbers episodes, and the parts of all logs, cut by it or by restarts of the clock."""

    def cut(rule: Episodes) -> list[_Part]:
        found = [rule.found_in(one) for one in recordings]
        return [part for log, one in enumerate(recordings) for part in _timed(log, one, found[log], clock)]

    if not split:
        return None, [_timed(log, one, None, clock)[0] for log, one in enumerate(recordings)]
    stated = {one.episode_column for one in recordings}
    if len(stated) == 1 and "" not in stated:  # the format of the logs says so
        return (column := stated.pop()), cut(Episodes(column))
    shared = [name for name in recordings[0].columns if all(name in one.columns for one in recordings)]
    for column in filter(_NUMBERS_EPISODES.fullmatch, shared):
        try:
            parts = cut(Episodes(column))
        except DataError:  # the column holds text or fractions: it numbers nothing
            continue
        places = {(part.log, part.number) for part in parts}
        # a number that comes back, or a clock that restarts within a number, does not separate episodes
        separates = len(recordings) < len(parts) == len(places) and all(part.last >= part.first for part in parts)
        if separates and any(part.is_long for part in parts):
            return column, parts
    return None, cut(Episodes(clock.column, restarts=True))


def _timed(log: int, recording: Recording, episodes: Sequence[Episode] | None, clock: GuessedClock) -> list[_Part]:
    """Episodes with their times, from a pass over the clock; None for the whole log as one.

    An end is NaN where the clock restarts.
    """
    count = 1 if episodes is None else len(episodes)
    stops = np.array([np.inf] if episodes is None else [one.rows.stop for one in episodes])
    first, last = np.full((2, count), np.nan)
    lateness = [Lateness() for _ in range(count)]
    restarted = np.zeros(count, bool)
    done = 0
    for chunk in recording.chunks([clock.column]):
        t = chunk[clock.column] * TIME_UNITS[clock.unit]
        finite = np.flatnonzero(np.isfinite(t))
        part = np.searchsorted(stops, done + finite, side="right")
        for k in np.unique(part):
            x = t[finite[part == k]]
            first[k] = x[0] if np.isnan(first[k]) else first[k]
            restarted[k] |= lateness[k](x)[1] is not None
            last[k] = x[-1]
        done += len(t)
    last[restarted] = np.nan
    if count == 1:
        return [_Part(log, None, done, float(first[0]), float(last[0]))]
    return [
        _Part(log, one.number, len(one.rows), float(first[k]), float(last[k])) for k, one in enumerate(episodes or ())
    ]


def _split_notes(
    recordings: Sequence[Recording], clock: GuessedClock, episode: str | None, parts: Sequence[_Part], short: int
) -> Iterator[str]:
    why = f"by the column '{episode}'" if episode else f"where the clock '{clock.column}' restarts"
    for log, recording in enumerate(recordings):
        count = sum(part.log == log and part.number is not None for part in parts)
        if count:
            yield f"'{recording.name}' is split into {count} episodes {why}, a run for each."
    if short:
        yield f"{short} episodes shorter than {_SHORTEST_S:g} s are left out."


def _joined(parts: Sequence[_Part], step: float) -> list[GuessedRun]:
    """Parts as runs; whole logs that continue each other are one."""
    pairs = [
        (before.log, after.log)
        for before in parts
        for after in parts
        if before.number is None and after.number is None and 0.0 < after.first - before.last <= _NEXT * step
    ]
    before, after = Counter(one for one, _ in pairs), Counter(one for _, one in pairs)
    # two logs that both continue a third are recordings of different things
    next_log = {one: other for one, other in pairs if before[one] == after[other] == 1}
    rows = {part.log: part.rows for part in parts}
    runs = []
    for part in parts:
        if part.number is not None:
            runs.append(GuessedRun((part.log,), part.number, part.rows))
        elif part.log not in next_log.values():
            logs = [part.log]
            while logs[-1] in next_log:
                logs.append(next_log[logs[-1]])
            runs.append(GuessedRun(tuple(logs), None, sum(rows[log] for log in logs)))
    return runs


def _with_validation(runs: Sequence[GuessedRun]) -> tuple[list[GuessedRun], GuessedRun | None]:
    """The last run with at most half of all rows is kept to validate, so that most of the data is fitted."""
    if len(runs) < 2:
        return list(runs), None
    total = sum(run.rows for run in runs)
    chosen = next(k for k in reversed(range(len(runs))) if 2 * runs[k].rows <= total)
    held_out = replace(runs[chosen], role="validate")
    return [held_out if k == chosen else run for k, run in enumerate(runs)], held_out
