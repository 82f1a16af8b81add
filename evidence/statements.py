"""Statements: whether intervals, prediction bands and warnings hold, on robots simulated by Pinocchio.

Arms of four to seven joints drawn at random (evidence/strangers.py), whose file is wrong by up to 30 %, move
periodically or not. Torques are Pinocchio's plus rotors, viscous and Coulomb friction, offsets and noise of a
first-order filter. The model is right, or it lacks a ripple of the gears or load-dependent friction. Per kind of log
and estimator:

    coverage   fraction of the 95 % intervals of the inertial base parameters that hold the truth, mean ± standard error
               over the logs, and the lowest parameter of any robot plus two standard errors
    before     the same without phases of the motion, with stated widths (`map`), without the full model (`essential`)
    band       fraction of the rows of another motion in the 95 % band of the prediction
    named      fraction of the logs with a warning or with the finding `repeating-residual`

--quick uses a tenth of the logs.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.signal import lfilter

from steelyard.project.papers.page.claims import Claim

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from strangers import random_arm, true_robot

from steelyard import Model, Problem, Robot, Samples, identify, observe, predict
from steelyard._arrays import Array, single_threaded
from steelyard.estimators import named_estimator
from steelyard.estimators.estimator import Estimate
from steelyard.estimators.least_squares import joint_deviations, solve
from steelyard.estimators.regularised.fit import regularised
from steelyard.identification.result import Identification
from steelyard.model.parameters import INERTIAL
from steelyard.model.terms import named_terms
from steelyard.motion.random import random_fourier
from steelyard.physical.prior import Widths, nominal_prior, with_friction
from steelyard.regression.information import Information
from steelyard.validation import lack_of_fit
from testbed.trees import Pinocchio, State

RATE_HZ, SECONDS, LOWPASS_HZ = 200.0, 20.0, 10.0
NOISE, POLE = 0.05, 0.9
ROBOTS, SEED = 3, 20261119
# Logs per robot and kind: estimators that solve triangles, and those that solve cone programs.
QUICKLY = ("wls", "huber", "map", "rls", "essential")
SLOWLY = ("consistent", "auto")
LOGS, SLOW_LOGS = 300, 100
TERMS = ("rotor", "viscous", "coulomb", "offset")


@dataclass(frozen=True)
class Kind:
    """A kind of log: the base frequency of its motion [Hz], and what the model lacks, as shares of the effort."""

    name: str
    base_hz: float
    ripple: float = 0.0
    load: float = 0.0

    @property
    def right(self) -> bool:
        return self.ripple == self.load == 0.0


KINDS = (
    Kind("right model, one period", 0.03),
    Kind("right model, periodic", 0.15),
    Kind("ripple, periodic", 0.15, ripple=0.1),
    Kind("load friction, periodic", 0.15, load=0.08),
)


@cache
def robots(number: int) -> tuple[Robot, Robot]:
    """The robot of the file and the real one."""
    told = random_arm(np.random.default_rng([SEED, number]))
    return told, true_robot(told, np.random.default_rng([SEED, number, 1]))


@cache
def sizes(number: int) -> Array:
    """Effort of every joint (n, 1) [N·m] on a motion of the same kind: the scale of friction and noise."""
    real = robots(number)[1]
    motion = random_fourier(real, 5, 0.15, 10.0, np.random.default_rng([SEED, number, 2]))
    torque = Pinocchio(real).torque(State(*motion.at(np.arange(500) / 50.0)))
    size = np.sqrt(np.mean(torque**2, axis=1, keepdims=True))
    return size + 0.05 * size.max()


def log(number: int, kind: Kind, rng: np.random.Generator, name: str) -> Samples:
    """A log of the real robot."""
    real, size = robots(number)[1], sizes(number)
    t = np.arange(int(SECONDS * RATE_HZ)) / RATE_HZ
    harmonics = 5 if kind.base_hz > 0.1 else 20
    q, v, a = random_fourier(real, harmonics, kind.base_hz, SECONDS, rng).at(t)
    torque = Pinocchio(real).torque(State(q, v, a))
    friction = size * (0.1 * np.sign(v) + 0.1 * v + 0.02) + kind.load * np.abs(torque) * np.sign(v)
    cycles = np.random.default_rng([SEED, number, 3]).integers(10, 40, (len(q), 1))
    ripple = kind.ripple * size * np.sin(cycles * q)
    noise = lfilter([np.sqrt(1 - POLE**2)], [1.0, -POLE], rng.standard_normal(q.shape), axis=1)
    return Samples.from_arrays(
        name, real.joint_names, RATE_HZ, q, v, a, torque + friction + ripple + NOISE * size * noise
    )


@dataclass(frozen=True)
class Found:
    """One fit: which intervals hold the truth, now and before (b,), NaN where there is none; share of unseen rows in
    the band; codes of its warnings."""

    inside: Array
    before: Array
    band: float
    codes: tuple[str, ...]


@single_threaded
def fits(task: tuple[int, int, int, tuple[str, ...]]) -> dict[str, Found]:
    """The fits of one log by every estimator: robot, kind, replication, estimators."""
    warnings.simplefilter("ignore")
    number, which, replication, names = task
    kind = KINDS[which]
    rng = np.random.default_rng([SEED, number, which, replication])
    told, _ = robots(number)
    model = Model(told, named_terms(TERMS))
    run, other = log(number, kind, rng, "fitted"), log(number, kind, rng, "unseen")
    problem = Problem(model, [run], lowpass_hz=LOWPASS_HZ)
    information = observe(problem)
    out = {}
    for name in names:
        result = identify(problem, named_estimator(name), information)
        judged = predict(result, problem.with_runs([other]), other)
        misfit = lack_of_fit([predict(result, problem, run)]).findings
        codes = [one.code for one in (*result.findings, *misfit) if one.severity != "info"]
        codes += [one.code for one in result.findings if one.code == "repeating-residual"]
        out[name] = Found(
            inside(result, number), inside(_before(result, name, information), number),
            float(judged.inside[judged.scored].mean()), tuple(codes),
        )  # fmt: skip
    return out


def inside(result: Identification, number: int) -> Array:
    """Which intervals of inertial base parameters hold the truth (b,): 1, 0, or NaN without an interval or a truth."""
    real = robots(number)[1]
    bodies = {link.name: link.inertia for link in real.links if link.inertia is not None}
    truth = {f"{name}.{x}": y for name, body in bodies.items() for x, y in zip(INERTIAL, body, strict=True)}
    truth |= {f"{joint.name}.Ia": joint.drive.rotor for joint in real.joints}
    known = np.array([name in truth for name in result.base.layout.names])
    values = np.array([truth.get(name) or 0.0 for name in result.base.layout.names])
    low, high = result.interval()
    mean = result.base.map @ values
    told = np.isfinite(low) & ~np.any((result.base.map != 0.0) & ~known, axis=1)
    return np.where(told, (low <= mean) & (mean <= high), np.nan)


def _before(result: Identification, name: str, information: Information) -> Identification:
    """The result with the error bars of the version before: blocks of time alone."""
    blocks, base = replace(information, periods={}), result.base
    if name in ("map", "essential"):
        weights = 1.0 / joint_deviations(blocks, base)
        found: Estimate
        if name == "essential":
            cancelled = np.isin(base.names, result.cancelled)
            found = solve(blocks, base, weights, cancelled=cancelled)
        else:
            prior = with_friction(nominal_prior(base.layout, Widths()), blocks, Widths().friction)
            found = regularised(blocks, base, prior.in_base(base), None, weights)
    else:
        found = named_estimator(name).estimate(None, base, blocks)
    return replace(result, value=found.value, covariance=found.covariance, clusters=found.clusters)


@dataclass(frozen=True)
class Line:
    """A kind of log and an estimator over all robots and logs."""

    kind: Kind
    estimator: str
    logs: int
    coverage: float
    error: float
    lowest: float
    before: float
    band: float
    named: float
    warned: float


def lines(quick: bool, processes: int = 2, logs: tuple[int, int] | None = None) -> Iterator[Line]:
    """One line per kind and estimator."""
    counts = logs or ((LOGS // 10, SLOW_LOGS // 10) if quick else (LOGS, SLOW_LOGS))
    with ProcessPoolExecutor(processes) as pool:
        for which, kind in enumerate(KINDS):
            for names, count in ((QUICKLY, counts[0]), (SLOWLY, counts[1])):
                tasks = [(robot, which, k, names) for robot in range(ROBOTS) for k in range(count)]
                done = list(pool.map(fits, tasks, chunksize=4))
                for name in names:
                    yield _line(
                        kind, name, [[each[name] for each in done[r * count : (r + 1) * count]] for r in range(ROBOTS)]
                    )


def _line(kind: Kind, name: str, by_robot: Sequence[Sequence[Found]]) -> Line:
    every = [one for own in by_robot for one in own]
    shares = np.array([np.nanmean(one.inside) for one in every])
    lowest = 1.0
    for own in by_robot:
        held = np.array([one.inside for one in own])
        count = np.sum(np.isfinite(held), axis=0)
        with np.errstate(invalid="ignore"):
            mean = np.nansum(held, axis=0) / count
        spread = np.sqrt(np.maximum(mean * (1.0 - mean), 0.0475) / np.maximum(count, 1))
        lowest = min(lowest, float(np.nanmin(np.where(count > 0, mean + 2.0 * spread, np.nan))))
    return Line(
        kind, name, len(every), float(shares.mean()), float(shares.std() / np.sqrt(len(shares))), lowest,
        float(np.mean([np.nanmean(one.before) for one in every])), float(np.mean([one.band for one in every])),
        float(np.mean([bool(one.codes) for one in every])),
        float(np.mean([bool(set(one.codes) - {"repeating-residual"}) for one in every])),
    )  # fmt: skip


def claims(quick: bool) -> Iterator[Claim]:
    """The lines as claims: a right model is covered and raises nothing, a wrong one is covered or named."""
    found = list(lines(quick))
    Console(width=160, stderr=True).print(table(found))
    for line in found:
        what = f"{line.kind.name}, {line.estimator}, {line.logs} logs"
        slack = 2.0 * line.error
        holds = 0.93 - slack <= line.coverage <= 0.97 + slack and line.lowest >= 0.88
        shown = "{:.3f} ± {:.3f}, lowest {:.2f}, before {:.3f}, named {:.2f}"
        values = (line.coverage, line.error, line.lowest, line.before, line.named)
        if line.kind.right and line.estimator != "essential":
            yield Claim.of(f"coverage: {what}", "0.93 to 0.97, lowest ≥ 0.88", holds, shown, *values)
            yield Claim.of(f"warnings: {what}", "< 0.05", line.warned < 0.05, "{:.3f}", line.warned)
        else:
            told = line.coverage >= 0.93 - slack or line.named >= 0.9
            yield Claim.of(f"covered or named: {what}", "≥ 0.93, or named ≥ 0.9", told, shown, *values)
        if line.kind.right:
            near = 0.93 <= line.band <= 0.97
            yield Claim.of(f"band: {what}", "0.93 to 0.97", near, "{:.3f}", line.band)


def table(found: Sequence[Line]) -> Table:
    heads = ("log", "estimator", "logs", "coverage", "lowest + 2 SE", "before", "band", "named", "warned")
    out = Table(*heads, title="Statements on simulated robots")
    for one in found:
        out.add_row(
            one.kind.name, one.estimator, str(one.logs), f"{one.coverage:.3f} ± {one.error:.3f}", f"{one.lowest:.2f}",
            f"{one.before:.3f}", f"{one.band:.3f}", f"{one.named:.2f}", f"{one.warned:.2f}",
        )  # fmt: skip
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--logs", type=int, nargs=2, metavar=("QUICKLY", "SLOWLY"), help="logs per robot and kind")
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    Console(width=160).print(table(list(lines(chosen.quick, chosen.processes, chosen.logs and tuple(chosen.logs)))))


if __name__ == "__main__":
    main()
