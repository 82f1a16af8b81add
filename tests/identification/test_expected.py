"""The error expected on other motion: what parameters leave open where joints move at other times than in the log."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.identification.expected import MIXTURES, SAMPLES, _rolled, unseen_uncertainty
from steelyard.model.base_parameters import base_parameters
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from testbed.simulated import arm, model_of

RATE, COUNT = 100.0, 2000
ARM = model_of(arm(2))
BASE = base_parameters(ARM)


def run_of(together: bool) -> Samples:
    """Two joints that move with the same phase, or with different ones."""
    t = np.arange(COUNT) / RATE
    phase = np.array([[0.0], [0.0 if together else 1.3]])
    w = 2.0 * np.pi * np.array([[0.5], [0.5 if together else 0.8]])
    q, v, a = np.sin(w * t + phase), w * np.cos(w * t + phase), -(w**2) * np.sin(w * t + phase)
    return Samples.from_arrays("run", ARM.robot.joint_names, RATE, q, v, a, np.sin(3.0 * w * t))


def posterior(run: Samples, noise: float = 0.1, width: float = 1.0) -> Array:
    """Covariance (b, b) of the base parameters after the run, from a prior of the given width."""
    (piece,) = run.open()
    w = ARM.regressor(piece.q, piece.v, piece.a)[:, list(BASE.kept)]
    gram = np.einsum("jas,jbs->ab", w, w) / noise**2
    return np.linalg.inv(gram + np.eye(len(BASE)) / width**2)


def test_joints_that_move_together_leave_much_open() -> None:
    apart, together = (
        unseen_uncertainty(Problem(ARM, [run]), BASE, posterior(run)) for run in (run_of(False), run_of(True))
    )
    assert np.all(together > 100.0 * apart)


def test_it_is_the_mean_square_of_drawn_parameters() -> None:
    run = run_of(True)
    (piece,) = run.open()
    covariance = posterior(run)
    step = COUNT // SAMPLES
    drawn = np.random.default_rng(1).multivariate_normal(np.zeros(len(BASE)), covariance, 4000)
    size = []
    for k in range(MIXTURES + 1):
        q, v, a = (_rolled(x[:, ::step], k) for x in (piece.q, piece.v, piece.a))
        torque = np.einsum("jcs,dc->jds", ARM.regressor(q, v, a)[:, list(BASE.kept)], drawn) ** 2
        moving = np.abs(v) >= Problem(ARM, [run]).rest_speeds[:, None]
        size.append([np.mean(own[:, used]) for own, used in zip(torque, moving, strict=True)])
    wanted = np.mean(size[1:], axis=0) - size[0]
    np.testing.assert_allclose(unseen_uncertainty(Problem(ARM, [run]), BASE, covariance), wanted, rtol=0.1)


def test_without_uncertainty_nothing_is_added() -> None:
    problem = Problem(ARM, [run_of(True)])
    assert unseen_uncertainty(problem, BASE, np.zeros((len(BASE), len(BASE)))) == pytest.approx([0.0, 0.0])
    unknown = np.full((len(BASE), len(BASE)), np.nan)
    assert unseen_uncertainty(problem, BASE, unknown) == pytest.approx([0.0, 0.0])


def test_a_motion_that_is_repeated_counts_once() -> None:
    run = run_of(True)
    (piece,) = run.open()
    again = Samples.from_arrays("again", run.joints, RATE, *piece[2:6])
    covariance = posterior(run)
    once, twice = (unseen_uncertainty(Problem(ARM, runs), BASE, covariance) for runs in ([run], [run, again]))
    np.testing.assert_allclose(twice, once, rtol=0.1)
