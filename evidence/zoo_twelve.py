"""Twelve arms, hands and grippers of the corpus (evidence/zoo.py), each from its file and two logs to a scored result.

The list stands here before any log was made. Motions are random Fourier series within the ranges of the file; efforts
are those of Pinocchio (URDF) or MuJoCo (MJCF), with friction and an offset added, white noise, and positions rounded to
encoder steps. Columns have names, units and an order of their own. Then, as a user would,

    steelyard init → check → identify --estimator wls → validate

and counted: columns, units and signs of the map that are right; warnings and errors of `check` and `validate`, all of
which are false alarms; and base parameters whose true value lies in its 95 % interval. The truth is that of the file.

--only K: one robot (0 to 11). --json: figures on stdout.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from zoo import MJCF, URDF, Mujoco, Pinocchio, mjcf_folder, urdf_folder

from steelyard._arrays import Array, single_threaded
from steelyard.formats.robots import read_robot
from steelyard.model.loops import JointLoop
from steelyard.model.model import Model
from steelyard.model.parameters import INERTIAL
from steelyard.model.robot import Robot
from steelyard.project.reopen import reopen

SEED = 20261118
RATE_HZ, SECONDS, BASIC_HZ, HARMONICS = 200.0, 60.0, 0.1, 6
NOISE = 0.02  # of the rms effort of a joint
ENCODER = 2.0 * np.pi / 2**20  # step of positions [rad | m]
COVERAGE = (0.93, 0.97)


@dataclass(frozen=True)
class Chosen:
    """A robot: its file, how its log names the columns of a joint ({k} numbers them from `first`, {name} is the joint)
    with a unit, the clock, and the joints that the log does not have."""

    kind: str
    file: str
    position: tuple[str, str]
    effort: tuple[str, str]
    clock: tuple[str, str]
    first: int = 1
    absent: tuple[str, ...] = ()


TWELVE = (
    Chosen(URDF, "ur_description/urdf/ur5_robot.urdf", ("pos {name} [deg]", "deg"), ("torque {name} [Nm]", "N.m"),
           ("time_ms", "ms")),
    Chosen(URDF, "panda_description/urdf/panda.urdf", ("q{k}_rad", "rad"), ("tau{k}_Nm", "N.m"), ("t_s", "s"),
           absent=("panda_finger_joint1", "panda_finger_joint2")),
    Chosen(URDF, "so_arm_description/urdf/so101.urdf", ("{name}.position_deg", "deg"), ("{name}.effort_nm", "N.m"),
           ("timestamp_ns", "ns")),
    Chosen(URDF, "kinova_description/robots/kinova.urdf", ("angle_{k}_deg", "deg"), ("moment_{k}_mNm", "mN.m"),
           ("time", "s")),
    Chosen(URDF, "talos_data/robots/talos_left_arm.urdf", ("meas_pos_{name}", "rad"), ("meas_tau_{name}", "N.m"),
           ("stamp_us", "us")),
    Chosen(URDF, "finger_edu_description/robots/finger_edu.urdf", ("theta_{k}", "rad"), ("trq_{k}_mNm", "mN.m"),
           ("t", "s"), first=0),
    Chosen(URDF, "allegro_hand_description/urdf/allegro_right_hand.urdf", ("q_{k}", "rad"), ("tau_{k}_mNm", "mN.m"),
           ("time_s", "s"), first=0),
    Chosen(MJCF, "kuka_iiwa_14/iiwa14.xml", ("A{k} angle (deg)", "deg"), ("A{k} torque (Nm)", "N.m"), ("t_ms", "ms")),
    Chosen(MJCF, "franka_emika_panda/panda.xml", ("joint{k}_q", "rad"), ("joint{k}_tau", "N.m"), ("time", "s"),
           absent=("finger_joint1",)),
    Chosen(MJCF, "universal_robots_ur10e/ur10e.xml", ("{name}/position", "rad"), ("{name}/effort", "N.m"),
           ("clock_s", "s")),
    Chosen(MJCF, "leap_hand/right_hand.xml", ("pos_{k}_deg", "deg"), ("effort_{k}_mNm", "mN.m"), ("time_s", "s"),
           first=0),
    Chosen(MJCF, "franka_emika_panda/hand.xml", ("finger_pos_mm", "mm"), ("finger_force_N", "N"), ("t_s", "s")),
)  # fmt: skip
# Size of one of these in SI units.
UNITS = {
    "rad": 1.0, "deg": np.pi / 180.0, "mm": 1e-3, "N.m": 1.0, "mN.m": 1e-3, "N": 1.0,
    "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9,
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """A robot: whether the map is right, false alarms as text, base parameters in their intervals, and the error on the
    second log (as `validate` states it)."""

    file: str
    joints: int
    base: int
    covered: int
    is_map_right: bool
    alarms: tuple[str, ...]
    error: float
    seconds: float


# --- The experiment ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drives:
    """Friction and offset of the axes, (n,) each."""

    viscous: Array
    coulomb: Array
    offset: Array

    def torque(self, v: Array) -> Array:
        return self.viscous[:, None] * v + self.coulomb[:, None] * np.sign(v) + self.offset[:, None]


def motion(robot: Robot, rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
    """t (N,) and q, v, a (n, N): Fourier series about the middle of the range, over at most ±1.5 rad or m of it, and
    no faster than the limits of the file."""
    t = np.arange(int(SECONDS * RATE_HZ)) / RATE_HZ
    lower, upper = np.array([(axis.limits.lower, axis.limits.upper) for axis in robot.axes]).T
    lower, upper = np.maximum(lower, -np.pi), np.minimum(upper, np.pi)
    half = np.minimum(0.4 * (upper - lower), 1.5)
    w = 2.0 * np.pi * BASIC_HZ * np.arange(1, HARMONICS + 1)
    size = rng.normal(size=(robot.dof, 2, HARMONICS)) / np.arange(1, HARMONICS + 1)
    sine, cosine = np.sin(np.outer(w, t)), np.cos(np.outer(w, t))
    q = size[:, 0] @ sine + size[:, 1] @ cosine
    v = (size[:, 0] * w) @ cosine - (size[:, 1] * w) @ sine
    fastest = np.array([axis.limits.velocity or np.inf for axis in robot.axes])
    scale = np.minimum(half / np.abs(q).max(axis=1), 0.9 * fastest / np.abs(v).max(axis=1))
    a = -(size[:, 0] * w**2) @ sine - (size[:, 1] * w**2) @ cosine
    middle = 0.5 * (lower + upper)
    return t, middle[:, None] + scale[:, None] * q, scale[:, None] * v, scale[:, None] * a


def rigid(chosen: Chosen, path: Path, robot: Robot, q: Array, v: Array, a: Array) -> Array:
    """Efforts (n, N) of the axes by Pinocchio or MuJoCo; joints that are not logged stay where the robot holds them."""
    if chosen.kind == URDF:
        pinocchio = Pinocchio(path, robot)
        return np.stack([pinocchio.torque(*state) for state in zip(q.T, v.T, a.T, strict=True)], axis=1)
    oracle = Mujoco(path, robot)
    for name in ("dof_damping", "dof_dampingpoly"):  # friction is added here
        if hasattr(oracle.model, name):
            getattr(oracle.model, name)[:] = 0.0
    follow = np.zeros((len(robot.joints), robot.dof))
    follow[robot.axis_index, np.arange(robot.dof)] = 1.0
    for loop in robot.loops:  # fingers that follow each other: q = slope · q_other, without an offset
        assert isinstance(loop, JointLoop)
        offset, slope = loop.polynomial
        assert offset == 0.0
        one, other = robot.joint_index(loop.joint), robot.joint_index(loop.other)
        if one in robot.axis_index:
            follow[other] = follow[one] / slope
        else:
            follow[one] = slope * follow[other]
    states = zip((follow @ q).T, (follow @ v).T, (follow @ a).T, strict=True)
    return np.stack([follow.T @ oracle.tree_torque(*state) for state in states], axis=1)


def written(chosen: Chosen, robot: Robot, path: Path, t: Array, q: Array, tau: Array, rng: np.random.Generator) -> None:
    """A log with the columns in a random order after the clock, and two kinds that mean nothing here."""
    named = {chosen.clock[0]: t / UNITS[chosen.clock[1]]}
    columns = {}
    for k, name in enumerate(robot.axis_names):
        for (pattern, unit), x in ((chosen.position, q[k]), (chosen.effort, tau[k])):
            columns[pattern.format(k=k + chosen.first, name=name)] = x / UNITS[unit]
        columns[f"temperature_{k}"] = 30.0 + 0.01 * t + 0.1 * rng.normal(size=len(t))
    order = rng.permutation(len(columns))
    named |= {list(columns)[k]: columns[list(columns)[k]] for k in order}
    lines = [",".join(named), *(",".join(f"{x:.10g}" for x in row) for row in zip(*named.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n", "utf-8")


# --- The way of a user ------------------------------------------------------------------------------------------------


def steelyard(folder: Path, *arguments: str) -> dict[str, Any]:
    """The document that a command prints."""
    command = [sys.executable, "-m", "steelyard", *arguments, "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    document = json.loads(done.stdout) if done.stdout else {"error": done.stderr[-600:]}
    if "error" in document:
        raise RuntimeError(f"steelyard {' '.join(arguments)}: {document['error']}")
    return document


@single_threaded
def outcome(number: int) -> Outcome:
    chosen, start = TWELVE[number], time.perf_counter()
    path = (urdf_folder() if chosen.kind == URDF else mjcf_folder()) / chosen.file
    robot = read_robot(path, held=chosen.absent)
    rng = np.random.default_rng((SEED, number))
    drives: Drives | None = None
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for log in ("first.csv", "second.csv"):
            t, q, v, a = motion(robot, rng)
            tau = rigid(chosen, path, robot, q, v, a)
            rms = np.sqrt(np.mean(tau**2, axis=1))
            drives = drives or Drives(0.05 * rms / np.sqrt(np.mean(v**2, axis=1)), 0.1 * rms, 0.02 * rms)
            tau = tau + drives.torque(v)
            tau = tau + NOISE * rms[:, None] * rng.normal(size=tau.shape)
            written(chosen, robot, folder / log, t, ENCODER * np.round(q / ENCODER), tau, rng)
        assert drives is not None
        steelyard(folder, "init", str(path), "first.csv")
        is_right = map_is_right(chosen, path, robot, tomllib.loads((folder / "project.toml").read_text("utf-8")))
        checked = steelyard(folder, "check", "project.toml")
        steelyard(folder, "identify", "project.toml", "--estimator", "wls")
        scored = steelyard(folder, "validate", "project-run", "second.csv")
        opened = reopen(folder / "project-run", [])
        low, high = opened.result.interval(0.95)
        truth = opened.result.base.map @ true_parameters(opened.model, drives)
    alarms = [
        f"{command}: {one['code']} {one['where']}: {one['message']}"
        for command, document in (("check", checked), ("validate", scored))
        for one in document["findings"]
        if one["severity"] != "info"
    ]
    covered = int(np.sum((truth >= low) & (truth <= high)))
    error = float(scored["filtered"]["relative_error"]["total"])
    taken = time.perf_counter() - start
    return Outcome(chosen.file, robot.dof, len(truth), covered, is_right, tuple(alarms), error, taken)


def map_is_right(chosen: Chosen, path: Path, robot: Robot, project: dict[str, Any]) -> bool:
    """Whether the project names the right column, unit and sign for every joint, and holds what is not logged."""
    channels = project["channels"]
    for (pattern, unit), key in ((chosen.position, "q"), (chosen.effort, "effort")):
        given = channels[key]
        columns = {n: pattern.format(k=k + chosen.first, name=n) for k, n in enumerate(robot.axis_names)}
        signs = np.broadcast_to(given.get("sign", 1.0), robot.dof)
        units = [given["unit"]] if isinstance(given["unit"], str) else given["unit"]
        if given["columns"] != columns or set(units) != {unit} or np.any(signs != 1.0):
            return False
    clock = {"column": chosen.clock[0], "unit": chosen.clock[1]}
    held = read_robot(path, held=tuple(project.get("hold", ()))).held
    return channels["time"] == clock and held == robot.held


def true_parameters(model: Model, drives: Drives) -> Array:
    """θ (C,) of the robot that made the logs: inertias and rotors of the file, friction as added, all else zero."""
    axes = model.robot.axis_names
    added = {"Fv": drives.viscous, "Fc": drives.coulomb, "off": drives.offset}
    out = np.zeros(len(model.layout))
    for k, column in enumerate(model.layout.columns):
        if column.symbol in (*INERTIAL, "Ia"):
            out[k] = column.nominal or 0.0
        elif column.symbol in added and column.owner in axes:
            out[k] = added[column.symbol][axes.index(column.owner)]
    return out


# --- The run ----------------------------------------------------------------------------------------------------------


def summary(found: Sequence[Outcome]) -> dict[str, Any]:
    """What the documentation quotes."""
    total, covered = sum(one.base for one in found), sum(one.covered for one in found)
    return {
        "robots": [
            {"file": one.file, "axes": one.joints, "base": one.base, "covered": one.covered,
             "map": one.is_map_right, "alarms": len(one.alarms), "error": one.error}
            for one in found
        ],
        "base": total, "covered": covered, "coverage": covered / total,
        "maps": sum(one.is_map_right for one in found), "alarms": sum(len(one.alarms) for one in found),
    }  # fmt: skip


def show(found: Sequence[Outcome], console: Console) -> None:
    table = Table("robot", "axes", "base", "in 95 %", "map", "alarms", "unseen", "s")
    for one in found:
        map_text = "right" if one.is_map_right else "WRONG"
        table.add_row(
            one.file, str(one.joints), str(one.base), f"{one.covered}", map_text, str(len(one.alarms)),
            f"{100.0 * one.error:.1f} %", f"{one.seconds:.0f}",
        )  # fmt: skip
    console.print(table)
    for one in found:
        for alarm in one.alarms:
            console.print(f"{one.file}: {alarm}", highlight=False, markup=False)
    all_of = summary(found)
    console.print(
        f"{all_of['maps']} of {len(found)} maps right, {all_of['alarms']} false alarms, {all_of['covered']} of "
        f"{all_of['base']} true values in their 95 % intervals ({100.0 * all_of['coverage']:.1f} %)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=int, metavar="K")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    chosen = range(len(TWELVE)) if options.only is None else [options.only]
    with ProcessPoolExecutor(2) as pool:
        waiting = [pool.submit(outcome, k) for k in chosen]
        done = track(waiting, "Robots", console=Console(stderr=True), transient=True)
        found = [one.result() for one in done]
    if options.json:
        print(json.dumps([asdict(one) for one in found], indent=1))
    else:
        show(found, Console(width=max(100, Console().width)))
    all_of = summary(found)
    right = all_of["maps"] == len(found) and not all_of["alarms"]
    sys.exit(0 if right and COVERAGE[0] <= all_of["coverage"] <= COVERAGE[1] else 1)


if __name__ == "__main__":
    main()
