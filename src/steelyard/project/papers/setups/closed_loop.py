"""P4 (Brunot et al., IDIM-LS, IDIM-IV and DIDIM on a TX-40) as an experiment with a known truth.

The truth is Table I, column IDIM-LS; base parameters that it does not print are zero. A motion through nine points
under a P–PI cascade on the motors is logged with noise and prepared as a real log would be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from steelyard._arrays import Array
from steelyard.estimators import DIDIM, Estimator
from steelyard.estimators.simulated.base import driven_again
from steelyard.formats.robots import read_robot
from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import named_terms
from steelyard.motion.random import random_points
from steelyard.motion.trajectory import TrapezoidalAcceleration
from steelyard.project.demos.logs import coloured, plain_log
from steelyard.project.papers.printed_tables import lines_of, printed
from steelyard.project.papers.setups.tx40 import long_name
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.regression.scores import score
from steelyard.signals.prepare import Preparation, prepare
from steelyard.signals.samples import Samples
from steelyard.simulation.closed_loop import Loop, Reference, Simulated, simulate
from steelyard.simulation.controllers import Cascade
from steelyard.simulation.experiment import Experiment
from steelyard.simulation.plant import Plant

# Table I, IDIM-LS [SI].
TABLE_1 = {name: numbers[0] for name, numbers in lines_of(printed("p4")["table_1"]["rows"]).items()}
VISCOUS = tuple(name for name in TABLE_1 if name.startswith("Fv"))
COULOMB = tuple(name for name in TABLE_1 if name.startswith("Fc"))
SIGN_WIDTH = 0.2
# What the drives count from, in the angles of the geometry [rad].
MOTOR_ZERO = np.array([0.0, -np.pi / 2, np.pi / 2, 0.0, 0.0, 0.0])
LOOP = Loop(side="motor")
ENCODER_AT_90 = Loop(side="motor", encoder_ratio=0.9, encoder_offset=0.1 * MOTOR_ZERO)
TORQUE_AT_90 = Loop(side="motor", torque_ratio=0.9)
ENCODER_OFF = Loop(side="motor", encoder_offset=0.1)


class Points(NamedTuple):
    """Nine random points, how far they keep from the limits (part of the range), and the acceleration [rad/s²]."""

    seed: int
    margin: float
    acceleration: float


# Each takes 13.7 s. The second reaches further, into places where noise in the regressor does more harm.
NEAR, FAR = Points(49, 0.1, 5.8), Points(5, 0.05, 8.2)
UNSEEN = Points(11, 0.1, 6.5)


def tx40(robot: Robot | None = None) -> Model:
    robot = robot or read_robot("tx40")
    return Model(robot, named_terms(robot.terms or (), sign_width=SIGN_WIDTH))


def starting(spread: float = 0.0, seed: int = 0) -> Model:
    """A model whose nominal values are where an iteration starts: CAD inertias, each off by up to ± spread, and no
    friction."""
    robot, rng = read_robot("tx40"), np.random.default_rng(seed)

    def off() -> float:
        return 1.0 + spread * rng.uniform(-1.0, 1.0)

    links = [replace(link, inertia=None if link.inertia is None else link.inertia * off()) for link in robot.links]
    joints = [
        replace(j, drive=replace(j.drive, rotor=(j.drive.rotor or 0.0) * off(), viscous=0.0, coulomb=0.0))
        for j in robot.joints
    ]
    return tx40(replace(robot, links=tuple(links), joints=tuple(joints), nominal=dict.fromkeys(robot.nominal, 0.0)))


def tuned(plant: Plant) -> Cascade:
    return Cascade.tuned(plant, position_hz=10.0, velocity_hz=30.0, side="motor")


@dataclass(frozen=True)
class Arm:
    """The true arm under its controller, sampled at `rate` [Hz], driven through `points`."""

    rate: float = 2000.0
    points: Points = NEAR

    @cached_property
    def base(self) -> BaseParameters:
        return base_parameters(tx40())

    @cached_property
    def truth(self) -> Array:
        """Base parameters (b,)."""
        out = np.zeros(len(self.base))
        out[self.places(*TABLE_1)] = list(TABLE_1.values())
        return out

    def places(self, *short: str) -> list[int]:
        return [self.base.names.index(long_name(name)) for name in short]

    @cached_property
    def plant(self) -> Plant:
        return Plant(tx40(), self.base.theta(self.truth))

    @cached_property
    def controller(self) -> Cascade:
        return tuned(self.plant)

    @cached_property
    def reference(self) -> Reference:
        robot, (seed, margin, acceleration) = self.plant.robot, self.points
        speed = np.array([0.95 * joint.limits.velocity for joint in robot.joints])
        points = random_points(robot, 9, np.random.default_rng(seed), margin)
        motion = TrapezoidalAcceleration(points, speed, np.full(robot.dof, acceleration))
        return Reference(*motion.at(np.arange(int(motion.duration * self.rate)) / self.rate))

    @cached_property
    def made(self) -> Simulated:
        return simulate(self.plant, self.controller, self.reference, self.rate, LOOP)

    def logged(
        self, seed: int = 1, position_noise: float = 2e-5, torque_noise: float = 0.03, cutoff_hz: float = 50.0
    ) -> Samples:
        """The run as a log gives it: noisy joint positions [rad], and torques with coloured noise (share of rms)."""
        made, robot, rng = self.made, self.plant.robot, np.random.default_rng(seed)
        q = made.q + position_noise * rng.standard_normal(made.q.shape)
        level = torque_noise * np.sqrt(np.mean(made.tau**2, axis=1, keepdims=True))
        # a bandwidth of 16 Hz at every rate
        tau = made.tau + level * coloured(rng, made.tau.shape, float(np.exp(-100.0 / self.rate)))
        return prepare(*plain_log("run", robot, made.t, q, tau), Preparation(cutoff_hz=cutoff_hz))

    def problem(
        self, run: Samples, loop: Loop = LOOP, model: Model | None = None, keep_bandwidth: bool = False
    ) -> Problem:
        """The run behind the paper's filters, and a simulator with this loop and the true controller, or one that is
        tuned to the same bandwidths for every estimate."""
        control = tuned if keep_bandwidth else lambda _: self.controller
        experiment = Experiment({run.name: [self.reference]}, control, loop)
        rows = round(self.rate / 50.0)
        return Problem(model or starting(), [run], 20.0, rows, rest=0.0, rest_share=1.0, experiment=experiment)


def identified(problem: Problem, estimator: Estimator) -> Identification:
    """The estimate of a log whose torques are held commands.

    A command holds from its sample to the next, so it leads the motion by half a sample. Measured columns are corrected
    for this lead; a simulator that holds its commands has the same one.
    """
    held = -0.5 / problem.runs[0].rate
    late = () if isinstance(estimator, DIDIM) else (held,) * problem.model.robot.dof
    return identify(replace(problem, delay=late), estimator)


def simulated_error(problem: Problem, result: Identification) -> float:
    """‖y − Zθ̂‖/‖y‖ on the columns of the motion that θ̂ itself makes: what DIDIM minimises, unweighted."""
    doubled = observe(problem, instruments=driven_again(problem, result.theta))
    return score(doubled, np.concatenate([np.zeros_like(result.theta), result.theta]), "").total


def iterations(result: Identification) -> int:
    """How many an estimator says it took; zero where it did not converge."""
    told = [finding.message for finding in result.findings if finding.code == "iterations"]
    return int(told[0].split("converged in ")[1].split()[0]) if told else 0
