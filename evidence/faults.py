"""Faults injected into real logs, and the finding of `steelyard check` for each: the confusion matrix.

faults.toml lists faults, logs and joints, and the faults that a log cannot show. --only NAME runs one fault,
--log NAME one log.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # two checks at a time on two cores

import msgspec
import numpy as np
import polars as pl
from rich.console import Console
from rich.progress import track
from rich.table import Table

from steelyard.project.checks import check
from steelyard.project.project import Project, SignalSpec, read_project

ROOT = Path(__file__).resolve().parent.parent
REAL = ROOT / "examples" / "real"
TABLE = Path(__file__).with_suffix(".toml")
DATA = ROOT.parent / "shared" / "data"
# Findings that accuse the data; a clean log raises none of them.
FAULTS = (
    "wrong-angle-unit", "wrong-time-unit", "wrong-sign", "swapped-columns", "wrong-gear-side", "wrong-ratio",
    "effort-delay", "saturated-effort", "stale-channel", "constant-channel", "little-motion", "wrong-robot",
)  # fmt: skip
Columns = dict[str, np.ndarray]


class Case(NamedTuple):
    """One injection: a fault on some joints (from 0; empty is all) of one log, or another robot's file."""

    log: str
    fault: str
    joints: tuple[int, ...]
    robot: str
    code: str
    size: float | None
    tellable: bool
    reason: str

    def __str__(self) -> str:
        return self.robot or "+".join(str(j + 1) for j in self.joints) or "all"


class Outcome(NamedTuple):
    """What the check said first, where, of what size, and which other faults it named."""

    first: str
    where: str
    size: float | None
    others: tuple[str, ...]
    says_so: bool
    seconds: float
    message: str


def cases(table: Mapping[str, Any]) -> Iterator[Case]:
    for log in table["logs"]:
        yield Case(log, "clean", (), "", "", None, True, "")
    for fault in table["fault"]:
        for log, spec in table["logs"].items():
            hidden = fault.get("hidden", {}).get(log, {})
            for tellable, joints, robots in (
                (True, fault.get("on", {}).get(log, []), fault.get("robots", {}).get(log, [])),
                (False, hidden.get("joints", []), hidden.get("robots", [])),
            ):
                for entry in joints:
                    chosen = tuple(j - 1 for j in (entry if isinstance(entry, list) else [entry]) if j > 0)
                    size = _size(fault, log, spec["ratio"], chosen)
                    yield Case(log, fault["name"], chosen, "", fault["code"], size, tellable, hidden.get("reason", ""))
                for robot in robots:
                    yield Case(log, fault["name"], (), robot, fault["code"], None, tellable, hidden.get("reason", ""))


def _size(fault: Mapping[str, Any], log: str, ratio: list[float], joints: tuple[int, ...]) -> float | None:
    if "size" in fault:
        return fault["size"]
    sized = fault.get("sized", False)
    if not (log in sized if isinstance(sized, list) else sized):
        return None
    if "late" in fault:
        return fault["late"][log]
    if "factor" in fault:
        return fault["factor"]
    return float(np.exp(np.mean(np.log([ratio[j] for j in joints or range(len(ratio))]))))


# --- Injection --------------------------------------------------------------------------------------------------------


def inject(case: Case, project: Project, columns: Columns, table: Mapping[str, Any]) -> None:
    """Put the fault into the columns of one log, in place."""
    channels = project.spec.channels
    time_column = channels.time.column
    q, effort = _names(channels.q), _names(channels.effort)
    v = _names(channels.v) if channels.v is not None else []
    motion = [q, v] if v else [q]
    joints = case.joints or tuple(range(len(q)))
    ratio = table["logs"][case.log]["ratio"]
    fault = next((f for f in table["fault"] if f["name"] == case.fault), {})
    t = columns[time_column]

    def scale(names: list[str], j: int, factor: float) -> None:
        columns[names[j]] = columns[names[j]] * factor

    match case.fault:
        case "degrees" | "radians" | "degrees-one":
            for j in joints:
                for names in motion:
                    scale(names, j, fault["size"])
        case "milliseconds" | "seconds":
            columns[time_column] = t * fault["size"]
        case "flipped-effort":
            scale(effort, joints[0], -1.0)
        case "flipped-position":
            for names in motion:
                scale(names, joints[0], -1.0)
        case "turned-axis":
            for names in (*motion, effort):
                scale(names, joints[0], -1.0)
        case "swapped-columns" | "swapped-efforts" | "swapped-positions":
            groups = {"swapped-columns": [*motion, effort], "swapped-efforts": [effort], "swapped-positions": motion}
            for names in groups[case.fault]:
                a, b = (names[j] for j in joints)
                columns[a], columns[b] = columns[b], columns[a]
        case "motor-effort" | "motor-efforts":
            for j in joints:
                scale(effort, j, 1.0 / ratio[j])
        case "motor-position":
            for names in motion:
                scale(names, joints[0], ratio[joints[0]])
        case "slipped-effort" | "short-effort":
            scale(effort, joints[0], fault["factor"])
        case "slipped-ratio":
            scale(effort, joints[0], fault["factor"])
            for names in motion:
                scale(names, joints[0], 1.0 / fault["factor"])
        case "delay" | "late-efforts":
            for j in joints:
                columns[effort[j]] = np.interp(t - fault["late"][case.log], t, columns[effort[j]])
        case "saturation":
            x = columns[effort[joints[0]]]
            limit = 0.7 * np.abs(x).max()
            columns[effort[joints[0]]] = np.clip(x, -limit, limit)
        case "constant-effort":
            columns[effort[joints[0]]] = np.full(len(t), columns[effort[joints[0]]][0])
        case "constant-position":
            columns[q[joints[0]]] = np.full(len(t), columns[q[joints[0]]][0])
            if v:
                columns[v[joints[0]]] = np.zeros(len(t))
        case "stale-effort" | "stale-position" | "repeated-rows":
            everything = [name for name in columns if name != time_column]
            names = {"stale-effort": [effort[joints[0]]], "stale-position": [q[joints[0]]], "repeated-rows": everything}
            for start in t[0] + (t[-1] - t[0]) * np.array([0.3, 0.45, 0.6, 0.75]):
                rows = np.flatnonzero((t >= start) & (t < start + 0.5))
                for name in names[case.fault]:
                    columns[name] = columns[name].copy()
                    columns[name][rows] = columns[name][rows[0]]
        case "little-motion" | "joint-at-rest":
            for j in joints:
                for name in (*(names[j] for names in motion), effort[j]):
                    x = columns[name]
                    smooth = np.convolve(np.pad(x, 10, mode="edge"), np.ones(21) / 21, mode="valid")
                    columns[name] = smooth.mean() + 0.01 * (smooth - smooth.mean()) + (x - smooth) * (name == effort[j])


def _names(signal: SignalSpec) -> list[str]:
    return list(signal.columns.values()) if isinstance(signal.columns, dict) else list(signal.columns)


def _robot(name: str, folder: Path) -> str:
    """A built-in robot, or one of two that are not: a UR5's lengths, and seven axes through one point and a forearm."""
    half = "pi/2"
    geometry = {
        "ur5": [
            (0, 0, 0.16), (half, 0, 0), (0, -0.425, 0), (0, -0.3922, 0.1333), (half, 0, 0.0997), (f"-{half}", 0, 0.0996)
        ],
        "spherical": [
            (0, 0, 0.3), (half, 0.2, 0), (0, 0.45, 0), (0, 0.4, 0.1), (half, 0, 0.1), (f"-{half}", 0, 0), (half, 0, 0.1)
        ],
    }  # fmt: skip
    if name not in geometry:
        return name
    joints = "".join(
        f'\n[[joint]]\nname = "joint{k}"\nalpha = {alpha!r}\nd = {d}\nr = {r}\n'
        for k, (alpha, d, r) in enumerate(geometry[name], 1)
    )
    file = folder / f"{name}.toml"
    file.write_text(f'name = "{name}"\nconvention = "mdh"\n{joints}', "utf-8")
    return str(file)


def outcome(case: Case, table: Mapping[str, Any]) -> Outcome:
    """Inject the fault into copies of the logs and check them."""
    project = read_project(REAL / table["logs"][case.log]["project"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = []
        for run in project.spec.run:
            (log,) = project.log_files(run)
            frame = pl.read_parquet(log)
            columns = {column: frame[column].to_numpy().astype(float) for column in frame.columns}
            inject(case, project, columns, table)
            copy = folder / log.name
            pl.DataFrame(columns).write_parquet(copy)
            runs.append(msgspec.structs.replace(run, log=str(copy)))
        robot = project.spec.robot if not case.robot else _robot(case.robot, folder)
        spec = msgspec.structs.replace(project.spec, run=runs, robot=robot)
        started = time.process_time()
        found = check(Project(spec, project.path))
    faults = [finding for finding in found.findings if finding.code in FAULTS]
    said = " ".join(finding.message for finding in found.findings if finding.code == "not-detectable")
    names = [found.robot] if case.robot else list(found.relative_error or {})
    says_so = "cannot be determined" in said if not case.joints else all(names[j] in said for j in case.joints if names)
    spent = time.process_time() - started
    if not faults:
        return Outcome("none", "", None, (), says_so, spent, "")
    first = faults[0]
    return Outcome(
        first.code,
        first.where,
        _told_size(first.message),
        tuple(f.code for f in faults[1:]),
        says_so,
        spent,
        str(first),
    )


def _told_size(message: str) -> float | None:
    for pattern, sign, unit in (
        (r"factor of ([\d.e+-]+)", 1, 1.0),
        (r"([\d.e+-]+) times too large", 1, 1.0),
        (r"([\d.e+-]+) times too small", -1, 1.0),
        (r"comes? ([\d.e+-]+) ms after", 1, 1e-3),
    ):
        if told := re.search(pattern, message):
            return unit * float(told.group(1)) ** sign
    return None


def right(case: Case, seen: Outcome, joints: tuple[str, ...]) -> bool:
    """Named first, at the right joint, and to 10 % where a size is asked for."""
    if case.fault == "clean":
        return seen.first == "none"
    if seen.first != case.code:
        return False
    if case.joints and seen.where != ", ".join(joints[j] for j in case.joints):
        return False
    if case.size is None:
        return True
    wanted = 1.0 / case.size if case.fault.startswith("motor-effort") else case.size
    return seen.size is not None and abs(np.log(seen.size / wanted)) < np.log(1.1)


# --- The table --------------------------------------------------------------------------------------------------------


def _one(work: tuple[Case, Mapping[str, Any]]) -> tuple[Case, Outcome]:
    return work[0], outcome(*work)


def main() -> None:
    table = tomllib.loads(TABLE.read_text("utf-8"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["clean", *(fault["name"] for fault in table["fault"])])
    parser.add_argument("--log", choices=table["logs"])
    chosen = parser.parse_args()
    console = Console(width=180)
    if not DATA.is_dir():
        console.print("skipped: no recorded data next to the repository")
        return
    work = [
        (case, table) for case in cases(table) if chosen.only in (None, case.fault) and chosen.log in (None, case.log)
    ]
    joints = {log: read_project(REAL / spec["project"]).robot().joint_names for log, spec in table["logs"].items()}
    with ProcessPoolExecutor(2) as pool:
        seen = list(track(pool.map(_one, work), "faults", total=len(work), console=Console(stderr=True)))
    listed = Table("fault", "log", "on", "tellable", "named first", "where", "size", "asked", "also", "right")
    for case, told in seen:
        good = right(case, told, joints[case.log])
        verdict = ("yes" if good else "NO") if case.tellable else ("says so" if told.says_so else "-")
        listed.add_row(
            case.fault, case.log, str(case), "yes" if case.tellable else "no", told.first, told.where,
            "" if told.size is None else f"{told.size:.4g}", "" if case.size is None else f"{case.size:.4g}",
            " ".join(told.others), verdict,
        )  # fmt: skip
    console.print(listed)
    matrix = Counter((case.fault, told.first) for case, told in seen if case.tellable)
    confusion = Table("injected \\ named first", *FAULTS, "none", title="Confusion matrix (tellable faults)")
    for fault in dict.fromkeys(case.fault for case, _ in seen):
        confusion.add_row(fault, *(str(matrix[fault, code] or "") for code in (*FAULTS, "none")))
    console.print(confusion)
    tellable = [(case, told) for case, told in seen if case.tellable and case.fault != "clean"]
    named = sum(right(case, told, joints[case.log]) for case, told in tellable)
    clean = sum(told.first != "none" for case, told in seen if case.fault == "clean")
    cost = np.array([told.seconds for _, told in seen])
    if tellable:
        console.print(
            f"{named} of {len(tellable)} tellable faults named right, {named / len(tellable):.1%} (bar: 90 %)"
        )
    console.print(f"{clean} clean logs accused (bar: 0); {cost.mean():.1f} s per check, {cost.max():.1f} s at most")
    sys.exit(1 if clean or (tellable and named < 0.9 * len(tellable)) else 0)


if __name__ == "__main__":
    main()
