"""Fuzz every reader: executions, outcomes and failures per reader (`make fuzz`).

Each reader runs in a process of its own with a limit of memory. Failing inputs go to --found; put a fixed one into
tests/fuzz/regressions/READER, where the test suite reads it for ever after.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from testbed.fuzz.campaign import LONGEST_S, MEMORY, campaign, limit_memory
from testbed.fuzz.readers import READERS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600.0, help="time for all readers together [s]")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--readers", default=",".join(READERS), help="comma-separated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--found", type=Path, default=Path("fuzz-found"), help="folder for failing inputs")
    parser.add_argument("--one", help=argparse.SUPPRESS)
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
            running[name] = subprocess.Popen(
                [*command, "--found", str(asked.found)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        for name, process in list(running.items()):
            if process.poll() is not None:
                out, err = process.communicate()
                rows[name] = json.loads(out.splitlines()[-1]) if process.returncode == 0 else {"died": err[-2000:]}
                print(_line(name, rows[name]), flush=True)
                del running[name]
        time.sleep(0.2)
    total = sum(row.get("executions", 0) for row in rows.values())
    failed = sum(len(row.get("failures", ())) + ("died" in row) for row in rows.values())
    print(f"{total} executions, {failed} distinct failures; limits: {LONGEST_S} s, {MEMORY >> 30} GB per input")
    return failed > 0


def _one(asked: argparse.Namespace) -> int:
    limit_memory()
    done = campaign(READERS[asked.one], asked.seconds, asked.seed)
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
    speed = f"{rate:5.0f}/s, {own:5.0f} per processor second, slowest {row['slowest']:.2f} s"
    return f"{name:8} {row['executions']:8} ({speed})  {kinds}{failures}"


if __name__ == "__main__":
    sys.exit(main())
