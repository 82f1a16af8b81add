"""The caller's side: starts reader processes, asks them, and turns their end into a sentence."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from steelyard import errors
from steelyard.errors import DataError
from steelyard.formats.damage import DamagedError
from steelyard.formats.reader_process.limits import MEMORY_GB, MOST_WAITS, PIECE_S, UNPACKED_GB, limit
from steelyard.signals.recording import Chunk, LogFile, Recording

_SERVE = "import sys, json; sys.path[:] = json.loads(sys.argv.pop(1)); from {} import main; main()"
_SERVER = "steelyard.formats.reader_process.server"
# The signal that ends a process beyond its processor time; systems without it (0) limit the time by the clock alone.
_OVERTIME = int(getattr(signal, "SIGXCPU", 0))
# Processes without work; starting one takes half a second.
_idle: list[ReaderProcess] = []


class ReaderDefectError(RuntimeError):
    """An unexpected exception in a reader process; its traceback is a note."""


def read_apart(kind: str, path: Path, salvage: bool = False) -> Recording:
    """The recording in a file of a kind ("mat", "hdf5", "parquet"), opened and read in processes of their own."""
    file = LogFile.at(path)
    asked = {"kind": kind, "path": str(path), "salvage": salvage, "file": [file.size, file.modified_ns]}
    (head,) = (head for head, _ in _answers(asked, path))
    found = head["recording"]
    return Recording(
        found["name"], tuple(found["columns"]), found["source"], found["rows"], _RowsApart(file, asked),
        notes=tuple(found["notes"]), others=tuple(found["others"]), episode_column=found["episode_column"],
    )  # fmt: skip


def unpack_apart(file: Path, packing: str, member: str, plain: Path) -> str | None:
    """Unpack a file into `plain`; returns what stopped it early, as part of a sentence."""
    asked = {"kind": "unpack", "path": str(file), "packing": packing, "member": member, "plain": str(plain)}
    *_, (head, _) = _answers(asked, file)
    return head["stopped"]


@dataclass(frozen=True)
class _RowsApart:
    """The rows of a recording, from a reader process."""

    file: LogFile
    asked: dict[str, Any]

    def digest(self) -> str:
        return self.file.digest()

    def blocks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        self.file.check_unchanged()
        for _, block in _answers(self.asked | {"columns": list(columns)}, self.file.path):
            if block:
                yield block


class ReaderProcess:
    """A process that answers one question after another; limits are those at its start."""

    def __init__(self) -> None:
        self.memory, self.owner = limit(MEMORY_GB), os.getpid()
        paths = [os.path.abspath(place) for place in sys.path]
        command = [sys.executable, "-I", "-c", _SERVE.format(_SERVER), json.dumps(paths), str(int(1e9 * self.memory))]
        threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")}
        threads["POLARS_MAX_THREADS"] = "4"  # each reserves address space
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=os.environ | threads,
        )  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.questions, self.replies = self.process.stdin, self.process.stdout

    def ask(self, asked: dict[str, Any]) -> None:
        stated = {kind[0]: limit(kind) for kind in (UNPACKED_GB, PIECE_S)}
        question = asked | {"limits": stated, "folder": _folder()}
        self.questions.write(json.dumps(question).encode() + b"\n")
        self.questions.flush()

    def answer(self, columns: Sequence[str], seconds: float) -> tuple[dict[str, Any], Chunk]:
        """The next piece of the answer; EOFError if the process ended, TimeoutError if the clock ran out."""
        late = threading.Event()

        def stop() -> None:
            late.set()
            self.process.kill()

        timer = threading.Timer(seconds, stop)
        timer.daemon = True
        timer.start()
        try:
            line = self.replies.readline()
            head: dict[str, Any] | None = json.loads(line) if line.endswith(b"\n") else None
            rows = None if head is None or "end" in head else head.get("rows")
            block = {} if rows is None else {name: self._numbers(rows) for name in columns}
        except (ValueError, EOFError):
            head, block = None, {}
        finally:
            timer.cancel()
        if late.is_set():
            raise TimeoutError
        if head is None:
            raise EOFError
        return head, block

    def end(self) -> int:
        """End the process; returns what it ended with."""
        self.process.kill()
        for stream in (self.questions, self.replies):
            with suppress(OSError):
                stream.close()
        return self.process.wait()

    def _numbers(self, rows: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        out = np.empty(rows)
        view, got = memoryview(out.view(np.uint8).data), 0
        while got < view.nbytes:
            more = self.replies.readinto(view[got:])  # type: ignore[attr-defined]
            if not more:
                raise EOFError
            got += more
        return out


def _answers(asked: dict[str, Any], path: Path) -> Iterator[tuple[dict[str, Any], Chunk]]:
    """Every piece of an answer; an error of the reader is raised here as it was there."""
    columns = asked.get("columns", ())
    process = _free()
    finished = False
    try:
        process.ask(asked)
        while not finished:
            head, block = process.answer(columns, _longest_wait())
            finished = "end" in head
            if "error" in head:
                raise _again(head, path, process.memory)
            yield head, block
    except TimeoutError:
        process.end()
        raise (_waited_too_long if _OVERTIME else _decoded_too_long)(path) from None
    except (EOFError, BrokenPipeError):
        with suppress(subprocess.TimeoutExpired):
            process.process.wait(1.0)  # for the code it ended with
        ended = process.end()
        if ended == -_OVERTIME:
            raise _decoded_too_long(path) from None
        raise DataError(
            f"'{path}' makes the library that decodes it crash (code {ended}): it is damaged. Copy it again, or export "
            "the log in another format, such as CSV or Parquet."
        ) from None
    finally:
        if finished and process.process.poll() is None:
            _idle.append(process)
        else:
            process.end()


def _longest_wait() -> float:
    """Time by the clock [s] that a piece may take."""
    return limit(PIECE_S) * (MOST_WAITS if _OVERTIME else 1)


def _decoded_too_long(path: Path) -> DataError:
    return DataError(
        f"'{path}' takes longer than {limit(PIECE_S):g} s of processor time to decode one piece: it is damaged or made "
        f"to. Export the log again, or set the environment variable {PIECE_S[0]} to a larger number."
    )


def _waited_too_long(path: Path) -> DataError:
    return DataError(
        f"'{path}' was not decoded within {_longest_wait():g} s, although less than {limit(PIECE_S):g} s of processor "
        "time were used: the machine may be busy, or the drive slow. Try again later, or set the environment variable "
        f"{PIECE_S[0]} to a number larger than {limit(PIECE_S):g}."
    )


def _again(head: dict[str, Any], path: Path, memory: float) -> Exception:
    kind, message = head["error"], head["message"]
    if kind == "DamagedError":
        return DamagedError(head["problem"], head["rows"], head["fix"])
    if kind == "MemoryError":
        return DataError(
            f"'{path}' needs more than {memory:g} GB of memory to decode: it is damaged, or very large. Export the log "
            f"again in parts, or set the environment variable {MEMORY_GB[0]} to a larger number."
        )
    if "trace" in head:
        defect = ReaderDefectError(f"{kind}: {message}")
        defect.add_note(head["trace"])  # for the report of the defect
        return defect
    found = getattr(errors, kind, DataError)
    error = found.__new__(found)
    Exception.__init__(error, message)
    return error


def _folder() -> str:
    """Where relative paths start: the caller may have changed folder since the process was started."""
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was deleted; absolute paths are read all the same
        return os.path.abspath(os.sep)


def _free() -> ReaderProcess:
    """A process without work, or a new one."""
    while _idle:
        one = _idle.pop()
        if one.owner != os.getpid():
            continue  # of the process that this one was forked from
        if one.process.poll() is None and one.memory == limit(MEMORY_GB):
            return one
        one.end()
    return ReaderProcess()


@atexit.register
def _end_all() -> None:
    while _idle:
        one = _idle.pop()
        if one.owner == os.getpid():
            one.end()
