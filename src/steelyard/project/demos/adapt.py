"""The adaptive experiment for any robot: computed torque with an estimate that improves while the robot moves (P1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import ModelError, choices
from steelyard.estimators.gradient.adaptive_control import (
    Adaptation,
    AdaptiveControl,
    Measurement,
    adaptive_experiment,
    program_coordinates,
)
from steelyard.estimators.gradient.stopping import StoppingRule
from steelyard.estimators.gradient.update_rules import Normalised, Published, UpdateRule
from steelyard.formats.robots import read_robot
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.terms import DEFAULT_TERMS, named_terms
from steelyard.motion.random import random_fourier
from steelyard.project.demos.demo import SIGN_WIDTH, furnished
from steelyard.project.papers.page.curves import figure
from steelyard.report.composed import ComposedPart
from steelyard.report.table import Table, TableColumn, table
from steelyard.simulation.plant import Plant

RULES = ("normalised", "published")
# A random Fourier motion: harmonics, the lowest of them [Hz], and its duration [s].
HARMONICS, LOWEST_HZ, DURATION_S = 3, 0.4, 2.5


@dataclass(frozen=True, eq=False)
class Adapted:
    """An adaptive experiment: its history, the true base values, and the error of the torque after each iteration.

    The error is ‖P̂ − P‖/‖P‖ in coordinates in which the rows of the programs are orthonormal: the rms error of the
    torque on the programs, relative to the rms torque.
    """

    robot: str
    rule: str
    start: float
    adaptation: Adaptation
    truth: Array
    found: Array
    error: Array

    @property
    def verdict(self) -> str:
        """One sentence: iterations, what is left of the error, and why the experiment ended."""
        made = self.adaptation
        return (
            f"After {len(made)} iterations the torque error on the programs fell from {self.error[0]:.1%} to "
            f"{self.error[-1]:.2%}: {made.stopped}."
        )


def adapt(
    robot_name: str,
    motions: int = 40,
    start: float = 0.5,
    rule: str = "normalised",
    noise: float = 0.0,
    seed: int = 0,
) -> Adapted:
    """Drive a robot through random motions, from `start` times its true parameters.

    The truth is the robot file; what it leaves out is filled with plausible values. `noise` is the standard deviation
    of the measured accelerations [rad/s² | m/s²]; with it the update gets a floor.
    """
    if rule not in RULES:
        raise ModelError(choices("update rule", rule, RULES))
    if motions < 1:
        raise ModelError(f"An adaptive experiment needs at least one motion, not {motions}.")
    rng = np.random.default_rng(seed)
    robot = furnished(read_robot(robot_name), rng)
    terms = robot.terms if robot.terms is not None else DEFAULT_TERMS
    model = Model(robot, named_terms(terms, sign_width=SIGN_WIDTH))
    theta = model.layout.nominal
    if theta is None:
        raise ModelError(f"Robot '{robot.name}' lacks nominal values for a simulation. Add them to the robot file.")
    plant = Plant(model, theta)
    programs = [random_fourier(robot, HARMONICS, LOWEST_HZ, DURATION_S, rng) for _ in range(motions)]
    turned = program_coordinates(plant, programs)
    truth = base_parameters(model).map @ theta
    wanted = turned @ truth
    made = adaptive_experiment(
        plant, programs, start * wanted, _rule(rule, noise, len(wanted)), StoppingRule(), AdaptiveControl(),
        Measurement(acceleration_noise=noise, rng=np.random.default_rng([seed, 1])), coordinates=turned,
    )  # fmt: skip
    found = np.asarray(np.linalg.solve(turned, made.value), float)
    return Adapted(robot.name, rule, start, made, truth, found, made.error(wanted))


def _rule(name: str, noise: float, count: int) -> UpdateRule:
    """The update; in orthonormal coordinates ‖W‖² is the number of parameters on average, and so is the floor."""
    return Published() if name == "published" else Normalised(floor=float(count) if noise > 0.0 else 0.0)


def adapted_table(done: Adapted) -> Table:
    """Every base parameter: the truth, and the last estimate."""
    base = done.adaptation.base
    columns = (
        TableColumn("name", "Parameter", "code"),
        TableColumn("unit", "Unit", "unit"),
        TableColumn("truth", "Truth", "number"),
        TableColumn("start", "Start", "number"),
        TableColumn("value", "Estimate", "number"),
        TableColumn("error", "Error", "share"),
    )
    first, cells = done.start * done.truth, []
    for k, name in enumerate(base.names):
        error = (done.found[k] - done.truth[k]) / done.truth[k] if done.truth[k] else None
        cells.append((name, base.layout.units[base.kept[k]], done.truth[k], first[k], done.found[k], error))
    return table("adapted", "Base parameters", columns, cells)


def adapted_parts(done: Adapted) -> Iterator[ComposedPart]:
    """The sections of its page."""
    k = np.arange(len(done.error))
    curves = {"torque": (k, np.maximum(done.error, 1e-12))}
    drawn = figure(curves, "iteration", "relative error", "Error of the torque on the programs.", logarithmic=True)
    yield ComposedPart("error", "Error over the iterations", (drawn,))
    yield ComposedPart("parameters", "Parameters", (adapted_table(done),))
