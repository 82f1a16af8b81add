"""Designed motions: limits that hold for all t, criteria that `observe` confirms, σ that come true, telling errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard._arrays import Array
from steelyard.design.criteria import ConditionNumber, DeviationTargets, DOptimal
from steelyard.design.design import Design, design_excitation
from steelyard.design.families import BSplineFamily, Family, FourierFamily
from steelyard.design.forecast import forecast, planned
from steelyard.design.gradients import smoothed
from steelyard.design.prior_knowledge import known
from steelyard.errors import DataError, EstimationError, ModelError
from steelyard.estimators import WLS
from steelyard.estimators.least_squares import joint_deviations
from steelyard.formats.robots import read_robot
from steelyard.identification.identify import identify
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.payload import Payload
from steelyard.model.pose import Pose
from steelyard.model.robot import Limits
from steelyard.model.terms import named_terms
from steelyard.motion.bounds import MotionBounds, MotionLimits, proven_bounds
from steelyard.motion.bspline import BSpline
from steelyard.motion.random import random_fourier, random_points
from steelyard.motion.trajectory import Fourier, Quintic, Trajectory, TrapezoidalAcceleration, chain
from steelyard.regression.information import stacked
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from steelyard.simulation.closed_loop import Reference, simulate
from steelyard.simulation.controllers import Cascade
from steelyard.simulation.plant import Plant
from testbed.simulated import arm, model_of, silent, slider, truth_of

RATE_HZ = 50.0
DURATION_S = 10.0
NOISE = 0.5
FAMILIES: dict[str, Family] = {"fourier": FourierFamily(5), "cycles": FourierFamily(3, 2), "b-spline": BSplineFamily(9)}


@cache
def tx40() -> Model:
    robot = read_robot("tx40")
    return Model(robot, named_terms(robot.terms or ()))


@cache
def tx40_limits() -> MotionLimits:
    return MotionLimits.of(tx40().robot, 10.0, torque_share=0.6)


@cache
def tx40_design() -> Design:
    return design_excitation(tx40(), tx40_limits(), DURATION_S, noise=NOISE)


def small(**options: object) -> Design:
    model = model_of(arm(3))
    settings = {"limits": MotionLimits.of(model.robot, 20.0), "duration": 5.0, "starts": 2, "noise": NOISE} | options
    return design_excitation(model, **settings)  # type: ignore[arg-type]


def simulated(model: Model, trajectory: Trajectory, seed: int, name: str = "run", load: str = "none") -> Samples:
    """The log of a motion with white noise on the torques."""
    q, v, a = trajectory.at(np.arange(int(trajectory.duration * RATE_HZ) + 1) / RATE_HZ)
    tau = model.torque(q, v, a, truth_of(model), load=load)
    tau += NOISE * np.random.default_rng(seed).standard_normal(tau.shape)
    return Samples.from_arrays(name, model.robot.axis_names, RATE_HZ, q, v, a, tau, load)


def rows_of(model: Model, *runs: Samples) -> Problem:
    return Problem(model, runs, decimate=1, rest=0.0)


def third(trajectory: Trajectory, t: Array, step: float) -> Array:
    """Jerk by a central difference of the exact acceleration."""
    return (trajectory.at(t + step)[2] - trajectory.at(t - step)[2]) / (2 * step)


# --- Proofs -----------------------------------------------------------------------------------------------------------

POINTS = np.array([[0.0, 1.0, -0.5, -0.5], [0.2, 0.1, 0.1, 1.2], [0.0, -2.0, 0.01, 0.0]])
SINE, COSINE = np.random.default_rng(4).standard_normal((2, 3, 4))
QUINTIC = Quintic(POINTS, np.array([0.0, 1.0, 2.5, 3.0]))
MOTIONS: dict[str, Callable[[], Trajectory]] = {
    "quintic": lambda: QUINTIC,
    "b-spline": lambda: BSpline(np.random.default_rng(0).normal(size=(3, 8)), 4.0),
    "cubic b-spline": lambda: BSpline(np.random.default_rng(1).normal(size=(3, 6)), 3.0, 3),
    "blended": lambda: Fourier(np.array([0.1, -0.2, 0.3]), SINE, COSINE, 0.2, 7.3, 0.9),
    "all blend": lambda: Fourier(np.array([0.1, -0.2, 0.3]), SINE, COSINE, 0.2, 5.0, 2.5),
    "resting": lambda: FourierFamily(4).trajectory(np.random.default_rng(2).normal(size=(3, 7)), 6.0),
    "chain": lambda: chain([QUINTIC, QUINTIC.__class__(POINTS[:, ::-1], np.array([0.0, 0.5, 2.0, 4.0]))], rest=0.3),
}


@pytest.mark.parametrize("name", MOTIONS)
def test_bounds_hold_and_are_tight(name: str) -> None:
    """Never below what dense sampling sees, and at most a hundredth above it."""
    motion = MOTIONS[name]()
    bounds = proven_bounds(motion)
    # the ends included; no multiple of any grid of the proofs
    t = np.linspace(0.0, motion.duration, 200_003)
    q, v, a = motion.at(t)
    span = np.ptp(q, axis=1)
    assert np.all(bounds.lower <= q.min(axis=1) + 1e-12)
    assert np.all(bounds.upper >= q.max(axis=1) - 1e-12)
    assert np.all(q.min(axis=1) - bounds.lower < 0.01 * span)
    assert np.all(bounds.upper - q.max(axis=1) < 0.01 * span)
    for bound, seen in ((bounds.velocity, v), (bounds.acceleration, a)):
        top = np.abs(seen).max(axis=1)
        assert np.all(bound >= top * (1 - 1e-12))
        assert np.all(bound <= 1.01 * top)
    step = 1e-6 * motion.duration
    inner = t[(t > step) & (t < motion.duration - step)]
    jerk = np.abs(third(motion, inner, step))
    # a difference across the start of a blend or a knot sees half of a jump: never more than the bound
    assert np.all(bounds.jerk >= jerk.max(axis=1) * (1 - 1e-5))
    assert np.all(bounds.jerk <= 1.01 * jerk.max(axis=1))


def test_bounds_of_a_trapezoidal_acceleration_are_those_it_was_made_for() -> None:
    motion = TrapezoidalAcceleration(POINTS[:, :3], np.array([1.0, 2.0, 0.5]), np.array([4.0, 3.0, 5.0]), 0.1)
    bounds = proven_bounds(motion)
    _, v, a = motion.at(np.linspace(0.0, motion.duration, 100_001))
    assert np.all(np.abs(v).max(axis=1) <= bounds.velocity)
    assert np.all(np.abs(a).max(axis=1) <= bounds.acceleration * (1 + 1e-12))
    assert np.all(np.abs(np.diff(a, axis=1)).max(axis=1) / (motion.duration / 100_000) <= bounds.jerk * (1 + 1e-6))


def test_a_series_that_starts_moving_has_no_bound_of_acceleration() -> None:
    bounds = proven_bounds(Fourier(np.zeros(3), SINE, COSINE, 0.2, 5.0))
    assert np.all(np.isinf(bounds.acceleration))
    assert np.all(np.isfinite(bounds.velocity))


@pytest.mark.slow
@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), harmonics=st.integers(2, 9))
def test_one_harmonic_between_the_grid_points_is_seen(seed: int, harmonics: int) -> None:
    """The worst case of a grid: a pure highest harmonic of any phase. Its amplitude is known exactly."""
    phase = np.random.default_rng(seed).uniform(0, 2 * np.pi)
    amplitude = np.zeros((1, harmonics))
    amplitude[0, -1] = 1.0
    motion = Fourier(np.zeros(1), np.cos(phase) * amplitude, np.sin(phase) * amplitude, 0.5, 2.0)
    bounds: MotionBounds = proven_bounds(motion)
    assert 1.0 <= bounds.velocity[0] < 1.001
    assert 1.0 <= bounds.upper[0] * (np.pi * harmonics) < 1.001


def test_unknown_motions_are_refused() -> None:
    class Strange:
        duration, dof = 1.0, 1

    with pytest.raises(DataError, match=r"Bounds cannot be proven.*Strange.*Fourier, BSpline"):
        proven_bounds(Strange())  # type: ignore[arg-type]


# --- Families ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_basis_is_the_trajectory_and_rests_at_its_ends(name: str) -> None:
    family = FAMILIES[name]
    x = np.random.default_rng(0).normal(size=(3, family.size))
    motion = family.trajectory(x, 4.0)
    t = np.linspace(0.0, 4.0, 57)
    basis = family.basis(4.0, t)
    for k, seen in enumerate(motion.at(t)):
        np.testing.assert_allclose(x @ basis[k], seen, atol=1e-10)
    np.testing.assert_allclose((x @ basis[3])[:, 5:-5], third(motion, t[5:-5], 1e-5), rtol=1e-3, atol=1e-2)
    _, v, a = motion.at([0.0, 4.0])
    assert np.abs(v).max() < 1e-12
    assert np.abs(a).max() < 1e-10
    np.testing.assert_allclose(family.constant() @ basis, [np.ones(57), *np.zeros((3, 57))], atol=1e-9)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), name=st.sampled_from(sorted(FAMILIES)))
def test_guards_keep_the_limits_for_all_t(seed: int, name: str) -> None:
    """Numbers scaled until their guards touch: the proof and dense samples stay within, for every quantity."""
    family, rng = FAMILIES[name], np.random.default_rng(seed)
    x = rng.normal(size=(2, family.size)) * np.exp(rng.normal(size=family.size))
    for guard, name_ in zip(family.guards(3.0), ("upper", "velocity", "acceleration", "jerk"), strict=True):
        scaled = x * (guard.share / np.abs(x @ guard.rows.T).max(axis=1))[:, None]
        motion = family.trajectory(scaled, 3.0)
        bounds = proven_bounds(motion)
        assert np.all(getattr(bounds, name_) <= 1.0 + 1e-9)
        if name_ == "upper":
            assert np.all(bounds.lower >= -1.0 - 1e-9)
            assert np.abs(motion.at(np.linspace(0.0, 3.0, 5001))[0]).max() <= 1.0


@pytest.mark.parametrize("make", [lambda: FourierFamily(1), lambda: FourierFamily(5, 0), lambda: BSplineFamily(1)])
def test_families_too_small_are_refused(make: Callable[[], Family]) -> None:
    with pytest.raises(DataError, match="needs"):
        make()


# --- The TX-40 --------------------------------------------------------------------------------------------------------


def random_motion(seed: int) -> Trajectory:
    """Eleven random points as in P0, shrunk about the middle until the motion takes as long as the designed one."""
    limits, rng = tx40_limits(), np.random.default_rng(seed)
    robot = tx40().robot
    middle = 0.5 * (limits.lower + limits.upper)[:, None]

    def through(points: Array, share: float) -> TrapezoidalAcceleration:
        return TrapezoidalAcceleration(middle + share * (points - middle), limits.velocity, limits.acceleration)

    while True:
        points, low, high = random_points(robot, 11, rng), 1e-3, 1.0
        for _ in range(40):
            share = 0.5 * (low + high)
            low, high = (share, high) if through(points, share).duration < DURATION_S else (low, share)
        motion = through(points, low)
        q, v, a = motion.at(np.arange(0.0, DURATION_S, 2e-3))
        if np.all(np.abs(tx40().torque(q, v, a, truth_of(tx40()))).max(axis=1) <= limits.torque):
            return motion


@cache
def random_forecasts() -> tuple[Array, Array]:
    """Geometric mean of σ, and the condition number with scaled columns, of twenty random motions."""
    base = base_parameters(tx40())
    found = []
    for seed in range(20):
        motion = random_motion(seed)
        assert motion.duration == pytest.approx(DURATION_S, rel=1e-3)
        found.append(forecast(rows_of(tx40(), planned(tx40(), motion, RATE_HZ)), NOISE, base=base))
        assert not found[-1].unseen
    return np.array([f.geometric_mean for f in found]), np.array([f.condition_scaled for f in found])


@pytest.mark.slow
def test_tx40_shows_its_parameters_better_than_random_points() -> None:
    """The geometric mean of the σ of the 60 base parameters is at least 1.5 times below the median of twenty."""
    design = tx40_design()
    assert len(design.forecast.base) == 60
    assert not design.forecast.unseen
    assert np.median(random_forecasts()[0]) / design.forecast.geometric_mean > 1.5


@pytest.mark.slow
def test_tx40_is_better_conditioned_than_the_best_of_twenty() -> None:
    design = design_excitation(tx40(), tx40_limits(), DURATION_S, ConditionNumber(), noise=NOISE, starts=3)
    assert design.forecast.condition_scaled == pytest.approx(design.value, rel=1e-9)
    assert design.value < random_forecasts()[1].min()
    assert design.holds


def test_tx40_limits_hold_at_a_hundred_times_finer_sampling() -> None:
    design, limits = tx40_design(), tx40_limits()
    t = np.linspace(0.0, DURATION_S, int(100 * RATE_HZ * DURATION_S) + 1)
    q, v, a = design.trajectory.at(t)
    tau = tx40().torque(q, v, a, truth_of(tx40()))
    assert np.all(q >= limits.lower[:, None])
    assert np.all(q <= limits.upper[:, None])
    for seen, limit in ((v, limits.velocity), (a, limits.acceleration), (tau, limits.torque)):
        assert np.all(np.abs(seen) <= limit[:, None])
    assert design.holds
    told = {(row.joint, row.quantity): row for row in design.limits}
    assert {quantity for _, quantity in told} == {
        "lower position",
        "upper position",
        "velocity",
        "acceleration",
        "torque",
    }
    assert all(row.proven == (row.quantity != "torque") for row in design.limits)
    # the motion uses what it may: each joint meets a limit
    for joint in tx40().robot.axis_names:
        assert max(row.share for row in design.limits if row.joint == joint and "position" not in row.quantity) > 0.9
    np.testing.assert_allclose(
        [told[joint, "torque"].value for joint in tx40().robot.axis_names], np.abs(tau).max(axis=1), rtol=1e-3
    )


def test_value_is_that_of_the_simulated_log() -> None:
    """log det of the information that `observe` finds in a log of the motion, as the estimators see it."""
    design, base = tx40_design(), base_parameters(tx40())
    information = observe(rows_of(tx40(), simulated(tx40(), design.trajectory, 1)))
    r = stacked(information, base.kept, np.full(6, 1.0 / NOISE))[:, :-1]
    wanted = -0.5 * np.linalg.slogdet(r.T @ r)[1] / len(base)
    assert design.value == pytest.approx(wanted, abs=1e-9)
    assert 0.5 * np.linalg.slogdet(design.forecast.covariance)[1] / len(base) == pytest.approx(wanted, abs=1e-9)


def test_predicted_deviations_come_true() -> None:
    """σ of weighted least squares on a simulated log, and the spread of its estimates over many logs."""
    design, model = tx40_design(), tx40()
    result = identify(rows_of(model, simulated(model, design.trajectory, 7)), WLS())
    assert result.base.names == design.forecast.base.names
    np.testing.assert_allclose(result.std_classical, design.forecast.std, rtol=0.15)
    # 400 logs: the standard deviation of a standard deviation is 3.5 %
    w = model.regressor(*design.trajectory.at(np.arange(501) / RATE_HZ))[:, list(result.base.kept)]
    stacked_rows = w.transpose(0, 2, 1).reshape(-1, len(result.base))
    noise = NOISE * np.random.default_rng(0).standard_normal((len(stacked_rows), 400))
    errors = np.linalg.lstsq(stacked_rows, noise, rcond=None)[0]
    np.testing.assert_allclose(errors.std(axis=1), design.forecast.std, rtol=0.15)


@pytest.mark.slow
def test_predicted_deviations_come_true_in_a_closed_loop() -> None:
    """The motion as a cascade tracks it, low-passed and decimated: its σ from the plan and the noise of another log."""
    model, rate = smoothed(tx40(), 0.05), 500.0
    plant = Plant(model, truth_of(model))

    def observed(run: Samples) -> Problem:
        return Problem(model, [run], lowpass_hz=20.0, decimate=10)

    def tracked(path: Trajectory, seed: int) -> Samples:
        reference = Reference(*path.at(np.arange(int(path.duration * rate) + 1) / rate))
        made = simulate(plant, Cascade.tuned(plant), reference, rate)
        tau = made.tau + NOISE * np.random.default_rng(seed).standard_normal(made.tau.shape)
        return Samples.from_arrays("run", made.joints, rate, made.q, made.v, made.a, tau)

    path = tx40_design().trajectory
    other = random_fourier(model.robot, 5, 0.1, DURATION_S, np.random.default_rng(2))
    noise = joint_deviations(observe(observed(tracked(other, 1))), base_parameters(model))
    told = forecast(observed(planned(model, path, rate)), noise)
    found = identify(observed(tracked(path, 2)), WLS())
    assert found.base.names == told.base.names
    np.testing.assert_allclose(found.std_classical, told.std, rtol=0.15)


@pytest.mark.slow
def test_tx40_is_the_same_for_the_same_seed() -> None:
    few = {"noise": NOISE, "starts": 2, "iterations": 25}
    one, two = (design_excitation(tx40(), tx40_limits(), DURATION_S, **few) for _ in range(2))  # type: ignore[arg-type]
    assert one.trace == two.trace
    assert one.value == two.value
    np.testing.assert_array_equal(one.trajectory.at([1.0, 3.3]), two.trajectory.at([1.0, 3.3]))


@pytest.mark.slow
def test_same_seed_same_motion() -> None:
    one, two, other = small(seed=3), small(seed=3), small(seed=4)
    np.testing.assert_array_equal(one.trajectory.at(np.linspace(0, 5, 99)), two.trajectory.at(np.linspace(0, 5, 99)))
    assert one.value == two.value
    assert one.trace == two.trace
    assert other.trace != one.trace


# --- Design -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_holds_every_limit(name: str) -> None:
    model = model_of(arm(3))
    limits = MotionLimits.of(model.robot, 12.0, 150.0)
    limits = replace(limits, torque=np.array([60.0, 90.0, 25.0]))
    design = small(family=FAMILIES[name], limits=limits)
    assert design.holds
    assert {row.quantity for row in design.limits} >= {"jerk", "torque"}
    assert all(len(trace) > 10 for trace in design.trace)
    # it was worth it: the first step's objective is far behind
    assert design.value < min(trace[0] for trace in design.trace) - 0.2


def test_a_slide_and_no_torque_limit() -> None:
    model = model_of(slider())
    design = design_excitation(model, MotionLimits.of(model.robot, 8.0), 4.0, starts=2)
    assert design.holds
    assert "torque" not in {row.quantity for row in design.limits}
    assert "give the noise" in design.history[2]


@pytest.mark.slow
def test_chosen_parameters_come_out_better() -> None:
    """A design for two parameters shows them better than the one for all, and all worse."""
    names = ["link3.MY", "joint3.Fv"]
    whole, part = small(starts=3), small(criterion=DOptimal(names), starts=3)
    index = [whole.forecast.base.names.index(name) for name in names]
    assert np.all(part.forecast.std[index] < whole.forecast.std[index])
    assert part.forecast.geometric_mean > whole.forecast.geometric_mean


@pytest.mark.slow
def test_targets_are_met_or_told() -> None:
    whole = small()
    base, value = whole.forecast.base, np.abs(whole.forecast.value)
    k = base.names.index("link3.MY")
    criterion = DeviationTargets({"link3.MY": 0.9 * float(whole.forecast.std[k] / value[k])})
    design = small(criterion=criterion)
    assert design.value < 1.0
    assert design.forecast.relative[k] / criterion.relative["link3.MY"] == pytest.approx(design.value, rel=1e-9)


def test_what_is_known_already_changes_what_comes_next() -> None:
    """After a long slow log, which shows Coulomb friction and offset, the next motion is made for the rest."""
    model = model_of(arm(1))
    limits, t = MotionLimits.of(model.robot, 20.0), np.arange(0.0, 100.0, 1 / RATE_HZ)
    q, v, a = (x[None] for x in (1.5 * np.sin(0.5 * t), 0.75 * np.cos(0.5 * t), -0.375 * np.sin(0.5 * t)))
    log = Samples.from_arrays("slow", model.robot.axis_names, RATE_HZ, q, v, a, model.torque(q, v, a, truth_of(model)))
    given = observe(rows_of(model, log))
    alone = design_excitation(model, limits, 5.0, noise=NOISE, starts=4)
    after = design_excitation(model, limits, 5.0, noise=NOISE, starts=4, given=given)
    told = forecast(rows_of(model, planned(model, alone.trajectory, RATE_HZ)), NOISE, given)
    assert np.all(told.std < alone.forecast.std)
    assert after.value < 0.5 * np.linalg.slogdet(told.covariance)[1] / len(told.base) - 0.03
    assert after.history[-1] == "with prior knowledge from logs slow, σ of their rows as given"
    # its forecast is that of both logs together
    both = forecast(rows_of(model, log, planned(model, after.trajectory, RATE_HZ)), NOISE)
    np.testing.assert_allclose(after.forecast.std, both.std, rtol=1e-9)


@pytest.mark.slow
def test_noise_of_an_earlier_log() -> None:
    model = model_of(arm(3))
    given = observe(rows_of(model, simulated(model, small().trajectory, 2)))
    np.testing.assert_allclose(joint_deviations(given, base_parameters(model)), NOISE, rtol=0.15)
    found = known(given, base_parameters(model))
    np.testing.assert_allclose(found.noise / found.inflation, NOISE, rtol=0.15)
    design = small(given=given, noise=None)
    np.testing.assert_array_equal(design.forecast.noise, found.noise)
    assert design.history[2] == "σ of the rows from the earlier logs"
    assert design.history[-1] == f"with prior knowledge from {found.source}"
    # a result of the same logs leads to as good a motion; its σ of the rows are those of the joint fit
    again = small(given=identify(rows_of(model, simulated(model, small().trajectory, 2)), WLS()), noise=None)
    assert again.forecast.geometric_mean == pytest.approx(design.forecast.geometric_mean, rel=0.05)


def test_loaded_and_unloaded_runs_are_designed_together() -> None:
    tool = Payload("tool", pose=Pose(position=np.array([0.0, 0.05, 0.1])), known={"M": 2.0})
    model = Model(arm(3), named_terms(("rotor", "viscous", "coulomb", "offset")), payloads=[tool])
    limits = MotionLimits.of(model.robot, 20.0)
    design = design_excitation(model, limits, 5.0, loads=("none", "tool"), noise=NOISE, starts=2)
    assert len(design.trajectories) == 2
    assert design.holds
    assert not design.forecast.unseen
    assert any(name.startswith("tool.") for name in design.forecast.base.names)
    runs = [
        planned(model, path, RATE_HZ, load, load) for path, load in zip(design.trajectories, design.loads, strict=True)
    ]
    told = forecast(rows_of(model, *runs), NOISE)
    np.testing.assert_allclose(told.std, design.forecast.std, rtol=1e-9)
    assert 0.5 * np.linalg.slogdet(told.covariance)[1] / len(told.base) == pytest.approx(design.value, abs=1e-9)
    with pytest.raises(DataError, match="2 motions"):
        _ = design.trajectory
    # without the run that carries it the payload is not seen, and that is the motion's fault
    alone = forecast(rows_of(model, runs[0]), NOISE)
    assert {name.split(".")[0] for name in alone.unseen} == {"tool"}


def test_progress_counts_the_starts() -> None:
    seen: list[tuple[int, int]] = []
    small(progress=lambda what, done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]


# --- Forecasts --------------------------------------------------------------------------------------------------------


def test_never_and_not_by_this_motion_are_told_apart() -> None:
    """A robot whose first axis is vertical never shows link1.M; a motion of joint 1 alone does not show joint2.Fv."""
    model = model_of(arm(3))
    t = np.arange(0.0, 5.0, 1 / RATE_HZ)
    q, v, a = np.zeros((3, 3, len(t)))
    q[0], v[0], a[0] = np.sin(t), np.cos(t), -np.sin(t)
    run = Samples.from_arrays("one joint", model.robot.axis_names, RATE_HZ, q, v, a, np.tile(t, (3, 1)))
    told = forecast(rows_of(model, run), NOISE)
    assert "link1.M" in told.never
    assert "joint2.Fv" in told.unseen
    assert "joint1.Fv" not in told.unseen
    assert np.isnan(told.std[told.base.names.index("joint2.Fv")])
    whole = small().forecast
    assert whole.never == told.never
    assert not whole.unseen
    assert "link3.M" in whole.grouped
    assert "link3.M" not in whole.base.names
    assert set(whole.never).isdisjoint(whole.grouped)


def test_forecast_with_filters_and_a_row_mask() -> None:
    """The forecast uses the problem's own rows: fewer of them, larger σ, as identified from the same rows."""
    model = model_of(arm(3))
    path = small().trajectory
    problem = Problem(model, [simulated(model, path, 5)], decimate=2)
    result = identify(problem, WLS())
    told = forecast(Problem(model, [planned(model, path, RATE_HZ)], decimate=2), NOISE)
    np.testing.assert_allclose(told.std, result.std_classical, rtol=0.15)
    assert told.geometric_mean > 1.3 * small().forecast.geometric_mean


# --- Errors -----------------------------------------------------------------------------------------------------------


def limits_with(**changes: object) -> MotionLimits:
    return replace(MotionLimits.of(arm(3), 20.0), **changes)  # type: ignore[arg-type]


def test_limits_that_leave_no_room_are_named() -> None:
    with pytest.raises(
        DataError, match=r"Position limits of joint2: from 0\.5 to 0\.501 rad leave 0\.001 rad, 0\.001 "
    ):
        small(limits=limits_with(lower=np.array([-1.0, 0.5, -1.0]), upper=np.array([1.0, 0.501, 1.0])))
    with pytest.raises(DataError, match=r"Velocity limit of joint3: 0\.015 rad/s .* 0\.005 rad/s short .*1\.333 times"):
        small(limits=limits_with(velocity=np.array([1.0, 1.0, 0.015])))


def test_too_short_a_time_is_named_with_the_limit_it_meets() -> None:
    with pytest.raises(DataError, match=r"Acceleration limit of joint1: 0\.1 rad/s² .*in 0\.4 s.* give 0\.8 s or more"):
        small(duration=0.4, rate_hz=1000.0, limits=limits_with(acceleration=np.full(3, 0.1)))
    with pytest.raises(DataError, match=r"Jerk limit of joint1: 1 rad/s³ .* give 1\.131 s or more"):
        small(duration=0.8, rate_hz=1000.0, limits=limits_with(jerk=np.full(3, 1.0)))
    with pytest.raises(
        DataError, match=r"duration of 0\.1 s gives 15 rows at 50 Hz for \d+ base parameters, \d+ too few"
    ):
        small(duration=0.1)


def test_torque_limits_that_cannot_hold_the_robot_are_named() -> None:
    """Coulomb friction alone takes 4, 2 and 4/3 N·m: 1 N·m at joint 2 is too little, and by how much is told."""
    with pytest.raises(
        DataError, match=r"Torque limit of joint2: 1 N·m.* needs [\d.]+ N·m for slow motion .* N·m too much"
    ):
        small(limits=limits_with(torque=np.array([100.0, 1.0, 100.0])))
    with pytest.raises(DataError, match="Torque limit of joint1: -1"):
        small(limits=limits_with(torque=np.array([-1.0, 1.0, 100.0])))
    with pytest.raises(DataError, match="Torque limits need nominal values"):
        design_excitation(model_of(silent(arm(3))), limits_with(torque=np.full(3, 50.0)), 5.0)


def test_other_mistakes_are_named() -> None:
    with pytest.raises(DataError, match=r"Unknown load case 'tol'.*Valid: none"):
        small(loads=("tol",))
    with pytest.raises(EstimationError, match=r"link1\.M cannot be identified by any motion: it has no effect"):
        small(criterion=DOptimal(["link1.M"]))
    with pytest.raises(
        EstimationError, match=r"link3\.M cannot be identified by any motion: it is identifiable only as part of"
    ):
        small(criterion=DOptimal(["link3.M"]))
    with pytest.raises(EstimationError, match=r"Unknown base parameter 'joint1\.Fw'\. Did you mean 'joint1\.Fv'"):
        small(criterion=DOptimal(["joint1.Fw"]))
    with pytest.raises(DataError, match="noise must be one positive"):
        small(noise=0.0)
    robot = read_robot("fivebar")
    with pytest.raises(ModelError, match="has loops"):
        design_excitation(Model(robot), MotionLimits.of(robot, 5.0), 5.0)
    unlimited = replace(arm(3).joints[0], limits=Limits())
    assert MotionLimits.of(replace(arm(3), joints=(unlimited, *arm(3).joints[1:])), 5.0).upper[0] == 0.95 * np.pi
