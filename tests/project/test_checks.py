"""Every fault put into simulated and real logs is named at its joint; clean logs are not accused."""

from __future__ import annotations

import importlib.util
import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
import pytest

from steelyard._arrays import Array
from steelyard.errors import SteelyardError
from steelyard.formats.robots import read_robot
from steelyard.model.model import Model
from steelyard.model.terms import DEFAULT_TERMS, named_terms
from steelyard.motion.random import random_fourier
from steelyard.project.checks import Check, check, tracks
from steelyard.project.demos.demo import furnished, perturbed
from steelyard.project.project import read_project
from steelyard.project.run import run
from testbed.command import Run
from testbed.simulated import coloured

ROOT = Path(__file__).resolve().parents[2]
Columns = dict[str, Array]
RATE, SECONDS = 250.0, 20.0
# Most faults are put on the first four joints of a UR10e: a check of all six takes three times as long.
# evidence/faults.py puts the same ones on the six joints of a real log.
HELD = {"wrist_2_joint": 0.5, "wrist_3_joint": -0.8}


def log_of(name: str, seed: int = 3, noise: float = 0.03, held: Mapping[str, float] = {}) -> Columns:
    """t, q1 …, v1 …, tau1 … of a robot that differs from its file by a fifth, with coloured noise and rounding."""
    rng = np.random.default_rng(seed)
    model = Model(furnished(read_robot(name, held=held), rng), named_terms(DEFAULT_TERMS))
    theta = perturbed(model, rng)
    t = np.arange(int(SECONDS * RATE)) / RATE
    q, v, a = random_fourier(model.robot, 5, 0.1, SECONDS, rng).at(t)
    tau = model.torque(q, v, a, theta)
    tau = tau + noise * np.sqrt(np.mean(tau**2, axis=1, keepdims=True)) * coloured(rng, tau.shape, 0.9)
    columns = {"t": t}
    for label, x, step in (("q", q, 2e-5), ("v", v, 1e-4), ("tau", tau, 1e-4)):
        columns |= {f"{label}{j + 1}": np.round(row / step) * step for j, row in enumerate(x)}
    return columns


def checked(
    folder: Path,
    columns: Columns,
    robot: str = "ur10e",
    velocities: bool = False,
    prepare: str = "",
    run: str = "",
    held: Mapping[str, float] = {},
) -> Check:
    """The check of a project on these columns."""
    folder.mkdir(exist_ok=True)
    pl.DataFrame(columns).write_parquet(folder / "log.parquet")
    count = sum(name.startswith("tau") for name in columns)

    def listed(label: str) -> str:
        return "[" + ", ".join(f'"{label}{j + 1}"' for j in range(count)) + "]"

    v = f'v = {{ columns = {listed("v")}, unit = "rad/s" }}' if velocities else ""
    (folder / "project.toml").write_text(
        f"""
robot = "{robot}"
hold = {json.dumps([f"{joint}={position}" for joint, position in held.items()])}
[prepare]
cutoff_hz = 20.0
lowpass_hz = 8.0
{prepare}
[channels]
time = {{ column = "t", unit = "s" }}
q = {{ columns = {listed("q")}, unit = "rad" }}
{v}
effort = {{ columns = {listed("tau")}, unit = "N.m" }}
[[run]]
log = "log.parquet"
{run}
""",
        "utf-8",
    )
    return check(read_project(folder / "project.toml"))


def scaled(columns: Columns, factors: dict[str, float]) -> Columns:
    return columns | {name: columns[name] * factor for name, factor in factors.items()}


def exchanged(columns: Columns, *pairs: tuple[str, str]) -> Columns:
    out = dict(columns)
    for a, b in pairs:
        out[a], out[b] = columns[b], columns[a]
    return out


def frozen(columns: Columns, names: list[str]) -> Columns:
    out = dict(columns)
    for start in (6.0, 9.5, 13.0):
        rows = np.flatnonzero((columns["t"] >= start) & (columns["t"] < start + 0.5))
        for name in names:
            out[name] = out[name].copy()
            out[name][rows] = out[name][rows[0]]
    return out


def late(columns: Columns, names: list[str], seconds: float) -> Columns:
    t = columns["t"]
    return columns | {name: np.interp(t - seconds, t, columns[name]) for name in names}


def cut_off(columns: Columns) -> Columns:
    limit = 0.7 * np.abs(columns["tau2"]).max()
    return columns | {"tau2": np.clip(columns["tau2"], -limit, limit)}


JOINTS = read_robot("ur10e", held=HELD).joint_names
POSITIONS = [f"q{j}" for j in range(1, 5)]
EFFORTS = [f"tau{j}" for j in range(1, 5)]
DEGREE = np.pi / 180.0

FAULTS: dict[str, tuple[Callable[[Columns], Columns], str, str, str]] = {
    "degrees": (lambda c: scaled(c, dict.fromkeys(POSITIONS, 1 / DEGREE)), "wrong-angle-unit", "all joints", "57.3"),
    "radians": (lambda c: scaled(c, dict.fromkeys(POSITIONS, DEGREE)), "wrong-angle-unit", "all joints", "0.01745"),
    "degrees of one": (lambda c: scaled(c, {"q3": 1 / DEGREE}), "wrong-angle-unit", JOINTS[2], "57.3"),
    "milliseconds": (lambda c: scaled(c, {"t": 1000.0}), "wrong-time-unit", "t", "1000"),
    "seconds": (lambda c: scaled(c, {"t": 0.001}), "wrong-time-unit", "t", "0.001"),
    "flipped effort": (lambda c: scaled(c, {"tau4": -1.0}), "wrong-sign", JOINTS[3], f"({JOINTS[3]}: "),
    "flipped position": (lambda c: scaled(c, {"q2": -1.0}), "wrong-sign", JOINTS[1], "position"),
    "swapped joints": (
        lambda c: exchanged(c, ("q2", "q3"), ("tau2", "tau3")), "swapped-columns", ", ".join(JOINTS[1:3]), "position",
    ),
    "swapped efforts": (lambda c: exchanged(c, ("tau1", "tau2")), "swapped-columns", ", ".join(JOINTS[:2]), "effort"),
    "motor side": (lambda c: scaled(c, {"tau2": 0.01}), "wrong-gear-side", JOINTS[1], "times too small"),
    "motor side of all": (lambda c: scaled(c, dict.fromkeys(EFFORTS, 0.01)), "wrong-gear-side", "all joints", "small"),
    "wrong ratio": (lambda c: scaled(c, {"tau3": 1.5}), "wrong-ratio", JOINTS[2], "times too large"),
    "late": (lambda c: late(c, ["tau2"], 0.04), "effort-delay", JOINTS[1], "ms after"),
    "all late": (lambda c: late(c, EFFORTS, 0.03), "effort-delay", "all joints", "ms after"),
    "saturated": (cut_off, "saturated-effort", JOINTS[1], "clipped"),
    "constant effort": (lambda c: c | {"tau3": np.full(len(c["t"]), 3.0)}, "constant-channel", JOINTS[2], "tau3"),
    "constant position": (lambda c: c | {"q4": np.full(len(c["t"]), 0.5)}, "constant-channel", JOINTS[3], "q4"),
    "stale effort": (lambda c: frozen(c, ["tau3"]), "stale-channel", JOINTS[2], "tau3"),
    "stale position": (lambda c: frozen(c, ["q2"]), "stale-channel", JOINTS[1], "q2"),
    "stale rows": (lambda c: frozen(c, [n for n in c if n != "t"]), "stale-channel", "log.parquet", "no channel"),
    "joint at rest": (lambda c: scaled(c, {"q4": 0.004}), "little-motion", JOINTS[3], "travels"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_first_at_its_joint(name: str, tmp_path: Path) -> None:
    fault, code, where, words = FAULTS[name]
    found = checked(tmp_path / "case", fault(log_of("ur10e", held=HELD)), held=HELD)
    first = found.findings[0]
    assert (first.code, first.where) == (code, where), [str(f) for f in found.findings]
    assert words in first.message
    assert first.fix
    assert found.failed == (first.severity == "error")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["clean", *(pytest.param(one, marks=[pytest.mark.evidence] * (k % 3 > 0)) for k, one in enumerate(FAULTS))],
)
def test_identify_raises_every_error_of_check(name: str, tmp_path: Path) -> None:
    """Also where its first look must find the fault before all trials are made; a clean log gets no error."""
    fault = FAULTS[name][0] if name in FAULTS else lambda columns: columns
    found = checked(tmp_path / "case", fault(log_of("ur10e")))
    errors = {(finding.code, finding.where) for finding in found.findings if finding.severity == "error"}
    try:
        result = run(read_project(tmp_path / "case" / "project.toml"), tmp_path / "out").identification
    except SteelyardError:  # no result at all
        assert errors
        return
    assert errors <= {(finding.code, finding.where) for finding in result.findings}
    assert bool(errors) == (name in FAULTS)


@pytest.mark.slow
@pytest.mark.parametrize(("robot", "seed"), [("ur10e", 1), ("tx40", 2), ("kr270", 3), ("planar2r", 4), ("panda", 5)])
def test_clean_logs_are_not_accused(robot: str, seed: int, tmp_path: Path) -> None:
    found = checked(tmp_path / "case", log_of(robot, seed), robot)
    # the simulated KR270 has no spring, which is told of its log
    accused = [f for f in found.findings if f.severity != "info" and f.code != "spring-separability"]
    assert not [str(finding) for finding in accused]
    assert found.relative_error is not None
    assert max(found.relative_error.values()) < 0.3
    assert "No fault found" in found.verdict


@pytest.mark.slow
def test_sizes_are_told(tmp_path: Path) -> None:
    columns = log_of("ur10e", 8, held=HELD)
    for name, faulty, number in (
        ("ratio", scaled(columns, {"tau3": 1.5}), 1.5),
        ("side", scaled(columns, {"tau2": 1 / 101.0}), 101.0),
        ("delay", late(columns, EFFORTS, 0.03), 30.0),
    ):
        message = checked(tmp_path / name, faulty, held=HELD).findings[0].message
        numbers = [float(word) for word in message.split() if word.replace(".", "", 1).isdigit()]
        assert min(abs(np.log(x / number)) for x in numbers if x > 0) < np.log(1.1), message


@pytest.mark.slow
def test_measured_velocities_tell_without_a_model(tmp_path: Path) -> None:
    columns = log_of("ur10e", 5, held=HELD)
    for name, faulty, code, where in (
        ("sign", scaled(columns, {"v4": -1.0}), "wrong-sign", JOINTS[3]),
        ("unit", scaled(columns, {"v4": 1 / DEGREE}), "wrong-angle-unit", JOINTS[3]),
        ("order", exchanged(columns, ("v1", "v2")), "swapped-columns", f"{JOINTS[0]}, {JOINTS[1]}"),
        ("clock", scaled(columns, {"t": 2.0}), "wrong-time-unit", "t"),
    ):
        first = checked(tmp_path / name, faulty, velocities=True, held=HELD).findings[0]
        assert (first.code, first.where) == (code, where), first.message
    clean = checked(tmp_path / "clean", columns, velocities=True, held=HELD)
    assert not clean.failed


@pytest.mark.slow
def test_another_robot_is_recognised(tmp_path: Path) -> None:
    found = checked(tmp_path / "case", log_of("tx40", 4), "ur10e")
    first = found.findings[0]
    assert first.code == "wrong-robot"
    assert "tx40" in first.message
    assert found.failed


@pytest.mark.slow
def test_what_cannot_be_told_is_said(tmp_path: Path) -> None:
    """Without inertias in the robot file a common factor of all efforts leaves no trace."""
    columns = log_of("kr270", 6)
    found = checked(tmp_path / "case", scaled(columns, {f"tau{j}": 0.01 for j in range(1, 7)}), "kr270")
    assert not found.failed
    assert any(f.code == "not-detectable" and "scale of all efforts" in f.message for f in found.findings)


@pytest.mark.slow
def test_two_faults_are_both_named(tmp_path: Path) -> None:
    found = checked(tmp_path / "case", scaled(log_of("ur10e", held=HELD), {"tau2": -1.0, "tau4": -1.0}), held=HELD)
    errors = [(f.code, f.where) for f in found.findings if f.severity == "error"]
    assert sorted(errors) == [("wrong-sign", JOINTS[1]), ("wrong-sign", JOINTS[3])]


def test_a_log_that_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    columns = log_of("ur10e")
    columns["t"] = columns["t"].copy()
    columns["t"][100:] -= 0.3
    found = checked(tmp_path / "case", columns)
    assert found.findings[0].code == "unreadable-log"
    assert "backwards" in found.findings[0].message
    assert found.relative_error is None


def test_a_long_log_is_thinned_and_not_accused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks that are left out of a long log are no logger that stood still, and a window is cut out beforehand."""
    log = log_of("planar2r", 4)
    monkeypatch.setattr(tracks, "CHUNK_ROWS", 256)
    monkeypatch.setattr(tracks, "MOST_ROWS", 1024)
    assert not checked(tmp_path / "thinned", log, "planar2r").failed
    (tmp_path / "window").mkdir()
    # chunks of a second, of which one in eight would be kept of the whole log: two seconds lie between them
    found = checked(tmp_path / "window", log, "planar2r", run="seconds = [9.5, 11.5]")
    assert not {"unreadable-log", "stale-channel"} & {finding.code for finding in found.findings}


@pytest.mark.slow
def test_a_sign_that_cannot_be_told_from_its_neighbour_is_not_guessed(tmp_path: Path) -> None:
    """A joint that carries next to nothing: its effort is named, and that it may be the position is said."""
    log = log_of("ur10e")
    found = checked(tmp_path, scaled(log, {"tau6": -1.0}), velocities=True)
    first = found.findings[0]
    assert (first.code, first.where) == ("wrong-sign", "wrist_3_joint")
    assert "the effort of wrist_3_joint" in first.message


@pytest.mark.slow
def test_command_exits_with_one_for_a_fault_and_two_for_a_bad_project(steelyard: Run, tmp_path: Path) -> None:
    log = log_of("planar2r", 4)
    checked(tmp_path / "bad", scaled(log, {"tau2": -1.0}), "planar2r")
    told = steelyard("check", tmp_path / "bad" / "project.toml", "--json")
    assert told.code == 1
    assert told.document["schema"] == "steelyard.check/1"
    assert told.document["failed"]
    assert told.document["findings"][0]["code"] == "wrong-sign"
    assert set(told.document["relative_error"]) == {"joint1", "joint2"}
    checked(tmp_path / "good", log, "planar2r")
    told = steelyard("check", tmp_path / "good" / "project.toml")
    assert told.code == 0
    assert told.err.lstrip().startswith("No fault found")
    assert steelyard("check", tmp_path / "nowhere.toml").code == 2


# --- Real logs: a fast part of evidence/faults.py ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def faults() -> ModuleType:
    spec = importlib.util.spec_from_file_location("faults", ROOT / "evidence" / "faults.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize(
    ("log", "fault"),
    [
        *((log, "clean") for log in ("tx40", "ur10e", "panda", "kr300", "cobot6")),
        *((log, "degrees") for log in ("tx40", "panda")),
        *((log, "saturation") for log in ("ur10e", "kr300", "cobot6")),
    ],
)
def test_real_logs(log: str, fault: str, faults: ModuleType, shared_data: Callable[..., Path]) -> None:
    shared_data()
    table: dict[str, Any] = tomllib.loads(faults.TABLE.read_text("utf-8"))
    case = next(c for c in faults.cases(table) if (c.log, c.fault) == (log, fault))
    joints = read_project(faults.REAL / table["logs"][log]["project"]).robot().joint_names
    seen = faults.outcome(case, table)
    assert faults.right(case, seen, joints), seen


def test_every_untellable_fault_has_a_reason(faults: ModuleType) -> None:
    table = tomllib.loads(faults.TABLE.read_text("utf-8"))
    found = list(faults.cases(table))
    assert all(case.reason for case in found if not case.tellable)
    assert {case.code for case in found} - {""} == set(faults.FAULTS)
    assert {case.log for case in found} == set(table["logs"])
