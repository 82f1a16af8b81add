"""A text log that is still being written: its rows as they arrive, whole lines only."""

from __future__ import annotations

import codecs
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np

from steelyard.errors import DataError, choices
from steelyard.formats.logs import DELIMITED, log_kind
from steelyard.formats.logs.csv import LONGEST_LINE, DelimitedRows
from steelyard.formats.logs.csv_dialect import DELIMITERS, Dialect, dialect_of, shows_dialect
from steelyard.signals.recording import Chunk, LogFile

# Bytes read at a time: some ten thousand rows.
BLOCK_BYTES = 1 << 20
# The last bytes read are compared again, to detect a log that was overwritten.
_TAIL_BYTES = 128


class GrowingLog:
    """A delimited text log that grows: `read` gives the rows completed since the last call.

    A last line without a newline is kept until it is complete. The format is detected once as many lines exist as
    `read_recording` uses, so that both read the same numbers; until then rows are kept. A log that was moved, replaced,
    truncated or overwritten raises an error, since the bytes read before are no longer its beginning.
    """

    def __init__(self, path: Path, columns: Sequence[str], delimiter: str | None = None) -> None:
        if delimiter is not None and delimiter not in DELIMITERS:
            raise DataError(choices("delimiter", delimiter, (repr(mark) for mark in DELIMITERS)))
        _check_is_text(path)
        self.path, self.columns, self.delimiter = path, tuple(columns), delimiter
        self._stream = path.open("rb", buffering=0)
        self._file = _identity(os.fstat(self._stream.fileno()))
        self._hash = hashlib.sha256()
        self._tail = b""
        self._encoding: str | None = None
        self._decoder: codecs.IncrementalDecoder | None = None
        self._held = b""  # UTF-8 that was read but not yet parsed
        self._parser: DelimitedRows | None = None
        self._damage: DataError | None = None
        self.offset = 0
        self.size = 0
        self.rows = 0
        self.line = 1

    def __enter__(self) -> GrowingLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stream.close()

    @property
    def sha256(self) -> str:
        """Hash of the bytes read so far; equals that of the file once all of it was read."""
        return self._hash.hexdigest()

    @property
    def unfinished(self) -> bool:
        """True if the bytes read so far end in an incomplete line."""
        return bool(self._held) and not self._held.endswith(b"\n")

    def read(self) -> Chunk:
        """New complete rows, {column: (m,)}; empty if there are none yet. Reads at most one block."""
        if self._damage is not None:
            raise self._damage
        self._check_is_same()
        raw = self._stream.read(BLOCK_BYTES) or b""
        if raw:
            self.offset += len(raw)
            self._hash.update(raw)
            self._tail = (self._tail + raw)[-_TAIL_BYTES:]
            text = self._decoded(raw)  # includes the held bytes while the encoding is not known
            self._held += text
        return self._finished_rows(ended=False)

    def end(self) -> Chunk:
        """The remaining rows at the end of the log; an incomplete last line is left out."""
        return self._finished_rows(ended=True)

    def _finished_rows(self, ended: bool) -> Chunk:
        cut = self._held.rfind(b"\n") + 1
        if len(self._held) - cut > LONGEST_LINE:
            raise DataError(f"Line {self.line} of '{self.path}' has no end: this is not a text log, or it is damaged.")
        if self._parser is None:
            if not (ended or shows_dialect(self._held[:cut])):
                return self._none()
            cut -= self._open(self._held[:cut])
        lines, self._held = self._held[:cut], self._held[cut:]
        if not lines or self._parser is None:
            return self._none()
        chunk, self._damage = self._parser.parsed(lines, self.columns, self.rows, self.line)
        self.rows += chunk[self.columns[0]].size
        self.line += lines.count(b"\n")
        return chunk

    def _open(self, lines: bytes) -> int:
        """Detect the format of the log; removes its preamble and header and returns their length [bytes]."""
        if not lines:
            raise DataError(f"'{self.path}' has no complete line yet. Check that the logger writes to it.")
        dialect: Dialect = dialect_of(lines, self.path, self._encoding or "utf-8", self.delimiter, whole=False)
        missing = [name for name in self.columns if name not in dialect.columns]
        if missing:
            shown = ", ".join(dialect.columns[:20]) + (", …" if len(dialect.columns) > 20 else "")
            raise DataError(
                f"'{self.path}' lacks the columns {', '.join(missing)}, which the project maps to the robot. It has: "
                f"{shown}. Is it a log of another robot or logger?"
            )
        self._parser, self.line = DelimitedRows(LogFile.at(self.path), dialect, finished_only=True), dialect.line
        before = len(lines) - len(lines.split(b"\n", dialect.line - 1)[-1])
        self._held = self._held[before:]
        return before

    def _decoded(self, raw: bytes) -> bytes:
        """The bytes as UTF-8 without a byte order mark."""
        if self._encoding is None:
            raw, self._held = self._held + raw, b""
            if len(raw) < len(codecs.BOM_UTF8):
                return raw  # a byte order mark may still follow
            self._encoding = "utf-16" if raw[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8"
            if self._encoding == "utf-16":
                self._decoder = codecs.getincrementaldecoder("utf-16")("replace")
            raw = raw.removeprefix(codecs.BOM_UTF8)
        return raw if self._decoder is None else self._decoder.decode(raw).encode()

    def _check_is_same(self) -> None:
        try:
            now = os.stat(self.path)
        except OSError as error:
            raise DataError(
                f"'{self.path}' is gone ({error.strerror}): moved, deleted or rotated while it was followed. Follow "
                "the new log with a new command."
            ) from None
        self.size = now.st_size
        what = ""
        if _identity(now) != self._file:
            what = "was replaced by another file (rotated?)"
        elif now.st_size < self.offset:
            what = f"became shorter, {now.st_size} bytes of the {self.offset} that were read (truncated?)"
        elif self._tail:
            self._stream.seek(self.offset - len(self._tail))
            what = "" if self._stream.read(len(self._tail)) == self._tail else "was overwritten"
        if what:
            raise DataError(
                f"'{self.path}' {what} while it was followed: its rows no longer continue those before. Let the logger "
                "append, and follow the new log with a new command."
            )

    def _none(self) -> Chunk:
        return {name: np.empty(0) for name in self.columns}


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _check_is_text(path: Path) -> None:
    """Raises an error unless the log can grow row by row, by its extension and first bytes; an empty file may."""
    try:
        empty = path.is_file() and path.stat().st_size == 0
    except (OSError, ValueError) as error:
        raise DataError(f"'{path}' cannot be opened ({error}). Check the path and its permissions.") from None
    suffix = path.suffix.lower()
    if suffix not in DELIMITED if empty else log_kind(path) != DELIMITED:
        raise DataError(
            f"'{path}' cannot be followed: only text logs ({' '.join(DELIMITED)}) can be read while they are written. "
            "Use `steelyard identify` once it is complete."
        )
