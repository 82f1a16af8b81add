"""Parquet logs, read in windows of rows so that memory does not grow with the length of the log.

A column of lists of one length (`q: [0.1, 0.2, …]`) becomes the channels `q[0]`, `q[1]`, …

A window holds up to 2²² cells; Polars skips the row groups outside it but loads the requested columns of every row
group in it completely. So memory is a few windows plus, at worst, one compressed row group, and a file of many row
groups streams fast. A file that is one huge row group is read correctly, but its peak memory can reach the size of the
file and every window has to skip the pages before it. Write such a log again with smaller row groups, e.g.
`polars.scan_parquet(old).sink_parquet(new, row_group_size=131072)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.formats.damage import DamagedError, intact_rows, salvaged
from steelyard.formats.logs.csv import no_number, numbers
from steelyard.formats.logs.csv_dialect import unique
from steelyard.signals.recording import Chunk, LogFile, Recording

WINDOW_CELLS = 1 << 22
# Corrupt pages may raise a Rust panic, which is not an Exception.
_TROUBLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
_PER_SECOND = {"ns": 1e9, "us": 1e6, "ms": 1e3}
_TEXT = (pl.String, pl.Categorical, pl.Enum)


class Cell(NamedTuple):
    """Position of a channel's values: a column, or one index in the lists of a column."""

    column: str
    place: int | None


@dataclass(frozen=True)
class ParquetTable:
    """A Parquet file, of which only the footer was read: the types of its columns, the length of the lists in them, and
    its number of rows."""

    file: LogFile
    kinds: Mapping[str, pl.DataType]
    lengths: Mapping[str, int]
    rows: int

    @staticmethod
    def at(path: Path) -> ParquetTable:
        file = LogFile.at(path)
        try:
            scan = pl.scan_parquet(path, glob=False)
            kinds = dict(scan.collect_schema())
            rows = int(scan.select(pl.len()).collect().item())
            lists = [name for name, kind in kinds.items() if isinstance(kind, pl.List) and _is_number(kind.inner)]
            first = scan.select(pl.col(lists).list.len()).head(1).collect()
        except _TROUBLE as error:
            raise DataError(
                f"'{path}' is not a readable Parquet file ({_brief(error)}). If it is incomplete, nothing of it can be "
                "read, because its index is at its end, and salvage does not help: copy it again or export the log "
                "again."
            ) from None
        if not kinds or not rows:
            raise DataError(f"'{path}' contains no rows. Check that the logger wrote data before it closed the file.")
        lengths = {name: first[name][0] or 0 for name in lists}
        lengths |= {
            name: kind.size
            for name, kind in kinds.items()
            if isinstance(kind, pl.Array) and _is_number(kind.inner) and len(kind.shape) == 1
        }
        return ParquetTable(file, kinds, lengths, rows)

    def recording(
        self,
        names: Mapping[str, Sequence[str]] | None = None,
        notes: tuple[str, ...] = (),
        salvage: bool = False,
    ) -> Recording:
        """The recording; `names` are those of the list elements in a column (default: numbers)."""
        known, labels, cells, others = names or {}, [], [], []
        for column, kind in self.kinds.items():
            if column in self.lengths:
                places = range(self.lengths[column])
                given = known.get(column)
                labels += [f"{column}[{k}]" if given is None else f"{column}.{given[k]}" for k in places]
                cells += [Cell(column, k) for k in places]
            elif _is_number(kind) or isinstance(kind, (pl.Datetime, pl.Duration, *_TEXT)):
                labels.append(column)
                cells.append(Cell(column, None))
            else:
                others.append(f"{column} ({kind})")
        path = self.file.path
        if not labels:
            raise DataError(f"'{path}' has no column of numbers, only: {', '.join(others)}. Write one number per cell.")
        channels = dict(zip(unique(labels), cells, strict=True))
        recording = Recording(
            path.name,
            tuple(channels),
            str(path),
            self.rows,
            _ParquetRows(self.file, channels, self.lengths, self.rows),
            notes=notes,
            others=tuple(others),
        )
        numeric = [name for name, cell in channels.items() if not isinstance(self.kinds[cell.column], _TEXT)]
        return salvaged(recording, numeric or recording.columns) if salvage else recording


@dataclass(frozen=True)
class _ParquetRows:
    file: LogFile
    channels: Mapping[str, Cell]
    lengths: Mapping[str, int]
    rows: int

    def digest(self) -> str:
        return self.file.digest()

    def blocks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        self.file.check_unchanged()
        path = self.file.path
        sources = list(dict.fromkeys(self.channels[name].column for name in columns))
        width = sum(self.lengths.get(column, 1) for column in sources)
        # A power of two, because row groups often end there; a window across two row groups is decoded twice.
        window = 1 << max(0, (WINDOW_CELLS // width).bit_length() - 1)
        for start in range(0, self.rows, window):
            size, damage = min(window, self.rows - start), None
            try:
                frame = _rows(path, sources, start, size)
            except _TROUBLE as error:
                size = intact_rows(lambda n, start=start: _rows(path, sources, start, n), size, _TROUBLE)
                damage = DamagedError(
                    f"Row {start + size + 1} of {self.rows} in '{path.name}' cannot be decoded ({_brief(error)}).",
                    start + size,
                )
                frame = _rows(path, sources, start, size)
            block = {}
            for name in columns:
                block[name], wrong = self._values(frame, name, start)
                if wrong is not None and (damage is None or wrong.rows < damage.rows):
                    damage = wrong
            stop = size if damage is None else damage.rows - start
            if stop:
                yield {name: values[:stop] for name, values in block.items()}
            if damage is not None:
                raise damage

    def _values(self, frame: pl.DataFrame, name: str, before: int) -> tuple[Array, DamagedError | None]:
        """A channel as float64 and the first cell that is not a number, if there is one."""
        column, place = self.channels[name]
        series, file = frame[column], self.file.path.name
        if isinstance(series.dtype, _TEXT):
            text = series.cast(pl.String)
            values, wrong = numbers(text)
            return values, None if wrong is None else no_number(file, name, text[wrong], before + wrong)
        if place is None:
            return _as_float(series), None
        if isinstance(series.dtype, pl.Array):
            return _as_float(series.arr.get(place, null_on_oob=True)), None
        odd, damage = series.list.len() != self.lengths[column], None
        if odd.any():
            row = odd.arg_max() or 0
            damage = DamagedError(
                f"Column '{column}' of '{file}' has {series.list.len()[row]} values in data row {before + row + 1} "
                f"instead of {self.lengths[column]}.",
                before + row,
                "Export the log again",
            )
        return _as_float(series.list.get(place, null_on_oob=True)), damage


def _rows(path: Path, columns: Sequence[str], first: int, size: int) -> pl.DataFrame:
    # A new query per window costs little. One query kept open (collect_batches) is faster, but marked unstable, missing
    # in older Polars, and it reads ahead of a slow consumer.
    return pl.scan_parquet(path, glob=False).select(columns).slice(first, size).collect()


def _as_float(series: pl.Series) -> Array:
    """A column as float64: numbers and booleans as they are, times in seconds."""
    kind = series.dtype
    if kind == pl.Float64 and not series.null_count():
        return series.to_numpy()
    if isinstance(kind, (pl.Datetime, pl.Duration)):
        # Seconds since 1970 have a resolution of 0.24 µs in float64: enough for a sampling clock.
        return series.to_physical().cast(pl.Float64).fill_null(np.nan).to_numpy() / _PER_SECOND[kind.time_unit]
    return series.cast(pl.Float64).fill_null(np.nan).to_numpy()


def _is_number(kind: object) -> bool:
    return isinstance(kind, pl.DataType) and (kind.is_numeric() or kind in (pl.Boolean, pl.Null))


def _brief(error: BaseException) -> str:
    return " ".join(str(error).split())[:160]
