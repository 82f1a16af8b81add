"""Damage: a log that is truncated or corrupt. Its position, the intact part before it, and a recording of that part.

A reader yields the rows before the damage and then raises `DamagedError`. `salvaged` reads everything once, so that the
cut is known at opening: all later passes end at the same row, for any choice of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from steelyard.errors import DataError
from steelyard.signals.recording import Chunk, Opener, Recording


class DamagedError(DataError):
    """A log that cannot be read beyond some row: the problem as a sentence, and the number of intact rows before it."""

    def __init__(self, problem: str, rows: int, fix: str = "Copy the log again") -> None:
        self.problem, self.rows, self.fix = problem, rows, fix
        if rows:
            advice = (
                f"The {rows} rows before it are intact. {fix}, or set salvage = true in the [[run]] to use only those."
            )
        else:
            advice = f"No row before it is intact. {fix}."
        super().__init__(f"{problem} {advice}")


def salvaged(recording: Recording, channels: Sequence[str]) -> Recording:
    """The recording up to the first damage in any of the channels; a note says where it ends and why."""
    rows = 0
    try:
        for block in recording.opener.blocks(channels):
            rows += block[channels[0]].size
    except DamagedError as damage:
        if not damage.rows:
            raise
        rows = damage.rows
        note = f"{damage.problem} The recording ends before it, after {rows} rows."
        return replace(recording, rows=rows, opener=_Beginning(recording.opener, rows), notes=(*recording.notes, note))
    return replace(recording, rows=rows)


def intact_rows(read: Callable[[int], object], rows: int, trouble: tuple[type[BaseException], ...]) -> int:
    """The largest number of rows for which `read(rows)` does not fail, by bisection; `read(rows)` is known to fail."""
    good, bad = 0, rows
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            read(middle)
        except trouble:
            bad = middle
        else:
            good = middle
    return good


@dataclass(frozen=True)
class _Beginning:
    """The first rows of another source; rows after them are never read."""

    whole: Opener
    rows: int

    def blocks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        left = self.rows
        for block in self.whole.blocks(columns):
            size = block[columns[0]].size
            if size >= left:
                yield {name: values[:left] for name, values in block.items()}
                return
            left -= size
            yield block

    def digest(self) -> str:
        return self.whole.digest()
