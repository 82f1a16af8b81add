"""Essential parameters: base parameters that the data do not need are cancelled one by one (P0 §III)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple, final

import numpy as np
from scipy.linalg import solve_triangular
from scipy.stats import f as fisher
from scipy.stats import t as student

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators.estimator import Estimate, Estimator
from steelyard.estimators.least_squares import DATA_TOLERANCE, joint_deviations, solve, wider
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters, independent_columns
from steelyard.regression.folds import guarded_folds
from steelyard.regression.information import Information, stacked, triangular
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem
from steelyard.regression.statistics import holm

FOLDS = 10
# A cancelled parameter beyond this many robust σ, significant among all that were cancelled, is not zero; a larger
# relative rise of the residual means that something is missing.
SURE, SIGNIFICANT, MOST_RISE = 3.0, 0.02, 0.03
# A residual below this fraction of the effort is rounding.
ROUNDING = 1e-9
Stop = Literal["ratio", "f-test", "cross-validation"]


class Step(NamedTuple):
    """One cancellation: the parameter's index among the base parameters, its relative σ and the residual after it."""

    parameter: int
    relative_std: float
    residual: float


@final
@dataclass(frozen=True)
class Essential(Estimator):
    """Weighted least squares on essential parameters: the least certain base parameters are cancelled one by one.

    Each time the parameter with the largest classical σ_i/|θ_i| is cancelled and the least squares solved again, until
        stop = "ratio"              max(σ_i/|θ_i|) ≤ ratio · min(σ_i/|θ_i|), ratio 10 to 30          (P0 §III)
        stop = "f-test"             another cancellation would raise ‖ρ‖² significantly: F > F_{1−α}(k, r − b)
        stop = "cross-validation"   the error on left-out blocks of time is smallest
    A parameter with a relative σ below `certain` is never cancelled, whatever the ratio.
    σ is classical here, as in the papers, because the ratio compares parameters with each other. The error bars of the
    result are not classical; they contain the change of the values, and are at least those of the full model.
    """

    ratio: float = 30.0
    stop: Stop = "ratio"
    significance: float = 0.05
    certain: float = 0.01
    name: ClassVar[str] = "essential"

    def __post_init__(self) -> None:
        if not self.ratio >= 1.0:
            raise EstimationError(f"ratio must be at least 1 (the papers use 10 to 30), not {self.ratio}.")
        if self.stop not in ("ratio", "f-test", "cross-validation"):
            raise EstimationError(f"stop must be ratio, f-test or cross-validation, not '{self.stop}'.")
        if not self.certain >= 0.0:
            raise EstimationError(f"certain must be zero or positive (a relative σ), not {self.certain}.")
        if not 0.0 < self.significance < 1.0:
            raise EstimationError(f"significance must be between 0 and 1, not {self.significance}.")

    def estimate(
        self, problem: Problem | None, base: BaseParameters, information: Information, progress: Progress | None = None
    ) -> Estimate:
        weights = 1.0 / joint_deviations(information, base)
        known = np.where(np.isfinite(weights), weights, 0.0)
        whole = stacked(information, base.kept, known)
        free = list(independent_columns(whole[:, :-1], DATA_TOLERANCE).kept)
        rows = int(information.rows()[known > 0].sum())
        steps = eliminate(whole, free, rows, self.ratio if self.stop == "ratio" else None, self.certain)
        full = _residual(whole, free)
        if self.stop == "f-test":
            steps = _until_significant(steps, full, rows - len(free), self.significance)
        elif self.stop == "cross-validation":
            folds = [
                (stacked(information, base.kept, known, fold.scored), stacked(information, base.kept, known, fold.kept))
                for fold in guarded_folds(information, information.clusters(FOLDS))
            ]
            steps = _until_best(steps, folds, free)
        cancelled = np.zeros(len(base), bool)
        cancelled[[step.parameter for step in steps]] = True
        found = solve(information, base, weights, cancelled=cancelled)
        if not steps:
            return found.with_findings(_findings(base, steps, full, self.stop))
        effort = float(np.linalg.norm(whole[:, -1]))
        fitted = solve(information, base, weights)
        found = replace(found, covariance=_with_omitted(found, fitted))
        told = (*_findings(base, steps, full, self.stop), *_doubts(base, steps, full, fitted, effort))
        return found.with_findings(told)


def eliminate(
    whole: Array, free: Sequence[int], rows: int, ratio: float | None, certain: float = 0.0
) -> tuple[Step, ...]:
    """Cancellations in order, from the weighted triangle [R | z; 0 | ρ] over the base columns: until the ratio
    holds or, without one, down to a single parameter.

    Each cancellation drops a column of the triangle and makes it triangular again: the least squares is solved without
    another pass over the data.
    """
    left = list(free)
    r = triangular(whole[:, [*left, -1]])
    steps: list[Step] = []
    while len(left) > 1:
        n = len(left)
        w, z = r[:n, :n], r[:n, -1]
        theta = solve_triangular(w, z)
        inverse = solve_triangular(w, np.eye(n))
        variance = r[n, n] ** 2 / max(rows - n, 1) if len(r) > n else 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.sqrt(variance * np.sum(inverse**2, axis=1)) / np.abs(theta)
        relative = np.nan_to_num(relative, nan=np.inf)
        if relative.max() <= certain or (ratio is not None and relative.max() <= ratio * relative.min()):
            break
        worst = int(relative.argmax())
        r = triangular(np.delete(r, worst, axis=1))
        steps.append(Step(left.pop(worst), float(relative[worst]), float(abs(r[n - 1, n - 1]))))
    return tuple(steps)


def _residual(whole: Array, columns: Sequence[int]) -> float:
    r = triangular(whole[:, [*columns, -1]])
    return float(abs(r[len(columns), -1])) if len(r) > len(columns) else 0.0


def _until_significant(steps: Sequence[Step], full: float, freedom: int, significance: float) -> tuple[Step, ...]:
    """Cancellations before the residual first exceeds F_{1−α}(k, r − b) against the full model."""
    for k, step in enumerate(steps, start=1):
        increase = (step.residual**2 - full**2) / k
        if increase > fisher.ppf(1.0 - significance, k, freedom) * full**2 / freedom:
            return tuple(steps[: k - 1])
    return tuple(steps)


def _until_best(steps: Sequence[Step], folds: Sequence[tuple[Array, Array]], free: Sequence[int]) -> tuple[Step, ...]:
    """The number of cancellations with the smallest squared error on folds left out in turn: pairs of the rows of a
    fold, and of those that its fit keeps."""
    if len(folds) < 3:
        raise EstimationError(
            'Too few blocks of time to stop by cross-validation: use stop = "ratio", or record longer.'
        )
    errors = []
    left = list(free)
    for step in (None, *steps):
        if step is not None:
            left.remove(step.parameter)
        total = 0.0
        for fold, other in folds:
            theta = np.linalg.lstsq(other[:, left], other[:, -1], rcond=None)[0]
            total += float(np.sum((fold[:, left] @ theta - fold[:, -1]) ** 2))
        errors.append(total)
    return tuple(steps[: int(np.argmin(errors))])


def _with_omitted(found: Estimate, whole: Estimate) -> Array:
    """D C D such that σ_i² is at least that of the full model and σ_i² + (θ̂_i − θ̂_full,i)²: the mean square error of a
    value that absorbs the cancelled parameters."""
    moved = np.diagonal(found.covariance) + (found.value - whole.value) ** 2
    return wider(found.covariance, np.diag(np.fmax(moved, np.diagonal(whole.covariance))))


def _doubts(
    base: BaseParameters, steps: Sequence[Step], full: float, whole: Estimate, effort: float
) -> tuple[Finding, ...]:
    """Cancelled parameters that are not zero, and a residual that rises too much: the others absorb what is missing."""
    if full <= ROUNDING * effort:
        return ()
    gone = [step.parameter for step in steps]
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.abs(whole.value[gone]) / np.sqrt(np.diagonal(whole.covariance)[gone])
    freedom = whole.clusters - 1 if whole.clusters else np.inf
    p = holm(2.0 * student.sf(np.nan_to_num(t), freedom))
    sure = [base.names[k] for k, size, chance in zip(gone, t, p, strict=True) if size > SURE and chance < SIGNIFICANT]
    rise = steps[-1].residual / full - 1.0 if full else 0.0
    if not sure and rise <= MOST_RISE:
        return ()
    parts = [f"the weighted residual rises by {rise:.1%}"] if rise > MOST_RISE else []
    parts += [f"cancelled, but beyond {SURE:g} σ: {', '.join(sure)}"] if sure else []
    message = "; ".join(parts) + ". The other parameters absorb their effect, which the error bars do not contain"
    advice = 'use a larger ratio, stop = "f-test", or the estimator wls'
    return (Finding("essential-biased", "warning", message, fix=advice),)


def _findings(base: BaseParameters, steps: Sequence[Step], full: float, stop: str) -> tuple[Finding, ...]:
    if not steps:
        return (Finding("essential-parameters", "info", f"no base parameter was cancelled (stop: {stop})"),)
    rise = steps[-1].residual / full - 1.0 if full else 0.0
    order = ", ".join(f"{base.names[s.parameter]} ({s.relative_std:.0%})" for s in steps)
    message = (
        f"{len(base) - len(steps)} essential parameters; {len(steps)} cancelled (stop: {stop}), which increases the "
        f"weighted residual by {rise:.2%}; in order, with their relative σ: {order}"
    )
    return (Finding("essential-parameters", "info", message),)
