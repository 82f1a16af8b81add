"""The adaptive experiment (P1 §V): a robot under computed torque control with the estimate, which the control errors
improve.

    u = C(q, q̇, P̂) + D(q, P̂) q̈*,   q̈* = q̈_pr − α (q̇ − q̇_pr) − β (q − q_pr)        (21), (15)
    η = q̈ − q̈*                                                                    (20)

With W the rows of the torque at the measured acceleration and Ψ those at q̈*,  D(q, P) η = Ψ (P̂ − P)  and D(q, P̂) η =
W (P̂ − P) = W P̂ − u: the acceleration error gives the error of the estimate. P̂ are base parameters, because motion
determines no others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.errors import EstimationError, ModelError, SimulationError
from steelyard.estimators.gradient.stopping import Proximity, Stop, StoppingRule, StoppingVerdict
from steelyard.estimators.gradient.update_rules import Normalised, ParameterBounds, Seen, UpdateRule
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters, base_parameters, independent_columns
from steelyard.model.model import Model
from steelyard.model.terms import PAST, Motion
from steelyard.motion.trajectory import Trajectory
from steelyard.regression.information import triangular
from steelyard.simulation.closed_loop import Loop, Revision, simulate
from steelyard.simulation.controllers import ComputedTorque
from steelyard.simulation.plant import Plant

# P̂ has diverged when it grows beyond this many times the size of its start.
FAR = 1e6
# A column closer than this (sine of the angle) to the span of the others is not excited by the programs.
DEPENDENT = 1e-6
# Coordinates with a higher condition number cannot be inverted.
MOST_SKEW = 1e12


@dataclass(frozen=True)
class AdaptiveControl:
    """The loop: α [1/s] and β [1/s²] of (15), and the rate of the controller.

    The last of every `every` samples is an iteration; the controller uses the new estimate from the next sample on.
    """

    alpha: float = 20.0
    beta: float = 100.0
    rate_hz: float = 500.0
    every: int = 40

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "rate_hz"):
            if not 0.0 < getattr(self, name) < np.inf:
                raise EstimationError(
                    f"Option `{name}` of AdaptiveControl must be positive, not {getattr(self, name)!r}."
                )
        if self.every < 1:
            raise EstimationError(
                f"Option `every` of AdaptiveControl must be a whole number of at least 1, not {self.every!r}."
            )


@dataclass(frozen=True, eq=False)
class Measurement:
    """Disturbance and noise between the robot and the estimate.

    disturbance          v(t) of (11): torques (n, N) [N·m | N] at times (N,) [s] since the experiment's start
    acceleration_noise   standard deviation of the measured q̈ [rad/s² | m/s²]
    rng                  random generator of the noise
    """

    disturbance: Callable[[Array], Array] | None = None
    acceleration_noise: float = 0.0
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))


EXACT = Measurement()


@dataclass(frozen=True, eq=False)
class Adaptation:
    """The history of an estimate, iteration by iteration.

    theta (L + 1, b): the start, then P̂ after each iteration; t (L,) [s] since the start; eta (L, n): η of (20); rows
    (L): input of each iteration; motion (L,): the motion it belongs to; verdicts of the finished motions. `stopped`
    gives the reason for the end, `enough` is true if that was the stopping rule, `diverged` is true if P̂ diverged.
    """

    base: BaseParameters
    theta: Array
    t: Array
    eta: Array
    rows: tuple[Seen, ...]
    motion: NDArray[np.int64]
    verdicts: tuple[StoppingVerdict, ...]
    stopped: str
    enough: bool
    diverged: bool

    def __len__(self) -> int:
        """Number of iterations."""
        return len(self.t)

    @property
    def value(self) -> Array:
        """The last estimate (b,)."""
        return self.theta[-1]

    def error(self, truth: Array) -> Array:
        """‖P̂ − P‖ / ‖P‖ at the start and after each iteration, (L + 1,)."""
        return np.linalg.norm(self.theta - truth, axis=1) / np.linalg.norm(truth)

    def excitation(self) -> Array:
        """Smallest eigenvalue of Σ WᵀW over the iterations so far, (L,): zero until all parameters are excited."""
        total, out = Proximity.empty(self.theta.shape[1]), np.empty(len(self))
        for k, seen in enumerate(self.rows):
            total = total.add(seen)
            out[k] = total.excitation()
        return out

    def findings(self) -> tuple[Finding, ...]:
        """The reason for the end, as findings for a report."""
        if self.diverged:
            fix = "start closer to the truth, bound the parameters (Box), use Normalised, or set its floor"
            return (Finding("diverged", "error", f"the recursive estimate diverged: {self.stopped}", fix=fix),)
        told = f"after {len(self)} iterations: {self.stopped}"
        if self.enough:
            return (Finding("iterations", "info", told),)
        return (
            Finding("not-converged", "warning", told, fix="continue with other motions, or improve the excitation"),
        )


def adaptive_experiment(
    plant: Plant,
    motions: Sequence[Trajectory],
    start: Array,
    rule: UpdateRule | None = None,
    stop: Stop | None = None,
    control: AdaptiveControl | None = None,
    measured: Measurement = EXACT,
    box: ParameterBounds | None = None,
    coordinates: Array | None = None,
) -> Adaptation:
    """Drive a plant through program motions with the control (21) and improve the estimate during the motion.

    Every motion begins on its program; the estimate is carried over from one to the next. P̂ are the base parameters of
    the plant's model, or P̂ = T χ_b with `coordinates` T (b, b), because the speed of a gradient method depends on the
    choice of coordinates. `start` (b,) is the first P̂. The default rule is `Normalised()`, the default end a
    `StoppingRule()`. A loop that diverges ends the experiment, which reports this and returns the iterations so far.
    """
    base = base_parameters(plant.model)
    theta = np.array(start, float)
    if theta.shape != (len(base),) or not np.all(np.isfinite(theta)):
        raise EstimationError(
            f"start must be {len(base)} finite values, one for each of {', '.join(base.names)}, not {start!r}."
        )
    turned = np.eye(len(base)) if coordinates is None else np.array(coordinates, float)
    if turned.shape != (len(base), len(base)) or not np.linalg.cond(turned) < MOST_SKEW:
        raise EstimationError(f"coordinates must be an invertible ({len(base)}, {len(base)}) matrix T, P = T χ_b.")
    if not motions:
        raise EstimationError("An adaptive experiment needs at least one program motion.")
    back = np.asarray(np.linalg.inv(turned), float)
    learner = _Learner(plant, base, back, rule or Normalised(), stop or StoppingRule(), control or AdaptiveControl())
    return learner.through(motions, theta, measured, box)


def program_coordinates(plant: Plant, motions: Sequence[Trajectory], control: AdaptiveControl | None = None) -> Array:
    """T (b, b), P = T χ_b, in which the rows of the programs are orthonormal: TᵀT = mean of WᵀW over all iterations.

    In physical units one parameter may be excited a thousand times less than another, and gradients then take a million
    times longer for it. In these coordinates all are equally excited, for any robot and units.
    """
    base, control = base_parameters(plant.model), control or AdaptiveControl()
    parts = []
    for motion in motions:
        t = np.arange(control.every - 1, motion.duration * control.rate_hz, control.every) / control.rate_hz
        rows = plant.model.regressor(*motion.at(t), load=plant.load)[:, list(base.kept)]
        parts.append(rows.transpose(0, 2, 1).reshape(-1, len(base)) / np.sqrt(t.size * len(motions)))
    stacked = np.concatenate(parts)
    if len(independent_columns(stacked, DEPENDENT).kept) < len(base):
        raise EstimationError(
            f"{len(motions)} program motions do not excite all of {', '.join(base.names)}: add other motions."
        )
    return triangular(stacked)


@dataclass(eq=False)
class _Learner:
    """State of a running experiment; used inside `adaptive_experiment` only."""

    plant: Plant
    base: BaseParameters
    back: Array
    rule: UpdateRule
    stop: Stop
    control: AdaptiveControl

    def through(
        self, motions: Sequence[Trajectory], theta: Array, measured: Measurement, box: ParameterBounds | None
    ) -> Adaptation:
        self.path, self.times, self.seen, self.of = [theta], list[float](), list[Seen](), list[int]()
        self.measured, self.box, self.frozen = measured, box, False
        far = FAR * max(float(np.linalg.norm(theta)), 1.0)
        verdicts: list[StoppingVerdict] = []
        stopped, enough, diverged, begin = f"all {len(motions)} motions were completed", False, False, 0.0
        for k, program in enumerate(motions):
            before, first = self.path[-1], len(self.seen)
            try:
                self._drive(k, program, begin, far)
            except (SimulationError, ModelError, _LostError) as error:
                stopped, diverged = f"in motion {k + 1}, iteration {len(self.seen) + 1}: {error}", True
                break
            begin += program.duration
            motion = Proximity.empty(len(theta))
            for seen in self.seen[first:]:
                motion = motion.add(seen)
            verdicts.append(self.stop.after_motion(self.path[-1], before, motion))
            if self.frozen or verdicts[-1].stops:
                told = f"PRX = 0 at iteration {len(self.seen)}" if self.frozen else str(verdicts[-1])
                stopped, enough = f"stopping rule met in motion {k + 1} ({told})", True
                break
        else:
            stopped += f", last verdict: {verdicts[-1]}"
        eta = [seen.eta for seen in self.seen if seen.eta is not None]
        return Adaptation(
            self.base,
            np.array(self.path),
            np.array(self.times),
            np.array(eta).reshape(-1, self.plant.robot.dof),
            tuple(self.seen),
            np.array(self.of, np.int64),
            tuple(verdicts),
            stopped,
            enough,
            diverged,
        )

    def _drive(self, number: int, program: Trajectory, begin: float, far: float) -> None:
        control, dof = self.control, self.plant.robot.dof
        rate, every = control.rate_hz, control.every
        t = np.arange(int(np.floor(program.duration * rate * (1.0 + 1e-12))) + 1) / rate
        wanted = program.at(t)
        shove = None if self.measured.disturbance is None else self.measured.disturbance(begin + t)
        past: dict[str, Any] = {}
        done = 0

        def revised(q: Array, v: Array, a: Array, tau: Array) -> Plant:
            nonlocal done
            done += every
            now = done - 1
            q_pr, v_pr, a_pr = (x[:, now] for x in wanted)
            asked = a_pr - control.alpha * (v[:, -1] - v_pr) - control.beta * (q[:, -1] - q_pr)
            if self.measured.acceleration_noise > 0.0:
                a = a + self.measured.acceleration_noise * self.measured.rng.standard_normal(a.shape)
            if self.frozen:
                return self._controller_model()
            theta = self.path[-1]
            seen = self._seen(theta, q, v, a, tau[:, -1], asked, past)
            if self.stop.at_sample(theta, seen):
                self.frozen = True
                return self._controller_model()
            theta = self.rule.step(theta, seen)
            if self.box is not None:
                theta = self.box.project(theta)
            if not np.linalg.norm(theta) < far:
                raise _LostError(f"the step of rule '{self.rule.name}' is unbounded.")
            self.path.append(theta)
            self.seen.append(seen)
            self.times.append(begin + now / rate)
            self.of.append(number)
            return self._controller_model()

        controller = ComputedTorque(self._controller_model(), np.full(dof, control.beta), np.full(dof, control.alpha))
        loop = Loop(velocity="true", disturbance=shove)
        simulate(self.plant, controller, program, rate, loop, revision=Revision(every, revised))

    def _controller_model(self) -> Plant:
        return Plant(self.plant.model, self._standard(self.path[-1]), self.plant.load)

    def _standard(self, theta: Array) -> Array:
        """Standard parameters (C,) with the base values of the estimate."""
        return self.base.theta(self.back @ theta)

    def _seen(self, theta: Array, q: Array, v: Array, a: Array, tau: Array, asked: Array, past: dict[str, Any]) -> Seen:
        """The last of consecutive samples, and the torque minus that of the known parameters."""
        model, load = self.plant.model, self.plant.load
        wished = np.column_stack([a[:, :-1], asked])
        psi = _last_rows(model, q, v, wished, load, deepcopy(past))
        w = _last_rows(model, q, v, a, load, past)
        to_rows, here = np.eye(len(model.layout))[:, list(self.base.kept)] @ self.back, q[:, -1:]
        assumed = model.bearing(self._standard(theta), load)
        least, least_true = (
            float(np.linalg.eigvalsh(model.mass_matrix(here, x)[:, :, 0])[0])
            for x in (assumed, model.bearing(self.plant.theta, load))
        )
        known = w @ model.layout.known
        eta = a[:, -1] - asked
        return Seen(w @ to_rows, tau - known, psi @ to_rows, eta, least, least_true)


def _last_rows(model: Model, q: Array, v: Array, a: Array, load: str, past: dict[str, Any]) -> Array:
    """W (n, C) of the last of consecutive samples; `past` carries the state of terms on to the next ones."""
    if PAST not in model.uses:
        return model.regressor(q[:, -1:], v[:, -1:], a[:, -1:], load=load)[:, :, 0]
    tile = np.empty((len(model.places), q.shape[1]))
    model.fill(Motion(*(np.ascontiguousarray(x) for x in (q, v, a)), past=past), tile, load)
    out = np.zeros((model.robot.dof, len(model.layout)))
    out[model.places[:, 0], model.places[:, 1]] = tile[:, -1]
    if load in model.loads:
        payload, own, link = model.loads[load]
        out[:, own] = out[:, link] @ payload.on_link
    return out


class _LostError(Exception):
    """The estimate exceeded all bounds."""
