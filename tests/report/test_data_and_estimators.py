"""The delays of the section Data and the section Estimators say what was estimated."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

from steelyard.identification.delays import Delays
from steelyard.project.documents import plain, restored
from steelyard.report.figures.delays import delay_figure
from steelyard.report.page import render
from steelyard.validation.estimator_scores import EstimatorScore, EstimatorScores
from testbed.pages import HOSTILE, Outline, example

DELAYS = Delays(("elbow", HOSTILE[0]), np.array([2e-3, 1e-3]), np.array([1e-4, 2e-4]), 1.8e-3, 9e-5, 0.4, 9, 0.1, 5e-3)
SCORES = EstimatorScores(
    "unseen",
    (
        EstimatorScore("auto", True, 0.02, 0.031, {"joint1": 0.03, "joint2": 0.04}),
        EstimatorScore("map", False, reason="the robot file has no inertias"),
        EstimatorScore("wls", False, 0.01, 0.025, {"joint1": 0.02, "joint2": 0.03}),
    ),
)


def test_delays_are_drawn_in_milliseconds_with_their_95_percent_intervals() -> None:
    figure = delay_figure(DELAYS)
    corrected, found = figure["data"]
    np.testing.assert_allclose(found["x"], [2.0, 1.0, 1.8])
    np.testing.assert_allclose(found["error_x"]["array"], student.ppf(0.975, 8) * np.array([0.1, 0.2, 0.09]))
    np.testing.assert_allclose(corrected["x"], 1e3 * np.array(DELAYS.correction))
    assert corrected["x"].max() > 1.5
    assert figure["layout"]["yaxis"]["ticktext"][0] == "elbow"
    assert "<" not in "".join(figure["layout"]["yaxis"]["ticktext"])


def test_delays_are_kept_in_the_document_of_a_result() -> None:
    again = restored(plain(DELAYS), Delays)
    assert again.correction == DELAYS.correction
    assert again.findings() == DELAYS.findings()


def test_estimators_stand_side_by_side_with_the_better_one_named() -> None:
    result, _ = example()
    source = render(result, (), "page", estimators=SCORES, delays=DELAYS)
    (body,) = re.findall(r'<section id="estimators">.*?</section>', source, re.DOTALL)
    text = Outline(body).text
    assert "wls has the smallest error, 2.50% instead of 3.10%: identify with --estimator wls to use it." in text
    assert "map: the robot file has no inertias." in text
    assert "relative error, unseen motion [%]" in body
    (data,) = re.findall(r'<section id="data">.*?</section>', source, re.DOTALL)
    assert "delay of the effort behind the position [ms]" in data


@pytest.mark.parametrize("scores", [None, replace(SCORES, scores=SCORES.scores[1:2])])
def test_without_a_score_there_is_no_section(scores: EstimatorScores | None) -> None:
    result, _ = example()
    assert 'id="estimators"' not in render(result, (), "page", estimators=scores)
