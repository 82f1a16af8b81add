"""P4 beyond its tables: DIDIM's bias over many motions, convergence from wrong starts, badly filtered positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import SteelyardError
from steelyard.estimators import DIDIM, IV, WLS, Estimator
from steelyard.identification.result import Identification
from steelyard.project.papers.page.curves import choice, figure
from steelyard.project.papers.page.paper_page import PaperRequest
from steelyard.project.papers.setups.closed_loop import (
    COULOMB,
    ENCODER_AT_90,
    FAR,
    NEAR,
    TABLE_1,
    VISCOUS,
    Arm,
    Points,
    identified,
    iterations,
    starting,
)
from steelyard.report.section import Piece
from steelyard.report.table import Table, TableColumn, table

TOLERANCE = 0.025
NAMES = ("LS", "IV", "DIDIM")
# Groups of parameters whose ratio to least squares is followed over motions.
BIASED = {"ZZ1": ("ZZ1",), "ZZ2": ("ZZ2",), "Fv, mean": VISCOUS, "Fc, mean": COULOMB}
# The first seed of the other motions.
MOTION_SEEDS = 100


# --- DIDIM's bias over motions ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OverMotions:
    """Ratios to least squares of DIDIM and IV with biased encoders: {group: (motions,)}, and the seeds that failed."""

    seeds: tuple[int, ...]
    didim: Mapping[str, Array]
    iv: Mapping[str, Array]
    failed: tuple[str, ...]


def over_motions(request: PaperRequest) -> OverMotions:
    """The biased simulator on other motions, as the motion of Table I but through other points."""
    two: tuple[Estimator, ...] = (IV(TOLERANCE, start="nominal"), DIDIM(TOLERANCE, start="nominal"))
    seeds, rows, failed = [], {one.name: [] for one in two}, []
    for k in range(request.experiments):
        seed = MOTION_SEEDS + request.seed + k
        arm = Arm(points=Points(seed, NEAR.margin, NEAR.acceleration))
        try:
            run = arm.logged(1)
            problem = arm.problem(run, ENCODER_AT_90)
            ls = identified(arm.problem(run), WLS()).value
            own = {one.name: identified(problem, one).value for one in two}
        except SteelyardError as error:
            failed.append(f"{seed}: {error}")
            continue
        seeds.append(seed)
        for name, value in own.items():
            rows[name].append([float(np.mean((value / ls)[arm.places(*group)])) for group in BIASED.values()])
        request.tell(k + 1, request.experiments)
    made = {name: np.array(values).reshape(-1, len(BIASED)) for name, values in rows.items()}
    didim, iv = ({group: made[name][:, k] for k, group in enumerate(BIASED)} for name in ("didim", "iv"))
    return OverMotions(tuple(seeds), didim, iv, tuple(failed))


def motion_pieces(over: OverMotions) -> Iterator[Piece]:
    cells = []
    for name, made in (("DIDIM", over.didim), ("IV", over.iv)):
        for group, x in made.items():
            if len(x):
                cells.append((name, group, x.min(), float(np.median(x)), x.max()))
    columns = (
        TableColumn("estimator", "Estimator"),
        TableColumn("group", "Parameter"),
        TableColumn("lowest", "lowest", "number", digits=3, group="Ratio to LS"),
        TableColumn("median", "median", "number", digits=3, group="Ratio to LS"),
        TableColumn("highest", "highest", "number", digits=3, group="Ratio to LS"),
    )
    notes = [
        "All 60 base parameters are fitted. On the motion of Table III ZZ1 and ZZ2 are 0.86 of LS, as in the paper; on "
        "other motions the bias of inertias is smaller or larger, that of viscous friction is not."
    ]
    notes += [f"Not simulated: {one}" for one in over.failed]
    yield table("motions", f"{len(over.seeds)} motions, encoders at 90 %", columns, cells, notes=notes)
    k = np.arange(1, len(over.seeds) + 1)
    figures = {}
    for name, made in (("DIDIM", over.didim), ("IV", over.iv)):
        points = {group: (k, x) for group, x in made.items()}
        figures[name] = figure(points, "motion", "ratio to LS", f"{name}: every motion.", markers=True)
    yield choice(figures)


# --- Starts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Begun:
    """From starts ± 30 % off: iterations (0: did not converge) and largest change against the usual start, in σ."""

    iterations: Mapping[str, Array]
    apart: Mapping[str, Array]


def starts(
    arm: Arm, usual_results: Sequence[Identification], estimators: Sequence[Estimator], request: PaperRequest
) -> Begun:
    """IV and DIDIM from other starts, next to their usual results."""
    run = arm.logged(1 + request.seed)
    at = arm.places(*TABLE_1)
    took: dict[str, list[int]] = {"IV": [], "DIDIM": []}
    apart: dict[str, list[float]] = {"IV": [], "DIDIM": []}
    for k in range(request.experiments):
        problem = arm.problem(run, model=starting(0.3, request.seed + k))
        for name, estimator, usual in zip(NAMES[1:], estimators, usual_results, strict=True):
            try:
                found = identified(problem, estimator)
            except SteelyardError:
                took[name].append(0)
                apart[name].append(np.nan)
                continue
            took[name].append(iterations(found))
            apart[name].append(float(np.nanmax(np.abs(found.value - usual.value)[at] / usual.std[at])))
    return Begun({n: np.array(x) for n, x in took.items()}, {n: np.array(x) for n, x in apart.items()})


def start_pieces(begun: Begun) -> Iterator[Piece]:
    cells = []
    for name, took in begun.iterations.items():
        good = took[took > 0]
        fewest, most = (int(good.min()), int(good.max())) if len(good) else (None, None)
        cells.append((name, len(good), len(took), fewest, most, np.nanmax(begun.apart[name])))
    columns = (
        TableColumn("estimator", "Estimator"),
        TableColumn("converged", "Converged", "count"),
        TableColumn("of", "of", "count"),
        TableColumn("fewest", "Fewest iterations", "count"),
        TableColumn("most", "Most", "count"),
        TableColumn("apart", "Largest difference from the usual start", "number", unit="σ", digits=2),
    )
    yield table("starts", "Inertias off by up to ± 30 %, no friction", columns, cells)
    curves = {name: (np.arange(1, len(took) + 1), took.astype(float)) for name, took in begun.iterations.items()}
    caption = "0 would be a start from which the estimator did not converge."
    yield figure(curves, "start", "iterations", caption, markers=True)


# --- Filters ----------------------------------------------------------------------------------------------------------


def filters(request: PaperRequest) -> Table:
    """Positions filtered at 300 Hz with noise of 3e-4 rad: noise inside sign(v) biases LS and IV, not DIDIM."""
    cells = []
    for name, points in (("near", NEAR), ("far", FAR)):
        arm = Arm(points=points)
        at = arm.places("XX3", "Fc6")
        for seed in range(request.seed + 1, request.seed + 1 + few(request)):
            problem = arm.problem(arm.logged(seed, 3e-4, 0.01, 300.0))
            found = [identified(problem, one) for one in (WLS(), IV(start="nominal"), DIDIM(start="nominal"))]
            ratios = np.array([one.value[at] / arm.truth[at] for one in found])
            cells.append((name, seed, *ratios.T.ravel()))
    columns = (
        TableColumn("motion", "Motion"),
        TableColumn("seed", "Draw", "count"),
        *(TableColumn(f"{p}_{n}", n, "number", digits=3, group=f"{p} / truth") for p in ("XX3", "Fc6") for n in NAMES),
    )
    return table("filters", "Cut-off 300 Hz, 3e-4 rad of noise, 1 % torque noise", columns, cells)


def few(request: PaperRequest) -> int:
    """Draws where each takes several simulations: one with --quick, three in full."""
    return min(3, max(1, request.experiments // 10))
