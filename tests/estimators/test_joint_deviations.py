"""σ of every joint from its own rows, also where a joint hardly moved."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from steelyard.errors import EstimationError
from steelyard.estimators import WLS
from steelyard.estimators.auto import Auto
from steelyard.estimators.least_squares import joint_deviations
from steelyard.model.base_parameters import base_parameters
from steelyard.regression.information import Information
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from testbed.simulated import arm, model_of, motion_of, truth_of

RATE, NOISE = 200.0, np.array([[0.5], [0.1]])
ARM = model_of(arm(2))
BASE = base_parameters(ARM)


def information() -> Information:
    motion = motion_of(ARM.robot, 4000, RATE, 1)
    effort = ARM.torque(*motion[:3], truth_of(ARM)) + NOISE * np.random.default_rng(1).standard_normal(motion.q.shape)
    run = Samples.from_arrays("run", ARM.robot.joint_names, RATE, *motion[:3], effort)
    return observe(Problem(ARM, [run], decimate=4, rest=0.0))


def with_few_rows(whole: Information, joints: tuple[int, ...]) -> Information:
    """Only the first block of these joints, with four rows."""
    blocks = {}
    for key, part in whole.blocks.items():
        if key.joint not in joints:
            blocks[key] = part
        elif key.block == 0:
            blocks[key] = replace(part, r=part.r[:4], rows=4)
    return replace(whole, blocks=blocks)


def test_the_noise_is_found() -> None:
    np.testing.assert_allclose(joint_deviations(information(), BASE), NOISE[:, 0], rtol=0.05)


@pytest.mark.parametrize("estimator", [WLS(), Auto()])
def test_a_joint_with_few_rows_does_not_refuse_the_others(estimator) -> None:
    """It is taken to be as accurate as the others, relative to its effort; they fit as before."""
    whole = information()
    few = with_few_rows(whole, (1,))
    sigma = joint_deviations(few, BASE)
    assert sigma[0] == joint_deviations(whole, BASE)[0]
    r = few.gathered(1).r[:, len(few.columns[1])]
    effort = few.gathered(0).r[:, len(few.columns[0])]
    sizes = [np.linalg.norm(y) / np.sqrt(rows) for y, rows in ((effort, few.gathered(0).rows), (r, 4))]
    assert sigma[1] == pytest.approx(sigma[0] / sizes[0] * sizes[1])
    value = BASE.theta(np.nan_to_num(estimator.estimate(None, BASE, few).value))
    own = whole.columns[0]
    rest = whole.gathered(0).r @ np.append(-value[own], 1.0)
    assert np.linalg.norm(rest) / np.sqrt(whole.gathered(0).rows) == pytest.approx(0.5, rel=0.1)


def test_a_log_without_rows_enough_for_any_joint_is_refused() -> None:
    with pytest.raises(EstimationError, match=r"joint1 has 4 rows for 4 parameters of its own, .*log is too short"):
        joint_deviations(with_few_rows(information(), (0, 1)), BASE)
