"""A quadruped that hangs and swings: identified with the motion of its base, and as if it were bolted down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.errors import DataError, EstimationError, ModelError
from steelyard.estimators import WLS
from steelyard.export.parameter_set import identified_model
from steelyard.formats.robots import read_robot
from steelyard.identification import identify
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import Coulomb, Viscous
from steelyard.online import Online
from steelyard.regression.problem import Problem
from steelyard.signals.prepare import Preparation, prepare
from steelyard.signals.recording import Recording
from steelyard.signals.samples import Samples
from steelyard.simulation.plant import Plant
from steelyard.validation.held_out import validate
from testbed.floating import quadruped_urdf
from testbed.hanging import NOISE, POSE, RATE, SENSOR, channels, hanging

SETTINGS = Preparation(20.0)
TERMS = (Viscous(), Coulomb())


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("robot") / "quadruped.urdf"
    path.write_text(quadruped_urdf())
    return path


@pytest.fixture(scope="module")
def robot(file: Path) -> Robot:
    return read_robot(file, base="floating")


def run(robot: Robot, seconds: float, seed: int, base: Any = SENSOR) -> Samples:
    log = hanging(read_robot(robot.source, base="floating"), seconds, seed).log
    map_ = channels(base if robot.floats else None)
    return prepare(Recording.from_arrays(f"log{seed}", log), robot, map_, SETTINGS)


@pytest.mark.slow
@pytest.mark.parametrize("base", [SENSOR, POSE], ids=["imu", "pose"])
def test_intervals_hold_and_unseen_motion_is_predicted_to_the_noise(robot: Robot, base: Any) -> None:
    """Intervals pooled over three logs. A low-pass at a part of half the rate leaves that part of white noise."""
    model, errors = Model(robot, TERMS), []
    for seed in (1, 2, 3):
        problem = Problem(model, [run(robot, 20.0, seed, base)], lowpass_hz=10.0)
        found = identify(problem, WLS())
        truth = found.base.map @ hanging(robot, 1.0, seed).theta
        errors.append((found.value - truth) / np.sqrt(np.diag(found.covariance)))
        assert len(found.base) == 84 + 2 * 12
        assert "contacts-unknown" in {one.code for one in problem.findings}
        unseen = validate(found, problem, [run(robot, 12.0, seed + 10, base)])
        assert unseen.relative_error["total"] < 1.25 * NOISE * np.sqrt(10.0 / (0.5 * RATE))
    assert np.mean(np.abs(errors) < 1.96) > 0.9
    assert np.sqrt(np.mean(np.square(errors))) < 1.2


def test_a_robot_read_as_bolted_down_is_told_apart(file: Path, robot: Robot) -> None:
    bolted = read_robot(file)
    problem = Problem(Model(bolted, TERMS), [run(bolted, 20.0, 1)], lowpass_hz=10.0)
    found = identify(problem, WLS())
    assert "base-assumed-fixed" in {one.code for one in found.findings}
    floating = identify(Problem(Model(robot, TERMS), [run(robot, 20.0, 1)], lowpass_hz=10.0), WLS())
    assert found.relative_error.total > 10.0 * floating.relative_error.total


def test_a_run_without_the_motion_of_the_base_is_refused(robot: Robot) -> None:
    still = np.zeros((12, 500))
    with pytest.raises(DataError, match=r"run 'r' has no motion of it: name its columns in .channels.base."):
        Problem(Model(robot), [Samples.from_arrays("r", robot.axis_names, 100.0, still, still, still, still)])


def test_what_a_floating_base_cannot_do_yet_says_so(robot: Robot) -> None:
    model = Model(robot, TERMS)
    with pytest.raises(EstimationError, match="a stream does not carry its motion"):
        Online(model, Preparation(20.0, rate_hz=100.0))
    with pytest.raises(ModelError, match="depends on its contacts, which are not simulated"):
        Plant(model, np.ones(len(model.layout)))
    problem = Problem(model, [run(robot, 12.0, 1)], lowpass_hz=10.0)
    with pytest.raises(ModelError, match="there is no complete set to export"):
        identified_model(model, identify(problem, WLS()))
