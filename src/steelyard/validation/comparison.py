"""Integrity test: whether a robot has changed between two identifications."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from scipy.stats import t as student

from steelyard.errors import EstimationError
from steelyard.identification.result import Identification
from steelyard.regression.statistics import holm

# A difference below this fraction of the value is rounding, whatever the error bars.
_ROUNDING = 1e-9
_GAIN = ".gain"


@dataclass(frozen=True)
class ParameterChange:
    """A base parameter or drive gain before and after: t = (after − before)/√(σ_b² + σ_a²), its p, and p by Holm."""

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
    """Test for a change of a robot: base parameters and drive gains of two identifications, tested together.

    `changes`: every parameter with an error bar in both. `only_before`, `only_after`: names missing in the other.
    `untested`: named in both, but not excited, without error bar, or a different linear combination in each.
    `gains_only`: the one result with identified drive gains, where the other used the stated ones.
    """

    robot: str
    changes: tuple[ParameterChange, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    untested: tuple[str, ...]
    freedom: float
    level: float = 0.05
    gains_only: Literal["", "before", "after"] = ""
    changed: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        found = sorted((c.p_holm, c.name) for c in self.changes if c.p_holm < self.level)
        object.__setattr__(self, "changed", tuple(name for _, name in found))

    @property
    def verdict(self) -> str:
        gains = sum(change.name.endswith(_GAIN) for change in self.changes)
        counted = f"{len(self.changes) - gains} base parameters" + (f" and {gains} drive gains" if gains else "")
        tested = f"{counted} compared, family-wise error {self.level:.0%}"
        if not self.changes:
            return "Nothing can be compared: the two results have no common parameter with an error bar."
        if not self.changed:
            said = (
                f"No significant change of '{self.robot}' ({tested}). Changes below the error bars cannot be detected."
            )
            return said + self._one_sided
        said = f"'{self.robot}' has changed: {', '.join(self.changed)} ({tested})."
        unknown = (*self.only_before, *self.only_after, *self.untested)
        # the effect of a parameter that one fit leaves out is included in others
        said += f" Not compared, possibly confused with these: {', '.join(unknown)}." if unknown else ""
        return said + self._one_sided

    @property
    def _one_sided(self) -> str:
        if not self.gains_only:
            return ""
        return (
            f" Drive gains were identified {self.gains_only} only: if the stated gains of the other result are wrong, "
            "its parameters differ in proportion although the robot did not change."
        )


class Row(NamedTuple):
    """A value that two results can share: its name, unit, value and σ, and the combination it represents: column →
    coefficient.

    A drive gain represents itself and the gear ratio that it does not include.
    """

    name: str
    unit: str
    value: float
    std: float
    meaning: dict[str, float]


def compared_rows(result: Identification) -> tuple[Row, ...]:
    """The values of a result to compare: base parameters, then drive gains as `joint.gain`."""
    base = zip(
        result.base.names, result.base.units, result.value.tolist(), result.std.tolist(),
        result.base.regroupings.values(), strict=True,
    )  # fmt: skip
    rows, gains = tuple(Row(*row) for row in base), result.gains
    if gains is None:
        return rows
    ratios = gains.drives.ratio if gains.drives is not None else (1.0,) * len(gains.joints)
    values = zip(gains.joints, gains.units, gains.value.tolist(), gains.std.tolist(), ratios, strict=True)
    return (*rows, *(Row(joint + _GAIN, unit, x, std, {"ratio": ratio}) for joint, unit, x, std, ratio in values))


def compare(before: Identification, after: Identification, level: float = 0.05) -> Comparison:
    """Integrity test after a collision, a repair or wear (P0 §I).

    The two experiments are independent, so σ² = σ_b² + σ_a² with the leave-one-block-out error bars of both; p from
    Student's t on min(clusters) − 1 degrees of freedom; Holm's step-down keeps the probability of *any* false alarm at
    `level`:  p_(i) ← max_{j ≤ i} min(1, (m − j + 1) p_(j)).
    """
    own = [[c.name for c in x.base.layout.columns if c.kind != "payload"] for x in (before, after)]
    if before.robot != after.robot or own[0] != own[1]:
        differing = sorted(set(own[0]) ^ set(own[1]))
        columns = f" Columns in one result only: {', '.join(differing[:10])}." if differing else ""
        raise EstimationError(
            f"Results of robot '{before.robot}' and '{after.robot}' cannot be compared: both must be results of the "
            f"same robot with the same terms.{columns}"
        )
    known = [{row.name: row for row in compared_rows(x) if row.name not in x.cancelled} for x in (before, after)]
    pairs = [(row, known[1][name]) for name, row in known[0].items() if name in known[1]]
    testable = [(one, two) for one, two in pairs if _testable(one, two)]
    value_b, value_a = (np.array([pair[k].value for pair in testable]) for k in (0, 1))
    difference = value_a - value_b
    std = np.array([np.hypot(one.std, two.std) for one, two in testable])
    floor = np.maximum(_ROUNDING * np.maximum(np.abs(value_b), np.abs(value_a)), np.finfo(float).tiny)
    ratio = difference / np.maximum(std, floor)
    clusters = min(before.clusters, after.clusters)
    freedom = float(clusters - 1) if clusters else np.inf
    p = 2.0 * student.sf(np.abs(ratio), freedom)
    changes = [
        ParameterChange(row.name, row.unit, *map(float, numbers))
        for (row, _), *numbers in zip(testable, value_b, value_a, difference, std, ratio, p, holm(p), strict=True)
    ]
    tested = {change.name for change in changes}
    sides: dict[tuple[bool, bool], Literal["before", "after"]] = {(True, False): "before", (False, True): "after"}
    return Comparison(
        before.robot,
        tuple(changes),
        tuple(name for name in known[0] if name not in known[1]),
        tuple(name for name in known[1] if name not in known[0]),
        tuple(one.name for one, _ in pairs if one.name not in tested),
        freedom,
        level,
        sides.get((before.gains is not None, after.gains is not None), ""),
    )


def _testable(one: Row, two: Row) -> bool:
    """Whether both have a value and an error bar and represent the same combination."""
    parts = {*one.meaning, *two.meaning}
    same = all(abs(one.meaning.get(part, 0.0) - two.meaning.get(part, 0.0)) < 1e-6 for part in parts)
    finite = np.isfinite([one.value, two.value, one.std, two.std]).all()
    return bool(same and finite and one.unit == two.unit)
