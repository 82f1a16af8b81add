"""The test of the friction law: alarms for a wrong law, none for the right one, none of a few seconds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from steelyard.identification.identify import identify
from steelyard.identification.prediction import Prediction, predict
from steelyard.model.model import Model
from steelyard.model.terms import named_terms
from steelyard.motion.random import random_fourier
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from steelyard.validation.lack_of_fit import BLOCKS, FEWEST_BLOCKS, lack_of_fit
from testbed.simulated import arm, coloured
from testbed.trees import Pinocchio, State

RATE = 100.0


def fitted(seed: int, load: float = 0.0, stribeck: float = 0.0, seconds: float = 20.0) -> Prediction:
    """A log by Pinocchio with friction of Coulomb, viscous, and optionally of load and Stribeck, fitted by plain
    terms."""
    robot, rng = arm(3), np.random.default_rng(seed)
    t = np.arange(int(seconds * RATE)) / RATE
    q, v, a = random_fourier(robot, 5, 0.15, seconds, rng).at(t)
    bare = replace(robot, joints=tuple(replace(j, drive=replace(j.drive, rotor=0.0)) for j in robot.joints))
    torque = Pinocchio(bare).torque(State(q, v, a))
    friction = np.array([[3.0], [1.5], [1.0]]) * v + np.array([[4.0], [2.0], [4.0 / 3.0]]) * np.sign(v)
    friction += load * np.abs(torque) * np.sign(v) + stribeck * np.exp(-((v / 0.3) ** 2)) * np.sign(v)
    torque = torque + friction + 0.5 * coloured(rng, torque.shape, 0.9)
    run = Samples.from_arrays("log", robot.joint_names, RATE, q, v, a, torque)
    problem = Problem(Model(robot, named_terms(("rotor", "viscous", "coulomb", "offset"))), [run], lowpass_hz=10.0)
    return predict(identify(problem), problem, run)


def test_the_right_law_raises_no_alarm() -> None:
    alarms = sum(bool(lack_of_fit([fitted(seed)]).findings) for seed in range(6))
    assert alarms == 0


@pytest.mark.parametrize("wrong", [{"load": 0.15}, {"stribeck": 4.0}], ids=["load", "stribeck"])
def test_a_wrong_law_is_named_with_its_joint(wrong: dict[str, float]) -> None:
    found = [lack_of_fit([fitted(seed, **wrong)]) for seed in range(6)]
    assert all(one.code == "friction-misfit" for each in found for one in each.findings)
    assert sum(bool(each.findings) for each in found) >= 5
    by = "load" if "load" in wrong else "speed"
    alarms = [test for each in found for test in each.tests if test.alarms]
    assert any(test.by == by for test in alarms)


def test_the_mean_of_a_bin_is_that_of_its_rows() -> None:
    told = fitted(1, load=0.3)
    tests = lack_of_fit([told]).tests
    for test in tests:
        j = told.joints.index(test.joint)
        x = np.abs(told.v[j]) if test.by == "speed" else np.abs(told.predicted[j])
        # the bins' edges are rows themselves; the last bin holds its own
        last = test.high == x[told.scored[j]].max()
        own = told.scored[j] & (x >= test.low) & ((x <= test.high) if last else (x < test.high))
        along = ((told.measured - told.predicted)[j] * np.sign(told.v[j]))[own]
        assert test.mean == pytest.approx(along.mean(), abs=1e-12)
        assert FEWEST_BLOCKS <= test.blocks <= BLOCKS


def test_a_few_seconds_cannot_tell() -> None:
    found = lack_of_fit([fitted(2, load=0.15, seconds=6.0)])
    assert found.tests == ()
    assert [one.code for one in found.findings] == ["friction-untested"]
    assert lack_of_fit([]).tests == ()
