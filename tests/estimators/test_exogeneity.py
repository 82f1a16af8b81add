"""The Durbin–Wu–Hausman test: its arithmetic against plain matrices, its size, its power and its words."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2
from scipy.stats import t as student

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators.least_squares import CLUSTERS
from steelyard.estimators.simulated.base import driven_again, weights_of
from steelyard.estimators.simulated.exogeneity import Difference, Exogeneity, durbin_wu_hausman
from steelyard.estimators.wls import WLS
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.model.parameters import Column, Layout
from steelyard.regression.information import BlockKey, Information, Triangle
from steelyard.regression.observe import instrument_layout, observe
from testbed.closed_loop import ENDOGENOUS, NOMINAL, Setting, logged_problem, model_with_width, truth_of_base
from testbed.simulated import coloured

RUNS = 12


def plain(z: Array, w: Array, y: Array, blocks: int) -> tuple[BaseParameters, Information]:
    """Rows (m, b) of one joint as information with instruments, with as many blocks of time."""
    b = w.shape[1]
    layout = Layout(tuple(Column(f"part{k}", "x", "1", None) for k in range(b)))
    rows = np.concatenate([w, z, y[:, None]], axis=1)
    kept = {
        BlockKey("run", "none", k, 0): Triangle.of(part, len(part)) for k, part in enumerate(np.split(rows, blocks))
    }
    information = Information(
        instrument_layout(layout), ("joint1",), (np.arange(2 * b),), ("effort",), kept, {"run": len(y) // blocks}
    )
    return BaseParameters(layout, (), tuple(range(b)), np.eye(b), 1.0, 0.0), information


def drawn(seed: int, feedback: float, rows: int = 960, b: int = 6) -> tuple[Array, Array, Array]:
    """Z, W and y = W·1 + e with e correlated in time, of which `feedback` reaches W."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((rows, b))
    e = coloured(rng, (1, rows), 0.9)[0]
    w = z + 0.3 * rng.standard_normal((rows, b))
    w[:, 0] += feedback * e
    return z, w, w.sum(axis=1) + e


def compared(seed: int, feedback: float) -> Exogeneity:
    base, both = plain(*drawn(seed, feedback), 48)
    return durbin_wu_hausman(base, both, np.ones(1), CLUSTERS)


@cache
def arm_tests(setting: Setting) -> tuple[Exogeneity, ...]:
    """The test on runs of the arm, each with other noise."""
    model = model_with_width()
    base = base_parameters(model)
    out = []
    for seed in range(RUNS):
        problem = logged_problem(model, setting, seed)
        start = WLS().estimate(None, base, observe(problem)).value
        both = observe(problem, instruments=driven_again(problem, base.theta(start)))
        out.append(durbin_wu_hausman(base, both, weights_of(both, base), CLUSTERS))
    return tuple(out)


def biases(tests: tuple[Exogeneity, ...]) -> tuple[Array, Array]:
    """Mean errors of LS and IV in standard deviations of LS over the runs, (b,) each."""
    truth = truth_of_base(model_with_width())
    least = np.array([[d.least_squares for d in test.differences] for test in tests]) - truth
    instrumental = np.array([[d.instrumental for d in test.differences] for test in tests]) - truth
    spread = least.std(axis=0, ddof=1)
    return least.mean(axis=0) / spread, instrumental.mean(axis=0) / spread


# --- Arithmetic -------------------------------------------------------------------------------------------------------


def test_values_and_deviations_are_those_of_plain_matrices() -> None:
    z, w, y = drawn(1, 0.4)
    base, both = plain(z, w, y, CLUSTERS)
    found = durbin_wu_hausman(base, both, np.ones(1), CLUSTERS)

    def pair(keep: NDArray[np.intp]) -> tuple[Array, Array]:
        zz, ww, yy = z[keep], w[keep], y[keep]
        return np.asarray(np.linalg.lstsq(ww, yy)[0], float), np.asarray(np.linalg.solve(zz.T @ ww, zz.T @ yy), float)

    everything = np.arange(len(y))
    least, instrumental = pair(everything)
    left = [pair(np.setdiff1d(everything, part)) for part in np.split(everything, CLUSTERS)]
    change = np.array([(a - b) - (least - instrumental) for a, b in left])
    std = np.sqrt((CLUSTERS - 1) / CLUSTERS * np.sum(change**2, axis=0))
    p = 2.0 * student.sf(np.abs(least - instrumental) / std, CLUSTERS - 1)
    np.testing.assert_allclose([d.least_squares for d in found.differences], least, rtol=1e-10)
    np.testing.assert_allclose([d.instrumental for d in found.differences], instrumental, rtol=1e-10)
    np.testing.assert_allclose([d.std for d in found.differences], std, rtol=1e-8)
    assert found.p_value == pytest.approx(min(1.0, p.min() * len(p)))

    rest = y - w @ instrumental
    back = np.linalg.inv(z.T @ w)
    spread = back @ (z.T @ z) @ back.T - np.linalg.inv(w.T @ w)
    difference = least - instrumental
    statistic = difference @ np.linalg.solve(spread, difference) / (rest @ rest / (len(y) - 6))
    assert found.p_value_textbook == pytest.approx(chi2.sf(statistic, 6), rel=1e-6, abs=1e-12)


def test_only_used_parameters_take_part() -> None:
    base, both = plain(*drawn(1, 0.0), 48)
    used = np.array([True, False, True, True, False, True])
    found = durbin_wu_hausman(base, both, np.ones(1), CLUSTERS, used)
    assert [d.name for d in found.differences] == [base.names[k] for k in np.flatnonzero(used)]


def test_the_measured_columns_as_instruments_show_no_difference() -> None:
    _, w, y = drawn(1, 0.4)
    found = durbin_wu_hausman(*plain(w, w, y, 48), np.ones(1), CLUSTERS)
    assert max(abs(d.in_sigmas) for d in found.differences) < 1e-9
    assert not found.matters


def test_too_few_blocks_are_refused() -> None:
    with pytest.raises(EstimationError, match="Only 4 blocks of time"):
        durbin_wu_hausman(*plain(*drawn(1, 0.0), 4), np.ones(1), CLUSTERS)


# --- Size and power ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_size_holds_under_residuals_correlated_in_time() -> None:
    tests = [compared(seed, 0.0) for seed in range(200)]
    rejected = np.mean([test.rejected for test in tests])
    # 5 % of 200, within two standard deviations above
    assert rejected <= 0.08


def test_feedback_into_one_column_is_found_and_named() -> None:
    tests = [compared(seed, 0.3) for seed in range(20)]
    assert np.mean([test.rejected for test in tests]) >= 0.9
    assert all(test.differing[0].name == "part0.x" for test in tests if test.rejected)


@pytest.mark.slow
def test_the_nominal_arm_keeps_least_squares() -> None:
    tests = arm_tests(NOMINAL)
    assert sum(test.rejected for test in tests) <= 0.1 * RUNS
    assert not any(test.matters for test in tests)
    # the textbook form takes every row for an independent fact
    assert sum(test.p_value_textbook < 0.05 for test in tests) > 0.3 * RUNS
    assert {f.code for test in tests for f in test.findings()} == {"exogenous"}


@pytest.mark.slow
def test_a_disturbance_in_the_loop_rejects_least_squares_and_iv_is_right() -> None:
    tests = arm_tests(ENDOGENOUS)
    assert sum(test.matters for test in tests) >= 0.9 * RUNS
    least, instrumental = biases(tests)
    worst = np.argsort(-np.abs(least))[:5]
    assert np.all(np.abs(least[worst]) > 3.0)
    assert np.all(np.abs(instrumental[worst]) <= np.abs(least[worst]) / 3.0)
    finding = tests[0].findings()[0]
    assert (finding.code, finding.severity) == ("endogenous", "warning")
    assert tests[0].differing[0].name in finding.message
    assert "iv" in finding.fix


@pytest.mark.slow
def test_narrow_filters_take_the_same_disturbance_out_of_the_regressor() -> None:
    wide, narrow = arm_tests(ENDOGENOUS), arm_tests(replace(ENDOGENOUS, cutoff_hz=40.0, lowpass_hz=3.0))
    assert sum(test.matters for test in narrow) < sum(test.matters for test in wide)


# --- Words ------------------------------------------------------------------------------------------------------------


def test_a_sure_but_tiny_difference_is_told_and_does_not_warn() -> None:
    tiny = Difference("link2.YY", 1.0005, 1.0, 1e-4, 0.01, 1e-3)
    found = Exogeneity((tiny,), 1e-3, 1e-9, 12)
    assert found.rejected
    assert not found.matters
    (finding,) = found.findings()
    assert (finding.code, finding.severity) == ("exogenous", "info")
    assert "link2.YY +0.0005 (+0.05 σ, +0.05%)" in finding.message
    large = replace(found, differences=(tiny._replace(least_squares=1.02),))
    assert large.findings()[0].code == "endogenous"
