"""Standard streams that cannot fail a command: closed, full, or a pipe whose reader has left."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from steelyard.errors import OutputError


class _Stream:
    """A standard stream whose errors are handled by `_failed`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._failed(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._failed(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _failed(self, error: OSError) -> None:
        """By default what cannot be written is dropped."""
        silence(self._stream)


class _Stdout(_Stream):
    """Results: what cannot be written is an error of the command, except where the reader has left the pipe."""

    def _failed(self, error: OSError) -> None:
        if isinstance(error, BrokenPipeError):
            raise error
        silence(self._stream)
        raise OutputError(f"Cannot write to stdout: {error.strerror}.") from None


@contextmanager
def safe_streams() -> Iterator[None]:
    """Within it, a closed stdout or stderr is the null device, a full stdout raises an OutputError, and a
    full stderr drops its text."""
    before = sys.stdout, sys.stderr
    with ExitStack() as opened:
        for name, stream in (("stdout", sys.stdout), ("stderr", sys.stderr)):
            if stream is None:  # closed before the start (`>&-`)
                setattr(sys, name, opened.enter_context(open(os.devnull, "w", encoding="utf-8")))
        sys.stdout, sys.stderr = _Stdout(sys.stdout), _Stream(sys.stderr)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


def silence(stream: Any) -> None:
    """Send what a stream still holds, and all that follows, to the null device."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def flush_stdout() -> None:
    """Write what stdout still holds, unless the reader has left the pipe."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout)
