"""A UR10e that picks up a body during online identification: detection time, error of the mass, false alarms, and the
cost of a stream. `--quick` does fewer runs.

Simulated logs: random motion at 100 Hz, torques of the robot identified from its real unloaded runs, and a disturbance
of each joint with the spectrum and the relative size of the real residual (from separate fits of runs of 30 s or
more). If the recordings are missing: the nominal robot and 3 % noise that decreases with frequency. Real
logs: an unloaded and a loaded run of the same motion, one after the other.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from steelyard import Model, Preparation, identify, read_project, read_recording, read_robot
from steelyard._arrays import Array
from steelyard.estimators import RLS
from steelyard.identification.prediction import predict_rows
from steelyard.identification.result import Identification
from steelyard.model.parameters import inertial_vector
from steelyard.model.payload import Payload
from steelyard.model.robot import Limits, Robot
from steelyard.model.terms import DEFAULT_TERMS, named_terms
from steelyard.motion.random import random_fourier
from steelyard.online.causal_filter import Chunk
from steelyard.online.change_cause import Change
from steelyard.online.online import ChangeDetection, Online
from steelyard.project.papers.page.claims import Claim
from steelyard.project.project import Project
from steelyard.signals.channels import resolve

ROOT = Path(__file__).resolve().parent.parent
REAL = ROOT / "examples" / "real"
DATA = ROOT.parent / "shared" / "data" / "ur10e"
RATE_HZ = 100.0
FILTERS = {"lowpass_hz": 10.0, "decimate": 2}
PREPARATION = Preparation(cutoff_hz=7.5, rate_hz=RATE_HZ)
LEARN_S = 30.0
# A minute of rows is remembered.
ESTIMATOR = RLS("exponential", 60.0 * RATE_HZ / 2)
LONG_S = 28.0
# A body of 2 kg in front of the flange.
BODY = inertial_vector(2.0, np.array([0.02, 0.03, 0.09]), 2.0 * 0.04**2 * np.diag([1.0, 1.0, 1.0]))
POSITION_NOISE = 2e-5


@dataclass(frozen=True)
class World:
    """The robot that is simulated: its model, true parameters (C,), and for every joint the residual's amplitude
    spectrum (n, F) at frequencies (F,) [Hz], scaled to unit rms, and its size relative to the effort (n,)."""

    model: Model
    theta: Array
    frequency: Array
    spectrum: Array
    relative: Array
    source: str


def project(name: str = "ur10e-free") -> Project:
    return read_project(REAL / f"{name}.toml")


@cache
def world() -> World:
    if not DATA.is_dir():
        robot = read_robot("ur10e")
        model = Model(robot, named_terms(DEFAULT_TERMS))
        assert model.layout.nominal is not None
        frequency = np.linspace(0.0, 50.0, 501)
        colour = 1.0 / np.sqrt(0.3**2 + frequency**2)
        return World(model, model.layout.nominal, frequency, np.tile(colour, (6, 1)), np.full(6, 0.03), "AR noise")
    real = project()
    model = real.model()
    problem = real.problem(model, real.samples(model.robot, "identify"))
    rows_hz = RATE_HZ / FILTERS["decimate"]
    length = 512  # rows of a segment, ten seconds
    frequency = np.fft.rfftfreq(length, 1.0 / rows_hz)
    power, window = np.zeros((6, len(frequency))), np.hanning(length)
    rest, size = np.zeros(6), np.zeros(6)
    for run in problem.runs:
        if run.count < LONG_S * run.rate:
            continue  # the parameters of a short run follow its residual
        alone = replace(problem, runs=[run])
        told = predict_rows(alone, run, identify(alone).theta)
        left = np.where(told.scored, told.measured - told.predicted, 0.0)
        rest += np.sum(left**2, axis=1)
        size += np.sum(np.where(told.scored, told.measured, 0.0) ** 2, axis=1)
        for first in range(0, left.shape[1] - length, length // 2):
            power += np.abs(np.fft.rfft(window * left[:, first : first + length], axis=1)) ** 2
    theta = identify(problem).theta
    return World(model, theta, frequency, np.sqrt(power), np.sqrt(rest / size), "real residuals")


def disturbance(size: Array, count: int, rng: np.random.Generator) -> Array:
    """Noise (n, count) with the spectrum of the residual and its relative size, for efforts of rms `size` (n,)."""
    here = world()
    frequency = np.fft.rfftfreq(count, 1.0 / RATE_HZ)
    out = []
    for amplitude, relative, effort in zip(here.spectrum, here.relative, size, strict=True):
        shape = np.interp(frequency, here.frequency, amplitude, right=0.0)
        shape[0] = 0.0
        noise = np.fft.irfft(shape * np.exp(2j * np.pi * rng.random(len(shape))), count)
        out.append(relative * effort * noise / np.sqrt(np.mean(noise**2)))
    return np.array(out)


def tamed(robot: Robot) -> Robot:
    """The robot with the room that the recorded motions use."""
    joints = tuple(replace(j, limits=Limits(-1.6, 1.6, 1.5)) for j in robot.joints)
    return replace(robot, joints=joints)


@dataclass(frozen=True)
class Log:
    t: Array
    q: Array
    effort: Array

    def chunks(self, rows: int = 50) -> Iterator[Chunk]:
        for first in range(0, len(self.t), rows):
            part = slice(first, first + rows)
            yield Chunk(self.t[part], self.q[:, part], self.effort[:, part])


def simulated(seed: int, seconds: float, pickup_s: float | None, friction: float = 0.0) -> Log:
    """Random motion; from `pickup_s` on the body is carried; viscous and dry friction grow by the share `friction` over
    the time after LEARN_S."""
    here, rng = world(), np.random.default_rng(seed)
    model = here.model
    loaded = Model(model.robot, model.terms, payloads=[Payload("body")])
    # whole rows of motion before it starts and after it ends are cut off
    fourier = random_fourier(tamed(model.robot), 14, 0.02, seconds + 30.0, rng)
    t = np.arange(int(seconds * RATE_HZ)) / RATE_HZ
    q, v, a = fourier.at(t + 15.0)
    tau = model.torque(q, v, a, here.theta)
    size = np.sqrt(np.mean(tau**2, axis=1))
    if pickup_s is not None:
        whole = np.concatenate([here.theta, BODY])
        tau = np.where(t >= pickup_s, loaded.torque(q, v, a, whole, load="body"), tau)
    if friction:
        drive = np.zeros_like(here.theta)
        rubbing = [k for k, c in enumerate(model.layout.columns) if c.symbol in ("Fv", "Fc")]
        drive[rubbing] = here.theta[rubbing]
        grown = np.clip((t - LEARN_S) / (seconds - LEARN_S), 0.0, 1.0)
        tau = tau + friction * grown * model.torque(q, v, a, drive)
    q = q + POSITION_NOISE * rng.standard_normal(q.shape)
    return Log(t, q, tau + disturbance(size, len(t), rng))


def online(model: Model | None = None, **options: object) -> Online:
    settings = {"watch": ChangeDetection(learn_s=LEARN_S), "estimator": ESTIMATOR, **FILTERS, **options}
    return Online(model or world().model, PREPARATION, **settings)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Told:
    """Report of a stream on a pick-up at a known time [s].

    Time from the change to the row that raised the alarm, time until it was known (filters included), error of the
    estimated time of the change, and the mass over time since the change [s, kg, kg].
    """

    row_delay: float
    known_delay: float
    located: float
    kind: str
    masses: tuple[tuple[float, float, float], ...]


def followed(seed: int, pickup_s: float, seconds: float) -> Told | None:
    stream, masses = online(), []
    known = np.nan
    for chunk in simulated(seed, seconds, pickup_s).chunks(10):
        stream.update(chunk)
        if stream.change is not None:
            if np.isnan(known):
                known = chunk.t[-1]
            found = stream.change.pickup
            if found is not None and (not masses or found.rows != masses[-1][3]):
                masses.append((chunk.t[-1] - pickup_s, found.mass, found.mass_std, found.rows))
    change = stream.change
    if change is None:
        return None
    return Told(
        change.reported - pickup_s, known - pickup_s, change.t - pickup_s, change.kind, tuple(m[:3] for m in masses)
    )


def mass_within(told: Told, seconds: float) -> tuple[float, float]:
    """Mass and σ known at this time after the pick-up [s]."""
    known = [m for m in told.masses if m[0] <= seconds]
    return known[-1][1:] if known else (np.nan, np.nan)


# --- Real logs --------------------------------------------------------------------------------------------------------


Columns = dict[str, Array]


def recorded(name: str, rows: tuple[int, int]) -> Columns:
    """Columns of a recording, the rows (1-based, both included) in which it moves."""
    real = project("ur10e")
    columns = resolve(real.spec.channels.channel_map(), real.robot()).columns
    chunks = list(read_recording(DATA / f"{name}.parquet").chunks(columns))
    return {c: np.concatenate([chunk[c] for chunk in chunks])[rows[0] - 1 : rows[1]] for c in columns}


def one_after_another(parts: list[Columns], pause_s: float = 1.0) -> tuple[list[Columns], list[float]]:
    """Logs on one clock, a gap between them, and when each starts [s]."""
    out, starts, end = [], [], 0.0
    for part in parts:
        starts.append(end)
        shifted = part["t_s"] - part["t_s"][0] + end
        out.append({**part, "t_s": shifted})
        end = float(shifted[-1]) + pause_s
    return out, starts


History = list[tuple[float, Identification]]


def follow(parts: list[Columns], rows: int = 20) -> tuple[Online, list[tuple[float, Change]], History]:
    """A stream of recorded columns, its reports of a change, and its identifications before it."""
    real = project("ur10e")
    stream = online(real.model(), channels=real.spec.channels.channel_map(), resample=True)
    told: list[tuple[float, Change]] = []
    course: History = []
    last: Identification | None = None
    for part in parts:
        for first in range(0, len(part["t_s"]), rows):
            chunk = {name: x[first : first + rows] for name, x in part.items()}
            result = stream.update(chunk)
            if result is not None and stream.change is None and result is not last:
                course.append((float(chunk["t_s"][-1]), result))
                last = result
            if stream.change is not None and (not told or stream.change is not told[-1][1]):
                told.append((float(chunk["t_s"][-1]), stream.change))
    return stream, told, course


FREE = {
    "ident_free_30s_12harm": (635, 3510),
    "ident_free_40s_12harm": (500, 4460),
    "ident_free_50s_12harm": (355, 5090),
    "ident_free_50s_14harm": (195, 4966),
}


# --- Tables -----------------------------------------------------------------------------------------------------------


def pickups(runs: int) -> Iterator[tuple[str, str]]:
    told = [followed(1000 + seed, 45.0, 56.0) for seed in range(runs)]
    # what is known before the pick-up is a false alarm
    seen = [t for t in told if t is not None and t.row_delay > 0.0]
    yield "2 kg picked up: found", f"{len(seen)} of {runs}"
    for what, delays in (
        ("  row of the alarm after the change (s)", [t.row_delay for t in seen]),
        ("  known after the change, filters included (s)", [t.known_delay for t in seen]),
    ):
        yield what, f"median {np.median(delays):.2f}, largest {np.max(delays):.2f}"
    yield "  where it was put (s off)", f"rms {np.sqrt(np.mean([t.located**2 for t in seen])):.3f}"
    yield "  called a payload at the end", f"{sum(t.kind == 'payload' for t in seen)} of {len(seen)}"
    for seconds in (3.0, 5.0, 10.0):
        mass = np.array([mass_within(t, seconds) for t in seen])
        off = mass[:, 0] / BODY[9] - 1.0
        within = np.mean(np.abs(off) < 0.05)
        known = np.sqrt(np.mean(((mass[:, 0] - BODY[9]) / mass[:, 1]) ** 2))
        yield (
            f"  mass after {seconds:g} s",
            f"rms error {np.sqrt(np.mean(off**2)):.1%}, within 5 % in {within:.0%}, error over its σ {known:.1f}",
        )


class Quiet(NamedTuple):
    """Unchanged motion watched: false alarms, seconds watched, and how far a test got at most in every run."""

    alarms: int
    seconds: float
    strains: list[float]


def watched_quietly(runs: int) -> Quiet:
    alarms, seconds, strains = 0, 0.0, []
    for seed in range(runs):
        stream, strain = online(), 0.0
        for chunk in simulated(2000 + seed, LEARN_S + 65.0, None).chunks():
            stream.update(chunk)
            if stream.detector is not None:
                strain, seconds = max(strain, stream.detector.strain), seconds + len(chunk.t) / RATE_HZ
        alarms += stream.change is not None
        strains.append(strain)
    return Quiet(alarms, seconds, strains)


def quiet(runs: int) -> Iterator[tuple[str, str]]:
    alarms, seconds, strains = watched_quietly(runs)
    yield "unchanged motion: false alarms", f"{alarms} in {runs} runs, {seconds:.0f} s watched"
    yield (
        "  furthest that a test got (1 is an alarm)",
        f"median {np.median(strains):.2f}, largest {np.max(strains):.2f}",
    )


def rubbing(runs: int) -> Iterator[tuple[str, str]]:
    told = []
    for seed in range(runs):
        stream = online()
        for chunk in simulated(3000 + seed, 120.0, None, friction=0.6).chunks():
            stream.update(chunk)
        told.append(stream.change)
    seen = [change for change in told if change is not None]
    kinds = {kind: sum(change.kind == kind for change in seen) for kind in ("friction", "payload", "unknown")}
    yield "friction up by 60 % over 90 s: found", f"{len(seen)} of {runs}"
    yield "  called", ", ".join(f"{kind} {count}" for kind, count in kinds.items())


def real() -> Iterator[tuple[str, str]]:
    if not DATA.is_dir():
        yield "real UR10e", "recordings not here"
        return
    free, loaded = recorded("ident_free_50s_14harm", (195, 4966)), recorded("ident_load_50s_14harm", (308, 5071))
    parts, starts = one_after_another([free, loaded])
    stream, told, _ = follow(parts)
    change = stream.change
    if change is None or change.pickup is None:
        yield "real UR10e, unloaded then loaded", "not found"
        return
    yield "real UR10e, unloaded then 2.805 kg: put at", f"{change.t - starts[1]:.2f} s after the loaded log starts"
    yield (
        "  reported",
        f"{change.reported - starts[1]:.2f} s after it starts ({change.alarm.test}); first rows at "
        f"{stream.delay_s:.2f} s",
    )
    for seconds in (5.0, 10.0, 20.0, 60.0):
        known = [c for t, c in told if t - starts[1] <= seconds and c.pickup is not None]
        if known:
            found = known[-1].pickup
            assert found is not None
            yield (
                f"  after {seconds:g} s",
                f"{known[-1].kind}, {found.mass:.3f} ± {found.mass_std:.3f} kg ({found.mass / 2.805 - 1:+.1%})",
            )
    several, starts = one_after_another([recorded(name, rows) for name, rows in FREE.items()])
    stream, _, _ = follow(several)
    watched = several[-1]["t_s"][-1] - LEARN_S
    said = "none" if stream.change is None else stream.change.verdict
    yield f"real UR10e, four unloaded runs, {watched:.0f} s watched: alarm", said


class Endless(NamedTuple):
    """One long stream: samples a second of one core, its phase at the end, resident memory after each tenth [bytes]."""

    rate: float
    phase: str
    memory: list[int]


def streamed(samples: int) -> Endless:
    """Ten million samples at 1 kHz through one stream, watched, and the memory it has."""
    robot = read_robot("tx40")
    model = Model(robot, named_terms(DEFAULT_TERMS))
    assert model.layout.nominal is not None
    rng, rate, period = np.random.default_rng(3), 1000.0, 50_000
    t = np.arange(period) / rate
    q, v, a = random_fourier(robot, 5, 0.1, period / rate, rng).at(t)
    tau = model.torque(q, v, a, model.layout.nominal)
    size = 0.03 * np.std(tau, axis=1, keepdims=True)
    stream = Online(model, Preparation(cutoff_hz=20.0, rate_hz=rate), lowpass_hz=10.0, decimate=20, refresh_s=10.0)
    marks, spent, chunk = [], 0.0, 1000
    for k in range(0, samples, chunk):
        part = slice(k % period, k % period + chunk)
        noise = size * rng.standard_normal((6, chunk))
        begun = time.process_time()
        stream.update(Chunk((k + np.arange(chunk)) / rate, q[:, part], tau[:, part] + noise))
        spent += time.process_time() - begun
        if (k + chunk) % (samples // 10) == 0:
            marks.append(resident())
    return Endless(samples / spent, stream.phase, marks)


def endless(samples: int) -> Iterator[tuple[str, str]]:
    found = streamed(samples)
    yield f"{samples / 1e6:g} million samples", f"{found.rate:.0f} a second of one core, {found.phase}"
    yield "  resident memory (MB) after each tenth", ", ".join(f"{m / 1e6:.0f}" for m in found.memory)


def resident() -> int:
    """Resident memory of this process [bytes]."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError("no VmRSS in /proc/self/status")


# --- Claims -----------------------------------------------------------------------------------------------------------


def claims(quick: bool = False) -> Iterator[Claim]:
    """What `evidence/run.py --only online` puts into its table."""
    runs, samples = (4, 1_000_000) if quick else (20, 10_000_000)
    told = [followed(1000 + seed, 45.0, 56.0) for seed in range(runs)]
    seen = [one for one in told if one is not None and one.row_delay > 0.0]
    late = max((one.row_delay for one in seen), default=np.nan)
    soon = len(seen) == runs and bool(late < 1.0)
    of = f"simulated ur10e, 2 kg picked up, {runs} runs"
    yield Claim.of(f"{of}: found, longest delay", "all, < 1 s", soon, "{}, {:.2f} s", len(seen), late)
    off = [abs(mass_within(one, 10.0)[0] / BODY[9] - 1.0) for one in seen]
    right = sum(x < 0.05 for x in off)
    worst = max(off, default=np.nan)
    yield Claim.of(f"{of}: mass after 10 s within 5 %", "all", right == runs, "{}, worst {:.1%}", right, worst)
    still = watched_quietly(runs)
    claim = f"simulated ur10e unchanged, {runs} runs, {still.seconds:.0f} s watched: false alarms"
    yield Claim.of(claim, "0", still.alarms == 0, "{}", still.alarms)
    yield _real_claim()
    found = streamed(samples)
    claim = f"six axes at 1 kHz, {samples / 1e6:g} million samples, watched: samples a second of one core"
    yield Claim.of(claim, ">= 10000", found.rate >= 10_000, "{:.0f}", found.rate, timed=True)
    grown = found.memory[-1] / found.memory[0] - 1.0
    claim = "  resident memory from the first tenth to the last"
    yield Claim.of(claim, "+2 % at most", grown <= 0.02, "{:+.1%}", grown, timed=True)


def _real_claim() -> Claim:
    claim, bar = "ur10e, real log, unloaded then 2.805 kg: mass", "2.805 kg ± 5 %"
    if not DATA.is_dir():
        return Claim.of(claim, bar, True, "skipped: no shared data")
    parts, starts = one_after_another(
        [recorded("ident_free_50s_14harm", (195, 4966)), recorded("ident_load_50s_14harm", (308, 5071))]
    )
    change = follow(parts)[0].change
    if change is None or change.pickup is None:
        return Claim.of(claim, bar, False, "not found")
    mass, std, late = change.pickup.mass, change.pickup.mass_std, change.t - starts[1]
    holds = abs(mass / 2.805 - 1.0) < 0.05 and change.kind == "payload" and late > -1.0
    shown = "{:.3f} ± {:.3f} kg, {}, put {:.1f} s after the start"
    return Claim.of(claim, bar, holds, shown, mass, std, change.kind, late)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("pickups", "quiet", "rubbing", "real", "endless"))
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args()
    runs = 4 if chosen.quick else 20
    parts = {
        "pickups": lambda: pickups(runs),
        "quiet": lambda: quiet(runs),
        "rubbing": lambda: rubbing(max(2, runs // 2)),
        "real": real,
        "endless": lambda: endless(200_000 if chosen.quick else 10_000_000),
    }
    table = Table("what", "measured", title=f"online identification ({world().source})")
    for name, part in parts.items():
        if chosen.only in (None, name):
            for row in part():
                table.add_row(*row)
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
