"""Evidence on designed motions, for `evidence/run.py`: predicted and identified σ, and the next motion to run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from steelyard import WLS, Model, Problem, Samples, base_parameters, identify, observe, read_project, read_robot
from steelyard._arrays import Array
from steelyard.design.criteria import ConditionNumber, DeviationTargets, deviation_scale
from steelyard.design.design import Design, design_excitation
from steelyard.design.families import FourierFamily
from steelyard.design.forecast import Forecast, forecast, forecast_of, planned, so_far
from steelyard.design.prior_knowledge import known
from steelyard.model.base_parameters import BaseParameters
from steelyard.model.terms import named_terms
from steelyard.motion.bounds import MotionLimits
from steelyard.motion.random import random_points
from steelyard.motion.trajectory import Trajectory, TrapezoidalAcceleration
from steelyard.project.papers.page.claims import Claim
from steelyard.regression.information import Information, stacked

PROJECTS = Path(__file__).resolve().parent.parent / "examples" / "real"
RATE_HZ, DURATION_S, NOISE = 50.0, 10.0, 0.5
RANDOM = 20


def claims(quick: bool) -> Iterator[Claim]:
    """What `evidence/run.py --only design` puts into its table."""
    yield from tx40_claims(quick)
    yield from come_true(quick)
    for case in CASES:
        if all((PROJECTS / log).is_file() for log in logs(case)):
            yield from what_next(case, quick)
        else:
            yield Claim.of(f"{case.project}: what next", "-", True, "skipped: no shared data")
    if (PROJECTS / "../../../shared/data/ur10e").is_dir():
        yield from carried_over()


# --- The TX-40 of the issue -------------------------------------------------------------------------------------------


@cache
def tx40() -> tuple[Model, MotionLimits, Design]:
    """Position, speed, acceleration and torque limits; 6 joints × 5 harmonics in 10 s."""
    robot = read_robot("tx40")
    model = Model(robot, named_terms(robot.terms or ()))
    limits = MotionLimits.of(robot, 10.0)
    return model, limits, design_excitation(model, limits, DURATION_S, noise=NOISE)


def random_motion(model: Model, limits: MotionLimits, rng: np.random.Generator) -> Trajectory:
    """Eleven random points as in P0, shrunk about the middle until the motion takes as long as the designed one."""
    middle, theta = 0.5 * (limits.lower + limits.upper)[:, None], model.layout.nominal
    assert theta is not None
    while True:
        points, low, high = random_points(model.robot, 11, rng), 1e-3, 1.0
        for _ in range(40):
            share = 0.5 * (low + high)
            motion = TrapezoidalAcceleration(middle + share * (points - middle), limits.velocity, limits.acceleration)
            low, high = (share, high) if motion.duration < DURATION_S else (low, share)
        motion = TrapezoidalAcceleration(middle + low * (points - middle), limits.velocity, limits.acceleration)
        if np.all(peak_torque(model, motion, 500.0) <= limits.torque):
            return motion


def peak_torque(model: Model, motion: Trajectory, rate_hz: float) -> Array:
    assert model.layout.nominal is not None
    t = np.arange(0.0, motion.duration, 1.0 / rate_hz)
    return np.abs(model.torque(*motion.at(t), model.layout.nominal)).max(axis=1)


def tx40_claims(quick: bool) -> Iterator[Claim]:
    model, limits, best = tx40()
    t = np.linspace(0.0, DURATION_S, int(100 * RATE_HZ * DURATION_S) + 1)
    q, v, a = best.trajectory.at(t)
    span = 0.5 * (limits.upper - limits.lower)
    used = max(
        float(np.max(np.abs(q - 0.5 * (limits.upper + limits.lower)[:, None]) / span[:, None])),
        float(np.max(np.abs(v) / limits.velocity[:, None])),
        float(np.max(np.abs(a) / limits.acceleration[:, None])),
        float(np.max(peak_torque(model, best.trajectory, 100 * RATE_HZ) / limits.torque)),
    )
    claim = "tx40, designed motion: largest share of a limit used, at 100 × finer sampling"
    yield Claim.of(claim, "<= 1", used <= 1.0 and best.holds, "{:.4f}", used)
    rng = [np.random.default_rng(seed) for seed in range(RANDOM)]
    told = [forecast(rows(model, planned(model, random_motion(model, limits, r), RATE_HZ)), NOISE) for r in rng]
    gain = float(np.median([one.geometric_mean for one in told])) / best.forecast.geometric_mean
    claim = f"tx40: mean σ of {len(best.forecast.base)} base parameters below the median of {RANDOM} random motions"
    yield Claim.of(claim, ">= 1.5 ×", gain >= 1.5, "{:.2f} ×", gain)
    conditioned = design_excitation(
        model, limits, DURATION_S, ConditionNumber(), noise=NOISE, starts=3 if quick else 8
    ).value
    random = min(one.condition_scaled for one in told)
    claim = f"tx40: column-scaled condition number, best of {RANDOM} random motions {random:.1f}"
    yield Claim.of(claim, "below", conditioned < random, "{:.1f}", conditioned)
    again = design_excitation(model, limits, DURATION_S, noise=NOISE)
    same = again.trace == best.trace and again.value == best.value
    yield Claim.of("tx40: the same seed twice", "same bits", same, "same" if same else "differs")


# --- Predicted σ ------------------------------------------------------------------------------------------------------


def rows(model: Model, *runs: Samples) -> Problem:
    """Every sample a row."""
    return Problem(model, runs, decimate=1, rest=0.0)


def come_true(quick: bool) -> Iterator[Claim]:
    """The designed motion simulated with white noise on the torques and identified, seed by seed."""
    model, _, best = tx40()
    theta = model.layout.nominal
    assert theta is not None
    q, v, a = best.trajectory.at(np.arange(int(DURATION_S * RATE_HZ) + 1) / RATE_HZ)
    tau = model.torque(q, v, a, theta)
    classical, robust = [], []
    for seed in range(6 if quick else 60):
        noisy = tau + NOISE * np.random.default_rng(seed).standard_normal(tau.shape)
        run = Samples.from_arrays("run", model.robot.axis_names, RATE_HZ, q, v, a, noisy)
        result = identify(rows(model, run), WLS())
        classical.append(result.std_classical / best.forecast.std)
        robust.append(result.std / best.forecast.std)
    ratio, bars = np.array(classical), np.array(robust)
    worst = float(np.max(np.abs(ratio - 1.0)))
    claim = f"tx40: identified over predicted σ, every parameter of each of {len(ratio)} simulated logs"
    yield Claim.of(claim, "within 15 %", worst <= 0.15, "{:.3f} to {:.3f}", ratio.min(), ratio.max())
    mean = np.sqrt(np.mean(bars**2, axis=0))
    claim = f"  the error bars by blocks left out (CR3), parameter by parameter over {len(bars)} logs"
    shown = "{:.2f} to {:.2f}, median {:.2f}; one {:.2f} to {:.2f}"
    figures = (mean.min(), mean.max(), np.median(mean), bars.min(), bars.max())
    yield Claim.of(claim, "told, not claimed", True, shown, *figures)


def carried_over() -> Iterator[Claim]:
    """Eleven free runs of the UR10e: σ of each, forecast with the noise of another run."""
    project = read_project(PROJECTS / "ur10e-free.toml")
    model = project.model()
    problem = project.problem(model, project.samples(model.robot, "identify"))
    base = base_parameters(model)
    every = [observe(problem.with_runs([run])) for run in problem.runs]
    told = [known(information, base) for information in every]
    found = [identify(problem.with_runs([r]), WLS(), i) for r, i in zip(problem.runs, every, strict=True)]
    ratio, plain = [], []
    for k, one in enumerate(told):
        for j, information in enumerate(every):
            if j != k:
                predicted = forecast_of(stacked(information, base.kept, 1.0 / one.noise)[:, :-1], base, one.noise, None)
                ratio.append(float(np.nanmedian(predicted.std / found[j].std)))
                plain.append(ratio[-1] / one.inflation)
    low, middle, high = np.quantile(ratio, [0.05, 0.5, 0.95])
    claim = f"ur10e, real runs: σ forecast with the noise of another run over that reported (CR3), {len(ratio)} pairs"
    shown = "{:.2f} (90 % of pairs {:.2f} to {:.2f}); without κ {:.2f}"
    yield Claim.of(claim, "median 0.7-1.4", 0.7 <= middle <= 1.4, shown, middle, low, high, np.median(plain))


# --- What next? -------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A project with a recorded run, the parameters of interest, and duration [s] and periods of the next motion.

    The next motion stays in the box of positions of the recorded runs, because the space beyond is not known to be
    free. `others` are runs used for this box only. Robot files give no accelerations: `acceleration` states them
    [rad/s²], with speeds and efforts of the robot file. The file of the KR300 gives no limits: with None, speeds,
    accelerations and efforts come from the recorded runs too.
    """

    project: str
    about: str
    seconds: float
    periods: int
    others: str = ""
    acceleration: float | None = None
    only: tuple[str, ...] = ()


CASES = (
    Case("kr300", "KR300 after run A, all parameters", 10.0, 1, others="validate"),
    Case("ur10e", "UR10e after a free run, joint 6", 30.0, 3, acceleration=5.0, only=("wrist_3_link", "wrist_3_joint")),
)


def logs(case: Case) -> list[str]:
    return [log for run in read_project(PROJECTS / f"{case.project}.toml").spec.run for log in run.logs]


def limits_of(case: Case, model: Model, runs: Sequence[Samples]) -> MotionLimits:
    """Recorded accelerations are those below which 99 % of the samples lie: the rest is noise of differentiation."""
    parts = []
    for run in runs:
        pieces = list(run.open())
        clean = slice(*run.stretches[0].clean)
        parts.append([np.concatenate([piece[k] for piece in pieces], axis=1)[:, clean] for k in (2, 3, 4, 5)])
    q, v, a, effort = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    if case.acceleration is not None:
        return replace(MotionLimits.of(model.robot, case.acceleration), lower=q.min(axis=1), upper=q.max(axis=1))
    return MotionLimits(
        q.min(axis=1),
        q.max(axis=1),
        np.abs(v).max(axis=1),
        np.quantile(np.abs(a), 0.99, axis=1),
        torque=np.abs(effort).max(axis=1),
    )


class Next(NamedTuple):
    """What is known, the design that follows, and what to compare σ with."""

    before: Forecast
    after: Forecast
    scale: Array
    chosen: tuple[str, ...]
    design: Design


def next_motion(case: Case, starts: int) -> Next:
    project = read_project(PROJECTS / f"{case.project}.toml")
    model = project.model()
    runs = project.samples(model.robot, "identify")
    problem = project.problem(model, runs)
    base, information = base_parameters(model), observe(problem)
    earlier = known(information, base)
    limits = limits_of(case, model, [*runs, *(project.samples(model.robot, case.others) if case.others else ())])
    scale = deviation_scale(model, base, limits, earlier.effort, base.theta(sizes(model, problem, information)))
    chosen = parameters(base, case)
    design = design_excitation(
        model,
        limits,
        case.seconds,
        DeviationTargets(absolute={n: float(scale[base.names.index(n)]) for n in chosen}, sharpness=8.0),
        FourierFamily(5, case.periods),
        given=earlier,
        rate_hz=runs[0].rate / problem.decimator(runs[0]).factor,
        starts=starts,
    )
    return Next(so_far(earlier, model.layout.nominal), design.forecast, scale, chosen, design)


def sizes(model: Model, problem: Problem, information: Information) -> Array:
    """Base values (b,) as far as they are known: estimates that are three σ or more from zero, else nominal ones."""
    result = identify(problem, WLS(), information)
    theta = model.layout.nominal
    nominal = np.zeros(len(result.base)) if theta is None else result.base.map @ theta
    return np.where(np.abs(result.value) >= 3.0 * result.std, result.value, nominal)


def parameters(base: BaseParameters, case: Case) -> tuple[str, ...]:
    return tuple(name for name in base.names if not case.only or name.split(".")[0] in case.only)


def what_next(case: Case, quick: bool) -> Iterator[Claim]:
    found = next_motion(case, 2 if quick else 8)
    claim = f"{case.about}: worst σ / scale, of {len(found.chosen)}, lowered by the next {case.seconds:g} s"
    yield lowered(claim, found, found.scale, found.chosen, found.design.holds)
    # plain shares of nominal values, where these are worth more than the floor of the scale
    value = np.abs(found.before.value)
    names = [n for n, v, s in zip(found.before.base.names, value, found.scale, strict=True) if v >= s]
    names = [name for name in names if name in found.chosen]
    if names:
        claim = f"  σ / |nominal| alone, {len(names)} parameters with a nominal value that matters"
        yield lowered(claim, found, value, names)


def lowered(claim: str, found: Next, scale: Array, names: Sequence[str], allowed: bool = True) -> Claim:
    """Worst σ / scale of the named parameters: before over after the next motion, if that one is allowed."""
    (worst, before), (left, after) = (told.worst(scale, names) for told in (found.before, found.after))
    gain, shown = before / after, "{:.1f} × ({} {:.3g} to {} {:.3g})"
    return Claim.of(claim, ">= 5 ×", gain >= 5.0 and allowed, shown, gain, worst, before, left, after)
