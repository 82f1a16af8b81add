"""P0: Table II over a layout (χ_ref, χ^0b, χ^0e of the TX-40, Fs written Fc) and the experiment of §V, simulated.

The table has 76 rows. It leaves out XX1 … YZ1, MX1, MY1, MZ1, M1 and M2, which motion cannot show; they are zero here.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from steelyard._arrays import Array
from steelyard.formats.robots import read_robot
from steelyard.model.model import Model
from steelyard.model.parameters import Layout
from steelyard.model.terms import named_terms
from steelyard.motion.random import random_points
from steelyard.motion.trajectory import TrapezoidalAcceleration
from steelyard.physical.consistency import check_links
from steelyard.project.papers.printed_tables import lines_of, printed
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples

DRIVE = ("Ia", "Fv", "Fc", "off", "Fvm", "Fcm")
# M1 and M2 are not printed; this one makes link 2 of χ_ref (M2 ≥ 2.45 kg) and of χ^0e (M2 ≥ 1.85 kg) positive definite.
M2 = 4.0


class PrintedRow(NamedTuple):
    """A row of Table II [SI]; the differences from χ_ref have two decimals."""

    ref: float
    base: float
    essential: float
    base_apart: float
    essential_apart: float


class Table2(NamedTuple):
    """The columns (C,) in the order of a layout [SI]."""

    ref: Array
    base: Array
    essential: Array


def long_name(short: str) -> str:
    """`ZZ1` → `link1.ZZ`, `Fvm6` → `joint6.Fvm`."""
    symbol, number = re.fullmatch(r"([A-Za-z]+)(\d)", short).groups()  # type: ignore[union-attr]
    return f"{'joint' if symbol in DRIVE else 'link'}{number}.{symbol}"


def rows() -> dict[str, PrintedRow]:
    """Table II by short name, `ZZ1`, link by link."""
    return {name: PrintedRow(*numbers) for name, numbers in lines_of(printed("p0")["table_2"]["rows"]).items()}


def table2(layout: Layout) -> Table2:
    """The columns of the table over a layout; zero where it prints nothing."""
    out = np.zeros((3, len(layout)))
    for name, numbers in rows().items():
        out[:, layout.index(long_name(name))] = numbers[:3]
    return Table2(*out)


def tx40() -> Model:
    robot = read_robot("tx40")
    return Model(robot, named_terms(robot.terms or ()))


def experiment(model: Model, truth: Array, seed: int, acceleration: float = 10.0, noise: float = 0.05) -> Problem:
    """§V simulated: 11 random points, trapezoidal acceleration [rad/s²], 250 Hz, white noise (share of rms torque)."""
    rng = np.random.default_rng(seed)
    robot = model.robot
    speed = np.array([0.95 * joint.limits.velocity for joint in robot.joints])
    motion = TrapezoidalAcceleration(random_points(robot, 11, rng), speed, np.full(robot.dof, acceleration))
    q, v, a = motion.at(np.arange(0.0, motion.duration, 1 / 250))
    tau = model.torque(q, v, a, truth)
    tau += noise * np.sqrt(np.mean(tau**2, axis=1, keepdims=True)) * rng.standard_normal(tau.shape)
    return Problem(model, [Samples.from_arrays("run", robot.joint_names, 250.0, q, v, a, tau)], rest=0.0)


def positive_links(layout: Layout, theta: Array, tolerance: float = 0.0) -> int:
    """How many of links 2 … 6 pass P0's test (pivots of J at the centre of mass ≥ −tolerance), with M2 as above.

    Link 6 of χ_ref is a point mass: its J has a zero eigenvalue, so "positive" has to mean ≥ 0.
    """
    theta = theta.copy()
    theta[layout.index("link2.M")] = M2
    verdicts = check_links(layout, theta)
    return sum(verdicts[f"link{j}"].passes_inertia(tolerance) for j in range(2, 7))


def distance(theta: Array, ref: Array) -> float:
    """norm(χ − χ_ref) / norm(χ_ref)."""
    return float(np.linalg.norm(theta - ref) / np.linalg.norm(ref))
