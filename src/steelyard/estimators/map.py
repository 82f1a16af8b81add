"""Weighted least squares with a prior: maximum a posteriori."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from steelyard.base_parameters import BaseParameters
from steelyard.errors import EstimationError
from steelyard.estimators.estimator import Estimate
from steelyard.estimators.least_squares import joint_deviations, solve
from steelyard.findings import Finding
from steelyard.information import Information, stacked, triangular
from steelyard.parameters import Array
from steelyard.prior import Widths, nominal_prior

WEIGHTS = tuple(10.0**k for k in np.arange(-2.0, 4.01, 0.5))
FOLDS = 10


@final
@dataclass(frozen=True)
class MAP:
    """Weighted least squares with the robot file's nominal values as a prior.

    θ̂ = argmin Σ_j ‖y_j − W_j θ‖² / σ_j² + weight · ‖D⁻¹(θ − θ_nominal)‖²

    `weight` None is chosen inside the data: ten blocks of time are left out in turn, and the largest weight is taken
    whose error is within one standard error of the smallest. D holds the `widths`.
    """

    weight: float | None = None
    widths: Widths = Widths()
    name: ClassVar[str] = "map"

    def __post_init__(self) -> None:
        if self.weight is not None and not (np.isfinite(self.weight) and self.weight > 0):
            raise EstimationError(f"The weight of a prior must be positive, not {self.weight!r}.")

    def estimate(self, base: BaseParameters, information: Information) -> Estimate:
        rows = nominal_prior(base.layout, self.widths).in_base(base)
        weights = 1.0 / joint_deviations(information, base)
        if self.weight is None:
            weight, findings = chosen_weight(information, base, weights, rows)
        else:
            weight, findings = self.weight, ()
        found = solve(information, base, weights, prior=np.sqrt(weight) * rows)
        excited = np.flatnonzero(np.isfinite(found.value))
        return found.with_findings((*findings, *_leaning(base, information, weights, np.sqrt(weight) * rows, excited)))


def chosen_weight(
    information: Information, base: BaseParameters, weights: Array, prior: Array
) -> tuple[float, tuple[Finding, ...]]:
    """The largest of WEIGHTS whose cross-validated error is within one standard error of the smallest."""
    weights = np.where(np.isfinite(weights), weights, 0.0)
    folds = [stacked(information, base.kept, weights, times) for times in information.clusters(FOLDS)]
    if len(folds) < 3:
        raise EstimationError(
            "Too few blocks of time to choose the prior's weight by cross-validation: state a weight, or record longer."
        )
    errors = np.array([[_left_out(folds, g, np.sqrt(w) * prior) for g in range(len(folds))] for w in WEIGHTS])
    mean = errors.mean(axis=1)
    best = int(mean.argmin())
    # paired with the best: the blocks differ far more among themselves than the weights do
    spread = (errors - errors[best]).std(axis=1, ddof=1) / np.sqrt(len(folds))
    good = [k for k in range(len(WEIGHTS)) if mean[k] <= mean[best] + spread[k]]
    weight = WEIGHTS[max(good)]
    message = (
        f"the prior's weight {weight:.3g} was chosen by leaving out {len(folds)} blocks of time in turn "
        f"(mean squared error {mean[max(good)]:.4g} in units of σ_j², {mean[0]:.4g} at weight {WEIGHTS[0]:.3g})"
    )
    return weight, (Finding("prior-weight", "info", message),)


def _left_out(folds: Sequence[Array], g: int, prior: Array) -> float:
    """Mean squared weighted residual of fold g with the parameters of all others and the prior."""
    others = triangular(np.concatenate([*(fold for k, fold in enumerate(folds) if k != g), prior]))
    theta = np.linalg.lstsq(others[:-1, :-1], others[:-1, -1], rcond=None)[0]
    rest = folds[g][:, :-1] @ theta - folds[g][:, -1]
    return float(rest @ rest)


def _leaning(
    base: BaseParameters, information: Information, weights: Array, prior: Array, excited: NDArray[np.intp]
) -> tuple[Finding, ...]:
    """Which parameters the prior decides: its share of their information, from the data's triangle with and without."""
    weights = np.where(np.isfinite(weights), weights, 0.0)
    data = stacked(information, np.array(base.kept)[excited], weights)[:, :-1]
    prior = prior[:, excited]
    together = triangular(np.concatenate([data, prior]))
    inverse = np.linalg.solve(together[: len(excited)], np.eye(len(excited)))
    pulled = prior @ inverse
    # share_i = [ (A + P)⁻¹ P ]_ii, between 0 (all data) and 1 (all prior)
    share = np.einsum("ij,ij->i", inverse @ pulled.T, prior.T)
    blind = [base.names[k] for k, part in zip(excited, share, strict=True) if part > 0.5]
    if not blind:
        return ()
    message = f"the data is nearly blind to {len(blind)} base parameters, which the prior decides: {', '.join(blind)}"
    return (Finding("prior-decides", "info", message, fix="move the joints concerned faster, further and together"),)
