"""Start-up: user + system time of `import steelyard`, `steelyard --help` and `steelyard params --help` [s].

Each runs in a fresh process, best of five, with the file cache warm; the start of the interpreter is included. The bar
is the time limit.

`python benchmarks/door.py` prints a table, `--json` the numbers.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys

REPEATS = 5
# What is run, and its bar [s].
CASES = {
    "import steelyard": (["-c", "import steelyard"], 0.4),
    "steelyard --help": (["-m", "steelyard", "--help"], 0.6),
    "steelyard params --help": (["-m", "steelyard", "params", "--help"], 0.6),
}


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def processor_seconds(arguments: list[str]) -> float:
    """User and system time of one run of Python with these arguments."""
    before = _children()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return _children() - before


def bench_door() -> dict[str, dict[str, float]]:
    """Best of several runs and the bar of each case, after one run that is not counted."""
    found = {}
    for name, (arguments, bar) in CASES.items():
        processor_seconds(arguments)
        found[name] = {"seconds": min(processor_seconds(arguments) for _ in range(REPEATS)), "bar": bar}
    return found


def door_table(found: dict[str, dict[str, float]]) -> list[str]:
    return [f"{name:36}  {one['seconds']:8.2f} s  (bar {one['bar']:.1f})" for name, one in found.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found = bench_door()
    print(json.dumps(found, indent=1) if chosen.json else "\n".join(door_table(found)))


if __name__ == "__main__":
    main()
