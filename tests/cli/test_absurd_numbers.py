"""Numbers that no sensor and no robot has: one sentence that names the place, never a traceback, NaN or inf."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from steelyard._arrays import Array
from testbed.command import Run
from testbed.pendulum import csv

BIG = "7" * 5000


def scaled(project: Path, recorded: dict[str, Array], column: str, factor: float) -> None:
    (project.parent / "log.csv").write_text(csv({n: x * factor if column in n else x for n, x in recorded.items()}))


@pytest.mark.parametrize("column", ["tau_", "q_", "t"])
@pytest.mark.parametrize("factor", [1e300, 1e160, 1e40])
def test_logs_beyond_any_unit(
    steelyard: Run, project: Path, recorded: dict[str, Array], column: str, factor: float
) -> None:
    scaled(project, recorded, column, factor)
    told = steelyard("identify", project)
    assert told.code == 2
    lines = told.err.strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: Log 'log.csv': column '")
    assert "no unit has numbers beyond 1e+30" in lines[0]


@pytest.mark.slow
@pytest.mark.parametrize("settings", ["stated", "auto"])
@pytest.mark.parametrize("factor", [1e-315, 1e-300, 0.0])
def test_efforts_too_small_to_be_measured(
    steelyard: Run, project: Path, recorded: dict[str, Array], factor: float, settings: str
) -> None:
    scaled(project, recorded, "tau_", factor)
    if settings == "auto":
        text = re.sub(r"(?s)\[prepare\].*?\[channels\]", "[channels]", project.read_text())
        project.write_text(text.replace('estimator = "wls"\n', ""))
    told = steelyard("identify", project)
    assert told.code == 2
    assert not re.search(r"\b(nan|inf)\b", told.err)
    assert "Warning" not in told.err


@pytest.mark.parametrize("gravity", ["[0, -1e300, 0]", "[0, 1e31, 0]", "[0, inf, 0]", f"[0, {BIG[:400]}, 0]"])
def test_gravity(steelyard: Run, project: Path, gravity: str) -> None:
    project.write_text(f"gravity = {gravity}\n{project.read_text()}")
    told = steelyard("identify", project)
    assert told.code == 2
    assert len(told.err.strip().splitlines()) == 1
    assert "1e+30" in told.err


@pytest.fixture
def run(steelyard: Run, project: Path) -> Path:
    steelyard("identify", project, "--out", project.parent / "run")
    return project.parent / "run" / "result.json"


@pytest.mark.parametrize(
    ("what", "into"),
    [
        ('"findings":', '"other": ' + "[" * 5000 + "]" * 5000 + ',"findings":'),
        ('"value": [', f'"value": [{BIG},'),
        ('"value": [', '"value": [1e400,'),
        ('"rest_speeds": [', f'"rest_speeds": [{BIG},'),
        ('"gravity": null', '"gravity": [0, 1e300, 0]'),
    ],
    ids=["deep", "5,000 digits", "1e400", "rest", "gravity"],
)
def test_results(steelyard: Run, run: Path, what: str, into: str) -> None:
    text = run.read_text()
    assert what in text
    run.write_text(text.replace(what, into, 1))
    for command in ("report", "export --to c --out c", "validate log.csv"):
        name, *options = command.split()
        files = [run.parents[1] / one if one.endswith(".csv") else one for one in options]
        told = steelyard(name, run, *files)
        assert told.code == 2, command
        assert len(told.err.strip().splitlines()) == 1
        assert told.err.startswith("error: ")


def test_a_result_of_floats_reads_back(steelyard: Run, run: Path) -> None:
    """The rule is for what comes from outside: our own result is within it."""
    assert steelyard("report", run).code == 0
    assert np.isfinite(json.loads(run.read_text())["value"]).all()
