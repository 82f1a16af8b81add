"""From a URDF of a robot that is not bolted down and its log to a project file that can be fitted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.formats.robots import read_robot
from steelyard.project.checks.check import check
from steelyard.project.draft import draft_project, write_draft
from steelyard.project.excite import subject_of
from steelyard.project.project import Project, read_project
from testbed.floating import quadruped_urdf
from testbed.hanging import hanging

AXES = "xyzw"


@pytest.fixture
def urdf(tmp_path: Path) -> Path:
    file = tmp_path / "quadruped.urdf"
    file.write_text(quadruped_urdf())
    return file


def log_of(urdf: Path, names: dict[str, str], scale: dict[str, float] | None = None) -> Path:
    """The log of a hanging robot as CSV; `names` are patterns with {axis} for the signals of the base that it has."""
    robot = read_robot(urdf, base="floating")
    log = hanging(robot, 10.0, 7).log
    columns: dict[str, Array] = {"time": log["t"]}
    columns |= {f"{joint}_pos": log[f"q{k}"] for k, joint in enumerate(robot.axis_names)}
    columns |= {f"{joint}_torque": log[f"tau{k}"] for k, joint in enumerate(robot.axis_names)}
    for signal, pattern in names.items():
        count = 4 if signal == "quat" else 3
        factor = (scale or {}).get(signal, 1.0)
        columns |= {pattern.format(axis=AXES[k]): factor * log[f"{signal}{k}"] for k in range(count)}
    file = urdf.with_name("log.csv")
    np.savetxt(file, np.stack([*columns.values()], axis=1), "%.9g", ",", header=",".join(columns), comments="")
    return file


def drafted(urdf: Path, log: Path, base: str | None = "floating") -> tuple[Project, str, list[str]]:
    place = urdf.with_name("project.toml")
    draft = draft_project(str(urdf), [log], place, base=base)  # type: ignore[arg-type]
    write_draft(draft, force=True)
    return read_project(place), draft.text, [one.code for one in (*draft.robot.findings, *draft.guess.findings)]


@pytest.mark.parametrize(
    ("names", "scale", "lines"),
    [
        (
            {"gyro": "imu_gyro_{axis}", "acc": "imu_acc_{axis}"}, {},
            ['unit = "rad/s"', 'unit = "m/s2"', 'link = "imu_link"'],
        ),
        (
            {"gyro": "imu.angular_velocity.{axis}", "acc": "imu.linear_acceleration.{axis}"},
            {"gyro": 57.29578, "acc": 1.0 / 9.80665}, ['unit = "deg/s"', 'unit = "g"'],
        ),
        ({"quat": "base_q{axis}", "place": "base_p{axis}"}, {}, ['unit = "xyzw"', 'unit = "m"', "# xyz = "]),
    ],
    ids=["imu", "degrees and g", "pose"],
)  # fmt: skip
def test_init_finds_the_motion_of_the_base(
    urdf: Path, names: dict[str, str], scale: dict[str, float], lines: list[str]
) -> None:
    project, text, codes = drafted(urdf, log_of(urdf, names, scale))
    assert 'base = "floating"' in text
    assert all(line in text for line in lines), text
    assert "missing-value" not in codes
    assert "base-assumed-fixed" not in codes
    (samples,) = project.unfiltered()
    assert samples.floats
    assert subject_of(str(project.path)).notes[0].startswith("The base floats: the motion is that of the limbs")


def test_init_asks_for_the_motion_of_the_base(urdf: Path) -> None:
    _, text, codes = drafted(urdf, log_of(urdf, {}))
    assert "missing-value" in codes
    assert "# FILL IN: an IMU on the base, or its pose" in text


def test_init_and_check_warn_of_a_robot_that_is_read_as_bolted_down(urdf: Path) -> None:
    log = log_of(urdf, {"gyro": "imu_gyro_{axis}", "acc": "imu_acc_{axis}"})
    project, text, codes = drafted(urdf, log, None)
    assert "base-assumed-fixed" in codes
    assert '# base = "floating"   # or "fixed" if it did not move' in text
    assert "base-assumed-fixed" in {one.code for one in check(project).findings}


@pytest.mark.slow
def test_check_finds_no_fault_in_the_log_of_a_floating_robot(urdf: Path) -> None:
    project, _, _ = drafted(urdf, log_of(urdf, {"gyro": "imu_gyro_{axis}", "acc": "imu_acc_{axis}"}))
    found = check(project)
    assert not found.failed
    assert found.total is not None
    assert found.total < 0.1
