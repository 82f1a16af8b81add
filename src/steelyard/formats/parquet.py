"""Parquet logs, read in windows of rows so that memory does not grow with the length of the log.

A window holds up to 2²² cells; Polars skips the row groups outside it but fetches the asked columns of every row group
it touches whole. So memory is a few windows plus, at worst, one compressed row group, and a file of many row groups
streams fast. A file that is one huge row group is read correctly, but its peak memory can reach the size of the file
and every window walks past the pages before it. Write such a log again with smaller row groups, e.g.
`polars.scan_parquet(old).sink_parquet(new, row_group_size=131072)`.
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
                # A fresh query a window costs little. One query kept alive (collect_batches) is faster, but marked
                # unstable, missing in older Polars, and it reads ahead of a slow consumer.
                scan = pl.scan_parquet(path, glob=False).select(columns)
                frame = scan.slice(start, window).collect()
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
