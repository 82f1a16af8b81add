"""Weighted least squares with a prior: shared by `map` and `ridge`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators.estimator import Estimate
from steelyard.estimators.least_squares import joint_deviations, solve
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters
from steelyard.regression.folds import guarded_folds
from steelyard.regression.information import Information, stacked, triangular

WEIGHTS = tuple(10.0**k for k in np.arange(-6.0, 4.01, 0.5))
FOLDS = 10


def checked_weight(weight: float | None) -> None:
    """The weight; raises an error unless it is positive. None means that it is chosen from the data."""
    if weight is not None and not 0.0 < weight <= 1e12:
        raise EstimationError(f"The weight of a prior must be positive and at most 1e12, not {weight!r}.")


def regularised(
    information: Information,
    base: BaseParameters,
    prior: Array,
    weight: float | None,
    weights: Array | None = None,
    believed: Array | None = None,
) -> Estimate:
    """WLS with the rows [P | p] of a prior, in units of their standard deviation, times √weight.

    θ̂ = (A + w PᵀP)⁻¹ (Wᵀy + w Pᵀp): an error of the prior's mean also affects θ̂, so the covariance is that of the
    data (leave-one-block-out) plus that of the prior, H Hᵀ with H = (A + w PᵀP)⁻¹ w PᵀP B⁺. B are the rows of the
    prior whose widths describe the error of its mean: `believed`, by default P itself. `weights` (n,) of the joints'
    rows, by default 1/σ_j.
    """
    weights = 1.0 / joint_deviations(information, base) if weights is None else weights
    findings: tuple[Finding, ...] = ()
    if weight is None:
        weight, findings = chosen_weight(information, base, weights, prior)
    found = solve(information, base, weights, prior=np.sqrt(weight) * prior)
    excited = np.flatnonzero(np.isfinite(found.value))
    weights = np.where(np.isfinite(weights), weights, 0.0)
    data = stacked(information, np.array(base.kept)[excited], weights)[:, :-1]
    rows = np.sqrt(weight) * prior[:, excited]
    together = triangular(np.concatenate([data, rows]))
    inverse = np.asarray(np.linalg.solve(together[: len(excited)], np.eye(len(excited))), float)
    moved = np.sqrt(weight) * inverse @ inverse.T @ rows.T
    if believed is not None:
        moved = moved @ prior[:, excited] @ np.linalg.pinv(believed[:, excited])
    covariance = found.covariance.copy()
    covariance[np.ix_(excited, excited)] += moved @ moved.T
    leaning = _leaning([base.names[k] for k in excited], rows, inverse)
    return replace(found, covariance=covariance).with_findings((*findings, *leaning))


def chosen_weight(
    information: Information, base: BaseParameters, weights: Array, prior: Array
) -> tuple[float, tuple[Finding, ...]]:
    """The largest of WEIGHTS whose cross-validated error is within one standard error of the smallest."""
    weights = np.where(np.isfinite(weights), weights, 0.0)
    parted = guarded_folds(information, information.clusters(FOLDS))
    if len(parted) < 3:
        raise EstimationError(
            "Too few blocks of time to choose the weight of the prior by cross-validation: set weight, or record "
            "longer."
        )
    folds, others = (
        [stacked(information, base.kept, weights, times) for times in side] for side in zip(*parted, strict=True)
    )
    errors = np.array(
        [[_left_out(rest, fold, np.sqrt(w) * prior) for rest, fold in zip(others, folds, strict=True)] for w in WEIGHTS]
    )
    mean = errors.mean(axis=1)
    best = int(mean.argmin())
    # paired with the best: the blocks differ far more from each other than the weights do
    spread = (errors - errors[best]).std(axis=1, ddof=1) / np.sqrt(len(folds))
    good = [k for k in range(len(WEIGHTS)) if mean[k] <= mean[best] + spread[k]]
    weight = WEIGHTS[max(good)]
    message = (
        f"the weight of the prior, {weight:.3g}, was chosen by cross-validation over {len(folds)} blocks of time "
        f"(squared error per block {mean[max(good)]:.4g} in units of σ_j², {mean[0]:.4g} at weight {WEIGHTS[0]:.3g})"
    )
    if weight == WEIGHTS[0]:
        advice = "the prior contradicts the data: check the robot file, its units and the widths, or use wls"
        return weight, (Finding("prior-weight", "warning", message, fix=advice),)
    return weight, (Finding("prior-weight", "info", message),)


def corner_weight(
    information: Information, base: BaseParameters, weights: Array, prior: Array
) -> tuple[float, tuple[Finding, ...]]:
    """The one of WEIGHTS at the corner of the L-curve, log ‖y − Wθ‖² over log ‖p − Pθ‖²: the largest curvature.

    The curvature is that of the circle through three neighbouring points, 4 · area / product of the sides, positive
    towards the origin.
    """
    data = stacked(information, base.kept, np.where(np.isfinite(weights), weights, 0.0))
    points = []
    for weight in WEIGHTS:
        whole = triangular(np.concatenate([data, np.sqrt(weight) * prior]))
        theta = np.append(-np.linalg.lstsq(whole[:-1, :-1], whole[:-1, -1], rcond=None)[0], 1.0)
        points.append([np.log(max(float(np.sum((rows @ theta) ** 2)), 1e-300)) for rows in (data, prior)])
    before, here, after = np.array(points[:-2]), np.array(points[1:-1]), np.array(points[2:])
    first, second = here - before, after - here
    area = first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]
    sides = np.prod([np.linalg.norm(x, axis=1) for x in (first, second, after - before)], axis=0)
    bend = 2.0 * area / np.maximum(sides, 1e-300)
    weight = WEIGHTS[1 + int(bend.argmax())]
    message = (
        f"the weight of the prior, {weight:.3g}, is at the corner of the L-curve ({len(WEIGHTS)} weights were tried)"
    )
    if bend.max() <= 0.0:
        advice = "the L-curve has no corner: set weight, or use weight = 'cross-validation'"
        return weight, (Finding("prior-weight", "warning", message, fix=advice),)
    return weight, (Finding("prior-weight", "info", message),)


def _left_out(others: Array, fold: Array, prior: Array) -> float:
    """Squared weighted residual of a fold with the parameters from all others and the prior."""
    whole = triangular(np.concatenate([others, prior]))
    theta = np.linalg.lstsq(whole[:-1, :-1], whole[:-1, -1], rcond=None)[0]
    rest = fold[:, :-1] @ theta - fold[:, -1]
    return float(rest @ rest)


def _leaning(names: Sequence[str], prior: Array, inverse: Array) -> tuple[Finding, ...]:
    """Which parameters the prior decides: its fraction of their information, [ (A + P)⁻¹ P ]_ii between 0 and 1."""
    pulled = prior @ inverse
    share = np.einsum("ij,ij->i", inverse @ pulled.T, prior.T)
    blind = [name for name, part in zip(names, share, strict=True) if part > 0.5]
    if not blind:
        return ()
    message = f"{len(blind)} base parameters are hardly determined by the data and follow the prior: {', '.join(blind)}"
    return (Finding("prior-dominates", "info", message, fix="move the joints concerned faster, further and together"),)
