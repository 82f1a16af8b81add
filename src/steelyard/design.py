"""design_excitation: motions that show the parameters best, within limits that hold for all t."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from steelyard.base_parameters import BaseParameters, base_parameters
from steelyard.criteria import Criterion, DOptimal
from steelyard.design_checks import check_limits, holding_posture
from steelyard.errors import DataError, EstimationError, choices
from steelyard.families import Family, FourierFamily
from steelyard.forecast import Forecast, checked_noise, forecast, forecast_of, planned, row_noise, sample_times
from steelyard.gradients import RegressorGradient, smoothed
from steelyard.information import Information, stacked
from steelyard.interior import STAGES, Slope, minimise
from steelyard.limit_proofs import MotionLimits, Reached, reached
from steelyard.model import Model
from steelyard.parameters import Array
from steelyard.payload import UNLOADED
from steelyard.planning import Plan
from steelyard.problem import Problem
from steelyard.recording import Progress
from steelyard.terms import Motion
from steelyard.threads import single_threaded
from steelyard.trajectory import Trajectory

# How much finer than the design's samples the torques of the result are looked at, and the share of the torque limits
# that the design itself may use: what the torque does between its samples must fit into the rest.
FINER = 100
TORQUE_SHARE = 0.98
# Motions drawn for every start of which the best is taken, and the share of the room that a drawn motion fills.
_DRAWN, _FILLED = 8, 0.7
_SHRINKINGS = 60


@dataclass(frozen=True, eq=False)
class Design:
    """Designed motions, one for every load case asked for, and what they promise.

    value      the criterion of these motions sampled at `rate_hz`, with what was given; smaller is better
    forecast   σ of every parameter; the rows are the samples, and all of them
    limits     every limit beside what the motions reach; `proven` for all t but for torques
    trace      the objective after every step, start by start, the best start's first
    """

    trajectories: tuple[Trajectory, ...]
    loads: tuple[str, ...]
    criterion: str
    value: float
    rate_hz: float
    forecast: Forecast
    limits: tuple[Reached, ...]
    trace: tuple[tuple[float, ...], ...]
    history: tuple[str, ...]

    @property
    def trajectory(self) -> Trajectory:
        """The motion of a design of one run."""
        if len(self.trajectories) != 1:
            raise DataError(f"This design has {len(self.trajectories)} motions: take them from `trajectories`.")
        return self.trajectories[0]

    @property
    def holds(self) -> bool:
        """Whether every limit holds."""
        return all(row.beyond <= 0.0 for row in self.limits)


@single_threaded
def design_excitation(
    model: Model,
    limits: MotionLimits,
    duration: float,
    criterion: Criterion | None = None,
    family: Family | None = None,
    *,
    loads: Sequence[str] = (UNLOADED,),
    noise: Array | float | Sequence[float] | None = None,
    given: Information | None = None,
    theta: Array | None = None,
    rate_hz: float = 50.0,
    seed: int = 0,
    starts: int = 8,
    iterations: int = 300,
    smooth: float = 0.05,
    progress: Progress | None = None,
) -> Design:
    """The motion (or one for every entry of `loads`, designed together) of a duration [s] that is best by a criterion.

    noise        σ_j of the rows [N·m | N], one or one a joint; None takes that of `given`, or 1 % of the effort limits
    given        what earlier logs tell already: the design looks for what they lack
    theta        standard parameters (C,) for torque limits and relative targets; None takes the robot file's
    rate_hz      rate of independent rows: that of the decimated rows of the identification to come
    starts       searches from as many random motions; the best result is kept. The same seed gives the same motion
    smooth       width of tanh(v / width) in the place of sign(v) during the search [rad/s | m/s]; the result is
                 scored with the model's own terms
    """
    criterion, family = criterion or DOptimal(), family or FourierFamily()
    # refuses loops and terms without a gradient before anything is computed
    RegressorGradient(model)
    if starts < 1 or iterations < 1:
        raise DataError(f"A design needs one start and one iteration or more, not {starts} and {iterations}.")
    known = (UNLOADED, *(payload.name for payload in model.payloads))
    for load in loads:
        if load not in known:
            raise DataError(choices("load case", load, known))
    if not loads:
        raise DataError("A design needs one load case or more; that of a run without a payload is 'none'.")
    theta = model.layout.nominal if theta is None else np.asarray(theta, float)
    if theta is None and np.isfinite(limits.torque).any():
        raise DataError(
            f"Torque limits need nominal values, and the file of '{model.robot.name}' gives no inertias: pass theta, "
            "or leave the torque free (MotionLimits(…, torque=inf))."
        )
    base = base_parameters(model)
    check_limits(model, limits, duration, rate_hz, 0 if given is not None else len(base))
    sigma, said = _noise(model, base, noise, given)
    posture = holding_posture(model, limits, theta, loads, TORQUE_SHARE, seed)
    plan = Plan(
        model=smoothed(model, smooth),
        base=base,
        loads=tuple(loads),
        family=family,
        duration=duration,
        rate_hz=rate_hz,
        noise=sigma,
        limits=replace(limits, torque=TORQUE_SHARE * limits.torque),
        score=criterion.bound(base, theta),
        theta=theta,
        given=None if given is None else _square(model, given, base, sigma),
    )
    still = plan.scaled(np.broadcast_to(posture[:, None] * family.constant(), (len(loads), len(posture), family.size)))
    found = []
    for k, start in enumerate(_starts(plan, still, np.random.default_rng(seed), starts)):
        trace: list[float] = []

        def told(_: Array, slope: Slope, trace: list[float] = trace) -> None:
            trace.append(slope.value)

        x = minimise(plan.objective, plan.linear, start, iterations, told)
        found.append((plan.score(plan.information(x)).objective, k, x, tuple(trace)))
        if progress is not None:
            progress("designing", k + 1, starts)
    found.sort(key=lambda one: one[:2])
    exact = replace(plan, model=model, limits=limits)
    x = _within_torque(exact, still, found[0][2])
    trajectories = tuple(family.trajectory(own, duration) for own in exact.numbers(x))
    runs = [
        planned(model, path, rate_hz, f"planned{k}", load)
        for k, (path, load) in enumerate(zip(trajectories, loads, strict=True), start=1)
    ]
    history = (
        f"{len(loads)} motion(s) of {duration:g} s, family {family.name}, criterion {criterion.name}, seed {seed}",
        f"best of {starts} searches, objectives " + ", ".join(f"{one[0]:.4f}" for one in found),
        said,
        "with what earlier logs tell" if given is not None else "from nothing known beforehand",
    )
    rows = Problem(model, runs, decimate=1, rest=0.0)
    times = sample_times(duration, rate_hz)
    information = exact.information_of([Motion(*path.at(times)) for path in trajectories])
    return Design(
        trajectories,
        tuple(loads),
        criterion.name,
        plan.score(information).value,
        rate_hz,
        forecast(rows, sigma, given, base),
        _limits_report(model, limits, theta, trajectories, loads, rate_hz),
        tuple(one[3] for one in found),
        history,
    )


def _noise(
    model: Model, base: BaseParameters, noise: Array | float | Sequence[float] | None, given: Information | None
) -> tuple[Array, str]:
    """σ_j (n,) and where it is from."""
    if noise is not None:
        return checked_noise(noise, model.robot.dof), "σ of the rows as stated"
    if given is not None:
        found = row_noise(given, base)
        silent = [name for name, s in zip(given.joints, found, strict=True) if not np.isfinite(s)]
        if silent:
            raise EstimationError(
                f"The earlier logs have no rows of {', '.join(silent)}: state the noise of all joints."
            )
        return found, "σ of the rows of the earlier logs"
    effort = np.array([joint.limits.effort for joint in model.robot.axes])
    if np.all(np.isfinite(effort)):
        return 0.01 * effort, "σ of the rows taken as 1 % of the effort limits"
    return np.ones(model.robot.dof), "σ of the rows taken as 1 N·m or N for want of effort limits: state the noise"


def _square(model: Model, given: Information, base: BaseParameters, sigma: Array) -> Array:
    """F (b, b) of earlier logs."""
    if given.layout.names != model.layout.names:
        raise EstimationError("The information given is that of another model: observe the earlier logs with this one.")
    r = stacked(given, base.kept, 1.0 / sigma)[:, :-1]
    return r.T @ r


def _starts(plan: Plan, still: Array, rng: np.random.Generator, starts: int) -> list[Array]:
    """The best of random motions about a posture that the motors can hold, all strictly within the limits."""
    blocks = len(plan.linear.lower)
    enough = max(0.95, 0.5 * (1.0 + plan.torque_share(still)))
    drawn = []
    for _ in range(_DRAWN * starts):
        way = rng.standard_normal((blocks, plan.family.size))
        room = np.minimum(plan.linear.longest(still, way.ravel()), plan.linear.longest(still, -way.ravel()))
        way = (_FILLED * room[:, None] * way).ravel()
        for _ in range(_SHRINKINGS):
            if plan.torque_share(still + way) < enough:
                break
            way = 0.8 * way
        drawn.append((plan.objective(still + way, STAGES[0]).value, len(drawn), still + way))
    drawn.sort(key=lambda one: one[:2])
    if not np.isfinite(drawn[0][0]):
        size, axes = np.linalg.eigh(plan.information(drawn[0][2]))
        root = np.sqrt(np.maximum(size, 0.0))[:, None] * axes.T
        unseen = forecast_of(root, plan.base, plan.noise, None).unseen
        raise EstimationError(
            f"No motion of family '{plan.family.name}' drawn within these limits shows all {len(plan.base)} base "
            f"parameters: {', '.join(unseen) or 'some of them hardly differ'}. Give more time, harmonics or points, "
            "or wider limits, or leave out the terms concerned."
        )
    return [one[2] for one in drawn[:starts]]


def _within_torque(exact: Plan, still: Array, x: Array) -> Array:
    """x, drawn towards standing still until the torques hold at `FINER` times the rate; it hardly ever moves."""
    if exact.theta is None or not np.isfinite(exact.limits.torque).any():
        return x
    t = sample_times(exact.duration, FINER * exact.rate_hz)
    for k in range(_SHRINKINGS):
        moved = still + 0.98**k * (x - still)
        paths = [exact.family.trajectory(own, exact.duration) for own in exact.numbers(moved)]
        pairs = zip(paths, exact.loads, strict=True)
        if all(np.all(_peak(exact.model, exact.theta, path, load, t) <= exact.limits.torque) for path, load in pairs):
            return moved
    raise EstimationError(
        "Between the samples of the design the torques pass their limits however the motion is shrunk: sample faster "
        f"than {exact.rate_hz:g} Hz, or leave a wider margin."
    )


def _peak(model: Model, theta: Array, path: Trajectory, load: str, t: Array) -> Array:
    """The largest |τ| (n,) of the nominal model at the times t."""
    return np.abs(model.torque(*path.at(t), theta, load=load)).max(axis=1)


def _limits_report(
    model: Model,
    limits: MotionLimits,
    theta: Array | None,
    trajectories: Sequence[Trajectory],
    loads: Sequence[str],
    rate_hz: float,
) -> tuple[Reached, ...]:
    """Every finite limit; of several motions the one that comes nearest to it."""
    every = [reached(path, limits, model.robot.axis_names) for path in trajectories]
    rows = [max(one, key=lambda row: row.beyond) for one in zip(*every, strict=True)]
    if theta is None:
        return tuple(rows)
    t = sample_times(trajectories[0].duration, FINER * rate_hz)
    peak = np.max([_peak(model, theta, p, load, t) for p, load in zip(trajectories, loads, strict=True)], axis=0)
    for i, joint in enumerate(model.robot.axis_names):
        if np.isfinite(limits.torque[i]):
            rows.append(Reached(joint, "torque", float(peak[i]), float(limits.torque[i]), proven=False, samples=len(t)))
    return tuple(rows)
