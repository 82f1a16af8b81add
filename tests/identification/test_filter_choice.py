"""The parallel filter of a short log: higher where that predicts left-out stretches, and not where it admits noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

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


def chosen(model: Model, run: Samples, lowpass_hz: float, highest: float = 24.0, least_rows: int = 10) -> FilterChoice:
    """The choice among multiples of a filter up to the highest, with the usual 2.5 rows per period."""

    def problem_at(multiple: float) -> Problem | None:
        f = multiple * lowpass_hz
        return None if f > highest else Problem(model, [run], lowpass_hz=f, decimate=int(RATE / (2.5 * f)))

    return choose_filter(problem_at, least_rows)


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


def multiples(choice: FilterChoice) -> list[float]:
    return [trial.multiple for trial in choice.trials]


def six_axes(inertias: bool) -> tuple[Model, Samples]:
    """24 s of a robot with six axes and 60 parameters, motion up to 2.5 Hz, with or without inertias in its file."""
    robot = read_robot("tx40")
    assert robot.terms is not None
    model = Model(robot, named_terms(robot.terms))
    t = np.arange(int(24.0 * RATE)) / RATE
    q, v, a = random_fourier(robot, 5, 0.5, 24.0, np.random.default_rng(1)).at(t)[:3]
    torque = model.torque(q, v, a, truth_of(model))
    noise = 0.02 * np.std(torque, axis=1, keepdims=True) * np.random.default_rng(1).standard_normal(torque.shape)
    run = Samples.from_arrays("run", robot.joint_names, RATE, q, v, a, torque + noise)
    if not inertias:
        bare = replace(robot, links=tuple(replace(link, inertia=None) for link in robot.links))
        model = Model(bare, model.terms)
    return model, run


def test_a_filter_that_leaves_too_few_rows_is_raised() -> None:
    """1 Hz leaves 53 rows per joint for 60 parameters: a higher filter shows them, one above that adds nothing."""
    found = chosen(*six_axes(False), 1.0, 5.0)
    assert found.multiple == 2.0
    assert multiples(found) == [1.0, 2.0, 4.0]
    assert errors(found)[1] < 0.4 * errors(found)[0]
    assert [trial.rows for trial in found.trials] == sorted(trial.rows for trial in found.trials)


def test_inertias_of_the_file_replace_rows() -> None:
    found = chosen(*six_axes(True), 1.0, 5.0)
    assert found.multiple == 1.0
    assert multiples(found) == [1.0, 2.0]


def test_a_filter_is_raised_until_it_leaves_enough_rows() -> None:
    """In small steps, without an estimate, and no further: higher is tried, and is not better."""
    found = chosen(ARM, log(vibration_hz=8.0), 2.5, least_rows=90)
    rows = [trial.rows for trial in found.trials]
    assert found.chosen >= 2
    assert all(few < 90 for few in rows[: found.chosen])
    assert rows[found.chosen] >= 90
    assert multiples(found) == pytest.approx([1.2**k for k in range(found.chosen + 1)] + [2.0 * found.multiple])
    assert np.isnan(errors(found)[: found.chosen]).all()


def test_where_no_filter_leaves_enough_rows_the_most_count() -> None:
    found = chosen(ARM, log(), 4.0, 8.0, least_rows=10_000)
    assert found.multiple == max(multiples(found)) > 1.0


def test_below_a_resonance_the_lower_filter_stays() -> None:
    found = chosen(ARM, log(vibration_hz=8.0), 4.0)
    assert found.multiple == 1.0
    assert multiples(found) == [1.0, 2.0]
    assert errors(found)[1] > 3.0 * errors(found)[0]


def test_the_lower_filter_stays_where_a_higher_one_gains_little() -> None:
    found = chosen(ARM, log(), 4.0)
    assert found.multiple == 1.0
    np.testing.assert_allclose(errors(found), errors(found)[0], rtol=0.1)


def test_what_a_higher_filter_adds_to_its_rows_does_not_count() -> None:
    """All filters are scored below the lowest: a ripple of the efforts above it is noise of the fit, not an error."""
    plain, rippled = (chosen(ARM, run, 10.0) for run in (log(), log(ripple_hz=15.0)))
    assert multiples(plain) == multiples(rippled) == [1.0, 2.0]
    assert errors(rippled)[1] < 2.0 * errors(plain)[1] < 0.5


def test_a_filter_without_rows_is_passed_over() -> None:
    """Three periods of 0.2 Hz are longer than the log."""
    found = chosen(ARM, log(seconds=12.0), 0.2, 8.0)
    assert found.trials[0].rows == 0
    assert found.multiple > 1.0


def test_folds_without_rows_give_no_estimate() -> None:
    """The guard of three periods is 3 s at 1 Hz: it covers all of 6 s, and a higher filter is taken untried."""
    found = chosen(ARM, log(seconds=6.0), 1.0, 4.0, least_rows=1)
    assert np.isnan(found.trials[0].error)
    assert found.multiple > 1.0
