"""Closed-loop simulation: a plant and a sampled controller with encoders and drives, driven by the reference only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard._arrays import Array
from steelyard._kernels import equations as parts
from steelyard._kernels import plant as plant_kernel
from steelyard._kernels import simulation as kernel
from steelyard.errors import SimulationError, choices
from steelyard.motion.trajectory import Trajectory
from steelyard.signals.recording import Progress, Recording
from steelyard.signals.samples import Samples
from steelyard.simulation.controllers import Controller
from steelyard.simulation.plant import SIDES, Plant, Side

VELOCITIES = ("difference", "true")
# Samples between two progress reports.
_CHUNK = 10_000


@dataclass(frozen=True, eq=False)
class Reference:
    """Reference positions, velocities and accelerations (n, N), sampled at the control rate."""

    q: Array
    v: Array
    a: Array


@dataclass(frozen=True, eq=False)
class Loop:
    """Encoders and drives between controller and plant. Numbers are one for all axes or (n,).

    On the motor side the controller works on motor coordinates seen from the joint side, q_m = C q with the robot's
    coupling C, and its reference is C q_r. The true loop may differ from that:

        reading   ρ ∘ (C_e q) + offset + noise, rounded to `encoder_step`     ρ = encoder_ratio, C_e = encoder_coupling
        torque    C_tᵀ (σ ∘ u(t − delay)) + disturbance, |u| ≤ torque_limit   σ = torque_ratio, C_t = torque_coupling

    Couplings default to C on the motor side and to the identity on the joint side. Offsets and steps in rad | m, limits
    in N·m | N, `encoder_noise` and `disturbance` (n, N). The controller's speed is the backward difference of the
    readings, or with velocity = "true" that of a tachometer with the same ratio and coupling; a first-order filter of
    `velocity_filter_hz` is applied to either.
    """

    side: Side = "joint"
    encoder_ratio: ArrayLike = 1.0
    encoder_offset: ArrayLike = 0.0
    encoder_step: ArrayLike = 0.0
    encoder_coupling: Array | None = None
    encoder_noise: Array | None = None
    torque_ratio: ArrayLike = 1.0
    torque_limit: ArrayLike = np.inf
    torque_coupling: Array | None = None
    disturbance: Array | None = None
    delay_s: float = 0.0
    velocity: str = "difference"
    velocity_filter_hz: float = np.inf

    def __post_init__(self) -> None:
        if self.side not in SIDES:
            raise SimulationError(choices("side", self.side, SIDES))
        if self.velocity not in VELOCITIES:
            raise SimulationError(choices("velocity", self.velocity, VELOCITIES))
        for name, low in (("encoder_step", 0.0), ("torque_limit", 0.0), ("velocity_filter_hz", 0.0), ("delay_s", 0.0)):
            if not np.all(np.asarray(getattr(self, name), float) >= low):
                raise SimulationError(f"{name} must not be negative, but is {getattr(self, name)!r}.")


# Exact encoders and torques on the joint side.
IDEAL = Loop()


class Revision(NamedTuple):
    """A controller with a changing model: after every `every` samples, `revised(q, v, a, tau)` of these samples, (n,
    every) each, returns the plant that it inverts from the next sample on."""

    every: int
    revised: Callable[[Array, Array, Array, Array], Plant]


@dataclass(frozen=True, eq=False)
class Simulated:
    """A run: t (N,) [s] and, (n, N) each, the true motion q, v, a, the encoder readings q_m, the controller's commands
    tau_m, and the joint torque tau of the motors. At every sample tau, and the disturbance if any, causes a.

    `steps` (N,) counts the steps of the plant in each sample, negative where they were implicit.
    """

    joints: tuple[str, ...]
    rate: float
    t: Array
    q: Array
    v: Array
    a: Array
    q_m: Array
    tau_m: Array
    tau: Array
    steps: NDArray[np.int64]
    load: str
    history: tuple[str, ...]

    def samples(self, name: str) -> Samples:
        """The true motion with its exact derivatives and the motors' joint torque."""
        made = Samples.from_arrays(name, self.joints, self.rate, self.q, self.v, self.a, self.tau, self.load)
        return replace(made, history=self.history)

    def recording(self, name: str = "simulated") -> Recording:
        """The contents of a log: t, q_JOINT as read and tau_JOINT as commanded."""
        columns = {"t": self.t}
        columns |= {f"q_{joint}": x for joint, x in zip(self.joints, self.q_m, strict=True)}
        columns |= {f"tau_{joint}": x for joint, x in zip(self.joints, self.tau_m, strict=True)}
        return Recording.from_arrays(name, columns)


def simulate(
    plant: Plant,
    controller: Controller,
    reference: Trajectory | Reference,
    rate_hz: float,
    loop: Loop = IDEAL,
    progress: Progress | None = None,
    revision: Revision | None = None,
) -> Simulated:
    """The motion of a plant under a controller that is sampled and held at rate_hz, from the reference only.

    Between samples the plant is integrated by fourth-order Runge–Kutta steps, as many as friction requires, or by
    implicit steps where those would be too many. It starts on the reference as read by its encoders, with the velocity
    of the reference, and integrals start such that the first command is the torque of that motion. With a `revision`
    the plant that the controller inverts changes during the run; remaining samples at the end cause no revision.
    """
    wanted = _reference(plant, reference, rate_hz)
    _ = plant.dynamics  # raises an error for terms that cannot be simulated
    built = _Built(plant, controller, loop, rate_hz, wanted)
    n, count = wanted[0].shape
    q_r, v_r, a_r = (np.ascontiguousarray(x if loop.side == "joint" else built.controller_coupling @ x) for x in wanted)
    q, v, a, reading, command, tau = (np.empty((n, count)) for _ in range(6))
    noise = _signal("encoder_noise", loop.encoder_noise, n, count)
    disturbance = _signal("disturbance", loop.disturbance, n, count)
    steps = np.empty(count, np.int64)
    track = kernel.RunSignals(q_r, v_r, a_r, noise, disturbance, q, v, a, reading, command, tau, steps)
    state = built.state
    moving = _standing(plant, state[0])
    model, controlled = plant, moving
    if controller.inverts is not None:
        model, controlled = controller.inverts, _standing(controller.inverts, state[kernel.READING])
    chunk = _CHUNK if revision is None else revision.every
    for first in range(0, count, chunk):
        stop = min(first + chunk, count)
        code, sample, axis = kernel.run(
            plant.dynamics, *moving, model.dynamics, *controlled, controller.inverts is not None,
            built.wiring, state, track, first, stop,
        )  # fmt: skip
        if code != parts.DONE:
            raise SimulationError(_fault((plant, moving[0]), (model, controlled[0]), code, sample, axis, rate_hz))
        if revision is not None and stop - first == revision.every:
            model = revision.revised(*(x[:, first:stop] for x in (q, v, a, tau)))
            # laws of zero weight are left out, so a new estimate may have more or fewer states
            if len(model.dynamics.laws) != controlled[1].shape[1]:
                controlled = _standing(model, state[kernel.READING])
        if progress is not None:
            progress("simulating", stop, count)
    return Simulated(
        plant.robot.axis_names,
        rate_hz,
        np.arange(count) / rate_hz,
        *(q, v, a, reading, command, tau),
        steps,
        plant.load,
        _history(controller, loop, rate_hz, steps),
    )


@dataclass(frozen=True, eq=False)
class _Built:
    """A loop's options as the arrays of the compiled loop."""

    plant: Plant
    controller: Controller
    loop: Loop
    rate: float
    wanted: tuple[Array, Array, Array]

    def __post_init__(self) -> None:
        if self.controller.inverts is not None:
            other = self.controller.inverts.robot
            if self.loop.side == "motor":
                raise SimulationError("Computed torque acts on joint coordinates: use Loop(side='joint').")
            if other.dof != self._dof:
                raise SimulationError(f"The controller's model '{other.name}' has {other.dof} axes, not {self._dof}.")

    @property
    def _dof(self) -> int:
        return self.plant.robot.dof

    def _values(self, name: str) -> Array:
        values = np.asarray(getattr(self.loop, name), float)
        if values.ndim > 1 or (values.ndim == 1 and len(values) != self._dof) or np.any(np.isnan(values)):
            raise SimulationError(
                f"{name} must be one number, or {self._dof} numbers (one per joint), not {values.tolist()}."
            )
        return np.array(np.broadcast_to(values, self._dof))

    @cached_property
    def controller_coupling(self) -> Array:
        """The coupling in the controller's reference, (n, n)."""
        return self.plant.robot.motor_map if self.loop.side == "motor" else np.eye(self._dof)

    def _coupling(self, name: str) -> Array:
        given = getattr(self.loop, name)
        if given is None:
            return self.controller_coupling
        matrix = np.asarray(given, float)
        if matrix.shape != (self._dof, self._dof) or not np.linalg.cond(matrix) < 1e12:
            raise SimulationError(f"{name} must be an invertible ({self._dof}, {self._dof}) matrix.")
        return matrix

    @cached_property
    def wiring(self) -> kernel.Wiring:
        ratios = {name: self._values(name) for name in ("encoder_ratio", "torque_ratio")}
        for name, ratio in ratios.items():
            if not np.all(np.isfinite(ratio) & (ratio != 0.0)):
                raise SimulationError(f"{name} must be finite and not zero, but is {ratio.tolist()}.")
        delay = self.loop.delay_s * self.rate
        if not np.isfinite(delay) or abs(delay - round(delay)) > 1e-6:
            near = np.floor(delay) / self.rate if np.isfinite(delay) else 0.0
            raise SimulationError(
                f"delay_s = {self.loop.delay_s} is not a whole number of samples at {self.rate} Hz. Nearest: "
                f"{near:.9g} and {near + 1.0 / self.rate:.9g} s."
            )
        cutoff = 2.0 * np.pi * self.loop.velocity_filter_hz / self.rate
        options = [self._values(name) for name in ("encoder_offset", "encoder_step", "torque_limit")]
        encoder = ratios["encoder_ratio"][:, None] * self._coupling("encoder_coupling")
        torque = self._coupling("torque_coupling").T * ratios["torque_ratio"]
        return kernel.Wiring(
            np.stack([*self.controller.gains(self._dof), *options]),
            np.stack([encoder, torque]),
            round(delay),
            self.loop.velocity == "true",
            1.0 if np.isinf(cutoff) else -float(np.expm1(-cutoff)),
            float(self.rate),
        )

    @cached_property
    def state(self) -> Array:
        """q, q̇, readings, filtered speeds and integrals (5, n) at the start: on the reference as read by the encoders,
        with its velocity, and integrals such that the first command is the torque of that motion."""
        wiring = self.wiring
        q_r, v_r, a_r = (self.controller_coupling @ x[:, 0] for x in self.wanted)
        shifted = (q_r - wiring.values[kernel.OFFSET], v_r, a_r)
        q, v, a = (np.linalg.solve(wiring.maps[kernel.ENCODER], x)[:, None] for x in shifted)
        held = np.linalg.solve(wiring.maps[kernel.TORQUE], self.plant.torque(q, v, a)[:, 0])
        gains = self.controller.gains(self._dof)
        integrates = (gains.integral > 0.0) | (gains.rate_integral > 0.0)
        # a model that is only inverted need not have a positive definite mass matrix
        if self.controller.inverts is not None and integrates.any():
            held = self.controller.inverts.forward(q_r[:, None], v_r[:, None], held[:, None])[:, 0]
        moving = gains.derivative * (gains.speed_share - 1.0) * v_r + gains.acceleration_share * a_r
        return np.stack([q[:, 0], v[:, 0], q_r, v_r, np.where(integrates, held - moving, 0.0)])


def _standing(plant: Plant, q: Array) -> tuple[parts.Space, Array]:
    """Scratch memory and the laws' states of a plant that has been at rest at q (n,)."""
    space, memory = plant_kernel.space_of(plant.dynamics), np.zeros((3, len(plant.dynamics.laws)))
    code = plant_kernel.stand(plant.dynamics, space, memory, q, plant.postures(q[:, None], ("the start",))[0])
    if code != parts.DONE:
        raise SimulationError(plant.fault(code, 0, "the start", space))
    return space, memory


def _reference(plant: Plant, reference: Trajectory | Reference, rate: float) -> tuple[Array, Array, Array]:
    """Reference motion (n, N) each at the control rate."""
    if not (np.isfinite(rate) and rate > 0.0):
        raise SimulationError(f"rate_hz must be positive, not {rate}.")
    n = plant.robot.dof
    if isinstance(reference, Reference):
        motion = tuple(np.asarray(getattr(reference, f.name), float) for f in fields(reference))
    else:
        motion = reference.at(np.arange(int(np.floor(reference.duration * rate * (1.0 + 1e-12))) + 1) / rate)
    q, v, a = motion
    if q.ndim != 2 or q.shape[0] != n or v.shape != q.shape or a.shape != q.shape or not q.size:
        shapes = ", ".join(str(x.shape) for x in motion)
        raise SimulationError(
            f"The reference of '{plant.robot.name}' must be ({n}, samples) for q, v and a, not {shapes}."
        )
    for name, x in zip("qva", motion, strict=True):
        if not np.all(np.isfinite(x)):
            joint, sample = np.argwhere(~np.isfinite(x))[0]
            raise SimulationError(f"The reference {name} of {plant.robot.axis_names[joint]} is not finite at {sample}.")
    return q, v, a


def _signal(name: str, given: Array | None, n: int, count: int) -> Array:
    """The signal (n, N), or one column of zeros if there is none."""
    if given is None:
        return np.zeros((n, 1))
    signal = np.asarray(given, float)
    if signal.shape != (n, count) or not np.all(np.isfinite(signal)):
        raise SimulationError(f"{name} must be finite and ({n}, {count}) as the reference, not {signal.shape}.")
    return np.ascontiguousarray(signal)


def _fault(
    plant: tuple[Plant, parts.Space], model: tuple[Plant, parts.Space], code: int, sample: int, axis: int, rate: float
) -> str:
    """Error message for a simulation that stopped; plants come with their scratch memory. A negative code refers to the
    controller's model."""
    robot, where = plant[0].robot, f"sample {sample} (t = {sample / rate:.4g} s)"
    if code < 0:
        told = model[0].fault(-code, axis, where, model[1])
        return f"The model of the controller fails at the measured positions. {told}"
    if code == kernel.DIVERGED:
        name = robot.axis_names[axis]
        return (
            f"The simulation of '{robot.name}' diverges: {name} exceeds {kernel.FASTEST:g} rad/s (m/s) at {where}. The "
            "loop is unstable for these parameters: lower the bandwidth of the controller or the delay, raise "
            "rate_hz, or rescale the gains to the plant (`controller.rescaled`)."
        )
    if code == kernel.TOO_STIFF:
        return (
            f"Pre-sliding, ripple or a spring on {robot.joint_names[axis]} is too stiff to simulate at {rate:g} Hz (at "
            f"{where}). Raise rate_hz, or give Dahl a longer length."
        )
    return plant[0].fault(code, axis, where, plant[1])


def _history(controller: Controller, loop: Loop, rate: float, steps: NDArray[np.int64]) -> tuple[str, ...]:
    told = f"simulated at {rate:g} Hz under '{controller.name}' on the {loop.side} side"
    most, implicit = int(np.abs(steps).max()), int(np.sum(steps < 0))
    work = f"up to {most} step{'s' if most > 1 else ''} per sample" + (
        f", {implicit} samples implicit" if implicit else ""
    )
    return (told, work, "exact derivatives")
