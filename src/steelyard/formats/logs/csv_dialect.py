"""Dialect: the format of a text log, detected from its first lines.

The rows of numbers decide: their delimiter and their number of cells. The line of names above them is the header, a
line of units between the two is added to the names (`q1 [deg]`), and lines further up are a preamble and are left out.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from steelyard.errors import DataError

# In order of preference at a tie; a space means any run of spaces and tabs.
DELIMITERS = {";": "semicolon", "\t": "tab", "|": "bar", ",": "comma", " ": "spaces"}
COMMENTS = ("#", "%", "//")
MISSING = ("", "-", "na", "n/a", "#n/a", "nan", "null", "none")
MISSING += ("-nan(ind)", "nan(ind)", "1.#qnan", "1.#ind", "-1.#ind")  # as the Windows C runtime prints them
# Number of bytes read to detect a dialect, and number of lines among these that are not comments.
SAMPLE_BYTES = 1 << 20
SAMPLE_LINES = 200
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf|infinity)", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(e[+-]?\d+)?", re.IGNORECASE)
_UNIT = re.compile(
    r"-|%|°C?|C|K|V|W|Hz|kHz|bar|counts?|inc|ticks?|(n|u|µ|μ|m)?s|sec|seconds?|(k|m|u|µ|μ)?A|"
    r"((m?rad|deg|°|rev|turns?|m?m|cm)(/s|/sec|\*?s-1)?(/s|\^?2|²)?)|rpm|(k|m)?N([ .·*]?m)?",
    re.IGNORECASE,
)
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_NEWLINES = {"utf-8": (b"\n",), "utf-16": (b"\n\0", b"\0\n")}


class ByteStream(Protocol):
    """The contents of a text log as UTF-8 bytes, in any encoding of the file."""

    def read(self, size: int, /) -> bytes: ...
    def readline(self) -> bytes: ...


@dataclass(frozen=True)
class Dialect:
    """Encoding, delimiter, decimal mark and columns; the line of the first row; the columns that may hold text, those
    renamed because their name was taken, and the mean length of a row in the file [bytes]."""

    encoding: str
    delimiter: str
    decimal_comma: bool
    columns: tuple[str, ...]
    line: int
    texts: frozenset[str]
    renamed: tuple[str, ...]
    row_bytes: float


class _Line(NamedTuple):
    number: int
    cells: list[str]


_NO_TEXT = "is not a text file. Give it the extension of its format, or save it as UTF-8 text."


def sniff(path: Path, delimiter: str | None) -> Dialect:
    """Dialect from the first megabyte."""
    with path.open("rb") as stream:
        encoding = "utf-16" if stream.read(2) in _UTF16 else "utf-8"
    with opened(path, encoding) as stream:
        sample = stream.read(SAMPLE_BYTES)
    return dialect_of(sample, path, encoding, delimiter, whole=path.stat().st_size <= SAMPLE_BYTES)


def dialect_of(sample: bytes, path: Path, encoding: str, delimiter: str | None, whole: bool) -> Dialect:
    """Dialect from the first bytes of a log, as UTF-8; the last line is used if they are the `whole` of it."""
    if b"\0" in sample.split(b"\n", 1)[0]:
        raise DataError(f"'{path}' {_NO_TEXT}")
    lines = _numbered_lines(sample, whole)
    content = _content(lines)[:SAMPLE_LINES]
    if not content:
        raise DataError(f"'{path}' contains only comments and blank lines. Check that the logger wrote data.")
    mark = delimiter or _likely_delimiter([text for _, text in content])
    rows = [_Line(number, fields(text, mark)) for number, text in content]
    shape = _Shape.of(rows, mark)
    line, names = shape.header(rows, path)
    if names is None:
        comments = [text for number, text in lines if text.startswith(COMMENTS) and number < line]
        names = _commented_names(comments, mark, shape.width)
    columns = unique(names)
    cells = [cell for row in rows if row.number >= line for cell in row.cells]
    # A column that is empty at first may hold remarks later on.
    texts = frozenset(name for k, name in enumerate(columns) if k not in shape.numeric - shape.blank)
    renamed = tuple(name for name, given in zip(columns, names, strict=True) if given and name != given)
    row_bytes = len(sample) / max(1, sample.count(b"\n")) * (2 if encoding == "utf-16" else 1)
    return Dialect(encoding, mark, _has_decimal_comma(cells, mark), columns, line, texts, renamed, row_bytes)


def shows_dialect(sample: bytes) -> bool:
    """True if the complete lines hold all that `dialect_of` uses: more of the log would not change its result."""
    return len(sample) >= SAMPLE_BYTES or len(_content(_numbered_lines(sample, whole_file=False))) >= SAMPLE_LINES


@contextmanager
def opened(path: Path, encoding: str) -> Iterator[ByteStream]:
    """The file as UTF-8 without a byte order mark."""
    with path.open("rb") as stream:
        if encoding == "utf-16":
            yield codecs.EncodedFile(stream, "utf-8", "utf-16", "replace")
            return
        if stream.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            stream.seek(0)
        yield stream


def is_finished(path: Path, encoding: str) -> bool:
    """True if the last line ends in a newline, as most loggers write it."""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - 2))
        return stream.read().endswith(_NEWLINES[encoding])


def fields(line: str, delimiter: str) -> list[str]:
    """The cells of a line, stripped; a line that cannot be split is one cell."""
    if delimiter == " ":
        line = " ".join(line.split())
    if '"' in line:
        try:
            cells = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True, strict=True))
        except csv.Error:
            return [line]
        return [cell.strip() for cell in cells]
    return [cell.strip() for cell in line.split(delimiter)]


def decoded(line: bytes) -> str:
    """The text as UTF-8, or else Latin-1, which accepts any byte."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")


def ragged(file: str, line: int, found: int, width: int) -> str:
    """The error message for a line with the wrong number of cells."""
    return f"Line {line} of '{file}' has {found} cells instead of {width}."


RAGGED_FIX = (
    "Fix or delete the line; if decimals are written with commas, separate the columns with semicolons; or set the "
    "delimiter"
)


@dataclass(frozen=True)
class _Shape:
    """The form of a row: its number of cells, which of them are numbers (or missing), and which are always empty."""

    width: int
    numeric: frozenset[int]
    blank: frozenset[int]
    comma: bool

    @staticmethod
    def of(lines: Sequence[_Line], mark: str) -> _Shape:
        """The form from the lines that contain a number, nearly all of which are rows."""
        comma = mark != ","
        full = [line.cells for line in lines if all(_is_value(cell, comma) for cell in line.cells)]
        some = [line.cells for line in lines if any(_is_number(cell, comma) for cell in line.cells)]
        rows = some or full or [line.cells for line in lines]
        width = Counter(map(len, full or rows)).most_common(1)[0][0]
        usual = [cells for cells in rows if len(cells) == width]

        def is_numeric(k: int) -> bool:
            text = sum(not _is_value(cells[k], comma) for cells in usual)
            return text == 0 or text <= sum(_is_number(cells[k], comma) for cells in usual)

        blank = frozenset(k for k in range(width) if not any(cells[k] for cells in usual))
        return _Shape(width, frozenset(filter(is_numeric, range(width))), blank, comma)

    def header(self, rows: Sequence[_Line], path: Path) -> tuple[int, list[str] | None]:
        """(line of the first row of data, names of the columns or None where there is no header)."""
        names, stray = None, None
        for line, cells in rows:
            values = [cells[k] for k in self.numeric] if len(cells) == self.width else cells
            numbers = sum(_is_number(cell, self.comma) for cell in values)
            clean = len(cells) == self.width and values and all(_is_value(cell, self.comma) for cell in values)
            # Names may be numbers (`t,1,2`), but a line with numbers below the names is a row, possibly an invalid one.
            if clean or (names is not None and numbers):
                if len(cells) != self.width:
                    raise DataError(f"{ragged(path.name, line, len(cells), self.width)} {RAGGED_FIX}.")
                if names is None and stray is not None:
                    # A line of numbers above the first row is an invalid row; a line of words holds names that do not
                    # fit.
                    if all(_is_number(cell, self.comma) for cell in stray.cells):
                        problem = ragged(path.name, stray.number, len(stray.cells), self.width)
                    else:
                        problem = ragged(path.name, line, self.width, len(stray.cells))
                    raise DataError(f"{problem} {RAGGED_FIX}.")
                return line, names
            fitting = self._fitted(cells)
            if fitting is None:
                names, stray = None, _Line(line, cells)
            elif names is not None and all(_UNIT.fullmatch(cell.strip("[]()<>")) for cell in fitting if cell):
                names = [_with_unit(name, unit) for name, unit in zip(names, fitting, strict=True)]
            else:
                names = fitting
        if any(letter < " " and letter != "\t" for row in rows for cell in row.cells for letter in cell):
            raise DataError(f"'{path}' {_NO_TEXT}")
        raise DataError(f"'{path}' has a header but no rows. Check that the logger wrote data before it stopped.")

    def _fitted(self, cells: list[str]) -> list[str] | None:
        """The line as names for this many columns; a trailing delimiter in header or rows is allowed."""
        if len(cells) == self.width + 1 and not cells[-1]:
            return cells[:-1]
        if len(cells) == self.width - 1 and self.width - 1 in self.blank:
            return [*cells, ""]
        return cells if len(cells) == self.width else None


def _with_unit(name: str, unit: str) -> str:
    bare = unit.strip("[]()<>")
    return name if bare in ("", "-") else f"{name} [{bare}]"


def _numbered_lines(sample: bytes, whole_file: bool) -> list[tuple[int, str]]:
    """(line number, stripped text) of the complete, non-blank lines of a sample."""
    pieces = sample.split(b"\n")
    if not whole_file:
        pieces.pop()
    found = ((number, decoded(piece).strip(" \r")) for number, piece in enumerate(pieces, start=1))
    return [(number, text) for number, text in found if text]


def _content(lines: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    return [(number, text) for number, text in lines if not text.startswith(COMMENTS)]


def _is_number(cell: str, comma: bool) -> bool:
    return bool(_NUMBER.fullmatch(cell) or (comma and _DECIMAL_COMMA.fullmatch(cell)))


def _is_value(cell: str, comma: bool) -> bool:
    return _is_number(cell, comma) or cell.lower() in MISSING


def _likely_delimiter(lines: Sequence[str]) -> str:
    """The delimiter that splits most lines into equally many cells, mostly numbers; a comma for a single column."""
    best, mark = 0.0, ","
    # The first half may be preamble and header, so it is used only if there is nothing else.
    tail = lines[len(lines) // 2 :]
    for candidate in DELIMITERS:
        rows = [fields(line, candidate) for line in tail]
        width, votes = Counter(len(row) for row in rows).most_common(1)[0]
        if width == 1:
            continue
        cells = [cell for row in rows for cell in row]
        numeric = sum(_is_number(cell, candidate != ",") for cell in cells) / len(cells)
        score = votes / len(rows) * (0.01 + numeric)
        if score > best:
            best, mark = score, candidate
    return mark


def _has_decimal_comma(cells: Sequence[str], delimiter: str) -> bool:
    """True if all numbers have a decimal comma (1,5). A file with both marks uses the point; commas are errors."""
    if delimiter == ",":
        return False
    commas = any(_DECIMAL_COMMA.fullmatch(cell) for cell in cells)
    return commas and not any("." in cell and _NUMBER.fullmatch(cell) for cell in cells)


def _commented_names(comments: Sequence[str], delimiter: str, width: int) -> list[str]:
    """Names from a last comment like `# t q1 q2` if there are as many as columns, else col1 … colN."""
    for mark in (delimiter, " ", ",") if comments else ():
        names = fields(comments[-1].lstrip("#%/ "), mark)
        if len(names) == width and not all(_is_number(name, False) for name in names):
            return names
    return [""] * width


def unique(names: Sequence[str]) -> tuple[str, ...]:
    """Names with empty ones numbered (a trailing delimiter, a data frame's index), repeated ones as `q#2`."""
    out: dict[str, None] = {}
    seen: Counter[str] = Counter()
    for k, given in enumerate(names, start=1):
        base = name = given or f"col{k}"
        while name in out or (name != base and name in names):
            seen[base] += 1
            name = f"{base}#{seen[base] + 1}"
        out[name] = None
    return tuple(out)
