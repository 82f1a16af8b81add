"""What the gears carry, where the robot file does not say: from a first fit, and in every fold from its own rows."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators import WLS
from steelyard.identification.delays import Delays, effort_shifts, estimate_delays
from steelyard.identification.first_fit import carried_links, with_load, without_load
from steelyard.identification.identify import identify
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import DEFAULT_TERMS, Motion, named_terms
from steelyard.regression.folds import GuardedFold
from steelyard.regression.information import Information
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from steelyard.validation import cross_validate, cross_validation, validate
from steelyard.validation.cross_validation import cross_validate_problem
from testbed.simulated import arm, model_of, motion_of, silent

load = sys.modules["steelyard.identification.first_fit"]
FILTERS = {"lowpass_hz": 8.0, "decimate": 6}
TERMS = named_terms((*DEFAULT_TERMS, "load"))


@cache
def run_of(seed: int = 1, friction: float = 0.05, noise: float = 0.3) -> Samples:
    """A robot whose friction grows with its load."""
    model = Model(arm(3), TERMS)
    assert model.layout.nominal is not None
    theta = model.layout.nominal.copy()
    theta[[model.layout.index(f"joint{j}.Fl") for j in (1, 2, 3)]] = friction
    motion = motion_of(model.robot, 4000, 200.0, seed)
    effort = model.torque(*motion[:3], theta) + noise * np.random.default_rng(seed).standard_normal(motion.q.shape)
    return Samples.from_arrays(f"run{seed}", model.robot.joint_names, 200.0, *motion[:3], effort)


def problem_of(robot: Robot, seeds: Sequence[int] = (1,), **options) -> Problem:
    return Problem(Model(robot, TERMS), [run_of(seed, **options) for seed in seeds], **FILTERS)


# --- A first fit ------------------------------------------------------------------------------------------------------


def test_a_file_with_inertias_needs_no_first_fit() -> None:
    problem = problem_of(arm(3))
    assert with_load(problem) is problem
    plain = Problem(model_of(silent(arm(3))), problem.runs, **FILTERS)
    assert with_load(plain) is plain


def test_without_inertias_load_friction_is_not_observed_blindly() -> None:
    with pytest.raises(EstimationError, match=r"gives no nominal inertias.*first fit.*remove the term 'load'"):
        observe(problem_of(silent(arm(3))))


def test_the_first_fit_is_without_load_friction_and_the_second_with_it() -> None:
    problem = problem_of(silent(arm(3)))
    first = without_load(problem)
    assert [term.name for term in first.model.terms] == list(DEFAULT_TERMS)
    assert (first.lowpass_hz, first.decimate, first.runs) == (problem.lowpass_hz, problem.decimate, problem.runs)
    carried = carried_links(first.model, observe(first))
    second = replace(problem, model=replace(problem.model, carried=carried))
    again = with_load(problem).model.carried
    assert again is not None
    np.testing.assert_array_equal(again, carried_links(second.model, observe(second)))
    assert not np.allclose(again, carried)
    result = identify(first)
    motion = motion_of(arm(3), 50, 200.0, 8)
    load = Model(silent(arm(3)), TERMS, carried).load(Motion(*motion[:3]))
    # the smallest parameters with these base values (P0 eq. 26), and of those the rigid bodies'
    smallest = np.linalg.pinv(result.base.map) @ result.value
    rigid = np.array([column.owner.startswith("link") for column in first.model.layout.columns])
    wanted = first.model.torque(*motion[:3], np.where(rigid, smallest, 0.0))
    np.testing.assert_allclose(load, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())


def test_a_first_fit_is_as_good_as_the_truth() -> None:
    known, unknown = identify(problem_of(arm(3))), identify(with_load(problem_of(silent(arm(3)))))
    assert unknown.relative_error.total == pytest.approx(known.relative_error.total, rel=0.02)
    plain = identify(without_load(problem_of(arm(3))))
    assert plain.relative_error.total > 2.0 * unknown.relative_error.total
    for j in (1, 2, 3):
        k = known.base.names.index(f"joint{j}.Fl")
        assert known.value[k] == pytest.approx(0.05, abs=4 * known.std[k])
        assert unknown.value[unknown.base.names.index(f"joint{j}.Fl")] == pytest.approx(0.05, rel=0.1)


def test_the_result_carries_the_inertias_of_its_first_fit() -> None:
    problem = problem_of(silent(arm(3)))
    found = with_load(problem)
    result = identify(found)
    np.testing.assert_array_equal(result.carried, found.model.carried)
    unseen = [run_of(5)]
    # validate takes them from the result, whatever the problem knows
    one, other = validate(result, found, unseen), validate(result, problem, unseen)
    assert one.relative_error == other.relative_error
    assert one.relative_error["total"] < 0.02


# --- Cross-validation -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("folds", [4, "runs"])
def test_every_fold_makes_its_own_first_fit(folds, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two fits that tell a fold what its gears carry see none of the rows the fold is scored on, nor its guard."""
    problem = problem_of(silent(arm(3)), (1, 2, 3))
    every = set(observe(without_load(problem)).times)
    fits: list[set] = []

    def spy(first: Model, information: Information) -> Array:
        fits.append(set(information.times))
        return carried_links(first, information)

    folded: list[GuardedFold] = []
    fold = cross_validation._fold

    def watched(base, information, estimator, name, left_out, mask):
        folded.append(left_out)
        return fold(base, information, estimator, name, left_out, mask)

    monkeypatch.setattr(load, "carried_links", spy)
    monkeypatch.setattr(cross_validation, "_fold", watched)
    judged = cross_validate_problem(problem, WLS(), folds)
    assert len(fits) == 2 * len(folded) == 2 * len(judged.folds) >= 6
    for seen, left_out in zip(fits, [one for one in folded for _ in range(2)], strict=True):
        scored = set(left_out.scored)
        assert scored
        assert seen == set(left_out.kept)
        # the fit lacks a guard beside a part of a run too; whole runs have none
        parts = {time[0] for time in scored} & {time[0] for time in every - scored}
        assert seen < every - scored if parts else seen == every - scored


@pytest.mark.slow
def test_nonsense_in_a_run_does_not_reach_the_fold_that_is_scored_on_it() -> None:
    """One run's efforts turned round: the parameters of its own fold, and so its error, are those of the other runs."""
    honest = problem_of(silent(arm(3)), (1, 2, 3))
    (piece,) = run_of(3).open()
    wrong = replace(run_of(3), open=lambda: iter([piece._replace(effort=-piece.effort)]))
    scores = [
        cross_validate_problem(honest.with_runs([*honest.runs[:2], last]), WLS(), "runs").folds[2].score
        for last in (honest.runs[2], wrong)
    ]
    # ‖−y − ŷ‖ with the ŷ that explains y: twice the effort, had nothing leaked
    assert scores[0].total < 0.02
    assert scores[1].total == pytest.approx(2.0, abs=0.02)


def test_with_known_inertias_it_is_cross_validation_of_the_information() -> None:
    problem = problem_of(arm(3), (1, 2, 3))
    one = cross_validate_problem(problem, WLS(), 6)
    other = cross_validate(identify(problem).base, observe(problem), WLS(), 6, problem.mask)
    assert one == other


@pytest.mark.slow
def test_folds_without_inertias_are_as_good_as_with_them() -> None:
    known = cross_validate_problem(problem_of(arm(3), (1, 2, 3)), WLS(), "runs")
    unknown = cross_validate_problem(problem_of(silent(arm(3)), (1, 2, 3)), WLS(), "runs")
    assert unknown.pooled.total == pytest.approx(known.pooled.total, rel=0.02)
    assert unknown.pooled.rows == known.pooled.rows
    assert unknown.nominal is None
    assert known.nominal is not None


@pytest.mark.slow
def test_every_fold_estimates_its_own_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(arm(3), (1, 2, 3))
    every = set(observe(problem, shifts=effort_shifts(problem)).times)
    seen: list[set] = []

    def spy(own: Problem, information: Information) -> Delays:
        seen.append(set(information.times))
        return estimate_delays(own, information)

    monkeypatch.setattr(cross_validation, "estimate_delays", spy)
    cross_validate_problem(problem, WLS(), "runs", delays=True)
    assert seen == [{time for time in every if time[0] != f"run{k}"} for k in (1, 2, 3)]


@pytest.mark.slow
def test_delays_are_estimated_within_the_folds() -> None:
    """An effort that lags: corrected in every fold, the error is that of a log without a lag."""
    (piece,) = run_of(1).open()
    late = np.roll(piece.effort, 2, axis=1)
    run = replace(run_of(1), open=lambda: iter([piece._replace(effort=late)]))
    problem = Problem(Model(arm(3), TERMS), [run], **FILTERS)
    straight = cross_validate_problem(problem_of(arm(3)), WLS(), 6)
    crooked = cross_validate_problem(problem, WLS(), 6)
    mended = cross_validate_problem(problem, WLS(), 6, delays=True)
    assert crooked.pooled.total > 2.0 * straight.pooled.total
    assert mended.pooled.total == pytest.approx(straight.pooled.total, rel=0.1)
