"""What earlier logs and results tell: the same information from both, error bars that hold, and what to run next."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard._arrays import Array
from steelyard.design.criteria import DeviationTargets, deviation_scale
from steelyard.design.design import design_excitation
from steelyard.design.families import FourierFamily
from steelyard.design.forecast import forecast, planned, so_far
from steelyard.design.prior_knowledge import inflation, known
from steelyard.errors import EstimationError
from steelyard.estimators import WLS
from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.payload import Payload
from steelyard.motion.bounds import MotionLimits
from steelyard.motion.random import random_fourier
from steelyard.motion.trajectory import Trajectory
from steelyard.project.project import Project, read_project
from steelyard.project.result_file import document, identification
from steelyard.regression.information import Information
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from testbed.simulated import arm, coloured, model_of, truth_of

RATE_HZ, NOISE = 50.0, np.array([0.5, 0.3, 0.1])
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "real"


@cache
def model() -> Model:
    return model_of(arm(3))


def motion(seed: int) -> Trajectory:
    return random_fourier(model().robot, 5, 0.1, 20.0, np.random.default_rng(seed))


def log(path: Trajectory, seed: int, memory: float = 0.0, name: str = "run") -> Samples:
    """A log whose torque noise is white, or AR(1) with a pole."""
    q, v, a = path.at(np.arange(int(path.duration * RATE_HZ) + 1) / RATE_HZ)
    rng = np.random.default_rng(seed)
    noise = coloured(rng, q.shape, memory) if memory else rng.standard_normal(q.shape)
    tau = model().torque(q, v, a, truth_of(model())) + NOISE[:, None] * noise
    return Samples.from_arrays(name, model().robot.axis_names, RATE_HZ, q, v, a, tau)


def rows_of(*runs: Samples) -> Problem:
    return Problem(model(), runs, decimate=1, rest=0.0)


@cache
def earlier(memory: float = 0.0) -> tuple[Information, Identification]:
    problem = rows_of(log(motion(1), 1, memory))
    information = observe(problem)
    return information, identify(problem, WLS(), information)


# --- From logs and from results ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_logs_and_their_result_tell_the_same(memory: float) -> None:
    information, result = earlier(memory)
    base = base_parameters(model())
    one, two = known(information, base), known(result, base)
    np.testing.assert_allclose(one.information, two.information, rtol=1e-6, atol=1e-9 * one.information.max())
    # each joint's own residuals against those of the joint fit
    np.testing.assert_allclose(one.noise, two.noise, rtol=0.1)
    np.testing.assert_allclose(one.effort, two.effort, rtol=1e-12)
    assert one.inflation == two.inflation
    # and it is the result's own covariance, widened
    np.testing.assert_allclose(so_far(two).std, result.std_classical * two.inflation, rtol=1e-8)
    assert np.median(result.std / so_far(two).std) == pytest.approx(1.0, abs=1e-6)


def test_white_residuals_hardly_widen_and_correlated_ones_do() -> None:
    assert known(earlier()[0], base_parameters(model())).inflation < 1.4
    coloured_log = known(earlier(0.9)[0], base_parameters(model()))
    # AR(1) with pole 0.9 has √19 times the σ of white noise at low frequencies
    assert 2.0 < coloured_log.inflation < 5.0
    assert f"σ {coloured_log.inflation:.3g} times the classical ones" in coloured_log.source


def test_a_result_read_back_tells_the_same() -> None:
    base, result = base_parameters(model()), earlier()[1]
    again = known(identification(document(result)), base)
    np.testing.assert_array_equal(again.root, known(result, base).root)
    np.testing.assert_array_equal(again.noise, known(result, base).noise)
    assert "result of run by wls" in again.source


def test_stated_noise_is_that_of_observed_rows() -> None:
    base, (information, result) = base_parameters(model()), earlier(0.9)
    stated = known(information, base, NOISE)
    np.testing.assert_allclose(so_far(stated).std, forecast(rows_of(planned_of(1)), NOISE).std, rtol=1e-9)
    assert stated.inflation == 1.0
    # a covariance is what it is; only the rows to come have the stated noise
    np.testing.assert_array_equal(known(result, base, NOISE).root, known(result, base).root)
    np.testing.assert_array_equal(known(result, base, NOISE).noise, NOISE)


def planned_of(seed: int) -> Samples:
    return planned(model(), motion(seed), RATE_HZ, f"planned{seed}")


def test_nothing_is_known_of_what_a_result_has_no_bars_for() -> None:
    base, result = base_parameters(model()), earlier()[1]
    k = base.names.index("joint2.Fv")
    hole = result.covariance_classical.copy()
    hole[k], hole[:, k] = np.nan, np.nan
    less = known(replace(result, covariance_classical=hole), base)
    assert np.all(less.root[:, k] == 0.0)
    assert so_far(less).unseen == ("joint2.Fv",)
    assert less.source.endswith(f"it has no σ of 1 of the {len(base)} base parameters")
    with pytest.raises(EstimationError, match=r"by wls has no error bars: identify its logs by 'wls'"):
        known(replace(result, covariance_classical=np.full_like(hole, np.nan)), base)
    with pytest.raises(EstimationError, match="numerically singular"):
        known(replace(result, covariance_classical=np.ones_like(hole)), base)


def test_a_payload_to_come_is_unknown() -> None:
    """A result without a payload is given to a model with one: what it tells stays, of the payload it tells nothing."""
    result = earlier()[1]
    loaded = Model(model().robot, model().terms, payloads=[Payload("tool")])
    base = base_parameters(loaded)
    told = known(result, base)
    own = [base.names.index(name) for name in result.base.names]
    np.testing.assert_allclose(so_far(told).std[own], result.std_classical * told.inflation, rtol=1e-8)
    assert {name.split(".")[0] for name in so_far(told).unseen} == {"tool"}


def test_other_models_are_refused() -> None:
    information, result = earlier()
    other = base_parameters(model_of(arm(2)))
    with pytest.raises(EstimationError, match="of another model"):
        known(information, other)
    with pytest.raises(EstimationError, match=r"base parameter link\d\.\w+ is not a parameter of this model"):
        known(result, other)
    with pytest.raises(EstimationError, match="of another model"):
        known(known(result, result.base), other)
    moved = replace(model().robot.joints[2], pose=replace(model().robot.joints[2].pose, position=np.array([0.9, 0, 0])))
    longer = Model(replace(model().robot, joints=(*model().robot.joints[:2], moved)), model().terms)
    with pytest.raises(EstimationError, match="another linear combination"):
        known(result, base_parameters(longer))


def test_silent_joints_need_a_stated_noise() -> None:
    one = known(earlier()[1], base_parameters(model()))
    limits = MotionLimits.of(model().robot, 10.0)
    with pytest.raises(EstimationError, match=r"no rows of joint2, .* give the noise of all joints"):
        design_excitation(model(), limits, 5.0, given=replace(one, noise=np.array([1.0, np.nan, 1.0])))


# --- What comes true --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_the_next_identification_reports_what_was_forecast(memory: float) -> None:
    """Noise and information of one log, the motion of the next: σ of both together, before that one is run."""
    base = base_parameters(model())
    told = known(earlier(memory)[1], base)
    predicted = forecast(rows_of(planned_of(2)), told.noise, told)
    both = rows_of(log(motion(1), 1, memory), log(motion(2), 2, memory, "next"))
    found = identify(both, WLS())
    # the residuals of a joint scatter with correlated noise, and so do all σ of its parameters
    np.testing.assert_allclose(predicted.std / told.inflation, found.std_classical, rtol=0.15 if memory == 0.0 else 0.3)
    # twelve blocks: a single bar is good to a fifth, their median to a few per cent
    assert np.median(found.std / predicted.std) == pytest.approx(1.0, abs=0.2)
    assert inflation(found) == pytest.approx(told.inflation, rel=0.25)


# --- What to run next -------------------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(share=st.floats(1e-3, 1.0), factor=st.floats(0.1, 10.0), seed=st.integers(0, 10**6))
def test_scales_are_values_that_make_a_share_of_an_effort(share: float, factor: float, seed: int) -> None:
    base = base_parameters(model())
    limits, effort = MotionLimits.of(model().robot, 10.0), np.random.default_rng(seed).uniform(1.0, 50.0, 3)
    floor = deviation_scale(model(), base, limits, effort, share=share)
    np.testing.assert_allclose(deviation_scale(model(), base, limits, factor * effort, share=share), factor * floor)
    # an offset makes itself everywhere; friction at a quarter of the worst case squared, for speeds that are uniform
    for j in range(3):
        assert floor[base.names.index(f"joint{j + 1}.off")] == pytest.approx(share * effort[j])
        viscous = share * effort[j] / (limits.velocity[j] / np.sqrt(3.0))
        assert floor[base.names.index(f"joint{j + 1}.Fv")] == pytest.approx(viscous, rel=0.05)
    theta = truth_of(model())
    valued = deviation_scale(model(), base, limits, effort, theta, share)
    np.testing.assert_array_equal(valued, np.maximum(floor, np.abs(base.map @ theta)))


def test_the_worst_parameter_is_named() -> None:
    told = so_far(known(earlier()[1], base_parameters(model())), truth_of(model()))
    name, ratio = told.worst(np.ones(len(told.base)))
    assert ratio == told.std.max() == told.std[told.base.names.index(name)]
    assert told.worst(np.ones(len(told.base)), ["joint3.Fv"])[0] == "joint3.Fv"
    blind = replace(told, covariance=np.full_like(told.covariance, np.nan))
    assert blind.worst(np.ones(len(told.base)))[1] == np.inf


def opened(name: str) -> Project:
    project = read_project(EXAMPLES / f"{name}.toml")
    if not all(log.is_file() for run in project.spec.run for log in project.log_files(run)):
        pytest.skip("No recorded data: the folder 'shared/data' beside the project does not exist.")
    return project


def lowered(name: str, limits: MotionLimits, about: tuple[str, ...], duration: float, periods: int) -> float:
    """By what factor the next motion lowers the worst relative σ, of those parameters whose owners are named."""
    project = opened(name)
    whole = project.model()
    runs = project.samples(whole.robot, "identify")
    problem = project.problem(whole, runs)
    information, base = observe(problem), base_parameters(whole)
    result = identify(problem, WLS(), information)
    told = known(information, base)
    theta = whole.layout.nominal
    assert theta is not None
    sizes: Array = np.where(np.abs(result.value) >= 3.0 * result.std, result.value, base.map @ theta)
    scale = deviation_scale(whole, base, limits, told.effort, base.theta(sizes))
    chosen = [one for one in base.names if not about or one.split(".")[0] in about]
    targets = DeviationTargets(absolute={one: float(scale[base.names.index(one)]) for one in chosen}, sharpness=8.0)
    family, rate = FourierFamily(5, periods), runs[0].rate / problem.decimator(runs[0]).factor
    design = design_excitation(
        whole, limits, duration, targets, family, given=told, rate_hz=rate, starts=1, iterations=120
    )
    assert design.holds
    return so_far(told).worst(scale, chosen)[1] / design.forecast.worst(scale, chosen)[1]


@pytest.mark.slow
def test_the_next_motion_of_the_kr300_after_run_a() -> None:
    """Within what runs A and B have been through, in degrees, rad/s and rad/s²: the file gives no limits."""
    limits = MotionLimits(
        np.radians([-29.0, -114.0, 44.0, -57.0, -7.0, -72.0]),
        np.radians([46.0, -61.0, 90.0, 31.0, 27.0, 9.0]),
        np.array([0.44, 0.44, 0.42, 0.57, 0.51, 0.76]),
        np.array([0.6, 0.8, 0.5, 1.5, 1.5, 1.5]),
    )
    assert lowered("kr300", limits, (), 10.0, 1) >= 5.0


@pytest.mark.slow
def test_the_next_motion_of_the_ur10e_for_joint_6() -> None:
    """Positions as logged, speeds of the file, 5 rad/s²."""
    limits = MotionLimits(
        np.radians([-113.0, -182.0, -74.0, -113.0, -90.0, -90.0]),
        np.radians([60.0, -39.0, 86.0, -1.0, 83.0, 88.0]),
        np.array([2.0, 2.0, 3.0, 3.0, 3.0, 3.0]),
        np.full(6, 5.0),
    )
    assert lowered("ur10e", limits, ("wrist_3_link", "wrist_3_joint"), 30.0, 3) >= 5.0
