"""Interrupt every write of every command that writes files, and kill commands at random times (`make kill`).

Every file operation of a command is enumerated once. Then the command is run again for each operation, in a fork, and
is killed there or meets another fault in turn: SIGTERM, SIGINT, a full disk, a read-only one, a failing one. After
each, the next run is let recover what a killed one left; the place must then hold the earlier whole or the new whole.
"""

from __future__ import annotations

import argparse
import importlib
import os

os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")})

import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from steelyard.project.writing.scratch import recover
from testbed.faults import ERRORS, KINDS, RAISED, contents, forked

# Command, arguments, and the files or folders that it writes; "{old}" is a run folder that is not written.
COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "identify": ("identify arm.toml --out run --tables csv", ("run",)),
    "report": ("report old --out page.html", ("page.html",)),
    "export c": ("export old --to c --out code", ("code",)),
    "export python": ("export old --to python --out code.py", ("code.py",)),
    "export latex": ("export old --to latex --out table.tex", ("table.tex",)),
    "export urdf": ("export old --to urdf --out new.urdf", ("new.urdf",)),
    "payload": ("payload old validate.csv --out weighed", ("weighed",)),
    "watch": ("watch arm.toml --until-idle 0 --learn 0 --out watched", ("watched",)),
    "excite": (
        "excite planar2r --duration 2 --harmonics 2 --starts 1 --iterations 2 --out motion.csv --preview motion.html",
        ("motion.csv", "motion.html"),
    ),
    "init": ("init planar2r identify.csv --out draft.toml --force", ("draft.toml",)),
    "demo": ("demo planar2r --out tour", ("tour",)),
}


PRELOADED = (
    "cli.identify", "cli.export", "cli.payload", "cli.watch", "cli.excite", "cli.init", "project.run", "project.watch",
    "project.excite", "project.draft", "project.demos.demo", "project.excitation_document", "identification.weighing",
    "export.targets.registry", "export.code.c", "export.code.python", "export.robot_files.urdf_new", "report.page",
)  # fmt: skip


def command(folder: Path, arguments: str) -> None:
    """Run a command as the program does."""
    os.chdir(folder)
    sys.argv = ["steelyard", *arguments.split()]
    from steelyard.cli import main

    main()


def preload() -> None:
    """Import what the commands import, and their kernels, so that a fork need not. Nothing may start a thread."""
    for module in PRELOADED:
        importlib.import_module(f"steelyard.{module}")
    from steelyard.cli.identify import warm

    warm()


def prepared(folder: Path) -> None:
    """A project with a short log, a result, and what earlier runs of the commands left."""
    run = [sys.executable, "-m", "steelyard"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path[:2])}
    subprocess.run([*run, "demo", "planar2r", "--out", "made"], cwd=folder, env=environment, check=True, stderr=-3)
    for name in ("identify.csv", "validate.csv"):
        lines = (folder / "made" / name).read_text().splitlines(keepends=True)
        (folder / name).write_text("".join(lines[:6000]))
    shutil.copy(folder / "made" / "project.toml", folder / "arm.toml")
    shutil.rmtree(folder / "made")
    subprocess.run([*run, "identify", "arm.toml", "--out", "old"], cwd=folder, env=environment, check=True, stderr=-3)


def earlier(folder: Path, places: tuple[str, ...]) -> None:
    """The places as another run wrote them: with a mark at the end of every file."""
    for place in places:
        for file in [folder / place, *(folder / place).rglob("*")]:
            if file.is_file() and file.suffix in (".html", ".csv", ".tex", ".py", ".h", ".urdf"):
                with file.open("ab") as stream:
                    stream.write(b"\n")


def parts(folder: Path, places: tuple[str, ...]) -> list[dict[str, bytes]]:
    """What each place holds: a folder is one part, and so is a file."""
    return [
        contents(folder / place) if (folder / place).is_dir()
        else {place: (folder / place).read_bytes()} if (folder / place).is_file() else {}
        for place in places
    ]  # fmt: skip


def interrupted(name: str, folder: Path, kinds: list[str], most: int) -> tuple[int, Counter[str], list[str]]:
    """Operations of a command, faults that were met, and what went wrong."""
    arguments, places = COMMANDS[name]
    first = forked(lambda: command(folder, arguments), folder)
    if first.code:
        return 0, Counter(), [f"{name} does not run: {first.printed[-500:]}"]
    new = parts(folder, places)
    earlier(folder, places)
    old = parts(folder, places)
    saved = Path(tempfile.mkdtemp(dir=folder.parent))
    shutil.copytree(folder, saved / "folder")
    count = len(forked(lambda: command(folder, arguments), folder).operations)
    wrong, met = [], Counter[str]()
    for at in range(1, count + 1):
        for kind in ("SIGKILL", kinds[at % len(kinds)]):
            shutil.rmtree(folder)
            shutil.copytree(saved / "folder", folder)
            ended = forked(lambda: command(folder, arguments), folder, kind, at)
            met[kind] += 1
            for place in places:
                recover(folder / place)
            where = f"{name}, {kind} at operation {at} ({ended.operations[-1].replace(str(folder), '')})"
            found = parts(folder, places)
            wrong += [
                f"{where}: '{place}' holds neither run"
                for place, here, before, after in zip(places, found, old, new, strict=True)
                if here not in (before, after)
            ]
            left = {path for path in contents(folder) if path.startswith(".")}
            if left and kind != "EROFS":
                wrong.append(f"{where}: left {sorted(left)[:3]}")
            expected = {"SIGKILL": (-9,), "SIGTERM": (0, 2), "SIGINT": (0, 2)}.get(kind, (0, 2))
            if ended.code not in expected or (kind in ERRORS and ended.code == RAISED):
                wrong.append(f"{where}: ended with {ended.code}: {ended.printed[-300:]}")
        if most and at >= most:
            break
    shutil.rmtree(saved)
    return count, met, wrong


def at_random(folder: Path, kills: int, seed: int) -> list[str]:
    """Kill whole programs at random times."""
    rng, wrong = random.Random(seed), []
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path[:2])}
    names = list(COMMANDS)
    for k in range(kills):
        name = names[k % len(names)]
        arguments, places = COMMANDS[name]
        before = parts(folder, places)
        started = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "steelyard", *arguments.split()], cwd=folder, env=environment, stderr=-3, stdout=-3
        )
        time.sleep(rng.uniform(0.05, 3.0))
        kind = rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        process.send_signal(kind)
        code = process.wait()
        for place in places:
            recover(folder / place)
        after = parts(folder, places)
        torn = [p for p, a, b in zip(places, before, after, strict=True) if set(a) - set(b)]
        if torn:
            wrong.append(f"{name}, {kind.name} after {time.monotonic() - started:.2f} s: {torn} (code {code})")
        if process.returncode not in (0, 2, -9, -15, -2):
            wrong.append(f"{name}, {kind.name}: ended with {code}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", default=",".join(COMMANDS), help="comma-separated")
    parser.add_argument("--most", type=int, default=0, help="operations per command; 0: all")
    parser.add_argument("--random", type=int, default=200, help="kills at random times")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    failed = []
    with tempfile.TemporaryDirectory(prefix="steelyard-kill-") as name:
        folder = Path(name) / "work"
        folder.mkdir()
        prepared(folder)
        preload()
        total: Counter[str] = Counter()
        operations = 0
        for one in asked.commands.split(","):
            count, met, wrong = interrupted(one, folder, [kind for kind in KINDS if kind != "SIGKILL"], asked.most)
            operations += count
            total += met
            failed += wrong
            print(f"{one:14} {count:4} operations, {met.total():4} faults, {len(wrong)} wrong", flush=True)
        print(f"{operations} operations; faults: {', '.join(f'{kind} {n}' for kind, n in sorted(total.items()))}")
        failed += at_random(folder, asked.random, asked.seed)
        print(f"{asked.random} kills at random times")
    print("\n".join(failed) or "Every place held the earlier whole or the new whole.")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
