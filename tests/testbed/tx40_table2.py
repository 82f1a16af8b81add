"""P0 Table II as printed (χ_ref, χ^0b, χ^0e of the TX-40, Fs written Fc) and the experiment of §V, simulated.

The table has 76 rows. It leaves out XX1 … YZ1, MX1, MY1, MZ1, M1 and M2, which motion cannot show; they are zero here.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from steelyard._arrays import Array
from steelyard.formats.robots import read_robot
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.parameters import Layout
from steelyard.model.terms import named_terms
from steelyard.motion.random import random_points
from steelyard.motion.trajectory import TrapezoidalAcceleration
from steelyard.physical.consistency import check_links
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples

DRIVE = ("Ia", "Fv", "Fc", "off", "Fvm", "Fcm")
# M1 and M2 are not printed; this one makes link 2 of χ_ref (M2 ≥ 2.45 kg) and of χ^0e (M2 ≥ 1.85 kg) positive definite.
M2 = 4.0
# printed under the table
PRINTED_RATIO_B, PRINTED_RATIO_E = 0.1591, 0.0416

PRINTED = """
ZZ1    3.92e-02   1.24e+00   3.15e-01
Ia1    3.62e-01   3.62e-01   3.62e-01
Fv1    7.96e+00   7.96e+00   7.93e+00
Fc1    6.79e+00   6.81e+00   6.86e+00
off1   0.00e+00   3.14e-01   3.14e-01
XX2    1.63e-02  -4.71e-01   2.71e-02
XY2    7.85e-04   1.03e-02   6.19e-03
XZ2   -1.57e-02  -1.49e-01  -4.05e-02
YY2    8.81e-02   8.81e-02   8.81e-02
YZ2    3.24e-04   5.56e-03   3.24e-04
ZZ2    8.28e-02   1.08e+00   1.31e-01
MX2    3.92e-01   2.14e+00   9.59e-02
MY2   -7.20e-03   1.05e-01   6.79e-02
MZ2    1.62e-01   1.62e-01   1.62e-01
Ia2    5.07e-01   5.07e-01   5.07e-01
Fv2    5.92e+00   5.93e+00   5.92e+00
Fc2    7.38e+00   7.47e+00   7.42e+00
off2   0.00e+00   8.60e-01   0.00e+00
XX3    2.23e-02   1.30e-01   6.91e-02
XY3   -1.95e-04  -6.97e-03  -1.95e-04
XZ3   -1.16e-02   2.20e-03  -1.16e-02
YY3    2.24e-02   2.24e-02   2.24e-02
YZ3   -2.22e-03   4.53e-03  -2.22e-03
ZZ3    4.41e-03   1.08e-01   4.20e-02
MX3    3.26e-02   8.41e-02   3.08e-02
MY3    2.44e-02  -6.31e-01  -1.15e-01
MZ3    2.65e-01   2.65e-01   2.65e-01
M3     4.07e+00   4.07e+00   4.07e+00
Ia3    8.29e-02   1.02e-01   9.14e-02
Fv3    1.98e+00   1.99e+00   2.01e+00
Fc3    6.43e+00   6.41e+00   6.37e+00
off3   0.00e+00   4.48e-01   0.00e+00
XX4    1.09e-01   5.60e-03   1.09e-01
XY4    2.90e-05  -3.66e-03   2.90e-05
XZ4    1.35e-03  -2.60e-03   1.35e-03
YY4    1.08e-01   1.08e-01   1.08e-01
YZ4   -1.17e-03  -6.64e-03  -1.17e-03
ZZ4    4.07e-03   3.78e-03   4.07e-03
MX4    1.45e-02  -3.26e-02  -1.27e-02
MY4   -7.24e-03  -7.55e-03  -7.24e-03
MZ4   -5.86e-01  -5.86e-01  -5.86e-01
M4     3.62e+00   3.62e+00   3.62e+00
Ia4    3.41e-02   3.15e-02   3.03e-02
Fv4    1.06e+00   1.07e+00   1.07e+00
Fc4    2.72e+00   2.60e+00   2.67e+00
off4   0.00e+00  -6.06e-02   0.00e+00
XX5    1.01e-03   1.92e-03   1.01e-03
XY5    0.00e+00  -9.30e-04   0.00e+00
XZ5    0.00e+00  -2.37e-03  -1.58e-04
YY5    1.00e-03   1.00e-03   1.00e-03
YZ5   -3.06e-06   6.73e-05  -3.06e-06
ZZ5    1.01e-03   3.93e-03   1.01e-03
MX5    0.00e+00   8.24e-03   0.00e+00
MY5   -3.06e-03  -1.05e-02   2.39e-03
MZ5   -1.02e-03  -1.02e-03  -1.02e-03
M5     1.02e+00   1.02e+00   1.02e+00
Ia5    3.61e-02   3.22e-02   3.46e-02
Fv5    1.24e+00   1.24e+00   1.24e+00
Fc5    2.62e+00   2.60e+00   2.62e+00
off5   0.00e+00   1.05e-01   0.00e+00
XX6    3.53e-04   4.71e-04   3.53e-04
XY6    0.00e+00   8.46e-04   0.00e+00
XZ6    0.00e+00   3.53e-04   0.00e+00
YY6    3.53e-04   3.53e-04   3.53e-04
YZ6    0.00e+00  -4.41e-04   0.00e+00
ZZ6    0.00e+00   7.04e-04   0.00e+00
MX6    0.00e+00   1.07e-03   0.00e+00
MY6    0.00e+00  -3.71e-03   0.00e+00
MZ6    8.40e-03   8.40e-03   8.40e-03
M6     2.00e-01   2.00e-01   2.00e-01
Ia6    1.14e-02   1.10e-02   1.12e-02
Fv6    6.94e-01   6.40e-01   6.37e-01
Fc6    0.00e+00   4.20e-01   4.08e-01
off6   0.00e+00   1.88e-01   1.74e-01
Fvm6   5.92e-01   6.04e-01   5.98e-01
Fcm6   1.88e+00   1.78e+00   1.81e+00
"""


class Table2(NamedTuple):
    """The columns (C,) in the order of a layout [SI]."""

    ref: Array
    base: Array
    essential: Array


def long_name(short: str) -> str:
    """`ZZ1` → `link1.ZZ`, `Fvm6` → `joint6.Fvm`."""
    symbol, number = re.fullmatch(r"([A-Za-z]+)(\d)", short).groups()  # type: ignore[union-attr]
    return f"{'joint' if symbol in DRIVE else 'link'}{number}.{symbol}"


def rows() -> dict[str, tuple[float, float, float]]:
    """{`ZZ1`: (χ_ref, χ^0b, χ^0e)}, link by link."""
    out = {}
    for line in PRINTED.strip().splitlines():
        name, *numbers = line.split()
        ref, base, essential = map(float, numbers)
        out[name] = (ref, base, essential)
    return out


def table2(layout: Layout) -> Table2:
    """The columns of the table over a layout; zero where it prints nothing."""
    out = np.zeros((3, len(layout)))
    for name, numbers in rows().items():
        out[:, layout.index(long_name(name))] = numbers
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


# P4 (Brunot et al.), Table I, what a least squares on another log of the same type of robot should give again
P4_NAMES = ["zz1r", "fv1", "fc1", "zz2r", "mx2r", "fv2", "my3r", "fv3", "fv4", "fv5", "fv6", "fvm6"]


class Beside(NamedTuple):
    """A parameter here and in P4 (IDIM-LS), each with its σ, the relative difference, and that difference in σ."""

    name: str
    value: float
    std: float
    paper: float
    paper_std: float
    relative: float
    sigmas: float


def beside_p4(result: Identification, table_1: dict[str, dict[str, list[float]]]) -> list[Beside]:
    """The twelve parameters of P4_NAMES; `sigmas` counts both error bars, the paper's in print (classical)."""
    lines = []
    for short in P4_NAMES:
        symbol, number = re.fullmatch(r"([a-z]+)(\d)r?", short).groups()  # type: ignore[union-attr]
        drive = symbol.capitalize() if symbol.startswith("f") else symbol.upper()
        k = result.base.names.index(long_name(drive + number))
        value, std = float(result.value[k]), float(result.std[k])
        paper, percent = table_1[short]["idim_ls"]
        paper_std = abs(paper) * percent / 100
        sigmas = (value - paper) / float(np.hypot(std, paper_std))
        lines.append(Beside(short, value, std, paper, paper_std, value / paper - 1, sigmas))
    return lines


def print_beside_p4(lines: list[Beside]) -> None:
    """As a Markdown table; what is off by more than 10 % stands in bold with its number of σ."""
    print("| parameter | here ± σ | P4 ± σ | difference | in σ |\n|---|---|---|---|---|")
    for x in lines:
        off = f"**{x.relative:+.1%}**" if abs(x.relative) > 0.1 else f"{x.relative:+.1%}"
        print(f"| {x.name} | {x.value:.3f} ± {x.std:.3f} | {x.paper:g} ± {x.paper_std:.3f} | {off} | {x.sigmas:+.1f} |")
