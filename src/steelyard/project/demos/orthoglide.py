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
from steelyard.simulation.plant import Plant
from steelyard.simulation.tracking import (
    ControlLaw,
    TrackedMotion,
    Tracking,
    computed_torque,
    followed,
    pid_laws,
)

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
class Controlled:
    """Identified gains, and Table 4: control laws, each on two motions, largest errors first."""

    gains: DriveGains
    followed: tuple[TrackedMotion, ...]

    @property
    def tracking(self) -> tuple[Tracking, ...]:
        return tuple(one.tracking for one in self.followed)

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
    bench = bench_of(robot, seed)
    laws = list(bench.laws())
    out = []
    for k, law in enumerate(laws):
        for name, path in bench.paths.items():
            out.append(followed(bench.plant, law, name, path, CONTROL_HZ))
        if progress is not None:
            progress("control laws", k + 1, len(laws))
    return Controlled(bench.gains, tuple(out))


@dataclass(frozen=True, eq=False)
class Bench:
    """What Table 4 is measured on: the true robot with the weighed payload, its runs without payload, the gains
    identified from both, and the motions to follow."""

    plant: Plant
    free: tuple[Samples, ...]
    gains: DriveGains
    paths: Mapping[str, Trajectory]

    def laws(self) -> Iterator[ControlLaw]:
        """The rows of Table 4. With a wrong gain, a command gives the fraction GAINS / gains of the force."""
        hertz, found = BANDWIDTH / (2.0 * np.pi), self.gains.value
        assumed = self.assumed(found)
        for law in pid_laws(assumed, hertz):
            yield law._replace(torque_ratio=GAINS / found)
        stated = {CTC_LOW: (1.0 - WRONG) * MAKER, CTC_HIGH: (1.0 + WRONG) * MAKER, CTC_MAKER: MAKER}
        for name, gains in stated.items():
            yield computed_torque(name, self.assumed(gains), hertz, GAINS / gains)
        yield computed_torque(CTC_FOUND, assumed, hertz, GAINS / found)

    def assumed(self, gains: Array) -> Plant:
        """The robot identified from its runs without payload with these gains, plus the weighed mass."""
        model = self.plant.model
        result = with_gains(model, self.free, gains)
        assert result.standard is not None
        theta = result.standard.copy()
        theta[model.layout.index(f"{LOAD}.M")] = WEIGHED
        return Plant(model, theta, LOAD)


def bench_of(robot: Robot, seed: int) -> Bench:
    """The robot identified from noisy currents of new motions, and two motions to follow."""
    rng = np.random.default_rng(seed)
    model = modelled(robot, [weighed()], SIGN_WIDTH)
    theta = truth(model)
    samples = logged(driven(model, theta, (UNLOADED, LOAD), rng), robot, NOISE, rng)
    found = gains_from(model, samples).gains
    assert found is not None
    free = tuple(run for run in samples if run.load == UNLOADED)
    return Bench(Plant(model, theta, LOAD), free, found, motions(robot, rng))


def motions(robot: Robot, rng: np.random.Generator) -> dict[str, Trajectory]:
    """Two motions to follow: a slow one that hardly moves the third axis, as the paper's first, and a fast one."""
    calm, fast = (random_points(robot, POINTS, rng) for _ in range(2))
    middle = calm[2].mean()
    calm[2] = middle + (calm[2] - middle) / 15.0
    return {
        "calm": TrapezoidalAcceleration(calm, np.array([0.5 * SPEED]), np.array([0.5 * ACCELERATION])),
        "fast": TrapezoidalAcceleration(fast, np.array([SPEED]), np.array([ACCELERATION])),
    }
