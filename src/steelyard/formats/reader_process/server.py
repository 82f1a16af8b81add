"""The reader process: answers questions about one log at a time, a line of JSON each, arrays as bytes after it."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from steelyard.errors import SteelyardError
from steelyard.formats.damage import DamagedError
from steelyard.formats.reader_process.limits import PIECE_S, limit
from steelyard.signals.recording import Recording

# Kill the process when its parent dies (Linux).
_PARENT_DEATH = 1


def main() -> None:
    """Serve until the caller closes the pipe. The memory limit [bytes] is the first argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the caller decides
    # libraries may print on stdout, which carries the answers
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    _die_with_parent()
    _limit_memory(int(sys.argv[1]))
    _leave_no_core()
    opened: dict[str, Recording] = {}
    for line in sys.stdin.buffer:
        try:
            asked = json.loads(line)
            os.environ.update({name: str(value) for name, value in asked["limits"].items()})
            os.chdir(asked["folder"])
            _limit_processor_time()
            _answer(asked, opened, lambda head, *arrays: _send(answers, head, arrays))
        except BrokenPipeError:
            return
        except BaseException as error:
            _send(answers, _described(error))


def _answer(asked: dict[str, Any], opened: dict[str, Recording], send: Callable[..., None]) -> None:
    """Send the pieces of an answer; the last one has the entry "end"."""
    if asked["kind"] == "unpack":
        from steelyard.formats.packed import PackedLog, unpack

        packed = PackedLog(Path(asked["path"]), asked["packing"], asked["member"])
        stopped = unpack(packed, Path(asked["plain"]), lambda done: send({"done": done}))
        send({"end": True, "stopped": stopped})
        return
    key = json.dumps([asked[name] for name in ("folder", "kind", "path", "salvage", "file")])
    if key not in opened:
        opened.clear()
        opened[key] = decoder(asked["kind"])(Path(asked["path"]), asked["salvage"])
    recording = opened[key]
    if "columns" in asked:
        for block in recording.opener.blocks(asked["columns"]):
            arrays = [np.ascontiguousarray(block[name], np.float64) for name in asked["columns"]]
            send({"rows": arrays[0].size}, *arrays)
        send({"end": True})
        return
    fields = ("name", "columns", "source", "rows", "notes", "others", "episode_column")
    send({"end": True, "recording": {name: getattr(recording, name) for name in fields}})


def decoder(kind: str) -> Callable[[Path, bool], Recording]:
    """The function that opens logs of a kind ("mat", "hdf5", "parquet") in the process that calls it."""
    if kind == "parquet":
        from steelyard.formats.logs.lerobot import read_parquet

        return read_parquet
    if kind == "mat":
        from steelyard.formats.logs.mat import read_mat

        return read_mat
    from steelyard.formats.logs.hdf5 import read_hdf5

    return read_hdf5


def _described(error: BaseException) -> dict[str, Any]:
    out: dict[str, Any] = {"end": True, "error": type(error).__name__, "message": str(error)}
    if isinstance(error, DamagedError):
        return out | {"problem": error.problem, "rows": int(error.rows), "fix": error.fix}
    if isinstance(error, SteelyardError):
        return out
    return out | {"trace": "".join(traceback.format_exception(error))}


def _send(answers: BinaryIO, head: dict[str, Any], arrays: Sequence[Any] = ()) -> None:
    answers.write(json.dumps(head).encode() + b"\n")
    for array in arrays:
        answers.write(array.data)
    answers.flush()
    _limit_processor_time()  # of the next piece


def _limit_memory(most: int) -> None:
    """Bound the address space beyond what the libraries take now."""
    try:
        import resource

        with open("/proc/self/statm") as stream:
            now = int(stream.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + most, now + most))
    except (ImportError, OSError, ValueError):  # not Linux: memory is bounded by declared sizes only
        pass


def _limit_processor_time() -> None:
    """Let the system end this process (SIGXCPU) when the next piece takes more processor time than the limit."""
    with suppress(ImportError, OSError, ValueError):  # not on Windows: the caller limits the time by the clock
        import resource

        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        most = math.ceil(time.process_time() + limit(PIECE_S))
        resource.setrlimit(resource.RLIMIT_CPU, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _leave_no_core() -> None:
    """A process that is ended by its limit would leave a core file in the folder of the user."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _die_with_parent() -> None:
    if sys.platform.startswith("linux"):
        import ctypes

        ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL)


if __name__ == "__main__":
    main()
