"""From a log to uniform samples: the clock, the filters, the derivatives, and no trace of how the file was read."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import butter, sosfiltfilt

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.identification.identify import identify
from steelyard.model.robot import Robot
from steelyard.regression.observe import observe, row_count
from steelyard.regression.problem import Problem
from steelyard.signals.channels import ChannelMap, Signal
from steelyard.signals.derivatives import BUTTERWORTH_ORDER, DERIVATIVES, Derivatives
from steelyard.signals.prepare import Preparation, prepare
from steelyard.signals.samples import Piece, Samples, joined
from testbed.simulated import arm, channels_of, log_of, model_of, recording_of, truth_of

# the module: as an attribute of the package the name is the function's
PREPARE = sys.modules[prepare.__module__]
ONE = arm(1)
CHUNKS = (1, 7, 1000, 65536)


def log_at(t: Array, q: Callable[[Array], Array] = np.sin, **more: Array) -> dict[str, Array]:
    """A log of one joint with position q(t) and an effort that never repeats."""
    return {"t": t, "q_joint1": q(t), "tau_joint1": np.cos(3.1 * t) + t, **more}


def prepared(log: Mapping[str, Array], settings: Preparation | None = None, robot: Robot = ONE, **options) -> Samples:
    return prepare(recording_of(log), robot, channels_of(robot), settings, **options)


def stretch_of(samples: Samples, stretch: int = 0) -> Piece:
    """All samples of a stretch in one piece."""
    pieces = [piece for piece in samples.open() if piece.stretch == stretch]
    return joined(pieces)._replace(first=0)


def times_of(samples: Samples, stretch: int = 0) -> Array:
    span = samples.stretches[stretch]
    return span.start + np.arange(span.length) / samples.rate


def inner(samples: Samples, stretch: int = 0) -> slice:
    return slice(*samples.stretches[stretch].clean)


# --- Clock ------------------------------------------------------------------------------------------------------------


def test_a_uniform_clock_is_kept() -> None:
    t = 5.0 + np.arange(500) / 250.0
    samples = prepared(log_at(t))
    assert samples.rate == pytest.approx(250.0, rel=1e-12)
    assert samples.count == 500
    assert samples.stretches[0].start == 5.0
    np.testing.assert_array_equal(stretch_of(samples).q[0], np.sin(t))
    assert "clock uniform at 250 Hz" in samples.history


def test_milliseconds() -> None:
    t = np.arange(500) / 250.0
    channels = ChannelMap("t", Signal(["q_joint1"], "rad"), Signal(["tau_joint1"], "N.m"), "ms")
    samples = prepare(recording_of({**log_at(t), "t": 1000 * t}), ONE, channels)
    assert samples.rate == pytest.approx(250.0)


def test_a_jittered_clock_is_resampled() -> None:
    rng = np.random.default_rng(5)
    t = (np.arange(3000) + rng.uniform(-0.3, 0.3, 3000)) / 200.0

    def q(x: Array) -> Array:
        return np.sin(2 * np.pi * 2.0 * x)

    samples = prepared(log_at(t, q), Preparation(rate_hz=200.0))
    assert samples.rate == 200.0
    grid = times_of(samples)
    # cubic Hermite with parabola slopes: error about (h ω)³ / 24 for the largest step h
    assert np.max(np.abs(stretch_of(samples).q[0] - q(grid))) < (1.6 / 200.0 * 4 * np.pi) ** 3 / 24
    assert np.max(np.abs(stretch_of(samples).effort[0] - np.cos(3.1 * grid) - grid)) < 1e-5
    assert any(line.startswith("resampled at 200 Hz by cubic interpolation") for line in samples.history)


def test_resampling_takes_the_usual_rate_unless_told() -> None:
    t = np.cumsum(np.tile([0.010, 0.012, 0.010], 300))
    assert prepared(log_at(t)).rate == pytest.approx(100.0)
    assert prepared(log_at(t), Preparation(rate_hz=93.0)).rate == 93.0


@pytest.mark.slow
@pytest.mark.parametrize("held", [2, 3, 5])
@pytest.mark.parametrize("chunk_rows", CHUNKS)
def test_values_held_for_several_rows_are_stale(held: int, chunk_rows: int) -> None:
    t = np.arange(600 * held) / 1000.0
    fresh = log_at(t[::held])
    log = {name: np.repeat(values, held) for name, values in fresh.items()} | {"t": t}
    samples = prepared(log, chunk_rows=chunk_rows)
    assert samples.rate == pytest.approx(1000.0 / held)
    assert samples.count == 600
    np.testing.assert_array_equal(stretch_of(samples).q[0], fresh["q_joint1"])
    assert f"dropped {600 * (held - 1)} repeated rows (equal to the previous row in every channel)" in samples.history
    assert [finding.code for finding in samples.findings] == ["unfiltered-derivatives", "repeated-rows"]


def test_rows_with_a_repeated_time_are_dropped() -> None:
    t = np.arange(400) / 100.0
    log = {name: np.insert(values, 200, values[199] + 1.0) for name, values in log_at(t).items()}
    log["t"][200] = log["t"][199]
    samples = prepared(log)
    assert "dropped 1 rows with a repeated time" in samples.history
    np.testing.assert_array_equal(stretch_of(samples).q[0], np.sin(t))


@pytest.mark.slow
@pytest.mark.parametrize("chunk_rows", [*CHUNKS, 300])
def test_gaps_split_the_run(chunk_rows: int) -> None:
    t = np.arange(1000) / 100.0
    t[300:] += 2.0
    t[700:] += 1.0
    samples = prepared(log_at(t), chunk_rows=chunk_rows)
    assert [(s.start, s.length) for s in samples.stretches] == [(0.0, 300), (5.0, 400), (10.0, 300)]
    assert [piece.stretch for piece in samples.open()] == [0, 1, 2]
    np.testing.assert_array_equal(stretch_of(samples, 1).q[0], np.sin(t[300:700]))
    assert any(line.startswith("split into 3 stretches at gaps longer than 0.05 s") for line in samples.history)
    assert "gaps" in [finding.code for finding in samples.findings]


def test_gap_s_decides_what_a_gap_is() -> None:
    t = np.arange(1000) / 100.0
    t[300:] += 0.2
    assert len(prepared(log_at(t), Preparation(gap_s=0.1)).stretches) == 2
    bridged = prepared(log_at(t), Preparation(gap_s=0.5))
    assert len(bridged.stretches) == 1
    assert bridged.count == 1020


@pytest.mark.slow
@pytest.mark.parametrize("chunk_rows", CHUNKS)
def test_a_row_alone_between_two_gaps(chunk_rows: int) -> None:
    t = np.arange(1000) / 100.0 + np.random.default_rng(0).uniform(0, 2e-3, 1000)
    t[500:] += 1.0
    t[501:] += 1.0
    samples = prepared(log_at(t), chunk_rows=chunk_rows)
    assert [s.length for s in samples.stretches][1] == 1
    assert [piece.stretch for piece in samples.open()] == [0, 1, 2]


def test_nan_is_an_error_that_names_column_and_row() -> None:
    log = log_at(np.arange(400) / 100.0)
    log["tau_joint1"][123] = np.nan
    with pytest.raises(DataError, match=re.escape("column 'tau_joint1' is NaN or empty in row 124")):
        prepared(log)


def test_rows_with_nan_can_be_dropped() -> None:
    t = np.arange(400) / 100.0
    log = log_at(t)
    log["tau_joint1"][123] = np.nan
    log["q_joint1"][200] = np.inf
    samples = prepared(log, Preparation(missing="drop"))
    assert "dropped 2 rows with missing values" in samples.history
    assert samples.count == 400  # the two holes are shorter than a gap: bridged by resampling
    assert np.all(np.isfinite(stretch_of(samples).effort))
    np.testing.assert_allclose(stretch_of(samples).q[0], np.sin(times_of(samples)), atol=1e-5)


def test_time_that_goes_backwards() -> None:
    t = np.arange(400) / 100.0
    t[250:] -= 1.0
    with pytest.raises(DataError, match=re.escape("time goes backwards in row 251 ('t')")):
        prepared(log_at(t))


@pytest.mark.parametrize("chunk_rows", [1, 10, 65536])
def test_time_that_goes_backwards_between_chunks(chunk_rows: int) -> None:
    t = np.arange(400) / 100.0
    t[250:] -= 1.0
    with pytest.raises(DataError, match="row 251"):
        prepared(log_at(t), chunk_rows=chunk_rows)


def test_too_few_rows() -> None:
    with pytest.raises(DataError, match=r"has 5 distinct rows, too few"):
        prepared(log_at(np.arange(5) / 100.0))


def test_a_constant_log_has_one_distinct_row() -> None:
    t = np.arange(500) / 100.0
    with pytest.raises(DataError, match="has 1 distinct rows"):
        prepared({"t": t, "q_joint1": 0 * t, "tau_joint1": 0 * t})


def test_too_short_for_the_filter() -> None:
    with pytest.raises(DataError, match=r"is too short: its longest stretch without a gap is 0.49 s"):
        prepared(log_at(np.arange(50) / 100.0), Preparation(cutoff_hz=5.0))


# --- Windows ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("chunk_rows", CHUNKS)
def test_windows_by_rows_and_by_seconds_agree(chunk_rows: int) -> None:
    t = 2.0 + np.arange(1000) / 100.0
    by_rows = prepared(log_at(t), rows=(101, 300), chunk_rows=chunk_rows)
    by_seconds = prepared(log_at(t), seconds=(3.0, 4.99), chunk_rows=chunk_rows)
    assert by_rows.stretches[0].window == by_seconds.stretches[0].window == (100, 300)
    # filters see the rest: every sample is still there
    assert by_rows.count == 1000
    assert "used from 3 s to 4.99 s" in by_rows.history


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": (0, 10)}, "rows must be [first, last] with 1 <= first < last, not [0, 10]"),
        ({"rows": (10, 10)}, "rows must be [first, last]"),
        ({"rows": (10, 5000)}, "rows 10 to 5000 were requested, and it has 1000"),
        ({"seconds": (4.0, 3.0)}, "seconds must be [from, to] with from < to, not [4.0, 3.0]"),
        ({"seconds": (400.0, 500.0)}, "has no rows between 400 s and 500 s of its clock"),
    ],
)
def test_impossible_windows(options: dict, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        prepared(log_at(np.arange(1000) / 100.0), **options)


# --- Filters and derivatives ------------------------------------------------------------------------------------------


def test_the_filter_has_no_phase() -> None:
    t = np.arange(4000) / 500.0
    w = 2 * np.pi * 2.0
    samples = prepared(log_at(t, lambda x: np.sin(w * x)), Preparation(cutoff_hz=20.0))
    keep = inner(samples)
    piece = stretch_of(samples)
    x = times_of(samples)[keep]
    np.testing.assert_allclose(piece.q[0, keep], np.sin(w * x), atol=2e-4)
    np.testing.assert_allclose(piece.v[0, keep], w * np.cos(w * x), atol=2e-4 * w)
    np.testing.assert_allclose(piece.a[0, keep], -(w**2) * np.sin(w * x), atol=4e-4 * w**2)
    # the effort is not filtered here: it goes through the parallel filter together with W
    np.testing.assert_array_equal(piece.effort[0], log_at(t)["tau_joint1"])
    assert any("positions: zero-phase Butterworth, order 4, 20 Hz" in line for line in samples.history)


@given(st.lists(st.floats(-2, 2), min_size=5, max_size=5), st.floats(20.0, 500.0))
def test_differences_are_exact_for_quartics(coefficients: list[float], rate: float) -> None:
    t = np.arange(40) / rate
    polynomial = np.polynomial.Polynomial(coefficients)
    samples = prepared({"t": t, "q_joint1": polynomial(rate * t / 40), "tau_joint1": np.sin(rate * t)})
    keep = inner(samples)
    piece = stretch_of(samples)
    x, scale = rate * t[keep] / 40, samples.rate / 40
    np.testing.assert_allclose(piece.v[0, keep], scale * polynomial.deriv()(x), atol=1e-11 * rate)
    np.testing.assert_allclose(piece.a[0, keep], scale**2 * polynomial.deriv(2)(x), atol=1e-9 * rate**2)


def test_measured_velocities_are_used_and_filtered() -> None:
    t = np.arange(4000) / 500.0
    w = 2 * np.pi * 2.0
    log = log_at(t, lambda x: np.sin(w * x), v=np.rad2deg(2.0 * w * np.cos(w * t)))  # twice the truth, to be told apart
    channels = ChannelMap(
        "t", Signal(["q_joint1"], "rad"), Signal(["tau_joint1"], "N.m"), v=Signal(["v"], "deg/s", sign=-1.0)
    )
    samples = prepare(recording_of(log), ONE, channels, Preparation(cutoff_hz=20.0))
    keep = inner(samples)
    x = t[keep]
    piece = stretch_of(samples)
    np.testing.assert_allclose(piece.v[0, keep], -2.0 * w * np.cos(w * x), atol=4e-4 * w)
    np.testing.assert_allclose(piece.a[0, keep], 2.0 * w**2 * np.sin(w * x), atol=8e-4 * w**2)
    assert "acceleration: five-point central differences" in samples.history
    assert any(line.startswith("positions and measured velocities: zero-phase") for line in samples.history)


def test_top_speed_and_travel() -> None:
    t = np.arange(2000) / 500.0
    samples = prepared(log_at(t, lambda x: 0.5 * np.sin(2 * np.pi * x)), Preparation(cutoff_hz=25.0))
    assert samples.travel[0] == pytest.approx(1.0, rel=1e-3)
    assert samples.top_speed[0] == pytest.approx(np.pi, rel=0.01)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (Preparation(cutoff_hz=50.0), "prepare.cutoff_hz = 50 is not below half the rate of log 'run' (100 Hz)"),
        (Preparation(rate_hz=20.0), "resampling it at 20 Hz would cause aliasing"),
        (Preparation(gap_s=0.001), "prepare.gap_s = 0.001 is shorter than the time step of log 'run' (0.01 s)"),
    ],
)
def test_settings_that_do_not_fit_the_log(settings: Preparation, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        prepared(log_at(np.arange(1000) / 100.0), settings)


@pytest.mark.parametrize("name", ["cutoff_hz", "rate_hz", "gap_s"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_settings_must_be_positive(name: str, value: float) -> None:
    with pytest.raises(DataError, match=f"prepare.{name} must be a positive number"):
        replace(Preparation(), **{name: value})


def test_missing_is_error_or_drop() -> None:
    with pytest.raises(DataError, match="not 'keep'"):
        Preparation(missing="keep")


# --- No trace of how the file was read --------------------------------------------------------------------------------


def pieces_of(log: Mapping[str, Array], settings: Preparation, chunk_rows: int, robot: Robot = ONE) -> list[Piece]:
    return list(prepared(log, settings, robot, chunk_rows=chunk_rows).open())


def assert_same(one: list[Piece], other: list[Piece]) -> None:
    assert [piece[:2] for piece in one] == [piece[:2] for piece in other]
    for a, b in zip(one, other, strict=True):
        for x, y in zip(a[2:], b[2:], strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PREPARE, "BLOCK", 64)


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("derivatives", DERIVATIVES)
@pytest.mark.parametrize("kind", ["uniform", "jittered", "held", "gaps"])
def test_every_chunk_size_gives_the_same_bits(kind: str, derivatives: Derivatives) -> None:
    model = model_of(arm(3))
    log = log_of(model, 3000)
    if kind == "jittered":
        log["t"] = log["t"] + np.random.default_rng(2).uniform(0, 2e-3, 3000)
    if kind == "held":
        log = {name: np.repeat(x[::3], 3) if name != "t" else x for name, x in log.items()}
    if kind == "gaps":
        log["t"] = log["t"] + 3.0 * (np.arange(3000) >= 1000) + 2.0 * (np.arange(3000) >= 2001)
    settings = Preparation(cutoff_hz=20.0, derivatives=derivatives)
    reference = prepared(log, settings, model.robot)
    whole = list(reference.open())
    assert len(whole) > len(reference.stretches)
    for chunk_rows in CHUNKS:
        other = prepared(log, settings, model.robot, chunk_rows=chunk_rows)
        assert_same(whole, list(other.open()))
        assert (other.rate, other.stretches, other.history) == (
            reference.rate,
            reference.stretches,
            reference.history,
        )
        np.testing.assert_array_equal(other.top_speed, reference.top_speed)
        np.testing.assert_array_equal(other.travel, reference.travel)
        np.testing.assert_array_equal(other.position_step, reference.position_step)
        np.testing.assert_array_equal(other.effort_step, reference.effort_step)
        assert other.findings == reference.findings


@pytest.mark.slow
@given(
    rows=st.integers(60, 1500),
    chunk_rows=st.integers(1, 1600),
    block=st.integers(1, 400),
    jitter=st.sampled_from([0.0, 3e-3]),
    cut=st.integers(1, 1499),
    derivatives=st.sampled_from(DERIVATIVES),
)
def test_any_chunk_size_and_length(
    rows: int, chunk_rows: int, block: int, jitter: float, cut: int, derivatives: Derivatives
) -> None:
    rng = np.random.default_rng(rows)
    t = np.arange(rows) / 100.0 + rng.uniform(0.0, jitter, rows) + 1.0 * (np.arange(rows) >= cut)
    settings = Preparation(cutoff_hz=30.0, derivatives=derivatives)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PREPARE, "BLOCK", block)
        try:
            whole = pieces_of(log_at(t), settings, 65536)
        except DataError:  # the cut leaves nothing long enough
            with pytest.raises(DataError):
                pieces_of(log_at(t), settings, chunk_rows)
            return
        assert_same(whole, pieces_of(log_at(t), settings, chunk_rows))


@pytest.mark.usefixtures("small_blocks")
def test_filtered_blocks_equal_the_whole_run_filtered_at_once() -> None:
    t = np.arange(20000) / 500.0
    rng = np.random.default_rng(4)
    noisy = np.sin(t) + 0.01 * rng.standard_normal(len(t))
    samples = prepared({**log_at(t), "q_joint1": noisy}, Preparation(cutoff_hz=30.0))
    assert len(list(samples.open())) > 10
    sections = butter(BUTTERWORTH_ORDER, 30.0, fs=samples.rate, output="sos")
    whole = sosfiltfilt(sections, noisy)
    keep = inner(samples)
    assert np.max(np.abs(stretch_of(samples).q[0, keep] - whole[keep])) < 1e-9


def test_pieces_open_again_the_same() -> None:
    samples = prepared(log_at(np.arange(1000) / 100.0), Preparation(cutoff_hz=10.0))
    assert_same(list(samples.open()), list(samples.open()))


# --- Samples given as arrays ------------------------------------------------------------------------------------------


def test_samples_from_arrays_are_checked() -> None:
    x = np.zeros((1, 10))
    with pytest.raises(DataError, match=re.escape("effort has shape (2, 10), expected (1, 10)")):
        Samples.from_arrays("s", ["joint1"], 100.0, x, x, x, np.zeros((2, 10)))
    with pytest.raises(DataError, match="the rate must be positive"):
        Samples.from_arrays("s", ["joint1"], 0.0, x, x, x, x)
    bad = x.copy()
    bad[0, 3] = np.nan
    with pytest.raises(DataError, match="a of joint1 is not finite at sample 3"):
        Samples.from_arrays("s", ["joint1"], 100.0, x, x, bad, x)


# --- What logs do to people -------------------------------------------------------------------------------------------


def test_an_angle_that_wraps_is_told() -> None:
    t = np.arange(2000) / 200.0
    log = log_at(t)
    log["q_joint1"] = (3.0 * t + np.pi) % (2 * np.pi) - np.pi
    codes = {finding.code: finding for finding in prepared(log, Preparation(cutoff_hz=20.0)).findings}
    assert "joint1 jumps by 6.2" in codes["position-jump"].message
    assert codes["position-jump"].severity == "error"


@pytest.mark.slow
@pytest.mark.parametrize("chunk_rows", CHUNKS)
def test_a_rest_in_a_quantised_log_is_no_gap(chunk_rows: int) -> None:
    """Every channel repeats itself while the robot rests for a second; nothing is split, and the clock is kept."""
    t = np.arange(3000) / 1000.0
    log = log_at(np.where(t < 1.0, t, np.where(t < 2.0, 1.0, t - 1.0))) | {"t": t}
    samples = prepared(log, Preparation(cutoff_hz=20.0), chunk_rows=chunk_rows)
    assert len(samples.stretches) == 1
    assert samples.count == 3000
    q = stretch_of(samples).q[0]
    np.testing.assert_allclose(q[1200:1800], q[1500], atol=2e-3)


def test_a_frozen_logger_is_a_gap() -> None:
    """The same repeats, but the robot has moved on behind them."""
    t = np.arange(3000) / 1000.0
    log = log_at(np.where((t > 1.0) & (t < 2.0), 1.0, t)) | {"t": t}
    assert len(prepared(log, Preparation(cutoff_hz=20.0)).stretches) == 2


def test_an_effort_that_never_changes_is_dead() -> None:
    log = log_at(np.arange(1000) / 100.0)
    log["tau_joint1"] = np.full(1000, 0.5)
    assert prepared(log).constant_effort.tolist() == [True]


# --- Lost rows, jitter and rates, all the way to the parameters -------------------------------------------------------


@pytest.mark.parametrize("derivatives", DERIVATIVES)
@pytest.mark.parametrize("fault", ["one row", "one in twenty", "ten in a row", "jitter"])
def test_lost_rows_and_jitter_hardly_move_the_parameters(fault: str, derivatives: Derivatives) -> None:
    model = model_of(arm(2))
    log = log_of(model, 8000, 200.0, noise=0.05)
    rows = np.arange(8000)
    rng = np.random.default_rng(3)
    lost = {"one row": rows == 4000, "one in twenty": rng.random(8000) < 0.05, "ten in a row": abs(rows - 4000) < 5}
    broken = {name: x[~lost.get(fault, rows < 0)] for name, x in log.items()}
    if fault == "jitter":
        fine = log_of(model, 80000, 2000.0, noise=0.05)
        kept = np.clip(10 * rows + rng.integers(-3, 4, 8000), 0, 79999)
        broken = {name: x[kept] for name, x in fine.items()}
    settings = Preparation(cutoff_hz=25.0, rate_hz=200.0, derivatives=derivatives)
    results = []
    for columns in (log, broken):
        samples = prepared(columns, settings, model.robot)
        assert (samples.count, len(samples.stretches)) == (8000, 1) or fault in ("jitter", "ten in a row")
        results.append(identify(Problem(model, [samples], lowpass_hz=8.0)))
    whole, mended = results
    truth = whole.base.map @ truth_of(model)
    assert np.max(np.abs(mended.value - truth) / np.maximum(np.abs(truth), 0.1)) < 0.02
    if fault != "jitter":  # which is another draw of the noise
        assert np.max(np.abs(mended.value - whole.value) / whole.std) < 5.0


def test_runs_at_different_rates_are_decimated_each_by_its_own() -> None:
    model = model_of(arm(2))
    settings = Preparation(cutoff_hz=20.0)
    runs = []
    for rate in (100.0, 250.0, 1000.0):
        recording = recording_of(log_of(model, int(20 * rate), rate, seed=int(rate), noise=0.05), f"at {rate:g} Hz")
        runs.append(prepare(recording, model.robot, channels_of(model.robot), settings))
    problem = Problem(model, runs, lowpass_hz=8.0)
    assert [problem.decimator(run).factor for run in runs] == [5, 12, 50]
    # the same rows a second and the same cut-off, whatever the rate
    rows = np.array([row_count(problem, run) for run in runs])
    assert np.ptp(rows) < 0.1 * rows.mean()
    information = observe(problem)
    assert {key[0] for key in information.blocks} == {run.name for run in runs}
    together = identify(problem, information=information)
    truth = together.base.map @ truth_of(model)
    assert np.max(np.abs(together.value - truth) / np.maximum(np.abs(truth), 0.1)) < 0.02


# --- Clipped efforts --------------------------------------------------------------------------------------------------


def clipped(effort: Array, chunk_rows: int = 65536) -> Samples:
    t = np.arange(effort.size) / 200.0
    return prepared(log_at(t) | {"tau_joint1": effort}, Preparation(cutoff_hz=20.0), chunk_rows=chunk_rows)


NOISY = 10.0 * np.sin(1.3 * np.arange(4000) / 200.0) + 0.1 * np.random.default_rng(6).standard_normal(4000)


@pytest.mark.slow
@pytest.mark.parametrize("chunk_rows", [*CHUNKS, 333])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_clipped_effort_is_told(sign: float, chunk_rows: int) -> None:
    effort = sign * np.minimum(NOISY, 9.0)
    samples = clipped(effort, chunk_rows=chunk_rows)
    assert samples.saturation[0] == np.mean(NOISY >= 9.0)
    (finding,) = (finding for finding in samples.findings if finding.code == "saturated-effort")
    assert (finding.severity, finding.where) == ("warning", "joint1")
    assert f"clipped at {9 * sign:g} (as logged) in {np.mean(NOISY >= 9.0):.2%} of the rows" in finding.message


@pytest.mark.parametrize(
    "effort",
    [
        NOISY,
        np.round(NOISY, 1),
        np.round(10.0 * np.sin(1.3 * np.arange(4000) / 200.0), 1),  # no noise: the rounded tops are flat
        np.maximum(NOISY, 0.0),  # a drive that reports nothing in one direction
    ],
)
def test_an_effort_that_is_not_clipped_is_not_told(effort: Array) -> None:
    samples = clipped(effort)
    assert samples.saturation[0] == 0.0
    assert "saturated-effort" not in [finding.code for finding in samples.findings]


@pytest.mark.parametrize("chunk_rows", [500, 65536])
def test_what_repeats_below_a_later_peak_is_no_clipping(chunk_rows: int) -> None:
    effort = np.clip(NOISY, -9.0, 9.0)
    effort[100:107] = 9.5
    effort[2000::20] = 11.0  # met often, never twice in a row
    effort[2010::20] -= 20.0
    assert clipped(effort, chunk_rows).saturation[0] == 0.0


def test_holding_the_largest_effort_at_rest_is_no_clipping() -> None:
    t = np.arange(4000) / 200.0
    rest = t > 10.0
    log = log_at(t, lambda x: np.where(x > 10.0, np.sin(10.0), np.sin(x)))
    log["tau_joint1"] = np.where(rest, 12.0, NOISY)
    log["q_joint1"] = log["q_joint1"] + 1e-6 * np.random.default_rng(1).standard_normal(4000)
    assert prepared(log, Preparation(cutoff_hz=20.0)).saturation[0] == 0.0
