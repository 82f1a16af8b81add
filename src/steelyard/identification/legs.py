"""Comparison of legs that were declared equal, by the parameters identified for each (P3 §3.1)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from scipy.stats import f as fisher

from steelyard._arrays import Array
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters
from steelyard.model.robot import Robot
from steelyard.regression.statistics import holm

# Significance level: probability that equal legs are reported as different, for all parameters together.
LEVEL = 0.01
# Coefficients of two regroupings that differ by less than this are equal.
_SAME = 1e-6


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
