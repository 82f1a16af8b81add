"""Recording: raw named channels as they were logged, read in chunks; can be opened any number of times."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from steelyard._arrays import Array
from steelyard.errors import DataError, choices

Chunk = dict[str, Array]
# For a progress bar: the name of the step, the amount done, and the total amount.
Progress = Callable[[str, int, int], None]
CHUNK_ROWS = 65536
# Between the hashes of files that are joined.
FILE_SEPARATOR = " + "
# Logs up to 8 MB of numbers are kept in memory after the first pass, unless another limit is given.
SMALL_CELLS = 1_000_000


class Opener(Protocol):
    """Interface of a log format: the rows from the start, in blocks of any size, and a hash."""

    def blocks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        """Consecutive blocks of the requested columns, each a 1-D float64 array; missing cells are NaN."""
        ...

    def digest(self) -> str:
        """SHA-256 of the source in hexadecimal."""
        ...


@dataclass(frozen=True)
class Recording:
    """A source of chunks of named raw channels, in memory or not.

    `name` is used in messages, `source` is a path or "memory". `rows` is None where counting would take a pass over the
    file; `rows_estimate` is then an approximate number. `notes` are sentences about what the reader found or left out
    (e.g. a truncated log), `others` names the contents of the source other than channels. `episode_column` numbers the
    episodes where the format of the log says so. A pass over at most `kept_cells` numbers is kept in memory for the
    next one.

    Units, clock, NaN policy and joint order are not known here: `prepare` assigns them.
    """

    name: str
    columns: tuple[str, ...]
    source: str
    rows: int | None
    opener: Opener = field(repr=False, compare=False)
    notes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    rows_estimate: int | None = None
    episode_column: str = ""
    kept_cells: int = field(default=SMALL_CELLS, repr=False, compare=False)
    _small: dict[tuple[str, ...], list[Chunk]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def sha256(self) -> str:
        """Hash of the file's bytes, or of the arrays; computed on first use, since it reads everything."""
        return self.opener.digest()

    def fraction(self, rows: int) -> float | None:
        """Fraction of the recording covered by its first `rows` rows, for a progress bar; None if unknown."""
        total = self.rows if self.rows is not None else self.rows_estimate
        return None if not total else min(1.0, rows / total)

    def chunks(self, columns: Sequence[str], chunk_rows: int = CHUNK_ROWS) -> Iterator[Chunk]:
        """Consecutive row ranges in order: {column: (chunk_rows,) read-only float64}; only the last one is shorter.

        Only the requested columns are read. The concatenated chunks do not depend on `chunk_rows`.
        """
        if not columns:
            raise DataError(f"No column of '{self.name}' was requested. It has: {', '.join(self.columns[:40])}.")
        for column in columns:
            if column not in self.columns:
                besides = (
                    f" It also contains, but not as channels: {', '.join(self.others[:40])}." if self.others else ""
                )
                raise DataError(choices(f"column of '{self.name}'", column, self.columns) + besides)
        if chunk_rows < 1:
            raise DataError(f"chunk_rows of '{self.name}' must be at least 1, not {chunk_rows}.")
        asked = tuple(dict.fromkeys(columns))
        return _recut(self._blocks(asked), asked, chunk_rows)

    def _blocks(self, columns: tuple[str, ...]) -> Iterator[Chunk]:
        """Blocks from the source. A small log is kept in memory, since the clock and the data each need a pass."""
        if columns in self._small:
            yield from self._small[columns]
            return
        seen: list[Chunk] | None = []
        cells = 0
        for block in self.opener.blocks(columns):
            cells += len(columns) * block[columns[0]].size
            if seen is not None:
                seen = [*seen, block] if cells <= self.kept_cells else None
            yield block
        if seen is not None:
            self._small[columns] = seen

    @staticmethod
    def from_arrays(name: str, arrays: Mapping[str, ArrayLike]) -> Recording:
        """A recording of 1-D arrays of equal length held in memory (copied, so that later changes have no effect)."""
        if not arrays:
            raise DataError(f"Recording '{name}' has no channels. Give at least one named array.")
        held = {column: _channel(name, column, values) for column, values in arrays.items()}
        lengths = {column: array.size for column, array in held.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{column}: {size}" for column, size in lengths.items())
            raise DataError(f"The channels of '{name}' differ in length ({listed}). Give arrays of equal length.")
        rows = next(iter(lengths.values()))
        if rows == 0:
            raise DataError(f"The channels of '{name}' are empty. Give at least one sample.")
        return Recording(name, tuple(held), "memory", rows, _Memory(held))


@dataclass(frozen=True)
class _Memory:
    """Arrays with the interface of a file."""

    arrays: Chunk

    def blocks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        yield {column: self.arrays[column] for column in columns}

    def digest(self) -> str:
        total = hashlib.sha256()
        for column, array in self.arrays.items():
            # Names and lengths are hashed too, so that moving a value to the next channel changes the digest.
            total.update(f"{column}\0{array.size}\0".encode())
            total.update(array.astype("<f8", copy=False).data)
        return total.hexdigest()


@dataclass(frozen=True)
class LogFile:
    """The size and time of a file when it was opened, so that a second pass notices a change in between."""

    path: Path
    size: int
    modified_ns: int

    @staticmethod
    def at(path: Path) -> LogFile:
        status = path.stat()
        return LogFile(path, status.st_size, status.st_mtime_ns)

    def check_unchanged(self) -> None:
        """Raises an error if the file changed: a run is read more than once (hash, second pass), always from the same
        bytes."""
        try:
            now = LogFile.at(self.path)
        except OSError as error:
            raise DataError(f"'{self.path}' can no longer be read ({error.strerror}). Restore it and retry.") from None
        if now != self:
            raise DataError(f"'{self.path}' changed while it was in use. Read it again once it is fully written.")

    def digest(self) -> str:
        self.check_unchanged()
        with self.path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()


def _channel(name: str, column: str, values: ArrayLike) -> Array:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"Channel '{column}' of '{name}' is not numeric. Give an array of real numbers.") from None
    if array.ndim != 1:
        raise DataError(f"Channel '{column}' of '{name}' has shape {array.shape}. Give one 1-D array per channel.")
    array.flags.writeable = False
    return array


def _recut(blocks: Iterable[Chunk], columns: Sequence[str], rows: int) -> Iterator[Chunk]:
    """The same rows cut at multiples of `rows`; a chunk is a view of its block unless it spans two."""
    pending: list[Chunk] = []
    waiting = 0
    for block in blocks:
        start, size = 0, block[columns[0]].size
        while waiting + size - start >= rows:
            stop = start + rows - waiting
            pending.append(_rows(block, start, stop))
            yield _joined(pending, columns)
            pending, waiting, start = [], 0, stop
        if start < size:
            pending.append(_rows(block, start, size))
            waiting += size - start
    if pending:
        yield _joined(pending, columns)


def _rows(block: Chunk, start: int, stop: int) -> Chunk:
    return {column: values[start:stop] for column, values in block.items()}


def _joined(parts: Sequence[Chunk], columns: Sequence[str]) -> Chunk:
    whole = parts[0] if len(parts) == 1 else {c: np.concatenate([part[c] for part in parts]) for c in columns}
    for values in whole.values():
        values.flags.writeable = False
    return whole
