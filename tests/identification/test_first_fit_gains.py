"""Gains that are not known beforehand, in the steps before and after the fit: settle, check, folds, validation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.errors import EstimationError, ProjectError
from steelyard.estimators import MAP, WLS, Gains, Ridge
from steelyard.formats.robots import read_robot
from steelyard.identification.first_fit import to_scale
from steelyard.identification.identify import identify
from steelyard.identification.prediction import predict_rows
from steelyard.model.model import Model
from steelyard.model.parameters import INERTIAL, inertial_vector
from steelyard.model.payload import Payload
from steelyard.model.terms import named_terms
from steelyard.motion.random import random_fourier
from steelyard.project.checks import check
from steelyard.project.project import read_project
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from steelyard.validation import cross_validate_problem, validate
from testbed.simulated import arm, coloured, forked, model_of, motion_of, truth_of

GAINS = np.array([[11.0], [-7.0], [240.0]])
WEIGHT = inertial_vector(2.5, np.array([0.15, -0.1, 0.2]), 0.02 * np.diag([1.0, 1.2, 1.4]))


def weighed(known: tuple[str, ...] = ("M",), std: dict[str, float] | None = None) -> Model:
    values = {symbol: float(x) for symbol, x in zip(INERTIAL, WEIGHT, strict=True)}
    payload = Payload("weight", known={symbol: values[symbol] for symbol in known}, std=std or {})
    return replace(model_of(arm(3)), payloads=[payload])


def theta_of(model: Model) -> Array:
    theta = truth_of(model).copy()
    theta[[model.layout.index(f"weight.{symbol}") for symbol in INERTIAL]] = WEIGHT
    return theta


def run(model: Model, load: str, seed: int, gains: Array = GAINS) -> Samples:
    motion = motion_of(model.robot, 4000, 200.0, seed)
    effort = model.torque(*motion[:3], theta_of(model), load=load)
    effort = effort + 0.02 * effort.std(axis=1, keepdims=True) * np.random.default_rng(seed).standard_normal(
        effort.shape
    )
    joints = model.robot.joint_names
    return Samples.from_arrays(f"{load}{seed}", joints, 200.0, *motion[:3], effort / gains, load=load)


def problem_of(model: Model, loads: tuple[str, ...] = ("none", "weight", "none", "weight")) -> Problem:
    runs = [run(model, load, seed) for seed, load in enumerate(loads, 1)]
    return Problem(model, runs, lowpass_hz=8.0, decimate=6, motor_rows=True)


@pytest.mark.slow
def test_a_first_fit_gives_the_scale() -> None:
    problem = problem_of(weighed())
    scaled = to_scale(problem, Gains())
    np.testing.assert_allclose(scaled.factor, GAINS[:, 0], rtol=0.03)
    assert to_scale(problem, WLS()) is problem
    assert identify(scaled, WLS()).relative_error.total < 0.03
    assert identify(problem, WLS()).relative_error.total > 0.05


@pytest.mark.slow
def test_folds_hold_a_part_of_every_load() -> None:
    problem = problem_of(weighed(), ("none", "weight"))
    judged = cross_validate_problem(problem, Gains(), 5)
    fitted = identify(problem, Gains()).relative_error.total
    assert fitted < judged.pooled.total < 1.5 * fitted
    assert judged.nominal is not None
    assert judged.nominal.total > 2.0 * judged.pooled.total
    with pytest.raises(EstimationError, match="no run of its load is left"):
        cross_validate_problem(problem, Gains(), "runs")
    assert len(cross_validate_problem(problem_of(weighed()), Gains(), "runs").folds) == 4


@pytest.mark.slow
def test_a_result_with_gains_predicts_torques_of_other_runs() -> None:
    model = weighed()
    problem = problem_of(model)
    result = identify(problem, Gains())
    for load in ("none", "weight"):
        judged = validate(result, problem, [run(model, load, 50)])
        assert judged.relative_error["total"] < 0.03
        assert judged.filtered.rmse["joint1"] < 0.05 * np.abs(GAINS[0, 0]) * 10


@pytest.mark.slow
def test_the_scale_of_the_known_mass_is_the_scale_of_everything() -> None:
    """Twice the stated mass makes every gain and parameter twice as large; its deviation goes into all of them."""
    model = weighed(std={"M": 0.05})
    heavy = replace(model, payloads=[replace(model.payloads[0], known={"M": 2.0 * WEIGHT[9]}, std={"M": 0.1})])
    one, two = (identify(replace(problem_of(model), model=m), Gains()) for m in (model, heavy))
    assert one.gains is not None
    assert two.gains is not None
    np.testing.assert_allclose(two.gains.value, 2.0 * one.gains.value, rtol=1e-6)
    np.testing.assert_allclose(two.value, 2.0 * one.value, rtol=1e-5, atol=1e-8)
    exact = identify(problem_of(weighed()), Gains())
    assert exact.gains is not None
    added = np.sqrt(one.gains.std**2 - exact.gains.std**2) / np.abs(one.gains.value)
    np.testing.assert_allclose(added, 0.05 / WEIGHT[9], rtol=1e-3)


@pytest.mark.parametrize("estimator", [MAP(), Ridge(), WLS()], ids=lambda e: e.name)
def test_no_prior_pulls_a_payload(estimator: MAP | Ridge | WLS) -> None:
    model = weighed(std={"M": 0.05})
    runs = [run(model, load, seed, np.ones((3, 1))) for seed, load in enumerate(("none", "weight"), 1)]
    result = identify(Problem(model, runs, lowpass_hz=8.0, decimate=6), estimator)
    found = dict(zip(result.base.names, result.value, strict=True))
    assert found["weight.MZ"] == pytest.approx(WEIGHT[8], rel=0.1)
    assert found["weight.XX"] == pytest.approx(WEIGHT[0], rel=0.3)
    assert result.standard is not None
    assert result.standard[model.layout.index("weight.M")] == WEIGHT[9]


PROJECT = """\
robot = "arm.toml"
terms = "plain"

[prepare]
cutoff_hz = 20.0
lowpass_hz = 8.0
delay = "none"
derivatives = "differences"

[channels]
time = { column = "t", unit = "s" }
q = { columns = ["q1", "q2", "q3", "q4", "q5", "q6"], unit = "rad" }
effort = { columns = ["i1", "i2", "i3", "i4", "i5", "i6"], unit = "A", gain = "unknown" }
"""


@pytest.mark.slow
def test_check_and_select_work_on_torques(tmp_path: Path) -> None:
    """With gains unknown, no wrong unit or side is seen in efforts that were never torques."""
    robot = read_robot("ur10e")
    model = Model(robot, named_terms(("rotor", "viscous", "coulomb", "offset")), payloads=[Payload("weight")])
    theta = np.zeros(len(model.layout))
    nominal = model.layout.nominal
    assert nominal is not None
    theta[:] = nominal
    for joint, size in zip(robot.joint_names, (1.0, 1.0, 0.6, 0.3, 0.3, 0.2), strict=True):
        for symbol, value in (("Ia", 0.5), ("Fv", 4.0), ("Fc", 5.0)):
            theta[model.layout.index(f"{joint}.{symbol}")] = size * value
    theta[[model.layout.index(f"weight.{symbol}") for symbol in INERTIAL]] = 2.0 * WEIGHT
    rng = np.random.default_rng(3)
    gains = np.array([[11.0], [12.0], [9.0], [10.0], [8.0], [7.0]])
    for name, load in (("free", "none"), ("loaded", "weight")):
        t = np.arange(6000) / 200.0
        q, v, a = random_fourier(robot, 5, 0.1, 30.0, rng).at(t)
        tau = model.torque(q, v, a, theta, load=load)
        tau += 0.02 * tau.std(axis=1, keepdims=True) * rng.standard_normal(tau.shape)
        rows = np.column_stack([t, q.T, (tau / gains).T])
        header = ",".join(["t", *(f"q{k}" for k in range(1, 7)), *(f"i{k}" for k in range(1, 7))])
        np.savetxt(tmp_path / f"{name}.csv", rows, delimiter=",", header=header, comments="", fmt="%.9g")
    payload = '\n[[payload]]\nname = "weight"\nmass = 5.0\n'
    runs = payload + '\n[[run]]\nlog = "free.csv"\n\n[[run]]\nlog = "loaded.csv"\nload = "weight"\n'
    file = tmp_path / "project.toml"
    file.write_text(PROJECT.replace("arm.toml", "ur10e") + runs, "utf-8")
    found = check(read_project(file))
    assert not [str(f) for f in found.findings if f.severity != "info"]
    (told,) = [f for f in found.findings if f.code == "gains-unknown"]
    assert "first fit" in told.message
    file.write_text(PROJECT.replace("arm.toml", "ur10e") + runs.replace("mass = 5.0", ""), "utf-8")
    blind = check(read_project(file))
    assert [f.severity for f in blind.findings if f.code == "gains-unknown"] == ["error"]
    assert blind.relative_error is None
    file.write_text('estimator = "wls"\n' + PROJECT.replace("arm.toml", "ur10e") + runs, "utf-8")
    with pytest.raises(ProjectError, match="needs an estimator that identifies gains"):
        read_project(file).estimator()


@pytest.mark.parametrize("seed", range(4))
def test_a_gain_that_noise_made_is_not_told(seed: int) -> None:
    """A small mass under slow noise: the classical σ is far too small there, and a gain may come out with any sign."""
    model = replace(
        Model(read_robot("planar2r"), named_terms(("viscous", "coulomb"))),
        payloads=[Payload("w", known={"M": 0.1})],
    )
    theta = truth_of(model).copy()
    theta[model.layout.index("w.M")] = 0.1
    gains, rng = np.array([[10.0], [-20.0]]), np.random.default_rng(seed)
    runs = []
    for k, load in enumerate(("none", "w", "none", "w")):
        motion = motion_of(model.robot, 2000, 100.0, 10 * seed + k)
        tau = model.torque(*motion[:3], theta, load=load)
        noise = coloured(rng, tau.shape, 0.95)
        tau = tau + 0.1 * tau.std(axis=1, keepdims=True) * noise
        runs.append(Samples.from_arrays(f"r{k}", model.robot.joint_names, 100.0, *motion[:3], tau / gains, load=load))
    try:
        found = identify(Problem(model, runs, motor_rows=True), Gains()).gains
    except EstimationError as error:
        assert "not determined" in str(error)  # noqa: PT017
        return
    assert found is not None
    told = np.isfinite(found.factor)
    assert np.all(np.sign(found.factor[told]) == np.sign(gains[told, 0]))


def test_motors_without_a_gain_are_not_scored() -> None:
    """Nobody knows the torque of a motor whose gain has no scale: its rows count nowhere."""
    model = replace(
        model_of(forked()), payloads=[Payload("w", "link4", known={"M": 2.0, "MX": 0.4, "MY": 0.2, "MZ": 0.1})]
    )
    theta = truth_of(model)
    runs = []
    for k, load in enumerate(("none", "w")):
        q, v, a = motion_of(model.robot, 4000, 200.0, k)[:3]
        tau = model.torque(q, v, a, theta, load=load)
        runs.append(Samples.from_arrays(f"r{k}", model.robot.joint_names, 200.0, q, v, a, tau / 7.0, load=load))
    problem = Problem(model, runs, lowpass_hz=8.0, decimate=6, motor_rows=True)
    blind = replace(problem, factor=[7.0, np.nan, 7.0, 7.0])
    assert blind.without_rows == (1,)
    assert {key.joint for key in observe(blind).blocks} == {0, 2, 3}
    told = predict_rows(blind, runs[0], theta)
    assert not told.scored[1].any()
    assert told.scored[0].any()
