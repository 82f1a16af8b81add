"""The verdict: figures that result and logs reproduce, joints that are not explained named, more motion asked for."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from steelyard.estimators import LS, MAP, WLS, Auto, Consistent, Essential, Estimator, Huber
from steelyard.estimators.estimator import estimated
from steelyard.identification.expected import FOLDS, expected_score, refitted
from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.identification.verdict import FEW_ROWS, UNEXPLAINED
from steelyard.model.base_parameters import base_parameters
from steelyard.project.result_file import document, identification
from steelyard.regression.folds import guarded_folds
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.regression.scores import Score, score
from steelyard.report.lamps import lamps
from steelyard.signals.samples import Samples
from testbed.simulated import arm, model_of, samples_of

MODEL = model_of(arm(3))
FILTERS = {"lowpass_hz": 8.0, "decimate": 6}


def run(seed: int, samples: int = 4000) -> Samples:
    return samples_of(MODEL, samples, seed=seed, noise=0.5, name=f"run{seed}")


@cache
def fitted() -> Identification:
    return identify(Problem(MODEL, [run(1)], **FILTERS), WLS())


def with_score(result: Identification, **joints: float) -> Identification:
    """The result with stated relative errors of joints on unseen runs."""
    shares = result.relative_error.joints | joints
    rmse = {j: share * result.relative_error.effort[j] for j, share in shares.items()}
    return replace(result, unseen=replace(result.relative_error, joints=shares, rmse=rmse))


def test_the_expected_error_is_that_of_rows_predicted_without_them() -> None:
    """Fitted again from scratch, fold by fold, with the joints' weights held."""
    problem = Problem(MODEL, [run(1)], **FILTERS)
    information, base = observe(problem), base_parameters(MODEL)
    result = fitted()
    assert result.expected is not None
    squares, rows = 0.0, 0
    for fold in guarded_folds(information, information.clusters(FOLDS)):
        estimate = estimated(WLS(), problem, base, information.at(fold.kept))
        part = score(information.at(fold.scored), base.theta(np.nan_to_num(estimate.value)), "")
        squares += sum(part.rmse[j] ** 2 * part.rows[j] for j in part.rows)
        rows += sum(part.rows.values())
    stated = sum(result.expected.rmse[j] ** 2 * result.expected.rows[j] for j in result.expected.rows)
    # σ_j of every fold differ a little from those of all rows
    assert stated == pytest.approx(squares, rel=0.02)
    assert rows == sum(result.expected.rows.values()) == sum(result.relative_error.rows.values())
    assert result.expected.total > result.relative_error.total


@pytest.mark.parametrize("estimator", [LS(), WLS(), Huber(), Essential(), MAP(), Consistent(), Auto()])
def test_refitting_all_rows_gives_the_estimate_again(estimator: Estimator) -> None:
    problem = Problem(MODEL, [run(1)], **FILTERS)
    information, base = observe(problem), base_parameters(MODEL)
    estimate = estimated(estimator, problem, base, information)
    (all_rows,) = guarded_folds(information, [()])
    assert estimate.refit is not None
    (value,) = refitted(information, base, [all_rows], estimate.refit)
    size = np.linalg.norm(estimate.refit.weights) * np.linalg.norm(estimate.value)
    assert np.linalg.norm(value - estimate.value) < 1e-4 * size


def test_five_motions_are_left_out_one_by_one() -> None:
    result = identify(Problem(MODEL, [run(seed, 2000) for seed in range(5)], **FILTERS), WLS())
    told = next(f for f in result.findings if f.code == "expected-error")
    assert "5 motions left out in turn" in told.message


def test_a_log_too_short_states_no_expected_error() -> None:
    result = identify(Problem(MODEL, [run(1, 500)], **FILTERS), MAP(weight=1.0))
    assert result.expected is None
    told = next(f for f in result.findings if f.code == "expected-error")
    assert "too short" in told.message
    assert result.judged.kind == "fitted"
    assert "where it was fitted" in result.verdict
    assert result.judged.rows_each < FEW_ROWS
    assert "record more motion" in result.verdict


def test_the_best_evidence_is_judged() -> None:
    result = fitted()
    assert result.judged.kind == "expected"
    assert result.verdict.startswith("Expected to explain ")
    unseen = with_score(result)
    assert unseen.judged.kind == "unseen"
    assert "on unseen motion" in unseen.verdict
    assert "record more" not in unseen.verdict


def test_errors_are_those_of_the_rows() -> None:
    judged = fitted().judged
    scored = fitted().expected
    assert isinstance(scored, Score)
    mean = np.sqrt(sum(scored.rmse[j] ** 2 * n for j, n in scored.rows.items()) / sum(scored.rows.values()))
    assert judged.error == {"N.m": pytest.approx(mean)}
    assert f"error {mean:.3g} N·m" in fitted().verdict
    assert [(j.joint, j.error) for j in judged.joints] == list(scored.rmse.items())


def test_a_joint_that_is_not_explained_is_named_with_its_error() -> None:
    result = with_score(fitted(), joint2=UNEXPLAINED + 0.05)
    (named,) = result.judged.unexplained
    assert named.joint == "joint2"
    assert f"but not that of joint2 (error {named.error:.3g} N·m, 55%)" in result.verdict
    both = with_score(fitted(), joint2=0.6, joint3=1.58)
    assert [joint.joint for joint in both.judged.unexplained] == ["joint3", "joint2"]
    assert "joint3 (error " in both.verdict
    assert with_score(fitted(), joint2=UNEXPLAINED - 0.01).judged.unexplained == ()


def test_a_joint_without_rows_is_neither_explained_nor_named() -> None:
    result = fitted()
    bare = replace(result.relative_error, rows=result.relative_error.rows | {"joint3": 0})
    judged = replace(result, unseen=bare).judged
    assert judged.joints[2].explained is None
    assert judged.unexplained == ()


def test_a_joint_that_did_not_move_is_named() -> None:
    result = fitted()
    still = replace(
        result, relative_error=replace(result.relative_error, rows=result.relative_error.rows | {"joint3": 0})
    )
    assert still.judged.unmoved == ("joint3",)
    assert "joint3 did not move" in still.verdict
    (*_, target) = lamps(with_score(still))
    assert target.answer == "no"
    assert "joint3 did not move" in target.reason
    assert with_score(result).judged.unmoved == ()


def test_the_file_holds_the_verdict_as_data_and_reads_back() -> None:
    data = document(with_score(fitted(), joint2=0.7))
    assert data["judged"]["unexplained"] == ["joint2"]
    assert data["judged"]["kind"] == "unseen"
    back = identification(data)
    assert back.expected == fitted().expected
    assert back.verdict == data["verdict"]


def test_expected_error_needs_no_second_pass() -> None:
    problem = Problem(MODEL, [run(1)], **FILTERS)
    information, base = observe(problem), base_parameters(MODEL)
    estimate = estimated(WLS(), problem, base, information)
    found, told = expected_score(problem, base, information, WLS(), estimate)
    assert found == fitted().expected
    assert [finding.code for finding in told] == ["expected-error"]
