"""A campaign: one reader, for a time, with every failure once: what was raised, where, and the input."""

from __future__ import annotations

import faulthandler
import gzip
import resource
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from testbed.fuzz.mutations import mutated, packed
from testbed.fuzz.readers import CORPUS, REGRESSIONS, Reader, try_to_read

# An input that takes longer is a failure [s of processor time; a reader process has its own limit].
LONGEST_S = 10
# The address space of the process that reads [bytes], beyond what it has at the start.
MEMORY = 2 << 30
_PACKED = ("gzip", "zip", "zstd")
_TEXTS = (
    "urdf", "mjcf", "sdf", "table", "shapes", "limits", "project", "result", "csv", "growing", "info", "mesh", *_PACKED,
)  # fmt: skip


class TooSlowError(BaseException):
    """An input took longer than `LONGEST_S`; not an Exception, so that no reader can hold it for damage."""


@dataclass
class Campaign:
    """Executions by outcome, and one input per distinct failure. The input at work is in the file `input` of `place`,
    for those who find this process dead."""

    reader: Reader
    place: Path | None = None
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: dict[str, bytes] = field(default_factory=dict)
    traces: dict[str, str] = field(default_factory=dict)
    slowest: float = 0.0
    seconds: float = 0.0
    processor_s: float = 0.0

    @property
    def executions(self) -> int:
        return self.outcomes.total()

    def run(self, content: bytes, folder: Path) -> None:
        """One execution."""
        started = time.process_time()
        if self.place is not None:
            (self.place / "input").write_bytes(content)
        signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self.outcomes[try_to_read(self.reader, content, folder)] += 1
        except (Exception, TooSlowError) as error:
            self.outcomes["failed"] += 1
            name = _place(error)
            if name not in self.failures or len(content) < len(self.failures[name]):
                self.failures[name] = content
                self.traces[name] = "".join(traceback.format_exception(error)[-12:])
        except BaseException as error:  # a panic of a compiled library
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            self.outcomes["failed"] += 1
            self.failures.setdefault(_place(error), content)
            self.traces.setdefault(_place(error), "".join(traceback.format_exception(error)[-12:]))
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        self.slowest = max(self.slowest, time.process_time() - started)


def seeds(reader: Reader) -> list[bytes]:
    """The corpus of a reader and its regressions."""
    folders = (CORPUS / reader.name, REGRESSIONS / reader.name)
    return [file.read_bytes() for folder in folders if folder.is_dir() for file in sorted(folder.iterdir())]


def campaign(
    reader: Reader,
    seconds: float,
    seed: int,
    executions: int = 0,
    report: Callable[[Campaign], None] = lambda done: None,
    place: Path | None = None,
) -> Campaign:
    """Mutations of the corpus for a time [s] and a number of executions, whichever takes longer; `report` is called
    after each."""
    interrupt_when_slow()
    rng = np.random.default_rng(seed)
    known = seeds(reader)
    inner = known
    if reader.name in _PACKED:
        inner = [gzip.decompress(content) for content in seeds_of("gzip")]
    out = Campaign(reader, place)
    with scratch() as name:
        folder, started, used = Path(name), time.monotonic(), time.process_time()
        for content in known:
            out.run(content, folder)
        while True:
            out.seconds, out.processor_s = time.monotonic() - started, time.process_time() - used
            report(out)
            if out.seconds >= seconds and out.executions >= executions:
                return out
            if inner is not known and rng.random() < 0.5:
                content = packed(reader.name, mutated(rng, inner[int(rng.integers(len(inner)))], inner, True))
            else:
                is_text = reader.name in _TEXTS and reader.name not in _PACKED
                content = mutated(rng, known[int(rng.integers(len(known)))], known, is_text)
            out.run(content, folder)


def seeds_of(name: str) -> list[bytes]:
    return [file.read_bytes() for file in sorted((CORPUS / name).iterdir())]


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder in memory where the system has one: the disk would be most of the time."""
    shared = Path("/dev/shm")
    return tempfile.TemporaryDirectory(prefix="steelyard-fuzz-", dir=shared if shared.is_dir() else None)


def limit_memory() -> None:
    """Bound the address space of this process."""
    faulthandler.enable()
    with open("/proc/self/statm") as stream:
        now = int(stream.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))


def interrupt_when_slow() -> None:
    """Raise `TooSlowError` when the time of an input is over."""
    signal.signal(signal.SIGPROF, _too_slow)


def _too_slow(number: int, frame: object) -> None:
    raise TooSlowError(f"more than {LONGEST_S} s")


def _place(error: BaseException) -> str:
    """The kind of an error and the last line of Steelyard that it came through."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if "/steelyard/" in one.filename]
    last = frames[-1] if frames else traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
