"""The twin tells bias, coverage and detectable size as they are; forward validation tells a robot from another."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.errors import DataError, EstimationError, ModelError
from steelyard.estimators import MAP, WLS, Essential, Estimate, Estimator, Gains
from steelyard.estimators.simulated.base import Begin, SimulatingEstimator
from steelyard.estimators.simulated.didim import DIDIM
from steelyard.estimators.simulated.iv import IV
from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import BaseParameters
from steelyard.model.model import Model
from steelyard.model.terms import DEFAULT_TERMS, named_terms
from steelyard.project.papers.setups.kr270 import kr270, logged, payload, runs
from steelyard.regression.information import Information
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem
from steelyard.signals.prepare import Preparation, prepare
from steelyard.signals.samples import Commanded, Samples
from steelyard.simulation.closed_loop import Reference, simulate
from steelyard.simulation.experiment import experiment_of
from steelyard.simulation.plant import Plant
from steelyard.validation.forward import forward_validation
from steelyard.validation.twin import FEWEST_RUNS, PILOTS, Twin, TwinParameter, twin
from steelyard.validation.twin_noise import noise_like
from testbed.command import Run
from testbed.simulated import arm, channels_of, coloured, model_of, motion_of, recording_of, samples_of, truth_of

CASCADE = {"kind": "cascade", "position_hz": 8.0, "velocity_hz": 25.0}


def noisy_problem(memory: float = 0.9, size: float = 0.5, seed: int = 5) -> Problem:
    """A two-joint arm whose efforts carry coloured noise; exact derivatives."""
    model = model_of(arm(2))
    run = samples_of(model, 6000)
    (piece,) = run.open()
    effort = piece.effort + size * coloured(np.random.default_rng(seed), piece.effort.shape, memory)
    made = Samples.from_arrays("run", run.joints, run.rate, piece.q, piece.v, piece.a, effort)
    return Problem(model, [made], lowpass_hz=10.0, decimate=8)


def logged_problem(noise: float, cutoff: float, step: float = 0.0, seed: int = 7) -> Problem:
    """The same arm through a log of positions with noise [rad] or rounding, filtered at `cutoff` [Hz]."""
    model = model_of(arm(2))
    rng = np.random.default_rng(seed)
    q, v, a, *_ = motion_of(model.robot, 6000, 200.0, 1)
    effort = model.torque(q, v, a, truth_of(model)) + 0.1 * rng.standard_normal(q.shape)
    q = q + noise * rng.standard_normal(q.shape)
    q = np.round(q / step) * step if step else q
    log = {"t": np.arange(6000) / 200.0}
    for j, name in enumerate(model.robot.joint_names):
        log |= {f"q_{name}": q[j], f"tau_{name}": effort[j]}
    run = prepare(recording_of(log), model.robot, channels_of(model.robot), Preparation(cutoff_hz=cutoff))
    return Problem(model, [run], lowpass_hz=min(cutoff, 40.0), decimate=2)


def named(found: Twin, name: str) -> TwinParameter:
    return next(one for one in found.parameters if one.name == name)


# --- Noise ------------------------------------------------------------------------------------------------------------


def test_noise_alike_has_size_colour_and_correlation_of_the_residual() -> None:
    rng = np.random.default_rng(1)
    shared = coloured(rng, (1, 20000), 0.95)
    x = np.concatenate([shared, 0.5 * shared + 0.2 * rng.standard_normal((1, 20000))])
    made = [noise_like(x, rng) for _ in range(8)]
    assert np.allclose(np.mean([np.cov(m) for m in made], axis=0), np.cov(x), rtol=0.1)
    lag = [np.mean(m[:, 20:] * m[:, :-20], axis=1) for m in made]
    assert np.allclose(np.mean(lag, axis=0), np.mean(x[:, 20:] * x[:, :-20], axis=1), atol=0.08)
    assert abs(np.corrcoef(made[0][0], made[1][0])[0, 1]) < 0.1


# --- What the twin says -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_sound_error_bars_are_found_sound() -> None:
    problem = noisy_problem()
    result = identify(problem, WLS())
    found = twin(result, problem, runs=40, seed=1)
    assert 0.88 <= found.coverage <= 1.0
    assert 0.6 < found.sigma_ratio < 1.3
    assert not [one for one in found.findings if one.severity == "warning"]
    assert found.twin_relative_error == pytest.approx(found.relative_error, rel=0.15)
    assert "tracked exactly" in found.motion
    viscous = named(found, "joint1.Fv")
    assert viscous.truth == result.value[result.base.names.index("joint1.Fv")]
    assert abs(viscous.bias) < 4.0 * viscous.bias_error
    # 2.02 + 0.85 spreads of the difference of two experiments
    assert viscous.detectable == pytest.approx(np.sqrt(2.0) * 2.874 * viscous.spread, rel=1e-3)


@pytest.mark.slow
def test_error_bars_that_take_coloured_noise_for_white_are_found_out() -> None:
    problem = noisy_problem(memory=0.98, size=1.0)

    result = identify(problem, WLS())
    found = twin(result, problem, Naive(), runs=20)
    assert found.coverage < 0.85
    assert found.sigma_ratio > 1.3
    assert any(one.code == "poor-coverage" for one in found.findings)


@dataclass(frozen=True)
class Naive(Estimator):
    """Weighted least squares with its classical error bars."""

    name: ClassVar[str] = "naive"

    def estimate(
        self, problem: Problem | None, base: BaseParameters, information: Information, progress: Progress | None = None
    ) -> Estimate:
        found = WLS().estimate(None, base, information)
        return replace(found, covariance=found.covariance_classical, clusters=0)


def test_noise_is_as_large_as_leaves_the_residual_of_the_fit() -> None:
    whole = noisy_problem(memory=0.98)
    (piece,) = whole.runs[0].open()
    q, v, a, effort = (x[:, :1500] for x in piece[2:6])
    run = Samples.from_arrays("run", whole.runs[0].joints, 200.0, q, v, a, effort)
    problem = replace(whole, runs=[run])
    found = twin(identify(problem, WLS()), problem, WLS(), runs=10)
    # a fit absorbs a tenth of noise as slow as this
    assert found.twin_relative_error == pytest.approx(found.relative_error, rel=0.07)


@pytest.mark.slow
@pytest.mark.parametrize("memory", [0.9, 0.98])
def test_the_spread_of_twins_is_that_of_repeated_experiments(memory: float) -> None:
    """What a fit absorbs of slow noise is drawn again: with the residual alone the median was 0.85."""
    real = np.array([identify(noisy_problem(memory, seed=seed), WLS()).value for seed in range(100, 220)])
    spreads = []
    for seed in range(8):
        problem = noisy_problem(memory, seed=seed)
        spreads.append([one.spread for one in twin(identify(problem, WLS()), problem, runs=8, seed=seed).parameters])
    ratio = np.sqrt(np.mean(np.square(spreads), axis=0)) / real.std(axis=0, ddof=1)
    assert 0.92 < np.median(ratio) < 1.2


@pytest.mark.slow
def test_noise_of_positions_that_filters_let_through_biases_the_twins_too() -> None:
    wide, narrow = logged_problem(4e-4, 60.0), logged_problem(2e-5, 20.0)
    biased = twin(identify(wide, WLS()), wide, WLS(), runs=10)
    sound = twin(identify(narrow, WLS()), narrow, WLS(), runs=10)
    told = {one.code: one.message for one in biased.findings}
    assert "link2.YY" in told["biased-estimate"]
    assert "link2.YY" in told["poor-coverage"]
    assert named(biased, "link2.YY").bias < 0.0  # noise in the accelerations shrinks inertias
    assert not sound.findings
    assert not any(one.is_biased for one in sound.parameters)


@pytest.mark.slow
def test_rounding_is_that_of_the_log() -> None:
    problem = logged_problem(0.0, 20.0, step=1e-3)
    (run,) = problem.runs
    assert run.position_step == pytest.approx([1e-3, 1e-3], rel=1e-3)
    seen: list[Array] = []

    def derive(q: Array, v: Array | None) -> tuple[Array, Array, Array]:
        seen.append(q)
        assert v is None
        assert run.derive is not None
        return run.derive(q, v)

    watched = replace(problem, runs=[replace(run, derive=derive)])
    twin(identify(problem, WLS()), watched, WLS(), runs=FEWEST_RUNS)
    steps = seen[-1] / run.position_step[:, None]
    assert np.allclose(steps, np.round(steps), atol=1e-6)


@pytest.mark.slow
def test_late_efforts_are_late_in_the_twins() -> None:
    problem = noisy_problem(size=0.05)
    (piece,) = problem.runs[0].open()
    late = np.roll(piece.effort, 4, axis=1)
    moved = Samples.from_arrays("run", problem.runs[0].joints, 200.0, piece.q, piece.v, piece.a, late)
    told = replace(problem, runs=[moved], delay=(0.02, 0.02))
    found = twin(identify(told, WLS()), told, WLS(), runs=10)
    assert not any(one.code == "noise-mismatch" for one in found.findings)
    assert found.twin_relative_error < 2.0 * found.relative_error
    assert sum(one.is_biased for one in found.parameters) == 0


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [MAP(), Essential()], ids=lambda e: e.name)
def test_other_estimators(estimator: Estimator) -> None:
    problem = noisy_problem()
    result = identify(problem, estimator)
    found = twin(result, problem, runs=6)
    assert found.estimator == estimator.name
    assert not {one.name for one in found.parameters} & set(result.cancelled)
    assert len(found.parameters) == len(result.base) - len(result.cancelled)
    assert found.coverage > 0.7


@pytest.mark.slow
def test_gains_are_parameters_too() -> None:
    model = kr270([payload()])
    problem = Problem(model, logged(runs(), model.robot, noise=0.02), motor_rows=True)
    result = identify(problem, Gains())
    found = twin(result, problem, Gains(), runs=6)
    gains = [one for one in found.parameters if one.name.endswith(".gain")]
    assert len(gains) == model.robot.dof
    assert result.gains is not None
    assert [one.truth for one in gains] == pytest.approx(result.gains.value.tolist())
    assert all(abs(one.bias) < 0.05 * abs(one.truth) for one in gains)
    assert not any(one.code == "noise-mismatch" for one in found.findings)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_twins() -> None:
    problem = noisy_problem()
    result = identify(problem, WLS())
    one, other, third = (twin(result, problem, runs=5, seed=s) for s in (3, 3, 4))
    assert one.parameters == other.parameters
    assert one.parameters != third.parameters


def test_what_a_twin_refuses() -> None:
    problem = noisy_problem()
    result = identify(problem, WLS())
    with pytest.raises(EstimationError, match="at least 5 runs"):
        twin(result, problem, runs=2)
    other = Problem(model_of(arm(3)), [samples_of(model_of(arm(3)))])
    with pytest.raises(ModelError, match="different columns"):
        twin(result, other)


# --- With an experiment -----------------------------------------------------------------------------------------------


def driven_problem(seed: int = 1, name: str = "run", size: float = 0.3) -> Problem:
    """The arm under a cascade, logged with what was commanded."""
    robot = arm(2)
    model = Model(robot, named_terms(DEFAULT_TERMS, sign_width=0.2))
    wanted = Reference(*motion_of(robot, 3000, 250.0, seed)[:3])
    plant = Plant(model, truth_of(model))
    run = Samples.from_arrays(name, robot.joint_names, 250.0, wanted.q, wanted.v, wanted.a, wanted.q)
    run = replace(run, reference=lambda: (Commanded(wanted.q, wanted.v, wanted.a),))
    experiment = experiment_of(model, [run], CASCADE)
    made = simulate(plant, experiment.control(plant), wanted, 250.0)
    noise = size * np.random.default_rng(seed + 50).standard_normal(made.tau.shape)
    log = Samples.from_arrays(name, robot.joint_names, 250.0, made.q, made.v, made.a, made.tau + noise)
    log = replace(log, reference=run.reference)
    return Problem(model, [log], 10.0, 10, 0.02, experiment=experiment_of(model, [log], CASCADE))


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [IV(), DIDIM()], ids=lambda e: e.name)
def test_twins_of_estimators_that_simulate_are_driven_by_the_reference(estimator: IV | DIDIM) -> None:
    problem = driven_problem()
    result = identify(problem, estimator)
    found = twin(result, problem, estimator, runs=5)
    assert "simulated with their references" in found.motion
    assert found.failed == 0
    assert found.coverage > 0.7
    assert sum(one.is_biased for one in found.parameters) == 0


@pytest.mark.slow
def test_twins_of_a_measured_reference_follow_their_own_measurement() -> None:
    problem = driven_problem()
    experiment = experiment_of(problem.model, problem.runs, CASCADE, reference="measured")
    problem = replace(problem, experiment=experiment)
    (run,) = problem.runs
    (piece,) = run.open()
    references: list[Array] = []

    def derive(q: Array, v: Array | None) -> tuple[Array, Array, Array]:
        references.append(q)
        return q, piece.v, piece.a

    watched = replace(run, derive=derive, position_noise=np.full(2, 1e-4))
    told = replace(problem, runs=[watched])
    result, seen = identify(problem, WLS()), SeenReferences()
    twin(result, told, seen, runs=FEWEST_RUNS)
    assert len(seen.q) == FEWEST_RUNS + PILOTS
    for given, drawn in zip(seen.q, references, strict=True):
        assert np.array_equal(given, drawn)


@dataclass(frozen=True)
class SeenReferences(SimulatingEstimator):
    """Weighted least squares that looks at the references it is given."""

    q: list[Array] = field(default_factory=list)
    name: ClassVar[str] = "seen"

    def _from(
        self,
        begin: Begin,
        problem: Problem,
        base: BaseParameters,
        information: Information,
        progress: Progress | None,
    ) -> Estimate:
        assert problem.experiment is not None
        (reference,) = problem.experiment.references["run"]
        self.q.append(reference.q)
        return begin.plain


def test_forward_validation_tells_the_right_robot_from_a_wrong_one() -> None:
    fitted, unseen = driven_problem(), driven_problem(seed=9, name="unseen")
    result = identify(fitted, WLS())
    right = forward_validation(result, unseen)
    wrong = forward_validation(_scaled(result, 1.5), unseen)
    for name, one in right.joints.items():
        assert one.position_rms < 1e-3
        assert one.position_rms <= one.position_max
        assert one.torque_relative < 0.03
        assert wrong.joints[name].torque_rms > 3.0 * one.torque_rms
    assert right.rows > 200
    assert "unseen references" in right.verdict


def _scaled(result: Identification, factor: float) -> Identification:
    return replace(result, value=factor * result.value)


def test_forward_validation_needs_an_experiment() -> None:
    problem = driven_problem()
    result = identify(problem, WLS())
    with pytest.raises(DataError, match=r"needs an experiment.*\[controller\]"):
        forward_validation(result, replace(problem, experiment=None))


# --- The command ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_reads_the_result_and_its_logs_again(steelyard: Run, project: Path) -> None:
    assert steelyard("identify", project).code == 0
    folder = project.with_name("project-run")
    done = steelyard("twin", folder, "--runs", "5", "--json")
    assert done.code == 0
    told = done.document
    assert told["schema"] == "steelyard.twin/1"
    assert told["runs"] == 5
    assert len(told["parameters"]) > 10
    assert told["verdict"] in done.err
    assert 0.7 < told["coverage"] <= 1.0
    log = project.with_name("log.csv")
    log.write_text(log.read_text("utf-8") + "\n", "utf-8")
    refused = steelyard("twin", folder, "--runs", "5")
    assert refused.code == 2
    assert "changed since the fit" in refused.err
