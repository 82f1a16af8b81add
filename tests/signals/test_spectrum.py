"""Cut-offs from the spectrum: what they follow, and what they must not depend on; the rounding of a log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import butter, sosfiltfilt

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.formats.logs import read_recording
from steelyard.project.project import read_project
from steelyard.signals.channels import Linear
from steelyard.signals.prepare import Preparation, prepare
from steelyard.signals.samples import Piece, Samples, Stretch
from steelyard.signals.spectrum import PARALLEL_FACTOR, POSITION_FACTOR, Cutoffs, propose_cutoffs, quanta
from testbed.simulated import arm, channels_of, log_of, model_of, recording_of

ARM = arm(2)
EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples" / "real").glob("*.toml"))


def lively(band_hz: float, rate: float = 500.0, seconds: float = 40.0, noise: float = 1e-3, seed: int = 0) -> Samples:
    """Two joints whose effort is white up to `band_hz` and whose position is its double integral; a hundredth of that
    band for the second joint. Noise on both, `noise` of their spread."""
    rng = np.random.default_rng(seed)
    count = int(seconds * rate)

    def limited(band: float) -> Array:
        sections = butter(8, band, fs=rate, output="sos")
        return np.asarray(sosfiltfilt(sections, rng.standard_normal(count + 4000)))[2000:-2000]

    effort = np.stack([limited(band_hz), limited(0.3 * band_hz)])
    spectrum, frequency = np.fft.rfft(effort), np.fft.rfftfreq(count, 1.0 / rate)
    q = np.fft.irfft(np.where(frequency > 0.1, spectrum / np.maximum(frequency, 0.1) ** 2, 0.0), count)
    noisy = [x + noise * np.std(x, axis=1, keepdims=True) * rng.standard_normal(x.shape) for x in (q, effort)]
    return Samples.from_arrays("run", ARM.joint_names, rate, noisy[0], 0 * q, 0 * q, noisy[1])


def cut(samples: Samples, size: int) -> Samples:
    """The same samples in pieces of `size`."""
    (whole,) = samples.open()
    starts = range(0, whole.q.shape[1], size)
    return replace(samples, open=lambda: iter(Piece(0, s, *(x[:, s : s + size] for x in whole[2:])) for s in starts))


def scaled(samples: Samples, position: float, effort: float) -> Samples:
    (piece,) = samples.open()
    arrays = (position * piece.q, position * piece.v, position * piece.a, effort * piece.effort)
    return Samples.from_arrays(samples.name, samples.joints, samples.rate, *arrays)


# --- The rule ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("band", [1.0, 3.0, 10.0])
def test_f_dyn_is_the_band_of_the_faster_of_two_joints(band: float) -> None:
    cutoffs = propose_cutoffs([lively(band)])
    # 99 % of a flat spectrum and the filter's skirt, to an eighth of a hertz
    assert cutoffs.f_dyn_hz == pytest.approx(band, rel=0.1, abs=0.13)
    assert cutoffs.cutoff_hz == pytest.approx(POSITION_FACTOR * cutoffs.f_dyn_hz)
    assert cutoffs.lowpass_hz == pytest.approx(PARALLEL_FACTOR * cutoffs.f_dyn_hz)
    slow = cutoffs.evidence[1]
    assert slow.f_dyn_hz == pytest.approx(0.3 * band, rel=0.15, abs=0.13)


def test_the_rule_is_told_in_words() -> None:
    run = lively(3.0)
    told = propose_cutoffs([run])
    f, c, low = told.f_dyn_hz, told.cutoff_hz, told.lowpass_hz
    assert told.rule == (
        f"f_dyn = {f:g} Hz (99% of the power of joint1's effort above its noise), "
        f"cutoff_hz = 5 f_dyn = {c:.4g}, lowpass_hz = 2 f_dyn = {low:.4g}"
    )
    several = propose_cutoffs([replace(lively(1.0, seed=1), name="slow"), run])
    assert "joint1's effort in 'run' above its noise" in several.rule
    assert several.f_dyn_hz == told.f_dyn_hz


def test_one_joint_of_many_does_not_set_it_for_all() -> None:
    """The last joint works at several times the band of the others."""
    parts = [next(iter(lively(band, seed=k).open())) for k, band in enumerate((1.0, 2.0, 3.0, 1.5, 2.5, 15.0))]
    q, effort = np.concatenate([p.q[:1] for p in parts]), np.concatenate([p.effort[:1] for p in parts])
    joints = [f"joint{k}" for k in range(len(q))]
    told = propose_cutoffs([Samples.from_arrays("run", joints, 500.0, q, 0 * q, 0 * q, effort)])
    assert told.f_dyn_hz == pytest.approx(3.0, rel=0.1)
    assert told.evidence[-1].f_dyn_hz == pytest.approx(15.0, rel=0.1)


def test_cutoffs_stay_below_what_the_rate_allows() -> None:
    told = propose_cutoffs([lively(10.0, rate=100.0)])
    assert told.cutoff_hz == pytest.approx(40.0)
    assert "lowered to 40 (0.4 of the rate)" in told.rule
    assert told.lowpass_hz == pytest.approx(2 * told.f_dyn_hz)


@pytest.mark.parametrize("noise", [1e-6, 1e-3, 1e-2])
def test_noise_moves_the_rule_little(noise: float) -> None:
    assert propose_cutoffs([lively(3.0, noise=noise)]).f_dyn_hz == pytest.approx(3.0, rel=0.12)


def test_a_ripple_beyond_the_band_is_not_dynamics() -> None:
    """A tenth of the effort's power at 90 Hz, where the position shows nothing: the ripple the filter is for."""
    clean = lively(3.0)
    (piece,) = clean.open()
    ripple = np.sin(2 * np.pi * 90.0 * np.arange(piece.q.shape[1]) / clean.rate) * 0.45 * np.std(piece.effort[0])
    rippled = Samples.from_arrays(
        "run", ARM.joint_names, clean.rate, piece.q, piece.v, piece.a, piece.effort + np.stack([ripple, 0 * ripple])
    )
    assert propose_cutoffs([rippled]).f_dyn_hz == pytest.approx(propose_cutoffs([clean]).f_dyn_hz, rel=0.05)


# --- What it must not depend on ---------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.floats(-6, 6), st.floats(-6, 6))
def test_units_do_not_matter(position: float, effort: float) -> None:
    run = lively(3.0, seconds=20.0)
    assert propose_cutoffs([scaled(run, 10.0**position, 10.0**effort)]).f_dyn_hz == propose_cutoffs([run]).f_dyn_hz


@pytest.mark.parametrize("size", [1000, 4096, 7777])
def test_pieces_do_not_matter(size: int) -> None:
    run = lively(3.0)
    assert propose_cutoffs([cut(run, size)]) == propose_cutoffs([run])


def test_chunks_of_the_reader_do_not_matter() -> None:
    model = model_of(arm(2))
    log = recording_of(log_of(model, 4000))

    def told(chunk_rows: int) -> Cutoffs:
        return propose_cutoffs([prepare(log, model.robot, channels_of(model.robot), chunk_rows=chunk_rows)])

    assert told(4000) == told(777) == told(65536)


def test_only_the_window_and_whole_segments_count() -> None:
    run = lively(3.0, seconds=20.0)
    (piece,) = run.open()
    rng = np.random.default_rng(8)
    loud = piece.effort.copy()
    loud[:, :5000] += 30.0 * rng.standard_normal((2, 5000))
    outside = Samples.from_arrays("run", ARM.joint_names, run.rate, piece.q, piece.v, piece.a, loud)
    windowed = replace(outside, stretches=(Stretch(0.0, 10000, (0, 10000), (5000, 10000)),))
    assert propose_cutoffs([windowed]).f_dyn_hz == pytest.approx(3.0, rel=0.1)


def test_a_joint_that_rests_or_has_a_dead_effort_does_not_count() -> None:
    run = lively(3.0)
    (piece,) = run.open()
    rng = np.random.default_rng(9)
    noise = 1e-5 * rng.standard_normal(piece.q.shape)
    resting = np.stack([noise[0], piece.q[1]])
    still = Samples.from_arrays("run", ARM.joint_names, run.rate, resting, noise, noise, piece.effort)
    # the lowest bins of a position are never free of leakage
    assert propose_cutoffs([still]).evidence[0].f_dyn_hz < 0.5
    assert propose_cutoffs([still]).f_dyn_hz == pytest.approx(0.9, rel=0.15)
    dead = Samples.from_arrays("run", ARM.joint_names, run.rate, piece.q, noise, noise, piece.effort * [[0.0], [1.0]])
    assert propose_cutoffs([dead]).evidence[0].f_dyn_hz == 0.0


def test_noise_alone_is_an_error_that_says_what_to_do() -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((4, 2, 5000))
    with pytest.raises(DataError, match=r"No joint of 'run' moves and works above its noise.*set cutoff_hz"):
        propose_cutoffs([Samples.from_arrays("run", ARM.joint_names, 100.0, *x)])
    with pytest.raises(DataError, match="has 40 samples in a row; a spectrum needs 64"):
        propose_cutoffs([Samples.from_arrays("run", ARM.joint_names, 100.0, *x[..., :40])])


# --- Rounding ---------------------------------------------------------------------------------------------------------


def quantum(x: Array) -> float:
    return float(quanta(Linear(("x",), np.eye(1), np.zeros(1)), x[None])[0])


WAVE = np.sin(np.arange(5000) / 200.0) + 0.01 * np.random.default_rng(0).standard_normal(5000)


@given(st.floats(-9, 6), st.sampled_from([1e-1, 1e-2, 1e-3, 1.7e-3, 2.0**-9]))
def test_the_step_of_a_rounded_channel_is_found(scale: float, step: float) -> None:
    assert quantum(np.round(WAVE / step) * step * 10.0**scale) == pytest.approx(step * 10.0**scale, rel=1e-6)


def test_a_step_survives_single_precision() -> None:
    rounded = (np.round(WAVE / 1e-3) * 1e-3).astype(np.float32).astype(float)
    assert quantum(rounded) == pytest.approx(1e-3, rel=1e-3)
    dusty = rounded + 1e-9 * np.random.default_rng(1).standard_normal(rounded.size)
    assert quantum(dusty) == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.parametrize(
    "x",
    [
        WAVE,
        np.zeros(100),
        np.linspace(0, 1, 50) ** 3,
        WAVE.astype(np.float32).astype(float),
        np.cumsum(np.random.default_rng(2).choice([1.0, 2**0.5, np.pi], 500)),  # few differences, no common step
    ],
)
def test_a_channel_that_is_not_rounded_has_no_step(x: Array) -> None:
    assert quantum(x) == 0.0


def test_motor_steps_are_told_at_the_joint() -> None:
    signal = Linear(("a", "b"), np.array([[0.5, 0.0], [-0.25, 2.0]]), np.zeros(2))
    raw = np.stack([np.round(WAVE / 0.1) * 0.1, np.round(WAVE / 0.01) * 0.01])
    np.testing.assert_allclose(quanta(signal, raw), [0.05, 0.025], rtol=1e-6)


def told(log: dict[str, Array]) -> dict[str, str]:
    """Severity of the rounding of each signal of joint 1."""
    model = model_of(arm(1))
    found = prepare(recording_of(log), model.robot, channels_of(model.robot), Preparation(cutoff_hz=10.0)).findings
    return {f.message.split()[1]: f.severity for f in found if f.code == "coarse-quantisation"}


def test_coarse_rounding_is_told() -> None:
    log = log_of(model_of(arm(1)), 4000)
    assert told(log) == {}
    spread = float(np.std(log["tau_joint1"]))
    for part, severity in ((0.03, "info"), (0.3, "warning")):
        step = part * spread
        assert told({**log, "tau_joint1": np.round(log["tau_joint1"] / step) * step}) == {"effort": severity}
    for step, severity in ((1e-2, "info"), (1e-1, "warning")):
        assert told({**log, "q_joint1": np.round(log["q_joint1"] / step) * step}) == {"position": severity}


# --- Recorded logs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_recorded_logs_have_sensible_bands_and_are_not_clipped(file: Path) -> None:
    project = read_project(file)
    logs = [file.parent / entry.log for entry in project.spec.run]
    if not all(log.exists() for log in logs) or (
        "/" in project.spec.robot and not (file.parent / project.spec.robot).exists()
    ):
        pytest.skip(f"No recorded data for '{file.name}'.")
    robot, channels = project.robot(), project.spec.channels.channel_map()
    runs = [prepare(read_recording(log), robot, channels) for log in logs]
    assert not [finding for run in runs for finding in run.findings if finding.code == "saturated-effort"]
    # industrial arms: no slower than the motion's own harmonics, no faster than their lowest resonance
    assert 1.0 < propose_cutoffs(runs).f_dyn_hz < 15.0
