"""The cases by which `consistent` is judged: random robots, P0's reference and P0's experiment. Tests run few of them,
`evidence/consistent.py` many."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from steelyard._arrays import Array
from steelyard.estimators import WLS, Consistent, Essential
from steelyard.estimators.least_squares import joint_deviations
from steelyard.estimators.standard_set import closest
from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.model.model import Model
from steelyard.model.parameters import Layout
from steelyard.model.robot import Drive, Link
from steelyard.model.terms import named_terms
from steelyard.model.terms.registry import nonnegative_symbols
from steelyard.motion.random import random_fourier
from steelyard.physical.consistency import check_links, link_columns, pseudo_inertia, pseudo_inertia_vector
from steelyard.physical.nearest import Feasibility, nearest_feasible
from steelyard.project.papers.setups.tx40 import M2, Table2, experiment, long_name, rows, table2, tx40
from steelyard.regression.information import stacked
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.regression.scores import score
from steelyard.signals.samples import Samples
from testbed.trees import random_inertia, random_tree

TERMS = named_terms(("rotor", "viscous", "coulomb", "offset"))
RATE, COUNT = 50.0, 500
# how wrong the robot file is about the bodies of a random robot
FILES = ("roughly right", "quite wrong", "silent")


def smallest_eigenvalue(layout: Layout, theta: Array) -> float:
    """The least eigenvalue of all pseudo-inertias, by numpy."""
    bodies = link_columns(layout).values()
    return min(float(np.linalg.eigvalsh(pseudo_inertia(theta[columns]))[0]) for columns in bodies)


def smallest_drive(layout: Layout, theta: Array) -> float:
    """The least rotor inertia or friction."""
    return min(
        float(x) for x, column in zip(theta, layout.columns, strict=True) if column.symbol in nonnegative_symbols()
    )


# --- Random robots ----------------------------------------------------------------------------------------------------


class Trial(NamedTuple):
    """A robot as its file has it, moved once: the problem, and the standard parameters (C,) behind its efforts."""

    problem: Problem
    truth: Array


def random_trial(index: int, seed: int, noise: float = 0.05) -> Trial:
    """Chains (even `index`) and trees of 2 to 8 joints with rotors and friction; `noise` as a share of rms effort.

    The robot file knows nothing of drives; of bodies it says, in turn, what is in FILES.
    """
    rng = np.random.default_rng((seed, index))
    robot = random_tree(rng, 2 + index // 2 % 7, chain=index % 2 == 0)
    most = np.array([0.3, 1.0, 2.0, 1.0])
    drives = [Drive(*(most * rng.uniform(0.1, 1.0, 4)).tolist()) for _ in robot.joints]
    joints = tuple(replace(joint, drive=drive) for joint, drive in zip(robot.joints, drives, strict=True))
    truth = Model(replace(robot, joints=joints), TERMS).layout.nominal
    assert truth is not None
    links = tuple(_as_filed(link, FILES[index % 3], rng) for link in robot.links)
    model = Model(replace(robot, links=links, joints=tuple(replace(j, drive=Drive()) for j in joints)), TERMS)
    q, v, a = random_fourier(robot, 5, RATE / COUNT, COUNT / RATE, rng).at(np.arange(COUNT) / RATE)
    tau = model.torque(q, v, a, truth)
    tau += noise * np.sqrt(np.mean(tau**2, axis=1, keepdims=True)) * rng.standard_normal(tau.shape)
    samples = Samples.from_arrays("run", robot.joint_names, RATE, q, v, a, tau)
    return Trial(Problem(model, [samples], rest=0.0), truth)


def _as_filed(link: Link, file: str, rng: np.random.Generator) -> Link:
    if file == "silent":
        return replace(link, inertia=None)
    if file == "quite wrong":
        return replace(link, inertia=random_inertia(rng))
    assert link.inertia is not None
    # any linear map of space makes another body that can exist; this one is near the identity
    bend = expm(0.1 * rng.standard_normal((4, 4)))
    return replace(link, inertia=pseudo_inertia_vector(bend @ pseudo_inertia(link.inertia) @ bend.T))


class Judged(NamedTuple):
    """`consistent` beside unconstrained wls, both in units of its σ_j.

    feasible: whether some robot has the values of wls.  to_truth, residual: ‖R(χ − χ_true)‖ and ‖y − Rχ‖ of
    (wls, consistent).  recovered: ‖χ − χ_true‖ / ‖χ_true‖ of consistent.  eigenvalue, drive: the least of its set.
    gap: ‖Bθ − χ‖ / ‖χ‖ of its two sets.
    """

    feasible: bool
    to_truth: tuple[float, float]
    residual: tuple[float, float]
    recovered: float
    eigenvalue: float
    drive: float
    gap: float

    @property
    def further(self) -> float:
        """How much further from the truth than wls, relative."""
        return self.to_truth[1] / self.to_truth[0] - 1.0

    @property
    def dearer(self) -> float:
        """How much larger a residual than that of wls, relative."""
        return self.residual[1] / self.residual[0] - 1.0


def judged(trial: Trial, estimator: Consistent | None = None) -> Judged:
    """One trial compressed once, fitted twice."""
    problem, base = trial.problem, base_parameters(trial.problem.model)
    information = observe(problem)
    free = identify(problem, WLS(), information)
    ours = identify(problem, estimator or Consistent(), information)
    assert ours.standard is not None
    assert np.all(np.isfinite(free.value))
    table = stacked(information, base.kept, 1.0 / joint_deviations(information, base))
    true = base.map @ trial.truth
    to_truth = [float(np.linalg.norm(table[:, :-1] @ (x.value - true))) for x in (free, ours)]
    residual = [float(np.linalg.norm(table @ np.append(-x.value, 1.0))) for x in (free, ours)]
    return Judged(
        feasible=nearest_feasible(base, free.value, free.covariance_classical).possible,
        to_truth=(to_truth[0], to_truth[1]),
        residual=(residual[0], residual[1]),
        recovered=float(np.linalg.norm(ours.value - true) / np.linalg.norm(true)),
        eigenvalue=smallest_eigenvalue(base.layout, ours.standard),
        drive=smallest_drive(base.layout, ours.standard),
        gap=float(np.linalg.norm(base.map @ ours.standard - ours.value) / np.linalg.norm(ours.value)),
    )


# --- P0 ---------------------------------------------------------------------------------------------------------------


@cache
def p0() -> tuple[Model, BaseParameters, Table2]:
    """The TX-40, its base parameters and the columns of Table II, with M2 as above in χ_ref."""
    model = tx40()
    table = table2(model.layout)
    reference = table.ref.copy()
    reference[model.layout.index("link2.M")] = M2
    return model, base_parameters(model), table._replace(ref=reference)


def printed_columns(layout: Layout) -> NDArray[np.bool_]:
    """The columns (C,) that Table II prints: not most of link 1, nor M2."""
    return np.isin(layout.names, [long_name(short) for short in rows()])


def repaired_reference() -> Feasibility:
    """The physical set nearest to χ_ref in P0's norm (Euclidean, SI); what Table II does not print is all but free."""
    _, base, table = p0()
    width = np.where(printed_columns(base.layout), 1.0, 1e3)
    return nearest_feasible(base, np.full(len(base), np.nan), prior=table.ref, widths=width)


class Standard(NamedTuple):
    """A standard set of P0's experiment: links 2 to 6 that pass P0's test (J ⪰ 0) and the stricter one of the
    pseudo-inertia; relative errors on another motion with its noise, and without.

    Sets that say nothing of M2 are judged with that of `setups.tx40`.
    """

    theta: Array
    positive: int
    realisable: int
    unseen: float
    without_noise: float


class Seed(NamedTuple):
    """(30), (32) and `consistent` on one simulated experiment."""

    closest: Standard
    essential: Standard
    consistent: Standard
    result: Identification

    @property
    def sets(self) -> tuple[Standard, Standard, Standard]:
        return self.closest, self.essential, self.consistent


def p0_experiment(seed: int) -> Seed:
    """§V simulated, truth χ^0e, prior χ_ref; scored on the motion and noise of seed + 1000."""
    model, base, table = p0()
    problem = experiment(model, table.essential, seed)
    information = observe(problem)
    unseen, exact = (observe(experiment(model, table.essential, 1000 + seed, noise=x)) for x in (0.05, 0.0))

    def standard(theta: Array, mass: float) -> Standard:
        judged_with = theta.copy()
        judged_with[base.layout.index("link2.M")] = mass
        verdicts = check_links(base.layout, judged_with)
        return Standard(
            theta,
            sum(verdicts[f"link{j}"].passes_inertia() for j in range(2, 7)),
            sum(verdicts[f"link{j}"].needed.pseudo_inertia == 0.0 for j in range(2, 7)),
            score(unseen, theta, problem.mask).total,
            score(exact, theta, problem.mask).total,
        )

    free = identify(problem, WLS(), information)
    essential = identify(problem, Essential(ratio=30.0), information)
    ours = identify(problem, Consistent(), information)
    assert essential.standard is not None
    assert ours.standard is not None
    own_mass = float(ours.standard[base.layout.index("link2.M")])
    return Seed(
        standard(closest(base, free.value, table.ref), M2),
        standard(essential.standard, M2),
        standard(ours.standard, own_mass),
        ours,
    )
