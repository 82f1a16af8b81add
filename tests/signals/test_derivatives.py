"""The smoother: against the maths it claims, against Butterworth, on any clock, and when it is chosen."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.estimators import WLS
from steelyard.model.base_parameters import base_parameters
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.signals.channels import ChannelMap, Signal
from steelyard.signals.derivatives import Derivatives, Differences, Smoother, choose_derivatives, noise, noise_ratio
from steelyard.signals.prepare import Preparation, prepare
from steelyard.signals.samples import Piece, Samples, joined
from steelyard.validation import CrossValidation, cross_validate
from testbed.simulated import arm, channels_of, model_of, motion_of, recording_of, truth_of

PREPARE = sys.modules[prepare.__module__]
SMOOTH = Preparation(cutoff_hz=10.0, derivatives="smoother")
ONE = arm(1)


def wave(t: Array, hz: float = 1.0) -> tuple[Array, Array, Array]:
    """Position, velocity and acceleration of one joint, (1, N) each."""
    w = 2 * np.pi * hz
    return np.sin(w * t)[None], w * np.cos(w * t)[None], -(w**2) * np.sin(w * t)[None]


def log_at(t: Array, q: Array) -> dict[str, Array]:
    return {"t": t, "q_joint1": q, "tau_joint1": np.cos(3.1 * t) + t}


def stretch_of(samples: Samples, stretch: int = 0) -> Piece:
    pieces = [piece for piece in samples.open() if piece.stretch == stretch]
    return joined(pieces)._replace(first=0)


def prepared(log: dict[str, Array], settings: Preparation = SMOOTH, **options) -> Samples:
    return prepare(recording_of(log), ONE, channels_of(ONE), settings, **options)


def dense(t: Array, q: Array, v: Array | None, grid: Array, smoother: Smoother) -> tuple[Array, Array, Array]:
    """The same estimate by one least-squares problem over all states, in units of the cut-off."""
    unit = 2 * np.pi * smoother.cutoff_hz
    times = np.unique(np.concatenate([t, grid]))
    ratio = np.inf if smoother.noise_ratio is None else smoother.noise_ratio / unit**2
    density = unit * smoother.step / (1.0 + 1.0 / ratio)
    rows, right = [], []
    for k, h in enumerate(unit * np.diff(times)):
        f = np.array([[h ** (j - i) / [1, 1, 2, 6][j - i] if j >= i else 0.0 for j in range(4)] for i in range(4)])
        g = [[h ** (7 - i - j) / ([6, 2, 1, 1][i] * [6, 2, 1, 1][j] * (7 - i - j)) for j in range(4)] for i in range(4)]
        whiten = np.linalg.inv(np.linalg.cholesky(density * np.array(g)))
        block = np.zeros((4, 4 * len(times)))
        block[:, 4 * k : 4 * k + 4], block[:, 4 * k + 4 : 4 * k + 8] = -whiten @ f, whiten
        rows.append(block)
        right.append(np.zeros(4))
    for k, time in enumerate(t):
        at = 4 * int(np.searchsorted(times, time))
        for which, x, sigma in ((0, q, 1.0), (1, None if v is None else v / unit, np.sqrt(ratio))):
            if x is not None:
                row = np.zeros((1, 4 * len(times)))
                row[0, at + which] = 1.0 / sigma
                rows.append(row)
                right.append(x[:, k] / sigma)
    z = np.linalg.lstsq(np.concatenate(rows), np.concatenate(right), rcond=None)[0].reshape(-1, 4)
    out = z[np.searchsorted(times, grid)].T[:, None]
    return out[0], unit * out[1], unit**2 * out[2]


# --- The estimate -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("velocities", [False, True])
@pytest.mark.parametrize("jitter", [0.0, 0.4])
def test_it_is_the_least_squares_estimate(velocities: bool, jitter: float) -> None:
    rng = np.random.default_rng(1)
    t = (np.arange(60) + rng.uniform(-jitter, jitter, 60)) / 50.0
    q, v, _ = (x + 0.01 * rng.standard_normal(x.shape) for x in wave(t))
    smoother = Smoother(5.0, 50.0, 0.02, 300.0 if velocities else None)
    grid = 0.03 + np.arange(50) / 50.0 * (0.97 if jitter else 1.0)
    measured = v if velocities else None
    for got, wanted in zip(smoother(t, q, measured, grid), dense(t, q, measured, grid, smoother), strict=True):
        np.testing.assert_allclose(got, wanted, atol=2e-5 * np.max(np.abs(wanted)))


def test_on_a_uniform_clock_it_is_butterworth_without_its_edges() -> None:
    t = np.arange(8000) / 1000.0
    rng = np.random.default_rng(2)
    q, _, exact = wave(t)
    noisy = q + 1e-4 * rng.standard_normal(q.shape)
    smooth = Smoother(20.0, 1000.0, 1e-3)(t, noisy, None, t)
    differences = Differences(20.0, 1000.0)(noisy, None)
    inside = slice(2000, 6000)
    for one, other in zip(smooth, differences, strict=True):
        np.testing.assert_allclose(one[:, inside], other[:, inside], atol=1e-4 * np.max(np.abs(other[:, inside])))
    # two periods from the end, where differences need four
    near = slice(100, 150)
    assert np.std(smooth[2][:, near] - exact[:, near]) < 0.3 * np.std(differences[2][:, near] - exact[:, near])


@pytest.mark.parametrize("ratio", [None, 20.0, 2000.0, 2e5])
def test_half_the_amplitude_is_left_at_the_cutoff(ratio: float | None) -> None:
    t = np.arange(4000) / 400.0
    q, v, _ = wave(t, 8.0)
    q_smooth, _, _ = Smoother(8.0, 400.0, 1 / 400.0, ratio)(t, q, None if ratio is None else v, t)
    middle = slice(1000, 3000)
    assert np.std(q_smooth[:, middle]) / np.std(q[:, middle]) == pytest.approx(0.5, abs=0.01)


@given(st.floats(-6, 6), st.integers(0, 100))
def test_it_is_linear_in_the_data(scale: float, seed: int) -> None:
    t = np.cumsum(np.random.default_rng(seed).uniform(0.005, 0.015, 200))
    q, v, _ = wave(t)
    smoother = Smoother(8.0, 100.0, 0.01, 1e3)
    grid = np.arange(t[0], t[-1], 0.01)
    one, other = smoother(t, q, v, grid), smoother(t, 10.0**scale * q, 10.0**scale * v, grid)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(10.0**scale * a, b, rtol=1e-6, atol=1e-9 * np.max(np.abs(b)))


def test_cubics_pass_unchanged() -> None:
    """White snap costs a polynomial of third degree nothing: no bias, not even at the ends."""
    t = np.cumsum(np.random.default_rng(3).uniform(0.005, 0.015, 300))
    p = np.polynomial.Polynomial([0.3, -1.0, 0.7, 0.4])
    grid = np.arange(t[0], t[-1], 0.01)
    for got, wanted in zip(
        Smoother(5.0, 100.0, 0.01)(t, p(t)[None], None, grid), (p, p.deriv(), p.deriv(2)), strict=True
    ):
        np.testing.assert_allclose(got[0], wanted(grid), atol=2e-5)


def test_measured_velocities_help_in_proportion_to_their_noise() -> None:
    t = np.arange(4000) / 200.0
    rng = np.random.default_rng(4)
    q, v, a = wave(t)
    noisy = q + 1e-3 * rng.standard_normal(q.shape)
    errors = []
    for sigma in (1e-3, 1e-1, 10.0):
        measured = v + sigma * rng.standard_normal(v.shape)
        found = noise_ratio(t, noisy, measured, 10.0)
        assert found == pytest.approx((sigma / 1e-3) ** 2, rel=0.2)
        got = Smoother(10.0, 200.0, 5e-3, found)(t, noisy, measured, t)[2]
        errors.append(np.std((got - a)[:, 500:-500]))
    alone = np.std((Smoother(10.0, 200.0, 5e-3)(t, noisy, None, t)[2] - a)[:, 500:-500])
    assert errors[0] < errors[1] < errors[2] == pytest.approx(alone, rel=0.01)
    assert errors[0] < 0.2 * alone


def test_noise_is_read_at_the_rows_own_times_and_not_across_gaps() -> None:
    rng = np.random.default_rng(5)
    t = np.cumsum(rng.uniform(0.0005, 0.0015, 5000))
    t[2500:] += 3.3
    x = wave(t)[0] + 1e-4 * rng.standard_normal(5000)
    assert noise(t, x)[0] == pytest.approx(1e-4, rel=0.05)
    assert noise_ratio(t, 0 * x, 0 * x, 5.0) == pytest.approx((2 * np.pi * 5.0) ** 2)


# --- In a log ---------------------------------------------------------------------------------------------------------


def test_a_jittered_clock_costs_nothing() -> None:
    rng = np.random.default_rng(5)
    t = (np.arange(4000) + rng.uniform(-0.4, 0.4, 4000)) / 100.0
    errors = {}
    for derivatives in ("differences", "smoother"):
        settings = Preparation(cutoff_hz=20.0, rate_hz=100.0, derivatives=derivatives)
        samples = prepared(log_at(t, wave(t, 2.0)[0][0]), settings)
        (first, stop), piece = samples.stretches[0].clean, stretch_of(samples)
        grid = samples.stretches[0].start + np.arange(samples.count) / samples.rate
        keep = slice(first, stop)
        errors[derivatives] = [np.std((x - y)[0, keep]) for x, y in zip(piece[2:5], wave(grid, 2.0), strict=True)]
        np.testing.assert_allclose(piece.effort[0], np.cos(3.1 * grid) + grid, atol=5e-4)
    for smoothed, differenced in zip(errors["smoother"], errors["differences"], strict=True):
        assert smoothed < 0.1 * differenced


def test_what_was_done_is_told() -> None:
    t = np.arange(2000) / 200.0
    samples = prepared(log_at(t, wave(t)[0][0]))
    assert (
        "positions: Kalman smoother driven by white snap at the times of the log, half amplitude at 10 Hz; 41 samples "
        "dropped at both ends of each stretch"
    ) in samples.history
    assert samples.stretches[0].clean == (41, 1959)
    assert not any("differences" in line for line in samples.history)


def test_logged_velocities_are_fused() -> None:
    t = np.arange(4000) / 200.0
    rng = np.random.default_rng(6)
    q, v, a = (x[0] for x in wave(t))
    log = log_at(t, q + 1e-3 * rng.standard_normal(4000)) | {"v": v + 1e-2 * rng.standard_normal(4000)}
    channels = ChannelMap("t", Signal(["q_joint1"], "rad"), Signal(["tau_joint1"], "N.m"), v=Signal(["v"], "rad/s"))
    samples = prepare(recording_of(log), ONE, channels, SMOOTH)
    (line,) = (line for line in samples.history if line.startswith("positions and measured velocities: Kalman"))
    found = re.search(r"velocities ([\d.]+) times as noisy as positions", line)
    assert found is not None
    assert float(found[1]) == pytest.approx(10.0, rel=0.1)
    keep = slice(*samples.stretches[0].clean)
    alone = np.std(stretch_of(prepared(log)).a[0, keep] - a[keep])
    assert np.std(stretch_of(samples).a[0, keep] - a[keep]) < 0.5 * alone


def test_settings_are_checked() -> None:
    with pytest.raises(DataError, match=r"Unknown prepare.derivatives 'spline'.*differences, smoother"):
        Preparation(cutoff_hz=5.0, derivatives="spline")  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match='derivatives = "smoother" needs cutoff_hz'):
        Preparation(derivatives="smoother")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["uniform", "jittered", "gaps", "rest"])
def test_blocks_and_chunks_leave_no_trace(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    t = np.arange(6000) / 200.0
    rng = np.random.default_rng(7)
    if kind == "jittered":
        t = t + rng.uniform(0, 2e-3, 6000)
    if kind == "gaps":
        t = t + 3.0 * (np.arange(6000) >= 2000) + 2.0 * (np.arange(6000) >= 4001)
    at = np.where(t < 10.0, t, np.where(t < 20.0, 10.0, t - 10.0)) if kind == "rest" else t
    # as good as noise, and held at rest
    rough = 1e-3 * np.sin(1e6 * at)
    log = log_at(at, wave(at, 0.5)[0][0] + rough) | {"t": t}
    whole = prepared(log)
    at_once = [stretch_of(whole, number) for number in range(len(whole.stretches))]
    monkeypatch.setattr(PREPARE, "BLOCK", 64)
    reference = None
    for chunk_rows in (65536, 1000, 7):
        cut = prepared(log, chunk_rows=chunk_rows)
        assert len(list(cut.open())) > len(cut.stretches)
        assert (cut.stretches, cut.history) == (whole.stretches, whole.history)
        for number, other in enumerate(at_once):
            for x, y in zip(stretch_of(cut, number)[2:6], other[2:6], strict=True):
                np.testing.assert_allclose(x, y, atol=2e-7 * max(1.0, np.max(np.abs(y))))
        pieces = list(cut.open())
        for mine, first in zip(pieces, reference or pieces, strict=True):
            for x, y in zip(mine[2:], first[2:], strict=True):
                np.testing.assert_array_equal(x, y)
        reference = reference or pieces


def test_a_long_rest_stays_at_rest() -> None:
    """Rows that repeat are dropped; the smoother must not swing through the ten seconds without any."""
    t = np.arange(6000) / 200.0
    at = np.where(t < 10.0, t, np.where(t < 20.0, 10.0, t - 10.0))
    q = np.cos(2 * np.pi * 0.35 * at)
    piece = stretch_of(prepared(log_at(at, q) | {"t": t}))
    assert np.max(np.abs(piece.q[0, 2200:3800] - q[3000])) < 1e-3
    assert np.max(np.abs(piece.v[0, 2200:3800])) < 1e-2


def test_a_row_alone_between_two_gaps() -> None:
    t = np.arange(1000) / 100.0 + np.random.default_rng(0).uniform(0, 2e-3, 1000)
    t[500:] += 1.0
    t[501:] += 1.0
    samples = prepared(log_at(t, np.sin(t)))
    assert [piece.stretch for piece in samples.open()] == [0, 1, 2]
    assert all(np.all(np.isfinite(x)) for piece in samples.open() for x in piece[2:6])


# --- The choice -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scored:
    total: float
    rmse: dict[str, float]
    rows: dict[str, int]


@dataclass(frozen=True)
class ScoredFold:
    score: Scored


@dataclass(frozen=True)
class Folds:
    folds: tuple[ScoredFold, ...]


def folds_of(errors: Sequence[float]) -> Folds:
    """Folds of 100 rows with efforts of unit size."""
    return Folds(tuple(ScoredFold(Scored(e, {"a": e, "b": np.nan}, {"a": 100, "b": 0})) for e in errors))


def chosen(differences: Sequence[float], smoother: Sequence[float]):
    flat = np.zeros((1, 100))
    runs = [Samples.from_arrays("run", ["joint1"], 100.0, flat, flat, flat, flat)]
    results = iter([folds_of(differences), folds_of(smoother)])
    return choose_derivatives(lambda derivatives: runs, lambda runs: next(results))


def test_the_smoother_is_taken_only_beyond_one_standard_error() -> None:
    steady = chosen([0.10, 0.11, 0.12, 0.10], [0.09, 0.10, 0.11, 0.09])
    assert steady.derivatives == "smoother"
    assert steady.differences_error == pytest.approx(np.sqrt(np.mean(np.square([0.10, 0.11, 0.12, 0.10]))))
    assert steady.gain == pytest.approx(0.01, rel=0.05)
    assert "Derivatives by the smoother" in steady.verdict
    assert "an improvement of" in steady.verdict
    erratic = chosen([0.10, 0.11, 0.12, 0.10], [0.05, 0.14, 0.08, 0.12])
    assert erratic.gain > 0
    assert erratic.derivatives == "differences"
    assert "the smoother is not significantly better on held-out rows (10.36% and 10.78%)" in erratic.verdict
    assert chosen([0.1, 0.1], [0.2, 0.2]).derivatives == "differences"
    assert chosen([0.1, 0.1], [0.1, 0.1]).derivatives == "differences"
    unpaired = chosen([0.1, 0.1, 0.1], [0.05, 0.05])
    assert unpaired.derivatives == "differences"
    assert "folds hold different rows" in unpaired.verdict


def test_the_choice_by_cross_validation() -> None:
    """Velocities logged badly beside good positions: differences believe them, the smoother weighs them by noise."""
    model = model_of(arm(2))
    rng = np.random.default_rng(8)
    motion = motion_of(model.robot, 16000, 400.0, seed=3)
    kept = np.sort(rng.choice(np.arange(1, 15999), 4000, replace=False))
    t = np.arange(16000)[kept] / 400.0
    tau = model.torque(motion.q, motion.v, motion.a, truth_of(model))[:, kept]
    names = model.robot.joint_names
    log = {"t": t}
    for j, name in enumerate(names):
        log |= {f"q_{name}": motion.q[j, kept] + 1e-4 * rng.standard_normal(4000)}
        log |= {f"v_{name}": motion.v[j, kept] + 0.3 * rng.standard_normal(4000)}
        log |= {f"tau_{name}": tau[j] + 0.01 * np.std(tau[j]) * rng.standard_normal(4000)}
    channels = replace(channels_of(model.robot), v=Signal({n: f"v_{n}" for n in names}, "rad/s"))
    asked: list[str] = []

    def samples_of(derivatives: Derivatives) -> list[Samples]:
        asked.append(derivatives)
        settings = Preparation(cutoff_hz=6.0, rate_hz=100.0, derivatives=derivatives)
        return [prepare(recording_of(log), model.robot, channels, settings)]

    clean = []

    def cross_validated(runs: Sequence[Samples]) -> CrossValidation:
        clean.append(runs[0].stretches[0].clean)
        return cross_validate(base_parameters(model), observe(Problem(model, runs, lowpass_hz=4.0)), WLS(), 10)

    choice = choose_derivatives(samples_of, cross_validated)
    assert asked == ["differences", "smoother"]
    assert clean[0] == clean[1]
    assert choice.derivatives == "smoother"
    assert choice.gain > choice.standard_error > 0


def test_samples_of_another_log_cannot_be_cut_alike() -> None:
    t = np.arange(2000) / 200.0
    one, other = prepared(log_at(t, np.sin(t))), prepared(log_at(t[:1500], np.sin(t[:1500])))
    with pytest.raises(DataError, match="not have the same stretches of one log"):
        one.cut_to(other)
    wide = prepared(log_at(t, np.sin(t)), Preparation(cutoff_hz=10.0))
    assert one.cut_to(wide).stretches[0].clean == wide.stretches[0].clean == (85, 1915)
