"""Prediction bands: the fraction of unseen rows inside, their formula, and the command `predict`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from steelyard._arrays import Array
from steelyard.estimators import MAP, WLS
from steelyard.estimators.auto import Auto
from steelyard.estimators.estimator import Estimator
from steelyard.identification.identify import identify
from steelyard.identification.prediction import band_of, predict
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import named_terms
from steelyard.motion.random import random_fourier
from steelyard.project.result_file import read_result
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from steelyard.validation import validate
from testbed.command import Run
from testbed.simulated import arm, coloured
from testbed.trees import Pinocchio, State

RATE = 100.0


def log_by_pinocchio(robot: Robot, seed: int, seconds: float, noise: float, pole: float = 0.9) -> Samples:
    """A random motion with the torque of Pinocchio, plain friction and noise of a first-order filter [N·m]."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * RATE)) / RATE
    q, v, a = random_fourier(robot, 5, 0.2, seconds, rng).at(t)
    inertial = replace(robot, joints=tuple(replace(j, drive=replace(j.drive, rotor=0.0)) for j in robot.joints))
    torque = Pinocchio(inertial).torque(State(q, v, a))
    drives = [joint.drive for joint in robot.joints]
    rotor, viscous, coulomb = (
        np.array([getattr(drive, name) or 0.0 for drive in drives])[:, None] for name in ("rotor", "viscous", "coulomb")
    )
    torque = torque + rotor * a + viscous * v + coulomb * np.sign(v)
    torque = torque + noise * coloured(rng, (len(torque), len(t)), pole)
    return Samples.from_arrays(f"log{seed}", robot.joint_names, RATE, q, v, a, torque)


def problem_of(seed: int, seconds: float = 10.0, noise: float = 1.0) -> Problem:
    robot = arm(3)
    model = Model(robot, named_terms(("rotor", "viscous", "coulomb", "offset")))
    return Problem(model, [log_by_pinocchio(robot, seed, seconds, noise)], lowpass_hz=10.0)


@pytest.mark.parametrize("estimator", [WLS(), MAP(weight=1.0), Auto()], ids=lambda one: one.name)
def test_unseen_rows_lie_in_the_band(estimator: Estimator) -> None:
    """93 to 97 % of unseen rows, over eight short and noisy logs: their parameters are uncertain."""
    shares = []
    for seed in range(8):
        problem = problem_of(seed, seconds=5.0, noise=2.0)
        result = identify(problem, estimator)
        other = log_by_pinocchio(problem.model.robot, 100 + seed, 10.0, 2.0)
        told = predict(result, problem.with_runs([other]), other)
        shares.append(told.inside[told.scored].mean())
        judged = validate(result, problem, [other])
        assert judged.in_band["total"] == pytest.approx(shares[-1], abs=1e-12)
    assert 0.93 < np.mean(shares) < 0.97


def test_the_band_is_that_of_the_formula() -> None:
    problem = problem_of(1)
    result = identify(problem)
    (run,) = problem.runs
    # without a filter a row is a sample
    plain = replace(problem, lowpass_hz=None)
    told = predict(result, plain, run)
    assert told.half is not None
    assert result.residual_std is not None
    (piece,) = run.open()
    reach = student.ppf(0.975, result.clusters - 1)
    for k in (17, 500, 801):
        columns = []
        for column in result.base.kept:
            unit = np.zeros(len(result.base.layout))
            unit[column] = 1.0
            columns.append(problem.model.torque(piece.q[:, [k]], piece.v[:, [k]], piece.a[:, [k]], unit)[:, 0])
        w = np.array(columns).T
        variance = (norm.ppf(0.975) * result.residual_std) ** 2 + reach**2 * np.sum(w @ result.covariance * w, axis=1)
        np.testing.assert_allclose(told.half[:, k], np.sqrt(variance), rtol=1e-9)


def test_the_deviation_of_rows_adds_what_the_fit_absorbed() -> None:
    """A short log with many parameters: the residual is smaller than the noise, `residual_std` is not."""
    model = problem_of(0).model
    deviation, left = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        run = log_by_pinocchio(model.robot, seed, 4.0, 0.0)
        (piece,) = run.open()
        effort = piece.effort + rng.standard_normal(piece.effort.shape)
        run = Samples.from_arrays("short", run.joints, RATE, piece.q, piece.v, piece.a, effort)
        result = identify(Problem(model, [run], decimate=4))
        assert result.residual_std is not None
        deviation.append(result.residual_std**2)
        left.append(np.array(list(result.relative_error.rmse.values())) ** 2)
    assert np.mean(left) < 0.92
    assert np.mean(deviation) == pytest.approx(1.0, abs=0.08)


def test_the_band_reads_back(project: Path, steelyard: Run) -> None:
    assert steelyard("identify", project).code == 0
    again = read_result(project.with_name("project-run"))
    assert band_of(again) is not None
    assert band_of(replace(again, residual_std=None)) is None


def _motion(folder: Path, joints: tuple[str, ...], ending: str) -> tuple[Path, dict[str, Array]]:
    t = np.arange(200) / 100.0
    data = {"t": t}
    for k, joint in enumerate(joints):
        w = 1.0 + 0.3 * k
        data |= {f"q_{joint}": 0.4 * np.sin(w * t), f"v_{joint}": 0.4 * w * np.cos(w * t)}
        data |= {f"a_{joint}": -0.4 * w**2 * np.sin(w * t)}
    file = folder / f"motion{ending}"
    frame = pl.DataFrame(data)
    if ending == ".csv":
        file.write_text("# a remark\n" + frame.write_csv(), "utf-8")
    else:
        frame.write_parquet(file)
    return file, data


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_predict_writes_the_torque_of_a_motion_file(
    project: Path, steelyard: Run, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.parent)
    assert steelyard("identify", project).code == 0
    result = read_result(project.with_name("project-run"))
    joints = tuple(result.relative_error.joints)
    file, data = _motion(project.parent, joints, ending)
    out = project.with_name(f"torque{ending}")
    told = steelyard("predict", project.with_name("project-run"), file, "--out", out, "--json")
    assert told.code == 0, told.err
    assert told.document["schema"] == "steelyard.prediction/1"
    assert told.document["rows"] == 200
    found = pl.read_csv(out) if ending == ".csv" else pl.read_parquet(out)
    np.testing.assert_allclose(found["t"], data["t"])
    assert set(found.columns) == {"t", *(f"{kind}_{joint}" for kind in ("torque", "low", "high") for joint in joints)}
    for joint in joints:
        moving = found.filter(pl.col(f"low_{joint}").is_not_null())
        assert len(moving) > 100
        assert (moving[f"low_{joint}"] < moving[f"torque_{joint}"]).all()
        middle = (moving[f"low_{joint}"] + moving[f"high_{joint}"]) / 2.0
        np.testing.assert_allclose(middle, moving[f"torque_{joint}"], atol=1e-9)


def test_predict_of_a_log_has_the_measured_effort(
    project: Path, steelyard: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.parent)
    assert steelyard("identify", project).code == 0
    told = steelyard("predict", project.with_name("project-run"), project.with_name("log.csv"), "--json")
    assert told.code == 0, told.err
    assert all(0.85 < joint["inside"] <= 1.0 for joint in told.document["joints"])
    assert "log-torque.csv" in told.document["file"]
    frame = pl.read_csv("log-torque.csv")
    assert any(name.startswith("measured_") for name in frame.columns)
    again = steelyard("predict", project.with_name("project-run"), project.with_name("log.csv"))
    assert again.code == 2
    assert "exists already" in again.err


MISTAKES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "ending": (lambda folder: ("--out", folder / "torque.txt"), "ending"),
    "itself": (lambda folder: ("--out", folder / "motion.csv"), "the motion itself"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_predict_refuses(project: Path, steelyard: Run, mistake: str) -> None:
    assert steelyard("identify", project).code == 0
    joints = tuple(read_result(project.with_name("project-run")).relative_error.joints)
    file, _ = _motion(project.parent, joints, ".csv")
    more, said = MISTAKES[mistake]
    told = steelyard("predict", project.with_name("project-run"), file, *more(project.parent))
    assert told.code == 2
    assert said in told.err


def test_predict_refuses_a_motion_of_other_joints(project: Path, steelyard: Run) -> None:
    assert steelyard("identify", project).code == 0
    file, _ = _motion(project.parent, ("elbow", "wrist"), ".csv")
    told = steelyard("predict", project.with_name("project-run"), file, "--out", project.with_name("t.csv"))
    assert told.code == 2
    assert "elbow, wrist" in told.err
