"""Essential parameters: the order of cancellation, its three stops, and what is told (P0 §III)."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import f as fisher

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators import WLS, Essential, named_estimator
from steelyard.estimators.essential import FOLDS, eliminate
from steelyard.estimators.least_squares import joint_deviations
from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.model.model import Model
from steelyard.project.documents import text
from steelyard.project.papers.p4_recorded import next_to_table_1
from steelyard.project.project import read_project
from steelyard.project.result_file import document, identification
from steelyard.regression.information import Information, stacked
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from test_real_data import ROOT, opened
from testbed.places import shared_data
from testbed.simulated import arm, model_of, motion_of, truth_of

# zero in the truth of `problem_of`: frictions and offsets, which motion shows well, and an inertia
ZERO = ("joint1.off", "joint2.Fv", "joint3.off", "link3.XY")
COUNT, RATE = 3000, 100.0


def theta_of(model: Model) -> Array:
    """The nominal values, changed so that the base parameters ZERO are zero."""
    theta = truth_of(model).copy()
    base = base_parameters(model)
    for name in ZERO:
        k = base.names.index(name)
        theta[base.kept[k]] -= base.map[k] @ theta
    return theta


def problem_of(noise: float = 3.0, seed: int = 1) -> Problem:
    """The three-joint arm with some parameters zero; every row counts, so that W can be written down in full."""
    model = model_of(arm())
    theta = theta_of(model)
    motion = motion_of(model.robot, COUNT, RATE, seed)
    effort = model.torque(*motion[:3], theta)
    effort = effort + noise * np.random.default_rng(seed + 100).standard_normal(effort.shape)
    return Problem(model, [Samples.from_arrays("run", model.robot.joint_names, RATE, *motion[:3], effort)], rest=0.0)


def weighted_rows(problem: Problem, information: Information, base: BaseParameters) -> tuple[Array, Array]:
    """W_b (n, N, b) and Y (n, N), both over σ_j: the rows the estimator works on, not compressed."""
    (piece,) = problem.runs[0].open()
    w = problem.model.regressor(piece.q, piece.v, piece.a)[:, list(base.kept)].transpose(0, 2, 1)
    sigma = joint_deviations(information, base)
    return w / sigma[:, None, None], piece.effort / sigma[:, None]


def naive(w: Array, y: Array, ratio: float, certain: float = 0.0) -> tuple[list[int], list[float]]:
    """P0 §III from the rows: least squares anew after every cancellation. The order, and the residual after each."""
    w, y = w.reshape(-1, w.shape[-1]), y.reshape(-1)
    left, gone, residuals = list(range(w.shape[1])), [], []
    while True:
        theta, rss, *_ = np.linalg.lstsq(w[:, left], y, rcond=None)
        if gone:
            residuals.append(float(np.sqrt(rss[0])))
        variance = rss[0] / (len(y) - len(left)) * np.diagonal(np.linalg.inv(w[:, left].T @ w[:, left]))
        relative = np.sqrt(variance) / np.abs(theta)
        if relative.max() <= max(certain, ratio * relative.min()) or len(left) == 1:
            return gone, residuals
        gone.append(left.pop(int(relative.argmax())))


@pytest.fixture(scope="module", name="case")
def _case() -> tuple[Problem, Information, BaseParameters]:
    problem = problem_of()
    return problem, observe(problem), base_parameters(problem.model)


Case = tuple[Problem, Information, BaseParameters]


def kept_by(case: Case, estimator: Essential) -> set[str]:
    result = identify(case[0], estimator, case[1])
    return set(result.base.names) - set(result.cancelled)


def order_told(result: Identification, base: BaseParameters) -> list[int]:
    """The cancellations in the order the finding lists them."""
    (finding,) = [f for f in result.findings if f.code == "essential-parameters"]
    listed = finding.message.split("with their relative σ: ")[1].split(", ")
    return [base.names.index(entry.split(" ")[0]) for entry in listed]


def steps_of(case: Case, ratio: float | None) -> tuple[list[int], list[float]]:
    _, information, base = case
    whole = stacked(information, base.kept, 1.0 / joint_deviations(information, base))
    steps = eliminate(whole, range(len(base)), int(information.rows().sum()), ratio)
    return [step.parameter for step in steps], [step.residual for step in steps]


# --- Order ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [5.0, 10.0, 30.0, 100.0])
def test_order_is_that_of_solving_from_the_rows_each_time(case: Case, ratio: float) -> None:
    gone, residuals = naive(*weighted_rows(*case), ratio)
    order, after = steps_of(case, ratio)
    assert order == gone
    assert gone
    np.testing.assert_allclose(after, residuals, rtol=1e-10)
    result = identify(case[0], Essential(ratio, certain=0.0), case[1])
    assert order_told(result, case[2]) == gone


def test_without_a_ratio_one_parameter_is_left(case: Case) -> None:
    order, after = steps_of(case, None)
    assert len(set(order)) == len(case[2]) - 1
    assert all(two >= one * (1 - 1e-12) for one, two in pairwise(after))


def test_parameters_that_are_zero_go_first(case: Case) -> None:
    base = case[2]
    order, _ = steps_of(case, None)
    first = {base.names[k] for k in order[: len(ZERO) + 4]}
    assert set(ZERO) <= first
    assert not kept_by(case, Essential()) & set(ZERO)


def test_values_are_those_of_least_squares_without_the_cancelled_columns(case: Case) -> None:
    problem, information, base = case
    result = identify(problem, Essential(), information)
    w, y = weighted_rows(problem, information, base)
    kept = [k for k, name in enumerate(base.names) if name not in result.cancelled]
    theta = np.linalg.lstsq(w.reshape(-1, len(base))[:, kept], y.reshape(-1), rcond=None)[0]
    np.testing.assert_allclose(result.value[kept], theta, rtol=1e-9)


# --- Stops ------------------------------------------------------------------------------------------------------------


def test_a_larger_ratio_keeps_more_and_never_other_parameters(case: Case) -> None:
    kept = [kept_by(case, Essential(ratio, certain=0.0)) for ratio in (1.0, 5.0, 10.0, 20.0, 30.0, 100.0, 1e9)]
    assert all(one <= two for one, two in pairwise(kept))
    assert len(kept[0]) == 1
    assert kept[-1] == set(case[2].names)


@pytest.mark.parametrize("certain", [0.01, 0.05])
def test_what_is_certain_is_never_cancelled(certain: float) -> None:
    """With ratio 1 only certainty stops: every cancellation was of a parameter known worse than that."""
    problem = problem_of(noise=0.3)
    case = problem, observe(problem), base_parameters(problem.model)
    gone, _ = naive(*weighted_rows(*case), 1.0, certain)
    result = identify(case[0], Essential(ratio=1.0, certain=certain), case[1])
    assert order_told(result, case[2]) == gone
    kept = ~np.isin(result.base.names, result.cancelled)
    assert 1 < kept.sum() < len(case[2])
    assert np.max(result.std_classical[kept] / np.abs(result.value[kept])) <= certain


def test_f_test_stops_before_the_first_significant_rise(case: Case) -> None:
    """F = (‖ρ_k‖² − ‖ρ_0‖²)/k over ‖ρ_0‖²/(r − b), from the rows."""
    w, y = weighted_rows(*case)
    rows, full = y.size, float(np.linalg.lstsq(w.reshape(-1, w.shape[-1]), y.reshape(-1), rcond=None)[1][0])
    _, residuals = naive(w, y, 1.0)
    freedom = rows - w.shape[-1]
    kept = [kept_by(case, Essential(stop="f-test", significance=s)) for s in (0.5, 0.05, 1e-3, 1e-9)]
    for names, significance in zip(kept, (0.5, 0.05, 1e-3, 1e-9), strict=True):
        k = len(case[2]) - len(names)
        f = [(r**2 - full) / (j + 1) / (full / freedom) for j, r in enumerate(residuals)]
        limits = fisher.ppf(1 - significance, np.arange(1, len(f) + 1), freedom)
        assert k < len(f)
        assert all(f[j] <= limits[j] for j in range(k))
        assert f[k] > limits[k]
    assert all(two <= one for one, two in pairwise(kept))


def test_f_test_cancels_zeros_and_nothing_else_when_noise_is_low() -> None:
    quiet = problem_of(noise=0.01)
    result = identify(quiet, Essential(stop="f-test", significance=1e-3))
    truth = result.base.map @ theta_of(quiet.model)
    true_zeros = {name for name, x in zip(result.base.names, truth, strict=True) if abs(x) < 1e-12}
    assert true_zeros == set(ZERO)
    assert set(result.cancelled) == true_zeros


@pytest.mark.slow
def test_cross_validation_takes_the_prefix_with_the_least_error(case: Case) -> None:
    """Every prefix of the cancellations is scored on left-out stretches of the rows themselves."""
    problem, information, base = case
    w, y = weighted_rows(*case)
    size = information.block_rows["run"]
    number = np.arange(COUNT) // size
    order, _ = steps_of(case, None)
    folds = [np.isin(number, [block for _, _, block in times]) for times in information.clusters(FOLDS)]
    assert len(folds) == FOLDS
    assert np.all(np.sum(folds, axis=0) == 1)
    errors = []
    for k in range(len(order) + 1):
        left = [c for c in range(len(base)) if c not in order[:k]]
        total = 0.0
        for out in folds:
            inside = w[:, ~out][..., left].reshape(-1, len(left))
            theta = np.linalg.lstsq(inside, y[:, ~out].reshape(-1), rcond=None)[0]
            total += float(np.sum((w[:, out][..., left] @ theta - y[:, out]) ** 2))
        errors.append(total)
    result = identify(problem, Essential(stop="cross-validation"), information)
    assert len(result.cancelled) == int(np.argmin(errors))
    assert 0 < len(result.cancelled) < len(base) / 2


def test_cross_validation_needs_blocks_of_time(case: Case) -> None:
    problem, information, _ = case
    with pytest.raises(EstimationError, match="Too few blocks of time to stop by cross-validation"):
        identify(problem, Essential(stop="cross-validation"), information.total())


# --- What is told -----------------------------------------------------------------------------------------------------


def test_cancelled_parameters_are_zero_without_error_bar_and_marked_in_the_document(case: Case) -> None:
    result = identify(case[0], Essential(), case[1])
    gone = np.isin(result.base.names, result.cancelled)
    assert gone.any()
    assert not gone.all()
    assert np.all(result.value[gone] == 0.0)
    assert np.all(np.isnan(result.std[gone]))
    assert np.all(np.isnan(result.std_classical[gone]))
    assert np.all(np.isfinite(result.std[~gone]))
    data = json.loads(text(document(result)))
    for entry in data["parameters"]:
        cancelled = entry["name"] in result.cancelled
        assert entry["status"] == ("cancelled" if cancelled else "estimated")
        assert (entry["value"] == 0.0 and entry["std"] is None) is cancelled
    assert data["counts"]["essential"] == int((~gone).sum())
    assert data["counts"]["base"] == len(gone)
    assert f"{int((~gone).sum())} essential parameters" in data["verdict"]


def test_round_trip(case: Case) -> None:
    result = identify(case[0], Essential(), case[1])
    again = identification(json.loads(text(document(result))))
    assert again.cancelled == result.cancelled
    assert again.standard_rule == result.standard_rule
    assert "eq. 32" in again.standard_rule
    for one, two in ((again.value, result.value), (again.std, result.std), (again.standard, result.standard)):
        np.testing.assert_array_equal(one, two)
    assert text(document(again)) == text(document(result))


def test_rise_of_the_residual_is_told(case: Case) -> None:
    problem, information, base = case
    w, y = weighted_rows(*case)
    _, residuals = naive(w, y, 30.0)
    full = np.sqrt(np.linalg.lstsq(w.reshape(-1, len(base)), y.reshape(-1), rcond=None)[1][0])
    result = identify(problem, Essential(), information)
    (finding,) = [f for f in result.findings if f.code == "essential-parameters"]
    assert f"increases the weighted residual by {residuals[-1] / full - 1:.2%}" in finding.message
    assert (
        f"{len(base) - len(residuals)} essential parameters; {len(residuals)} cancelled (stop: ratio)"
        in finding.message
    )
    assert finding.severity == "info"
    assert result.relative_error.total >= identify(problem, WLS(), information).relative_error.total


def test_nothing_cancelled_is_told(case: Case) -> None:
    result = identify(case[0], Essential(ratio=1e9), case[1])
    assert result.cancelled == ()
    assert "no base parameter was cancelled (stop: ratio)" in [
        f.message for f in result.findings if f.code == "essential-parameters"
    ]
    np.testing.assert_allclose(result.value, identify(case[0], WLS(), case[1]).value, rtol=1e-10)


# --- Options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ratio": 0.5}, "ratio must be at least 1"),
        ({"ratio": float("nan")}, "ratio must be at least 1"),
        ({"ratio": "thirty"}, "wrong type"),
        ({"stop": "never"}, "ratio, f-test or cross-validation, not 'never'"),
        ({"certain": -0.1}, "certain must be zero or positive"),
        ({"significance": 0.0}, "between 0 and 1"),
        ({"significance": 1.0}, "between 0 and 1"),
        ({"ratios": 10.0}, "Did you mean 'ratio'"),
        ({"weight": 1.0}, "Valid: ratio, stop, significance, certain"),
    ],
)
def test_option_errors(options: dict[str, object], said: str) -> None:
    with pytest.raises(EstimationError, match=said):
        named_estimator("essential", options)


def test_options_in_a_project_file(tmp_path) -> None:
    source = (ROOT / "examples" / "real" / "tx40.toml").read_text("utf-8")
    file = tmp_path / "project.toml"
    file.write_text(source + '\n[estimator]\nname = "essential"\noptions = { ratio = 10, stop = "f-test" }\n', "utf-8")
    assert read_project(file).estimator() == Essential(ratio=10, stop="f-test")
    file.write_text(f'estimator = "essential"\n{source}', "utf-8")
    assert read_project(file).estimator() == Essential()


# --- Recorded data ----------------------------------------------------------------------------------------------------


def test_tx40_next_to_p4() -> None:
    """0–6 s, r_σ = 30: twelve parameters within 10 % of P4 Table I, a log of the same type of robot."""
    shared_data("staubli_tx40")
    project = opened(ROOT / "examples" / "real" / "tx40.toml")
    model = project.model()
    problem = project.problem(model, project.samples(model.robot, "identify"))
    result = identify(problem, Essential(ratio=30.0))
    assert 22 <= len(result.base) - len(result.cancelled) <= 31
    assert result.relative_error.total <= 0.053
    rows = {row.name: row for row in next_to_table_1(result)}
    for name in ("ZZ1", "Fv1", "Fc1", "ZZ2", "MX2", "Fv2", "MY3", "Fv3", "Fv4", "Fv5", "Fv6", "Fvm6"):
        assert abs(rows[name].value / rows[name].printed - 1.0) < 0.10, rows[name]
        assert abs(rows[name].difference) < 2.5, rows[name]
