"""Integrity: has a robot changed between two identifications?"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.stats import t as student

from steelyard.errors import EstimationError
from steelyard.identification import Identification
from steelyard.parameters import Array

# A difference below this fraction of the value is rounding, whatever the error bars say.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Change:
    """One base parameter before and after: t = (after − before)/√(σ_b² + σ_a²), p of t alone, and p after Holm."""

    name: str
    unit: str
    before: float
    after: float
    difference: float
    std: float
    t: float
    p: float
    p_holm: float


@dataclass(frozen=True)
class Comparison:
    """Has the robot changed? Base parameters of two identifications of one robot, tested together.

    `changes`: every parameter both know with an error bar. `only_before`, `only_after`: names the other lacks.
    `untested`: named by both, but not excited, without error bar, or standing for another sum in each.
    """

    robot: str
    changes: tuple[Change, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    untested: tuple[str, ...]
    freedom: float
    level: float = 0.05
    changed: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        found = sorted((c.p_holm, c.name) for c in self.changes if c.p_holm < self.level)
        object.__setattr__(self, "changed", tuple(name for _, name in found))

    @property
    def verdict(self) -> str:
        tested = f"{len(self.changes)} base parameters compared, family-wise error {self.level:.0%}"
        if not self.changes:
            return "Nothing could be compared: the two results share no parameter with an error bar."
        if not self.changed:
            return f"No significant change of '{self.robot}' ({tested}). Changes below the error bars cannot be seen."
        said = f"'{self.robot}' has changed: {', '.join(self.changed)} ({tested})."
        unknown = (*self.only_before, *self.only_after, *self.untested)
        # what one fit leaves out, others carry for it
        return said + (f" Not compared, and perhaps carried by these: {', '.join(unknown)}." if unknown else "")


def compare(before: Identification, after: Identification, level: float = 0.05) -> Comparison:
    """Integrity test after a shock, a repair or wear (P0 §I).

    The two experiments are independent, so σ² = σ_b² + σ_a² with the leave-one-block-out error bars of both; p from
    Student's t on min(clusters) − 1 degrees of freedom; Holm's step-down keeps the chance of *any* false alarm at
    `level`:  p_(i) ← max_{j ≤ i} min(1, (m − j + 1) p_(j)).
    """
    if before.robot != after.robot or before.base.layout.names != after.base.layout.names:
        differing = sorted(set(before.base.layout.names) ^ set(after.base.layout.names))
        columns = f" Columns in one only: {', '.join(differing[:10])}." if differing else ""
        raise EstimationError(
            f"Results of robot '{before.robot}' and '{after.robot}' cannot be compared: both must be of one robot with "
            f"the same terms.{columns}"
        )
    known = [[name for name in x.base.names if name not in x.cancelled] for x in (before, after)]
    names = [name for name in known[0] if name in known[1]]
    one, two = ([x.base.names.index(name) for name in names] for x in (before, after))
    value_b, value_a = before.value[one], after.value[two]
    difference, std = value_a - value_b, np.hypot(before.std[one], after.std[two])
    alike = np.all(np.abs(before.base.map[one] - after.base.map[two]) < 1e-6, axis=1)
    tested = np.flatnonzero(np.isfinite(std) & np.isfinite(difference) & alike)
    floor = np.maximum(_ROUNDING * np.maximum(np.abs(value_b), np.abs(value_a)), np.finfo(float).tiny)
    ratio = difference[tested] / np.maximum(std, floor)[tested]
    clusters = min(before.clusters, after.clusters)
    freedom = float(clusters - 1) if clusters else np.inf
    p = 2.0 * student.sf(np.abs(ratio), freedom)
    units = dict(zip(before.base.names, before.base.units, strict=True))
    changes = [
        Change(names[k], units[names[k]], *map(float, (value_b[k], value_a[k], difference[k], std[k], t, alone, joint)))
        for k, t, alone, joint in zip(tested, ratio, p, holm(p), strict=True)
    ]
    return Comparison(
        before.robot,
        tuple(changes),
        tuple(name for name in known[0] if name not in known[1]),
        tuple(name for name in known[1] if name not in known[0]),
        tuple(name for k, name in enumerate(names) if k not in tested),
        freedom,
        level,
    )


def holm(p: Array) -> Array:
    """Holm's step-down adjusted p values (m,)."""
    order = np.argsort(p)
    steps = np.minimum(1.0, (len(p) - np.arange(len(p))) * p[order])
    out = np.empty_like(p)
    out[order] = np.maximum.accumulate(steps)
    return out
