"""What every test shares: the seeded profile of Hypothesis and the folder of recorded data."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# two test processes on two cores: BLAS threads would only get in each other's way
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import pytest
from hypothesis import HealthCheck, settings

from steelyard._arrays import Array
from steelyard.cli import main
from steelyard.formats.robots import read_robot
from testbed.command import Run, Told
from testbed.pendulum import PROJECT, csv
from testbed.places import shared_data
from testbed.simulated import PENDULUM, log_of, model_of

# Same examples on every run and every machine; no deadline, because the first call of a kernel compiles it.
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    max_examples=50,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci")


@pytest.fixture(name="shared_data")
def _shared_data():
    """`shared_data("ur10e")` is the folder, or the test is skipped with a message that names it."""
    return shared_data


@pytest.fixture
def steelyard(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`steelyard("params", "tx40")` through the entry point, in this process."""

    def run(*arguments: object) -> Told:
        monkeypatch.setattr(sys, "argv", ["steelyard", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return Told(code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Array]:
    """A log of the robot above."""
    file = tmp_path_factory.mktemp("robot") / "pendulum.toml"
    file.write_text(PENDULUM, "utf-8")
    return log_of(model_of(read_robot(file)), 2400, noise=0.3)


@pytest.fixture
def project(tmp_path: Path, recorded: dict[str, Array]) -> Path:
    """A folder with a robot, a log and a project file."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "pendulum.toml").write_text(PENDULUM, "utf-8")
    (folder / "project.toml").write_text(PROJECT, "utf-8")
    (folder / "log.csv").write_text(csv(recorded), "utf-8")
    return folder / "project.toml"
