"""Cut-offs from the spectrum: what they follow, and what they must not depend on; the rounding of a log."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
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
from steelyard.signals.spectrum import (
    ABOVE_MOTION,
    BELOW_RISE,
    ENOUGH_PERIODS,
    LEAST_PERIODS,
    LOST_PERIODS,
    POSITION_FACTOR,
    RISE,
    Bandwidth,
    Cutoffs,
    propose_cutoffs,
    quanta,
)
from testbed.simulated import arm, channels_of, log_of, model_of, recording_of

# Rate [Hz] and standard deviation of the accelerations [rad/s²] of the simulated joints.
RATE, SIZE = 500.0, 10.0
EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples" / "real").glob("*.toml"))


def joint(
    band_hz: float,
    seed: int = 0,
    *,
    resonance: tuple[float, float] | None = None,
    step: float = 0.0,
    rate: float = RATE,
    seconds: float = 40.0,
) -> Array:
    """Position [rad] (N,) of a joint whose acceleration has a standard deviation of 10 rad/s², flat up to `band_hz`.

    `resonance` (f, p) adds vibration of ±10 % around f [Hz] with the fraction p of the power of that acceleration.
    `step` rounds the position, as an encoder does.
    """
    rng = np.random.default_rng(seed)
    count = int(seconds * rate)

    def noise(band: float | tuple[float, float]) -> Array:
        sections = butter(2, band, "low" if isinstance(band, float) else "band", fs=rate, output="sos")
        x = np.asarray(sosfiltfilt(sections, rng.standard_normal(count + 4000)))[2000:-2000]
        return x / np.std(x)

    acceleration = SIZE * noise(band_hz)
    if resonance is not None:
        f, power = resonance
        acceleration += SIZE * np.sqrt(power) * noise((0.9 * f, 1.1 * f))
    spectrum, frequency = np.fft.rfft(acceleration), np.fft.rfftfreq(count, 1.0 / rate)
    q = np.fft.irfft(np.where(frequency > 0.1, -spectrum / (2 * np.pi * np.maximum(frequency, 0.1)) ** 2, 0.0), count)
    return np.round(q / step) * step if step else q


def run_of(*q: Array, name: str = "run", rate: float = RATE, effort: Array | None = None) -> Samples:
    """A run of these positions; the efforts are the positions unless given."""
    together = np.stack(q)
    names = [f"joint{k + 1}" for k in range(len(q))]
    still = np.zeros_like(together)
    return Samples.from_arrays(name, names, rate, together, still, still, together if effort is None else effort)


@cache
def shaken(resonance_hz: float = 20.0, power: float = 0.05, band_hz: float = 2.0, seconds: float = 40.0) -> Samples:
    """Two joints, the first with a resonance, the second slower and free of it."""
    first = joint(band_hz, 1, resonance=(resonance_hz, power), seconds=seconds)
    return run_of(first, joint(0.5 * band_hz, 2, seconds=seconds))


def cut(samples: Samples, size: int) -> Samples:
    """The same samples in pieces of `size`."""
    (whole,) = samples.open()
    starts = range(0, whole.q.shape[1], size)
    return replace(samples, open=lambda: iter(Piece(0, s, *(x[:, s : s + size] for x in whole[2:6])) for s in starts))


# --- The rule ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("resonance", [12.0, 16.0, 24.0])
def test_accelerations_rise_at_a_resonance_and_the_filter_is_below_it(resonance: float, power: float) -> None:
    found = propose_cutoffs([shaken(resonance, power)])
    first, second = found.evidence
    # the skirt of a strong resonance starts below it, and spectra are averaged over 15 % of the frequency
    assert 0.8 * resonance < first.rise_hz < 1.1 * resonance
    assert second.rise_hz == pytest.approx(RATE / 2)
    assert found.lowpass_hz == pytest.approx(BELOW_RISE * first.rise_hz, rel=0.01)
    assert found.lowpass_hz < 0.8 * resonance
    assert found.cutoff_hz == pytest.approx(POSITION_FACTOR * found.lowpass_hz, rel=0.01)


def test_vibration_below_one_percent_of_the_motion_does_not_count() -> None:
    assert propose_cutoffs([shaken(20.0, 0.005)]).evidence[0].rise_hz == pytest.approx(RATE / 2)


@pytest.mark.parametrize("step", [1e-4, 1e-3, 1e-2])
def test_accelerations_rise_where_rounding_takes_over(step: float) -> None:
    """Rounding has the density s²/12/(rate/2): (2π)⁴ f⁵/5 of it is 1 % of the power of the motion at the rise."""
    density = step**2 / 12.0 / (RATE / 2)
    expected = (5.0 * RISE * SIZE**2 / density / (2 * np.pi) ** 4) ** 0.2
    found = propose_cutoffs([run_of(joint(2.0, step=step), joint(1.0, 1))])
    first = found.evidence[0]
    assert first.rise_hz == pytest.approx(expected, rel=0.15)
    below = min(BELOW_RISE * first.rise_hz, ABOVE_MOTION * first.acceleration_hz)
    assert found.lowpass_hz == pytest.approx(below, rel=0.01)


@pytest.mark.parametrize("band", [0.5, 1.5, 4.0])
def test_a_long_log_needs_no_filter_far_above_its_accelerations(band: float) -> None:
    """Where positions show no resonance, rows above 8 times the band of the accelerations hold none of the motion."""
    found = propose_cutoffs([run_of(joint(band))])
    (only,) = found.evidence
    assert only.rise_hz == pytest.approx(RATE / 2)
    assert 0.8 * band < only.acceleration_hz < 1.5 * band
    assert found.lowpass_hz == pytest.approx(ABOVE_MOTION * only.acceleration_hz, rel=0.01)
    assert f"lowered to {found.lowpass_hz:.3g} (the accelerations end at {only.acceleration_hz:.3g} Hz)" in found.rule
    # a short log needs the rows, whatever they hold
    short = propose_cutoffs([run_of(joint(band, seconds=2.0))])
    assert short.lowpass_hz == pytest.approx(ENOUGH_PERIODS / 2.0)


@pytest.mark.parametrize("band", [2.0, 3.0, 4.0])
def test_the_motion_band_follows_the_motion_and_the_filter_does_not(band: float) -> None:
    shaky = joint(2.0, resonance=(20.0, 1.0)) - joint(2.0)
    swinging = np.sin(2 * np.pi * band * np.arange(len(shaky)) / RATE)
    size = np.std(np.diff(shaky, 2)) / np.std(np.diff(swinging, 2))
    found = propose_cutoffs([run_of(3.0 * size * swinging + shaky)])
    # the Hann window spreads a line over two bins of an eighth of a hertz to either side
    assert band - 0.01 <= found.motion_hz <= band + 0.26
    assert found.lowpass_hz == pytest.approx(0.7 * 17.4, rel=0.1)


def test_the_lowest_rise_of_the_joints_decides() -> None:
    found = propose_cutoffs([run_of(*(joint(2.0, k, resonance=(f, 0.1)) for k, f in enumerate((40.0, 15.0, 25.0))))])
    assert found.lowpass_hz == pytest.approx(BELOW_RISE * found.evidence[1].rise_hz, rel=0.01)
    assert "joint2" in found.rule


def test_of_several_runs_the_median_decides() -> None:
    runs = [replace(shaken(f), name=f"at {f:g} Hz") for f in (40.0, 12.0, 20.0)]
    found = propose_cutoffs(runs)
    assert found.lowpass_hz == propose_cutoffs([shaken(20.0)]).lowpass_hz
    assert "joint1 in 'at 20 Hz'" in found.rule
    assert [b.run for b in found.evidence] == [run.name for run in runs for _ in range(2)]
    # of two runs, the lower
    assert propose_cutoffs(runs[::2]).lowpass_hz == propose_cutoffs([shaken(20.0)]).lowpass_hz


def test_a_short_log_keeps_26_periods_of_the_filter() -> None:
    short = propose_cutoffs([shaken(12.0, 0.1, seconds=2.0)])
    assert short.lowpass_hz == pytest.approx(LEAST_PERIODS / 2.0)
    assert "raised to 13 for enough rows in 2 s" in short.rule
    assert short.cutoff_hz == pytest.approx(POSITION_FACTOR * short.lowpass_hz)
    longer = propose_cutoffs([shaken(12.0, 0.1, seconds=8.0)])
    assert longer.lowpass_hz < 10.0
    assert "raised" not in longer.rule


def test_every_stretch_of_a_short_log_loses_rows_at_its_ends() -> None:
    """Two runs of 2 s hold as many rows as one of 4 s only at a higher filter: 8.3 periods are lost once more."""
    twice = propose_cutoffs([shaken(12.0, 0.1, seconds=2.0)] * 2)
    assert twice.lowpass_hz == pytest.approx((LEAST_PERIODS + LOST_PERIODS) / 4.0, rel=0.01)
    assert "raised to 8.57 for enough rows in 4 s" in twice.rule
    # a run that is too short to hold any rows changes nothing
    stub = propose_cutoffs([shaken(12.0, 0.1, seconds=2.0)] * 2 + [shaken(12.0, 0.1, seconds=0.4)])
    assert stub.lowpass_hz == pytest.approx(twice.lowpass_hz, rel=0.01)


def test_cutoffs_stay_below_what_the_rate_allows() -> None:
    fast = propose_cutoffs([run_of(joint(30.0))])
    assert fast.lowpass_hz == pytest.approx(0.35 * RATE)
    assert fast.cutoff_hz == pytest.approx(0.4 * RATE)
    assert "cutoff_hz = 1.5 lowpass_hz = 262, lowered to 200 (0.4 of the rate)" in fast.rule
    # the slowest of several clocks limits all
    slow = replace(run_of(joint(15.0, rate=50.0), rate=50.0), name="slow")
    both = propose_cutoffs([run_of(joint(30.0)), run_of(joint(30.0, 1)), slow])
    assert both.lowpass_hz == both.cutoff_hz == pytest.approx(20.0)
    assert "lowpass_hz = 0.7 of it = 175, lowered to 20 (0.4 of the rate)" in both.rule


def test_the_rule_is_told_in_words() -> None:
    found = propose_cutoffs([shaken()])
    rise = found.evidence[0].rise_hz
    assert found.rule == (
        f"the accelerations of joint1 rise above the motion at {rise:.3g} Hz, "
        f"lowpass_hz = 0.7 of it = {found.lowpass_hz:.3g}; cutoff_hz = 1.5 lowpass_hz = {found.cutoff_hz:.3g}"
    )


# --- What it must not depend on ---------------------------------------------------------------------------------------


def test_efforts_do_not_matter() -> None:
    """A resonance that only the efforts contain is not in the accelerations, and the filter removes it alike."""
    plain = shaken()
    (piece,) = plain.open()
    ripple = 10.0 * np.sin(2 * np.pi * 6.0 * np.arange(piece.q.shape[1]) / RATE)
    assert propose_cutoffs([run_of(*piece.q, effort=piece.q + ripple)]) == propose_cutoffs([plain])


@pytest.mark.slow
@given(st.floats(-6, 6), st.floats(-6, 6))
def test_units_do_not_matter(position: float, effort: float) -> None:
    plain = shaken(seconds=20.0)
    (piece,) = plain.open()
    scaled = run_of(*(10.0**position * piece.q), effort=10.0**effort * piece.effort)
    assert propose_cutoffs([scaled]) == propose_cutoffs([plain])


@pytest.mark.parametrize("size", [1000, 4096, 7777])
def test_pieces_do_not_matter(size: int) -> None:
    assert propose_cutoffs([cut(shaken(), size)]) == propose_cutoffs([shaken()])


def test_chunks_of_the_reader_do_not_matter() -> None:
    model = model_of(arm(2))
    log = recording_of(log_of(model, 4000))

    def told(chunk_rows: int) -> Cutoffs:
        return propose_cutoffs([prepare(log, model.robot, channels_of(model.robot), chunk_rows=chunk_rows)])

    assert told(4000) == told(777) == told(65536)


def test_only_the_window_and_whole_segments_count() -> None:
    plain = shaken(seconds=20.0)
    (piece,) = plain.open()
    shaky = piece.q.copy()
    shaky[:, :5000] += 1e-2 * np.random.default_rng(8).standard_normal((2, 5000))
    disturbed = run_of(*shaky)
    windowed = replace(disturbed, stretches=(Stretch(0.0, 10000, (0, 10000), (5000, 10000)),))
    assert propose_cutoffs([disturbed]).lowpass_hz < 12.0
    assert propose_cutoffs([windowed]).evidence[0].rise_hz == pytest.approx(19.0, rel=0.1)


def test_a_joint_that_rests_does_not_count() -> None:
    moving = joint(2.0, resonance=(20.0, 0.1))
    noise = 1e-5 * np.random.default_rng(9).standard_normal(moving.shape)
    resting = propose_cutoffs([run_of(moving, noise)])
    assert resting.evidence[1] == Bandwidth("run", "joint2", 0.0, 0.0, 0.0)
    assert resting.lowpass_hz == propose_cutoffs([run_of(moving)]).lowpass_hz


def test_a_joint_that_stands_still_or_is_dead_does_not_count() -> None:
    moving = joint(2.0, resonance=(20.0, 0.1))
    alone = propose_cutoffs([run_of(moving)])
    dead = replace(run_of(moving, joint(2.0, 3, step=0.05)), constant_effort=np.array([False, True]))
    for found in (propose_cutoffs([dead]), propose_cutoffs([run_of(moving, np.full(moving.shape, 0.7))])):
        assert found.evidence[1] == Bandwidth("run", "joint2", 0.0, 0.0, 0.0)
        assert found.lowpass_hz == alone.lowpass_hz


def test_one_coarse_slow_joint_does_not_widen_the_motion_of_all() -> None:
    """Rounding of a slow joint looks like fast motion; it must not hide the resonance of the others."""
    t = np.arange(int(40.0 * RATE)) / RATE
    coarse = np.round(0.5 * np.sin(2 * np.pi * 0.05 * t) / 0.1) * 0.1
    found = propose_cutoffs([run_of(*(joint(2.0, k, resonance=(14.0, 0.1)) for k in range(3)), coarse)])
    assert found.evidence[3].motion_hz > 20.0
    assert all(b.rise_hz == pytest.approx(12.2, rel=0.1) for b in found.evidence[:3])


def test_noise_alone_is_an_error_that_says_what_to_do() -> None:
    x = np.random.default_rng(3).standard_normal((2, 5000))
    with pytest.raises(DataError, match=r"No joint of 'run' moves above the noise of its position.*set cutoff_hz"):
        propose_cutoffs([run_of(*x, rate=100.0)])


def test_a_log_without_motion_is_an_error_that_says_what_to_do() -> None:
    still = np.full((2, 5000), 0.3)
    with pytest.raises(DataError, match=r"No joint of 'run' moves above the noise of its position.*set cutoff_hz"):
        propose_cutoffs([run_of(*still)])
    with pytest.raises(DataError, match="has 40 consecutive samples; a spectrum needs 64"):
        propose_cutoffs([run_of(*still[:, :40])])
    with pytest.raises(DataError, match=r"No joint of \(no runs\)"):
        propose_cutoffs([])


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
    logs = [log for entry in project.spec.run for log in project.log_files(entry)]
    if not all(log.exists() for log in logs) or (
        "/" in project.spec.robot and not (file.parent / project.spec.robot).exists()
    ):
        pytest.skip(f"No recorded data for '{file.name}'.")
    robot, channels = project.robot(), project.spec.channels.channel_map()
    runs = [prepare(read_recording(log), robot, channels) for log in logs]
    assert not [finding for run in runs for finding in run.findings if finding.code == "saturated-effort"]
    found = propose_cutoffs(runs)
    # industrial arms: above slow motion, below any resonance or noise that a log of 100 Hz or more contains
    assert 0.1 < found.motion_hz < 15.0
    assert 1.0 < found.lowpass_hz < 50.0
