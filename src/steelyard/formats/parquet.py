"""Parquet logs, read in windows of rows so that memory stays flat however long the log is.

A window holds about 2²² cells. Polars skips row groups and pages outside a window, so files of many row groups
(up to about 500 000 rows each) stream at full speed. In a file that is one huge row group every window has to walk
past the pages before it: memory stays bounded, but reading slows down as the row group grows. Write such logs again
with smaller row groups, e.g. `polars.scan_parquet(old).sink_parquet(new, row_group_size=131072)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from steelyard.errors import DataError
from steelyard.formats.delimited import text_as_float
from steelyard.parameters import Array
from steelyard.recording import Chunk, LogFile, Recording

WINDOW_CELLS = 1 << 22
# Corrupt pages reach us as a Rust panic, which is not an Exception.
_TROUBLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
_PER_SECOND = {"ns": 1e9, "us": 1e6, "ms": 1e3}


def read_parquet(path: Path) -> Recording:
    """The recording in a Parquet file; only the footer is read here."""
    try:
        scan = pl.scan_parquet(path, glob=False)
        columns = tuple(scan.collect_schema().names())
        rows = int(scan.select(pl.len()).collect().item())
    except _TROUBLE as error:
        raise _unreadable(path, error) from None
    if not columns or not rows:
        raise DataError(f"'{path}' holds no rows. Check that the logger wrote data before it closed the file.")
    return Recording(path.name, columns, str(path), rows, _ParquetRows(LogFile.at(path), rows))


@dataclass(frozen=True)
class _ParquetRows:
    file: LogFile
    rows: int

    def digest(self) -> str:
        return self.file.digest()

    def blocks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        self.file.check_unchanged()
        path = self.file.path
        # A power of two: writers cut row groups there, and a window across two row groups is decoded twice.
        window = 1 << max(0, (WINDOW_CELLS // len(columns)).bit_length() - 1)
        for start in range(0, self.rows, window):
            try:
                # A fresh query a window costs little. One query kept alive (collect_batches) is marked unstable and
                # reads ahead of a slow consumer; with parallel="auto" a huge row group is held whole. Both were
                # measured at several times the memory.
                scan = pl.scan_parquet(path, glob=False, low_memory=True, parallel="none")
                frame = scan.select(columns).slice(start, window).collect()
            except _TROUBLE as error:
                raise _unreadable(path, error) from None
            yield {name: _as_float(frame.drop_in_place(name), path.name, start) for name in columns}


def _as_float(series: pl.Series, file: str, before: int) -> Array:
    """A column as float64: numbers and booleans as they are, times in seconds, text if it spells numbers."""
    kind = series.dtype
    if kind == pl.Float64 and not series.null_count():
        return series.to_numpy()
    if isinstance(kind, (pl.String, pl.Categorical, pl.Enum)):
        return text_as_float(series.cast(pl.String), file, series.name, before)
    if isinstance(kind, (pl.Datetime, pl.Duration)):
        # Seconds since 1970 resolve to 0.24 µs in float64: enough for a sampling clock.
        return series.to_physical().cast(pl.Float64).fill_null(np.nan).to_numpy() / _PER_SECOND[kind.time_unit]
    if kind.is_numeric() or kind in (pl.Boolean, pl.Null):
        return series.cast(pl.Float64).fill_null(np.nan).to_numpy()
    raise DataError(
        f"Column '{series.name}' of '{file}' holds {kind}, not numbers. Write one number per cell: "
        "split lists and structures into one column a joint."
    )


def _unreadable(path: Path, error: BaseException) -> DataError:
    reason = " ".join(str(error).split())[:160]
    return DataError(
        f"'{path}' is not a readable Parquet file ({reason}). It may be cut off or damaged: copy it again or export "
        "the log anew."
    )
