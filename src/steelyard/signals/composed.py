"""Recordings made from others: with a clock of constant rate, or of files that continue each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from steelyard.errors import DataError
from steelyard.signals.recording import FILE_SEPARATOR, Chunk, Opener, Recording

# The column that `with_rate` adds.
ROW_CLOCK = "row number / rate_hz"


def with_rate(recording: Recording, rate_hz: float) -> Recording:
    """The recording with a clock [s] for a log that has none: column `ROW_CLOCK`, t = k / rate_hz of row k from 0."""
    if not 0.0 < rate_hz < float("inf"):
        raise DataError(f"rate_hz of the rows must be a positive number [Hz], not {rate_hz:g}.")
    clocked = _RowClock(recording.opener, rate_hz, recording.columns[0])
    return replace(recording, columns=(ROW_CLOCK, *recording.columns), opener=clocked, _small={})


def joined(recordings: Sequence[Recording]) -> Recording:
    """The rows of several recordings one after the other, in the columns that all have.

    A step of the clock between two of them is a step like any other: filters reach across unless it is a gap.
    """
    first, rows = recordings[0], [one.rows for one in recordings]
    shared = tuple(name for name in first.columns if all(name in one.columns for one in recordings))
    if not shared:
        raise DataError(f"'{first.name}' and '{recordings[1].name}' have no column in common: they cannot be one run.")
    estimates = [one.rows if one.rows is not None else one.rows_estimate for one in recordings]
    return Recording(
        " + ".join(one.name for one in recordings)
        if len(recordings) < 4
        else f"{first.name} … {recordings[-1].name} ({len(recordings)} files)",
        shared,
        " + ".join(one.source for one in recordings),
        None if None in rows else sum(size for size in rows if size is not None),
        _InTurn(tuple(recordings)),
        notes=tuple(note for one in recordings for note in one.notes),
        others=first.others,
        rows_estimate=None if None in estimates else sum(size for size in estimates if size is not None),
    )


@dataclass(frozen=True)
class _RowClock:
    """Rows with their number divided by the rate; `some_column` is read where nothing but the clock is requested."""

    rows: Opener
    rate_hz: float
    some_column: str

    def blocks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        logged = [name for name in columns if name != ROW_CLOCK] or [self.some_column]
        done = 0
        for block in self.rows.blocks(logged):
            size = block[logged[0]].size
            clock = {ROW_CLOCK: np.arange(done, done + size) / self.rate_hz}
            yield {name: (clock | block)[name] for name in columns}
            done += size

    def digest(self) -> str:
        return self.rows.digest()


@dataclass(frozen=True)
class _InTurn:
    parts: tuple[Recording, ...]

    def blocks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        for part in self.parts:
            yield from part.chunks(columns)

    def digest(self) -> str:
        return FILE_SEPARATOR.join(part.sha256 for part in self.parts)
