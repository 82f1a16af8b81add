"""Periods of motions, and error bars that contain an error of the model which repeats itself with the motion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.estimators.least_squares import adjusted_scores, joint_deviations, solve
from steelyard.identification.identify import identify
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.terms import named_terms
from steelyard.motion.random import random_fourier
from steelyard.regression.information import stacked, triangular
from steelyard.regression.observe import observe
from steelyard.regression.periods import SpeedRecord, period
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from testbed.simulated import arm, coloured
from testbed.trees import Pinocchio, State

RATE = 100.0


def speeds(seconds: float, base_hz: float, rate: float, noise: float = 0.0, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * rate)) / rate
    waves = [
        rng.normal(size=(3, 1)) * np.cos(2 * np.pi * k * base_hz * t + rng.uniform(0, 6, (3, 1))) for k in range(1, 6)
    ]
    return np.sum(waves, axis=0) + noise * rng.normal(size=(3, len(t)))


@pytest.mark.parametrize(("seconds", "base_hz"), [(20.0, 0.15), (20.0, 0.731), (12.0, 0.13), (60.0, 0.05)])
def test_the_period_of_a_motion_is_found(seconds: float, base_hz: float) -> None:
    for seed in range(5):
        found = period(speeds(seconds, base_hz, 25.0, 0.1, seed)) / 25.0
        assert found == pytest.approx(1.0 / base_hz, rel=2e-3)


def test_motions_that_do_not_repeat_themselves_have_no_period() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        assert period(coloured(rng, (3, 500), 0.95)) == np.inf
        assert period(speeds(20.0, 0.05, 25.0, seed=seed)) == np.inf  # one period in all
    assert period(np.zeros((2, 300))) == np.inf
    assert period(np.zeros((2, 3))) == np.inf


def test_gaps_end_a_stretch_and_the_record_is_bounded() -> None:
    v = speeds(40.0, 0.25, 25.0)
    t = np.arange(v.shape[1]) / 25.0
    record = SpeedRecord()
    for part in np.split(np.arange(len(t)), [100, 350, 700]):
        record.add(t[part] + 3.7 * (part >= 350), v[:, part])
    assert record.period == pytest.approx(4.0, rel=2e-3)
    assert SpeedRecord().period == np.inf


def log_of_pinocchio(seed: int, ripple: float, seconds: float = 30.0, repeats: bool = True) -> Samples:
    """Torque of Pinocchio, rotors, viscous and Coulomb friction, white noise, and a ripple of the gears that the model
    lacks."""
    robot, rng = arm(3), np.random.default_rng(seed)
    t = np.arange(int(seconds * RATE)) / RATE
    q, v, a = random_fourier(robot, 5, 0.2 if repeats else 0.5 / seconds, seconds, rng).at(t)
    bare = replace(robot, joints=tuple(replace(j, drive=replace(j.drive, rotor=0.0)) for j in robot.joints))
    torque = Pinocchio(bare).torque(State(q, v, a))
    for j, joint in enumerate(robot.joints):
        drive = joint.drive
        torque[j] += (
            (drive.rotor or 0.0) * a[j] + (drive.viscous or 0.0) * v[j] + (drive.coulomb or 0.0) * np.sign(v[j])
        )
    torque += ripple * np.sin(rng.integers(8, 20, (3, 1)) * q + rng.uniform(0, 6, (3, 1)))
    torque += 0.4 * coloured(rng, torque.shape, 0.8)
    return Samples.from_arrays("log", robot.joint_names, RATE, q, v, a, torque)


def standard_errors(ripple: float, seeds: range) -> tuple[Array, list[bool]]:
    """(θ̂ − θ)/σ of all base parameters but friction and offsets, and whether the residual is said to repeat itself."""
    model = Model(arm(3), named_terms(("rotor", "viscous", "coulomb", "offset")))
    truth = model.layout.nominal
    assert truth is not None
    out, said = [], []
    for seed in seeds:
        result = identify(Problem(model, [log_of_pinocchio(seed, ripple)], lowpass_hz=8.0))
        own = [k for k, name in enumerate(result.base.names) if not name.endswith(("Fv", "Fc", "off"))]
        out.append(((result.value - result.base.map @ truth) / result.std)[own])
        said.append(any(one.code == "repeating-residual" for one in result.findings))
    return np.array(out), said


def test_error_bars_contain_an_error_that_repeats_itself() -> None:
    errors, said = standard_errors(3.0, range(6))
    assert all(said)
    assert np.mean(np.abs(errors) < 2.2) > 0.9
    # by blocks of time alone they do not
    model = Model(arm(3), named_terms(("rotor", "viscous", "coulomb", "offset")))
    information = observe(Problem(model, [log_of_pinocchio(0, 3.0)], lowpass_hz=8.0))
    base = base_parameters(model)
    weights = 1.0 / joint_deviations(information, base)
    wide, narrow = (solve(information, base, weights, phases=on) for on in (True, False))
    np.testing.assert_array_equal(wide.value, narrow.value)
    assert np.median(np.diagonal(wide.covariance) / np.diagonal(narrow.covariance)) > 4.0


def test_clean_periodic_logs_keep_their_error_bars() -> None:
    errors, said = standard_errors(0.0, range(10))
    assert sum(said) <= 1
    assert 0.9 < np.mean(np.abs(errors) < 2.2) <= 1.0


def test_a_motion_without_a_period_has_no_phases() -> None:
    problem = Problem(
        Model(arm(3), named_terms(("rotor", "viscous", "coulomb", "offset"))),
        [log_of_pinocchio(3, 0.0, repeats=False)],
        lowpass_hz=8.0,
    )
    information = observe(problem)
    assert information.periods == {}
    assert information.phases(12) == ()
    periodic = observe(replace(problem, runs=[log_of_pinocchio(3, 0.0)]))
    assert periodic.periods["log"] == pytest.approx(5.0, rel=2e-3)
    groups = periodic.phases(12)
    assert sorted(time for group in groups for time in group) == sorted(periodic.times)
    # blocks of one group are whole periods apart
    starts = np.array([periodic.starts[time] for time in groups[0]])
    phase = (starts - periodic.starts[periodic.times[0]]) % 5.0
    assert phase.max() - phase.min() < 5.0 / len(groups)


def test_adjusted_scores_are_unbiased_for_white_noise() -> None:
    """CR2 on a design whose groups have much leverage: the mean over many draws is the true covariance."""
    rng = np.random.default_rng(3)
    w = rng.normal(size=(60, 8)) * np.repeat(rng.uniform(0.3, 3.0, (6, 8)), 10, axis=0)
    parts, total = np.split(np.arange(60), 6), np.zeros((8, 8))
    r = triangular(w)
    for _ in range(2000):
        y = rng.normal(size=60)
        theta = np.asarray(np.linalg.lstsq(w, y, rcond=None)[0], np.float64)
        total += adjusted_scores([np.column_stack([w[g], y[g]]) for g in parts], theta, r)
    np.testing.assert_allclose(np.diagonal(total / 2000), np.diagonal(np.linalg.inv(w.T @ w)), rtol=0.15)


def test_phases_of_stacked_rows_are_all_rows() -> None:
    model = Model(arm(3), named_terms(("rotor", "viscous", "coulomb", "offset")))
    information = observe(Problem(model, [log_of_pinocchio(1, 1.0)], lowpass_hz=8.0))
    base, weights = base_parameters(model), np.ones(3)
    whole = stacked(information, base.kept, weights)
    parts = np.concatenate([stacked(information, base.kept, weights, g) for g in information.phases(12)])
    np.testing.assert_allclose(parts.T @ parts, whole.T @ whole, rtol=1e-9, atol=1e-9)
