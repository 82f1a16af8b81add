"""Faults at the file operations of a program: a fork of this process is killed, signalled or refused at the k-th one.

The operations are seen by an audit hook, so that none can go around it: files opened for writing, renames, exchanges,
folders made, files and folders removed, permissions changed.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steelyard.__main__ import stop_on_signals

SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT}
# From the k-th operation on a full disk refuses what needs room, and one that is read-only everything; a damaged one
# refuses the k-th operation alone.
ERRORS = {"ENOSPC": errno.ENOSPC, "EROFS": errno.EROFS, "EIO": errno.EIO}
KINDS = (*SIGNALS, *ERRORS)
_NEEDS_ROOM = ("open", "os.mkdir")
_EVENTS = (*_NEEDS_ROOM, "os.rename", "os.chmod", "os.remove", "os.rmdir")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
# Exit code of a fork whose function raised what it should not.
RAISED = 99


@dataclass(frozen=True)
class Ended:
    """How a fork ended: its exit code, or minus the signal; the operations it began; what it printed."""

    code: int
    operations: tuple[str, ...]
    printed: str


@dataclass
class _Watch:
    """The audit hook of a fork."""

    place: str
    kind: str
    at: int
    log: int
    seen: int = 0
    busy: bool = field(default=False)

    def __call__(self, event: str, given: tuple[Any, ...]) -> None:
        if self.busy or event not in _EVENTS or not self._is_write(event, given):
            return
        self.busy = True
        try:
            self.seen += 1
            os.write(self.log, f"{event} {os.fsdecode(given[0])}\n".encode("utf-8", "backslashreplace"))
        finally:
            self.busy = False
        if self.kind in SIGNALS and self.seen == self.at:
            os.kill(os.getpid(), SIGNALS[self.kind])
        if self.kind in ERRORS and self._refuses(event):
            code = ERRORS[self.kind]
            raise OSError(code, os.strerror(code), given[0])

    def _refuses(self, event: str) -> bool:
        if self.kind == "EIO" or self.seen < self.at:
            return self.seen == self.at
        return self.kind == "EROFS" or event in _NEEDS_ROOM

    def _is_write(self, event: str, given: tuple[Any, ...]) -> bool:
        if not isinstance(given[0], str | bytes | os.PathLike):
            return False
        if event == "open" and not (given[2] or 0) & _WRITES:
            return False
        path = os.fsdecode(given[0])
        # `shutil.rmtree` names what it removes relative to an open folder
        return path.startswith(self.place) if os.path.isabs(path) else given[-1] != -1 or self.place in os.getcwd()


def forked(function: Callable[[], object], watch: Path, kind: str = "", at: int = 0, most_bytes: int = 0) -> Ended:
    """Run the function in a fork; its `at`-th operation on paths below `watch` (from 1) meets a fault of this kind.

    With `most_bytes` no file may grow longer: a disk that is full in the middle of a file.
    """
    reading, writing = os.pipe()
    printing, printed = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        os.close(printed)
        with os.fdopen(printing, "rb") as stream, os.fdopen(reading, "rb") as log:
            text = stream.read()
            operations = log.read().decode().splitlines()
        _, status = os.waitpid(child, 0)
        return Ended(os.waitstatus_to_exitcode(status), tuple(operations), text.decode("utf-8", "replace"))
    code = RAISED
    try:
        os.close(reading)
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        if most_bytes:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
        stop_on_signals()
        sys.addaudithook(_Watch(str(watch), kind, at, writing))
        function()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        os.write(2, traceback.format_exc().encode("utf-8", "backslashreplace"))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder by its path in it, and empty folders."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes()
        elif not any(path.iterdir()):
            found[f"{path.relative_to(folder)}/"] = b""
    return found
