"""The Orthoglide of P3 §5.2, simulated: drive gains from a weighed payload, and their effect on control.

The true robot is the one in its file, which has the values of the paper's Table 3. Its logs hold positions and
currents; the controllers' models are identified from these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import ModelError
from steelyard.estimators import WLS, Gains
from steelyard.identification.identify import identify
from steelyard.identification.result import DriveGains, Identification
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED, Payload
from steelyard.model.robot import Robot
from steelyard.model.terms import named_terms, plain_terms
from steelyard.motion.random import random_points
from steelyard.motion.trajectory import Trajectory, TrapezoidalAcceleration
from steelyard.regression.problem import Problem
from steelyard.signals.recording import Progress
from steelyard.signals.samples import Samples
from steelyard.simulation.closed_loop import Loop, simulate
from steelyard.simulation.controllers import PID, ComputedTorque, Controller
from steelyard.simulation.plant import Plant

ROBOT, PLATFORM = "orthoglide", "link6"
# Force of a drive per unit of its current reference [N]: identified (Table 3), and stated by its maker.
GAINS, MAKER = np.array([2170.0, 2100.0, 2070.0]), np.full(3, 637.0 * np.pi)
# The weighed payload, and the one to be found with the identified gains [kg].
WEIGHED, SECOND = 1.983, 1.136
LOAD = "weighed"
# Table 4 changes the maker's gains on purpose by a quarter. It does not state the direction, which matters: the maker's
# are already too low.
WRONG = 0.25

# Exciting motions go through random points, as with a robot controller; the paper's own are not published.
POINTS, RATE_HZ, SPEED, ACCELERATION = 15, 200.0, 0.95, 10.0
NOISE = 0.01
# The controllers' rate, the triple pole of their linear part [rad/s], and the speed over which sign(v) is smooth [m/s].
CONTROL_HZ, BANDWIDTH, SIGN_WIDTH = 1000.0, 100.0, 0.02

# The rows of Table 4, worst first: PID with the derivative on the measurement only and with the reference's velocity,
# and computed torque with a model identified with these gains.
PLAIN_PID, FORWARD_PID = "PID", "PID with velocity feed-forward"
CTC_LOW, CTC_HIGH = "computed torque, gains 25 % too low", "computed torque, gains 25 % too high"
CTC_MAKER, CTC_FOUND = "computed torque, manufacturer's gains", "computed torque, identified gains"


class Driven(NamedTuple):
    """A motion (n, N) at `RATE_HZ` under a load case, and the `force` (n, N) of the drives [N]."""

    load: str
    q: Array
    v: Array
    a: Array
    force: Array


@dataclass(frozen=True)
class Tracking:
    """Tracking error of one control law on one motion: largest and rms error of every axis, (n,) each [m]."""

    law: str
    motion: str
    largest: tuple[float, ...]
    rms: tuple[float, ...]


@dataclass(frozen=True)
class Controlled:
    """Identified gains, and Table 4: control laws, each on two motions, largest errors first."""

    gains: DriveGains
    tracking: tuple[Tracking, ...]

    def rms(self, law: str, motion: str) -> float:
        """Mean over the axes of the rms error of a law on a motion [m]."""
        (found,) = (one for one in self.tracking if (one.law, one.motion) == (law, motion))
        return float(np.mean(found.rms))


# --- Logs -------------------------------------------------------------------------------------------------------------


def modelled(robot: Robot, payloads: Sequence[Payload] = (), sign_width: float = 0.0) -> Model:
    """The robot with the drive chain its file names; sign(v) is tanh(v / sign_width) where that is positive."""
    return Model(robot, named_terms(plain_terms(robot), sign_width=sign_width), payloads=payloads)


def truth(model: Model, masses: Mapping[str, float] | None = None) -> Array:
    """Standard parameters (C,): the robot file's, and the mass [kg] of every payload by load case."""
    nominal = model.layout.nominal
    if nominal is None:
        raise ModelError(f"Robot '{model.robot.name}' has no nominal inertias to simulate. Add them to the robot file.")
    theta = nominal.copy()
    for load, mass in (masses or {}).items():
        theta[model.layout.index(f"{load}.M")] = mass
    return theta


def exciting(robot: Robot, rng: np.random.Generator, points: int = POINTS) -> TrapezoidalAcceleration:
    """A motion through random points within the limits."""
    return TrapezoidalAcceleration(random_points(robot, points, rng), np.array([SPEED]), np.array([ACCELERATION]))


def driven(model: Model, theta: Array, loads: Sequence[str], rng: np.random.Generator) -> tuple[Driven, ...]:
    """A separate motion for every load case, and the forces it takes."""
    out = []
    for load in loads:
        path = exciting(model.robot, rng)
        # half a step off the clock of the motion: at rest the sign of a speed is not defined
        q, v, a = path.at(np.arange(0.5 / RATE_HZ, path.duration, 1.0 / RATE_HZ))
        out.append(Driven(load, q, v, a, model.torque(q, v, a, theta, load=load)))
    return tuple(out)


def logged(runs: Sequence[Driven], robot: Robot, noise: float, rng: np.random.Generator) -> list[Samples]:
    """The runs with currents as efforts, force / gain, each with white noise of a fraction of its rms over all runs."""
    size = noise * np.sqrt(np.mean(np.concatenate([x.force for x in runs], axis=1) ** 2, axis=1, keepdims=True))
    out = []
    for k, run in enumerate(runs, start=1):
        current = (run.force + size * rng.standard_normal(run.force.shape)) / GAINS[:, None]
        name = f"{k} {run.load}"
        out.append(Samples.from_arrays(name, robot.axis_names, RATE_HZ, run.q, run.v, run.a, current, run.load))
    return out


def weighed() -> Payload:
    """The payload with known mass only: the platform only translates, so no other parameter has an effect."""
    return Payload(LOAD, PLATFORM, known={"M": WEIGHED})


def with_gains(model: Model, samples: Sequence[Samples], gains: Array) -> Identification:
    """Weighted least squares with stated gains (n,), as the paper identifies a second payload."""
    return identify(Problem(model, samples, rest=0.0, factor=gains.tolist()), WLS())


def gains_from(model: Model, samples: Sequence[Samples]) -> Identification:
    """Gains and parameters together, from runs without and with the weighed payload."""
    return identify(Problem(model, samples, rest=0.0, motor_rows=True), Gains())


# --- Control ----------------------------------------------------------------------------------------------------------


def controlled(robot: Robot, seed: int = 7, progress: Progress | None = None) -> Controlled:
    """P3 Table 4: the same motions, with the weighed payload, under control laws of the same bandwidth.

    If all gains are wrong by one factor, the identified model is wrong by the same factor, so that a current, torque /
    gain, is right for the robot itself. The payload's mass is added in kilograms: only the payload is then too heavy or
    too light. Gains that are wrong by different factors on different axes also distort the coupling of the axes.
    """
    rng = np.random.default_rng(seed)
    model = modelled(robot, [weighed()], SIGN_WIDTH)
    theta = truth(model)
    samples = logged(driven(model, theta, (UNLOADED, LOAD), rng), robot, NOISE, rng)
    found = gains_from(model, samples).gains
    assert found is not None
    free = [run for run in samples if run.load == UNLOADED]
    plant = Plant(model, theta, LOAD)
    paths = motions(robot, rng)
    laws = list(_laws(model, free, found.value))
    out = []
    for k, (law, controller, gains) in enumerate(laws):
        # A command divided by a wrong gain gives this fraction of the force. Speeds are exact: a difference of
        # positions is late by half the sample time, which costs more than any of these gains.
        loop = Loop(torque_ratio=GAINS / gains, velocity="true")
        for name, path in paths.items():
            made = simulate(plant, controller, path, CONTROL_HZ, loop)
            out.append(_judged(law, name, path.at(made.t)[0] - made.q))
        if progress is not None:
            progress("control laws", k + 1, len(laws))
    return Controlled(found, tuple(out))


def motions(robot: Robot, rng: np.random.Generator) -> dict[str, Trajectory]:
    """Two motions to follow: a slow one that hardly moves the third axis, as the paper's first, and a fast one."""
    calm, fast = (random_points(robot, POINTS, rng) for _ in range(2))
    middle = calm[2].mean()
    calm[2] = middle + (calm[2] - middle) / 15.0
    return {
        "calm": TrapezoidalAcceleration(calm, np.array([0.5 * SPEED]), np.array([0.5 * ACCELERATION])),
        "fast": TrapezoidalAcceleration(fast, np.array([SPEED]), np.array([ACCELERATION])),
    }


def _laws(model: Model, free: Sequence[Samples], found: Array) -> Iterator[tuple[str, Controller, Array]]:
    """Name, controller and the gains that convert its commands to currents."""
    hertz = BANDWIDTH / (2.0 * np.pi)
    assumed = _controller_model(model, free, found)
    yield PLAIN_PID, PID.tuned(assumed, hertz), found
    yield FORWARD_PID, PID.tuned(assumed, hertz, velocity_feedforward=1.0), found
    stated = {CTC_LOW: (1.0 - WRONG) * MAKER, CTC_HIGH: (1.0 + WRONG) * MAKER, CTC_MAKER: MAKER}
    for law, gains in stated.items():
        yield law, ComputedTorque.tuned(_controller_model(model, free, gains), hertz, integral=True), gains
    yield CTC_FOUND, ComputedTorque.tuned(assumed, hertz, integral=True), found


def _controller_model(model: Model, free: Sequence[Samples], gains: Array) -> Plant:
    """The robot identified from its runs without payload with these gains, plus the weighed mass."""
    result = with_gains(model, free, gains)
    assert result.standard is not None
    theta = result.standard.copy()
    theta[model.layout.index(f"{LOAD}.M")] = WEIGHED
    return Plant(model, theta, LOAD)


def _judged(law: str, motion: str, error: Array) -> Tracking:
    largest, rms = np.abs(error).max(axis=1), np.sqrt(np.mean(error**2, axis=1))
    return Tracking(law, motion, tuple(largest.tolist()), tuple(rms.tolist()))
