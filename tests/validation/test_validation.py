"""Held-out scores against plain NumPy, cross-validation against refits from raw rows, and the integrity test."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import t as student

from steelyard._arrays import Array
from steelyard.errors import DataError, EstimationError, ModelError
from steelyard.estimators import LS, WLS, Estimator
from steelyard.estimators.essential import Essential
from steelyard.identification.identify import identify
from steelyard.identification.result import DriveGains, Identification
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.payload import Payload
from steelyard.model.robot import Link
from steelyard.model.terms import named_terms, plain_terms, rich_terms
from steelyard.project.demos.demo import demo
from steelyard.project.documents import record, text
from steelyard.project.project import read_project
from steelyard.project.result_file import read_result
from steelyard.regression.information import Information
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.regression.scores import score
from steelyard.signals.channels import Drives
from steelyard.signals.prepare import Preparation, prepare
from steelyard.signals.samples import Piece, Samples, Stretch
from steelyard.validation import EffortScore, compare, cross_validate, validate, whiteness
from steelyard.validation.comparison import compared_rows
from steelyard.validation.residuals import WHITENESS_ROWS
from testbed.command import Run
from testbed.simulated import (
    arm,
    channels_of,
    coloured,
    forked,
    log_of,
    model_of,
    motion_of,
    recording_of,
    samples_of,
    truth_of,
)

FILTERS: dict[str, Any] = {"lowpass_hz": 8.0, "decimate": 6}
ROOT = Path(__file__).resolve().parents[2]


@cache
def fitted() -> tuple[Problem, Identification]:
    """A three-joint arm fitted to two noisy runs; the truth it is measured by is 10 % off its nominal values."""
    model = model_of(arm(3))
    runs = [noisy(model, seed, name=f"run{seed}") for seed in (1, 2)]
    problem = Problem(model, runs, **FILTERS)
    return problem, identify(problem)


def noisy(model: Model, seed: int, count: int = 3000, name: str = "other", factor: float = 1.1) -> Samples:
    motion = motion_of(model.robot, count, 200.0, seed)
    effort = model.torque(*motion[:3], factor * truth_of(model))
    effort = effort + 0.5 * np.random.default_rng(seed).standard_normal(effort.shape)
    return Samples.from_arrays(name, model.robot.joint_names, 200.0, *motion[:3], effort)


def windowed(samples: Samples) -> Samples:
    """The same with unclean edges and a window inside."""
    (whole,) = samples.stretches
    return replace(samples, stretches=(Stretch(0.0, whole.length, (50, whole.length - 30), (400, 2500)),))


class Rows(NamedTuple):
    """Rows of one run by plain NumPy: W (n, C, m), y, v, q (n, m), kept (n, m), number (m,)."""

    w: Array
    y: Array
    v: Array
    q: Array
    kept: NDArray[np.bool_]
    number: NDArray[np.int64]


def rows_of(problem: Problem, run: Samples, filtered: bool = True) -> Rows:
    """Regressor of the whole run, convolved with the filter's taps and thinned; no tile, no stream.

    Memories begin where the stretch is clean; delays are whole samples, and act on filtered rows.
    """
    (piece,) = run.open()
    (stretch,) = run.stretches
    first, stop = stretch.clean
    t = np.arange(piece.q.shape[1]) / run.rate
    w = np.zeros((piece.q.shape[0], len(problem.model.layout), piece.q.shape[1]))
    q, v, a, clean = (x[..., first:stop] for x in (*piece[2:5], t))
    w[..., first:stop] = problem.model.regressor(q, v, a, clean)
    effort = piece.effort
    if filtered and problem.delay:
        effort = np.stack([np.roll(y, -round(d * run.rate)) for y, d in zip(effort, problem.delay, strict=True)])
    resting = np.where(np.abs(piece.v) < problem.rest_speeds[:, None], 1.0, 0.0)
    signals = [x[..., first:stop] for x in (w, effort, piece.v, piece.q, resting)]
    centre = np.arange(first, stop)
    if filtered:
        decimator = problem.decimator(run)
        taps, step = decimator.taps, decimator.factor
        signals = [np.apply_along_axis(lambda x: np.convolve(x, taps, "valid"), -1, x)[..., ::step] for x in signals]
        centre = np.arange(first + decimator.half, stop - decimator.half)[::step]
    w, y, v, q, still = signals
    inside = (centre >= stretch.window[0]) & (centre < stretch.window[1])
    # the filter weighs the samples at rest to at most a tenth
    kept = inside & (np.abs(v) >= problem.rest_speeds[:, None]) & (np.abs(still) <= 0.1)
    return Rows(w, y, v, q, kept, np.arange(len(centre)))


def by_hand(parts: list[Rows], theta: Array) -> dict[str, list[float]]:
    """Relative error, RMSE, R² and rows of every joint, then in total, by their definitions."""
    out: dict[str, list[float]] = {"relative_error": [], "rmse": [], "r2": [], "rows": []}
    pooled = np.zeros(4)
    for j in range(len(parts[0].y)):
        y = np.concatenate([p.y[j, p.kept[j]] for p in parts])
        e = y - np.concatenate([theta @ p.w[j][:, p.kept[j]] for p in parts])
        sums = np.array([e @ e, y @ y, np.sum((y - y.mean()) ** 2), len(y)])
        pooled += sums
        for key, x in zip(out, marks(*sums), strict=True):
            out[key].append(x)
    for key, x in zip(out, marks(*pooled), strict=True):
        out[key].append(x)
    return out


def marks(error: float, size: float, spread: float, rows: float) -> tuple[float, float, float, float]:
    return float(np.sqrt(error / size)), float(np.sqrt(error / rows)), 1.0 - error / spread, rows


def assert_scores(given: EffortScore | None, wanted: dict[str, list[float]]) -> None:
    assert given is not None
    for key, values in wanted.items():
        np.testing.assert_allclose(list(getattr(given, key).values()), values, rtol=1e-9)
    assert [*given.rows][-1] == "total"


# --- Held-out scores --------------------------------------------------------------------------------------------------


def held_out_runs(kind: str) -> list[Samples]:
    model = fitted()[0].model
    runs = [noisy(model, 7, name="a"), noisy(model, 8, 2000, name="b")]
    return [windowed(runs[0])] if kind == "a window" else runs


@pytest.mark.parametrize("kind", ["two runs", "a window"])
def test_scores_are_those_of_plain_numpy(kind: str) -> None:
    problem, result = fitted()
    runs = held_out_runs(kind)
    judged = validate(result, problem, runs)
    nominal = truth_of(problem.model)
    filtered = [rows_of(problem, run) for run in runs]
    raw = [rows_of(problem, run, filtered=False) for run in runs]
    assert_scores(judged.filtered, by_hand(filtered, result.theta))
    assert_scores(judged.nominal_filtered, by_hand(filtered, nominal))
    assert_scores(judged.raw, by_hand(raw, result.theta))
    assert_scores(judged.nominal_raw, by_hand(raw, nominal))
    for run, rows in zip(runs, filtered, strict=True):
        assert_scores(judged.by_run[run.name], by_hand([rows], result.theta))
    assert judged.relative_error["total"] < judged.nominal_filtered.relative_error["total"]  # type: ignore[union-attr]
    assert "low-passed" in judged.filtered.mask
    assert "unfiltered" in judged.raw.mask


@pytest.mark.parametrize("kind", ["two runs", "a window"])
def test_scores_of_terms_with_a_memory_and_of_late_efforts(kind: str) -> None:
    """Pre-sliding, load and drift on held-out runs, whose efforts lag; raw effort is scored as it was measured."""
    robot = arm(3)
    model = Model(robot, named_terms((*rich_terms(robot), "drift")))
    problem = Problem(model, fitted()[0].runs, delay=[0.01, 0.0, -0.025], **FILTERS)
    result = identify(problem)
    runs = held_out_runs(kind)
    judged = validate(result, problem, runs)
    assert_scores(judged.filtered, by_hand([rows_of(problem, run) for run in runs], result.theta))
    assert_scores(judged.raw, by_hand([rows_of(problem, run, filtered=False) for run in runs], result.theta))
    wanted = score(observe(problem.with_runs(runs)), result.theta, "")
    assert judged.relative_error["total"] == pytest.approx(wanted.total, rel=1e-10)


def test_filtered_scores_are_those_of_the_triangles() -> None:
    problem, result = fitted()
    runs = held_out_runs("two runs")
    judged = validate(result, problem, runs)
    wanted = score(observe(problem.with_runs(runs)), result.theta, "")
    assert judged.relative_error["total"] == pytest.approx(wanted.total, rel=1e-10)
    for joint, rows in wanted.rows.items():
        assert judged.filtered.rows[joint] == rows
        assert judged.filtered.rmse[joint] == pytest.approx(wanted.rmse[joint], rel=1e-10)


def test_the_mask_is_that_of_the_fit() -> None:
    """A slow held-out run is not measured by its own top speed."""
    problem, result = fitted()
    slow = noisy(problem.model, 7)
    slow = replace(slow, top_speed=0.1 * slow.top_speed)
    assert (
        validate(result, problem, [slow]).filtered.rows
        == validate(result, problem, [noisy(problem.model, 7)]).filtered.rows
    )
    speeds = ", ".join(f"{x:.4g}" for x in problem.rest_speeds)
    assert f"[{speeds}]" in validate(result, problem, [slow]).raw.mask


def test_r2_is_about_the_mean_of_the_scored_rows() -> None:
    """Predicting a joint's mean has R² zero; efforts that never vary cannot be scored."""
    problem, result = fitted()
    run = noisy(problem.model, 7)
    (piece,) = run.open()
    bare = Problem(problem.model, [run], rest=0.0)
    zero = replace(result, value=np.zeros(len(result.base)))
    offset = [result.base.names.index(f"joint{j}.off") for j in (1, 2, 3)]
    mean = zero.value.copy()
    mean[offset] = piece.effort.mean(axis=1)
    judged = validate(replace(result, value=mean), bare, [run])
    np.testing.assert_allclose(list(judged.raw.r2.values()), 0.0, atol=1e-12)
    judged = validate(zero, bare, [run])
    assert judged.relative_error["total"] == pytest.approx(1.0)
    assert "no better than predicting zero" in judged.verdict
    constant = Samples.from_arrays("still", run.joints, run.rate, *piece[2:5], np.full_like(piece.effort, 2.0))
    with pytest.raises(DataError, match=r"still: no rows are left to score .* changing efforts"):
        validate(zero, bare, [constant])


def cut(samples: Samples, size: int) -> Samples:
    def pieces() -> Iterator[Piece]:
        (whole,) = samples.open()
        for first in range(0, whole.q.shape[1], size):
            yield Piece(0, first, *(x[:, first : first + size] for x in whole[2:6]))

    return replace(samples, open=pieces)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 37, 400, 1001])
def test_the_cut_of_the_samples_leaves_no_trace(size: int) -> None:
    problem, result = fitted()
    run = windowed(noisy(problem.model, 7))
    one, other = validate(result, problem, [run]), validate(result, problem, [cut(run, size)])
    for name in ("filtered", "raw", "nominal_raw"):
        for key in ("relative_error", "rmse", "r2", "rows"):
            a, b = (getattr(getattr(x, name), key) for x in (one, other))
            np.testing.assert_allclose(list(a.values()), list(b.values()), rtol=1e-11)
    for joint in run.joints:
        assert one.whiteness[joint].rows == other.whiteness[joint].rows
        assert one.whiteness[joint].outside == other.whiteness[joint].outside
        for bins in ("against_velocity", "against_position"):
            a, b = (getattr(x, bins)[joint] for x in (one, other))
            assert [each.rows for each in a] == [each.rows for each in b]
            np.testing.assert_allclose([x.mean for x in a], [x.mean for x in b], rtol=1e-8, atol=1e-10)


def test_the_chunks_of_the_reader_leave_no_trace() -> None:
    problem, result = fitted()
    robot = problem.model.robot
    log = recording_of(log_of(problem.model, 3000, seed=5))
    settings = Preparation(cutoff_hz=20.0)
    told = [
        validate(result, problem, [prepare(log, robot, channels_of(robot), settings, chunk_rows=rows)])
        for rows in (65536, 97)
    ]
    assert told[0] == told[1]


def test_residuals_by_speed_and_by_position() -> None:
    problem, result = fitted()
    run = noisy(problem.model, 7)
    judged = validate(result, problem, [run])
    rows = rows_of(problem, run)
    for j, joint in enumerate(run.joints):
        e = (rows.y[j] - result.theta @ rows.w[j])[rows.kept[j]]
        for x, width, bins in (
            (rows.v[j], 2 * run.top_speed[j] / 20, judged.against_velocity[joint]),
            (rows.q[j], run.travel[j] / 20, judged.against_position[joint]),
        ):
            place = np.floor(x[rows.kept[j]] / width)
            assert len(bins) == len(np.unique(place)) <= 21
            assert sum(each.rows for each in bins) == len(e)
            for each, k in zip(bins, np.unique(place), strict=True):
                assert each.centre == pytest.approx((k + 0.5) * width)
                assert each.mean == pytest.approx(e[place == k].mean(), abs=1e-9)
                assert each.deviation == pytest.approx(e[place == k].std(), abs=1e-6)


def test_the_residual_against_speed_shows_what_the_model_lacks() -> None:
    """Coulomb friction left out of the model stands in the bins as a step at zero speed."""
    problem, result = fitted()
    run = noisy(problem.model, 7)
    value = result.value.copy()
    value[result.base.names.index("joint1.Fc")] = 0.0
    bins = validate(replace(result, value=value), problem, [run]).against_velocity["joint1"]
    size = result.value[result.base.names.index("joint1.Fc")]
    assert np.mean([b.mean for b in bins if b.centre > 0.5]) == pytest.approx(size, rel=0.2)
    assert np.mean([b.mean for b in bins if b.centre < -0.5]) == pytest.approx(-size, rel=0.2)


def test_whiteness() -> None:
    rng = np.random.default_rng(0)
    every = np.ones(4000, bool)
    white = whiteness(rng.standard_normal(4000), every)
    assert white.outside <= 0.15
    assert white.correlation_rows < 1.5
    memory = 0.9
    slow = whiteness(coloured(rng, (1, 4000), memory)[0], every)
    # 1 + 2 Σ 0.9^k = 19
    assert slow.correlation_rows == pytest.approx(19.0, rel=0.5)
    assert slow.outside > 0.3
    assert slow.autocorrelation[0] == 1.0
    assert slow.autocorrelation[1] == pytest.approx(memory, abs=0.03)
    nothing = whiteness(np.zeros(100), np.zeros(100, bool))
    assert (nothing.rows, nothing.autocorrelation) == (0, ())
    assert whiteness(np.zeros(100), np.ones(100, bool)).correlation_rows == 1.0


def test_whiteness_pairs_only_rows_that_were_both_scored() -> None:
    rng = np.random.default_rng(1)
    x = coloured(rng, (1, 500), 0.8)[0]
    scored = rng.random(500) < 0.7
    got = whiteness(np.where(scored, x, 1e6), scored)
    y = x - x[scored].mean()
    for k in (1, 2, 5, 17):
        both = scored[:-k] & scored[k:]
        wanted = np.mean(y[:-k][both] * y[k:][both]) / np.mean(y[scored] ** 2)
        assert got.autocorrelation[k] == pytest.approx(wanted, abs=1e-9)


def test_memory_is_flat() -> None:
    """Of a long run, only a bounded number of residual rows is kept."""
    problem, result = fitted()
    short = samples_of(problem.model, 2000, noise=0.5)
    (piece,) = short.open()
    times = 20
    long = replace(
        short,
        stretches=(Stretch(0.0, 2000 * times, (0, 2000 * times), (0, 2000 * times)),),
        open=lambda: (piece._replace(first=2000 * k) for k in range(times)),
    )
    every = Problem(problem.model, problem.runs)
    judged = validate(result, every, [long])
    assert judged.raw.rows["total"] == times * validate(result, every, [short]).raw.rows["total"]
    assert max(white.rows for white in judged.whiteness.values()) <= WHITENESS_ROWS


def test_a_joint_at_rest_is_not_scored() -> None:
    problem, result = fitted()
    (piece,) = noisy(problem.model, 7).open()
    q, v, a = (x.copy() for x in piece[2:5])
    q[1], v[1], a[1] = 0.3, 0.0, 0.0
    run = Samples.from_arrays("two joints", problem.model.robot.joint_names, 200.0, q, v, a, piece.effort)
    judged = validate(result, problem, [run])
    assert judged.filtered.rows["joint2"] == judged.raw.rows["joint2"] == 0
    assert np.isnan(judged.relative_error["joint2"])
    assert np.isfinite(judged.relative_error["total"])
    assert judged.against_velocity["joint2"] == ()
    json.loads(text(record("steelyard.validation/1", judged)))


def test_a_run_without_motion_is_told() -> None:
    problem, result = fitted()
    still = np.full((3, 2000), 0.2)
    run = Samples.from_arrays("rest", problem.model.robot.joint_names, 200.0, still, 0 * still, 0 * still, still)
    with pytest.raises(DataError, match="rest: no rows are left to score"):
        validate(result, problem, [run])


def test_another_model_is_told() -> None:
    problem, result = fitted()
    other = model_of(forked())
    with pytest.raises(ModelError, match=r"robot 'arm'.*'forked'"):
        validate(result, Problem(other, [samples_of(other)]), [samples_of(other)])
    bare = Model(problem.model.robot, ())
    with pytest.raises(ModelError, match="same robot and terms"):
        validate(result, Problem(bare, problem.runs), problem.runs)


def test_without_nominal_values_there_is_nothing_beside() -> None:
    robot = arm(2)
    model = model_of(robot)
    run, other = noisy(model, 1), noisy(model, 2)
    bare = replace(robot, links=tuple(Link(link.name) for link in robot.links))
    problem = Problem(model_of(bare), [run], **FILTERS)
    judged = validate(identify(problem), problem, [other])
    assert judged.nominal_filtered is judged.nominal_raw is None
    assert "no nominal inertias" in judged.verdict


# --- Cross-validation -------------------------------------------------------------------------------------------------


def refit(
    problem: Problem, runs: list[Rows], test: Sequence[NDArray[np.bool_]], weighted: bool
) -> tuple[list[float], float]:
    """Sums of squares of the test rows (n,) after a fit to the others, all from raw rows."""
    base = base_parameters(problem.model)
    kept = list(base.kept)
    fits, tests = [], []
    for j in range(problem.model.robot.dof):
        train = [(r.w[j][kept][:, k].T, r.y[j, k]) for r, t in zip(runs, test, strict=True) for k in [r.kept[j] & ~t]]
        own = [(r.w[j][kept][:, k].T, r.y[j, k]) for r, t in zip(runs, test, strict=True) for k in [r.kept[j] & t]]
        fits.append([np.concatenate(x) for x in zip(*train, strict=True)])
        tests.append([np.concatenate(x) for x in zip(*own, strict=True)])
    weights = []
    for w, y in fits:
        rest = y - w @ np.linalg.lstsq(w, y, rcond=1e-12)[0]
        live = w[:, np.any(w != 0, axis=0)]
        weights.append(np.sqrt((len(y) - np.linalg.matrix_rank(live)) / (rest @ rest)) if weighted else 1.0)
    w = np.concatenate([k * x for (x, _), k in zip(fits, weights, strict=True)])
    y = np.concatenate([k * x for (_, x), k in zip(fits, weights, strict=True)])
    scale = np.linalg.norm(w, axis=0)
    chi = np.linalg.lstsq(w / scale, y, rcond=None)[0] / scale
    errors = [float(np.sum((y - w @ chi) ** 2)) for w, y in tests]
    return errors, float(np.sqrt(sum(errors) / sum(y @ y for _, y in tests)))


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [LS(), WLS()], ids=lambda e: e.name)
@pytest.mark.parametrize("folds", [10, 4, "runs"])
def test_cross_validation_equals_refits_from_raw_rows(estimator: Estimator, folds: Any) -> None:
    model = model_of(arm(3))
    runs = [noisy(model, seed, 2400, name=f"run{seed}") for seed in (1, 2, 3)]
    problem = Problem(model, runs, **FILTERS)
    # without the guard: the folds are then all the rows
    information, base = replace(observe(problem), guard=0.0), base_parameters(model)
    judged = cross_validate(base, information, estimator, folds, problem.mask)
    raw = [rows_of(problem, run) for run in runs]
    block = [rows.number // information.block_rows[run.name] for rows, run in zip(raw, runs, strict=True)]
    groups = (
        [tuple(time for time in information.times if time[0] == run.name) for run in runs]
        if folds == "runs"
        else information.clusters(folds)
    )
    assert len(judged.folds) == len(groups)
    pooled = np.zeros(3)
    for fold, times in zip(judged.folds, groups, strict=True):
        test = [np.isin(b, [t[2] for t in times if t[0] == run.name]) for b, run in zip(block, runs, strict=True)]
        errors, total = refit(problem, raw, test, estimator.name == "wls")
        assert fold.score.total == pytest.approx(total, rel=1e-9)
        np.testing.assert_allclose(
            [fold.score.rmse[j] ** 2 * fold.score.rows[j] for j in model.robot.joint_names], errors, rtol=1e-9
        )
        assert fold.not_excited == ()
        assert fold.score.mask == problem.mask
        pooled += errors
    size = sum(r.y[j, r.kept[j]] @ r.y[j, r.kept[j]] for r in raw for j in range(3))
    assert judged.pooled.total == pytest.approx(np.sqrt(pooled.sum() / size), rel=1e-9)
    assert sum(judged.pooled.rows.values()) == information.rows().sum()
    assert judged.nominal is not None
    assert judged.nominal.total == pytest.approx(score(information, truth_of(model), "").total)
    # what was not seen is explained a little worse than what was
    assert judged.pooled.total >= score(information, identify(problem, LS()).theta, "").total


def test_leave_one_run_out_is_a_fit_without_it() -> None:
    model = model_of(arm(2))
    runs = [noisy(model, seed, 2000, name=f"run{seed}") for seed in (1, 2, 3)]
    problem = Problem(model, runs, rest=[0.02, 0.02], **FILTERS)
    judged = cross_validate(base_parameters(model), observe(problem), WLS(), "runs")
    assert [fold.name for fold in judged.folds] == ["run 'run1'", "run 'run2'", "run 'run3'"]
    for k, fold in enumerate(judged.folds):
        others = replace(problem, runs=[run for run in runs if run is not runs[k]])
        held_out = identify(others, WLS(), held_out=problem.with_runs([runs[k]])).unseen
        assert held_out is not None
        assert fold.score.total == pytest.approx(held_out.total, rel=1e-9)
        assert fold.score.rows == held_out.rows


def test_any_estimator_can_be_cross_validated() -> None:
    problem, _ = fitted()
    judged = cross_validate(base_parameters(problem.model), observe(problem), Essential(), 5)
    assert judged.estimator == "essential"
    assert judged.pooled.total < 0.1
    assert f"{len(judged.folds)} folds" in judged.verdict


def test_restricting_splits_the_information_in_two() -> None:
    problem, _ = fitted()
    information = observe(problem)
    times = information.clusters(5)[0]
    part, rest = information.at(times), information.at(set(information.times) - set(times))
    assert set(part.times) == set(times)
    assert set(part.times) | set(rest.times) == set(information.times)
    np.testing.assert_array_equal(part.rows() + rest.rows(), information.rows())


def resting(model: Model) -> Samples:
    still = np.zeros((model.robot.dof, 2000))
    return Samples.from_arrays("parked", model.robot.joint_names, 200.0, still, still, still, still)


def test_a_fold_without_motion_is_named() -> None:
    model = model_of(arm(2))
    information = observe(Problem(model, [noisy(model, 1), noisy(model, 2, name="b"), resting(model)], **FILTERS))
    base = base_parameters(model)
    with pytest.raises(EstimationError, match="run 'parked' contains no motion"):
        cross_validate(base, information, WLS(), "runs")
    # stretches of time are made of motion only
    assert all("parked" not in fold.name for fold in cross_validate(base, information, WLS(), 5).folds)


@pytest.mark.parametrize("folds", [0, 1, -3, True, "run", 2.5])
def test_bad_folds_are_told(folds: Any) -> None:
    problem, _ = fitted()
    with pytest.raises(EstimationError, match=r'folds must be "runs" or a whole number of at least 2'):
        cross_validate(base_parameters(problem.model), observe(problem), WLS(), folds)


def test_one_fold_is_no_cross_validation() -> None:
    model = model_of(arm(2))
    information = observe(Problem(model, [noisy(model, 1)], **FILTERS))
    with pytest.raises(EstimationError, match=r"only one fold.*two runs or more"):
        cross_validate(base_parameters(model), information, WLS(), "runs")


def test_a_fold_that_leaves_too_little_is_named() -> None:
    model = model_of(arm(2))
    information = observe(Problem(model, [noisy(model, 1), noisy(model, 2, 100, name="short")], **FILTERS))
    with pytest.raises(EstimationError, match=r"Without run 'other' there is no estimate: .*log is too short"):
        cross_validate(base_parameters(model), information, WLS(), "runs")


# --- Integrity --------------------------------------------------------------------------------------------------------


@cache
def weighed(seed: int, column: str | None = None) -> Identification:
    """One experiment on the arm with coloured noise, one column of the truth 20 % larger."""
    model = model_of(arm(3))
    theta = truth_of(model).copy()
    if column is not None:
        theta[model.layout.index(column)] *= 1.2
    motion = motion_of(model.robot, 4000, 200.0, seed)
    clean = model.torque(*motion[:3], theta)
    noise = coloured(np.random.default_rng(seed), clean.shape, 0.8)
    effort = clean + 0.02 * np.sqrt(np.mean(clean**2, axis=1, keepdims=True)) * noise
    run = Samples.from_arrays("run", model.robot.joint_names, 200.0, *motion[:3], effort)
    return identify(Problem(model, [run], **FILTERS))


@pytest.mark.parametrize("column", ["link2.YY", "link3.XX", "link2.ZZ"])
def test_a_changed_inertia_is_found(column: str) -> None:
    before, after = weighed(1), weighed(2, column)
    found = compare(before, after)
    reached = {name for name, group in before.base.regroupings.items() if column in group}
    assert reached & set(found.changed)
    assert set(found.changed) <= reached
    assert "has changed" in found.verdict
    change = next(c for c in found.changes if c.name in reached)
    assert change.difference == pytest.approx(change.after - change.before)


@pytest.mark.slow
def test_the_same_robot_gives_few_false_alarms() -> None:
    alarms = [compare(weighed(2 * k + 100), weighed(2 * k + 101)) for k in range(20)]
    # family-wise 5 %: 1 of 20 is to be expected (2 of 200 pairs were counted)
    assert sum(bool(found.changed) for found in alarms) <= 3
    assert "No significant change" in next(found.verdict for found in alarms if not found.changed)


def test_the_numbers_of_a_comparison() -> None:
    before, after = weighed(1), weighed(2)
    found = compare(before, after)
    assert found.freedom == min(before.clusters, after.clusters) - 1
    assert [c.name for c in found.changes] == list(before.base.names)
    std = np.sqrt(before.std**2 + after.std**2)
    t = (after.value - before.value) / std
    np.testing.assert_allclose([c.t for c in found.changes], t)
    p = 2 * student.sf(np.abs(t), found.freedom)
    np.testing.assert_allclose([c.p for c in found.changes], p)
    assert all(c.p <= c.p_holm <= 1.0 for c in found.changes)


def test_nothing_has_changed_against_itself() -> None:
    found = compare(weighed(1), weighed(1))
    assert found.changed == ()
    assert all((c.t, c.p_holm) == (0.0, 1.0) for c in found.changes)


def test_what_cannot_be_compared_is_listed() -> None:
    before, after = weighed(1), weighed(2)
    value, name = after.value.copy(), after.base.names[3]
    value[3] = np.nan
    found = compare(replace(before, cancelled=(before.base.names[0],)), replace(after, value=value))
    assert found.untested == (name,)
    assert found.only_after == (before.base.names[0],)
    assert found.only_before == ()
    assert len(found.changes) == len(before.base) - 2
    few = compare(replace(before, clusters=0), after)
    assert few.freedom == np.inf
    nothing = replace(before, value=np.full(len(before.base), np.nan))
    assert "Nothing can be compared" in compare(nothing, after).verdict


def with_gains(result: Identification, gain: Sequence[float], std: float = 0.1, ratio: float = 100.0) -> Identification:
    """The result with identified drive gains [N.m/A] beside a stated one of 2."""
    joints, size = result.relative_error.joints, 3 + len(result.base)
    drives = Drives(("A",) * 3, (2.0,) * 3, (ratio,) * 3, "motor", ("N.m/A",) * 3)
    covariance = (std / 2.0) ** 2 * np.eye(size)
    gains = DriveGains(tuple(joints), np.array(gain) / 2.0, drives, covariance, covariance, np.zeros(size))
    return replace(result, gains=gains)


def test_drive_gains_are_compared_with_the_others() -> None:
    before, after = weighed(1), weighed(2)
    plain = compare(before, after)
    found = compare(with_gains(before, [2.0, 2.1, 1.9]), with_gains(after, [2.05, 2.1, 3.9]))
    assert [c.name for c in found.changes[-3:]] == [f"{joint}.gain" for joint in before.relative_error.joints]
    assert [c.name for c in found.changes[:-3]] == [c.name for c in plain.changes]
    last = found.changes[-1]
    assert (last.unit, last.before, last.after) == ("N.m/A", pytest.approx(1.9), pytest.approx(3.9))
    assert last.t == pytest.approx(2.0 / np.hypot(0.1, 0.1))
    assert found.changed == (last.name,)
    assert f"{len(before.base)} base parameters and 3 drive gains compared" in found.verdict
    assert not found.gains_only


def test_gains_that_only_one_result_has_are_said() -> None:
    gained = with_gains(weighed(1), [2.0, 2.0, 2.0])
    found = compare(gained, weighed(2))
    assert found.gains_only == "before"
    assert found.only_before == tuple(row.name for row in compared_rows(gained)[-3:])
    assert "Drive gains were identified before only" in found.verdict
    assert compare(weighed(2), gained).gains_only == "after"
    # told on another side of the gears they are other numbers
    other = compare(gained, with_gains(weighed(2), [200.0, 200.0, 200.0], ratio=1.0))
    assert other.untested == found.only_before


def test_a_payload_is_no_part_of_the_robot() -> None:
    base = base_parameters(replace(model_of(arm(3)), payloads=[Payload("tool", known={"M": 2.0})]))
    before, size = weighed(1), len(base)
    value, std = np.zeros(size), np.full(size, 0.1)
    for k, name in enumerate(base.names):
        if name in before.base.names:
            value[k] = before.value[before.base.names.index(name)]
    carrying = replace(before, base=base, value=value, covariance=np.diag(std**2), covariance_classical=np.diag(std**2))
    found = compare(before, carrying)
    assert (found.changed, found.untested, found.only_before) == ((), (), ())
    assert [c.name for c in found.changes] == list(before.base.names)
    assert all(name.startswith("tool.") for name in found.only_after)


def test_another_robot_cannot_be_compared() -> None:
    model = model_of(forked())
    other = identify(Problem(model, [samples_of(model, noise=0.5)], **FILTERS))
    with pytest.raises(EstimationError, match=r"'arm' and 'forked' cannot be compared.*link4"):
        compare(weighed(1), other)


# --- The command line -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A robot weighed twice with different motion (one, two), and another robot's demo (planar)."""
    folder = tmp_path_factory.mktemp("demos")
    demo("planar2r", folder / "planar")
    demo("tx40", folder / "one", seed=7)
    demo("tx40", folder / "two", seed=8)
    return folder


def test_a_constant_effort_is_reported_and_not_scored() -> None:
    problem, result = fitted()
    run = noisy(problem.model, 3)
    (piece,) = run.open()
    effort = piece.effort.copy()
    effort[1] = 0.3
    silent = Samples.from_arrays("silent", run.joints, run.rate, piece.q, piece.v, piece.a, effort)
    whole, judged = validate(result, problem, [run]), validate(result, problem, [silent])
    assert [(one.code, one.where) for one in judged.findings] == [("constant-effort", "joint2")]
    assert whole.findings == ()
    for found, full in ((judged.filtered, whole.filtered), (judged.raw, whole.raw)):
        assert found.rows["joint2"] == 0
        assert np.isnan([found.r2["joint2"], found.relative_error["joint2"], found.rmse["joint2"]]).all()
        assert found.r2["joint1"] == full.r2["joint1"]
        assert found.rows["total"] == found.rows["joint1"] + found.rows["joint3"]
        assert found.relative_error["total"] < 1.0


def test_validate_reports_a_constant_effort(steelyard: Run, demos: Path, tmp_path: Path) -> None:
    header, *lines = (demos / "one" / "validate.csv").read_text("utf-8").splitlines()
    at = header.split(",").index("tau_joint2")
    rows = [line.split(",") for line in lines]
    text = [header, *(",".join([*row[:at], "0.3", *row[at + 1 :]]) for row in rows)]
    (tmp_path / "silent.csv").write_text("\n".join(text) + "\n", "utf-8")
    told = steelyard("validate", demos / "one" / "project-run", tmp_path / "silent.csv", "--json")
    assert told.code == 4
    assert [(x["code"], x["where"]) for x in told.document["findings"]] == [("constant-effort", "joint2")]
    assert told.document["filtered"]["r2"]["joint2"] is None
    told = steelyard("validate", demos / "one" / "project-run", tmp_path / "silent.csv")
    assert "the effort of joint2 never changes in 'silent.csv'" in told.err
    (shown,) = [line for line in told.err.splitlines() if re.match(r"\W*joint2 ", line)]
    assert shown.count("—") >= 4


@pytest.mark.slow
def test_validate_end_to_end(steelyard: Run, demos: Path) -> None:
    log = demos / "one" / "validate.csv"
    told = steelyard("validate", demos / "one" / "project-run", log, "--json")
    assert told.code == 0
    data = told.document
    assert data["schema"] == "steelyard.validation/1"
    unseen = read_result(demos / "one" / "project-run").unseen
    assert unseen is not None
    # the mask is known to four digits
    assert data["filtered"]["relative_error"]["total"] == pytest.approx(unseen.total, rel=1e-3)
    assert data["filtered"]["relative_error"]["total"] < data["nominal_filtered"]["relative_error"]["total"]
    assert data["filtered"]["relative_error"]["total"] < data["raw"]["relative_error"]["total"] < 0.1
    assert set(data["filtered"]["rows"]) == {*unseen.rows, "total"}
    assert data["seen"] == []
    assert (data["failed"], data["fail_above"]) == (False, None)
    assert len(data["logs"][0]["sha256"]) == 64
    assert set(data["against_velocity"]["joint1"][0]) == {"centre", "mean", "deviation", "rows"}
    assert 0.0 <= data["whiteness"]["joint1"]["outside"] <= 1.0
    for_people = steelyard("validate", demos / "one" / "project-run" / "result.json", log)
    assert (for_people.code, for_people.out) == (0, "")
    assert "Relative error" in " ".join(for_people.err.split())
    assert "Explains" in for_people.err


@pytest.mark.parametrize(("limit", "code"), [("0.2", 0), ("0.001", 1)])
def test_the_exit_code_says_whether_it_is_good_enough(steelyard: Run, demos: Path, limit: str, code: int) -> None:
    told = steelyard(
        "validate", demos / "one" / "project-run", demos / "one" / "validate.csv", "--fail-above", limit, "--json"
    )
    assert told.code == code
    assert told.document["failed"] is bool(code)
    assert ("is above" in told.err) is bool(code)


def test_a_log_of_the_fit_is_no_unseen_motion(steelyard: Run, demos: Path) -> None:
    logs = [demos / "one" / "identify.csv", demos / "two" / "identify.csv"]
    told = steelyard("validate", demos / "one" / "project-run", *logs, "--json")
    assert told.code == 0
    # both logs have one name: they are told apart by their paths
    assert set(told.document["by_run"]) == set(map(str, logs))
    assert told.document["seen"] == [str(logs[0])]
    assert "not a score on unseen motion" in " ".join(told.err.split())


@pytest.mark.slow
def test_the_robot_file_is_found_from_the_result(
    steelyard: Run, demos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project with its own robot file: beside the run folder, or where the command is run."""
    robot = tmp_path / "arms" / "my.toml"
    robot.parent.mkdir()
    shutil.copy(ROOT / "src/steelyard/formats/robots/library/planar2r.toml", robot)
    project = tmp_path / "arms" / "project.toml"
    project.write_text(
        (demos / "planar" / "project.toml").read_text("utf-8").replace('"planar2r"', '"my.toml"'), "utf-8"
    )
    for log in ("identify.csv", "validate.csv"):
        shutil.copy(demos / "planar" / log, project.parent / log)
    log = project.parent / "validate.csv"
    assert steelyard("identify", project).code == 0
    assert steelyard("validate", project.parent / "project-run", log).code == 0
    shutil.copytree(project.parent / "project-run", tmp_path / "far" / "away" / "run")
    away = tmp_path / "far" / "away" / "run"
    monkeypatch.chdir(tmp_path / "arms")
    assert steelyard("validate", away, log).code == 0
    monkeypatch.chdir(tmp_path)
    told = steelyard("validate", away, log)
    assert told.code == 2
    assert "The robot file 'my.toml' of this result was not found" in " ".join(told.err.split())


def test_a_log_of_another_robot_is_told(steelyard: Run, demos: Path) -> None:
    told = steelyard("validate", demos / "one" / "project-run", demos / "planar" / "validate.csv", "--json")
    assert told.code == 2
    error = told.document["error"]
    assert "lacks the columns q_joint3, " in error
    assert "tau_joint6" in error
    assert "robot 'tx40'" in error


def test_compare_two_and_more(steelyard: Run, demos: Path, tmp_path: Path) -> None:
    one, two = demos / "one" / "project-run", demos / "two" / "project-run"
    # the two demos have different truths, about 20 % around the nominal robot
    told = steelyard("compare", one, two, "--json")
    assert told.code == 1
    data = told.document
    assert data["schema"] == "steelyard.comparison/1"
    assert data["integrity"]["changed"]
    assert "has changed" in data["integrity"]["verdict"]
    assert len(data["parameters"]) == len(read_result(one).base)
    assert data["parameters"][0]["values"] == [read_result(x).value[0] for x in (one, two)]
    same = steelyard("compare", one, one)
    assert (same.code, same.out) == (0, "")
    assert "No significant change" in " ".join(same.err.split())
    three = steelyard("compare", one, two, one, "--json")
    assert three.code == 0
    assert three.document["integrity"] is None
    assert len(three.document["parameters"][0]["values"]) == 3


@pytest.mark.slow
def test_crossvalidate(steelyard: Run, demos: Path) -> None:
    told = steelyard("crossvalidate", demos / "one" / "project.toml", "--json")
    assert told.code == 0
    data = told.document
    assert data["schema"] == "steelyard.crossvalidation/1"
    assert (data["robot"], data["estimator"], data["asked"]) == ("tx40", "auto", "10")
    assert len(data["folds"]) == 10
    assert data["pooled"]["total"] < data["nominal"]["total"]
    assert data["pooled"]["mask"].startswith("rows of joint j")
    for_people = steelyard("crossvalidate", demos / "one" / "project.toml", "--folds", 4)
    assert (for_people.code, for_people.out) == (0, "")
    assert "4 folds" in " ".join(for_people.err.split())


def mistakes(demos: Path) -> dict[str, tuple[list[object], str]]:
    run, log, project = demos / "one" / "project-run", demos / "one" / "validate.csv", demos / "one" / "project.toml"
    return {
        "no result": (["validate", demos / "none", log], "No result at "),
        "a log as result": (["validate", log, log], "is not a complete Steelyard result"),
        "no such log": (["validate", run, demos / "none.csv"], "does not exist"),
        "no log": (["validate", run], "Missing argument"),
        "limit": (["validate", run, log, "--fail-above", "-1"], "--fail-above must be a positive fraction"),
        "limit nan": (["validate", run, log, "--fail-above", "nan"], "--fail-above must be a positive fraction"),
        "folds": (
            ["crossvalidate", project, "--folds", "1"],
            "a whole number from 2 to 10000, not '1'",
        ),
        "folds text": (["crossvalidate", project, "--folds", "many"], "--folds must be 'runs' or a whole number"),
        "one run": (["crossvalidate", project, "--folds", "runs"], "There is only one fold"),
        "one result": (["compare", run], "compare needs at least two results"),
        "other robots": (["compare", run, demos / "planar" / "project-run"], "cannot be compared"),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "no result", "a log as result", "no such log", "no log", "limit", "limit nan", "folds", "folds text", "one run",
        "one result", "other robots",
    ],
)  # fmt: skip
def test_mistakes_are_told_in_one_sentence(steelyard: Run, demos: Path, kind: str) -> None:
    arguments, message = mistakes(demos)[kind]
    told = steelyard(*arguments)
    assert (told.code, told.out) == (2, "")
    assert message in " ".join(told.err.split())
    as_json = steelyard(*arguments, "--json")
    assert as_json.code == 2
    assert message in as_json.document["error"]


def test_a_result_without_its_project_is_told(steelyard: Run, demos: Path, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    data = json.loads((demos / "one" / "project-run" / "result.json").read_text("utf-8"))
    file.write_text(text({**data, "project": None}), "utf-8")
    told = steelyard("validate", file, demos / "one" / "validate.csv", "--json")
    assert told.code == 2
    assert "written without a project" in told.document["error"]
    file.write_text("[]", "utf-8")
    assert steelyard("validate", file, demos / "one" / "validate.csv").code == 2


# --- Real data --------------------------------------------------------------------------------------------------------


@cache
def ur10e() -> tuple[Problem, Information]:
    project = read_project(ROOT / "examples" / "real" / "ur10e-free.toml")
    robot = project.robot()
    model = Model(robot, named_terms(plain_terms(robot)))
    problem = project.problem(model, project.samples(robot, "identify"))
    return problem, observe(problem)


@pytest.mark.slow
def test_ur10e_left_out_runs(shared_data: Callable[..., Path]) -> None:
    """Eleven free runs on seven days, base terms, moving rows: 4.10 %."""
    listed = json.loads((shared_data("ur10e") / "runs.json").read_text("utf-8"))
    free = {run["file"]: run["active_rows_1based"] for run in listed if run["file"].startswith("ident_free_")}
    project = read_project(ROOT / "examples" / "real" / "ur10e-free.toml")
    assert {project.log_files(run)[0].name: run.rows and list(run.rows) for run in project.spec.run} == free
    problem, information = ur10e()
    judged = cross_validate(base_parameters(problem.model), information, WLS(), "runs", problem.mask)
    assert len(judged.folds) == 11
    assert judged.pooled.total <= 0.043
    assert judged.worst.score.total <= 0.055
    assert all(fold.not_excited == () for fold in judged.folds)


@pytest.mark.slow
def test_ur10e_by_rows_and_by_triangles(shared_data: Callable[..., Path]) -> None:
    """A fold's score from its triangles is the score of the streamed rows of that run."""
    shared_data("ur10e")
    problem, information = ur10e()
    run = problem.runs[7]
    others = information.at([time for time in information.times if time[0] != run.name])
    result = identify(problem, WLS(), others)
    judged = validate(result, problem, [run])
    base = base_parameters(problem.model)
    fold = cross_validate(base, information, WLS(), "runs").folds[7]
    assert judged.relative_error["total"] == pytest.approx(fold.score.total, rel=1e-9)
    assert judged.raw.relative_error["total"] > judged.relative_error["total"]


# --- Results that were touched ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_essential_result_can_be_judged(steelyard: Run, demos: Path, tmp_path: Path) -> None:
    out = tmp_path / "essential"
    assert steelyard("identify", demos / "one" / "project.toml", "--estimator", "essential", "--out", out).code == 0
    told = steelyard("consistency", out, "--json")
    assert told.code in (0, 1)
    assert told.document["kind"] == "result"
    assert json.loads((out / "result.json").read_text("utf-8"))["project"]["estimator"]["name"] == "essential"
    assert "different estimators" in steelyard("compare", demos / "one" / "project-run", out).err


@pytest.mark.slow
def test_a_robot_file_edited_after_the_fit_is_refused(steelyard: Run, tmp_path: Path) -> None:
    robot = tmp_path / "arm.toml"
    body = "mass = 1.0\ncom = [0.1, 0, 0]\ninertia_com = [0.01, 0, 0, 0.01, 0, 0.01]\n"
    joint = '[[joint]]\nname = "j{0}"\nd = {1}\n' + body
    robot.write_text('name = "arm"\nconvention = "mdh"\n' + joint.format(1, 0) + joint.format(2, 0.3))
    assert steelyard("demo", robot, "--out", tmp_path / "demo").code == 0
    run, log = tmp_path / "demo" / "project-run", tmp_path / "demo" / "validate.csv"
    assert steelyard("validate", run, log).code == 0
    robot.write_text(robot.read_text().replace("d = 0.3", "d = 3.0"))
    told = steelyard("validate", run, log)
    assert told.code == 2
    assert "has changed since the fit" in told.err


@pytest.mark.parametrize(
    ("key", "value"), [("covariance", [[1.0]]), ("covariance", "x"), ("base", {"a": "b"}), ("value", [])]
)
def test_a_broken_result_is_one_sentence(steelyard: Run, demos: Path, tmp_path: Path, key: str, value: object) -> None:
    data = json.loads((demos / "planar" / "project-run" / "result.json").read_text("utf-8"))
    broken = tmp_path / "result.json"
    broken.write_text(json.dumps(data | {key: value}))
    for command in (("consistency", broken), ("compare", broken, broken)):
        told = steelyard(*command)
        assert told.code == 2
        assert told.err.startswith("error: ")
