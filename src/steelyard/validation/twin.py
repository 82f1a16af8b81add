"""Twin: the whole estimation repeated on simulated runs with known truth, to check its error bars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.stats import binom
from scipy.stats import t as student

from steelyard._arrays import Array, single_threaded
from steelyard.errors import EstimationError, ModelError, SimulationError
from steelyard.estimators import Estimator, named_estimator
from steelyard.estimators.estimator import SIMULATION, needs
from steelyard.estimators.simulated.base import driven_again
from steelyard.findings import Finding
from steelyard.identification.identify import identify
from steelyard.identification.prediction import as_identified
from steelyard.identification.result import Identification
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Piece, Samples
from steelyard.simulation.experiment import with_runs
from steelyard.validation.twin_noise import (
    OCTAVES,
    Residuals,
    absorption,
    late,
    noise_like,
    residuals,
    torque_of,
    whole_stretches,
)

RUNS = 20
FEWEST_RUNS = 5
# Number of pilot twins that measure how much of the noise a fit absorbs.
PILOTS = 5
LEVEL = 0.95
# A change is detectable when a test at this level finds it with this power.
SIGNIFICANCE, POWER = 0.05, 0.8
_MEASURED = "the measured motion, tracked exactly"
_DRIVEN = "the runs simulated with their references and the stated controller"


@dataclass(frozen=True)
class TwinParameter:
    """One parameter over all twins, in its unit.

    bias         mean of the estimates − truth, `bias_error` its standard error
    spread       standard deviation of the estimates: the true one; `reported`: root mean square of the reported ones
    coverage     fraction of the 95 % intervals that contain the truth, of the `counted` twins that gave one
    detectable   smallest change between two such experiments that a test at 5 % finds in 80 % of cases
    is_biased    bias larger than the spread, and significant (Student's t at 5 %, corrected for the number of tests)
    """

    name: str
    unit: str
    truth: float
    bias: float
    bias_error: float
    spread: float
    reported: float
    coverage: float
    counted: int
    detectable: float
    is_biased: bool


@dataclass(frozen=True)
class Twin:
    """Results of simulated experiments like the real one.

    `relative_error` is that of the fit, `twin_relative_error` the twins' mean: equal if their noise is like the
    residual. `motion` says what moved the twins; `failed` twins gave no estimate.
    """

    robot: str
    estimator: str
    runs: int
    seed: int
    motion: str
    parameters: tuple[TwinParameter, ...]
    relative_error: float
    twin_relative_error: float
    failed: int = 0
    findings: tuple[Finding, ...] = ()

    @property
    def coverage(self) -> float:
        """Fraction of all intervals that contain the truth."""
        counted = sum(one.counted for one in self.parameters)
        return sum(one.coverage * one.counted for one in self.parameters if one.counted) / max(counted, 1)

    @property
    def sigma_ratio(self) -> float:
        """Median ratio of true spread to reported σ."""
        ratios = [one.spread / one.reported for one in self.parameters if one.reported > 0.0]
        return float(np.median(ratios)) if ratios else float("nan")

    @property
    def verdict(self) -> str:
        """The result as one sentence, valid for the simulated noise."""
        biased = sum(one.is_biased for one in self.parameters)
        return (
            f"In {self.runs - self.failed} simulated experiments like this one {self.coverage:.1%} of the 95 % "
            f"intervals contained the truth, the spread of the estimates was {self.sigma_ratio:.2f} σ, and {biased} of "
            f"{len(self.parameters)} parameters were biased by more than that spread."
        )


@single_threaded
def twin(
    result: Identification,
    problem: Problem,
    estimator: Estimator | None = None,
    runs: int = RUNS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Twin:
    """Identify simulated runs of the robot that the result describes, `runs` times with different noise.

    The problem is that of the result, on its own runs. Each twin moves as the runs did, or as the problem's experiment
    drives it. Its efforts are those of the result's parameters (delayed by `delay`) plus noise with the spectrum and
    the correlation between joints of the fit's residual, scaled by pilot runs such that a fit leaves the same residual
    in every octave of frequency.
    Its positions have the log's noise and rounding. Filters, derivatives, decimation, mask and estimator are the fit's.
    """
    if result.base.layout.names != problem.model.layout.names:
        raise ModelError("The result and the problem have different columns: use the same robot and terms.")
    if runs < FEWEST_RUNS:
        raise EstimationError(f"A twin needs at least {FEWEST_RUNS} runs to estimate the spread, not {runs}.")
    estimator = estimator or named_estimator(result.estimator, result.estimator_options)
    truth = as_identified(problem, result)
    theta = np.nan_to_num(result.theta)
    wanted = residuals(truth, theta)
    motions, moved_by = _motions(truth, theta, needs(estimator, SIMULATION), progress)
    fitted = problem.with_runs(problem.runs)
    rng = np.random.default_rng(seed)
    factor = np.ones((problem.model.robot.dof, OCTAVES))

    def simulated() -> Problem:
        noisy = [_noisy(truth, run, motions[run.name], wanted[run.name], factor, rng) for run in problem.runs]
        again = replace(fitted, runs=noisy)
        if again.experiment is not None:
            again = replace(again, experiment=with_runs(again.experiment, noisy))
        return again

    left: list[Residuals] = []
    found: list[Identification] = []
    lost: list[str] = []
    for k in range(-PILOTS, runs):
        again = simulated()
        try:
            one = identify(again, estimator)
            if k >= 0:
                found.append(one)
            else:
                left.append(residuals(as_identified(again, one), np.nan_to_num(one.theta)))
        except (EstimationError, SimulationError) as error:
            lost += [str(error)] if k >= 0 else []
        if k == -1 and left:
            factor = absorption(problem, wanted, left)
        if progress is not None:
            progress("identifying twins", k + 1 + PILOTS, runs + PILOTS)
    if len(found) < FEWEST_RUNS:
        raise EstimationError(f"{len(lost)} of {runs} twins gave no estimate; the last error: {lost[-1]}")
    made = Twin(
        result.robot,
        estimator.name,
        runs,
        seed,
        moved_by,
        tuple(_parameters(result, found)),
        result.relative_error.total,
        float(np.mean([one.relative_error.total for one in found])),
        len(lost),
    )
    return replace(made, findings=tuple(_findings(made, found, lost)))


# --- Simulated runs ---------------------------------------------------------------------------------------------------


class _Motion(NamedTuple):
    """The truth of a stretch, (n, N) each: motion and joint torque; and the motion (9, N) of a floating base."""

    q: Array
    v: Array
    a: Array
    torque: Array
    base: Array | None = None


def _motions(
    problem: Problem, theta: Array, must_be_driven: bool, progress: Progress | None
) -> tuple[dict[str, list[_Motion]], str]:
    """True motion and torque of every run's stretches, and what moved the runs."""
    if problem.experiment is not None:
        try:
            driven = driven_again(problem, theta, progress)
            return {name: [_Motion(*piece[2:6]) for piece in run.open()] for name, run in driven.items()}, _DRIVEN
        except SimulationError:
            if must_be_driven:
                raise
    made = {
        run.name: [_Motion(p.q, p.v, p.a, torque_of(problem, run, p, theta), p.base) for p in whole_stretches(run)]
        for run in problem.runs
    }
    return made, _MEASURED


def _noisy(
    problem: Problem,
    run: Samples,
    motions: list[_Motion],
    wanted: Sequence[Array],
    factor: Array,
    rng: np.random.Generator,
) -> Samples:
    """The run as it would be logged and prepared again, with noise like the residuals `wanted`, times `factor`."""
    # stated efforts are torques divided by the identified factor
    stated = replace(problem, factor=tuple(1.0 / f for f in problem.factor))
    pieces = []
    for k, (motion, rest) in enumerate(zip(motions, wanted, strict=True)):
        effort = stated.torque(late(problem, run, motion.torque, -1.0) + noise_like(rest, rng, run.rate, factor))
        q, v, a = motion[:3]
        if run.derive is not None:
            logged = v + run.velocity_noise[:, None] * rng.standard_normal(v.shape) if len(run.velocity_noise) else None
            q, v, a = run.derive(_encoded(run, q, rng), logged)
        pieces.append(Piece(k, 0, *(np.ascontiguousarray(x) for x in (q, v, a, effort)), base=motion.base))
    return replace(run, open=lambda: iter(pieces))


def _encoded(run: Samples, q: Array, rng: np.random.Generator) -> Array:
    """Positions with the log's white noise, rounded as the log is."""
    if not len(run.position_noise):
        return q
    step = run.position_step if len(run.position_step) else np.zeros(len(q))
    white = np.sqrt(np.maximum(run.position_noise**2 - step**2 / 12.0, 0.0))
    q = q + white[:, None] * rng.standard_normal(q.shape)
    size = np.where(step > 0.0, step, 1.0)[:, None]
    return np.where(step[:, None] > 0.0, np.round(q / size) * size, q)


# --- Results ----------------------------------------------------------------------------------------------------------


def _quantities(result: Identification) -> tuple[Array, Array]:
    """Values and standard deviations: base parameters, then drive gains."""
    if result.gains is None:
        return result.value, result.std
    return np.append(result.value, result.gains.value), np.append(result.std, result.gains.std)


def _parameters(result: Identification, found: list[Identification]) -> Iterator[TwinParameter]:
    names, units = list(result.base.names), list(result.base.units)
    if result.gains is not None:
        names += [f"{joint}.gain" for joint in result.gains.joints]
        units += list(result.gains.units)
    truth, _ = _quantities(result)
    value, std = (np.array(x) for x in zip(*map(_quantities, found), strict=True))
    # a parameter that a twin cancelled was not estimated
    gone = np.array([[name in one.cancelled for name in names] for one in found])
    value, std = np.where(gone, np.nan, value), np.where(gone, np.nan, std)
    freedom = np.array([one.clusters - 1 if one.clusters else np.inf for one in found])
    half = student.ppf(0.5 + 0.5 * LEVEL, freedom)[:, None] * std
    factor = student.ppf(1.0 - 0.5 * SIGNIFICANCE, len(found) - 1) + student.ppf(POWER, len(found) - 1)
    for k, name in enumerate(names):
        if name in result.cancelled or not np.isfinite(truth[k]):
            continue
        given = np.isfinite(value[:, k])
        usable = given & (std[:, k] > 0.0)
        if given.sum() < FEWEST_RUNS:
            continue
        count = int(given.sum())
        spread, bias = float(np.std(value[given, k], ddof=1)), float(np.mean(value[given, k]) - truth[k])
        by_chance = float(student.ppf(1.0 - 0.5 * SIGNIFICANCE / len(names), count - 1)) * spread / np.sqrt(count)
        yield TwinParameter(
            name,
            units[k],
            float(truth[k]),
            bias,
            spread / np.sqrt(count),
            spread,
            float(np.sqrt(np.mean(std[usable, k] ** 2))) if usable.any() else float("nan"),
            float(np.mean(np.abs(value[usable, k] - truth[k]) <= half[usable, k])) if usable.any() else float("nan"),
            int(usable.sum()),
            float(np.sqrt(2.0) * factor * spread),
            bool(abs(bias) > max(spread, by_chance)),
        )


def _findings(made: Twin, found: list[Identification], lost: list[str]) -> Iterator[Finding]:
    tested = max(len(made.parameters), 1)
    narrow = [
        f"{one.name} ({one.coverage:.0%})"
        for one in made.parameters
        if one.counted and binom.cdf(round(one.coverage * one.counted), one.counted, LEVEL) < SIGNIFICANCE / tested
    ]
    if narrow or made.coverage < 0.9:
        listed = f": least {', '.join(narrow)}" if narrow else ""
        yield Finding(
            "poor-coverage",
            "warning",
            f"{made.coverage:.0%} of the 95 % intervals contain the truth{listed}",
            fix="use the spread as σ, record longer, or use an estimator that is unbiased for this noise",
        )
    biased = [
        f"{one.name} by {one.bias / one.spread:+.1f} spreads" if one.spread else f"{one.name} by {one.bias:.3g}"
        for one in made.parameters
        if one.is_biased
    ]
    if biased:
        yield Finding(
            "biased-estimate",
            "warning",
            f"parameters biased by more than their spread: {', '.join(biased)}",
            fix="compare estimators; check the cut-offs: too low distorts fast motion, too high passes position noise",
        )
    unsettled = sum(any(one.code == "not-converged" for one in each.findings) for each in found)
    if unsettled:
        yield Finding("not-converged", "warning", f"{unsettled} of {len(found)} twins did not converge")
    if lost:
        yield Finding("twins-failed", "warning", f"{len(lost)} of {made.runs} twins gave no estimate: {lost[-1]}")
    if not 0.5 < made.twin_relative_error / max(made.relative_error, 1e-300) < 2.0:
        yield Finding(
            "noise-mismatch",
            "warning",
            f"the relative error of the twins is {made.twin_relative_error:.2%}, that of the fit "
            f"{made.relative_error:.2%}: their noise does not resemble the residual",
            fix="the residual may not be noise: look at it in the report",
        )
