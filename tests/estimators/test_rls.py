"""Recursive least squares: its batch limit, what it forgets and what it must not, and memory that does not grow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators import RLS, WLS, named_estimator
from steelyard.formats.robots import read_robot
from steelyard.identification.identify import identify
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.motion.trajectory import Quintic
from steelyard.online.running_information import RunningInformation
from steelyard.project.project import read_project
from steelyard.regression.forgetting import Forgetting, appended, block_ages
from steelyard.regression.information import MOST_BLOCKS, Information, Triangle, stacked, triangular
from steelyard.regression.observe import observe, stream_rows
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from testbed.simulated import arm, model_of, samples_of, truth_of

ROOT = Path(__file__).resolve().parents[2]


def noisy(count: int = 4000, seeds: tuple[int, ...] = (1, 2)) -> Problem:
    model = model_of(arm(3))
    runs = [samples_of(model, count, seed=seed, noise=0.5, name=f"run{seed}") for seed in seeds]
    return Problem(model, runs, lowpass_hz=8.0, decimate=6)


def drifting(problem: Problem, share: float) -> Problem:
    """The second half of every run with the friction of joint 1 grown by this share."""
    model, runs = problem.model, []
    theta = truth_of(model).copy()
    for symbol in ("Fv", "Fc"):
        theta[model.layout.index(f"joint1.{symbol}")] *= 1.0 + share
    for run in problem.runs:
        (piece,) = run.open()
        half = piece.q.shape[1] // 2
        change = model.torque(piece.q, piece.v, piece.a, theta - truth_of(model))
        change[:, :half] = 0.0
        runs.append(Samples.from_arrays(run.name, run.joints, run.rate, *piece[2:5], piece.effort + change))
    return replace(problem, runs=runs)


# --- Batch limit ------------------------------------------------------------------------------------------------------


def test_without_forgetting_it_is_weighted_least_squares_on_a_real_log(shared_data) -> None:
    shared_data("staubli_tx40")
    project = read_project(ROOT / "examples" / "real" / "tx40.toml")
    model = project.model()
    problem = project.problem(model, project.samples(model.robot, "identify"))
    information = observe(problem)
    one, other = identify(problem, WLS(), information), identify(problem, RLS(), information)
    np.testing.assert_allclose(other.value, one.value, rtol=1e-9, atol=0.0)
    np.testing.assert_allclose(other.std, one.std, rtol=1e-9)


@pytest.mark.parametrize("rule", ["exponential", "directional"])
def test_a_long_memory_forgets_nothing(rule: str) -> None:
    problem = noisy()
    information = observe(problem)
    whole = identify(problem, WLS(), information)
    found = identify(problem, named_estimator("rls", {"forgetting": rule, "memory": 1e12}), information)
    np.testing.assert_allclose(found.value, whole.value, rtol=1e-6)


def test_appending_rows_one_block_after_another_is_the_batch() -> None:
    """Square-root information: what order and grouping leave behind is rounding."""
    problem = noisy()
    information = observe(problem)
    running = RunningInformation(problem.model, "run1", "none", Forgetting(), 7)
    for batch in stream_rows(problem, problem.runs[0]):
        running.add(batch, problem.moving(batch.v, batch.still) & batch.inside)
    own = replace(information, blocks={k: t for k, t in information.blocks.items() if k.run == "run1"})
    columns, weights = base_parameters(problem.model).kept, np.ones(3)
    one, other = (stacked(x, columns, weights) for x in (own, running.information()))
    np.testing.assert_allclose(other, one, atol=1e-9 * np.abs(one).max())
    np.testing.assert_array_equal(running.information().rows(), own.rows())


# --- Exponential ------------------------------------------------------------------------------------------------------


def test_exponential_forgetting_is_least_squares_weighted_by_age() -> None:
    problem, memory = noisy(), 300.0
    information, base = observe(problem), base_parameters(problem.model)
    ages = block_ages(information)
    parts = []
    for key, triangle in information.blocks.items():
        wide = np.zeros((len(triangle.r), len(base.layout) + 1))
        wide[:, [*information.columns[key.joint], -1]] = triangle.r
        parts.append((key.joint, np.exp(-0.5 * ages[key[:3]] / memory) * wide[:, [*base.kept, -1]]))
    found = RLS("exponential", memory).estimate(None, base, information)
    sigma = []
    for j in range(3):
        rows = np.concatenate([r for joint, r in parts if joint == j])
        rows = rows[:, [*np.flatnonzero(np.any(rows[:, :-1] != 0.0, axis=0)), -1]]
        left = rows[:, -1] - rows[:, :-1] @ np.linalg.lstsq(rows[:, :-1], rows[:, -1], rcond=None)[0]
        faded = sum(
            round(np.exp(-ages[k[:3]] / memory) * t.rows) for k, t in information.blocks.items() if k.joint == j
        )
        sigma.append(np.linalg.norm(left) / np.sqrt(faded - rows.shape[1] + 1))
    dense = np.concatenate([r / sigma[j] for j, r in parts])
    wanted = np.linalg.lstsq(dense[:, :-1], dense[:, -1], rcond=None)[0]
    np.testing.assert_allclose(found.value, wanted, rtol=1e-6, atol=1e-8)


def test_blocks_age_by_the_rows_after_them_in_the_order_of_the_runs() -> None:
    information = observe(noisy(seeds=(2, 1)))
    ages = block_ages(information)
    newest, oldest = min(ages, key=lambda t: ages[t]), max(ages, key=lambda t: ages[t])
    assert (newest[0], ages[newest]) == ("run1", 0)
    assert oldest[0] == "run2"
    sizes = information.block_rows
    run2 = [t for t in ages if t[0] == "run2"]
    assert ages[("run2", "none", max(t[2] for t in run2))] == sizes["run1"] * len([t for t in ages if t[0] == "run1"])


@pytest.mark.parametrize("rule", ["exponential", "directional"])
def test_forgetting_follows_a_change_that_the_batch_averages(rule: str) -> None:
    problem = drifting(noisy(8000, (1,)), 1.0)
    information, base = observe(problem), base_parameters(problem.model)
    k = base.names.index("joint1.Fc")
    new = 2.0 * truth_of(problem.model)[base.kept[k]]
    batch = WLS().estimate(None, base, information).value[k]
    found = named_estimator("rls", {"forgetting": rule, "memory": 60}).estimate(None, base, information).value[k]
    assert abs(batch - new) > 0.2 * new
    assert abs(found - new) < 0.07 * new


def test_what_is_remembered_is_told() -> None:
    problem = noisy()
    result = identify(problem, RLS("exponential", 200.0))
    (told,) = (f for f in result.findings if f.code == "forgetting")
    assert "memory of 200 rows" in told.message
    # λ = exp(−1/200): about 200 rows are left of any number
    assert max(result.relative_error.rows.values()) > 1000


# --- Directional ------------------------------------------------------------------------------------------------------


def random_triangles(seed: int, columns: int, rows: int) -> tuple[Triangle, Triangle]:
    rng = np.random.default_rng(seed)
    old = triangular(rng.standard_normal((columns + 5, columns + 1)) * np.exp(rng.uniform(-2, 2, columns + 1)))
    return Triangle(old, 50), Triangle(rng.standard_normal((rows, columns + 1)), rows)


def gram(triangle: Triangle) -> Array:
    w = triangle.r[:, :-1]
    return w.T @ w


def solved(triangle: Triangle) -> Array:
    return np.asarray(np.linalg.lstsq(triangle.r[:, :-1], triangle.r[:, -1], rcond=None)[0], float)


cases = given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 12), st.floats(0.05, 1.0))


@cases
def test_no_direction_ever_loses_information(seed: int, columns: int, rows: int, share: float) -> None:
    old, new = random_triangles(seed, columns, rows)
    grown = gram(appended(old, new, share, columns)) - gram(old)
    assert np.linalg.eigvalsh(grown).min() > -1e-9 * np.abs(gram(old)).max()


@cases
def test_no_direction_gains_more_than_the_rows_bring(seed: int, columns: int, rows: int, share: float) -> None:
    old, new = random_triangles(seed, columns, rows)
    spare = gram(old) + gram(new) - gram(appended(old, new, share, columns))
    assert np.linalg.eigvalsh(spare).min() > -1e-9 * np.abs(gram(old)).max()


@cases
def test_directions_do_not_depend_on_the_choice_of_columns(seed: int, columns: int, rows: int, share: float) -> None:
    old, new = random_triangles(seed, columns, rows)
    mix = np.eye(columns + 1)
    mix[:columns, :columns] += 0.3 * np.random.default_rng(seed + 1).standard_normal((columns, columns))
    if np.linalg.cond(mix) > 50.0:
        return
    mixed = appended(Triangle(old.r @ mix, 50), Triangle(new.r @ mix, rows), share, columns)
    straight = appended(old, new, share, columns).r @ mix
    np.testing.assert_allclose(mixed.r.T @ mixed.r, straight.T @ straight, atol=1e-7 * np.abs(straight).max() ** 2)


@cases
def test_forgetting_alone_moves_no_estimate(seed: int, columns: int, rows: int, share: float) -> None:
    """New rows that agree with the estimate leave it where it is, whatever is forgotten for them."""
    old, new = random_triangles(seed, columns, rows)
    agreeing = new.r.copy()
    agreeing[:, -1] = agreeing[:, :-1] @ solved(old)
    found = solved(appended(old, Triangle(agreeing, rows), share, columns))
    np.testing.assert_allclose(found, solved(old), rtol=1e-6, atol=1e-9)


def test_where_all_directions_are_shown_it_forgets_as_exponentially() -> None:
    old, new = random_triangles(3, 4, 200)
    new = Triangle(10.0 * new.r, 200)
    np.testing.assert_allclose(gram(appended(old, new, 0.7, 4)), 0.7 * gram(old) + gram(new), rtol=1e-9)


def test_what_the_motion_stops_to_show_is_kept() -> None:
    """A robot that ends up standing nearly still: exponential forgetting loses its inertias, directional does not."""
    problem = noisy(6000, (1,))
    model = problem.model
    count = 12_000
    t = np.arange(count) / 200.0
    v = np.stack([0.3 + 0.01 * np.sin((1.0 + 0.3 * j) * t) for j in range(3)])
    q, a = 0.1 * np.sin(0.5 * t) * np.ones((3, 1)), np.gradient(v, t, axis=1)
    effort = model.torque(q, v, a, truth_of(model)) + 0.5 * np.random.default_rng(4).standard_normal(q.shape)
    dull = Samples.from_arrays("dull", model.robot.joint_names, 200.0, q, v, a, effort)
    both = replace(problem, runs=[*problem.runs, dull])
    information, base = observe(both), base_parameters(model)
    memory = 200.0

    def worst(rule: str) -> float:
        """How much the widest error bar has grown by the dull motion."""
        estimator = named_estimator("rls", {"forgetting": rule, "memory": memory})
        before, after = (
            estimator.estimate(None, base, x).covariance_classical for x in (observe(problem), information)
        )
        return float(np.nanmax(np.sqrt(np.diagonal(after) / np.diagonal(before))))

    assert worst("exponential") > 5.0
    assert worst("directional") < 1.2


# --- Streams ----------------------------------------------------------------------------------------------------------


def streamed(problem: Problem, rule: Forgetting, size: int) -> Information:
    running = RunningInformation(problem.model, "run1", "none", rule, size)
    for batch in stream_rows(problem, problem.runs[0], tile=48):
        running.add(batch, problem.moving(batch.v, batch.still) & batch.inside)
    return running.information()


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["none", "exponential", "directional"])
def test_a_stream_of_rows_remembers_as_the_log_does(rule: str) -> None:
    problem = noisy(20_000, (1,))
    information, base = observe(problem), base_parameters(problem.model)
    size = information.block_rows["run1"]
    # a step of directional forgetting is then one block, in the log as in the stream
    estimator = RLS() if rule == "none" else RLS(rule, 4.0 * size)  # type: ignore[arg-type]
    found = estimator.estimate(None, base, streamed(problem, estimator.rule, size))
    wanted = estimator.estimate(None, base, information)
    np.testing.assert_allclose(found.value, wanted.value, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("rule", [Forgetting(), Forgetting("exponential", 64.0), Forgetting("directional", 64.0)])
def test_memory_does_not_grow(rule: Forgetting) -> None:
    problem = noisy(60_000, (1,))
    model: Model = problem.model
    running = RunningInformation(model, "run1", "none", rule, 4)
    most = 0
    for batch in stream_rows(problem, problem.runs[0]):
        running.add(batch, problem.moving(batch.v, batch.still))
        most = max(most, sum(t.r.size for t in running.blocks.values()) + sum(x.size for p in running.parts for x in p))
    width = len(model.layout) + 1
    assert running.total > 5000
    assert len({key.block for key in running.blocks}) <= MOST_BLOCKS
    assert most < 3 * (MOST_BLOCKS + 2) * width**2


# --- Options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"forgetting": "slowly", "memory": 10.0}, "forgetting"),
        ({"forgetting": "exponential"}, "number of rows"),
        ({"forgetting": "none", "memory": 5.0}, "number of rows"),
        ({"forgetting": "directional", "memory": -3.0}, "number of rows"),
        ({"lambda": 0.9}, "option"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict, told: str) -> None:
    with pytest.raises(EstimationError, match=told):
        named_estimator("rls", options)


# --- P1 ---------------------------------------------------------------------------------------------------------------


def test_the_arm_of_p1_is_known_after_a_hundred_samples() -> None:
    """P1's planar arm on random quintic motions of 2 s with 25 samples each: below 1e-4 at 100 iterations, where the
    published update is at 0.03 to 0.3."""
    robot = read_robot("planar2r")
    model = Model(robot)
    base, rng = base_parameters(model), np.random.default_rng(1)
    theta = truth_of(model)
    running = RunningInformation(model, "run", "none", Forgetting(), 25)
    for motion in range(4):
        ends = rng.uniform([-1.5, -1.0], [1.5, 1.0], (2, 2))
        q, v, a = Quintic(ends.T, np.array([0.0, 2.0])).at(np.arange(25) / 12.5)
        run = Samples.from_arrays("run", robot.joint_names, 12.5, q, v, a, model.torque(q, v, a, theta))
        for batch in stream_rows(Problem(model, [run], rest=0.0), run):
            running.add(batch._replace(number=batch.number + 25 * motion), np.ones_like(batch.v, bool))
    found = RLS().estimate(None, base, running.information()).value
    wanted = base.map @ theta
    assert running.total == 100
    assert np.linalg.norm(found - wanted) < 1e-4 * np.linalg.norm(wanted)
