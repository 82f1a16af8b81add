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
from testbed.faults import ERRORS, KINDS, contents, forked

# Command, arguments, and the files or folders that it writes.
COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "identify": ("identify arm.toml --out run --tables csv,parquet,tex", ("run",)),
    "report": ("report old --out page.html", ("page.html",)),
    "export c": ("export old --to c --out code", ("code",)),
    "export python": ("export old --to python --out code.py", ("code.py",)),
    "export casadi": ("export old --to casadi --out symbols.py", ("symbols.py",)),
    "export latex": ("export old --to latex --out table.tex", ("table.tex",)),
    "export urdf": ("export old --to urdf --out new.urdf", ("new.urdf",)),
    "export mjcf": ("export old --to mjcf --out new.xml", ("new.xml",)),
    "export sdf": ("export old --to sdf --out new.sdf", ("new.sdf",)),
    "predict csv": ("predict old validate.csv --out torque.csv", ("torque.csv",)),
    "predict parquet": ("predict old validate.csv --out torque.parquet", ("torque.parquet",)),
    "validate": ("validate old validate.csv --report scores.html", ("scores.html",)),
    "crossvalidate": ("crossvalidate arm.toml --report folds.html", ("folds.html",)),
    "compare": ("compare old old --report both.html", ("both.html",)),
    "twin": ("twin old --runs 5 --report twin.html", ("twin.html",)),
    "consistency": ("consistency old --out set.csv", ("set.csv",)),
    "payload": ("payload old validate.csv --out weighed --report weighed.html", ("weighed", "weighed.html")),
    "watch": ("watch arm.toml --until-idle 0 --learn 0 --out watched", ("watched",)),
    "excite": (
        "excite planar2r --duration 2 --harmonics 2 --starts 1 --iterations 2 --out motion.csv --preview motion.html",
        ("motion.csv", "motion.html"),
    ),
    "excite parquet": (
        "excite planar2r --duration 2 --harmonics 2 --starts 1 --iterations 2 --out motion.parquet",
        ("motion.parquet",),
    ),
    "excite yaml": (
        "excite planar2r --duration 2 --harmonics 2 --starts 1 --iterations 2 --out motion.yaml", ("motion.yaml",),
    ),
    "init": ("init planar2r identify.csv --out draft.toml --force", ("draft.toml",)),
    "demo": ("demo planar2r --out tour", ("tour",)),
    "simulate csv": ("simulate planar2r --duration 1 --out made.csv", ("made.csv",)),
    "simulate parquet": ("simulate planar2r --duration 1 --out made.parquet", ("made.parquet",)),
    "control": ("control old --seconds 0.5 --out controlled", ("controlled",)),
    "adapt": ("adapt planar2r --motions 2 --out adapted", ("adapted",)),
    "paper": ("paper p1 --quick --out reproduced", ("reproduced",)),
}  # fmt: skip
# Every operation meets these, and one of the others in turn.
ALWAYS = ("SIGKILL", "ENOSPC", "EROFS")
# Not negative for the files: the robot has changed, a claim does not hold, a part could not be done.
DONE = (0, 1, 4)


PRELOADED = (
    "cli.identify", "cli.export", "cli.payload", "cli.watch", "cli.excite", "cli.init", "cli.prediction",
    "cli.validation", "cli.consistency", "cli.start.simulate", "cli.study.adapt", "cli.study.control",
    "cli.study.paper", "project.run", "project.watch", "project.excite", "project.draft", "project.demos.demo",
    "project.demos.adapt", "project.demos.control", "project.excitation_document", "identification.weighing",
    "validation.twin", "export.targets.registry", "export.code.c", "export.code.python", "export.robot_files.urdf_new",
    "report.page", "project.papers.p1",
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
    from steelyard.project.papers import registry

    warm()
    # half a minute of simulation that writes nothing
    paper = registry.reproduced("p1", registry.PaperRequest(registry.experiments_of("p1", True), 0, None, None))
    registry.reproduced = lambda name, request: paper


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


# A new line at the end of these does not make them files of others; a changed project.toml is one.
MARKED = (".html", ".csv", ".parquet", ".tex", ".py", ".h", ".urdf", ".xml", ".sdf", ".yaml", ".json")


def earlier(folder: Path, places: tuple[str, ...]) -> None:
    """The places as another run wrote them: with a mark at the end of every file."""
    for place in places:
        for file in [folder / place, *(folder / place).rglob("*")]:
            if file.is_file() and (file.suffix in MARKED or file == folder / place):
                with file.open("ab") as stream:
                    stream.write(b"\n")


def parts(folder: Path, places: tuple[str, ...]) -> list[dict[str, bytes]]:
    """What each place holds: a folder is one part, and so is a file."""
    return [
        contents(folder / place) if (folder / place).is_dir()
        else {place: (folder / place).read_bytes()} if (folder / place).is_file() else {}
        for place in places
    ]  # fmt: skip


def interrupted(name: str, folder: Path, most: int) -> tuple[int, Counter[str], list[str]]:
    """Operations of a command, faults that were met, and what went wrong."""
    arguments, places = COMMANDS[name]
    first = forked(lambda: command(folder, arguments), folder)
    if first.code not in DONE:
        return 0, Counter(), [f"{name} does not run: {first.printed[-500:]}"]
    new = parts(folder, places)
    if not all(new):
        return 0, Counter(), [f"{name} does not write {places}"]
    earlier(folder, places)
    old = parts(folder, places)
    saved = Path(tempfile.mkdtemp(dir=folder.parent))
    shutil.copytree(folder, saved / "folder")
    again = forked(lambda: command(folder, arguments), folder)
    count = len(again.operations)
    if again.code not in DONE or parts(folder, places) != new:
        return 0, Counter(), [f"{name} does not repeat what it wrote: {again.printed[-500:]}"]
    others = [kind for kind in KINDS if kind not in ALWAYS]
    wrong, met = [], Counter[str]()
    for at in range(1, min(count, most or count) + 1):
        for kind in (*ALWAYS, others[at % len(others)]):
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
            expected = (-9,) if kind == "SIGKILL" else (2, *DONE)
            if ended.code not in expected:
                wrong.append(f"{where}: ended with {ended.code}: {ended.printed[-300:]}")
            # an error that was met on the way and changed nothing need not be said
            said = os.strerror(ERRORS[kind]) in ended.printed if kind in ERRORS else True
            if ended.code == 2 and not said:
                wrong.append(f"{where}: does not say why: {ended.printed[-300:]}")
    shutil.rmtree(saved)
    return count, met, wrong


def at_random(folder: Path, names: list[str], kills: int, seed: int) -> list[str]:
    """Kill whole programs at random times between their start and their end."""
    rng, wrong = random.Random(seed), []
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path[:2])}
    whole: dict[str, tuple[float, list[dict[str, bytes]], list[dict[str, bytes]]]] = {}
    for k in range(kills):
        name = names[k % len(names)]
        arguments, places = COMMANDS[name]
        line = [sys.executable, "-m", "steelyard", *arguments.split()]
        started = time.monotonic()
        if name not in whole:
            subprocess.run(line, cwd=folder, env=environment, stderr=-3, stdout=-3)
            new, lasts = parts(folder, places), time.monotonic() - started
            earlier(folder, places)
            whole[name] = (lasts, parts(folder, places), new)
        lasts, old, new = whole[name]
        started = time.monotonic()
        process = subprocess.Popen(line, cwd=folder, env=environment, stderr=-3, stdout=-3)
        kind = rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        try:
            process.wait(rng.uniform(0.02, 1.05) * lasts)
        except subprocess.TimeoutExpired:
            process.send_signal(kind)
        code = process.wait()
        for place in places:
            recover(folder / place)
        found = parts(folder, places)
        torn = [p for p, a, b, c in zip(places, found, old, new, strict=True) if a not in (b, c)]
        if torn:
            wrong.append(f"{name}, {kind.name} after {time.monotonic() - started:.2f} s: {torn} (code {code})")
        if left := [path for path in contents(folder) if path.startswith(".")]:
            wrong.append(f"{name}, {kind.name} after {time.monotonic() - started:.2f} s: left {left[:3]}")
        if code not in (2, -9, -15, -2, *DONE):
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
        names = asked.commands.split(",")
        for one in names:
            count, met, wrong = interrupted(one, folder, asked.most)
            operations += count
            total += met
            failed += wrong
            print(f"{one:14} {count:4} operations, {met.total():4} faults, {len(wrong)} wrong", flush=True)
        print(f"{operations} operations; faults: {', '.join(f'{kind} {n}' for kind, n in sorted(total.items()))}")
        failed += at_random(folder, names, asked.random, asked.seed)
        print(f"{asked.random} kills at random times")
    print("\n".join(failed) or "Every place held the earlier whole or the new whole.")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
