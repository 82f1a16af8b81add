"""The command line as a user meets it: documents on stdout, people's text on stderr, mistakes told in one sentence."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.cli.console import people, say_findings
from steelyard.cli.door.commands import COMMANDS
from steelyard.estimators import ESTIMATORS
from steelyard.findings import Finding, Severity
from steelyard.formats.robots import builtin_robots
from steelyard.project.result_file import read_result
from testbed.command import Run
from testbed.pendulum import PROJECT, csv
from testbed.simulated import TORQUE_ESTIMATORS


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


# --- Lists ------------------------------------------------------------------------------------------------------------


def test_robots(steelyard: Run) -> None:
    told = steelyard("robots", "--json")
    assert told.code == 0
    assert told.document["schema"] == "steelyard.robots/1"
    listed = {robot["name"]: robot for robot in told.document["robots"]}
    assert set(listed) == set(builtin_robots())
    assert listed["tx40"]["joints"] == 6
    assert listed["tx40"]["nominal_inertias"] is True
    for_people = steelyard("robots")
    assert for_people.out == ""
    assert "tx40" in for_people.err


def test_estimators(steelyard: Run) -> None:
    told = steelyard("estimators", "--json")
    assert told.document["schema"] == "steelyard.estimators/1"
    assert set(told.document["estimators"]) == set(ESTIMATORS)
    for_people = steelyard("estimators")
    assert for_people.out == ""
    assert all(name in for_people.err for name in ESTIMATORS)


def test_version(steelyard: Run) -> None:
    told = steelyard("--version")
    assert (told.code, told.err) == (0, "")
    assert told.out.strip() == version("steelyard")


def test_help(steelyard: Run) -> None:
    told = steelyard("--help")
    assert told.code == 0
    assert "identify" in told.out
    # no command: the help again, as a mistake, and no other word
    told = steelyard()
    assert told.code == 2
    assert "identify" in told.out + told.err
    assert "error" not in told.err.replace("error bars", "").replace("honest error", "")


@pytest.mark.slow
def test_warm(steelyard: Run) -> None:
    assert steelyard("warm", "--json").document["seconds"] >= 0.0


# --- Base parameters --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ([], (86, 11, 60)),
        (["--without", "off"], (80, 11, 54)),
        (["--gravity", "0,0,0"], (86, 13, 58)),
        (["--gravity", "1,2,-9"], (86, 8, 62)),
    ],
)
def test_params_of_the_tx40(steelyard: Run, options: list[str], counts: tuple[int, int, int]) -> None:
    told = steelyard("params", "tx40", *options, "--json")
    assert told.code == 0
    assert told.document["counts"] == dict(zip(("standard", "zero", "base"), counts, strict=True))
    regroupings = told.document["regroupings"]
    assert len(regroupings) == counts[2]
    assert all(group[name] == 1.0 for name, group in regroupings.items())
    assert len(told.document["zero"]) == counts[1]
    assert len(told.document["parameters"]) == counts[0]
    assert told.document["gap"]["smallest_kept"] > 1e3 * told.document["gap"]["largest_dropped"]


def test_params_regroups_as_the_papers_do(steelyard: Run) -> None:
    groups = steelyard("params", "tx40", "--json").document["regroupings"]
    # ZZ1R = ZZ1 + Ia1 + d3² (M3 + M4 + M5 + M6) + … with d3 = 0.225 m
    assert groups["link1.ZZ"]["joint1.Ia"] == pytest.approx(1.0)
    assert groups["link1.ZZ"]["link2.YY"] == pytest.approx(1.0)
    assert groups["link2.XX"]["link3.M"] == pytest.approx(-(0.225**2))


def test_params_for_people(steelyard: Run) -> None:
    told = steelyard("params", "tx40")
    assert (told.code, told.out) == (0, "")
    assert "60 base parameters" in told.err


def test_params_of_a_file_with_other_terms(steelyard: Run, project: Path) -> None:
    robot = project.parent / "pendulum.toml"
    assert steelyard("params", robot, "--terms", "", "--json").document["counts"]["standard"] == 20
    assert steelyard("params", robot, "--terms", "viscous", "--json").document["terms"] == ["viscous"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["params", "tx41"], "no built-in robot has that name. Built-in robots: "),
        (["params", "tx40", "--terms", "viscos"], "Unknown term 'viscos'. Did you mean 'viscous'?"),
        (["params", "tx40", "--without", "offf"], "Unknown symbol or parameter 'offf'. Did you mean 'off'?"),
        (["params", "tx40", "--gravity", "0,0"], "--gravity takes three numbers"),
        (["params", "tx40", "--gravity", "0,0,x"], "--gravity takes three numbers"),
        (["params", "tx40", "--gravity", "0,0,nan"], "Gravity must be three finite numbers"),
        (["parms", "tx40"], "No such command 'parms'"),
        (["params"], "Missing argument"),
        (["params", "tx40", "--colour"], "No such option"),
        (["paramss", "tx40"], "Did you mean 'params'? See: steelyard --help"),
        (["payload", "run", "--rows", "1"], "See: steelyard payload --help"),
    ],
)
def test_mistakes_on_the_command_line(steelyard: Run, arguments: list[str], message: str) -> None:
    told = steelyard(*arguments)
    assert (told.code, told.out) == (2, "")
    assert message in told.err
    as_json = steelyard(*arguments, "--json")
    assert as_json.code == 2
    assert as_json.document["schema"] == "steelyard.error/1"
    assert message in as_json.document["error"]


# --- Identify ---------------------------------------------------------------------------------------------------------


def check_result(data: dict[str, Any], base: int) -> None:
    """Everything a reader of result.json may count on."""
    assert data["schema"] == "steelyard.result/3"
    assert {"standard", "zero", "base"} <= set(data["counts"])
    assert data["counts"]["base"] == base == len(data["parameters"])
    for parameter in data["parameters"]:
        assert set(parameter) == {
            "name",
            "value",
            "std",
            "std_classical",
            "relative_std",
            "unit",
            "expression",
            "status",
            "nominal",
            "terms",
            "quality",
        }
        assert parameter["expression"].startswith(parameter["name"])
        assert parameter["unit"]
        if parameter["value"] is not None:
            assert parameter["std"] > 0
            assert parameter["relative_std"] == pytest.approx(parameter["std"] / abs(parameter["value"]))
    for score in (data["relative_error"], data["nominal"]):
        assert {"total", "joints", "rmse", "rows", "mask"} <= set(score)
        assert set(score["joints"]) == set(score["rmse"]) == set(score["rows"])
    for finding in data["findings"]:
        assert {"code", "severity", "message", "where", "fix"} <= set(finding)
    for run in data["runs"]:
        assert len(run["sha256"]) == 64
        assert run["history"]
    assert {"steelyard", "numpy", "scipy", "numba"} <= set(data["versions"])


@pytest.mark.slow
def test_identify_writes_a_run_folder(steelyard: Run, project: Path) -> None:
    told = steelyard("identify", project)
    assert (told.code, told.out) == (0, "")
    folder = project.parent / "project-run"
    assert listing(folder) == ["report.html", "result.json"]
    data = json.loads((folder / "result.json").read_text("utf-8"))
    check_result(data, data["counts"]["base"])
    assert data["runs"][0]["sha256"] == hashlib.sha256((project.parent / "log.csv").read_bytes()).hexdigest()
    assert data["project"]["prepare"]["cutoff_hz"] == 20.0
    assert data["relative_error"]["total"] < 0.1 < 1.0
    assert data["verdict"].split(" (")[0] in " ".join(told.err.split())
    assert read_result(folder).estimator == "wls"


def test_json_is_one_object_and_the_file_says_the_same(steelyard: Run, project: Path, tmp_path: Path) -> None:
    out = tmp_path / "here" / "run"
    told = steelyard("identify", project, "--out", out, "--estimator", "ls", "--json")
    assert told.code == 0
    assert told.document == json.loads((out / "result.json").read_text("utf-8"))
    assert told.document["estimator"] == "ls"
    assert read_result(out).estimator == "ls"


@pytest.mark.slow
def test_a_second_run_replaces_the_first(steelyard: Run, project: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert steelyard("identify", project, "--out", out).code == 0
    (out / "notes.txt").write_text("mine")
    assert steelyard("identify", project, "--out", out, "--estimator", "ls").code == 2
    assert listing(out) == ["notes.txt", "report.html", "result.json"]
    (out / "notes.txt").unlink()
    assert steelyard("identify", project, "--out", out, "--estimator", "ls").code == 0
    assert listing(out) == ["report.html", "result.json"]
    assert read_result(out).estimator == "ls"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.slow
@pytest.mark.parametrize("failing", [1, 2])
def test_a_failed_replacement_keeps_the_earlier_run(
    steelyard: Run, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    out = tmp_path / "run"
    assert steelyard("identify", project, "--out", out).code == 0
    before = listing(tmp_path)
    rename, calls = os.rename, []

    def full(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) == failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        rename(source, target)

    monkeypatch.setattr("steelyard.project.output_folder.exchange", lambda one, other: False)
    monkeypatch.setattr("steelyard.project.output_folder.os.rename", full)
    told = steelyard("identify", project, "--out", out, "--estimator", "ls")
    assert told.code == 2
    assert "No space left on device" in told.err
    assert listing(tmp_path) == before
    assert read_result(out).estimator == "wls"


@pytest.mark.slow
def test_the_same_twice(steelyard: Run, project: Path) -> None:
    one, two = (steelyard("identify", project, "--json").out for _ in range(2))
    assert one == two


def test_a_folder_of_other_things_is_left_alone(steelyard: Run, project: Path, tmp_path: Path) -> None:
    out = tmp_path / "thesis"
    out.mkdir()
    (out / "chapter1.tex").write_text("words")
    told = steelyard("identify", project, "--out", out)
    assert told.code == 2
    assert f"'{out}' holds other files (chapter1.tex), which would be lost" in told.err
    assert listing(out) == ["chapter1.tex"]


def test_validation_runs_are_scored_as_unseen(steelyard: Run, project: Path, recorded: dict[str, Array]) -> None:
    (project.parent / "other.csv").write_text(csv({name: x[:1200] for name, x in recorded.items()}), "utf-8")
    with project.open("a", encoding="utf-8") as stream:
        stream.write('\n[[run]]\nlog = "other.csv"\nrole = "validate"\n')
    data = steelyard("identify", project, "--json").document
    assert 0.0 < data["unseen"]["total"] < 0.2
    assert [(run["name"], run["role"]) for run in data["runs"]] == [("log.csv", "identify"), ("other.csv", "validate")]
    assert "unseen" in data["verdict"]


# --- Demo -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_demo(steelyard: Run, tmp_path: Path) -> None:
    out = tmp_path / "demo"
    told = steelyard("demo", "--out", out, "--json")
    assert told.code == 0
    assert listing(out) == sorted(
        ["identify.csv", "validate.csv", "project.toml", "project-run"]
        + [f"project-run/{name}" for name in ("report.html", "result.json")]
    )
    data = told.document
    check_result(data, 60)
    truth = data.pop("truth")
    assert set(truth) == {parameter["name"] for parameter in data["parameters"]}
    assert data == json.loads((out / "project-run" / "result.json").read_text("utf-8"))
    assert data["counts"]["standard"] == 86
    assert data["counts"]["zero"] == 11
    assert data["relative_error"]["total"] < 0.05
    assert data["unseen"]["total"] < 0.05
    assert "of 60 true values lie in their 95 % intervals" in " ".join(told.err.split())
    # the project it wrote runs by itself, into the same numbers
    again = steelyard("identify", out / "project.toml", "--out", tmp_path / "again", "--json").document
    assert again["parameters"] == data["parameters"]


@pytest.mark.slow
def test_demo_prints_verdict_lamps_commands_and_report_in_under_40_lines(steelyard: Run, tmp_path: Path) -> None:
    out = tmp_path / "demo"
    told = steelyard("demo", "planar2r", "--out", out)
    lines = told.err.splitlines()
    assert len(lines) < 40
    assert any(line.startswith("Explains ") for line in lines)
    lamps = [line for line in lines if line.startswith(("[+] ", "[!] ", "[x] ", "[?] "))]
    assert [line.partition(": ")[0][4:] for line in lamps] == [
        "Predicts unseen motion", "Parameters physical", "Good enough for simulation",
    ]  # fmt: skip
    start = lines.index("Next:")
    assert all(line.startswith("  steelyard ") for line in lines[start + 1 : start + 4])
    assert lines[-1] == f"Report: {out / 'project-run' / 'report.html'}"
    page = (out / "project-run" / "report.html").read_text("utf-8")
    document = json.loads((out / "project-run" / "result.json").read_text("utf-8"))
    assert f"<title>planar2r · {document['date']}</title>" in page
    # the folder it was made in is the one it is in
    assert all(run["source"] == str(out / run["name"]) for run in document["runs"])
    # every lamp's command is one that the command line knows
    for lamp in document["lamps"]:
        words = lamp["command"].split()
        assert words[0] == "steelyard"
        assert words[1] in COMMANDS
    with_tables = steelyard("demo", "planar2r", "--out", out, "--table").err
    assert "Errors per joint" in with_tables


def test_demo_leaves_other_things_alone(steelyard: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    told = steelyard("demo", "planar2r", "--out", tmp_path)
    assert told.code == 2
    assert "holds other files" in told.err
    for place in (tmp_path / "mine.txt", tmp_path / "mine.txt" / "deeper"):
        told = steelyard("demo", "planar2r", "--out", place)
        assert told.code == 2
        assert "error:" in told.err
    assert listing(tmp_path) == ["mine.txt"]


@pytest.mark.slow
def test_in_a_process_of_its_own(project: Path) -> None:
    command = [sys.executable, "-m", "steelyard", "identify", project.name, "--json"]
    done = subprocess.run(command, cwd=project.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert json.loads(done.stdout)["robot"] == "pendulum"
    project.write_text("robot = ", "utf-8")
    done = subprocess.run(command[:-1], cwd=project.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "project.toml' is not valid TOML" in done.stderr
    assert "Traceback" not in done.stderr


# --- Bad input --------------------------------------------------------------------------------------------------------

DOCTYPE = """\
<?xml version="1.0"?>
<!DOCTYPE robot [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>
<robot name="&b;"><link name="base"/></robot>
"""
BROKEN_URDF = '<robot name="r"><link name="base"></robot>'


class Mistake(NamedTuple):
    """What is done to a good project, and what the user must be told."""

    tells: tuple[str, ...]
    project: Callable[[str], str] = lambda text: text
    log: Callable[[dict[str, Array]], Mapping[str, Array] | None] = lambda log: log
    files: Mapping[str, str] = {}
    options: tuple[str, ...] = ()


def swap(old: str, new: str) -> Callable[[str], str]:
    assert PROJECT.count(old) == 1, old
    return lambda text: text.replace(old, new)


def changed(column: str, row: int, value: float) -> Callable[[dict[str, Array]], dict[str, Array]]:
    def change(log: dict[str, Array]) -> dict[str, Array]:
        values = log[column].copy()
        values[row] = value
        return {**log, column: values}

    return change


def key_in(before: str, table: str, valid: str) -> Mistake:
    return Mistake((f"Unknown key {table} 'colour'", valid), swap(before, f"{before}\ncolour = 1"))


MISTAKES: dict[str, Mistake] = {
    "unknown joint in the channel table": Mistake(
        ("Channel 'q', columns: Unknown joint 'joint3'", "Valid: joint1, joint2"),
        swap('joint2 = "q_joint2"', 'joint3 = "q_joint2"'),
    ),
    "unknown column": Mistake(("Unknown column of 'log.csv' 'q_elbow'", "tau_joint2"), swap('"q_joint2"', '"q_elbow"')),
    "wrong unit": Mistake(("Channel 'q': Unknown unit 'degrees'", "Did you mean 'deg'"), swap('"rad"', '"degrees"')),
    "unit of a slide": Mistake(("unit 'N' does not fit the revolute joint 'joint1'",), swap('"N.m"', '"N"')),
    "NaN in the log": Mistake(
        ("Log 'log.csv': column 'q_joint2' is NaN or empty in row 301",), log=changed("q_joint2", 300, np.nan)
    ),
    "time backwards": Mistake(
        ("Log 'log.csv': time goes backwards in row 301",),
        log=lambda log: log | {"t": np.concatenate([log["t"][:300], log["t"][300:] - 1.0])},
    ),
    "too short for the filter": Mistake(
        ("Log 'log.csv' is too short",), log=lambda log: {k: x[:60] for k, x in log.items()}
    ),
    "too short for the parameters": Mistake(
        ("log is too short",),
        swap("rest = 0.02", 'rest = 0.02\nderivatives = "differences"'),
        log=lambda log: {k: x[500:690] for k, x in log.items()},
    ),
    "a log of one row": Mistake(
        ("Log 'log.csv' has 1 distinct rows",), log=lambda log: {k: x[:1] for k, x in log.items()}
    ),
    "nothing moves": Mistake(("Log 'log.csv'",), log=lambda log: {k: x if k == "t" else 0 * x for k, x in log.items()}),
    "unknown key at the top": Mistake(
        ("Unknown key at the top level 'colour'", "Valid: robot, channels, run, terms"),
        swap('estimator = "wls"', 'estimator = "wls"\ncolour = 1'),
    ),
    "unknown key in prepare": key_in("rest = 0.02", "in [prepare]", "Valid: cutoff_hz, rate_hz, gap_s"),
    "unknown key in channels": key_in("[channels]", "in [channels]", "Valid: time, q, effort, v"),
    "unknown key in channels.q": key_in('unit = "rad"', "in [channels.q]", "Valid: columns, unit, side, sign"),
    "unknown key in channels.effort": key_in('unit = "N.m"', "in [channels.effort]", "Valid: columns, unit, side"),
    "unknown key in channels.time": Mistake(
        ("Unknown key in [channels.time] 'units'", "Did you mean 'unit'?"), swap('unit = "s"', 'units = "s"')
    ),
    "unknown key in run": key_in('log = "log.csv"', "in [run]", "Valid: log, role, load, name, rows, seconds"),
    "missing key": Mistake(("missing required field `unit`", "in [channels.q]"), swap('unit = "rad"\n', "")),
    "wrong type": Mistake(("Expected `int | null`, got `str`", "prepare.decimate"), swap("= 6", '= "often"')),
    "no such cut-off": Mistake(
        ('prepare.cutoff_hz must be "auto", "none" or a frequency in Hz, not \'fast\'',), swap("20.0", '"fast"')
    ),
    "no run to fit": Mistake(("no [[run]] has role",), swap('"log.csv"', '"log.csv"\nrole = "validate"')),
    "unknown role": Mistake(
        ("Unknown role 'train'",), lambda text: text + 'role = "identify"\n[[run]]\nlog = "log.csv"\nrole = "train"\n'
    ),
    "two runs of one name": Mistake(
        ("Two runs have the same name: log.csv, log.csv",), lambda text: text + '[[run]]\nlog = "log.csv"\n'
    ),
    "rows and seconds": Mistake(
        ("has both 'rows' and 'seconds'",), lambda text: text + "rows = [1, 100]\nseconds = [0.0, 1.0]\n"
    ),
    "rows beyond the log": Mistake(("rows 1 to 99999 were requested",), lambda text: text + "rows = [1, 99999]\n"),
    "negative width": Mistake(("sign_width must be zero or positive",), lambda text: "sign_width = -1.0\n" + text),
    "cut-off too high": Mistake(("prepare.cutoff_hz = 200 is not below half the rate",), swap("20.0", "200.0")),
    "parallel filter too high": Mistake(("prepare.lowpass_hz = 800 must lie",), swap("8.0", "800.0")),
    "decimate by nothing": Mistake(("prepare.decimate must be a whole number from 1",), swap("= 6", "= 0")),
    "rest for a joint that is not there": Mistake(("'elbow'", "joint1, joint2"), swap("0.02", "{ elbow = 0.1 }")),
    "rest for one joint only": Mistake(("prepare.rest gives no value for joint2",), swap("0.02", "{ joint1 = 0.1 }")),
    "malformed URDF": Mistake(("arm.urdf",), swap("pendulum.toml", "arm.urdf"), files={"arm.urdf": BROKEN_URDF}),
    "hostile URDF": Mistake(("arm.urdf", "DOCTYPE"), swap("pendulum.toml", "arm.urdf"), files={"arm.urdf": DOCTYPE}),
    "missing log": Mistake(("does not exist", "log.csv"), log=lambda log: None),
    "missing robot": Mistake(("The robot file", "other.toml"), swap("pendulum.toml", "other.toml")),
    "unknown built-in robot": Mistake(("Built-in robots: ",), swap("pendulum.toml", "pendulumm")),
    "unknown estimator in the file": Mistake(("Unknown estimator 'wsl'. Did you mean 'wls'?",), swap('"wls"', '"wsl"')),
    "unknown estimator asked for": Mistake(("Unknown estimator 'magic'. Valid: ",), options=("--estimator", "magic")),
    "unknown term": Mistake(("Unknown term 'stiction'",), lambda text: 'terms = ["stiction"]\n' + text),
    "coupling of a robot that has none": Mistake(
        ("Term 'coupling' needs a robot with coupled motors",), lambda text: 'terms = ["rotor", "coupling"]\n' + text
    ),
    "gravity of two numbers": Mistake(
        ("Gravity must be three finite numbers",), lambda text: "gravity = [0, 0]\n" + text
    ),
    "not TOML": Mistake(("project.toml' is not valid TOML",), lambda text: "robot: pendulum\n" + text),
    "not even text": Mistake(("is not valid TOML",), lambda text: "\udcff" + text),
}


def with_mistake(project: Path, recorded: dict[str, Array], mistake: Mistake) -> None:
    project.write_bytes(mistake.project(PROJECT).encode("utf-8", "surrogateescape"))
    log = mistake.log(recorded)
    if log is None:
        (project.parent / "log.csv").unlink()
    elif log is not recorded:
        (project.parent / "log.csv").write_text(csv(log), "utf-8")
    for name, content in mistake.files.items():
        (project.parent / name).write_text(content, "utf-8")


@pytest.mark.parametrize("case", MISTAKES)
def test_bad_input_is_told_and_nothing_is_written(
    steelyard: Run, project: Path, recorded: dict[str, Array], case: str
) -> None:
    mistake = MISTAKES[case]
    with_mistake(project, recorded, mistake)
    before = listing(project.parent.parent)
    told = steelyard("identify", project, "--out", project.parent.parent / "out" / "run", *mistake.options)
    assert (told.code, told.out) == (2, "")
    for words in mistake.tells:
        assert words in told.err
    # one sentence or two, no table and no traceback
    assert told.err.strip().startswith("error: ")
    assert len(told.err.strip().splitlines()) == 1
    assert told.err.rstrip().endswith(".")
    assert listing(project.parent.parent) == before


@pytest.mark.parametrize("name", ["other.toml", "."])
def test_no_project(steelyard: Run, project: Path, name: str) -> None:
    told = steelyard("identify", project.parent / name)
    assert (told.code, told.out) == (2, "")
    assert name.strip(".") in told.err
    assert len(told.err.strip().splitlines()) == 1


@pytest.mark.parametrize("below", ["", "deeper/run"])
def test_a_file_in_the_way(steelyard: Run, project: Path, tmp_path: Path, below: str) -> None:
    (tmp_path / "taken").write_text("x")
    before = listing(tmp_path)
    told = steelyard("identify", project, "--out", tmp_path / "taken" / below)
    assert (told.code, told.out) == (2, "")
    assert "taken" in told.err
    assert "--out" in told.err
    assert listing(tmp_path) == before


@pytest.mark.slow
@pytest.mark.parametrize("estimator", TORQUE_ESTIMATORS)
def test_a_joint_that_never_moves(
    steelyard: Run, project: Path, recorded: dict[str, Array], tmp_path: Path, estimator: str
) -> None:
    still = {**recorded, "q_joint2": np.full_like(recorded["t"], 0.5)}
    (project.parent / "log.csv").write_text(csv(still), "utf-8")
    project.write_text('terms = "plain"\n' + PROJECT, "utf-8")
    out = tmp_path / "out"
    told = steelyard("identify", project, "--out", out, "--estimator", estimator, "--json")
    assert told.code == 4
    (finding,) = [f for f in told.document["findings"] if f["code"] == "joint-not-moving"]
    assert (finding["severity"], finding["where"]) == ("error", "joint2")
    assert "joint2 does not move" in " ".join(told.err.split())
    # the folder is whole: what could be found is there
    assert listing(out) == ["report.html", "result.json"]
    assert read_result(out).relative_error.rows["joint2"] == 0
    found = {p["name"]: p for p in told.document["parameters"]}
    assert (found["joint2.Fv"]["status"], found["joint2.Fv"]["std"]) == ("not excited", None)
    assert found["joint2.Fv"]["value"] is None or estimator in ("auto", "consistent")  # whose value is the robot file's
    assert found["joint1.Fv"]["value"] == pytest.approx(3.0, rel=0.2)


# --- Nothing of the user's is lost ------------------------------------------------------------------------------------


def test_a_pipe_is_not_replaced(steelyard: Run, project: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    told = steelyard("identify", project, "--out", pipe)
    assert told.code == 2
    assert "is not a folder" in told.err
    assert pipe.is_fifo()


@pytest.mark.slow
def test_a_link_stays_a_link(steelyard: Run, project: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert steelyard("identify", project, "--out", tmp_path / "link").code == 0
    assert (tmp_path / "link").is_symlink()
    assert listing(tmp_path / "real") == ["report.html", "result.json"]


@pytest.mark.slow
def test_an_edited_demo_is_left_alone(steelyard: Run, tmp_path: Path) -> None:
    out = tmp_path / "demo"
    assert steelyard("demo", "planar2r", "--out", out).code == 0
    assert steelyard("demo", "planar2r", "--out", out).code == 0
    edited = (out / "project.toml").read_text("utf-8") + "# mine\n"
    (out / "project.toml").write_text(edited, "utf-8")
    told = steelyard("demo", "planar2r", "--out", out)
    assert told.code == 2
    assert "differs from the one the demo writes" in told.err
    assert (out / "project.toml").read_text("utf-8") == edited


def test_brackets_in_names_are_no_markup(steelyard: Run, project: Path, tmp_path: Path) -> None:
    out = tmp_path / "[bold]run[/x]"
    told = steelyard("identify", project, "--out", out)
    assert told.code == 0
    assert f"Report: {out / 'report.html'}" in told.err


def test_an_info_of_several_joints_is_one_line() -> None:
    def rounded(joint: str, percent: int, severity: Severity = "info") -> Finding:
        message = f"the position of {joint} is quantised in steps of 0.{percent}: rounding is {percent}% of it"
        return Finding("coarse-quantisation", severity, message, joint, "log more digits")

    with people.capture() as captured:
        say_findings([rounded("a1", 15), rounded("a2", 28), rounded("a3", 71, "warning"), rounded("a4", 90, "warning")])
    first, *others = captured.get().strip().replace("\n", " ").split(" → log more digits")
    assert first.endswith("[a1]: the position of a1 is quantised in steps of 0.15: rounding is 15% of it; likewise a2")
    assert [text.count("warning: ") for text in others] == [1, 1, 0]
