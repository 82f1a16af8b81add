"""Runs that differ: named with their parameters, in the error bars of ten runs, and no alarm for equal ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.terms import named_terms
from steelyard.motion.random import random_fourier
from steelyard.regression.information import RUNS_AS_CLUSTERS, Information
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from steelyard.validation.run_differences import as_clusters, run_differences
from testbed.simulated import arm, coloured
from testbed.trees import Pinocchio, State

RATE = 100.0
FRICTION = {"Fv": np.array([3.0, 1.5, 1.0]), "Fc": np.array([4.0, 2.0, 4.0 / 3.0])}


def fitted(factors: Sequence[float], seed: int = 0, seconds: float = 10.0) -> tuple[Identification, Information]:
    """One run per factor on the friction of joint 2, with torques of Pinocchio."""
    robot = arm(3)
    bare = replace(robot, joints=tuple(replace(j, drive=replace(j.drive, rotor=0.0)) for j in robot.joints))
    t, runs = np.arange(int(seconds * RATE)) / RATE, []
    for k, factor in enumerate(factors):
        rng = np.random.default_rng([seed, k])
        q, v, a = random_fourier(robot, 5, 0.15, seconds, rng).at(t)
        scale = np.array([[1.0], [factor], [1.0]])
        torque = Pinocchio(bare).torque(State(q, v, a))
        torque = torque + scale * (FRICTION["Fv"][:, None] * v + FRICTION["Fc"][:, None] * np.sign(v))
        torque += 0.3 * coloured(rng, torque.shape, 0.9)
        runs.append(Samples.from_arrays(f"run{k}", robot.joint_names, RATE, q, v, a, torque))
    problem = Problem(Model(robot, named_terms(("rotor", "viscous", "coulomb", "offset"))), runs, lowpass_hz=10.0)
    information = observe(problem)
    return identify(problem, information=information), information


def test_equal_runs_raise_no_alarm() -> None:
    for seed in range(8):
        assert not run_differences(*fitted((1.0, 1.0, 1.0), seed)).significant


def test_runs_that_differ_are_named_with_run_and_parameter() -> None:
    result, information = fitted((1.0, 1.0, 1.3))
    found = run_differences(result, information)
    assert found.significant[0].parameter in ("joint2.Fv", "joint2.Fc")
    assert found.significant[0].run == "run2"
    assert found.significant[0].change > 0.0
    (told,) = found.findings(as_clusters(information))
    assert (told.code, told.severity) == ("runs-differ", "warning")
    assert found.error_own_friction < 0.9 * found.error


def test_a_single_run_has_nothing_to_differ_from() -> None:
    result, information = fitted((1.0,))
    found = run_differences(result, information)
    assert found.tests == ()
    assert found.findings(False) == ()


def test_ten_runs_are_the_clusters() -> None:
    factors = 1.0 + 0.2 * np.random.default_rng(2).standard_normal(RUNS_AS_CLUSTERS)
    result, information = fitted(factors.tolist(), seconds=6.0)
    assert result.clusters == RUNS_AS_CLUSTERS
    assert as_clusters(information)
    assert all(len({time[0] for time in group}) == 1 for group in information.clusters(12))
    truth = FRICTION["Fc"][1] * factors.mean()
    k = result.base.names.index("joint2.Fc")
    low, high = result.interval()
    assert low[k] < truth < high[k]
    (told,) = run_differences(result, information).findings(True)
    assert told.severity == "info"
