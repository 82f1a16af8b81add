"""The motion of a floating base from the columns of a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.formats.robots import read_robot
from steelyard.model.robot import Robot
from steelyard.signals.base_channels import BaseChannels, BaseSignal
from steelyard.signals.channels import ChannelMap, Signal, resolve
from steelyard.signals.prepare import Preparation, prepare
from steelyard.signals.recording import Recording
from testbed.floating import quadruped_urdf
from testbed.hanging import POSE, SENSOR, channels, columns, hanging


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> Robot:
    file = tmp_path_factory.mktemp("robot") / "quadruped.urdf"
    file.write_text(quadruped_urdf())
    return read_robot(file, base="floating")


def prepared(robot: Robot, log: dict[str, Array], base: BaseChannels, settings: Preparation, rows: int = 700) -> Array:
    samples = prepare(Recording.from_arrays("hung", log), robot, channels(base), settings, chunk_rows=rows)
    assert samples.floats
    parts = [piece.base for piece in samples.open()]
    clean = slice(*samples.stretches[0].clean)
    return np.concatenate([part for part in parts if part is not None], axis=1)[:, clean]


@pytest.mark.parametrize("derivatives", ["differences", "smoother"])
def test_an_imu_away_from_the_origin_and_a_pose_tell_the_base(robot: Robot, derivatives: str) -> None:
    made = hanging(robot, 8.0, 3)
    settings = Preparation(20.0, derivatives=derivatives)  # type: ignore[arg-type]
    for base, noise in ((SENSOR, (0.02, 2e-3, 0.2)), (POSE, (0.02, 1e-3, 0.02))):
        found = prepared(robot, made.log, base, settings)
        edge = (made.base.shape[1] - found.shape[1]) // 2
        error = found - made.base[:, edge : edge + found.shape[1]]
        assert np.all(np.sqrt(np.mean(error**2, axis=1)) < np.repeat(noise, 3)), base


def test_the_base_does_not_depend_on_how_the_log_is_read_nor_on_units(robot: Robot) -> None:
    made = hanging(robot, 6.0, 4)
    settings = Preparation(20.0)
    whole = prepared(robot, made.log, POSE, settings, 10**6)
    assert np.allclose(prepared(robot, made.log, POSE, settings, 333), whole, atol=1e-9)
    other = made.log | {f"gyro{k}": np.rad2deg(made.log[f"gyro{k}"]) for k in range(3)}
    other |= {f"acc{k}": made.log[f"acc{k}"] / 9.80665 for k in range(3)}
    asked = replace(
        SENSOR, gyroscope=BaseSignal(columns("gyro", 3), "deg/s"), accelerometer=BaseSignal(columns("acc", 3), "g")
    )
    same = prepared(robot, made.log, SENSOR, settings)
    assert np.allclose(prepared(robot, other, asked, settings), same, atol=1e-9)


@pytest.mark.parametrize(
    ("base", "words"),
    [
        (lambda _: None, "no columns of its motion are named: add .channels.base."),
        (lambda _: BaseChannels(), "needs 'gyroscope' and 'accelerometer', or .* not nothing"),
        (lambda _: replace(SENSOR, accelerometer=None), "not 'gyroscope'"),
        (lambda _: replace(SENSOR, link="imu_lnik"), "Did you mean 'imu_link'"),
        (lambda _: replace(SENSOR, gyroscope=BaseSignal(columns("gyro", 3), "rpm")), "gyroscope: Unknown unit 'rpm'"),
        (lambda _: replace(SENSOR, gyroscope=BaseSignal(columns("gyro", 2), "rad/s")), "lists 2 columns; it needs 3"),
        (lambda _: replace(SENSOR, gyroscope=BaseSignal(columns("acc", 3), "rad/s")), "repeats a column"),
        (lambda _: replace(SENSOR, gyroscope=BaseSignal(columns("q", 3), "rad/s")), "more than one signal"),
    ],
)
def test_a_base_that_cannot_be_read_is_refused(
    robot: Robot, base: Callable[[object], BaseChannels | None], words: str
) -> None:
    with pytest.raises(DataError, match=words):
        resolve(channels(base(None)), robot)


def test_a_base_that_is_bolted_down_has_no_motion() -> None:
    map_ = ChannelMap("t", Signal(columns("q", 6), "rad"), Signal(columns("tau", 6), "N.m"), base=SENSOR)
    with pytest.raises(DataError, match="is bolted down: state base"):
        resolve(map_, read_robot("ur10e"))


def test_quaternions_of_zero_norm_are_refused(robot: Robot) -> None:
    log = hanging(robot, 4.0, 5).log
    log = log | {f"quat{k}": np.where(np.arange(len(log["t"])) == 600, 0.0, log[f"quat{k}"]) for k in range(4)}
    with pytest.raises(DataError, match=r"norm of 0 in row 601, which no rotation has"):
        prepared(robot, log, POSE, Preparation(20.0))
