"""Fuzz every reader: executions, outcomes and failures per reader (`make fuzz`).

Each reader runs in a process of its own with a limit of memory, and decodes there: a reader process per input would
take most of the time. Where a library crashes or never returns, the input is given to the reader as users run it, with
the limits of its reader process around the library: it must be refused ("contained"), else it is a failure.

Where Atheris is installed, mutations that reach new code are kept and mutated further ("guided").

Failing inputs go to --found; put a fixed one into tests/fuzz/regressions/READER, where the test suite reads it for ever
after.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

try:
    import atheris
except ImportError:
    atheris = None

# What is open to files from outside; more would only start slower.
INSTRUMENTED = [
    "steelyard.formats",
    "steelyard.project.spec",
    "steelyard.project.documents",
    "steelyard.project.reopen",
]

if atheris is not None and "--guided" in sys.argv:
    with atheris.instrument_imports(include=INSTRUMENTED):
        import testbed.fuzz.readers  # noqa: F401

from testbed.fuzz.campaign import (
    LONGEST_S,
    MEMORY,
    Campaign,
    campaign,
    interrupt_when_slow,
    limit_memory,
    scratch,
    seeds,
)
from testbed.fuzz.readers import READERS, decode_here, try_to_read

# A process writes its tally every second. One that worked longer since [s of processor time] is held up by a library,
# and so is one that waited for so long [s], be the machine ever so busy.
HELD_UP_S = LONGEST_S + 5.0
WAITED_S = 600.0


@dataclass
class Row:
    """What the processes of one reader did, one after another."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: set[str] = field(default_factory=set)
    seconds: float = 0.0
    processor_s: float = 0.0
    slowest: float = 0.0
    coverage: str = ""

    @property
    def executions(self) -> int:
        return self.outcomes.total()

    def add(self, tally: Mapping) -> None:
        self.outcomes.update(tally["outcomes"])
        self.failures.update(tally["failures"])
        self.seconds += tally["seconds"]
        self.processor_s += tally["processor_s"]
        self.slowest = max(self.slowest, tally["slowest"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600.0, help="time for all readers together [s]")
    parser.add_argument("--least", type=int, default=20_000, help="executions per reader, if they take longer")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--readers", default=",".join(READERS), help="comma-separated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--found", type=Path, default=Path("fuzz-found"), help="folder for failing inputs")
    parser.add_argument("--blind", action="store_true", help="do not use Atheris")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--guided", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--refused", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.refused:
        return _is_refused(asked)
    if asked.one:
        return _one(asked)
    names = asked.readers.split(",")
    asked.seconds *= asked.jobs / len(names)
    with ThreadPoolExecutor(asked.jobs) as pool:
        rows = list(pool.map(lambda name: _shown(name, _supervised(name, asked)), names))
    total = sum(row.executions for row in rows)
    failed = sum(len(row.failures) for row in rows)
    least = min(row.executions for row in rows)
    print(
        f"{total} executions, at least {least} per reader, {failed} distinct failures; "
        f"limits: {LONGEST_S} s, {MEMORY >> 30} GB per input"
    )
    return failed > 0


def _supervised(name: str, asked: argparse.Namespace) -> Row:
    """Processes of one reader until it had its time and its executions; a library may end or stop any of them."""
    row, seed = Row(), asked.seed
    while row.seconds < asked.seconds or row.executions < asked.least:
        with scratch() as folder:
            place = Path(folder)
            seed += 1000
            failed, said = _process(name, asked, row, seed, place)
            tally = place / "tally.json"
            if tally.is_file():
                row.add(json.loads(tally.read_text()))
            row.coverage = (re.findall(r"\bcov: (\d+)", said) or [row.coverage])[-1]
            if not failed:
                continue
            if not (place / "input").is_file():
                row.failures.add(f"does not start: {said[-2000:]}")
                return row
            content = (place / "input").read_bytes()
        if _contained(name, asked, content):
            row.outcomes["contained"] += 1
        else:
            row.outcomes["failed"] += 1
            row.failures.add(_kept(asked.found / name, content, f"{failed}\n{said[-5000:]}"))
    return row


def _process(name: str, asked: argparse.Namespace, row: Row, seed: int, place: Path) -> tuple[str, str]:
    """Run one process; returns how a library ended or stopped it ("" if it came to its end), and what it said."""
    command = [sys.executable, __file__, "--one", name, "--place", str(place), "--seed", str(seed)]
    command += ["--seconds", str(asked.seconds - row.seconds), "--least", str(asked.least - row.executions)]
    command += ["--found", str(asked.found.resolve())]
    if atheris is not None and not asked.blind:
        command.append("--guided")
    tally, failed = place / "tally.json", ""
    with (place / "said").open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, cwd=place)
        last, used, since = -1, 0.0, time.monotonic()
        while process.poll() is None:
            time.sleep(0.1)
            if tally.is_file() and tally.stat().st_mtime_ns != last:
                last, used, since = tally.stat().st_mtime_ns, _processor_s(process.pid), time.monotonic()
            worked = _processor_s(process.pid) - used if last > 0 else 0.0
            if worked > HELD_UP_S or time.monotonic() - since > WAITED_S:
                failed = f"no answer after {worked:.0f} s of processor time"
                process.kill()
                break
    code = process.wait()
    return failed or (f"ended with {code}" if code else ""), (place / "said").read_text("utf-8", "replace")


def _processor_s(number: int) -> float:
    """Processor time of a process so far [s]; 0 once it has ended."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _contained(name: str, asked: argparse.Namespace, content: bytes) -> bool:
    """Whether the reader refuses the input as users run it."""
    with scratch() as folder:
        (Path(folder) / "input").write_bytes(content)
        command = [sys.executable, __file__, "--one", name, "--place", folder, "--refused"]
        limits = {"STEELYARD_READER_SECONDS": str(LONGEST_S), "STEELYARD_READER_GB": str(MEMORY / 1e9)}
        try:
            return subprocess.run(command, env=os.environ | limits, timeout=3 * LONGEST_S).returncode == 0
        except subprocess.TimeoutExpired:
            return False


def _is_refused(asked: argparse.Namespace) -> int:
    content = (asked.place / "input").read_bytes()
    return try_to_read(READERS[asked.one], content, asked.place) != "refused"


def _one(asked: argparse.Namespace) -> int:
    decode_here()
    limit_memory()
    interrupt_when_slow()
    report = _Report(asked)
    if asked.guided:
        return _guided(asked, report)
    report(campaign(READERS[asked.one], asked.seconds, asked.seed, asked.least, report, asked.place), True)
    return 0


class _Report:
    """Writes a campaign's tally into its place, about once a second, and the failing inputs at its end."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked, self.last = asked, 0.0

    def __call__(self, done: Campaign, is_end: bool = False) -> None:
        if not is_end and done.seconds - self.last < 1.0:
            return
        self.last = done.seconds
        found = self.asked.found / self.asked.one
        tally = {
            "outcomes": done.outcomes,
            "failures": [
                _kept(found, content, f"{name}\n{done.traces[name]}") for name, content in done.failures.items()
            ],
            "seconds": done.seconds,
            "processor_s": done.processor_s,
            "slowest": done.slowest,
        }
        fresh = self.asked.place / "tally.part"
        fresh.write_text(json.dumps(tally))
        fresh.replace(self.asked.place / "tally.json")


def _guided(asked: argparse.Namespace, report: _Report) -> int:
    """Mutations by libFuzzer; its corpus lies in the folder of this process. It never returns, so the execution that
    finds the time over writes the report."""
    assert atheris is not None
    reader = READERS[asked.one]
    done = Campaign(reader, asked.place)
    corpus, folder = asked.place / "corpus", asked.place / "read"
    corpus.mkdir()
    folder.mkdir()
    for k, content in enumerate(seeds(reader)):
        (corpus / str(k)).write_bytes(content)
    started, used = time.monotonic(), time.process_time()

    def execute(content: bytes) -> None:
        done.run(content, folder)
        done.seconds, done.processor_s = time.monotonic() - started, time.process_time() - used
        is_end = done.seconds > asked.seconds and done.executions >= asked.least
        report(done, is_end)
        if is_end:
            sys.stderr.flush()
            shutil.rmtree(corpus)
            os._exit(0)

    options = [f"-seed={asked.seed + 1}", "-max_len=32768", "-timeout=0", "-rss_limit_mb=0", "-use_value_profile=1"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], execute)
    atheris.Fuzz()
    return 0


def _kept(folder: Path, content: bytes, text: str) -> str:
    """Keep a failing input and what it raised; returns the first line of that."""
    folder.mkdir(parents=True, exist_ok=True)
    key = hashlib.sha256(content).hexdigest()[:12]
    (folder / key).write_bytes(content)
    (folder / f"{key}.txt").write_text(text, "utf-8", "backslashreplace")
    return text.splitlines()[0]


def _shown(name: str, row: Row) -> Row:
    kinds = " ".join(f"{kind} {count}" for kind, count in sorted(row.outcomes.items()))
    rate, own = (row.executions / max(seconds, 1e-9) for seconds in (row.seconds, row.processor_s))
    failures = "".join(f"\n         {one}" for one in sorted(row.failures))
    speed = f"({rate:5.0f}/s, {own:5.0f} per processor second, slowest {row.slowest:.2f} s)"
    how = f"guided, coverage {row.coverage}" if row.coverage else "blind"
    print(f"{name:8} {row.executions:8} {speed}  {kinds}; {how}{failures}", flush=True)
    return row


if __name__ == "__main__":
    sys.exit(main())
