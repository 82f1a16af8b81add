"""Delays of the effort: recovered from simulated and recorded logs to a fraction of a sample, and corrected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.interpolate import make_interp_spline

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.identification.delays import Delays, at_delays, effort_shifts, estimate_delays
from steelyard.identification.identify import identify
from steelyard.model.model import Model
from steelyard.model.terms import DEFAULT_TERMS, named_terms, rich_terms
from steelyard.regression.observe import observe
from steelyard.regression.problem import REST_SHARE, Problem
from steelyard.signals.prepare import prepare
from steelyard.signals.recording import Recording
from steelyard.signals.samples import Piece
from test_real_data import ROOT, opened
from testbed.simulated import arm, late_samples_of, model_of, truth_of

RATE = 200.0
FILTERS = {"lowpass_hz": 8.0, "decimate": 6}


@cache
def model() -> Model:
    """Three joints with rotors, friction and offsets. A sampled jump of sign(v) is known to half a sample only, so that
    delays to a hundredth of one need a smooth sign."""
    return Model(arm(3), named_terms(DEFAULT_TERMS, sign_width=0.2))


def problem_of(late: Sequence[float], seed: int = 1, noise: float = 0.0, **options) -> Problem:
    """Efforts that lag `late` samples behind."""
    run = late_samples_of(model(), truth_of(model()), late, rate=RATE, seed=seed, noise=noise)
    return Problem(model(), [run], **{**FILTERS, **options})


# --- Simulated --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("samples", [-5.7, 0.0, 3.4, 12.2])
@pytest.mark.parametrize("joints", [(0, 1, 2), (1,)])
def test_delays_are_recovered_without_noise(samples: float, joints: tuple[int, ...]) -> None:
    late = [samples if j in joints else 0.0 for j in range(3)]
    found = estimate_delays(problem_of(late))
    np.testing.assert_allclose(RATE * found.seconds, late, rtol=0, atol=0.005)
    if len(joints) == 3:
        assert RATE * found.common == pytest.approx(samples, abs=0.005)


@pytest.mark.parametrize("samples", [-5.7, 3.4])
def test_jumps_of_friction_cost_little(samples: float) -> None:
    rough = model_of(arm(3))
    run = late_samples_of(rough, truth_of(rough), [samples] * 3)
    found = estimate_delays(Problem(rough, [run], rest=[0.1] * 3, **FILTERS))
    np.testing.assert_allclose(RATE * found.seconds, samples, rtol=0, atol=0.05)


@pytest.mark.parametrize("late", [(-2.7,) * 3, (0.0,) * 3, (2.4, 0.0, 12.2), (-4.7,) * 3, (-5.7,) * 3])
def test_delays_are_recovered_within_their_error_bars(late: tuple[float, ...]) -> None:
    found = estimate_delays(problem_of(late, noise=1.0))
    assert np.all(RATE * found.std < 0.5)
    assert np.all(np.abs(RATE * found.seconds - late) < 3.0 * RATE * found.std)
    if len(set(late)) == 1:
        assert found.agree > 0.01
        assert abs(RATE * found.common - late[0]) < 3.0 * RATE * found.common_std
        # all joints show it: up to 25 ms are corrected, almost as estimated
        wanted = 0.0 if late[0] == -5.7 else found.common
        assert found.correction == pytest.approx((wanted,) * 3, abs=0.3 * found.common_std)
    else:
        assert found.agree < 1e-6
        assert found.significant == (True, False, True)
        assert found.correction == (found.seconds[0], 0.0, 0.0)
        assert found.doubtful == ("joint3",)


@pytest.mark.parametrize("lowpass_hz", [40.0, 75.0])
def test_noise_alone_is_no_delay(lowpass_hz: float) -> None:
    """With a parallel filter up to near half the rate, most of the residual is noise."""
    found = [estimate_delays(problem_of([0.0] * 3, seed, 2.0, lowpass_hz=lowpass_hz, decimate=1)) for seed in range(4)]
    common = np.array([RATE * one.common / (RATE * one.common_std) for one in found])
    assert abs(common.mean()) < 1.5
    assert np.abs(common).max() < 4.0


@pytest.mark.slow
def test_error_bars_cover() -> None:
    late = np.array([2.3, -1.1, 0.4])
    own, shared = [], []
    for seed in range(30):
        found = estimate_delays(problem_of(late.tolist(), seed=seed, noise=1.0))
        own.append((RATE * found.seconds - late) / (RATE * found.std))
        together = estimate_delays(problem_of([1.7] * 3, seed=seed, noise=1.0))
        shared.append((RATE * together.common - 1.7) / (RATE * together.common_std))
    # a normal distribution has 95 % within two, and half of it within 0.67
    for z in (*np.array(own).T, np.array(shared)):
        assert np.mean(np.abs(z) < 2.0) >= 0.8
        assert 0.35 < np.median(np.abs(z)) < 1.1


def test_a_delay_already_corrected_is_told_in_full() -> None:
    """Estimated beside a delay the problem corrects, the delay is still that of the log."""
    late = [4.2, 4.2, 4.2]
    found = estimate_delays(problem_of(late, delay=[0.015] * 3))
    np.testing.assert_allclose(RATE * found.seconds, late, rtol=0, atol=0.05)
    assert RATE * found.common == pytest.approx(4.2, abs=0.05)


def test_a_delay_beyond_reach_stays_at_the_edge() -> None:
    found = estimate_delays(problem_of([60.0] * 3))
    assert found.furthest == pytest.approx(1.0 / FILTERS["lowpass_hz"])
    assert np.all(np.abs(found.seconds) <= found.furthest + 1e-12)


def test_a_joint_without_rows_has_no_delay() -> None:
    run = late_samples_of(model(), truth_of(model()), [3.0] * 3, noise=0.2)
    (piece,) = run.open()
    effort = piece.effort.copy()
    effort[2] = 1.0
    dead = replace(
        run, constant_effort=np.array([False, False, True]), open=lambda: iter([piece._replace(effort=effort)])
    )
    found = estimate_delays(Problem(model(), [dead], **FILTERS))
    assert np.isnan(found.seconds[2])
    np.testing.assert_allclose(RATE * found.seconds[:2], 3.0, rtol=0, atol=0.2)
    assert all(np.isfinite(found.correction))


def test_without_a_filter_there_are_no_delays() -> None:
    with pytest.raises(EstimationError, match="set lowpass_hz"):
        estimate_delays(problem_of([0.0] * 3, lowpass_hz=None))


def test_one_block_of_time_gives_no_error_bars() -> None:
    problem = problem_of([0.0] * 3, noise=1.0)
    information = observe(problem, shifts=effort_shifts(problem)).total()
    with pytest.raises(EstimationError, match="too few blocks of time for the σ of the delays; record longer"):
        estimate_delays(problem, information)


# --- What is made of them ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [(3.4, 3.4, 3.4), (-5.7, 0.0, 12.2)])
def test_copies_stand_for_efforts_read_later(late: tuple[float, ...]) -> None:
    """Interpolated between the copies, the efforts give the parameters of a problem that reads them later."""
    problem = problem_of(late, noise=0.5)
    seconds = [x / RATE for x in late]
    shifts = effort_shifts(problem)
    moved = at_delays(observe(problem, shifts=shifts), shifts, seconds)
    assert moved.responses == ("effort",)
    # another copy makes room for as much as `shifts` do, so that the rows are the same ones
    later = replace(problem, delay=seconds)
    read = observe(later, shifts=[max(shifts) - max(map(abs, seconds))])
    np.testing.assert_array_equal(moved.rows(), read.rows())
    one, other = identify(problem, information=moved), identify(later, information=read)
    assert np.linalg.norm(one.value - other.value) < 1e-3 * np.linalg.norm(other.value)
    assert np.max(np.abs(one.value - other.value) / other.std) < 0.05
    truth = other.base.map @ truth_of(model())
    assert np.max(np.abs(other.value - truth) / other.std) < 4.0
    raw = identify(problem)
    assert np.max(np.abs(raw.value - truth) / raw.std) > 3.0
    assert other.relative_error.total < 0.5 * raw.relative_error.total


def delays(
    seconds: Sequence[float], std: Sequence[float], common: tuple[float, float], agree: float, blocks: int = 10**6
) -> Delays:
    names = tuple("abcdef"[: len(seconds)])
    return Delays(names, np.array(seconds), np.array(std), *common, agree, blocks, furthest=0.1, believable=1e-2)


def test_what_is_corrected() -> None:
    """One delay for all unless they differ, as far as it is certain; at most 10 ms, and single ones significant."""
    assert delays([2e-3, 2e-3], [1e-3, 1e-3], (2e-3, 0.0), 0.9).correction == (2e-3, 2e-3)
    # 4 ms are expected of a logger that is at most 10 ms late
    assert delays([2e-3, 2e-3], [1e-3, 1e-3], (2e-3, 4e-3), 0.9).correction == pytest.approx((1e-3, 1e-3))
    assert delays([2e-3, 2e-3], [1e-3, 1e-3], (2e-3, 4e-1), 0.9).correction == pytest.approx((0.0, 0.0), abs=1e-6)
    # longer ones count if most joints show them by themselves, up to 25 ms
    assert delays([11e-3, 11e-3], [1e-3, 1e-3], (11e-3, 1e-5), 0.9).correction == pytest.approx(
        (11e-3, 11e-3), rel=1e-4
    )
    assert delays([26e-3, 26e-3], [1e-3, 1e-3], (26e-3, 1e-5), 0.9).correction == (0.0, 0.0)
    assert delays([11e-3, 11e-3], [1e-3, 1e-2], (11e-3, 1e-5), 0.9).correction == (0.0, 0.0)
    assert delays([11e-3, 17e-3], [1e-3, 1e-3], (11e-3, 1e-5), 0.9).correction == (0.0, 0.0)
    assert delays([9.5e-3, -4e-3], [1e-3, 2e-3], (2.7e-3, 7e-4), 1e-4).correction == (9.5e-3, 0.0)
    assert delays([-9e-3, 20e-3], [1e-3, 1e-3], (5e-3, 7e-4), 1e-4).correction == (-9e-3, 0.0)
    # σ from few blocks is itself uncertain: 3.5 of them are not enough with twelve, 4 are
    assert delays([7e-3, -8e-3], [2e-3, 2e-3], (0.0, 7e-4), 1e-4, blocks=12).correction == (0.0, -8e-3)
    assert delays([9e-3, float("nan")], [1e-3, float("nan")], (2e-3, 7e-4), 1e-4).correction == (9e-3, 0.0)


def test_joints_that_are_close_share_one_delay() -> None:
    """Differences below 6 ms are no delays of single joints, however small their error bars; one outlier is none."""
    sure = [1e-5] * 3
    assert delays([1e-3, 9e-3, 4e-3], sure, (4e-3, 0.0), 1e-9).correction == (4e-3,) * 3
    assert delays([3e-3, 5e-3, 47e-3], sure, (4e-3, 0.0), 1e-9).correction == (4e-3,) * 3
    assert delays([3e-3, float("nan"), 5e-3], sure, (4e-3, 0.0), 1e-9).correction == (4e-3,) * 3
    # implausible delays of single joints come from friction or elasticity, whether most joints have one or few
    assert delays([47e-3, -26e-3, 3e-3], sure, (4e-3, 0.0), 1e-9).correction == (4e-3,) * 3
    assert delays([47e-3, -26e-3, 20e-3], sure, (4e-3, 0.0), 1e-9).correction == (0.0,) * 3
    # two of three differ from the common one by more
    assert delays([-8e-3, 8e-3, 0.0], sure, (0.0, 1e-5), 1e-9).correction == (-8e-3, 8e-3, 0.0)
    # a common delay that is too long corrects nothing
    assert delays([13e-3, 15e-3, 14e-3], sure, (14e-3, 1e-5), 1e-9).correction == (0.0,) * 3
    assert delays([13e-3, 15e-3, 14e-3], sure, (14e-3, 1e-5), 1e-9).doubtful == ("a", "b", "c")


@pytest.mark.parametrize(("late", "shared"), [((1.4, 1.0, 1.1), True), ((2.8, 0.0, -2.0), False)])
def test_simulated_joints_share_a_delay_unless_they_differ(late: tuple[float, ...], shared: bool) -> None:
    """Delays of 7, 5 and 5.5 ms become one; of 14, 0 and −10 ms, each joint keeps its own."""
    found = estimate_delays(problem_of(late, noise=0.05))
    assert found.agree < 1e-6
    if shared:
        assert found.correction == pytest.approx((found.common,) * 3, rel=1e-2)
        assert RATE * found.common == pytest.approx(np.mean(late), abs=0.25)
    else:
        assert found.significant == (True, False, True)
        assert found.correction == (found.seconds[0], 0.0, found.seconds[2])
        assert RATE * np.array(found.correction) == pytest.approx(late, abs=0.1)


@pytest.mark.parametrize(("rate", "believable"), [(200.0, 15e-3), (600.0, 5e-3), (5000.0, 5e-3)])
def test_a_logger_is_late_by_little(rate: float, believable: float) -> None:
    """Three samples, or 5 ms where the log is fast."""
    run = late_samples_of(model(), truth_of(model()), [0.0] * 3, count=int(20 * rate), rate=rate, noise=0.5)
    assert estimate_delays(Problem(model(), [run], lowpass_hz=8.0)).believable == pytest.approx(believable)


def test_the_finding_tells_delays_and_what_was_done() -> None:
    (told,) = delays([9.5e-3, -4e-3], [1e-3, 2e-3], (2.7e-3, 7e-4), 1e-4).findings()
    assert (told.code, told.severity) == ("delays", "info")
    assert "a +9.50 ± 1.00, b -4.00 ± 2.00; common +2.70 ± 0.70; corrected by [+9.50, +0.00]" in told.message
    (nothing,) = delays([0.0, 0.0], [1e-3, 1e-3], (0.0, 7e-4), 0.9).findings()
    assert nothing.message.endswith("no correction")
    (doubt,) = delays([9e-3, 47e-3], [1e-3, 1e-3], (2e-3, 7e-4), 1e-4).findings()
    assert (doubt.severity, doubt.where) == ("warning", "b")
    assert doubt.fix.startswith("longer than 10 ms: check the terms")


def test_a_delay_that_is_not_an_estimate_is_not_printed_as_one() -> None:
    (said,) = delays([-0.1, float("nan")], [0.0, float("nan")], (2e-3, 5e-4), 1e-4).findings()
    assert "a at the limit of the search (-100), b not estimated; common +2.00 ± 0.50" in said.message


# --- Recorded data ----------------------------------------------------------------------------------------------------


def shifted(recording: Recording, time: str, efforts: Sequence[str], seconds: float) -> Recording:
    """The log with its efforts read through a spline of fifth order, so much later."""
    chunks = list(recording.chunks(recording.columns))
    columns: dict[str, Array] = {name: np.concatenate([c[name] for c in chunks]) for name in recording.columns}
    t = columns[time]
    fresh = np.concatenate([[True], np.diff(t) > 0.0])
    for name in efforts:
        spline = make_interp_spline(t[fresh], columns[name][fresh], k=5)
        columns[name] = spline(np.clip(t - seconds, t[0], t[-1]))
    return Recording.from_arrays(recording.name, columns)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tx40", "ur10e", "panda"])
def test_what_is_inserted_into_a_log_is_found(name: str) -> None:
    project = opened(ROOT / "examples" / "real" / f"{name}.toml")
    robot = project.robot()
    rich = Model(robot, named_terms(rich_terms(robot)))
    channels, (entry, *_) = project.spec.channels.channel_map(), project.spec.run
    log = project.recording(entry)
    plain = prepare(log, robot, channels, project.preparation(), rows=entry.rows)
    lag = 3.4 / plain.rate
    columns = channels.effort.columns
    moved = shifted(log, channels.time, list(columns.values() if isinstance(columns, dict) else columns), lag)
    late = prepare(moved, robot, channels, project.preparation(), rows=entry.rows)
    # rows that reach into rest make the estimates of the wrists jump
    problems = (replace(project.problem(rich, [run]), rest_share=REST_SHARE) for run in (plain, late))
    before, after = (estimate_delays(problem) for problem in problems)
    assert plain.rate * (after.common - before.common) == pytest.approx(3.4, abs=0.1)
    assert np.median(np.abs(plain.rate * (after.seconds - before.seconds) - 3.4)) < 0.2


@pytest.mark.filterwarnings("error")
def test_an_effort_of_zero_has_no_delay() -> None:
    """A joint without a motor in the log: its delay is unknown, not the limit of the search with a σ of zero."""
    problem = problem_of([8.0] * 3, noise=0.3)
    (run,) = problem.runs

    def silent() -> Iterator[Piece]:
        for piece in run.open():
            yield piece._replace(effort=piece.effort * np.array([1.0, 0.0, 1.0])[:, None])

    found = estimate_delays(replace(problem, runs=[replace(run, open=silent)]))
    assert np.isnan(found.seconds[1])
    assert RATE * found.seconds[[0, 2]] == pytest.approx(8.0, abs=0.5)
    assert RATE * found.common == pytest.approx(8.0, abs=0.5)
    assert not found.significant[1]
    assert "joint2 not estimated" in found.findings()[0].message
