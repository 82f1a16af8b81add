"""Estimators side by side: the scores are those of a fit by each, from triangles that were made once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from steelyard.estimators import LS, WLS, Essential, named_estimator
from steelyard.formats.robots import read_robot
from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.terms import named_terms
from steelyard.project.documents import plain, restored
from steelyard.regression.information import Information
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.report.tables.estimators import estimator_table
from steelyard.signals.samples import Samples
from steelyard.validation import estimator_scores as module
from steelyard.validation.estimator_scores import WITH_TORQUES, EstimatorScores, estimator_scores

MODEL = Model(read_robot("planar2r"), named_terms(["viscous", "coulomb", "offset"]))


def run(name: str, seed: int) -> Samples:
    rng, rate = np.random.default_rng(seed), 100.0
    t = np.arange(3000) / rate
    w, phase = 2 * np.pi * rng.uniform(0.1, 0.7, (2, 4, 1)), rng.uniform(0.0, 6.0, (2, 4, 1))
    q, v = np.sin(w * t + phase).sum(axis=1), (w * np.cos(w * t + phase)).sum(axis=1)
    a = -(w**2 * np.sin(w * t + phase)).sum(axis=1)
    theta = np.where(MODEL.layout.nominal == 0.0, 1.0, 1.2 * np.asarray(MODEL.layout.nominal))
    effort = MODEL.torque(q, v, a, theta) + 0.5 * rng.standard_normal(q.shape)
    return Samples.from_arrays(name, MODEL.robot.joint_names, rate, q, v, a, effort)


@pytest.fixture(scope="module")
def case() -> tuple[Problem, Information, Problem, Information, Identification]:
    problem = Problem(MODEL, [run("a", 1)], decimate=4)
    held_out = problem.with_runs([run("b", 2)])
    information, other = observe(problem), observe(held_out)
    return problem, information, held_out, other, identify(problem, WLS(), information, held_out, None, other)


Case = tuple[Problem, Information, Problem, Information, Identification]


def scores(case: Case, seen: bool = True) -> EstimatorScores:
    problem, information, _, other, result = case
    return estimator_scores(result, problem, WLS(), information, other if seen else None)


def test_unseen_scores_are_those_of_identify(case: Case) -> None:
    problem, _, held_out, *_ = case
    found = scores(case)
    assert found.rows == "unseen"
    assert [one.estimator for one in found.scores] == ["wls", *(name for name in WITH_TORQUES if name != "wls")]
    assert [one.used for one in found.scores] == [True, *[False] * 6]
    for one in found.scores:
        result = identify(problem, named_estimator(one.estimator), held_out=held_out)
        assert result.unseen is not None
        assert one.total == pytest.approx(result.unseen.total, rel=1e-9)
        assert one.fitted == pytest.approx(result.relative_error.total, rel=1e-9)
        assert one.joints == pytest.approx(result.unseen.joints, rel=1e-9)
    assert len({one.total for one in found.scores}) > 3


def test_rows_left_out_are_scored_where_nothing_is_unseen(case: Case) -> None:
    problem, information, _, other, result = case
    found = scores(case, seen=False)
    assert found.rows == "left out"
    for one in found.scores:
        assert one.fitted < one.total < 2.0 * one.fitted
    # what `identify` expects has the uncertainty of other motion on top
    assert result.expected is not None
    assert found.scores[0].total <= result.expected.total
    again = estimator_scores(result, problem, LS(), information, other)
    assert again.scores[0].estimator == "ls"


def test_no_log_is_read_again(case: Case) -> None:
    problem, information, _, other, result = case

    def never() -> None:
        raise AssertionError("a pass over the samples")

    closed = replace(problem, runs=[replace(one, open=never) for one in problem.runs])
    assert estimator_scores(result, closed, WLS(), information, other) == scores(case)
    assert estimator_scores(result, closed, WLS(), information) == scores(case, seen=False)


def test_an_estimator_that_simulates_shows_the_scores_of_its_result(case: Case) -> None:
    problem, information, _, other, result = case
    own = estimator_scores(replace(result, estimator="didim"), problem, named_estimator("didim"), information, other)
    assert result.unseen is not None
    assert own.scores[0].total == result.unseen.total
    assert len(own.scores) == 1 + len(WITH_TORQUES)
    alone = replace(result, estimator="didim", unseen=None)
    left = estimator_scores(alone, problem, named_estimator("didim"), information)
    assert left.scores[0].reason == "it simulates whole runs, and none was left out"
    assert "didim: it simulates whole runs, and none was left out." in estimator_table(left).notes


def test_many_parameters_leave_out_what_takes_long(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PARAMETERS", 3)
    found = scores(case)
    assert [one.estimator for one in found.scores] == ["wls", "ls"]
    assert found.skipped == ("huber", "essential", "ridge", "map", "consistent")
    assert "number of parameters: huber, essential, ridge, map, consistent." in " ".join(estimator_table(found).notes)


def test_scores_are_kept_in_the_document_of_a_result(case: Case) -> None:
    found = scores(case)
    assert restored(plain(found), EstimatorScores) == found


def test_the_table_names_the_best_with_its_command(case: Case) -> None:
    found = scores(case)
    own = estimator_table(found)
    assert [row.emphasis for row in own] == ["strong", *[""] * 6]
    assert [column.title for column in own.shown][4:] == list(found.scores[0].joints)
    worse = replace(found, scores=(replace(found.scores[0], total=1.0), *found.scores[1:]))
    assert worse.best is not None
    assert f"identify with --estimator {worse.best.estimator}" in " ".join(estimator_table(worse).notes)
    assert Essential().name in own.records()[3]["estimator"]
