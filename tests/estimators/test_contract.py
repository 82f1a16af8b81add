"""The battery every estimator passes: truth, order, purity, honest findings on poor data, disk, and coverage."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from steelyard._arrays import Array
from steelyard.cli import app
from steelyard.errors import SteelyardError
from steelyard.estimators import ESTIMATORS, LS, WLS, Estimator, named_estimator
from steelyard.estimators.estimator import needs
from steelyard.findings import Finding
from steelyard.formats.robots import read_robot
from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.model.model import Model
from steelyard.model.parameters import INERTIAL, inertial_vector
from steelyard.model.payload import Payload
from steelyard.model.robot import Robot
from steelyard.model.terms import named_terms
from steelyard.project.documents import text
from steelyard.project.output_folder import RESULT, write_folder
from steelyard.project.result_file import document, read_result
from steelyard.regression.information import Information
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from steelyard.simulation.closed_loop import Reference, simulate
from steelyard.simulation.controllers import Cascade
from steelyard.simulation.experiment import Experiment
from steelyard.simulation.plant import Plant
from testbed.closed_loop import WIDTH
from testbed.simulated import arm, coloured, distance, forked, model_of, motion_of, samples_of, slider, truth_of
from testbed.trees import reordered

FILTERS = {"lowpass_hz": 8.0, "decimate": 6}
SLOW = {"output-error"}  # a simulation per parameter and iteration
pytestmark = pytest.mark.parametrize(
    "estimator",
    [pytest.param(kind(), id=name, marks=[pytest.mark.slow] * (name in SLOW)) for name, kind in ESTIMATORS.items()],
)


def tx40() -> Model:
    robot = read_robot("tx40")
    assert robot.terms is not None
    return Model(robot, named_terms(robot.terms))


MODELS = {
    "one joint": lambda: model_of(arm(1)),
    "three joints": lambda: model_of(arm(3)),
    "a tree": lambda: model_of(forked()),
    "a slide": lambda: model_of(slider()),
    "no terms": lambda: Model(arm(2), ()),
    "tx40 with coupled motors": tx40,
}


@cache
def made(kind: str) -> tuple[Model, BaseParameters]:
    model = MODELS[kind]()
    return model, base_parameters(model)


@cache
def noisy_problem(joints: int = 3) -> Problem:
    model = model_of(arm(joints))
    runs = [samples_of(model, 3000, seed=seed, noise=0.5, name=f"run{seed}") for seed in (1, 2)]
    return Problem(model, runs, **FILTERS)


# Some motors are strong, some are wired the other way round; a body of known weight tells.
GAINS = (12.0, -0.4, 250.0, 3.0, -7.0, 0.02)
_BODY = inertial_vector(3.0, np.array([0.15, -0.1, 0.2]), 0.02 * np.diag([1.0, 1.2, 1.4]))
WEIGHT = {symbol: float(x) for symbol, x in zip(INERTIAL, _BODY, strict=True)}


def suited(estimator: Estimator, problem: Problem) -> Problem:
    """The problem; for an estimator of drive gains, with efforts as currents and a known weight in half of each run.

    For one that simulates, the motion of each run is the reference of a controller.
    """
    if needs(estimator, "simulation"):
        return driven(problem)
    if not needs(estimator, "gains"):
        return problem
    last = max(link.name for link in problem.model.robot.links)
    model = replace(problem.model, payloads=[Payload("weight", last, known=WEIGHT)])
    c, gains = model.robot.motor_map.T, np.array(GAINS[: model.robot.dof])[:, None]
    runs = []
    for run in problem.runs:
        (piece,) = run.open()
        half = piece.q.shape[1] // 2
        for load, part in (("none", slice(half)), ("weight", slice(half, None))):
            q, v, a, effort = (x[:, part] for x in piece[2:6])
            torque = effort + model.torque(q, v, a, model.layout.known, load=load)
            current = c @ (np.linalg.solve(c, torque) / gains)
            if not effort.any():  # as the log of a dead channel would be
                current = effort
            silent = np.ptp(piece.effort, axis=1) == 0.0
            current[silent] = 0.0
            runs.append(Samples.from_arrays(f"{run.name} {load}", run.joints, run.rate, q, v, a, current, load=load))
    return replace(problem, model=model, runs=runs, motor_rows=True)


def driven(problem: Problem) -> Problem:
    """The problem with runs made by a controller that follows their motion; what disturbed the efforts still does."""
    old = problem.model
    # sign(v) cannot be simulated
    model = replace(old, terms=named_terms([term.name for term in old.terms], sign_width=WIDTH))
    plant = Plant(model, truth_of(model))
    pieces = [piece for run in problem.runs for piece in run.open()]
    # positions that do not depend on the order of the joints, as those that it would draw itself do
    places = np.concatenate([piece.q[:, ::50] for piece in pieces], axis=1)

    def cascade(any_plant: Plant) -> Cascade:
        return Cascade.tuned(any_plant, position_hz=3.0, velocity_hz=10.0, q=places)

    runs, references = [], {}
    for run, piece in zip(problem.runs, pieces, strict=True):
        references[run.name] = [Reference(piece.q, piece.v, piece.a)]
        made = simulate(plant, cascade(plant), references[run.name][0], run.rate)
        silent = np.ptp(piece.effort, axis=1, keepdims=True) == 0.0
        noise = piece.effort - old.torque(piece.q, piece.v, piece.a, truth_of(old))
        effort = np.where(silent, piece.effort, made.tau + noise)
        runs.append(Samples.from_arrays(run.name, run.joints, run.rate, made.q, made.v, made.a, effort))
    return replace(problem, model=model, runs=runs, experiment=Experiment(references, cascade))


def truth_in(problem: Problem, base: BaseParameters) -> Array:
    return base.map @ truth_of(problem.model)


def given_arrays(model: Model, q: Array, v: Array, a: Array, effort: Array | None = None) -> Samples:
    tau = model.torque(q, v, a, truth_of(model)) if effort is None else effort
    return Samples.from_arrays("run", model.robot.joint_names, 200.0, q, v, a, tau)


def codes(findings: Sequence[Finding]) -> set[str]:
    return {finding.code for finding in findings}


# --- Truth ------------------------------------------------------------------------------------------------------------


@cache
def quiet(kind: str, filtered: bool) -> dict:
    """A problem without noise and its information."""
    model, _ = made(kind)
    runs = [samples_of(model, 3000, seed=seed, name=f"run{seed}") for seed in (1, 2)]
    problem = Problem(model, runs, rest=0.01, **(FILTERS if filtered else {}))
    return {"problem": problem, "information": observe(problem)}


@pytest.mark.parametrize("filtered", [False, True], ids=["every sample", "filtered and decimated"])
@pytest.mark.parametrize("kind", MODELS)
def test_recovers_the_truth_without_noise(estimator: Estimator, kind: str, filtered: bool) -> None:
    if estimator.name == "ridge":
        pytest.skip("ridge pulls to zero whatever the noise")
    if needs(estimator, "simulation") and kind.startswith("tx40"):
        pytest.skip("parameters that are truly zero have no relative change to converge by without noise")
    if estimator.name in SLOW and kind in ("three joints", "a tree"):
        pytest.skip(f"{estimator.name} takes seconds for so many parameters")
    known = quiet(kind, filtered)
    problem = suited(estimator, known["problem"])
    result = identify(problem, estimator, known["information"] if not estimator.needs else None)
    truth = truth_in(problem, result.base)
    # tls puts parameters beside gains that are 1e4 times smaller, unscaled, as published; consistent-gains searches
    close = 1e-7 if estimator.name in ("tls", "consistent-gains") else 1e-8
    assert np.max(np.abs(result.value - truth) / np.maximum(np.abs(truth), 1e-2)) < close
    if result.gains is not None:
        np.testing.assert_allclose(result.gains.value, GAINS[: len(result.gains.joints)], rtol=1e-8)
    assert result.relative_error.total < 1e-10
    # base values do not tell all masses: some of the standard set may be far from the file's
    harmless = {"tls-scaling", "mass-implausible"}
    if needs(estimator, "simulation"):
        harmless.add("simulation-mismatch")  # without noise both residuals are rounding errors
    if estimator.name == "auto":
        harmless.add("negative-drive-parameter")  # friction of any sign: one that is truly zero is −5e-14 N·m
    assert codes([finding for finding in result.findings if finding.severity != "info"]) <= harmless


def unbiased(estimator: Estimator) -> None:
    """Skip for estimators that trade bias for variance on purpose: a prior pulls, a cancelled parameter is zero."""
    if needs(estimator, "simulation"):
        return
    if estimator.name not in ("ls", "wls", "rls", "huber", "gains", "tls-mixed"):
        pytest.skip(f"{estimator.name} is biased on purpose; its own tests say by how much")


def test_covers_what_the_nominal_model_does_not_know(estimator: Estimator) -> None:
    unbiased(estimator)
    problem = suited(estimator, noisy_problem())
    result = identify(problem, estimator)
    assert result.estimator == estimator.name
    assert result.nominal is not None
    assert result.relative_error.total < result.nominal.total
    low, high = result.interval(0.95)
    truth = truth_in(problem, result.base)
    assert np.mean((truth >= low) & (truth <= high)) > 0.8
    assert np.all(result.std > 0)


# --- Purity -----------------------------------------------------------------------------------------------------------


def bits(information: Information) -> list[bytes]:
    return [triangle.r.tobytes() for _, triangle in sorted(information.blocks.items())]


def same(one: object, other: object) -> bool:
    """Equal to the bit, arrays with their NaN included."""
    if is_dataclass(one):
        compared = [f for f in fields(one) if f.compare]
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in compared)
    if isinstance(one, np.ndarray | float):
        return np.array_equal(one, other, equal_nan=True)  # type: ignore[arg-type]
    return one == other


def test_is_deterministic_and_changes_nothing_it_was_given(estimator: Estimator) -> None:
    problem = suited(estimator, noisy_problem())
    base = base_parameters(problem.model)
    information = observe(problem)
    before, mapping = bits(information), base.map.copy()
    for triangle in information.blocks.values():
        triangle.r.flags.writeable = False
    base.map.flags.writeable = False
    first = estimator.estimate(problem, base, information)
    second = named_estimator(estimator.name).estimate(problem, base, observe(problem))
    assert same(first, second)
    assert bits(information) == before
    np.testing.assert_array_equal(base.map, mapping)


def test_is_a_frozen_bag_of_options(estimator: Estimator) -> None:
    assert is_dataclass(estimator)
    assert estimator == named_estimator(estimator.name)
    assert isinstance(estimator, Estimator)
    with pytest.raises(AttributeError):
        estimator.name = "other"  # type: ignore[misc]


def test_shapes_of_an_estimate(estimator: Estimator) -> None:
    problem = suited(estimator, noisy_problem())
    base = base_parameters(problem.model)
    estimate = estimator.estimate(problem, base, observe(problem))
    b = len(base)
    assert estimate.value.shape == (b,)
    assert estimate.cancelled.shape == (b,)
    for covariance in (estimate.covariance, estimate.covariance_classical):
        assert covariance.shape == (b, b)
        np.testing.assert_allclose(covariance, covariance.T, rtol=1e-9, atol=1e-15)
        covariance = covariance[~estimate.cancelled][:, ~estimate.cancelled]
        assert np.linalg.eigvalsh(covariance).min() > -1e-12 * np.abs(covariance).max()
    assert 1.0 <= estimate.condition_scaled < 1e3


def test_residuals_are_least_squares_residuals(estimator: Estimator) -> None:
    """The estimate is a minimum: moving any value makes the weighted sum of squares larger."""
    unbiased(estimator)
    if estimator.needs:
        pytest.skip(f"{estimator.name} minimises another sum; its own tests compare it with a dense solver")
    problem = noisy_problem(2)
    information, base = observe(problem), base_parameters(problem.model)
    value = estimator.estimate(None, base, information).value
    kept = list(base.kept)
    stacked, sizes = [], []
    for j, triangle in enumerate(information.joint_triangles):
        wide = np.zeros((len(triangle.r), len(base.layout)))
        wide[:, information.columns[j]] = triangle.r[:, :-1]
        own = wide[:, kept][:, np.any(wide[:, kept] != 0, axis=0)]
        residual = triangle.r[:, -1] - own @ np.linalg.lstsq(own, triangle.r[:, -1], rcond=None)[0]
        sizes.append(np.linalg.norm(residual) / np.sqrt(triangle.rows - own.shape[1]))
        stacked.append((wide[:, kept], triangle.r[:, -1]))
    # nothing stands out in this noise, so huber weights as wls does
    weights = np.ones(2) if estimator.name == "ls" else 1.0 / np.array(sizes)
    w = np.concatenate([x * k for (x, _), k in zip(stacked, weights, strict=True)])
    y = np.concatenate([x * k for (_, x), k in zip(stacked, weights, strict=True)])
    wanted = np.linalg.lstsq(w, y, rcond=None)[0]
    np.testing.assert_allclose(value, wanted, rtol=1e-8, atol=1e-10)


# --- Joint order ------------------------------------------------------------------------------------------------------


def told_in_order(robot: Robot, seed: int | None) -> Problem:
    """The same noisy experiment with the robot's joints listed in another order."""
    model = model_of(robot)
    motion = motion_of(robot, 4000, 200.0, 3)
    effort = model.torque(*motion[:3], truth_of(model)) + np.random.default_rng(0).standard_normal(motion.q.shape)
    if seed is None:
        return Problem(model, [given_arrays(model, *motion[:3], effort)], **FILTERS)
    other, order = reordered(robot, np.random.default_rng(seed))
    run = given_arrays(model_of(other), motion.q[order], motion.v[order], motion.a[order], effort[order])
    return Problem(model_of(other), [run], **FILTERS)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_is_equivariant_to_joint_order(estimator: Estimator, seed: int) -> None:
    if estimator.name == "tls":
        pytest.skip("tls depends on which columns lead the base parameters; tls-scaling says so")
    if estimator.name == "output-error":
        pytest.skip("output-error takes finite differences along base parameters, and another order has others")
    one = identify(suited(estimator, told_in_order(forked(), None)), estimator)
    other = identify(suited(estimator, told_in_order(forked(), seed)), estimator)
    assert distance(one, other) < 1e-9
    if set(one.base.names) == set(other.base.names):
        std = dict(zip(other.base.names, other.std, strict=True))
        np.testing.assert_allclose(one.std, [std[name] for name in one.base.names], rtol=1e-6)


# --- Poor data --------------------------------------------------------------------------------------------------------


def poor(kind: str) -> Problem:
    model = model_of(arm(3))
    q, v, a = motion_of(model.robot, 3000, 200.0, 6)[:3]
    options: dict = {"rest": 0.01}
    effort = None
    if kind == "a joint that barely takes part":
        q[1], v[1], a[1] = 1e-3 * q[1], 1e-3 * v[1], 1e-3 * a[1]
    elif kind == "a joint that never moves":
        q[1], v[1], a[1] = 0.4, 0.0, 0.0
    elif kind == "constant speed":
        t = np.arange(3000) / 200.0
        v = np.repeat([[0.3], [0.2], [0.1]], 3000, axis=1)
        q, a = v * t, np.zeros_like(v)
    elif kind == "constant":
        q, v, a = (np.zeros_like(q) for _ in range(3))
        options["rest"] = 0.0
    elif kind == "short":
        q, v, a = (x[:, 700:740] for x in (q, v, a))
    elif kind == "very short":
        q, v, a = (x[:, 700:704] for x in (q, v, a))
    elif kind == "one effort is silent":
        effort = model.torque(q, v, a, truth_of(model))
        effort[2] = 0.0
    elif kind == "no effort at all":
        effort = np.zeros_like(q)
    return Problem(model, [given_arrays(model, q, v, a, effort)], **options)


POOR = {
    "a joint that barely takes part": {"not-excited", "weak-parameters", "correlated-parameters", "joint-not-moving"},
    "a joint that never moves": {"joint-not-moving"},
    "constant speed": {"not-excited"},
    "constant": {"joint-not-moving"},
    "short": {"not-excited", "few-blocks", "single-block", "weak-parameters", "correlated-parameters"},
    "very short": set(),
    "one effort is silent": {"constant-effort"},
    "no effort at all": set(),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", POOR)
def test_poor_data_gives_findings_or_a_clear_error(estimator: Estimator, kind: str, tmp_path: Path) -> None:
    problem = suited(estimator, poor(kind))
    try:
        result = identify(problem, estimator)
    except SteelyardError as error:
        simulated = needs(estimator, "simulation") and "cannot be simulated" in str(error)
        assert simulated or kind in ("constant", "very short", "no effort at all")
        assert str(error).endswith(".")  # noqa: PT017
        assert len(str(error)) > 40  # noqa: PT017
        return
    if needs(estimator, "simulation") and kind == "a joint that never moves":
        kind = "a joint that barely takes part"  # its controller does not hold it perfectly still
    assert codes(result.findings) & POOR[kind]
    # a number that is not known is said to be unknown by a finding, and nothing else is NaN
    unknown = ~np.isfinite(result.value)
    named = " ".join(f.message for f in result.findings if f.code == "not-excited")
    assert all(name in named for name, no in zip(result.base.names, unknown, strict=True) if no)
    assert np.isfinite(result.relative_error.total)
    assert np.isfinite(result.condition)
    cancelled = np.isin(result.base.names, result.cancelled)
    unknown |= cancelled | [name in named for name in result.base.names]  # a value from elsewhere has no error bar
    assert np.all(np.isfinite(result.std_classical[~unknown]))
    hanging = "single-block" in codes(result.findings)
    assert hanging or np.all(np.isfinite(result.std[~unknown]))
    # and it can still be written and read
    write_folder(tmp_path / "run", {RESULT: text(document(result))})
    np.testing.assert_array_equal(read_result(tmp_path / "run").value, result.value)


def test_one_silent_effort_does_not_silence_the_others(estimator: Estimator) -> None:
    """A column of zeros for one joint's effort must not be given all the weight."""
    result = identify(suited(estimator, poor("one effort is silent")), estimator)
    assert result.relative_error.joints["joint1"] < {"ridge": 0.05, "output-error": 0.01}.get(estimator.name, 1e-6)
    assert "constant-effort" in codes(result.findings)
    assert ("left out: constant effort)" in result.verdict) == (0 in result.relative_error.rows.values())


def test_too_short_a_log_is_told(estimator: Estimator) -> None:
    told = "log is too short" + ("|not determined" if needs(estimator, "gains") else "")
    with pytest.raises(SteelyardError, match=told):
        identify(suited(estimator, poor("very short")), estimator)


# --- Disk -------------------------------------------------------------------------------------------------------------


def assert_equal_results(one: Identification, other: Identification) -> None:
    for field in fields(Identification):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b)
        elif is_dataclass(a) and field.name == "gains":
            assert same(a, b)
        elif field.name == "base":
            assert (a.names, a.zero, a.units, a.expressions) == (b.names, b.zero, b.units, b.expressions)
            np.testing.assert_array_equal(a.map, b.map)
        else:
            assert a == b, field.name


def test_the_result_comes_back_from_disk_bit_by_bit(estimator: Estimator, tmp_path: Path) -> None:
    problem = suited(estimator, noisy_problem())
    other = Problem(noisy_problem().model, [samples_of(noisy_problem().model, 2000, seed=9, noise=0.5, name="other")])
    held_out = replace(suited(estimator, other), rest=[0.05] * 3)
    result = identify(problem, estimator, held_out=held_out)
    write_folder(tmp_path / "run", {RESULT: text(document(result))})
    assert_equal_results(result, read_result(tmp_path / "run"))
    assert_equal_results(result, read_result(tmp_path / "run" / RESULT))
    assert read_result(tmp_path / "run").verdict == result.verdict


def test_is_listed_by_the_command_line(estimator: Estimator) -> None:
    told = CliRunner().invoke(app, ["estimators", "--json"])
    listed = json.loads(told.stdout)["estimators"]
    assert set(listed) == set(ESTIMATORS)
    assert listed[estimator.name].rstrip(".")
    assert "=" not in listed[estimator.name] or len(listed[estimator.name]) > 20


# --- Coverage ---------------------------------------------------------------------------------------------------------


@cache
def experiments(count: int = 30) -> tuple[tuple[Problem, Information], ...]:
    """One motion of a three-joint arm, many realisations of coloured torque noise, filtered and decimated."""
    model = model_of(arm(3))
    motion = motion_of(model.robot, 6000, 200.0, 12)
    clean = model.torque(*motion[:3], truth_of(model))
    size = 0.05 * np.sqrt(np.mean(clean**2, axis=1, keepdims=True))
    rng = np.random.default_rng(2024)
    made_up = []
    for _ in range(count):
        effort = clean + size * coloured(rng, clean.shape, 0.8)
        problem = Problem(model, [given_arrays(model, *motion[:3], effort)], lowpass_hz=20.0, decimate=4)
        made_up.append((problem, observe(problem)))
    return tuple(made_up)


def test_error_bars_cover_coloured_noise(estimator: Estimator) -> None:
    unbiased(estimator)
    if needs(estimator, "simulation"):
        pytest.skip(f"{estimator.name} simulates too long for so many experiments")
    robust, classical = [], []
    for problem, information in experiments():
        problem = suited(estimator, problem)
        result = identify(problem, estimator, information if not estimator.needs else None)
        truth = truth_in(problem, result.base)
        low, high = result.interval(0.95)
        robust.append((truth >= low) & (truth <= high))
        classical.append(np.abs(truth - result.value) <= 1.96 * result.std_classical)
    # 0.945 against 0.77 with this seed. The share of one experiment has a standard deviation of 0.06, so the mean of 30
    # has one of 0.010: with another seed it leaves these bounds once in 1e5 times.
    assert 0.90 <= np.mean(robust) <= 0.99
    assert np.mean(classical) < 0.85


def test_known_estimators_are_all_here(estimator: Estimator) -> None:
    assert {LS, WLS} <= set(ESTIMATORS.values())
    with pytest.raises(SteelyardError, match=r"Unknown estimator 'wsl'. Did you mean 'wls'\? Valid: "):
        named_estimator("wsl")
