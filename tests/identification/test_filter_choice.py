"""The parallel filter of a short log: higher where that predicts left-out stretches, and not where it admits noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steelyard._arrays import Array
from steelyard.formats.robots import read_robot
from steelyard.identification.filter_choice import FilterChoice, choose_filter
from steelyard.model.model import Model
from steelyard.model.terms import named_terms
from steelyard.motion.random import random_fourier
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from testbed.simulated import arm, model_of, motion_of, truth_of

RATE = 200.0
ARM = model_of(arm(2))


def chosen(model: Model, run: Samples, lowpass_hz: Sequence[float]) -> FilterChoice:
    """The choice among these filters, with the usual 2.5 rows per period."""
    found = choose_filter([Problem(model, [run], lowpass_hz=f, decimate=int(RATE / (2.5 * f))) for f in lowpass_hz])
    assert [trial.lowpass_hz for trial in found.trials] == list(lowpass_hz)
    return found


def log(seconds: float = 12.0, vibration_hz: float = 0.0, ripple_hz: float = 0.0) -> Samples:
    """A log of the arm with white noise of 0.5 N·m.

    `vibration_hz`: accelerations also contain a resonance, 1.5 times as large as the motion, that moves no rigid body.
    `ripple_hz`: efforts also contain a ripple of 5 N·m.
    """
    motion = motion_of(ARM.robot, int(seconds * RATE), RATE, 1)
    rng, t = np.random.default_rng(1), np.arange(motion.q.shape[1]) / RATE
    effort = ARM.torque(*motion[:3], truth_of(ARM)) + 0.5 * rng.standard_normal(motion.q.shape)
    if ripple_hz:
        effort = effort + 5.0 * np.sin(2 * np.pi * ripple_hz * t)
    q, v, a = motion[:3]
    if vibration_hz:
        w, phase = 2 * np.pi * vibration_hz, rng.uniform(0.0, 6.0, (2, 1))
        size = 1.5 * np.std(a, axis=1, keepdims=True) * (1.0 + 0.5 * np.sin(4.4 * t + phase))
        q, v, a = q - size / w**2 * np.sin(w * t), v - size / w * np.cos(w * t), a + size * np.sin(w * t)
    return Samples.from_arrays("run", ARM.robot.joint_names, RATE, q, v, a, effort)


def errors(choice: FilterChoice) -> Array:
    return np.array([trial.error for trial in choice.trials])


def test_a_filter_that_leaves_too_few_rows_is_raised() -> None:
    """24 s of a six-axis robot with 60 parameters, motion up to 2.5 Hz: a filter of 1 Hz leaves 53 rows per joint."""
    robot = read_robot("tx40")
    assert robot.terms is not None
    model = Model(robot, named_terms(robot.terms))
    t = np.arange(int(24.0 * RATE)) / RATE
    q, v, a = random_fourier(robot, 5, 0.5, 24.0, np.random.default_rng(1)).at(t)[:3]
    torque = model.torque(q, v, a, truth_of(model))
    noise = 0.02 * np.std(torque, axis=1, keepdims=True) * np.random.default_rng(1).standard_normal(torque.shape)
    run = Samples.from_arrays("run", robot.joint_names, RATE, q, v, a, torque + noise)
    found = chosen(model, run, (1.0, 2.0, 4.0))
    assert found.chosen > 0
    assert errors(found)[found.chosen] < 0.1 * errors(found)[0]
    assert [trial.rows for trial in found.trials] == sorted(trial.rows for trial in found.trials)


def test_below_a_resonance_the_lower_filter_stays() -> None:
    found = chosen(ARM, log(vibration_hz=8.0), (4.0, 8.0, 11.0, 16.0))
    assert found.chosen == 0
    assert np.all(errors(found)[1:] > 3.0 * errors(found)[0])


def test_the_lower_filter_stays_where_a_higher_one_gains_little() -> None:
    found = chosen(ARM, log(), (4.0, 5.6, 8.0, 11.0))
    assert found.chosen == 0
    np.testing.assert_allclose(errors(found), errors(found)[0], rtol=0.05)


def test_what_a_higher_filter_adds_to_its_rows_does_not_count() -> None:
    """All filters are scored below the lowest: a ripple of the efforts above it is noise of the fit, not an error."""
    plain, rippled = (chosen(ARM, run, (4.0, 22.0)) for run in (log(), log(ripple_hz=15.0)))
    assert errors(rippled)[1] < 2.0 * errors(plain)[1] < 0.5


def test_filters_that_give_no_estimate_are_passed_over() -> None:
    found = chosen(ARM, log(vibration_hz=8.0), (1.0, 2.8, 4.0))
    assert np.isnan(found.trials[0].error)
    assert found.chosen == 1


def test_a_fold_that_leaves_no_rows_gives_no_estimate() -> None:
    """The guard of three periods is 3 s at 1 Hz: it covers all of 6 s."""
    found = chosen(ARM, log(seconds=6.0), (1.0, 4.0))
    assert np.isnan(found.trials[0].error)
