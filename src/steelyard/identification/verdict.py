"""Verdict: what an identification explains and what it does not, as data and as one or two sentences."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from steelyard.model.parameters import Layout
from steelyard.regression.scores import Score

# A joint whose relative error is above this is not explained: more of its effort is left than is predicted away.
UNEXPLAINED = 0.5
# The errors of two models within this factor are equal: where the robot file is already right, a fit has its noise on
# top, by the share of parameters in rows.
EQUAL = 1.05
# With fewer rows per base parameter, one more motion is worth more than any setting.
FEW_ROWS = 10.0

Kind = Literal["unseen", "expected", "fitted"]
# Columns that are efforts, so that their unit is that of the joint.
_EFFORT_SYMBOLS = ("off", "Fc", "Fcp", "Fcn")


def worse(error: float, other: float) -> bool:
    """Whether an error is larger than another beyond the noise of a fit; NaN is."""
    return not error <= EQUAL * other


@dataclass(frozen=True)
class JointError:
    """The error of one joint: RMS `error` and `effort` [`unit`], their ratio `relative`, and the number of rows.

    `explained` is None where the joint has no rows.
    """

    joint: str
    error: float
    effort: float
    unit: str
    relative: float
    rows: int

    @property
    def explained(self) -> bool | None:
        return None if not self.rows else bool(self.relative <= UNEXPLAINED)

    def __str__(self) -> str:
        return f"{self.joint} (error {self.error:.3g} {written(self.unit)}, {self.relative:.0%})"


@dataclass(frozen=True)
class FitVerdict:
    """What a fit explains: on unseen motion if there is any, else as expected on other motion, else where it was
    fitted.

    kind         the rows that are judged
    relative     ‖y − Wθ‖/‖y‖ over all joints on these rows
    error        unit → RMS error of all rows of the joints with this unit
    joints       the same per joint
    fitted       relative error on the fitted rows; `nominal` of the nominal model on the judged (or fitted) rows
    known        of `parameters` base (or essential) parameters, how many are known to better than half their value
    left_out     joints without rows, since their effort is constant
    unmoved      joints without rows for another reason: they hardly moved
    rows_each    rows per parameter; below FEW_ROWS more motion is needed
    repeated     all unseen runs repeat the fitted motion
    """

    kind: Kind
    relative: float
    error: dict[str, float]
    joints: tuple[JointError, ...]
    fitted: float
    nominal: float | None
    known: int
    parameters: int
    essential: bool
    left_out: tuple[str, ...]
    rows_each: float
    repeated: bool = False
    unmoved: tuple[str, ...] = ()

    @property
    def unexplained(self) -> tuple[JointError, ...]:
        """Joints with more than half of their effort left, the worst first."""
        return worst_first(self.joints)

    @property
    def needs_more_motion(self) -> bool:
        return self.rows_each < FEW_ROWS

    @property
    def text(self) -> str:
        """One or two sentences; "explains" is 1 − ‖y − Wθ‖/‖y‖ on the rows named."""
        share, fitted = explained(self.relative), explained(self.fitted)
        nominal = (
            "no nominal inertias to compare with"
            if self.nominal is None
            else f"nominal model {explained(self.nominal)}"
        )
        error = "error " + " and ".join(f"{size:.3g} {written(unit)}" for unit, size in self.error.items())
        if self.kind == "unseen":
            where = "a repetition of the fitted motion" if self.repeated else "unseen motion"
            said = f"Explains {share} of the effort on {where} ({error}; fitted {fitted}, {nominal})"
        elif self.kind == "expected":
            said = (
                f"Expected to explain {share} of the effort on other motion ({error}; fitted {fitted}, {nominal}; no "
                "unseen motion was scored)"
            )
        else:
            said = (
                f"Explains {share} of the effort where it was fitted ({error}; {nominal}; no unseen motion was scored)"
            )
        if self.unexplained:
            said += f", but not that of {listed(self.unexplained)}"
        if self.left_out:
            said += f" ({', '.join(self.left_out)} left out: constant effort)"
        if self.unmoved:
            said += f"; {', '.join(self.unmoved)} did not move: motor and friction there are not known"
        kind = "essential" if self.essential else "base"
        said += f". {self.known} of {self.parameters} {kind} parameters are known to better than half their value"
        if self.needs_more_motion:
            said += f"; {self.rows_each:.2g} rows per parameter are few: record more motion"
        return f"{said}."


def judged(
    layout: Layout,
    scores: Mapping[Kind, Score],
    nominal: Score | None,
    counts: tuple[int, int],
    essential: bool,
    silent: Collection[str],
    repeated: bool,
) -> FitVerdict:
    """The verdict from the scores by kind; the best available kind is judged.

    `counts`: parameters known to better than half their value, and all that were not cancelled. `silent` are joints of
    constant effort; `repeated`: all unseen runs repeat the fitted motion.
    """
    kind: Kind = next(kind for kind in ("unseen", "expected", "fitted") if kind in scores)
    score = scores[kind]
    joints = tuple(joint_errors(layout, score))
    rows = sum(scores["fitted"].rows.values())
    empty = [joint for joint, n in scores["fitted"].rows.items() if not n]
    return FitVerdict(
        kind=kind,
        relative=score.total,
        error=errors_by_unit(joints),
        joints=joints,
        fitted=scores["fitted"].total,
        nominal=None if nominal is None else nominal.total,
        known=counts[0],
        parameters=counts[1],
        essential=essential,
        left_out=tuple(joint for joint in empty if joint in silent),
        unmoved=tuple(joint for joint in empty if joint not in silent),
        rows_each=rows / max(counts[1], 1),
        repeated=repeated and kind == "unseen",
    )


def joint_errors(layout: Layout, score: Score) -> list[JointError]:
    """The errors of a score with their units."""
    return [
        JointError(joint, score.rmse[joint], score.effort[joint], effort_unit(layout, joint), share, score.rows[joint])
        for joint, share in score.joints.items()
    ]


def errors_by_unit(joints: Sequence[JointError]) -> dict[str, float]:
    """RMS error over all rows of the joints of each unit: newtons and newton metres are not added."""
    out = {}
    for unit in dict.fromkeys(joint.unit for joint in joints):
        own = [joint for joint in joints if joint.unit == unit and joint.rows]
        rows = sum(joint.rows for joint in own)
        if rows:
            out[unit] = float(np.sqrt(sum(joint.error**2 * joint.rows for joint in own) / rows))
    return out


def effort_unit(layout: Layout, joint: str) -> str:
    """`N.m` or `N` if the layout says which, else both."""
    for column in layout.columns:
        if column.owner == joint and column.symbol in _EFFORT_SYMBOLS:
            return column.unit
    return "N.m | N"


def explained(relative_error: float) -> str:
    """The explained fraction of the effort for a relative error, as text."""
    return f"{max(0.0, 1 - relative_error):.1%}" if np.isfinite(relative_error) else "nothing"


def written(unit: str) -> str:
    """A unit as people write it."""
    return unit.replace("N.m", "N·m")


def worst_first(joints: Sequence[JointError]) -> tuple[JointError, ...]:
    """The joints that are not explained."""
    return tuple(sorted((j for j in joints if j.explained is False), key=lambda j: -j.relative))


def listed(joints: Sequence[JointError]) -> str:
    """Joints with their errors, as text."""
    return " and ".join(filter(None, [", ".join(map(str, joints[:-1])), str(joints[-1])]))
