"""design_excitation: motions that show the parameters best, within limits that hold for all t."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from steelyard._arrays import Array, single_threaded
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
from steelyard.motion.bounds import MotionLimits, Reached, reached
from steelyard.motion.clearance import Clearance, proven_clearance
from steelyard.motion.obstacles import Surroundings
from steelyard.motion.trajectory import Trajectory
from steelyard.regression.information import Information
from steelyard.regression.problem import Problem
from steelyard.signals.recording import Progress

# How much finer than the design's samples the torques of the result are looked at, and the share of the torque limits
# that the design itself may use: what the torque does between its samples must fit into the rest.
FINER = 100
TORQUE_SHARE = 0.98
# The same for distances: what a design keeps beyond the margin at its samples [m].
SPARE = 0.005
# Motions drawn for every start of which the best is taken, and the share of the room that a drawn motion fills.
_DRAWN, _FILLED = 8, 0.7
_SHRINKINGS = 60
# Share of the room about the posture it is drawn about that a drawn motion leaves.
_ROOM = 0.1


@dataclass(frozen=True, eq=False)
class Design:
    """Designed motions, one for every load case asked for, and what they promise.

    value      the criterion of these motions sampled at `rate_hz`, with what was given; smaller is better
    forecast   σ of every parameter; the rows are the samples, and all of them
    limits     every limit beside what the motions reach, and every pair's least distance beside the margin; `proven`
               for all t but for torques
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
    given: Known | Information | Identification | None = None,
    theta: Array | None = None,
    surroundings: Surroundings | None = None,
    rate_hz: float = 50.0,
    seed: int = 0,
    starts: int = 8,
    iterations: int = 300,
    smooth: float = 0.05,
    progress: Progress | None = None,
    heard: Callable[[int, float], None] | None = None,
    check: Callable[[Sequence[Trajectory]], object] | None = None,
) -> Design:
    """The motion (or one for every entry of `loads`, designed together) of a duration [s] that is best by a criterion.

    noise        σ_j of the rows [N·m | N], one or one a joint; None takes that of `given`, or 1 % of the effort limits
    given        what observed logs or a result tell already (`known`): the design looks for what they lack
    theta        standard parameters (C,) for torque limits and relative targets; None takes the robot file's
    surroundings what to stay clear of, itself included, for all t
    rate_hz      rate of independent rows: that of the decimated rows of the identification to come
    starts       searches from as many random motions; the best result is kept. The same seed gives the same motion
    smooth       width of tanh(v / width) in the place of sign(v) during the search [rad/s | m/s]; the result is
                 scored with the model's own terms
    heard        hears of every step of a search: which one it is, from 0, and its objective
    check        refuses motions by a DataError: the best that it does not refuse are kept
    """
    criterion, family = criterion or DOptimal(), family or FourierFamily()
    # refuses loops and terms without a gradient before anything is computed
    RegressorGradient(model)
    if starts < 1 or iterations < 1:
        raise DataError(f"A design needs one start and one iteration or more, not {starts} and {iterations}.")
    cases = (UNLOADED, *(payload.name for payload in model.payloads))
    for load in loads:
        if load not in cases:
            raise DataError(choices("load case", load, cases))
    if not loads:
        raise DataError("A design needs one load case or more; that of a run without a payload is 'none'.")
    theta = model.layout.nominal if theta is None else np.asarray(theta, float)
    if theta is None and np.isfinite(limits.torque).any():
        raise DataError(
            f"Torque limits need nominal values, and the file of '{model.robot.name}' gives no inertias: pass theta, "
            "or leave the torque free (MotionLimits(…, torque=inf))."
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

        def told(_: Array, slope: Slope, k: int = k, trace: list[float] = trace) -> None:
            trace.append(slope.value)
            if heard is not None:
                heard(k, slope.value)

        x = minimise(plan.objective, plan.linear, start, iterations, told)
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
    history = (
        f"{len(loads)} motion(s) of {duration:g} s, family {family.name}, criterion {criterion.name}, seed {seed}",
        f"best of {starts} searches, by {criterion.name} " + ", ".join(f"{one[4]:.4f}" for one in found),
        *([f"the motions of {refused} better searches were refused"] if refused else []),
        said,
        *(() if clearance is None else (_clear_of(clearance),)),
        "from nothing known beforehand" if earlier is None else f"with what is known from {earlier.source}",
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
    """σ_j (n,) and where it is from."""
    if stated is not None:
        return stated, "σ of the rows as stated"
    if earlier is not None:
        silent = [
            name
            for name, s in zip(model.robot.axis_names, earlier.noise, strict=True)
            if not (np.isfinite(s) and s > 0.0)
        ]
        if silent:
            raise EstimationError(
                f"The earlier logs have no rows of {', '.join(silent)}, or were fitted exactly there: state the noise "
                "of all joints."
            )
        return earlier.noise, "σ of the rows as in the earlier logs"
    effort = np.array([joint.limits.effort for joint in model.robot.axes])
    if np.all(np.isfinite(effort)):
        return 0.01 * effort, "σ of the rows taken as 1 % of the effort limits"
    return np.ones(model.robot.dof), "σ of the rows taken as 1 N·m or N for want of effort limits: state the noise"


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
            f"No motion of family '{plan.family.name}' drawn within these limits shows all {len(plan.base)} base "
            f"parameters: {', '.join(unseen) or 'some of them hardly differ'}. Give more time, harmonics or points, "
            "or wider limits, or leave out the terms concerned."
        )
    return [one[2] for one in drawn[:starts]]


def _kept(
    plan: DesignObjective,
    exact: DesignObjective,
    still: Array,
    found: Sequence[tuple[float, Array]],
    check: Callable[[Sequence[Trajectory]], object] | None,
) -> tuple[Array, int]:
    """The best of what was found, by objective, once it is within the limits between the samples too and not refused;
    and how many were refused."""
    best, moved, wrong = np.inf, None, ""
    refusals: list[DataError] = []
    for objective, x in found:
        # shrinking makes no motion better, so the first that needs none ends the search
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
            f"Between the samples of the design {wrong}, however the motion is shrunk: sample faster than "
            f"{exact.rate_hz:g} Hz, or leave a wider margin."
        )
    return moved, len(refusals)


def _shrunk(exact: DesignObjective, still: Array, x: Array) -> tuple[Array | None, str]:
    """x, drawn towards standing still until its torques hold at `FINER` times the rate, and its distances for all t.

    It hardly ever moves. Where it cannot be done, what went wrong last.
    """
    wrong = ""
    for k in range(_SHRINKINGS):
        moved = still + 0.98**k * (x - still)
        wrong = _passed(exact, [exact.family.trajectory(own, exact.duration) for own in exact.numbers(moved)])
        if not wrong:
            return moved, ""
    return None, wrong


def _passed(exact: DesignObjective, trajectories: Sequence[Trajectory]) -> str:
    """Which limit motions pass between the samples; nothing where they pass none."""
    if exact.clearance is not None:
        for row in _distances(exact.clearance, trajectories):
            if row.beyond > 0.0:
                return f"{row.joint} come {row.beyond:.2g} m nearer than {row.limit:g} m"
    return "the torques pass their limits" if np.any(_peak(exact, trajectories) > exact.limits.torque) else ""


def _finest(exact: DesignObjective) -> Array:
    return sample_times(exact.duration, FINER * exact.rate_hz)


def _peak(exact: DesignObjective, trajectories: Sequence[Trajectory]) -> Array:
    """The largest |τ| (n,) of the nominal model at `FINER` times the rate; zero where no torque is limited."""
    if exact.theta is None or not np.isfinite(exact.limits.torque).any():
        return np.zeros_like(exact.limits.torque)
    t, theta = _finest(exact), exact.theta
    pairs = zip(trajectories, exact.loads, strict=True)
    return np.max([np.abs(exact.model.torque(*p.at(t), theta, load=load)).max(axis=1) for p, load in pairs], axis=0)


def _distances(clearance: Clearance, trajectories: Sequence[Trajectory]) -> list[Reached]:
    """Every pair; of several motions the one that brings it nearest."""
    return _worst([proven_clearance(path, clearance) for path in trajectories])


def _worst(every: Sequence[tuple[Reached, ...]]) -> list[Reached]:
    return [max(one, key=lambda row: row.beyond) for one in zip(*every, strict=True)]


def _limits_report(exact: DesignObjective, trajectories: Sequence[Trajectory]) -> tuple[Reached, ...]:
    """Every finite limit and every pair; of several motions the one that comes nearest to it."""
    limits, joints = exact.limits, exact.model.robot.axis_names
    rows = _worst([reached(path, limits, joints) for path in trajectories])
    peak, samples = _peak(exact, trajectories), len(_finest(exact))
    for i, joint in enumerate(joints):
        if np.isfinite(limits.torque[i]):
            rows.append(Reached(joint, "torque", float(peak[i]), float(limits.torque[i]), False, samples))
    return tuple(rows if exact.clearance is None else rows + _distances(exact.clearance, trajectories))


def _clear_of(clearance: Clearance) -> str:
    """What is kept apart and what is not."""
    left = f"; left out: {'; '.join(clearance.left_out)}" if clearance.left_out else ""
    pairs = "1 pair" if len(clearance) == 1 else f"{len(clearance)} pairs"
    return f"{pairs} kept {clearance.margin:g} m apart or more{left}"
