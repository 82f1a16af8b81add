"""Parallel robots: legs that were declared equal, compared by their parameters (P3 §3.1), and postures at which the
loops do not close."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import f as fisher

from steelyard._arrays import Array
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters
from steelyard.model.loop_closure import Closure
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.regression.statistics import holm
from steelyard.signals.samples import Samples

# Significance level: probability that equal legs are reported as different, for all parameters together.
LEVEL = 0.01
# Coefficients of two regroupings that differ by less than this are equal.
_SAME = 1e-6
# Below this margin the passive joints move a thousand times as fast as elsewhere, and their errors grow as much.
NEAR = 1e-3
_REASONS = {1: "a singular posture", 2: "out of reach of the legs"}


@dataclass(frozen=True)
class LegComparison:
    """One base parameter of every leg: names, values ± std (legs,), and whether they differ.

    `p` is the p-value of the differences between the legs, already corrected for the number of parameters compared
    (Holm).
    """

    names: tuple[str, ...]
    values: tuple[float, ...]
    std: tuple[float, ...]
    unit: str
    p: float

    @property
    def differ(self) -> bool:
        return self.p < LEVEL


def matching_parameters(base: BaseParameters, robot: Robot) -> tuple[tuple[int, ...], ...]:
    """Base parameters (indices, one per leg) that represent the same combination of parameters in every leg.

    A parameter that is kept for some legs only, or that gravity regroups differently in one of them, has no
    counterpart.
    """
    columns, place = base.layout.columns, robot.leg_places
    groups: dict[tuple[int, str], dict[int, int]] = defaultdict(dict)
    for k, lead in enumerate(base.kept):
        if columns[lead].owner in place:
            step, leg = place[columns[lead].owner]
            groups[step, columns[lead].symbol][leg] = k

    def pattern(k: int, own: int) -> dict[tuple[int | str, str], float]:
        """Coefficients keyed by their parameter: by its place in the own leg, or by name elsewhere."""
        found: dict[tuple[int | str, str], float] = {}
        for c in np.flatnonzero(base.map[k]):
            step, leg = place.get(columns[c].owner, (0, -1))
            found[step if leg == own else columns[c].owner, columns[c].symbol] = float(base.map[k, c])
        return found

    out = []
    for found in groups.values():
        if len(found) < max(len(robot.legs), 2):
            continue
        first, *others = (pattern(found[leg], leg) for leg in range(len(robot.legs)))
        if all(p.keys() == first.keys() and all(abs(p[c] - first[c]) < _SAME for c in p) for p in others):
            out.append(tuple(found[leg] for leg in range(len(robot.legs))))
    return tuple(out)


def compare_legs(
    base: BaseParameters, robot: Robot, value: Array, covariance: Array, clusters: int
) -> tuple[LegComparison, ...]:
    """Wald's test of equality between legs, for every base parameter that all of them have.

    With D the differences to the first leg, F = (D x)ᵀ (D C Dᵀ)⁻¹ (D x) / (legs − 1), on legs − 1 and `clusters` − 1
    degrees of freedom, as for the error bars. Parameters without an error bar are not compared.
    """
    found, raw = [], []
    for group in matching_parameters(base, robot):
        index = list(group)
        x, c = value[index], covariance[np.ix_(index, index)]
        d = np.column_stack([-np.ones(len(x) - 1), np.eye(len(x) - 1)])
        spread = d @ c @ d.T
        if not np.all(np.isfinite(x)) or not np.all(np.isfinite(c)) or np.linalg.matrix_rank(spread) < len(d):
            continue
        ratio = float(d @ x @ np.linalg.solve(spread, d @ x)) / len(d)
        raw.append(float(fisher.sf(ratio, len(d), max(clusters - 1, 1) if clusters else np.inf)))
        found.append(index)
    adjusted = holm(raw).tolist()
    return tuple(
        LegComparison(
            tuple(base.names[k] for k in index),
            tuple(value[index].tolist()),
            tuple(np.sqrt(np.diagonal(covariance)[index]).tolist()),
            base.units[index[0]],
            p,
        )
        for index, p in zip(found, adjusted, strict=True)
    )


def leg_findings(comparisons: tuple[LegComparison, ...]) -> tuple[Finding, ...]:
    """One finding that names the parameters in which legs differ significantly."""
    different = [one for one in comparisons if one.differ]
    if not different:
        return ()
    shown = "; ".join(f"{', '.join(one.names)} (p = {one.p:.2g})" for one in different[:5])
    return (
        Finding(
            "legs-differ",
            "info",
            f"legs declared as identical differ in {len(different)} of {len(comparisons)} parameters: {shown}",
            fix="expected for friction; for masses look for parts, cables or frames that differ",
        ),
    )


def loop_findings(model: Model, runs: Iterable[Samples]) -> Iterator[Finding]:
    """Findings on the postures of every run of a robot with loops; none for other robots."""
    if model.looped is not None:
        for run in runs:
            yield from posture_findings(model.looped.closure, run.name, _postures(run))


def posture_findings(closure: Closure, name: str, postures: Iterable[tuple[Array, Array, bool]]) -> Iterator[Finding]:
    """One finding for samples at which the loops do not close, one for the posture nearest to a singularity.

    `postures` are consecutive parts of a run: times (B,) [s], positions of the axes (n, B), and whether a part starts a
    new stretch. The pass uses positions only; rows that use such samples are left out of every fit and score.
    """
    lost, first, why = 0, np.nan, ""
    least, when = np.inf, np.nan
    past: dict[str, Any] = {}
    for t, q, restarts in postures:
        past = {} if restarts else past
        still = np.zeros_like(q)
        closed = closure.close(q, still, still, past)
        bad = np.flatnonzero(closed.fault)
        if len(bad) and not lost:
            first, why = float(t[bad[0]]), _REASONS[int(closed.fault[bad[0]])]
        lost += len(bad)
        margin = np.where(closed.fault == 0, closed.margin, np.inf)
        k = int(np.argmin(margin))
        if margin[k] < least:
            least, when = float(margin[k]), float(t[k])
    if lost:
        yield Finding(
            "loop-not-closed",
            "warning",
            f"the loops of '{name}' cannot be closed at {lost} samples, first at t = {first:.4g} s ({why}): rows "
            "affected by them are left out",
            name,
            "check unit, sign and zero of the positions, the geometry in the robot file, and 'home'",
        )
    if least < NEAR:
        yield Finding(
            "loop-singular",
            "warning",
            f"'{name}' passes near a singularity of the loops at t = {when:.4g} s (margin {least:.2g}): passive joints "
            "move fast there and amplify position errors",
            name,
            "exclude that part of the motion with 'seconds' in its [[run]]",
        )


def _postures(run: Samples) -> Iterator[tuple[Array, Array, bool]]:
    before = -1
    for piece in run.open():
        t = run.stretches[piece.stretch].start + (piece.first + np.arange(piece.q.shape[1])) / run.rate
        yield t, piece.q, piece.stretch != before
        before = piece.stretch
