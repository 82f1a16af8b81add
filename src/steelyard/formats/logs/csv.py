"""Delimited text logs: comma, semicolon, tab, bar or runs of spaces, with a header, a commented header or none.

The file is read in blocks of whole lines. A regular block is parsed directly to float64. A block with anything unusual
(blank lines, missing or padded cells, text, a ragged row) is parsed line by line, which gives the same numbers or an
error that names the line or the cell. The format of the file is detected by `dialect`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from steelyard._arrays import Array
from steelyard.errors import DataError, choices
from steelyard.formats.damage import DamagedError, salvaged
from steelyard.formats.logs.csv_dialect import (
    COMMENTS,
    DELIMITERS,
    MISSING,
    RAGGED_FIX,
    ByteStream,
    Dialect,
    decoded,
    fields,
    is_finished,
    opened,
    ragged,
    sniff,
)
from steelyard.signals.recording import Chunk, LogFile, Recording

BLOCK_BYTES = 1 << 24
# Longer than any row; zeros left at the end of a file by a crash form such a line.
LONGEST_LINE = 1 << 24


def read_delimited(path: Path, delimiter: str | None = None, salvage: bool = False) -> Recording:
    """The recording in a delimited text file; only its first lines are read here, or all of it to salvage it.

    A last line without a newline is read if it is a whole row, with a note, because its last number may be truncated.
    Salvaging leaves it out.
    """
    if delimiter is not None and delimiter not in DELIMITERS:
        raise DataError(choices("delimiter", delimiter, (repr(mark) for mark in DELIMITERS)))
    file = LogFile.at(path)
    dialect = sniff(path, delimiter)
    recording = Recording(
        path.name,
        dialect.columns,
        str(path),
        None,
        DelimitedRows(file, dialect, finished_only=salvage),
        notes=_notes(path, dialect, salvage),
        rows_estimate=round(file.size / dialect.row_bytes),
    )
    if not salvage:
        return recording
    numeric = [name for name in dialect.columns if name not in dialect.texts]
    return salvaged(recording, numeric or dialect.columns)


def numbers(cells: pl.Series, decimal_comma: bool = False) -> tuple[Array, int | None]:
    """Text cells as float64, missing ones as NaN, and the index of the first one that is neither."""
    text = cells.str.strip_chars()
    marked = text.str.replace(",", ".", literal=True) if decimal_comma else text
    values = marked.cast(pl.Float64, strict=False)
    wrong = values.is_null() & ~(text.is_null() | text.str.to_lowercase().is_in(MISSING))
    return values.fill_null(np.nan).to_numpy(), wrong.arg_max() if wrong.any() else None


def no_number(file: str, column: str, text: str, before: int) -> DamagedError:
    """The error for a cell of text, `before` rows from the top."""
    return DamagedError(
        f"Column '{column}' of '{file}' contains the text {text.strip()[:60]!r} in data row {before + 1} instead of a "
        "number.",
        before,
        "Fix the cell, or leave it empty if the value is missing",
    )


@dataclass(frozen=True)
class DelimitedRows:
    """The rows of a text log whose dialect is known."""

    file: LogFile
    dialect: Dialect
    finished_only: bool

    def digest(self) -> str:
        return self.file.digest()

    def blocks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        self.file.check_unchanged()
        rows, line = 0, self.dialect.line
        with opened(self.file.path, self.dialect.encoding) as stream:
            for _ in range(line - 1):
                stream.readline()
            for raw in _whole_lines(stream):
                unfinished = not raw.endswith(b"\n")
                if unfinished and (self.finished_only or len(raw) > LONGEST_LINE):
                    raise DamagedError(
                        f"Line {line} of '{self.file.path.name}' does not end in a newline: the log is incomplete "
                        "there.",
                        rows,
                    )
                block, damage = self.parsed(raw, columns, rows, line)
                size = block[columns[0]].size
                if size:
                    yield block
                if damage is not None and unfinished:
                    raise DamagedError(f"{damage.problem} The file ends there: it is incomplete.", damage.rows)
                if damage is not None:
                    raise damage
                rows += size
                line += raw.count(b"\n")

    def parsed(self, raw: bytes, columns: Sequence[str], rows: int, line: int) -> tuple[Chunk, DamagedError | None]:
        """Lines that follow `rows` rows, the first of them at line number `line`: their rows up to the first invalid
        one, and the error."""
        text = _single_spaced(raw) if self.dialect.delimiter == " " else raw
        block = self._fast(text, columns)
        return (block, None) if block is not None else self._careful(text, columns, rows, line)

    def _fast(self, text: bytes, columns: Sequence[str]) -> Chunk | None:
        """The block as numbers, or None if its lines must be parsed one by one.

        Polars fills a short row with nulls and, when some columns are left out, truncates a long one. A short row has
        no last cell; without short rows, a long one is found by the number of delimiters.
        """
        width, lines = len(self.dialect.columns), text.count(b"\n")
        if text.count(self.dialect.delimiter.encode()) != lines * (width - 1):
            return None
        last = self.dialect.columns[-1]
        try:
            frame = self._frame(text, (*columns, last), pl.Float64(), '"')
        except pl.exceptions.PolarsError:
            return None
        if frame.height != lines or frame[last].null_count():
            return None
        return {name: frame[name].fill_null(np.nan).to_numpy() for name in columns}

    def _careful(self, text: bytes, columns: Sequence[str], rows: int, line: int) -> tuple[Chunk, DamagedError | None]:
        """The block parsed as text cells, each line checked: the rows before the first invalid one, and the error."""
        file, mark, kept, damage = self.file.path.name, self.dialect.delimiter, [], None
        width = len(self.dialect.columns)
        for number, content in enumerate(text.removesuffix(b"\n").split(b"\n"), start=line):
            if not content.strip():
                # A blank line between rows is skipped; in a file of one column it is a missing cell.
                kept += [b"nan"] if width == 1 else []
                continue
            found = content.count(mark.encode()) + 1
            if b'"' in content:
                # Without its quotes a line cannot absorb the next one. A cell that contains a delimiter is text anyway.
                cells = fields(decoded(content), mark)
                found, content = len(cells), mark.join(cell.replace(mark, "_") for cell in cells).encode()
            if found != width:
                if content.lstrip().startswith(tuple(sign.encode() for sign in COMMENTS)):
                    continue
                damage = DamagedError(ragged(file, number, found, width), rows + len(kept), RAGGED_FIX)
                break
            kept.append(content)
        if not kept:
            return {name: np.empty(0) for name in columns}, damage
        try:
            frame = self._frame(b"\n".join(kept) + b"\n", columns, pl.String(), None)
        except pl.exceptions.PolarsError as error:
            raise DamagedError(f"'{file}' cannot be read after line {line} ({error}).", rows) from None
        block, stop = {}, len(kept)
        for name in columns:
            block[name], wrong = numbers(frame[name], self.dialect.decimal_comma)
            if wrong is not None and wrong < stop:
                stop, damage = wrong, no_number(file, name, frame[name][wrong], rows + wrong)
        return {name: values[:stop] for name, values in block.items()}, damage

    def _frame(self, text: bytes, columns: Sequence[str], kind: pl.DataType, quote: str | None) -> pl.DataFrame:
        names = self.dialect.columns
        wanted = sorted({names.index(name) for name in columns})
        frame = pl.read_csv(
            text,
            has_header=False,
            separator=self.dialect.delimiter,
            quote_char=quote,
            schema={f"column_{k + 1}": kind for k in range(len(names))},
            columns=wanted,
            encoding="utf8-lossy",
            decimal_comma=self.dialect.decimal_comma,
        )
        return frame.rename({f"column_{k + 1}": names[k] for k in wanted})


def _notes(path: Path, dialect: Dialect, salvage: bool) -> tuple[str, ...]:
    out = []
    if not salvage and not is_finished(path, dialect.encoding):
        out.append(
            f"The last line of '{path.name}' does not end in a newline: if the log is incomplete there, its last "
            "number may be wrong."
        )
    if dialect.renamed:
        renamed = ", ".join(dialect.renamed)
        out.append(f"'{path.name}' has duplicate column names; the later ones were numbered: {renamed}.")
    return tuple(out)


def _whole_lines(stream: ByteStream) -> Iterator[bytes]:
    """Blocks that end in a newline, of about BLOCK_BYTES; the text after the last newline comes last, alone.

    The blocks also end if a line exceeds the longest allowed.
    """
    rest = b""
    while len(rest) <= LONGEST_LINE and (block := stream.read(BLOCK_BYTES)):
        cut = block.rfind(b"\n") + 1
        if cut:
            yield rest + block[:cut]
            rest = block[cut:]
        else:
            rest += block
    if rest:
        yield rest


def _single_spaced(text: bytes) -> bytes:
    """Runs of spaces and tabs as one space, none at the ends of a line; unchanged if that is already so."""
    untidy = (b"  ", b"\t", b"\n ", b" \n", b" \r")
    if not text.startswith(b" ") and not any(mark in text for mark in untidy):
        return text
    return b"\n".join(b" ".join(line.split()) for line in text.split(b"\n"))
