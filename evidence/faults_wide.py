"""Many faults on six robots: what `steelyard check` and `steelyard identify` say of each, and what it costs.

The list is in faults.toml (`[[wide]]`), the robots in six_robots.py. An outcome is

    named    a finding of the fault's own codes, at the right joint
    warned   another error or warning that the clean logs do not get, or a joint that the verdict calls not explained
    silent   neither; a finding that accuses a wrong joint counts as silent

`identify` is asked too. `harm` is its error on the clean logs: a silent fault with more than 1.1 times that of the
clean fit is a wrong answer in silence. --only NAME, --robot NAME; --check-only leaves `identify` out. --json prints
each line on stdout as JSON as soon as it is known; faults_table.py makes the table of docs/check.md from such files.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table
from six_robots import Columns, Six, rigid, six, with_payload

from steelyard.errors import SteelyardError
from steelyard.project.checks import check
from steelyard.project.project import Project
from steelyard.project.run import run
from steelyard.project.spec import PayloadSpec
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.regression.scores import score

TABLE = Path(__file__).with_name("faults.toml")
# A silent fault that raises the error on clean logs by less does not matter.
HARMLESS = 1.1
OTHER_ROBOT = {"ur10e": "tx40", "kr300": "tx40", "cobot6": "kr300", "gen3": "panda", "lite6": "tx40", "z1": "tx40"}


@dataclass(frozen=True)
class Line:
    """What was said of one fault on one robot: outcomes of check and identify, findings, harm and seconds.

    `said` are the findings of check beyond those of the clean logs, `lacking` its errors that identify does not raise.
    """

    fault: str
    robot: str
    check: str
    identify: str
    said: tuple[str, ...]
    verdict: str
    harm: float
    seconds: tuple[float, float]
    hidden: str
    lacking: tuple[str, ...] = ()


# --- Faults -----------------------------------------------------------------------------------------------------------


def faulty(fault: str, place: int, one: Six) -> tuple[tuple[Columns, ...], Project]:
    """The logs and the project with the fault; `place` (from 0) is the joint concerned."""
    logs, project = tuple(dict(log) for log in one.logs), one.project
    q, v, effort, n = one.q, one.v, one.effort, len(one.q)
    motion = [q, v] if v else [q]
    rng = np.random.default_rng([7, place, len(fault)])

    def scale(names: Sequence[str], joints: Sequence[int], factor: float) -> None:
        for log in logs:
            for j in joints:
                log[names[j]] = log[names[j]] * factor

    def each(change: Callable[[Columns, np.ndarray], None]) -> None:
        for log in logs:
            change(log, log[one.time])

    def parts(log: Columns, count: int, seconds: float) -> list[np.ndarray]:
        t = log[one.time]
        return [
            np.flatnonzero((t >= start) & (t < start + seconds))
            for start in t[0] + (t[-1] - t[0]) * np.linspace(0.2, 0.8, count)
        ]

    def spec(**changes: Any) -> Project:
        return project.with_spec(**changes)

    mine = effort[place]
    match fault:
        case "all-efforts-reversed":
            scale(effort, range(n), -1.0)
        case "flipped-effort" | "flipped-effort-wrist":
            scale(effort, [place], -1.0)
        case "flipped-position":
            for names in motion:
                scale(names, [place], -1.0)
        case "flipped-velocity":
            scale(v, [place], -1.0)
        case "reaction-torques":
            model, theta = one.fitted
            for log in logs:
                moved = model.torque(*one.motion(log), theta - rigid(model, theta, rotors=False))
                for j, name in enumerate(effort):
                    log[name] = -(log[name] - moved[j] / one.gain[j])
        case "degrees" | "degrees-one":
            for names in motion:
                scale(names, range(n) if fault == "degrees" else [place], np.degrees(1.0))
        case "milliseconds" | "clock-slow-100" | "clock-fast-10" | "clock-fast-3":
            factor = {"milliseconds": 1e3, "clock-slow-100": 1e2, "clock-fast-10": 1 / 1.1, "clock-fast-3": 1 / 1.03}
            scale([one.time], [0], factor[fault])
        case "clock-drifts":

            def drift(log: Columns, t: np.ndarray) -> None:
                x = (t - t[0]) / (t[-1] - t[0])
                log[one.time] = t[0] + (t[-1] - t[0]) * (x - 0.075 * x + 0.075 * x**2)

            each(drift)
        case "swapped-columns" | "swapped-efforts":
            other = place + 1
            for names in [effort] if fault == "swapped-efforts" else [*motion, effort]:
                for log in logs:
                    log[names[place]], log[names[other]] = log[names[other]], log[names[place]]
        case "motor-effort" | "motor-efforts":
            scale(effort, range(n) if fault == "motor-efforts" else [place], 0.01)
        case "slipped-effort":
            scale(effort, [place], 2.0)
        case "common-gain":
            scale(effort, range(n), 3.0)
        case "gravity-reversed" | "gravity-tilted" | "gravity-wall":
            g = np.array(project.robot().gravity)
            side = np.cross(g, [1.0, 0.0, 0.0]) if abs(g[0]) < 0.9 * np.linalg.norm(g) else np.cross(g, [0.0, 1.0, 0.0])
            side *= np.linalg.norm(g) / np.linalg.norm(side)
            angle = np.radians({"gravity-reversed": 180.0, "gravity-tilted": 10.0, "gravity-wall": 90.0}[fault])
            project = spec(gravity=(np.cos(angle) * g + np.sin(angle) * side).tolist())
        case "gravity-compensated":
            model, theta = one.fitted
            for log in logs:
                place_only, _, _ = one.motion(log)
                still = np.zeros_like(place_only)
                weight = model.torque(place_only, still, still, rigid(model, theta))
                for j, name in enumerate(effort):
                    log[name] = log[name] - weight[j] / one.gain[j]
        case "frozen-effort" | "frozen-noisy":

            def freeze(log: Columns, t: np.ndarray) -> None:
                x, half = log[mine].copy(), len(t) // 2
                noise = 2e-4 * np.std(x) * rng.normal(size=len(t) - half) * (fault == "frozen-noisy")
                x[half:] = x[half] + noise
                log[mine] = x

            each(freeze)
        case "held-effort":

            def hold(log: Columns, t: np.ndarray) -> None:
                x = log[mine].copy()
                inside = np.flatnonzero((t > t[0] + (t[-1] - t[0]) / 3) & (t < t[0] + 2 * (t[-1] - t[0]) / 3))
                start = np.floor((t[inside] - t[inside[0]]) / 0.3)
                first = np.searchsorted(start, start)
                x[inside] = x[inside][first]
                log[mine] = x

            each(hold)
        case "lost-samples":

            def lose(log: Columns, t: np.ndarray) -> None:
                log[mine] = np.where(rng.uniform(size=len(t)) < 0.01, 0.0, log[mine])

            each(lose)
        case "lost-bursts":

            def burst(log: Columns, t: np.ndarray) -> None:
                x = log[mine].copy()
                for start in rng.integers(0, len(t) - 20, 30):
                    x[start : start + 20] = 0.0
                log[mine] = x

            each(burst)
        case "saturation":

            def cut(log: Columns, t: np.ndarray) -> None:
                limit = 0.6 * np.abs(log[mine]).max()
                log[mine] = np.clip(log[mine], -limit, limit)

            each(cut)
        case "constant-effort":
            each(lambda log, t: log.__setitem__(mine, np.full(len(t), log[mine][0])))
        case "stale-position" | "repeated-rows":
            names = [q[place]] if fault == "stale-position" else [c for c in logs[0] if c != one.time]
            for log in logs:
                for rows in parts(log, 4, 0.5):
                    for name in names:
                        log[name] = log[name].copy()
                        log[name][rows] = log[name][rows[0]]
        case "drifting-effort":
            each(lambda log, t: log.__setitem__(mine, log[mine] + np.std(log[mine]) * (t - t[0]) / (t[-1] - t[0])))
        case "doubled-payload" | "hidden-payload" | "two-robots":
            model, theta = one.fitted
            log = logs[1]
            bodies = rigid(model, theta, rotors=False)
            mass = float(0.15 * sum(abs(theta[row[9]]) for row in model.inertial_index))
            extra = 0.6 * bodies if fault == "two-robots" else with_payload(model, mass, np.array([0.02, 0.01, 0.05]))
            more = model.torque(*one.motion(log), extra)
            for j, name in enumerate(effort):
                log[name] = log[name] + more[j] / one.gain[j]
            if fault == "doubled-payload":
                runs = [project.spec.run[0], msgspec.structs.replace(project.spec.run[1], load="box")]
                body = PayloadSpec(
                    "box", known={"M": 2.0 * mass, "MX": 0.04 * mass, "MY": 0.02 * mass, "MZ": 0.1 * mass}
                )
                project = spec(run=runs, payload=[body])
        case "zero-heavy" | "zero-wrist":
            for log in logs:
                log[q[place]] = log[q[place]] + (0.2 if fault == "zero-heavy" else 0.3)
        case "late-effort" | "late-efforts":
            seconds = 0.05 if fault == "late-effort" else 0.06
            for log in logs:
                t = log[one.time]
                for j in [place] if fault == "late-effort" else range(n):
                    log[effort[j]] = np.interp(t - seconds, t, log[effort[j]])
        case "wrong-robot":
            other = OTHER_ROBOT[one.name]
            project = spec(robot=other)
        case "same-motion":
            rows = len(logs[0][one.time])
            logs = (
                logs[0],
                {c: x + (1e-3 * np.std(x) * rng.normal(size=rows) if c in effort else 0.0) for c, x in logs[0].items()},
            )
            runs = [project.spec.run[0], msgspec.structs.replace(project.spec.run[1], role="validate")]
            project = spec(run=runs)
        case "clean":
            pass
        case _:
            raise ValueError(f"no injection is written for {fault}")
    return logs, project


# --- Outcomes ---------------------------------------------------------------------------------------------------------


def outcome(codes: Sequence[str], joint: str, usual: set[tuple[str, str]], findings: Sequence[Any], more: bool) -> str:
    """What findings say of a fault with these codes at a joint ("" for none)."""
    loud = [f for f in findings if f.severity != "info"]
    named = [f for f in loud if f.code in codes]
    if any(not joint or joint in f.where.split(", ") or f.where in ("all joints", "") for f in named):
        return "named"
    if named:
        return "silent"  # a wrong joint
    return "warned" if more or any((f.code, f.where) not in usual for f in loud) else "silent"


def looked_at(
    one: Six, fault: str, codes: Sequence[str], place: int, joint: str, usual: Any, hidden: str, fits: bool
) -> Line:
    """Check and identify one faulty project; `usual` are findings (and joints not explained) of the clean logs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project = one.written(folder, *faulty(fault, place, one))
        started = time.process_time()
        found = check(project)
        middle = time.process_time()
        harm, verdict = np.nan, ""
        findings: Sequence[Any] = ()
        missing: set[str] = set()
        try:
            if not fits:
                raise SteelyardError("not asked for")
            done = run(project, folder / "out").identification
            findings, verdict = done.findings, done.verdict
            missing = {j.joint for j in done.judged.unexplained}
            harm = _error_on_clean(one, project, done)
        except SteelyardError as error:
            verdict = f"refused: {error}"
        ended = time.process_time()
    unexplained = {joint.joint for joint in found.unexplained}
    seen = outcome(codes, joint, usual["check"], found.findings, bool(unexplained - usual["unexplained"]))
    by_fit = outcome(codes, joint, usual["identify"], findings, bool(missing - usual["unexplained"]))
    if verdict.startswith("refused"):
        by_fit = "refused"
    said = tuple(
        f"{f.code}[{f.where}]"
        for f in found.findings
        if f.severity != "info" and (f.code, f.where) not in usual["check"]
    )
    raised = {(f.code, f.where) for f in findings}
    lacking = (
        ()
        if by_fit == "refused"
        else tuple(
            f"{f.code}[{f.where}]" for f in found.findings if f.severity == "error" and (f.code, f.where) not in raised
        )
    )
    seconds = (middle - started, ended - middle)
    return Line(fault, one.name, seen, by_fit, said, verdict, float(harm), seconds, hidden, lacking)


def _error_on_clean(one: Six, project: Project, done: Any) -> float:
    """Relative error of the fit on the clean logs, with the robot and gravity that the faulty project states."""
    spec = project.spec
    with tempfile.TemporaryDirectory() as name:
        clean = one.written(Path(name), one.logs, one.project.with_spec(robot=spec.robot, gravity=spec.gravity))
        model = clean.model()
        if list(model.robot.axis_names) != list(done.relative_error.joints):
            return np.nan
        runs = clean.with_prepare(cutoff_hz=10.0, derivatives="differences").samples(model.robot, "identify")
        problem = Problem(model, runs, lowpass_hz=4.0)
        names = done.base.layout.names
        theta = dict(zip(names, np.nan_to_num(done.theta), strict=True))
        values = np.array([theta.get(name, 0.0) for name in model.layout.names])
        return score(observe(problem), values, "").total


def _robot_lines(work: tuple[str, list[dict[str, Any]], dict[str, int], bool, bool]) -> list[Line]:
    name, faults, places, fits, as_json = work
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as folder:
        one = six(name, Path(folder))
        joints = one.project.robot().axis_names
        usual: dict[str, set[Any]] = {"check": set(), "identify": set(), "unexplained": set()}
        for fault in faults:
            if name not in fault.get("only", [name]):
                continue
            place = places.get(fault.get("joint", "heavy"), 1) - 1
            joint = joints[place] if "joint" in fault else ""
            hidden = fault.get("hidden", {}).get(name, "")
            try:
                line = looked_at(one, fault["name"], fault["codes"], place, joint, usual, hidden, fits)
            except SteelyardError as error:
                line = Line(fault["name"], name, "refused", "refused", (), str(error), np.nan, (0.0, 0.0), hidden)
            if fault["name"] == "clean":
                usual = _usual(one, fits)
            told = f"{name:8s}{line.fault:22s}{line.check:9s}{line.identify:9s}{line.harm:8.3g} {line.said}"
            print(told, file=sys.stderr, flush=True)
            if as_json:
                print(json.dumps(asdict(line)), flush=True)
            lines.append(line)
    return lines


def _usual(one: Six, fits: bool) -> dict[str, set[Any]]:
    """What the clean logs get: findings by code and place, and joints that are not explained."""
    with tempfile.TemporaryDirectory() as name:
        project = one.written(Path(name), one.logs, one.project)
        found = check(project)
        joints = {joint.joint for joint in found.unexplained}
        told: dict[str, Sequence[Any]] = {"check": found.findings, "identify": ()}
        if fits:
            done = run(project, Path(name) / "out").identification
            told["identify"] = done.findings
            joints |= {joint.joint for joint in done.judged.unexplained}
    loud = {who: {(f.code, f.where) for f in findings if f.severity != "info"} for who, findings in told.items()}
    return loud | {"unexplained": joints}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--robot", action="append", default=[])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check-only", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    wanted = parser.parse_args()
    table = tomllib.loads(TABLE.read_text("utf-8"))
    names = wanted.robot or list(table["six"])
    faults = [f for f in table["wide"] if not wanted.only or f["name"] in (*wanted.only, "clean")]
    work = [(name, faults, table["six"][name], not wanted.check_only, wanted.json) for name in names]
    if wanted.workers > 1:
        with ProcessPoolExecutor(wanted.workers) as pool:
            lines = [line for lines in pool.map(_robot_lines, work) for line in lines]
    else:
        lines = [line for one in work for line in _robot_lines(one)]
    _print(lines)


def _print(lines: Sequence[Line]) -> None:
    people = Console(stderr=True, width=150)
    robots = list(dict.fromkeys(line.robot for line in lines))
    table = Table("fault", *robots, title="check / identify (harm)")
    for fault in dict.fromkeys(line.fault for line in lines):
        cells = []
        for robot in robots:
            found = [line for line in lines if (line.fault, line.robot) == (fault, robot)]
            cells += [f"{x.check} / {x.identify} ({x.harm:.2g})" for x in found] or ["—"]
        table.add_row(fault, *cells)
    people.print(table)
    clean = {line.robot: line for line in lines if line.fault == "clean"}
    tried = [line for line in lines if line.fault != "clean"]
    shown = [line for line in tried if not line.hidden]
    wrong = [x for x in shown if x.check == "silent" and x.harm > HARMLESS * clean[x.robot].harm]
    people.print("clean: " + ", ".join(f"{x.robot} {x.said or 'nothing'}" for x in clean.values()))
    for kind in ("check", "identify"):
        counts = Counter(getattr(line, kind) for line in shown)
        people.print(f"{kind}: " + ", ".join(f"{k} {n} ({n / max(len(shown), 1):.0%})" for k, n in counts.items()))
    people.print(f"silent and wrong: {len(wrong)} of {len(shown)} ({len(wrong) / max(len(shown), 1):.1%})")
    for line in wrong:
        people.print(f"  {line.robot} {line.fault}: harm {line.harm:.3g}; {line.verdict}")
    for line in (x for x in tried if x.hidden):
        people.print(f"hidden: {line.robot} {line.fault}: {line.check} ({line.hidden})")


if __name__ == "__main__":
    main()
