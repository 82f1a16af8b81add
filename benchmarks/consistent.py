"""`consistent` on compressed data: a 7-axis arm and a tree of 30 links, compared with cvxpy and Clarabel.

Seconds of a whole estimate from an existing `Information`, error bars included; of the constrained fit in it; and of
cvxpy stating, compiling and solving the same problem. Efforts have 5 % noise and the nominal bodies are off by up to
30 %, so that least squares alone is not physically consistent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

LINKS, SAMPLES, REPEATS = 30, 1500, 5
WEIGHT = 1e-2


def _timed(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Median seconds of several runs, after one that is not counted."""
    work()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def _tree(rng: np.random.Generator) -> Any:
    """A tree in which every link carries two, with any poses, axes and bodies."""
    from scipy.spatial.transform import Rotation

    from steelyard.model.parameters import inertial_vector
    from steelyard.model.pose import Pose
    from steelyard.model.robot import Drive, Joint, Link, Robot

    links, joints = [], []
    for i in range(LINKS):
        axis = rng.normal(size=3)
        pose = Pose(Rotation.random(rng=rng).as_matrix(), rng.uniform(-0.4, 0.4, 3))
        drive = Drive(rotor=0.1, viscous=1.0, coulomb=1.0)
        joints.append(
            Joint(f"joint{i + 1}", "revolute", (i + 1) // 2 - 1, pose, axis / np.linalg.norm(axis), drive=drive)
        )
        mass, spread = rng.uniform(0.5, 5.0), rng.uniform(-0.15, 0.15, (3, 3))
        second = mass * (spread @ spread.T + 1e-3 * np.eye(3))
        inertia = np.trace(second) * np.eye(3) - second
        links.append(Link(f"link{i + 1}", inertial_vector(mass, rng.uniform(-0.2, 0.2, 3), inertia)))
    return Robot("tree", tuple(links), tuple(joints))


def _data(robot: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Base parameters and information of a noisy log, for a robot file whose bodies are heavier or lighter."""
    from steelyard import Model, Problem, Samples, base_parameters, observe
    from steelyard.model.terms import named_terms

    terms = named_terms(("rotor", "viscous", "coulomb"))
    true = Model(robot, terms)
    links = tuple(replace(link, inertia=rng.uniform(0.7, 1.3) * link.inertia) for link in robot.links)
    model = Model(replace(robot, links=links), terms)
    q, v, a = rng.uniform(-2.0, 2.0, (robot.dof, SAMPLES)), *rng.normal(size=(2, robot.dof, SAMPLES))
    effort = true.torque(q, v, a, true.layout.nominal)  # type: ignore[arg-type]
    effort += 0.05 * effort.std(axis=1, keepdims=True) * rng.standard_normal(effort.shape)
    run = Samples.from_arrays("run", robot.joint_names, 100.0, q, v, a, effort)
    return base_parameters(model), observe(Problem(model, [run]))


def _cvxpy(base: Any, whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """argmin ‖A θ − a‖² over robots that can exist, from rows [A | a]."""
    import cvxpy as cp

    from steelyard.model.terms.registry import nonnegative_symbols
    from steelyard.physical.consistency import link_columns, pseudo_inertia

    x = cp.Variable(len(base.layout))
    basis = np.stack([pseudo_inertia(unit).ravel() for unit in np.eye(10)], axis=1)
    cones = [cp.reshape(basis @ x[columns], (4, 4), order="C") >> 0 for columns in link_columns(base.layout).values()]
    cones.append(x[[k for k, c in enumerate(base.layout.columns) if c.symbol in nonnegative_symbols()]] >= 0)
    cp.Problem(cp.Minimize(cp.sum_squares(whole[:, :-1] @ x - whole[:, -1])), cones).solve(solver="CLARABEL")
    return np.asarray(x.value)


def bench_consistent() -> dict[str, dict[str, float]]:
    from steelyard import read_robot
    from steelyard._arrays import single_threaded
    from steelyard.estimators import Consistent
    from steelyard.estimators.consistent.fit import fitted
    from steelyard.estimators.least_squares import joint_deviations
    from steelyard.physical.cones import column_scales
    from steelyard.physical.constraints import PHYSICAL
    from steelyard.physical.prior import Widths, nominal_prior, with_friction
    from steelyard.regression.information import stacked

    out = {}
    for name, robot in (("panda", read_robot("panda")), ("tree", _tree(np.random.default_rng(4)))):
        base, information = _data(robot, np.random.default_rng(0))
        plain, pulled = (single_threaded(kind.estimate) for kind in (Consistent(), Consistent(weight=WEIGHT)))
        found, compared = plain(base, information), pulled(base, information)
        rows = stacked(information, base.kept, 1.0 / joint_deviations(information, base))
        prior = with_friction(nominal_prior(base.layout, Widths()), information, Widths().friction).rows
        whole = np.vstack([np.column_stack([rows[:, :-1] @ base.map, rows[:, -1]]), np.sqrt(WEIGHT) * prior])
        scales = column_scales(base, compared.value, base.layout.nominal)
        ours, theirs = single_threaded(fitted), single_threaded(_cvxpy)
        off = rows[:, :-1] @ (base.map @ theirs(base, whole) - compared.value)
        out[name] = {
            "columns": len(base.layout),
            "base": len(base),
            "seconds": _timed(lambda: plain(base, information)),  # noqa: B023
            "pulled_seconds": _timed(lambda: pulled(base, information)),  # noqa: B023
            "fit_seconds": _timed(lambda: ours(base, whole, PHYSICAL, scales)),  # noqa: B023
            "cvxpy_seconds": _timed(lambda: theirs(base, whole), 3),  # noqa: B023
            "difference_sigma": float(np.linalg.norm(off)),
            "smallest_eigenvalue": min(found.certificate.smallest.values()),  # type: ignore[union-attr]
            "moved_sigma": found.certificate.moved_sigma,  # type: ignore[union-attr]
        }
    return out


def consistent_table(results: dict[str, dict[str, float]]) -> list[str]:
    lines = []
    for name, said, bar in (("panda", "7-axis arm", 0.2), ("tree", f"{LINKS}-link tree", 2.0)):
        r = results[name]
        lines += [
            f"consistent, {said:<23} {r['seconds']:8.3f} s   {r['columns']} columns, with error bars (bar {bar:g} s)",
            f"  with a prior of weight {WEIGHT:g}       {r['pulled_seconds']:8.3f} s   "
            f"the fit alone {r['fit_seconds']:.3f} s, cvxpy's {r['cvxpy_seconds']:.3f} s, "
            f"{r['difference_sigma']:.1e} σ apart",
        ]
    return lines
