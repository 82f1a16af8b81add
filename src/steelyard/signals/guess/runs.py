"""Runs of logs: the episodes in each, files that continue each other, and one run that is kept to validate."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from steelyard.errors import DataError
from steelyard.signals.channels import TIME_UNITS
from steelyard.signals.composed import with_rate
from steelyard.signals.episodes import Episodes, rows_of
from steelyard.signals.guess.guess import GuessedClock
from steelyard.signals.recording import Recording

# Columns that number the motions in a log.
_NUMBERS_EPISODES = re.compile(r"(episode|pose|trial|run|segment)[ _.-]?(index|idx|id|number|no|nr)?", re.IGNORECASE)
# Shorter episodes [s] have no rows left between the edges of their filters.
_SHORTEST_S = 1.0
# A file continues another if it starts this close to one step after its end [steps].
_NEAR = 0.5


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


def guess_runs(recordings: Sequence[Recording], clock: GuessedClock, split: bool = True) -> GuessedRuns:
    """The runs of logs with this clock, from one or two passes over the clock and the column of episodes.

    Without `split` every log is one run: its episode was chosen.
    """
    if clock.is_stated:
        recordings = [with_rate(one, clock.rate_hz) for one in recordings]
    episode, parts = _parts(recordings, clock, split)
    kept = [part for part in parts if part.number is None or part.last - part.first >= _SHORTEST_S]
    if not kept:
        raise DataError(f"No episode of {recordings[0].name} lasts {_SHORTEST_S:g} s. Record longer motions.")
    notes = list(_split_notes(recordings, clock, episode, parts, len(parts) - len(kept)))
    runs = _joined(kept, 1.0 / clock.rate_hz)
    for run in runs:
        if len(run.logs) > 1:
            named = ", ".join(f"'{recordings[log].name}'" for log in run.logs)
            notes.append(f"Joined to one run, because each starts one sample after the one before ends: {named}.")
    runs, held_out = _with_validation(runs)
    if held_out is not None:
        which = " + ".join(recordings[log].name for log in held_out.logs)
        which += "" if held_out.episode is None else f", episode {held_out.episode}"
        notes.append(f'Kept to validate (role = "validate"): {which}. The other runs are fitted.')
    return GuessedRuns(tuple(runs), episode, tuple(notes))


def _parts(recordings: Sequence[Recording], clock: GuessedClock, split: bool) -> tuple[str | None, list[_Part]]:
    """The column that numbers episodes, and the parts of all logs, cut by it or by restarts of the clock."""
    shared = [name for name in recordings[0].columns if all(name in one.columns for one in recordings)]
    for column in (name for name in shared if split and _NUMBERS_EPISODES.fullmatch(name)):
        parts = [part for log, one in enumerate(recordings) for part in _cut(log, one, Episodes(column), clock)]
        places = {(part.log, part.number) for part in parts}
        # a number that comes back, or a clock that restarts within a number, does not tell episodes apart
        if len(recordings) < len(parts) == len(places) and all(part.last >= part.first for part in parts):
            return column, parts
    rule = Episodes(clock.column, restarts=True)
    return None, [part for log, one in enumerate(recordings) for part in _cut(log, one, rule, clock)]


def _cut(log: int, recording: Recording, rule: Episodes, clock: GuessedClock) -> Iterator[_Part]:
    """The episodes of a log; their time is NaN where a clock restarts within one."""
    try:
        episodes = rule.found_in(recording)
    except DataError:  # the column holds text or fractions: it numbers nothing
        return
    for one in episodes:
        part = recording if len(episodes) == 1 else rows_of(recording, one.rows)
        first, last = np.nan, np.nan
        for chunk in part.chunks([clock.column]):
            t = chunk[clock.column][np.isfinite(chunk[clock.column])] * TIME_UNITS[clock.unit]
            if t.size:
                back = np.any(np.diff(t, prepend=t[0] if np.isnan(last) else last) < 0.0)
                first, last = t[0] if np.isnan(first) else first, np.nan if back else t[-1]
        yield _Part(log, None if len(episodes) == 1 else one.number, len(one.rows), float(first), float(last))


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
    follows = {
        after.log: before.log
        for before in parts
        for after in parts
        if before is not after
        and before.number is None and after.number is None
        and abs(after.first - before.last - step) <= _NEAR * step
    }  # fmt: skip
    next_log = {before: after for after, before in follows.items()}
    rows = {part.log: part.rows for part in parts}
    runs = []
    for part in parts:
        if part.log in follows and part.number is None:
            continue
        logs = [part.log]
        while part.number is None and logs[-1] in next_log:
            logs.append(next_log[logs[-1]])
        size = part.rows if part.number is not None else sum(rows[log] for log in logs)
        runs.append(GuessedRun(tuple(logs), part.number, size))
    return runs


def _with_validation(runs: Sequence[GuessedRun]) -> tuple[list[GuessedRun], GuessedRun | None]:
    """The last run with at most half of all rows is kept to validate, so that most of the data is fitted."""
    if len(runs) < 2:
        return list(runs), None
    total = sum(run.rows for run in runs)
    chosen = next(k for k in reversed(range(len(runs))) if 2 * runs[k].rows <= total)
    held_out = replace(runs[chosen], role="validate")
    return [held_out if k == chosen else run for k, run in enumerate(runs)], held_out
