"""P4 with a known truth: when LS, IV and DIDIM agree, and what an error of the simulator does to each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.estimators import DIDIM, IV, WLS, Essential
from steelyard.identification.result import Identification
from steelyard.project.demos.demo import demo
from steelyard.project.papers.setups.closed_loop import (
    COULOMB,
    ENCODER_AT_90,
    ENCODER_OFF,
    FAR,
    TABLE_1,
    TORQUE_AT_90,
    UNSEEN,
    VISCOUS,
    Arm,
    identified,
    iterations,
    simulated_error,
    starting,
)
from steelyard.regression.problem import Problem
from steelyard.validation.forward import forward_validation

# Table I has σ from 0.55 % to 52.4 %: a ratio of 95.
LEAST = Essential(ratio=100.0)
INSTRUMENTS = IV(start="nominal", ratio=100.0)
DIRECT = DIDIM(start="nominal", ratio=100.0)


class Nominal:
    """A log of the arm and what the three estimators make of it with a simulator that is right."""

    def __init__(self) -> None:
        self.arm = Arm()
        self.run = self.arm.logged()
        self.problem = self.arm.problem(self.run)
        self.ls = identified(self.problem, LEAST)
        self.iv = identified(self.problem, INSTRUMENTS)
        self.didim = identified(self.problem, DIRECT)

    def to_ls(self, result: Identification, *short: str) -> Array:
        at = self.arm.places(*(short or TABLE_1))
        return result.value[at] / self.ls.value[at]


@pytest.fixture(scope="module")
def nominal() -> Nominal:
    return Nominal()


@pytest.mark.slow
def test_p4_three_estimators_agree_and_hold_the_truth(nominal: Nominal) -> None:
    wanted = {nominal.arm.base.names[k] for k in nominal.arm.places(*TABLE_1)}
    for result in (nominal.ls, nominal.iv, nominal.didim):
        assert set(result.base.names) - set(result.cancelled) == wanted
    for result in (nominal.iv, nominal.didim):
        np.testing.assert_allclose(nominal.to_ls(result), 1.0, atol=0.02)
        assert 2 <= iterations(result) <= 7
    for result in (nominal.ls, nominal.iv, nominal.didim):
        at = nominal.arm.places(*TABLE_1)
        off = (result.value[at] - nominal.arm.truth[at]) / result.std[at]
        # 28 parameters of one draw: no more than two beyond 3 σ of few blocks
        assert np.sum(np.abs(off) > 3.0) <= 2
        assert result.relative_error.total == pytest.approx(0.0213, abs=0.002)


@pytest.mark.slow
def test_p4_encoder_ratio_of_the_simulator_biases_didim_alone(nominal: Nominal) -> None:
    problem = nominal.arm.problem(nominal.run, ENCODER_AT_90)
    iv, didim = identified(problem, INSTRUMENTS), identified(problem, DIRECT)
    np.testing.assert_allclose(nominal.to_ls(iv), 1.0, atol=0.02)
    assert iv.relative_error.total < 1.01 * nominal.iv.relative_error.total
    for ratio in nominal.to_ls(didim, "ZZ1", "ZZ2"):
        assert 0.75 < ratio < 0.92
    assert np.all(np.abs(nominal.to_ls(didim, *VISCOUS) - 0.90) < 0.05)
    assert np.all(np.abs(nominal.to_ls(didim, *COULOMB) - 0.99) < 0.06)
    right = simulated_error(nominal.problem, nominal.didim)
    assert right == pytest.approx(nominal.didim.relative_error.total, rel=0.02)
    assert simulated_error(problem, didim) > 1.15 * right


@pytest.mark.slow
def test_p4_torque_ratio_of_the_simulator_biases_no_parameter_beyond_its_error_bar(nominal: Nominal) -> None:
    didim = identified(nominal.arm.problem(nominal.run, TORQUE_AT_90), DIRECT)
    # the loop's gain falls by a tenth, so the lightest motor follows a little later: half a σ of Ia6
    rest = [name for name in TABLE_1 if name != "Ia6"]
    np.testing.assert_allclose(nominal.to_ls(didim, *rest), 1.0, atol=0.01)
    at = nominal.arm.places("Ia6")
    assert np.abs(didim.value - nominal.ls.value)[at] < didim.std[at]


@pytest.mark.slow
def test_p4_encoder_offset_of_the_simulator_biases_didim_alone(nominal: Nominal) -> None:
    problem = nominal.arm.problem(nominal.run, ENCODER_OFF)
    iv, didim = identified(problem, INSTRUMENTS), identified(problem, DIRECT)
    at = nominal.arm.places(*TABLE_1)
    assert np.all(np.abs(iv.value - nominal.ls.value)[at] < 0.7 * iv.std[at])
    assert np.sum(np.abs(nominal.to_ls(didim) - 1.0) > 0.1) > 5
    assert simulated_error(problem, didim) > 2.0 * simulated_error(nominal.problem, nominal.didim)


@pytest.mark.slow
def test_p4_noise_inside_sign_and_products_biases_ls_and_iv_alone() -> None:
    arm = Arm(points=FAR)
    # less torque noise, so that one draw shows the bias
    run = arm.logged(position_noise=3e-4, torque_noise=0.01, cutoff_hz=300.0)
    at = arm.places("XX3", "Fc6")
    estimators = (WLS(), IV(start="nominal"), DIDIM(start="nominal"))
    ls, iv, didim = (identified(arm.problem(run), one).value[at] / arm.truth[at] for one in estimators)
    assert np.all(np.abs(ls - 1.0) > 0.15)
    assert np.all(np.abs(iv - 1.0) > 0.15)
    assert np.all(np.abs(didim - 1.0) < 0.06)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_p4_iterations_do_not_depend_on_the_start(nominal: Nominal, seed: int) -> None:
    problem: Problem = nominal.arm.problem(nominal.run, model=starting(0.3, seed))
    for estimator, other in ((INSTRUMENTS, nominal.iv), (DIRECT, nominal.didim)):
        result = identified(problem, estimator)
        assert iterations(result)
        at = nominal.arm.places(*TABLE_1)
        np.testing.assert_allclose(result.value[at], other.value[at], rtol=0.025)


@pytest.mark.slow
def test_p4_the_identified_arm_follows_an_unseen_reference_as_the_true_one(nominal: Nominal) -> None:
    other = Arm(points=UNSEEN)
    found = forward_validation(nominal.didim, other.problem(other.logged(seed=2)))
    for score in found.joints.values():
        assert score.position_rms < 1e-4
        # the log's own noise is 2.1 % behind the filter
        assert score.torque_relative < 0.035


@pytest.mark.slow
def test_p4_table_of_the_demo_holds_the_truth(tmp_path: Path) -> None:
    done = demo("tx40", tmp_path / "demo")
    assert [result.estimator for result in done.loop] == ["wls", "iv", "didim"]
    for result in done.loop:
        low, high = result.interval(0.95)
        assert np.sum((done.truth >= low) & (done.truth <= high)) >= 0.9 * len(done.truth)
