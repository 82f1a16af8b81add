"""Delimited text logs: comma, semicolon, tab, bar or runs of spaces, with a header, a commented header or none.

The file is read in blocks of whole lines. A clean block takes the fast path, straight to float64; a block with
anything unusual in it (blank lines, missing or padded cells, text, a ragged row) is taken apart carefully, which
gives the same numbers or an error that names the line or the cell.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import polars as pl

from steelyard.errors import DataError, choices
from steelyard.parameters import Array
from steelyard.recording import Chunk, LogFile, Recording

# In the order in which a tie is decided; a space stands for any run of spaces and tabs.
DELIMITERS = {";": "semicolon", "\t": "tab", "|": "bar", ",": "comma", " ": "spaces"}
BLOCK_BYTES = 1 << 24
_SAMPLE_BYTES = 1 << 20
_SAMPLE_LINES = 200
_MISSING = ("", "-", "na", "n/a", "#n/a", "nan", "null", "none")
_MISSING += ("-nan(ind)", "nan(ind)", "1.#qnan", "1.#ind", "-1.#ind")  # as the Windows C runtime prints them
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf|infinity)", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(e[+-]?\d+)?", re.IGNORECASE)
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Dialect:
    """How a file is written: its delimiter, decimal mark and columns, and where the data begin."""

    delimiter: str
    decimal_comma: bool
    columns: tuple[str, ...]
    offset: int
    line: int


def read_delimited(path: Path, delimiter: str | None = None) -> Recording:
    """The recording in a delimited text file; only its first lines are read here."""
    if delimiter is not None and delimiter not in DELIMITERS:
        raise DataError(choices("delimiter", delimiter, (repr(mark) for mark in DELIMITERS)))
    dialect = _sniff(path, delimiter)
    return Recording(path.name, dialect.columns, str(path), None, _DelimitedRows(LogFile.at(path), dialect))


def text_as_float(cells: pl.Series, file: str, column: str, before: int, decimal_comma: bool = False) -> Array:
    """Text cells as float64, missing ones as NaN; `before` rows came ahead of the first cell."""
    text = cells.str.strip_chars()
    marked = text.str.replace(",", ".", literal=True) if decimal_comma else text
    numbers = marked.cast(pl.Float64, strict=False)
    missing = text.is_null() | text.str.to_lowercase().is_in(_MISSING)
    wrong = numbers.is_null() & ~missing
    if wrong.any():
        first = wrong.arg_max() or 0
        row = before + first + 1
        advice = " A line of units under the header must go or start with '#'." if row == 1 else ""
        raise DataError(
            f"Column '{column}' of '{file}' holds the text '{text[first]}' in data row {row}, not a number. "
            f"Mend the cell, or leave it empty if the value is missing.{advice}"
        )
    return numbers.fill_null(np.nan).to_numpy()


@dataclass(frozen=True)
class _DelimitedRows:
    file: LogFile
    dialect: Dialect

    def digest(self) -> str:
        return self.file.digest()

    def blocks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        self.file.check_unchanged()
        rows, line = 0, self.dialect.line
        with self.file.path.open("rb") as stream:
            stream.seek(self.dialect.offset)
            for raw in _whole_lines(stream):
                text = _single_spaced(raw) if self.dialect.delimiter == " " else raw
                block = self._fast(text, columns)
                if block is None:
                    block = self._careful(text, columns, rows, line)
                rows += block[columns[0]].size
                line += raw.count(b"\n")
                yield block

    def _fast(self, text: bytes, columns: Sequence[str]) -> Chunk | None:
        """The block as numbers, or None where a look at single lines is needed.

        Polars fills a short row with nulls and, when some columns are left out, cuts off a long one. A short row
        has no last cell; without short rows, a long one shows in the number of delimiters.
        """
        width, lines = len(self.dialect.columns), text.count(b"\n")
        if text.count(self.dialect.delimiter.encode()) != lines * (width - 1):
            return None
        last = self.dialect.columns[-1]
        try:
            frame = self._frame(text, (*columns, last), pl.Float64())
        except pl.exceptions.PolarsError:
            return None
        if frame.height != lines or frame[last].null_count():
            return None
        return {name: frame[name].fill_null(np.nan).to_numpy() for name in columns}

    def _careful(self, text: bytes, columns: Sequence[str], rows: int, line: int) -> Chunk:
        """The block by way of text cells, each line checked; raises an error that names what is wrong."""
        dialect, file, kept = self.dialect, self.file.path.name, []
        width = len(dialect.columns)
        for number, content in enumerate(text.split(b"\n")[:-1], start=line):
            if not content.strip():
                # Between rows a blank line means nothing; in a file of one column it is a missing cell.
                kept += [b"nan"] if width == 1 else []
                continue
            found = content.count(dialect.delimiter.encode()) + 1
            if found != width and b'"' in content:
                found = len(_fields(_decoded(content), dialect.delimiter))
            if found != width:
                raise _ragged(file, number, found, width)
            kept.append(content)
        if not kept:
            return {name: np.empty(0) for name in columns}
        try:
            frame = self._frame(b"\n".join(kept) + b"\n", columns, pl.String())
        except pl.exceptions.PolarsError as error:
            raise DataError(f"'{file}' cannot be read from line {line} on ({error}). Export the log anew.") from None
        if frame.height != len(kept):
            raise DataError(
                f"'{file}' has a quoted cell that spans lines, from line {line} on. Write every row on one line."
            )
        return {name: text_as_float(frame[name], file, name, rows, dialect.decimal_comma) for name in columns}

    def _frame(self, text: bytes, columns: Sequence[str], kind: pl.DataType) -> pl.DataFrame:
        names = self.dialect.columns
        wanted = sorted({names.index(name) for name in columns})
        frame = pl.read_csv(
            text,
            has_header=False,
            separator=self.dialect.delimiter,
            schema={f"column_{k + 1}": kind for k in range(len(names))},
            columns=wanted,
            encoding="utf8-lossy",
            decimal_comma=self.dialect.decimal_comma,
        )
        return frame.rename({f"column_{k + 1}": names[k] for k in wanted})


def _whole_lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Blocks that end in a newline, of about BLOCK_BYTES."""
    rest = b""
    while block := stream.read(BLOCK_BYTES):
        cut = block.rfind(b"\n") + 1
        if cut:
            yield rest + block[:cut]
            rest = block[cut:]
        else:
            rest += block
    if rest:
        yield rest + b"\n"


def _single_spaced(text: bytes) -> bytes:
    """Runs of spaces and tabs as one space, none at the ends of a line; untouched where that is so already."""
    untidy = (b"  ", b"\t", b"\n ", b" \n", b" \r")
    if not text.startswith(b" ") and not any(mark in text for mark in untidy):
        return text
    return b"\n".join(b" ".join(line.split()) for line in text.split(b"\n"))


def _sniff(path: Path, delimiter: str | None) -> Dialect:
    """Dialect from the first megabyte."""
    with path.open("rb") as stream:
        sample = stream.read(_SAMPLE_BYTES)
    if sample.startswith(_UTF16) or b"\0" in sample:
        raise DataError(f"'{path}' is not a UTF-8 text file. Save it as UTF-8, or give it the extension of its format.")
    lines = _numbered_lines(sample, whole_file=len(sample) < _SAMPLE_BYTES)
    content = [(offset, number, text) for offset, number, text in lines if not text.startswith("#")]
    if not content:
        raise DataError(f"'{path}' holds nothing but comments and blank lines. Check that the logger wrote data.")
    mark = delimiter or _likely_delimiter([text for _, _, text in content[:_SAMPLE_LINES]])
    first = _fields(content[0][2], mark)
    headed = not all(_is_number(cell, mark != ",") or cell.lower() in _MISSING for cell in first)
    data = content[1:] if headed else content
    if not data:
        raise DataError(f"'{path}' has a header but no rows. Check that the logger wrote data before it stopped.")
    comments = [text for _, number, text in lines if text.startswith("#") and number < content[0][1]]
    names = first if headed else _commented_names(comments, mark, len(first))
    offset, number, text = data[0]
    if len(_fields(text, mark)) != len(names):
        raise _ragged(path.name, number, len(_fields(text, mark)), len(names))
    cells = [cell for _, _, row in data[:_SAMPLE_LINES] for cell in _fields(row, mark)]
    return Dialect(mark, _has_decimal_comma(cells, mark), _checked_names(path, names), offset, number)


def _numbered_lines(sample: bytes, whole_file: bool) -> list[tuple[int, int, str]]:
    """(byte offset, line number, stripped text) of the complete, non-blank lines of a sample."""
    offset = len(_BOM) if sample.startswith(_BOM) else 0
    pieces = sample[offset:].split(b"\n")
    if not whole_file:
        pieces.pop()
    found = []
    for number, piece in enumerate(pieces, start=1):
        if text := _decoded(piece).strip(" \r"):
            found.append((offset, number, text))
        offset += len(piece) + 1
    return found


def _decoded(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")


def _fields(line: str, delimiter: str) -> list[str]:
    if delimiter == " ":
        line = " ".join(line.split())
    if '"' in line:
        try:
            return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))]
        except csv.Error as error:
            raise DataError(f"A line of the log cannot be split into cells ({error}): '{line.strip()[:60]}'.") from None
    return [cell.strip() for cell in line.split(delimiter)]


def _is_number(cell: str, comma: bool) -> bool:
    return bool(_NUMBER.fullmatch(cell) or (comma and _DECIMAL_COMMA.fullmatch(cell)))


def _likely_delimiter(lines: Sequence[str]) -> str:
    """The mark that cuts most lines into equally many cells, most of them numbers; a comma for a single column."""
    best, mark = 0.0, ","
    for candidate in DELIMITERS:
        rows = [_fields(line, candidate) for line in lines]
        width, votes = Counter(len(row) for row in rows).most_common(1)[0]
        if width == 1:
            continue
        # The first line may be a header and says nothing about numbers, unless it is all there is.
        cells = [cell for row in rows[1:] or rows for cell in row]
        numeric = sum(_is_number(cell, candidate != ",") for cell in cells) / len(cells)
        score = votes / len(rows) * (0.01 + numeric)
        if score > best:
            best, mark = score, candidate
    return mark


def _has_decimal_comma(cells: Sequence[str], delimiter: str) -> bool:
    """True if numbers are written 1,5 throughout. A file with both marks keeps the point, and its commas are errors."""
    if delimiter == ",":
        return False
    commas = any(_DECIMAL_COMMA.fullmatch(cell) for cell in cells)
    return commas and not any("." in cell and _NUMBER.fullmatch(cell) for cell in cells)


def _commented_names(comments: Sequence[str], delimiter: str, width: int) -> list[str]:
    """Names from a last comment like `# t q1 q2` if there are as many as columns, else col1 … colN."""
    for mark in (delimiter, " ", ",") if comments else ():
        names = _fields(comments[-1].lstrip("# "), mark)
        if len(names) == width and not all(_is_number(name, False) for name in names):
            return names
    return [""] * width


def _checked_names(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Names with the nameless ones numbered (a trailing delimiter, a data frame's index)."""
    full = tuple(name or f"col{k}" for k, name in enumerate(names, start=1))
    twice = [name for name, count in Counter(full).items() if count > 1]
    if twice:
        raise DataError(
            f"'{path}' has several columns named {', '.join(map(repr, twice))}. Rename them so that each is unique."
        )
    return full


def _ragged(file: str, line: int, found: int, width: int) -> DataError:
    return DataError(
        f"Line {line} of '{file}' has {found} cells where {width} were expected. Mend or delete the line; if decimals "
        "are written with commas, separate the columns with semicolons; or name the delimiter."
    )
