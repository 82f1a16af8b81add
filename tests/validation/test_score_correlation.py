"""Errors correlated for longer than a block: the parameters that suffer are named, and no others."""

from __future__ import annotations

import numpy as np

from steelyard.findings import Finding
from steelyard.identification.identify import identify
from steelyard.model.model import Model
from steelyard.model.terms import named_terms
from steelyard.motion.random import random_fourier
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from steelyard.validation.score_correlation import correlation_finding
from testbed.simulated import arm, coloured
from testbed.trees import Pinocchio, State

RATE = 100.0


def found(seed: int, pole: float, seconds: float = 20.0) -> tuple[Finding, ...]:
    """A log by Pinocchio with rigid bodies, offsets and noise with one pole."""
    robot, rng = arm(3), np.random.default_rng(seed)
    t = np.arange(int(seconds * RATE)) / RATE
    q, v, a = random_fourier(robot, 5, 0.2, seconds, rng).at(t)
    effort = Pinocchio(robot).torque(State(q, v, a)) + coloured(rng, q.shape, pole)
    run = Samples.from_arrays("log", robot.joint_names, RATE, q, v, a, effort)
    problem = Problem(Model(robot, named_terms(("offset",))), [run], lowpass_hz=10.0)
    information = observe(problem)
    return correlation_finding(identify(problem, information=information), information)


def test_short_correlations_are_harmless() -> None:
    assert sum(bool(found(seed, 0.8)) for seed in range(10)) == 0


def test_a_slow_error_concerns_the_offsets() -> None:
    """A correlation over 5 s: offsets do not change sign, the columns of the bodies do."""
    told = [found(seed, 0.998) for seed in range(6)]
    assert all(told)
    named = " ".join(one.message for (one,) in told)
    assert named.count(".off") > 6
    assert "joint1.off" in named
    assert "link3.XX" not in named
