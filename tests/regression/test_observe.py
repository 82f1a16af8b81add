"""The one pass over the data: against W built out in full, and the same answer however the work is cut up."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._arrays import Array
from steelyard.errors import DataError, EstimationError
from steelyard.estimators import named_estimator
from steelyard.identification.identify import identify
from steelyard.identification.prediction import predict_rows
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import Dahl, Ripple, named_terms, on_joints, rich_terms
from steelyard.regression.decimation import DecimationStream, Decimator
from steelyard.regression.information import MOST_BLOCKS, Information
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.signals.channels import ChannelMap, Signal
from steelyard.signals.prepare import Preparation, prepare
from steelyard.signals.samples import Piece, Samples
from testbed.simulated import (
    TORQUE_ESTIMATORS,
    arm,
    channels_of,
    distance,
    forked,
    log_of,
    model_of,
    motion_of,
    recording_of,
    samples_of,
    truth_of,
)
from testbed.trees import reordered

FILTERS = {"lowpass_hz": 8.0, "decimate": 6}


@cache
def model3() -> Model:
    return model_of(arm(3))


@cache
def run3(seed: int = 1, count: int = 4000) -> Samples:
    return samples_of(model3(), count, seed=seed, noise=0.5, name=f"run{seed}")


# --- Decimation -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(
    half=st.integers(0, 40),
    factor=st.integers(1, 30),
    samples=st.integers(0, 300),
    widths=st.lists(st.integers(1, 90), min_size=1, max_size=6),
    seed=st.integers(0, 1000),
)
def test_decimation_equals_a_convolution(half: int, factor: int, samples: int, widths: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    taps = rng.normal(size=2 * half + 1)
    x = rng.normal(size=(2, samples))
    stream = DecimationStream(Decimator(taps, factor))
    got, at, turn = [], 0, 0
    while at < samples:
        width = widths[turn % len(widths)]
        for first, rows in stream.push(x[:, at : at + width]):
            assert first == sum(part.shape[1] for part in got)
            got.append(rows)
        at, turn = at + width, turn + 1
    rows = np.concatenate([np.zeros((2, 0)), *got], axis=1)
    wanted = np.zeros((2, 0))
    if samples >= len(taps):
        wanted = np.stack([np.convolve(y, taps[::-1], "valid")[::factor] for y in x])
    assert rows.shape[1] == Decimator(taps, factor).rows(samples)
    np.testing.assert_allclose(rows, wanted, atol=1e-12)


def test_the_filter_keeps_constants_and_is_symmetric() -> None:
    decimator = Decimator.design(1000.0, 10.0, None)
    assert decimator.taps.sum() == pytest.approx(1.0, abs=1e-14)
    np.testing.assert_allclose(decimator.taps, decimator.taps[::-1], atol=1e-16)
    assert decimator.factor == 40
    assert Decimator.design(1000.0, None, None).factor == 1
    # the last digits of a clock do not decide how many rows are left
    assert {Decimator.design(rate, 4.0, None).factor for rate in (100.0 - 1e-10, 100.0, 100.0 + 1e-10)} == {10}
    assert {Decimator.design(rate, 4.0, None).half for rate in (100.0 - 1e-10, 100.0, 100.0 + 1e-10)} == {38}
    assert {Decimator.design(rate, 10.0, None).half for rate in (1000.0 - 1e-10, 1000.0, 1000.0 + 1e-10)} == {150}


def sines(t: Array) -> tuple[Array, Array]:
    """Sine waves (8, N) at times t [samples] and their frequencies [per sample]."""
    rng = np.random.default_rng(0)
    frequency, phase = rng.uniform(0.0, 0.012, 8), rng.uniform(0.0, 2 * np.pi, 8)
    return np.sin(2 * np.pi * frequency[:, None] * t + phase[:, None]), frequency


@given(st.floats(-9.0, 9.0), st.sampled_from([10.0, 25.0]))
def test_a_shifted_filter_looks_at_the_signal_later(samples: float, lowpass_hz: float) -> None:
    """F applied to sin(2πft + φ) is H(f) sin(2πf(t + samples) + φ), H the real gain of the filter that is not moved."""
    decimator = Decimator.design(1000.0, lowpass_hz, 7, furthest=9e-3)
    x, frequency = sines(np.arange(1000.0))
    (rows,) = (rows for _, rows in DecimationStream(decimator, decimator.shifted(samples)).push(x))
    places = np.arange(-decimator.half, decimator.half + 1)
    gain = np.array([decimator.taps @ np.cos(2 * np.pi * f * places) for f in frequency])
    centre = decimator.half + 7 * np.arange(rows.shape[1])
    assert np.abs(rows - gain[:, None] * sines(centre + samples)[0]).max() < 1e-3


@pytest.mark.parametrize("lowpass_hz", [None, 20.0])
@pytest.mark.parametrize("samples", [-6, -1, 0, 1, 6])
def test_a_shift_of_whole_samples_is_exact(lowpass_hz: float | None, samples: int) -> None:
    decimator = Decimator.design(1000.0, lowpass_hz, None, furthest=6e-3)
    assert decimator.reach == 6
    np.testing.assert_allclose(decimator.shifted(samples), np.roll(decimator.taps, samples), rtol=0, atol=1e-15)
    bare = Decimator.design(1000.0, lowpass_hz, None)
    edge = decimator.half - bare.half
    np.testing.assert_array_equal(decimator.taps[edge : len(decimator.taps) - edge], bare.taps)
    assert not decimator.taps[:edge].any()


@pytest.mark.parametrize("lowpass_hz", [5.0, 20.0, 25.0])
@pytest.mark.parametrize("part", [0.125, 0.25, 0.5])
def test_a_shifted_filter_passes_as_much_noise(lowpass_hz: float, part: float) -> None:
    """The variance of filtered white noise, Σ h², is the same at every shift up to a cut-off of a quarter of the rate:
    else a fit of the delay would choose the shift that passes the least."""
    decimator = Decimator.design(100.0, lowpass_hz, 1, furthest=0.02)
    assert np.sum(decimator.shifted(part) ** 2) == pytest.approx(np.sum(decimator.taps**2), rel=2e-5)


@given(st.floats(-3.0, 3.0))
def test_without_a_filter_a_shift_interpolates(samples: float) -> None:
    decimator = Decimator.design(100.0, None, None, furthest=0.03)
    x, _ = sines(np.arange(300.0))
    (rows,) = (rows for _, rows in DecimationStream(decimator, decimator.shifted(samples)).push(x))
    centre = decimator.half + np.arange(rows.shape[1])
    assert np.abs(rows - sines(centre + samples)[0]).max() < 2e-3


def test_a_shift_beyond_reach_is_refused() -> None:
    with pytest.raises(DataError, match=r"A shift of 2\.5 samples exceeds the reach of this filter \(2 samples\)"):
        Decimator.design(100.0, 5.0, None, furthest=0.02).shifted(2.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"lowpass_hz": 100.0}, "between 0 and half"), ({"lowpass_hz": -1.0}, "between 0"), ({"decimate": 0}, "from 1")],
)
def test_filters_that_make_no_sense(options: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        observe(Problem(model3(), [run3()], **options))


# --- Against W in full ------------------------------------------------------------------------------------------------


def rows_in_full(problem: Problem, run: Samples, j: int) -> Array:
    """[W_j | y_j] of a run of one piece, filtered, decimated and masked the long way; delays in whole samples."""
    (piece,) = run.open()
    decimator = problem.decimator(run)

    def thinned(x: Array) -> Array:
        return np.convolve(x, decimator.taps[::-1], "valid")[:: decimator.factor]

    w = problem.model.regressor(piece.q, piece.v, piece.a, np.arange(piece.q.shape[1]) / run.rate)
    late = round(problem.delay[j] * run.rate) if problem.delay else 0
    columns = [thinned(w[j, c]) for c in range(len(problem.model.layout))]
    keep = np.abs(thinned(piece.v[j])) >= problem.rest_speeds[j]
    # the filter weighs the samples at rest to at most a tenth
    keep &= np.abs(thinned(np.where(np.abs(piece.v[j]) < problem.rest_speeds[j], 1.0, 0.0))) <= 0.1
    centre = np.arange(len(keep)) * decimator.factor + decimator.half
    low, high = run.stretches[0].window
    return np.stack([*columns, thinned(np.roll(piece.effort[j], -late))], axis=1)[
        keep & (centre >= low) & (centre < high)
    ]


def assert_in_full(problem: Problem, run: Samples, information: Information) -> None:
    for j in range(3):
        rows = rows_in_full(problem, run, j)
        own = information.columns[j]
        others = np.setdiff1d(np.arange(len(problem.model.layout)), own)
        assert np.abs(rows[:, others]).max() < 1e-10
        rows = rows[:, [*own, -1]]
        triangle = information.joint_triangles[j]
        assert triangle.rows == len(rows) == information.rows()[j]
        assert np.all(np.tril(triangle.r, -1) == 0.0)
        assert np.all(np.diagonal(triangle.r) >= 0.0)
        wanted = rows.T @ rows
        scale = np.sqrt(np.outer(np.diagonal(wanted), np.diagonal(wanted)))
        assert np.max(np.abs(triangle.r.T @ triangle.r - wanted) / scale) < 1e-9


@pytest.mark.parametrize("filters", [{}, FILTERS, {"decimate": 7}, {"lowpass_hz": 20.0}])
@pytest.mark.parametrize("window", [None, (700, 3000)])
def test_information_equals_qr_of_the_rows_in_full(filters: dict, window: tuple[int, int] | None) -> None:
    run = run3()
    if window:
        run = replace(run, stretches=(run.stretches[0]._replace(window=window),))
    problem = Problem(model3(), [run], rest=0.05, **filters)
    information = observe(problem)
    assert_in_full(problem, run, information)


def rich_model() -> Model:
    """Every kind of term: with a memory, on what the gears carry, on the time, on the position."""
    terms = [*rich_terms(arm(3)), "drift", "stribeck"]
    return Model(arm(3), [*named_terms(terms), on_joints(Dahl(0.05), ["joint2"]), Ripple([3.0, 5.0, 7.0])])


@pytest.mark.slow
@pytest.mark.parametrize("tile", [32, 100, 384, 5000])
@pytest.mark.parametrize("filters", [{}, FILTERS, {"lowpass_hz": 20.0, "delay": [0.01, -0.02, 0.0]}])
def test_terms_with_a_memory_do_not_see_the_tiles(filters: dict, tile: int) -> None:
    run = run3()
    problem = Problem(rich_model(), [run], rest=0.05, **filters)
    assert_in_full(problem, run, observe(problem, tile=tile))


def test_the_memory_starts_anew_in_every_stretch() -> None:
    """Two runs, or one of two stretches: the rows are the same, but for the time since the run's start."""
    model = Model(arm(3), [*named_terms(rich_terms(arm(3)))])
    whole, first, last = run3(), *(cut(run3(), a, b) for a, b in ((0, 1800), (1800, 4000)))
    (a,), (b,) = first.open(), last.open()
    stretches = (first.stretches[0], last.stretches[0]._replace(start=99.0))
    both = replace(whole, stretches=stretches, open=lambda: iter([a, b._replace(stretch=1)]))
    together = observe(Problem(model, [both], rest=[0.05] * 3, **FILTERS))
    apart = observe(Problem(model, [replace(first, name="one"), replace(last, name="two")], rest=[0.05] * 3, **FILTERS))
    for one, two in zip(together.joint_triangles, apart.joint_triangles, strict=True):
        assert one.rows == two.rows
        np.testing.assert_allclose(one.r.T @ one.r, two.r.T @ two.r, rtol=0, atol=1e-9 * np.abs(one.r).max() ** 2)


def cut(run: Samples, first: int, last: int) -> Samples:
    (piece,) = run.open()
    q, v, a, effort = (x[:, first:last] for x in piece[2:6])
    return Samples.from_arrays(run.name, run.joints, run.rate, q, v, a, effort)


def test_prediction_rows_are_the_observed_rows() -> None:
    for model in (model3(), rich_model()):
        problem = Problem(model, [run3()], delay=[0.01, 0.0, -0.02], **FILTERS)
        theta = np.random.default_rng(0).normal(size=len(model.layout))
        shown = predict_rows(problem, run3(), theta)
        for j in range(3):
            rows = rows_in_full(problem, run3(), j)
            assert shown.scored[j].sum() == len(rows)
            np.testing.assert_allclose(shown.measured[j, shown.scored[j]], rows[:, -1], atol=1e-10)
            np.testing.assert_allclose(shown.predicted[j, shown.scored[j]], rows[:, :-1] @ theta, rtol=1e-8, atol=1e-7)


def test_a_run_too_short_for_a_row_gives_none_and_breaks_nothing() -> None:
    short = samples_of(model3(), 60, seed=5, name="short")
    problem = Problem(model3(), [run3(), short], **FILTERS)
    assert {key.run for key in observe(problem).blocks} == {"run1"}
    assert predict_rows(problem, short, truth_of(model3())).measured.shape == (3, 0)


def test_the_same_data_twice_is_refused() -> None:
    log, robot = log_of(model3(), 3000), model3().robot
    runs = [prepare(recording_of(log, name), robot, channels_of(robot), Preparation(cutoff_hz=20.0)) for name in "ab"]
    with pytest.raises(DataError, match="Runs 'a' and 'b' are the same data"):
        Problem(model3(), runs, **FILTERS)
    with pytest.raises(DataError, match="Run 'b' is not unseen: it has the same data as the fitted run 'a'"):
        identify(Problem(model3(), runs[:1], **FILTERS), held_out=Problem(model3(), runs[1:], **FILTERS))


# --- However the work is cut up ---------------------------------------------------------------------------------------


def identified(log: dict, robot: Robot, channels: ChannelMap, chunk_rows: int = 65536) -> Identification:
    samples = prepare(recording_of(log), robot, channels, Preparation(cutoff_hz=20.0), chunk_rows=chunk_rows)
    return identify(Problem(model_of(robot), [samples], **FILTERS))


def assert_same_bits(one: Identification, other: Identification) -> None:
    for name in ("value", "covariance", "covariance_classical"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.relative_error == other.relative_error
    assert one.findings == other.findings


@pytest.mark.slow
@pytest.mark.parametrize("clock", ["uniform", "jittered", "gaps"])
def test_the_reader_leaves_no_trace(clock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[prepare.__module__], "BLOCK", 512)
    robot = arm(2)
    log = log_of(model_of(robot))
    if clock == "jittered":
        log["t"] = log["t"] + np.random.default_rng(8).uniform(0.0, 1e-3, len(log["t"]))
    if clock == "gaps":
        log["t"] = log["t"] + 2.0 * (np.arange(len(log["t"])) >= 1000)
    reference = identified(log, robot, channels_of(robot))
    for chunk_rows in (1, 7, 1000):
        assert_same_bits(reference, identified(log, robot, channels_of(robot), chunk_rows))


@pytest.mark.slow
@pytest.mark.parametrize("tile", [32, 100, 256, 5000])
@pytest.mark.parametrize("name", TORQUE_ESTIMATORS)
def test_the_tile_leaves_rounding_only(tile: int, name: str) -> None:
    problem = Problem(model3(), [run3()], **FILTERS)
    estimator = named_estimator(name)
    reference = identify(problem, estimator)
    assert distance(reference, identify(problem, estimator, observe(problem, tile=tile))) < 1e-9


def test_pieces_of_any_size_give_the_same_bits() -> None:
    (whole,) = run3().open()

    def cut() -> list[Piece]:
        edges = [0, 1, 130, 131, 1000, 3999, 4000]
        return [Piece(0, a, *(x[:, a:b] for x in whole[2:6])) for a, b in pairwise(edges)]

    other = replace(run3(), open=lambda: iter(cut()))
    assert_same_bits(identify(Problem(model3(), [run3()], **FILTERS)), identify(Problem(model3(), [other], **FILTERS)))


@pytest.mark.slow
@pytest.mark.parametrize("name", TORQUE_ESTIMATORS)
def test_runs_add_in_any_order_and_grouping(name: str) -> None:
    runs = [run3(seed) for seed in (1, 2, 3)]
    problem = Problem(model3(), runs, rest=[0.05] * 3, **FILTERS)
    estimator = named_estimator(name)
    together = observe(problem)
    reference = identify(problem, estimator, together)
    alone = [observe(Problem(model3(), [run], rest=[0.05] * 3, **FILTERS)) for run in runs]
    for a, b, c in permutations(alone):
        for total in ((a + b) + c, a + (b + c)):
            assert set(total.blocks) == set(together.blocks)
            assert distance(reference, identify(problem, estimator, total)) < 1e-9


def test_equal_keys_are_stacked() -> None:
    information = observe(Problem(model3(), [run3()], **FILTERS))
    double = information + information
    assert set(double.blocks) == set(information.blocks)
    np.testing.assert_array_equal(double.rows(), 2 * information.rows())
    for one, two in zip(information.joint_triangles, double.joint_triangles, strict=True):
        np.testing.assert_allclose(two.r.T @ two.r, 2 * one.r.T @ one.r, atol=1e-9 * np.abs(one.r).max() ** 2)


def test_total_sums_the_blocks_of_a_run() -> None:
    problem = Problem(model3(), [run3(1), run3(2)], **FILTERS)
    information = observe(problem)
    total = information.total()
    assert {key[:3] for key in total.blocks} == {("run1", "none", 0), ("run2", "none", 0)}
    np.testing.assert_array_equal(total.rows(), information.rows())
    reference = identify(problem, information=information)
    assert distance(reference, identify(problem, information=total)) < 1e-9


def test_information_on_another_model_is_not_added() -> None:
    here = observe(Problem(model3(), [run3()], **FILTERS))
    fewer = Model(arm(3), model3().terms[:2])
    with pytest.raises(EstimationError, match="Only information about the same model can be added"):
        _ = here + observe(Problem(fewer, [run3(2)], **FILTERS))
    two = model_of(arm(2))
    with pytest.raises(EstimationError, match="same model"):
        _ = here + observe(Problem(two, [samples_of(two)], **FILTERS))


@pytest.mark.parametrize("shifts", [(), (0.02, -0.02)])
def test_information_on_fewer_columns_is_that_of_the_smaller_model(shifts: tuple[float, ...]) -> None:
    wide = observe(Problem(rich_model(), [run3()], **FILTERS), shifts=shifts)
    for terms in (named_terms(("rotor", "dahl")), named_terms(("coulomb", "load", "offset", "power-law")), ()):
        model = Model(arm(3), terms)
        own, less = observe(Problem(model, [run3()], **FILTERS), shifts=shifts), wide.on(model.layout)
        assert less.layout.names == own.layout.names
        assert less.responses == own.responses
        np.testing.assert_array_equal(less.rows(), own.rows())
        for j in range(3):
            assert sorted(less.columns[j]) == sorted(own.columns[j])
            order = [
                *np.argsort(less.columns[j]),
                *range(len(own.columns[j]), len(own.columns[j]) + len(own.responses)),
            ]
            one, two = less.joint_triangles[j].r[:, order], own.joint_triangles[j].r
            scale = np.linalg.norm(two, axis=0)
            assert np.abs((one.T @ one - two.T @ two) / np.outer(scale, scale)).max() < 1e-9
        if not shifts and terms:
            problem = Problem(model, [run3()], **FILTERS)
            assert distance(identify(problem, information=own), identify(problem, information=less)) < 1e-7


def test_information_has_no_columns_it_did_not_observe() -> None:
    information = observe(Problem(model3(), [run3()], **FILTERS))
    with pytest.raises(EstimationError, match=r"has no column joint1\.Fd2, joint2\.Fd2"):
        information.on(Model(arm(3), named_terms(("rotor", "dahl"))).layout)


def test_a_run_cut_into_other_blocks_is_not_added() -> None:
    one = observe(Problem(model3(), [run3()], decimate=2))
    other = observe(Problem(model3(), [run3()], decimate=20))
    with pytest.raises(EstimationError, match="Run 'run1' was divided into blocks of another length"):
        _ = one + other


# --- The same experiment told differently -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_joint_order_does_not_matter(seed: int) -> None:
    robot = forked()
    log = log_of(model_of(robot), 6000)
    reference = identified(log, robot, channels_of(robot))
    other, order = reordered(robot, np.random.default_rng(seed))
    assert other.joint_names == tuple(robot.joint_names[i] for i in order)
    again = identified(log, other, channels_of(other))
    assert distance(reference, again) < 1e-9
    assert again.relative_error.joints == pytest.approx(reference.relative_error.joints, rel=1e-9)


def test_some_order_is_another_one() -> None:
    orders = {tuple(reordered(forked(), np.random.default_rng(seed))[1]) for seed in (0, 1, 2)}
    assert len(orders - {(0, 1, 2, 3)}) >= 1


def test_other_names_change_names_only() -> None:
    robot = arm(3)
    joints = tuple(replace(joint, name=f"axis_{k}") for k, joint in enumerate(robot.joints))
    renamed = replace(robot, joints=joints)
    log = log_of(model_of(robot))
    table = channels_of(robot)
    other = replace(
        table,
        q=Signal(list(table.q.columns.values()), "rad"),
        effort=Signal(list(table.effort.columns.values()), "N.m"),
    )
    np.testing.assert_array_equal(
        identified(log, robot, table).value,
        identified(log, renamed, other).value,
    )


def test_other_units_do_not_matter() -> None:
    robot = arm(3)
    log = log_of(model_of(robot))
    table = channels_of(robot)
    told = {"t": 1e3 * log["t"]}
    for k, name in enumerate(robot.joint_names):
        told[f"q_{name}"] = log[f"q_{name}"] / [np.pi / 180, 2 * np.pi, 1e-3][k]
        told[f"tau_{name}"] = log[f"tau_{name}"] / [1e3, 1e-3, -1.0][k]
    other = ChannelMap(
        "t",
        replace(table.q, unit=["deg", "rev", "mrad"]),
        replace(table.effort, unit=["kN.m", "mN.m", "N.m"], sign=[1, 1, -1]),
        "ms",
    )
    assert distance(identified(log, robot, table), identified(told, robot, other)) < 1e-9


def test_the_motor_side_does_not_matter() -> None:
    coupling = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
    robot = replace(arm(3), coupling=coupling)
    log = log_of(model_of(robot))
    table = channels_of(robot)
    ratio = np.array([32.0, -45.0, 48.0])
    q = np.stack([log[f"q_{name}"] for name in robot.joint_names])
    tau = np.stack([log[f"tau_{name}"] for name in robot.joint_names])
    motor_q = ratio[:, None] * (coupling @ q)
    motor_tau = np.linalg.solve(coupling.T, tau) / ratio[:, None]
    told = {"t": log["t"]}
    told |= {f"q_{name}": x for name, x in zip(robot.joint_names, motor_q, strict=True)}
    told |= {f"tau_{name}": x / 0.17 for name, x in zip(robot.joint_names, motor_tau, strict=True)}
    motor = {"side": "motor", "ratio": ratio.tolist()}
    other = ChannelMap("t", replace(table.q, **motor), replace(table.effort, unit="A", gain=0.17, **motor))
    assert distance(identified(log, robot, table), identified(told, robot, other)) < 1e-9


# --- Blocks and clusters ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [90, 700, 4000, 20001])
def test_blocks_are_few_and_cut_on_decimated_rows(count: int) -> None:
    model = model_of(arm(2))
    run = samples_of(model, count)
    problem = Problem(model, [run], decimate=3, rest=0.0)
    information = observe(problem)
    rows = -(-count // 3)
    size = information.block_rows["run"]
    assert size == -(-rows // MOST_BLOCKS)
    assert len(information.times) <= MOST_BLOCKS
    assert [time[2] for time in information.times] == list(range(-(-rows // size)))
    for key, triangle in information.blocks.items():
        assert triangle.rows == min(size, rows - key.block * size)
        assert len(triangle.r) <= min(triangle.rows, len(information.columns[key.joint]) + 1)


@pytest.mark.parametrize("count", [1, 5, 12, 40])
def test_clusters_cover_everything_and_cross_no_run(count: int) -> None:
    runs = [run3(1), run3(2, 1200), replace(run3(3), load="tool")]
    information = observe(Problem(model3(), runs, rest=[0.05] * 3, **FILTERS))
    clusters = information.clusters(count)
    together = [time for cluster in clusters for time in cluster]
    assert sorted(together) == sorted(information.times)
    assert len(set(together)) == len(together)
    for cluster in clusters:
        assert len({time[:2] for time in cluster}) == 1
        numbers = [time[2] for time in cluster]
        positions = [information.times.index(time) for time in cluster]
        assert numbers == sorted(numbers)
        assert positions == list(range(positions[0], positions[0] + len(positions)))
    assert len({cluster[0][:2] for cluster in clusters}) == 3
    assert abs(len(clusters) - max(count, 3)) <= 2


def test_clusters_hold_nearly_equal_rows() -> None:
    information = observe(Problem(model3(), [run3()], rest=0.0, **FILTERS))
    rows = dict.fromkeys(information.times, 0)
    for key, triangle in information.blocks.items():
        rows[key[:3]] += triangle.rows
    sizes = [sum(rows[time] for time in cluster) for cluster in information.clusters(12)]
    assert len(sizes) == 12
    assert max(sizes) < 1.5 * min(sizes)


# --- Masks ------------------------------------------------------------------------------------------------------------


def kept_by(information: Information) -> list[int]:
    return information.rows().tolist()


def test_rest_is_a_fraction_of_each_joints_top_speed_or_speeds() -> None:
    run = run3()
    (piece,) = run.open()
    fraction = Problem(model3(), [run], rest=0.1)
    np.testing.assert_allclose(fraction.rest_speeds, 0.1 * run.top_speed)
    stated = Problem(model3(), [run], rest=[0.0, 0.5, 1.0])
    for problem in (fraction, stated):
        moving = np.abs(piece.v) >= problem.rest_speeds[:, None]
        assert kept_by(observe(problem)) == moving.sum(axis=1).tolist()
    np.testing.assert_array_equal(stated.rest_speeds, [0.0, 0.5, 1.0])
    assert "0.1 of the top speed" in fraction.mask
    assert "stated speeds" in stated.mask


def test_rest_left_open_is_a_speed_or_less_for_slow_joints() -> None:
    (piece,) = run3().open()
    slow = np.array([1.0, 0.1, 0.05])[:, None]
    run = Samples.from_arrays("run", run3().joints, 200.0, piece.q, slow * piece.v, piece.a, piece.effort)
    problem = Problem(model3(), [run])
    np.testing.assert_allclose(problem.rest_speeds, np.minimum(0.02, 0.05 * run.top_speed))
    assert problem.rest_speeds[0] == 0.02
    assert problem.rest_speeds[2] < 0.02
    assert "rad/s (the smaller of 0.02 and 5% of the top speed)" in problem.mask
    # a problem that scores other runs keeps the speeds of the fit
    np.testing.assert_array_equal(problem.with_runs([run3()]).rest_speeds, problem.rest_speeds)


def test_a_row_counts_while_its_support_rests_little() -> None:
    """The joint stands still for a while: rows whose filter weighs that by more than a tenth are left out."""
    (piece,) = run3().open()
    v = np.ones_like(piece.v)
    v[1, 1500:1540] = 0.0
    run = Samples.from_arrays("run", run3().joints, 200.0, piece.q, v, piece.a, piece.effort)
    problem = Problem(model3(), [run], rest=[0.1] * 3, lowpass_hz=8.0, decimate=1)
    taps = problem.decimator(run).taps
    weight = np.convolve(v[1] == 0.0, taps, "valid")
    rows = observe(problem).rows()
    assert rows[0] == rows[2] == len(weight)
    assert rows[1] == np.sum(np.abs(weight) <= 0.1)
    assert 40 < len(weight) - rows[1] < 40 + len(taps)
    # nothing is at rest where no speed is stated
    assert observe(Problem(model3(), [run], rest=0.0, lowpass_hz=8.0, decimate=1)).rows()[1] == len(weight)


@pytest.mark.parametrize("delay", [[0.01], [0.0, np.nan, 0.0], [0.0] * 4])
def test_delays_are_one_a_joint(delay: list[float]) -> None:
    with pytest.raises(DataError, match=r"for 3 joints; give one number \[s\] per joint"):
        Problem(model3(), [run3()], delay=delay)


@pytest.mark.parametrize("rest", [-0.1, [0.1, 0.1], [0.1, -1.0, 0.1], np.nan])
def test_rest_must_make_sense(rest: float | list[float]) -> None:
    with pytest.raises(DataError, match=r"rest lists|`rest` in \[prepare\] must be zero or positive"):
        Problem(model3(), [run3()], rest=rest)


def test_a_still_joint_has_a_finding_and_no_rows() -> None:
    model = model3()
    q, v, a = motion_of(model.robot, 3000, 200.0, 4)[:3]
    for x, value in ((q, 0.3), (v, 0.0), (a, 0.0)):
        x[1] = value
    run = Samples.from_arrays("run", model.robot.joint_names, 200.0, q, v, a, model.torque(q, v, a, truth_of(model)))
    problem = Problem(model, [run], **FILTERS)
    assert problem.still == (1,)
    information = observe(problem)
    assert kept_by(information)[1] == 0
    assert min(kept_by(information)[::2]) > 0
    result = identify(problem, information=information)
    (finding,) = [f for f in result.findings if f.code == "joint-not-moving"]
    assert (finding.severity, finding.where) == ("error", "joint2")
    assert "joint2 does not move" in finding.message
    assert result.relative_error.rows["joint2"] == 0
    assert np.isfinite(result.relative_error.total)
    assert not np.isfinite(result.value[list(result.base.names).index("joint2.Fv")])


def test_nothing_left_is_an_error() -> None:
    with pytest.raises(EstimationError, match="No rows of run1 are left after filtering, decimation and the rest mask"):
        observe(Problem(model3(), [run3()], rest=[1e3] * 3))


def test_problems_are_checked() -> None:
    with pytest.raises(DataError, match="at least one run"):
        Problem(model3(), [])
    with pytest.raises(DataError, match="Two runs have the same name: run1, run1"):
        Problem(model3(), [run3(), run3()])
    with pytest.raises(DataError, match="Run 'run' has joints joint1, joint2; robot 'arm' has joint1, joint2, joint3"):
        Problem(model3(), [samples_of(model_of(arm(2)))])
