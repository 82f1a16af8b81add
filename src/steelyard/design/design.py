"""design_excitation: motions that determine the parameters best, within limits that hold for all t."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from steelyard._arrays import Array, single_threaded
from steelyard._notebook import Displayed
from steelyard.design.criteria import Criterion, DOptimal
from steelyard.design.families import Family, FourierFamily
from steelyard.design.feasibility import check_limits, check_loads, holding_posture
from steelyard.design.forecast import Forecast, checked_noise, forecast, forecast_of, planned, sample_times
from steelyard.design.gradients import RegressorGradient, smoothed
from steelyard.design.objective import DesignObjective
from steelyard.design.optimiser import STAGES, Slope, minimise
from steelyard.design.prior_knowledge import Known, known
from steelyard.errors import DataError, EstimationError, choices
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.model.terms import Motion
from steelyard.motion.bounds import LimitUse, MotionLimits, limit_use
from steelyard.motion.clearance import Clearance, proven_clearance
from steelyard.motion.obstacles import Surroundings
from steelyard.motion.trajectory import Trajectory
from steelyard.regression.information import Information
from steelyard.regression.problem import Problem
from steelyard.signals.recording import Progress

# Factor by which the torques of the result are sampled finer than in the design, and the fraction of the torque limits
# that the design may use: the rest is for the torque between its samples.
FINER = 100
TORQUE_SHARE = 0.98
# The same for distances: extra distance beyond the margin at the samples of a design [m].
SPARE = 0.005
# Number of random motions of which the best is a start, and the fraction of the range that they use.
_DRAWN, _FILLED = 8, 0.7
_SHRINKINGS = 60
# Fraction of the range around its central posture that a random motion leaves unused.
_ROOM = 0.1


@dataclass(frozen=True, eq=False)
class Design(Displayed):
    """Designed motions, one per load case, and their expected results.

    value      the criterion of these motions sampled at `rate_hz`, including `given`; smaller is better
    forecast   σ of every parameter, with all samples as rows
    limits     every limit with the value that the motions reach, and every pair's smallest distance with the margin;
               `proven` for all t except for torques
    trace      the objective after every step, start by start, the best start first
    """

    trajectories: tuple[Trajectory, ...]
    loads: tuple[str, ...]
    criterion: str
    value: float
    rate_hz: float
    forecast: Forecast
    limits: tuple[LimitUse, ...]
    trace: tuple[tuple[float, ...], ...]
    history: tuple[str, ...]

    @property
    def trajectory(self) -> Trajectory:
        """The motion of a design of one run."""
        if len(self.trajectories) != 1:
            raise DataError(f"This design has {len(self.trajectories)} motions: read them from `trajectories`.")
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
    given: Known | Information | Identification | None = None,
    theta: Array | None = None,
    surroundings: Surroundings | None = None,
    rate_hz: float = 50.0,
    seed: int = 0,
    starts: int = 8,
    iterations: int = 300,
    smooth: float = 0.05,
    progress: Progress | None = None,
    on_step: Callable[[int, float], None] | None = None,
    check: Callable[[Sequence[Trajectory]], object] | None = None,
) -> Design:
    """The motion (or one per entry of `loads`, designed together) of a duration [s] that is best by a criterion.

    noise        σ_j of the rows [N·m | N], one for all or one per joint; None takes that of `given`, or 1 % of the
                 effort limits
    given        information from observed logs or a result (`known`): the design adds what they lack
    theta        standard parameters (C,) for torque limits and relative targets; None takes the robot file's
    surroundings obstacles, and the robot itself, from which to keep a distance for all t
    rate_hz      rate of independent rows: that of the decimated rows of the later identification
    starts       number of searches from random motions; the best result is kept. The same seed gives the same motion
    smooth       width of tanh(v / width) that replaces sign(v) during the search [rad/s | m/s]; the result is
                 scored with the model's own terms
    on_step      called after every step of a search with its number, from 0, and its objective
    check        rejects motions by a DataError: the best that is not rejected is kept
    """
    criterion, family = criterion or DOptimal(), family or FourierFamily()
    # raises an error for loops and terms without a gradient before anything is computed
    RegressorGradient(model)
    if starts < 1 or iterations < 1:
        raise DataError(f"A design needs at least one start and one iteration, not {starts} and {iterations}.")
    cases = (UNLOADED, *(payload.name for payload in model.payloads))
    for load in loads:
        if load not in cases:
            raise DataError(choices("load case", load, cases))
    if not loads:
        raise DataError("A design needs at least one load case; the load case without a payload is 'none'.")
    theta = model.layout.nominal if theta is None else np.asarray(theta, float)
    if theta is None and np.isfinite(limits.torque).any():
        raise DataError(
            f"Torque limits need nominal values, and the file of '{model.robot.name}' gives no inertias: pass theta, "
            "or remove the torque limits (MotionLimits(…, torque=inf))."
        )
    check_loads(model, limits, theta, loads)
    base = base_parameters(model)
    check_limits(model, limits, duration, rate_hz, 0 if given is not None else len(base))
    stated = None if noise is None else checked_noise(noise, model.robot.dof)
    earlier = None if given is None else known(given, base, stated)
    sigma, said = _noise(model, stated, earlier)
    clearance = None if surroundings is None else Clearance.of(model.robot, surroundings)
    posture = holding_posture(model, limits, theta, loads, TORQUE_SHARE, seed, clearance, SPARE)
    plan = DesignObjective(
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
        given=None if earlier is None else earlier.information,
        clearance=clearance,
        spare=SPARE,
    )
    still = plan.scaled(np.broadcast_to(posture[:, None] * family.constant(), (len(loads), len(posture), family.size)))
    found = []
    for k, start in enumerate(_starts(plan, still, np.random.default_rng(seed), starts)):
        trace: list[float] = []

        def report(_: Array, slope: Slope, k: int = k, trace: list[float] = trace) -> None:
            trace.append(slope.value)
            if on_step is not None:
                on_step(k, slope.value)

        x = minimise(plan.objective, plan.linear, start, iterations, report)
        score = plan.score(plan.information(x))
        found.append((score.objective, k, x, tuple(trace), score.value))
        if progress is not None:
            progress("designing", k + 1, starts)
    found.sort(key=lambda one: one[:2])
    exact = replace(plan, model=model, limits=limits)
    x, refused = _kept(plan, exact, still, [(one[0], one[2]) for one in found], check)
    trajectories = tuple(family.trajectory(own, duration) for own in exact.numbers(x))
    runs = [
        planned(model, path, rate_hz, f"planned{k}", load)
        for k, (path, load) in enumerate(zip(trajectories, loads, strict=True), start=1)
    ]
    motions = f"{len(loads)} motion{'s' if len(loads) > 1 else ''}"
    searches = "1 search" if starts == 1 else f"best of {starts} searches"
    better = f"{refused} better search{'es' if refused > 1 else ''}"
    history = (
        f"{motions} of {duration:g} s, family {family.name}, criterion {criterion.name}, seed {seed}",
        f"{searches}, by {criterion.name} " + ", ".join(f"{one[4]:.4f}" for one in found),
        *([f"the motions of {better} were rejected"] if refused else []),
        said,
        *(() if clearance is None else (_clear_of(clearance),)),
        "without prior knowledge" if earlier is None else f"with prior knowledge from {earlier.source}",
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
        forecast(rows, sigma, earlier, base),
        _limits_report(exact, trajectories),
        tuple(one[3] for one in found),
        history,
    )


def _noise(model: Model, stated: Array | None, earlier: Known | None) -> tuple[Array, str]:
    """σ_j (n,) and its source."""
    if stated is not None:
        return stated, "σ of the rows as given"
    if earlier is not None:
        silent = [
            name
            for name, s in zip(model.robot.axis_names, earlier.noise, strict=True)
            if not (np.isfinite(s) and s > 0.0)
        ]
        if silent:
            raise EstimationError(
                f"The earlier logs have no rows of {', '.join(silent)}, or no residual there: give the noise of all "
                "joints."
            )
        return earlier.noise, "σ of the rows from the earlier logs"
    effort = np.array([joint.limits.effort for joint in model.robot.axes])
    if np.all(np.isfinite(effort)):
        return 0.01 * effort, "σ of the rows assumed to be 1 % of the effort limits"
    return np.ones(
        model.robot.dof
    ), "σ of the rows assumed to be 1 N·m or N, because effort limits are missing: give the noise"


def _starts(plan: DesignObjective, still: Array, rng: np.random.Generator, starts: int) -> list[Array]:
    """The best of random motions about a posture that the motors can hold, all strictly within the limits."""
    blocks = len(plan.linear.lower)
    enough, clear = max(0.95, 0.5 * (1.0 + plan.torque_share(still))), _ROOM * plan.room(still)
    drawn = []
    for _ in range(_DRAWN * starts):
        way = rng.standard_normal((blocks, plan.family.size))
        room = np.minimum(plan.linear.longest(still, way.ravel()), plan.linear.longest(still, -way.ravel()))
        way = (_FILLED * room[:, None] * way).ravel()
        for _ in range(_SHRINKINGS):
            if plan.room(still + way) > clear and plan.torque_share(still + way) < enough:
                break
            way = 0.8 * way
        drawn.append((plan.objective(still + way, STAGES[0]).value, len(drawn), still + way))
    drawn.sort(key=lambda one: one[:2])
    if not np.isfinite(drawn[0][0]):
        size, axes = np.linalg.eigh(plan.information(drawn[0][2]))
        root = np.sqrt(np.maximum(size, 0.0))[:, None] * axes.T
        unseen = forecast_of(root, plan.base, plan.noise, None).unseen
        raise EstimationError(
            f"No motion of family '{plan.family.name}' drawn within these limits excites all {len(plan.base)} base "
            f"parameters: {', '.join(unseen) or 'some of them can hardly be separated'}. Give more time, harmonics or "
            "points, or wider limits, or remove the terms concerned."
        )
    return [one[2] for one in drawn[:starts]]


def _kept(
    plan: DesignObjective,
    exact: DesignObjective,
    still: Array,
    found: Sequence[tuple[float, Array]],
    check: Callable[[Sequence[Trajectory]], object] | None,
) -> tuple[Array, int]:
    """The best result, by objective, after it was moved within the limits between the samples too and not rejected; and
    the number of rejected ones."""
    best, moved, wrong = np.inf, None, ""
    refusals: list[DataError] = []
    for objective, x in found:
        # shrinking never improves a motion, so the first that needs none ends the search
        if moved is not None and objective >= best:
            break
        shrunk, wrong = _shrunk(exact, still, x)
        if shrunk is None:
            continue
        value = plan.score(plan.information(shrunk)).objective
        if moved is not None and value >= best:
            continue
        if check is not None:
            try:
                check([exact.family.trajectory(own, exact.duration) for own in exact.numbers(shrunk)])
            except DataError as refusal:
                refusals.append(refusal)
                continue
        best, moved = value, shrunk
    if moved is None and refusals:
        raise refusals[0]
    if moved is None:
        raise EstimationError(
            f"Between the samples of the design {wrong}, even when the motion is scaled down: sample faster than "
            f"{exact.rate_hz:g} Hz, or use a larger margin."
        )
    return moved, len(refusals)


def _shrunk(exact: DesignObjective, still: Array, x: Array) -> tuple[Array | None, str]:
    """x, scaled towards standstill until its torques hold at `FINER` times the rate, and its distances for all t.

    Usually nothing has to change. If it fails, returns the last violation.
    """
    wrong = ""
    for k in range(_SHRINKINGS):
        moved = still + 0.98**k * (x - still)
        wrong = _passed(exact, [exact.family.trajectory(own, exact.duration) for own in exact.numbers(moved)])
        if not wrong:
            return moved, ""
    return None, wrong


def _passed(exact: DesignObjective, trajectories: Sequence[Trajectory]) -> str:
    """The limit that motions exceed between the samples; empty if none."""
    if exact.clearance is not None:
        for row in _distances(exact.clearance, trajectories):
            if row.beyond > 0.0:
                return f"{row.joint} are {row.beyond:.2g} m closer than {row.limit:g} m"
    return "the torques exceed their limits" if np.any(_peak(exact, trajectories) > exact.limits.torque) else ""


def _finest(exact: DesignObjective) -> Array:
    return sample_times(exact.duration, FINER * exact.rate_hz)


def _peak(exact: DesignObjective, trajectories: Sequence[Trajectory]) -> Array:
    """The largest |τ| (n,) of the nominal model at `FINER` times the rate; zero where no torque is limited."""
    if exact.theta is None or not np.isfinite(exact.limits.torque).any():
        return np.zeros_like(exact.limits.torque)
    t, theta = _finest(exact), exact.theta
    pairs = zip(trajectories, exact.loads, strict=True)
    return np.max([np.abs(exact.model.torque(*p.at(t), theta, load=load)).max(axis=1) for p, load in pairs], axis=0)


def _distances(clearance: Clearance, trajectories: Sequence[Trajectory]) -> list[LimitUse]:
    """Every pair; of several motions, the smallest distance."""
    return _worst([proven_clearance(path, clearance) for path in trajectories])


def _worst(every: Sequence[tuple[LimitUse, ...]]) -> list[LimitUse]:
    return [max(one, key=lambda row: row.beyond) for one in zip(*every, strict=True)]


def _limits_report(exact: DesignObjective, trajectories: Sequence[Trajectory]) -> tuple[LimitUse, ...]:
    """Every finite limit and every pair; of several motions, the one that comes closest to it."""
    limits, joints = exact.limits, exact.model.robot.axis_names
    rows = _worst([limit_use(path, limits, joints) for path in trajectories])
    peak, samples = _peak(exact, trajectories), len(_finest(exact))
    for i, joint in enumerate(joints):
        if np.isfinite(limits.torque[i]):
            rows.append(LimitUse(joint, "torque", float(peak[i]), float(limits.torque[i]), False, samples))
    return tuple(rows if exact.clearance is None else rows + _distances(exact.clearance, trajectories))


def _clear_of(clearance: Clearance) -> str:
    """A description of the checked and unchecked pairs."""
    left = f"; left out: {'; '.join(clearance.left_out)}" if clearance.left_out else ""
    pairs = "1 pair" if len(clearance) == 1 else f"{len(clearance)} pairs"
    return f"{pairs} kept at least {clearance.margin:g} m apart{left}"
