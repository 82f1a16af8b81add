"""A text log that is still being written: its rows as they come, whole lines only."""

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

# Read at a time: some ten thousand rows.
BLOCK_BYTES = 1 << 20
# The last bytes that were read are looked at again: a log that was written anew is told by them.
_TAIL_BYTES = 128


class GrowingLog:
    """A delimited text log that grows: `read` gives the rows that were finished since the last call.

    A last line without a newline waits for its rest. How the log is written is found out when as many lines are there
    as `read_recording` looks at, so that both read the same numbers; until then rows wait. A log that was moved,
    replaced, cut or written anew is an error: what was read of it is no longer its beginning.
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
        self._held = b""  # UTF-8 that was read and not yet parsed
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
        """Hash of the bytes read so far; that of the file where all of it was read."""
        return self._hash.hexdigest()

    @property
    def unfinished(self) -> bool:
        """True if what was read ends in half a line."""
        return bool(self._held) and not self._held.endswith(b"\n")

    def read(self) -> Chunk:
        """Finished rows that are new, {column: (m,)}; none where there are none yet. It reads a block at most."""
        if self._damage is not None:
            raise self._damage
        self._check_is_same()
        raw = self._stream.read(BLOCK_BYTES) or b""
        if raw:
            self.offset += len(raw)
            self._hash.update(raw)
            self._tail = (self._tail + raw)[-_TAIL_BYTES:]
            text = self._decoded(raw)  # takes what is held along while the encoding is not known
            self._held += text
        return self._finished_rows(ended=False)

    def end(self) -> Chunk:
        """The rows that still wait when nothing more will come; half a last line is left out."""
        return self._finished_rows(ended=True)

    def _finished_rows(self, ended: bool) -> Chunk:
        cut = self._held.rfind(b"\n") + 1
        if len(self._held) - cut > LONGEST_LINE:
            raise DataError(f"Line {self.line} of '{self.path}' does not end: this is no text log, or it is damaged.")
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
        """Find out how the log is written; its preamble and header are dropped and their length [bytes] returned."""
        if not lines:
            raise DataError(f"'{self.path}' has no finished line yet. Check that the logger writes to it.")
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
                return raw  # a mark may still come
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
                f"'{self.path}' is gone ({error.strerror}): moved, deleted or rotated while it was followed. "
                "Follow the new log with a command of its own."
            ) from None
        self.size = now.st_size
        what = ""
        if _identity(now) != self._file:
            what = "was replaced by another file (rotated?)"
        elif now.st_size < self.offset:
            what = f"became shorter, {now.st_size} bytes of the {self.offset} that were read (truncated?)"
        elif self._tail:
            self._stream.seek(self.offset - len(self._tail))
            what = "" if self._stream.read(len(self._tail)) == self._tail else "was written anew"
        if what:
            raise DataError(
                f"'{self.path}' {what} while it was followed: its rows no longer continue those before. "
                "Have the logger append, and follow the new log with a command of its own."
            )

    def _none(self) -> Chunk:
        return {name: np.empty(0) for name in self.columns}


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _check_is_text(path: Path) -> None:
    """A log that can grow row by row, by its extension and first bytes; an empty file may become one."""
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
