"""Outlying blocks: accidents are found where they were, clean logs raise no alarm, and huber is not dragged along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators import WLS, Huber, named_estimator
from steelyard.estimators.huber import robust_fit
from steelyard.identification.identify import identify
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.regression.information import BlockKey, Information, Triangle
from steelyard.regression.observe import observe, row_count, stream_rows
from steelyard.regression.outliers import (
    OutlyingBlock,
    block_residuals,
    block_seconds,
    outlying_blocks,
    outlying_findings,
    weighted,
)
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Piece, Samples, Stretch
from testbed.simulated import arm, coloured, model_of, motion_of, samples_of, truth_of

RATE = 200.0
ROWS = {"lowpass_hz": 20.0, "decimate": 4}


@cache
def model() -> Model:
    return model_of(arm(3))


def problem_with(seed: int, accident: Array | None = None) -> Problem:
    """30 s of a three-joint arm with coloured noise of 5 %, and what an accident adds to the efforts (n, N)."""
    motion = motion_of(model().robot, 6000, RATE, seed)
    clean = model().torque(motion.q, motion.v, motion.a, truth_of(model()))
    size = 0.05 * np.sqrt(np.mean(clean**2, axis=1, keepdims=True))
    effort = clean + size * coloured(np.random.default_rng(seed), clean.shape, 0.8)
    effort = effort if accident is None else effort + accident
    run = Samples.from_arrays("run", model().robot.joint_names, RATE, motion.q, motion.v, motion.a, effort)
    return Problem(model(), [run], **ROWS)


def collision(joint: int, start: float, length: float = 0.1, size: float = 50.0) -> Array:
    """Half a sine [N·m] on one joint."""
    t = np.arange(6000) / RATE - start
    out = np.zeros((3, 6000))
    out[joint] = np.where((t >= 0) & (t < length), size * np.sin(np.pi * t / length), 0.0)
    return out


def judged(problem: Problem) -> tuple[Information, tuple[OutlyingBlock, ...]]:
    information = observe(problem)
    return information, outlying_blocks(information, robust_fit(base_parameters(problem.model), information).theta)


def base_error(problem: Problem, estimator: WLS | Huber, std: Array) -> float:
    result = identify(problem, estimator)
    return float(np.sqrt(np.mean(((result.value - result.base.map @ truth_of(model())) / std) ** 2)))


# --- Found and told ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_clean_logs_raise_no_alarm(seed: int) -> None:
    assert judged(problem_with(seed))[1] == ()


@pytest.mark.parametrize("length", [0.1, 1.5], ids=["collision", "snag"])
@pytest.mark.parametrize("joint", [0, 1, 2])
def test_an_accident_is_found_on_its_joint_and_at_its_time(joint: int, length: float) -> None:
    problem = problem_with(joint, collision(joint, 12.0, length))
    information, blocks = judged(problem)
    assert blocks
    for block in blocks:
        start, stop = block_seconds(problem, problem.runs[0], block.key.block, information.block_rows["run"])
        assert block.key.joint == joint
        assert start < 12.0 + length + 0.1
        assert stop > 12.0 - 0.1
    (finding,) = outlying_findings(problem, information, blocks)
    assert (finding.code, finding.severity, finding.where) == ("outlying-block", "warning", f"joint{joint + 1}")
    assert "of 'run' has a residual of " in finding.message
    assert "huber" in finding.fix


def test_accidents_apart_are_told_apart_and_the_worst_first() -> None:
    """The worst is the one furthest from its joint's usual residual: joint 1 is the quieter of the two."""
    speed = np.abs(motion_of(model().robot, 6000, RATE, 3).v[1, 400:2000])
    busy = (400 + int(speed.argmax())) / RATE  # rows at rest are masked, and an accident there is not seen
    problem = problem_with(3, collision(1, busy) + collision(0, 15.0))
    found = outlying_findings(problem, *judged(problem))
    assert [finding.where for finding in found] == ["joint1", "joint2"]


def test_joints_hit_together_are_one_finding() -> None:
    problem = problem_with(3, collision(0, 15.0) + collision(1, 15.0))
    (finding,) = outlying_findings(problem, *judged(problem))
    assert finding.where == "joint1"
    assert "(also joint2)" in finding.message


def test_beyond_ten_the_rest_is_counted() -> None:
    problem = problem_with(0)
    information = observe(problem)
    blocks = [OutlyingBlock(BlockKey("run", "none", 3 * k, 0), 10.0 + k, 1.0, 20.0, 9.0) for k in range(13)]
    found = outlying_findings(problem, information, blocks)
    assert len(found) == 11
    assert found[-1].message.startswith("3 more stretches")


def made_up(residuals: Sequence[float], explained: float = 0.0) -> tuple[Information, Array]:
    """Blocks of joint 1 of one row each whose residuals are given, beside an effort that theta explains."""
    information = observe(problem_with(0))
    column, theta = information.columns[0][0], np.zeros(len(model().layout))
    theta[column] = 1.0
    blocks = {}
    for k, residual in enumerate(residuals):
        row = np.zeros((1, len(information.columns[0]) + len(information.responses)))
        row[0, [0, len(information.columns[0])]] = explained, explained + residual
        blocks[BlockKey("run", "none", k, 0)] = Triangle(row, 1)
    return replace(information, blocks=blocks), theta


EVEN = tuple(np.exp(np.random.default_rng(5).normal(0.0, 0.05, 60)))


@pytest.mark.parametrize(
    ("size", "explained", "found"),
    [(4.5, 0.0, 0), (5.5, 0.0, 1), (5.5, 40.0, 1), (5.5, 70.0, 0)],
    ids=["under five times the usual", "over it", "an eighth of the effort", "under a tenth of the effort"],
)
def test_small_residuals_are_no_accident_however_even_the_others(size: float, explained: float, found: int) -> None:
    usual = float(np.median((*EVEN, size)))
    assert len(outlying_blocks(*made_up((*EVEN, size * usual), explained))) == found


@pytest.mark.parametrize(("count", "found"), [(15, 0), (16, 1)])
def test_too_few_blocks_are_not_judged(count: int, found: int) -> None:
    assert len(outlying_blocks(*made_up((*EVEN[: count - 1], 100.0)))) == found


def test_uneven_blocks_need_a_larger_residual() -> None:
    """The same block stands out of an even joint and not of one whose model errors vary with the motion."""
    uneven = tuple(np.exp(np.random.default_rng(5).normal(0.0, 0.8, 60)))
    assert len(outlying_blocks(*made_up((*EVEN, 8.0)))) == 1
    assert outlying_blocks(*made_up((*uneven, 8.0))) == ()


def test_rounding_is_no_accident() -> None:
    residuals = (*(1e-13 * x for x in EVEN), 1e-10)
    assert np.all(block_residuals(*made_up(residuals, 1.0)).usual == pytest.approx(1e-9))
    problem = Problem(model(), [samples_of(model(), 3000, RATE)], **ROWS)
    assert judged(problem)[1] == ()
    assert not robust_fit(base_parameters(model()), observe(problem)).weights


# --- Numbers ----------------------------------------------------------------------------------------------------------


def test_residuals_of_blocks_add_up_to_those_of_joints() -> None:
    information = observe(problem_with(1))
    theta = 1.1 * truth_of(model())
    found = block_residuals(information, theta)
    for j, (columns, triangle) in enumerate(zip(information.columns, information.joint_triangles, strict=True)):
        own = found.joint == j
        rest = triangle.r[:, len(columns)] - triangle.r[:, : len(columns)] @ theta[columns]
        assert np.sum(found.rows[own] * found.rms[own] ** 2) == pytest.approx(rest @ rest)
        assert np.sum(found.rows[own]) == triangle.rows
        assert np.all(found.usual[own] == np.median(found.rms[own]))


def test_a_weight_scales_the_squares_of_its_block_alone() -> None:
    information = observe(problem_with(1))
    key = sorted(information.blocks)[4]
    scaled = weighted(information, {key: 0.25})
    for other, triangle in information.blocks.items():
        factor = 0.25 if other == key else 1.0
        np.testing.assert_allclose(
            scaled.blocks[other].r.T @ scaled.blocks[other].r, factor * triangle.r.T @ triangle.r
        )
        assert scaled.blocks[other].rows == triangle.rows


def test_seconds_of_blocks_are_those_of_their_rows() -> None:
    """Through a gap and a window, against the times that the stream itself gives its rows."""
    motion = motion_of(model().robot, 3000, RATE, 2)
    effort = model().torque(motion.q, motion.v, motion.a, truth_of(model()))
    arrays = (motion.q, motion.v, motion.a, effort)
    first, second = (tuple(x[:, part] for x in arrays) for part in (slice(0, 1300), slice(1300, 3000)))
    whole = Samples.from_arrays("run", model().robot.joint_names, RATE, *arrays)
    run = Samples(
        **{
            **vars(whole),
            "stretches": (Stretch(2.0, 1300, (10, 1290), (100, 1300)), Stretch(20.0, 1700, (10, 1690), (0, 1700))),
            "open": lambda: iter([Piece(0, 0, *first), Piece(1, 0, *second)]),
        }
    )
    problem = Problem(model(), [run], **ROWS)
    size = -(-row_count(problem, run) // 128)
    half = 0.5 * problem.decimator(run).factor / RATE
    checked = 0
    for batch in stream_rows(problem, run):
        for number, t, inside in zip(batch.number, batch.t, batch.inside, strict=True):
            start, stop = block_seconds(problem, run, int(number) // size, size)
            if inside:
                assert start - 1e-9 <= t <= stop + 1e-9
                if number % size == 0 and start > run.used[0]:
                    assert start == pytest.approx(t - half)
                checked += 1
    assert checked > 500


# --- Huber ------------------------------------------------------------------------------------------------------------


def test_huber_is_wls_when_nothing_stands_out() -> None:
    problem = problem_with(2)
    base, information = base_parameters(model()), observe(problem)
    one, other = (estimator.estimate(None, base, information) for estimator in (WLS(), Huber()))
    np.testing.assert_array_equal(one.value, other.value)
    np.testing.assert_array_equal(one.covariance, other.covariance)
    assert [finding.severity for finding in other.findings if finding.code == "down-weighted"] == ["info"]


@pytest.mark.slow
def test_huber_withstands_collisions_that_drag_wls() -> None:
    worse, kept = [], []
    for seed in range(5):
        std = identify(problem_with(seed), WLS()).std
        hit = problem_with(seed, sum(collision(j, 6.0 * (j + 1), size=80.0) for j in range(3)))  # type: ignore[arg-type]
        worse.append(base_error(hit, WLS(), std))
        kept.append(base_error(hit, Huber(), std))
    assert np.mean(worse) > 2.0 * np.mean(kept)
    assert np.mean(kept) < 2.0


def test_weights_are_those_of_the_formula_at_the_solution() -> None:
    base, information = base_parameters(model()), observe(problem_with(0, collision(1, 12.0)))
    fit = robust_fit(base, information, 3.0)
    assert fit.converged
    assert 0 < len(fit.weights) < 0.05 * len(information.blocks)
    left = block_residuals(information, fit.theta)
    for key, rms, usual in zip(left.keys, left.rms, left.usual, strict=True):
        assert fit.weights.get(key, 1.0) == pytest.approx(min(1.0, 3.0 * usual / rms), rel=1e-3)


def test_findings_name_the_blocks_and_weights() -> None:
    base, information = base_parameters(model()), observe(problem_with(0, collision(1, 12.0)))
    told = {finding.code: finding.message for finding in Huber().estimate(None, base, information).findings}
    worst = min(robust_fit(base, information).weights.items(), key=lambda item: item[1])
    assert f"joint2 in block {worst[0].block} of 'run' ({worst[1]:.2g})" in told["down-weighted"]
    assert "many-down-weighted" not in told


def test_many_badly_fitting_blocks_are_the_model() -> None:
    base, information = base_parameters(model()), observe(problem_with(0))
    codes = {finding.code for finding in Huber(threshold=1.0).estimate(None, base, information).findings}
    assert "many-down-weighted" in codes


@pytest.mark.parametrize("threshold", [0.5, -1.0, float("nan"), float("inf")])
def test_a_threshold_beyond_sense_is_refused(threshold: float) -> None:
    with pytest.raises(EstimationError, match="threshold must be at least 1"):
        named_estimator("huber", {"threshold": threshold})
