"""IV and DIDIM: the truth, plain matrices, payloads, essential parameters, error bars, and iterations that end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

import steelyard.estimators.simulated.base as simulating
from steelyard._arrays import Array
from steelyard.errors import EstimationError, SimulationError
from steelyard.estimators.least_squares import CLUSTERS
from steelyard.estimators.simulated.base import driven_again, instrument_columns, weights_of
from steelyard.estimators.simulated.didim import DIDIM
from steelyard.estimators.simulated.iv import IV, instrumental, with_error_bars
from steelyard.estimators.wls import WLS
from steelyard.identification.identify import identify
from steelyard.model.base_parameters import base_parameters
from steelyard.model.payload import Payload
from steelyard.regression.information import Information, stacked
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from steelyard.simulation.closed_loop import Loop
from steelyard.validation import cross_validate_problem
from testbed.closed_loop import (
    NOMINAL,
    dense,
    exact_problem,
    logged_problem,
    model_with_width,
    small,
    the_finding,
    truth_of_base,
)
from testbed.simulated import truth_of

SHORT = replace(NOMINAL, duration=6.0)
SIMULATING = (IV, DIDIM)


def both_of(problem: Problem, theta: Array) -> Information:
    return observe(problem, instruments=driven_again(problem, theta))


# --- Values -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", SIMULATING)
@pytest.mark.parametrize("start", ["wls", "nominal"])
def test_the_truth_is_found_without_noise(kind: type[IV] | type[DIDIM], start: str) -> None:
    model = small()
    result = identify(exact_problem(model, SHORT), kind(start=start))
    np.testing.assert_allclose(result.value, truth_of_base(model), atol=1e-8)


@pytest.mark.parametrize("kind", SIMULATING)
def test_a_wrong_start_is_forgotten(kind: type[IV] | type[DIDIM]) -> None:
    model = small()
    problem = exact_problem(model, SHORT, noise=0.02)
    links = [replace(x, inertia=None if x.inertia is None else 1.3 * x.inertia) for x in model.robot.links]
    wrong = replace(problem, model=replace(model, robot=replace(model.robot, links=tuple(links))))
    near, far = identify(problem, kind(tolerance=1e-4)), identify(wrong, kind(start="nominal", tolerance=1e-4))
    np.testing.assert_allclose(far.value, near.value, atol=1e-3 * float(np.max(near.std)))


@pytest.mark.parametrize("kind", SIMULATING)
def test_a_known_payload_is_driven_and_taken_off(kind: type[IV] | type[DIDIM]) -> None:
    weight = {"XX": 0.02, "XY": 0.0, "XZ": 0.0, "YY": 0.02, "YZ": 0.0, "ZZ": 0.02, "MX": 0.2, "MY": 0.1, "MZ": 0.0}
    model = replace(small(), payloads=[Payload("weight", known={**weight, "M": 3.0})])
    result = identify(exact_problem(model, SHORT), kind())
    np.testing.assert_allclose(result.value, truth_of_base(model), atol=1e-8)


@pytest.mark.parametrize("kind", SIMULATING)
def test_ratio_cancels_what_is_uncertain(kind: type[IV] | type[DIDIM]) -> None:
    model = small()
    problem = exact_problem(model, SHORT, noise=0.1)
    whole, essential = identify(problem, kind()), identify(problem, kind(ratio=15.0))
    assert not whole.cancelled
    assert essential.cancelled
    gone = np.isin(essential.base.names, essential.cancelled)
    np.testing.assert_array_equal(essential.value[gone], 0.0)
    assert np.all(np.isnan(essential.std[gone]))
    assert np.all(np.isfinite(essential.std[~gone]))


def test_iv_is_least_squares_where_the_instruments_are_the_columns() -> None:
    model = small()
    problem = exact_problem(model, SHORT, noise=0.05)
    base = base_parameters(model)
    both = observe(problem, instruments={run.name: run for run in problem.runs})
    weights, every = weights_of(both, base), np.ones(len(base), bool)
    found = with_error_bars(both, base, weights, every, every)
    least = WLS().estimate(None, base, observe(problem))
    np.testing.assert_allclose(found.value, least.value, rtol=1e-8)
    np.testing.assert_allclose(found.covariance, least.covariance, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(found.covariance_classical, least.covariance_classical, rtol=1e-5, atol=1e-12)


def test_the_triangle_gives_what_plain_matrices_give() -> None:
    model = small()
    problem = exact_problem(model, SHORT, noise=0.05)
    base = base_parameters(model)
    # a robot as a whole heavier or lighter, under a controller of the same bandwidth, moves the same
    theta = base.theta(np.linspace(0.8, 1.2, len(base)) * truth_of_base(model))
    simulated = driven_again(problem, theta)
    both = observe(problem, instruments=simulated)
    weights = weights_of(both, base)
    kept = list(base.kept)
    (w, y), (z, _) = dense(problem, problem.runs[0]), dense(problem, simulated["run"])
    w, z = (weights[:, None, None] * x[:, :, kept] for x in (w, z))
    y = (weights[:, None] * y).ravel()
    w, z = w.reshape(-1, len(base)), z.reshape(-1, len(base))
    assert np.linalg.norm(z - w) > 1e-3 * np.linalg.norm(w)

    r = stacked(both, np.concatenate([instrument_columns(base, kept), kept]), weights)
    rows = np.concatenate([z, w, y[:, None]], axis=1)
    size = float(np.linalg.norm(rows))
    np.testing.assert_allclose(r.T @ r, rows.T @ rows, atol=1e-10 * size**2)

    every = np.ones(len(base), bool)
    found, residual = instrumental(both, base, weights, every)
    np.testing.assert_allclose(found, np.linalg.solve(z.T @ w, z.T @ y), rtol=1e-7)
    assert residual == pytest.approx(np.linalg.norm(y - w @ found))
    back = np.linalg.inv(z.T @ w)
    classical = residual**2 / (len(y) - len(base)) * back @ (z.T @ z) @ back.T
    bars = with_error_bars(both, base, weights, every, every)
    np.testing.assert_allclose(bars.covariance_classical, classical, rtol=1e-5, atol=1e-10 * np.max(classical))


@pytest.mark.slow
def test_intervals_of_iv_cover() -> None:
    model = small()
    base, truth = base_parameters(model), truth_of_base(model)
    every = np.ones(len(base), bool)
    held = []
    for seed in range(25):
        problem = exact_problem(model, SHORT, noise=0.1, seed=seed)
        both = both_of(problem, base.theta(truth))
        found = with_error_bars(both, base, weights_of(both, base), every, every)
        reach = student.ppf(0.975, found.clusters - 1) * np.sqrt(np.diagonal(found.covariance))
        held.append(np.abs(found.value - truth) <= reach)
    assert 0.90 <= np.mean(held) <= 0.995


# --- Iterations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SIMULATING)
def test_iterations_are_told_with_what_changed(kind: type[IV] | type[DIDIM]) -> None:
    result = identify(exact_problem(small(), SHORT, noise=0.05), kind())
    told = the_finding(result.findings, "iterations")
    assert told.severity == "info"
    assert told.message.startswith(f"{kind.name} converged in ")
    assert any(f"({name})" in told.message for name in result.base.names)


@pytest.mark.parametrize("kind", SIMULATING)
def test_too_few_iterations_are_a_warning(kind: type[IV] | type[DIDIM]) -> None:
    result = identify(exact_problem(small(), SHORT, noise=0.05), kind(most=1))
    told = the_finding(result.findings, "not-converged")
    assert told.severity == "warning"
    assert "1 iterations" in told.message


def test_a_value_that_cannot_be_simulated_is_drawn_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second simulation fails three times: values come nearer to the first by halves."""
    driven, asked = simulating.driven_again, []

    def failing(problem: Problem, theta: Array, *rest: object) -> dict[str, Samples]:
        asked.append(theta)
        if 1 < len(asked) <= 4:
            raise SimulationError("no inertia left")
        return driven(problem, theta)

    monkeypatch.setattr(simulating, "driven_again", failing)
    result = identify(exact_problem(small(), SHORT, noise=0.05), DIDIM(start="nominal"))
    for k in range(1, 4):
        np.testing.assert_allclose(asked[k + 1] - asked[0], 0.5 * (asked[k] - asked[0]), atol=1e-12)
    assert "halved 3×" in the_finding(result.findings, "iterations").message


def test_a_start_that_cannot_be_simulated_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> dict[str, Samples]:
        raise SimulationError("no inertia left to move.")

    monkeypatch.setattr(simulating, "driven_again", failing)
    with pytest.raises(EstimationError, match=r"no inertia left to move\. Try the other start"):
        identify(exact_problem(small(), SHORT, noise=0.05), IV())


# --- What is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SIMULATING)
def test_without_an_experiment_it_is_asked_for(kind: type[IV] | type[DIDIM]) -> None:
    problem = replace(exact_problem(small(), SHORT), experiment=None)
    with pytest.raises(EstimationError, match="add an experiment"):
        identify(problem, kind())


@pytest.mark.parametrize("kind", SIMULATING)
@pytest.mark.parametrize(
    ("options", "said"),
    [({"tolerance": 0.0}, "tolerance must be"), ({"most": 0}, "most must be"), ({"tolerance": 2.0}, "0.025")],
)
def test_wrong_options_are_refused(kind: type[IV] | type[DIDIM], options: dict[str, float], said: str) -> None:
    with pytest.raises(EstimationError, match=said):
        kind(**options)  # type: ignore[arg-type]


def test_an_unknown_start_is_refused() -> None:
    with pytest.raises(EstimationError, match="Unknown start 'cad'"):
        identify(exact_problem(small(), SHORT), IV(start="cad"))


def test_a_joint_that_moves_once_has_no_error_bar() -> None:
    """A parameter that one block of time alone shows: told, and the others keep theirs."""
    model = model_with_width(3)
    problem = exact_problem(model, noise=0.01)
    base, both = base_parameters(model), both_of(problem, truth_of(model))
    first = set(both.clusters(2 * CLUSTERS)[0])  # well inside one of the clusters that are left out
    once = replace(both, blocks={k: t for k, t in both.blocks.items() if k.joint != 2 or k[:3] in first})
    every = np.ones(len(base), bool)
    found = with_error_bars(once, base, np.ones(3), every, every)
    told = the_finding(found.findings, "single-block")
    assert "joint3.Fv" in told.message
    assert "simulated" not in told.message
    std = dict(zip(base.names, np.sqrt(np.diagonal(found.covariance)), strict=True))
    assert np.isnan(std["joint3.Fv"])
    assert np.isfinite(std["joint1.Fv"])


@pytest.mark.slow
def test_runs_left_out_are_scored_by_the_others_driven_again() -> None:
    model = model_with_width(3)
    problems = [logged_problem(model, NOMINAL, seed) for seed in (1, 2)]
    runs = [replace(p.runs[0], name=f"run{k}") for k, p in enumerate(problems)]
    references = {
        f"run{k}": next(iter(one.experiment.references.values())) for k, one in enumerate(problems) if one.experiment
    }
    first = problems[0]
    assert first.experiment is not None
    both = replace(first, runs=runs, experiment=replace(first.experiment, references=references))
    judged = cross_validate_problem(both, IV(), "runs")
    assert len(judged.folds) == 2
    assert judged.pooled.total < 0.2
    with pytest.raises(EstimationError, match="simulates whole runs"):
        cross_validate_problem(both, IV(), 5)


def test_a_wrong_simulator_is_doubted() -> None:
    model = model_with_width(3)
    problem = logged_problem(model, NOMINAL, 3)
    assert problem.experiment is not None
    wrong = replace(problem, experiment=replace(problem.experiment, loop=Loop(encoder_ratio=0.8)))
    told = {finding.code for finding in identify(wrong, DIDIM()).findings}
    assert "simulation-mismatch" in told
    assert "simulation-mismatch" not in {finding.code for finding in identify(problem, DIDIM()).findings}


@pytest.mark.parametrize("options", [{"ratio": "x"}, {"ratio": -1.0}, {"most": True}, {"tolerance": 0.0}])
def test_impossible_options_are_refused(options: dict) -> None:
    for kind in (IV, DIDIM):
        with pytest.raises(EstimationError):
            kind(**options)
