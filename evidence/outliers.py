"""Disturbances in simulated logs: which are found, and their effect on `wls` and `huber`.

A TX-40 moves at random for 20 s at 1 kHz with 5 % coloured torque noise. Sizes of disturbances are in units of the
joint's rms torque, spikes in units of the raw noise. Real logs come from examples/real, as they are and with
a collision added.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.signal import lfilter, medfilt

from steelyard import WLS, Model, Problem, Samples, base_parameters, identify, observe, read_project, read_robot
from steelyard._arrays import Array, single_threaded
from steelyard.estimators.huber import Huber, robust_fit
from steelyard.model.terms import named_terms
from steelyard.motion.random import random_fourier
from steelyard.regression.outliers import block_seconds, outlying_blocks
from steelyard.signals.samples import Piece

EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "real"
SEEDS = range(10)
DURATION_S, NOISE, COLOUR = 20.0, 0.05, 0.9
COLLISION_S, SNAG_S = 0.1, 1.5
LOWPASS_HZ, ROWS_HZ = 20.0, 50.0


@cache
def tx40() -> Model:
    robot = read_robot("tx40")
    assert robot.terms is not None
    return Model(robot, named_terms(robot.terms))


@dataclass(frozen=True)
class Log:
    """A simulated log: t (N,), exact motion, effort and the noise's deviation (n, 1) [N.m], and rms torque (n,)."""

    t: Array
    motion: tuple[Array, Array, Array]
    effort: Array
    deviation: Array
    size: Array

    def problem(self) -> Problem:
        rate = 1.0 / (self.t[1] - self.t[0])
        run = Samples.from_arrays("run", tx40().robot.joint_names, rate, *self.motion, self.effort)
        return Problem(tx40(), [run], lowpass_hz=LOWPASS_HZ, decimate=round(rate / ROWS_HZ))


@cache
def clean(seed: int, stribeck: float = 0.0, rate_hz: float = 1000.0, colour: float = COLOUR) -> Log:
    """A log without disturbances; `stribeck` adds this share of Coulomb friction at low speed, not in any term."""
    model, rng = tx40(), np.random.default_rng(seed)
    truth = model.layout.nominal
    assert truth is not None
    t = np.arange(int(DURATION_S * rate_hz)) / rate_hz
    q, v, a = random_fourier(model.robot, 5, 0.1, DURATION_S, rng).at(t)
    tau = model.torque(q, v, a, truth)
    dry = np.array([truth[model.layout.index(f"{joint}.Fc")] for joint in model.robot.joint_names])[:, None]
    top = np.max(np.abs(v), axis=1, keepdims=True)
    tau = tau + stribeck * dry * np.sign(v) * np.exp(-np.abs(v) / (0.1 * top))
    size = np.sqrt(np.mean(tau**2, axis=1))
    shock = lfilter([np.sqrt(1 - colour**2)], [1.0, -colour], rng.standard_normal(tau.shape), axis=1)
    deviation = NOISE * size[:, None]
    return Log(t, (q, v, a), tau + deviation * shock, deviation, size)


@dataclass(frozen=True)
class Accident:
    """What was added to one joint's effort, and when [s]."""

    effort: Array
    joint: int
    start: float
    stop: float


def bump(log: Log, rng: np.random.Generator, length_s: float, size: float) -> Accident:
    """Half a sine of `length_s` at a random time on a random joint, `size` times that joint's rms torque."""
    joint, start = int(rng.integers(len(log.effort))), float(rng.uniform(1.0, DURATION_S - 1.0 - length_s))
    effort = log.effort.copy()
    inside = (log.t >= start) & (log.t < start + length_s)
    sign = rng.choice([-1.0, 1.0])
    effort[joint, inside] += sign * size * log.size[joint] * np.sin(np.pi * (log.t[inside] - start) / length_s)
    return Accident(effort, joint, start, start + length_s)


def spiked(log: Log, rng: np.random.Generator, size: float = 20.0, rate_hz: float = 1.0) -> Array:
    """Single samples off by `size` deviations of the raw noise, `rate_hz` a second on every joint."""
    effort = log.effort.copy()
    for j in range(len(effort)):
        at = rng.integers(len(log.t), size=round(DURATION_S * rate_hz))
        effort[j, at] += rng.choice([-size, size], len(at)) * log.deviation[j]
    return effort


def despiked(effort: Array, width: int = 7, limit: float = 8.0) -> Array:
    """Samples further from the running median than `limit` robust deviations, replaced by it."""
    out = effort.copy()
    for j, y in enumerate(effort):
        smooth = medfilt(y, width)
        far = np.abs(y - smooth)
        out[j] = np.where(far > limit * 1.4826 * np.median(far), smooth, y)
    return out


def alarms(problem: Problem) -> list[tuple[str, int, float, float]]:
    """Run, joint, start and stop [s] of every outlying block."""
    information = observe(problem)
    theta = robust_fit(base_parameters(problem.model), information).theta
    runs = {run.name: run for run in problem.runs}
    return [
        (name, block.key.joint, *block_seconds(problem, runs[name], block.key.block, information.block_rows[name]))
        for block in outlying_blocks(information, theta)
        for name in [block.key.run]
    ]


def told_apart(
    raised: list[tuple[str, int, float, float]], run: str, joint: int, start: float, stop: float, slack: float
) -> tuple[bool, int]:
    """Whether the disturbance was found, and the number of other alarms; filters smear it by `slack` [s]."""
    true = [r == run and j == joint and a < stop + slack and b > start - slack for r, j, a, b in raised]
    return any(true), len(true) - sum(true)


def detection() -> Table:
    table = Table("accident", "size", "found", "false alarms", title="Outlying blocks, ten logs per row")
    for label, stribeck in (("", 0.0), (", friction unexplained", 0.5)):
        raised = sum(len(alarms(clean(seed, stribeck).problem())) for seed in SEEDS)
        table.add_row("none" + label, "-", "-", str(raised))
        kinds = (("collision, 0.1 s", COLLISION_S, (0.5, 1.0, 2.0)), ("snag, 1.5 s", SNAG_S, (0.5, 1.0)))
        for name, length, sizes in kinds:
            for size in sizes:
                found = false = 0
                for seed in SEEDS:
                    log = clean(seed, stribeck)
                    hit = bump(log, np.random.default_rng([seed, 1]), length, size)
                    raised = alarms(replace(log, effort=hit.effort).problem())
                    slack = 1.5 / LOWPASS_HZ
                    yes, other = told_apart(raised, "run", hit.joint, hit.start, hit.stop, slack)
                    found, false = found + yes, false + other
                table.add_row(name + label, f"{size:g} rms", f"{found} of {len(SEEDS)}", str(false))
    raised = [
        len(alarms(replace(clean(seed), effort=spiked(clean(seed), np.random.default_rng([seed, 2]))).problem()))
        for seed in SEEDS
    ]
    table.add_row("spikes of one sample, 1 per second", "20 σ", f"{sum(n > 0 for n in raised)} of {len(SEEDS)}", "-")
    return table


def struck(run: Samples, joint: int, start: float, size: float) -> Samples:
    """The run with half a sine of COLLISION_S and `size` [N.m] added to one joint's effort."""

    def opened() -> Iterator[Piece]:
        for piece in run.open():
            t = run.stretches[piece.stretch].start + (piece.first + np.arange(piece.q.shape[1])) / run.rate - start
            effort = piece.effort.copy()
            effort[joint] += np.where((t >= 0) & (t < COLLISION_S), size * np.sin(np.pi * t / COLLISION_S), 0.0)
            yield piece._replace(effort=effort)

    return replace(run, open=opened)


def real() -> Table:
    table = Table("log", "as recorded", "1 rms", "4 rms", "false", title="Real logs: alarms, collisions found")
    for name in ("tx40", "ur10e", "panda", "cobot6", "kr300", "ur10e-free"):
        project = read_project(EXAMPLES / f"{name}.toml")
        if not all(log.exists() for entry in project.spec.run for log in project.log_files(entry)):
            table.add_row(name, "skipped: no shared data")
            continue
        model = project.model()
        problem = project.problem(model, project.samples(model.robot, "identify"))
        before = alarms(problem)
        cells, false = [], 0
        if len(problem.runs) <= 2:
            run = problem.runs[0]
            rms = [np.linalg.norm(t.r[:, -1]) / np.sqrt(t.rows) for t in observe(problem).joint_triangles]
            first, last = run.used
            for size in (1.0, 4.0):
                found = 0
                for seed in SEEDS:
                    rng, joint = np.random.default_rng([seed, 7]), seed % len(rms)
                    start = rng.uniform(first + 0.1 * (last - first), last - 0.1 * (last - first))
                    hit = struck(run, joint, start, rng.choice([-1.0, 1.0]) * size * rms[joint])
                    raised = alarms(replace(problem, runs=(hit, *problem.runs[1:])))
                    slack = problem.decimator(run).half / run.rate
                    yes, other = told_apart(
                        [alarm for alarm in raised if alarm not in before],
                        run.name,
                        joint,
                        start,
                        start + COLLISION_S,
                        slack,
                    )
                    found, false = found + yes, false + other
                cells.append(f"{found} of {len(SEEDS)}")
        table.add_row(name, str(len(before)), *(cells or ["-"] * 2), str(false) if cells else "-")
    return table


def judged(logs: list[Log], deviations: list[Array], estimator: WLS | Huber) -> tuple[float, float, float]:
    """RMS error of the base parameters over given deviations, 95 % coverage, and mean σ over those deviations."""
    model = tx40()
    truth = base_parameters(model).map @ np.asarray(model.layout.nominal)
    errors, held, widths = [], [], []
    for log, std in zip(logs, deviations, strict=True):
        result = identify(log.problem(), estimator)
        low, high = result.interval(0.95)
        errors.append((result.value - truth) / std)
        held.append((low <= truth) & (truth <= high))
        widths.append(result.std / std)
    return float(np.sqrt(np.mean(np.square(errors)))), float(np.mean(held)), float(np.mean(widths))


def collided(seed: int, count: int, size: float) -> Log:
    log, rng = clean(seed), np.random.default_rng([seed, 3])
    for _ in range(count):
        log = replace(log, effort=bump(log, rng, COLLISION_S, size).effort)
    return log


def harm() -> Table:
    table = Table("log", "estimator", "error / σ", "95 % coverage", "σ", title="Base parameters, ten logs per row")
    references = [clean(seed) for seed in SEEDS]
    deviations = [identify(log.problem(), WLS()).std for log in references]
    scenes: dict[str, list[Log]] = {"clean": references}
    for count, size in ((1, 2.0), (3, 4.0), (10, 4.0)):
        scenes[f"{count} collisions of {size:g} rms"] = [collided(seed, count, size) for seed in SEEDS]
    for name, logs in scenes.items():
        for estimator in (WLS(), Huber()):
            error, held, width = judged(logs, deviations, estimator)
            table.add_row(name, estimator.name, f"{error:.2f}", f"{held:.1%}", f"{width:.2f}")
    return table


def spikes() -> Table:
    table = Table("rate", "noise", "log", "wls error / σ", title="Spikes of 20 σ, one per second on every joint")
    for rate, colour in ((200.0, 0.0), (1000.0, 0.0), (1000.0, COLOUR)):
        references = [clean(seed, 0.0, rate, colour) for seed in SEEDS]
        deviations = [identify(log.problem(), WLS()).std for log in references]
        dirty = [
            replace(log, effort=spiked(log, np.random.default_rng([seed, 4])))
            for seed, log in zip(SEEDS, references, strict=True)
        ]
        mended = [replace(log, effort=despiked(log.effort)) for log in dirty]
        for name, logs in (("clean", references), ("spikes", dirty), ("spikes, despiked", mended)):
            error, _, _ = judged(logs, deviations, WLS())
            table.add_row(f"{rate:g} Hz", "coloured" if colour else "white", name, f"{error:.2f}")
    return table


PARTS: tuple[Callable[[], Table], ...] = (detection, real, harm, spikes)


@single_threaded
def main() -> None:
    console = Console(width=120)
    start = time.perf_counter()
    for part in PARTS:
        console.print(part())
    console.print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
