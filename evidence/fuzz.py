"""Fuzz every reader: executions, outcomes and failures per reader (`make fuzz`).

Each reader runs in a process of its own with a limit of memory. Where Atheris is installed, mutations that reach new
code are kept and mutated further ("guided"); readers that decode in a process of their own are mutated blindly.

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

from testbed.fuzz.campaign import APART, LONGEST_S, MEMORY, Campaign, campaign, limit_memory, scratch, seeds
from testbed.fuzz.readers import READERS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600.0, help="time for all readers together [s]")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--readers", default=",".join(READERS), help="comma-separated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--found", type=Path, default=Path("fuzz-found"), help="folder for failing inputs")
    parser.add_argument("--blind", action="store_true", help="do not use Atheris")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--guided", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        return _one(asked)
    names = asked.readers.split(",")
    share = asked.seconds * asked.jobs / len(names)
    waiting, running, rows = list(names), {}, {}
    while waiting or running:
        while waiting and len(running) < asked.jobs:
            name = waiting.pop(0)
            command = [sys.executable, __file__, "--one", name, "--seconds", str(share), "--seed", str(asked.seed)]
            guided = ["--guided"] if atheris is not None and not asked.blind and name not in APART else []
            running[name] = subprocess.Popen(
                [*command, "--found", str(asked.found), *guided],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        for name, process in list(running.items()):
            if process.poll() is not None:
                out, err = process.communicate()
                rows[name] = json.loads(out.splitlines()[-1]) if process.returncode == 0 else {"died": err[-2000:]}
                rows[name]["coverage"] = (re.findall(r"\bcov: (\d+)", err) or [""])[-1]
                print(_line(name, rows[name]), flush=True)
                del running[name]
        time.sleep(0.2)
    total = sum(row.get("executions", 0) for row in rows.values())
    failed = sum(len(row.get("failures", ())) + ("died" in row) for row in rows.values())
    print(f"{total} executions, {failed} distinct failures; limits: {LONGEST_S} s, {MEMORY >> 30} GB per input")
    return failed > 0


def _one(asked: argparse.Namespace) -> int:
    limit_memory()
    if asked.guided:
        return _guided(asked)
    return _report(asked, campaign(READERS[asked.one], asked.seconds, asked.seed))


def _guided(asked: argparse.Namespace) -> int:
    """Mutations by libFuzzer; its corpus lies in a folder of this process. It never returns, so the execution that
    finds the time over writes the report."""
    assert atheris is not None
    reader = READERS[asked.one]
    done = Campaign(reader)
    with scratch() as name:
        corpus, folder = Path(name) / "corpus", Path(name) / "input"
        corpus.mkdir()
        folder.mkdir()
        for k, content in enumerate(seeds(reader)):
            (corpus / str(k)).write_bytes(content)
        started, used = time.monotonic(), time.process_time()

        def execute(content: bytes) -> None:
            done.run(content, folder)
            done.seconds, done.processor_s = time.monotonic() - started, time.process_time() - used
            if done.seconds > asked.seconds:
                _report(asked, done)
                sys.stdout.flush()
                shutil.rmtree(name)
                os._exit(0)

        options = [f"-seed={asked.seed + 1}", "-max_len=32768", "-timeout=0", "-rss_limit_mb=0", "-use_value_profile=1"]
        atheris.Setup([sys.argv[0], *options, str(corpus)], execute)
        atheris.Fuzz()
    return 0


def _report(asked: argparse.Namespace, done: Campaign) -> int:
    for name, content in done.failures.items():
        folder = asked.found / asked.one
        folder.mkdir(parents=True, exist_ok=True)
        key = hashlib.sha256(content).hexdigest()[:12]
        (folder / key).write_bytes(content)
        (folder / f"{key}.txt").write_text(f"{name}\n{done.traces[name]}", "utf-8", "backslashreplace")
    print(
        json.dumps(
            {
                "executions": done.executions,
                "seconds": done.seconds,
                "processor_s": done.processor_s,
                "slowest": done.slowest,
                "outcomes": done.outcomes,
                "failures": sorted(done.failures),
            }
        )
    )
    return 0


def _line(name: str, row: dict) -> str:
    if "died" in row:
        return f"{name:8} DIED\n{row['died']}"
    kinds = " ".join(f"{kind} {count}" for kind, count in sorted(row["outcomes"].items()))
    rate = row["executions"] / max(row["seconds"], 1e-9)
    own = row["executions"] / max(row["processor_s"], 1e-9)
    failures = "".join(f"\n         {one}" for one in row["failures"])
    speed = f"({rate:5.0f}/s, {own:5.0f} per processor second, slowest {row['slowest']:.2f} s)"
    how = f"guided, coverage {row['coverage']}" if row["coverage"] else "blind"
    return f"{name:8} {row['executions']:8} {speed}  {kinds}; {how}{failures}"


if __name__ == "__main__":
    sys.exit(main())
