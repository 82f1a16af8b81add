"""Huber: weighted least squares that is robust to stretches of time with an outlier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, final

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators.estimator import Estimate, Estimator
from steelyard.estimators.least_squares import DATA_TOLERANCE, joint_deviations, solve
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters
from steelyard.regression.information import BlockKey, Information, stacked
from steelyard.regression.observe import Progress
from steelyard.regression.outliers import block_residuals, weighted
from steelyard.regression.problem import Problem

THRESHOLD = 4.0
# Iterations end when θ changes by less than this many standard deviations, in any direction.
TOLERANCE, MOST_ITERATIONS = 1e-4, 100
# Above this fraction of down-weighted blocks they are not outliers; and the number of blocks reported individually.
FEW, MOST_REPORTED = 0.1, 8


@final
@dataclass(frozen=True)
class Huber(Estimator):
    """Weighted least squares in which a block that fits badly gets a lower weight (Huber's weights on whole blocks).

    θ̂ = argmin Σ_j Σ_g r_gj ρ(e_gj / s_j) s_j²/σ_j²,   ρ(x) = x²/2 below k = `threshold`, k|x| − k²/2 above

    e_gj is the RMS residual of joint j in time block g of r_gj rows, s_j the median of e_gj over the blocks, σ_j the
    deviation of the weighted rows. Solved by reweighting: w_gj = min(1, k s_j / e_gj). With no block above the
    threshold it equals `wls` bit for bit.
    """

    threshold: float = THRESHOLD
    name: ClassVar[str] = "huber"

    def __post_init__(self) -> None:
        if not 1.0 <= self.threshold < np.inf:
            raise EstimationError(
                f"threshold must be at least 1 (times the usual residual of a block), not {self.threshold!r}."
            )

    def estimate(
        self, problem: Problem | None, base: BaseParameters, information: Information, progress: Progress | None = None
    ) -> Estimate:
        fit = robust_fit(base, information, self.threshold)
        found = solve(fit.information, base, 1.0 / joint_deviations(fit.information, base))
        assert found.refit is not None
        refit = replace(found.refit, information=fit.information)
        return replace(found, refit=refit).with_findings(_findings(fit))


class RobustFit(NamedTuple):
    """θ (C,) with base values on their columns, the weights below 1, the weighted information, and the iterations."""

    theta: Array
    weights: Mapping[BlockKey, float]
    information: Information
    iterations: int
    converged: bool


def robust_fit(base: BaseParameters, information: Information, threshold: float = THRESHOLD) -> RobustFit:
    """Huber's weights by iteration from `wls`; parameters that are not excited get the values of smallest norm."""
    weights: dict[BlockKey, float] = {}
    current = information
    theta, _ = _fitted(base, current)
    for iteration in range(1, MOST_ITERATIONS + 1):
        left = block_residuals(information, theta)
        weight = np.minimum(1.0, threshold * left.usual / np.maximum(left.rms, np.finfo(float).tiny))
        previous, weights = weights, {left.keys[k]: float(weight[k]) for k in np.flatnonzero(weight < 1.0)}
        if not weights and not previous:
            return RobustFit(theta, weights, information, iteration, True)
        current = weighted(information, weights)
        before = theta
        theta, w = _fitted(base, current)
        # ‖W Δθ‖ with rows in units of σ_j is the largest change over all directions, in standard deviations
        if np.linalg.norm(w @ (theta - before)[list(base.kept)]) < TOLERANCE:
            return RobustFit(theta, weights, current, iteration, True)
    return RobustFit(theta, weights, current, MOST_ITERATIONS, False)


def _fitted(base: BaseParameters, information: Information) -> tuple[Array, Array]:
    """θ (C,) of weighted least squares without error bars, and the weighted W (<= b + 1, b)."""
    weights = 1.0 / joint_deviations(information, base)
    r = stacked(information, base.kept, np.where(np.isfinite(weights), weights, 0.0))
    w = r[:, :-1]
    scale = np.linalg.norm(w, axis=0)
    scale[scale == 0.0] = 1.0
    theta = np.zeros(len(base.layout))
    theta[list(base.kept)] = np.linalg.lstsq(w / scale, r[:, -1], rcond=DATA_TOLERANCE)[0] / scale
    return theta, w


def _findings(fit: RobustFit) -> tuple[Finding, ...]:
    if not fit.weights:
        return (Finding("down-weighted", "info", "no block of time is an outlier: the estimate equals that of wls"),)
    names, count, total = fit.information.joints, len(fit.weights), len(fit.information.blocks)
    worst = sorted(fit.weights.items(), key=lambda item: (item[1], item[0]))[:MOST_REPORTED]
    shown = ", ".join(f"{names[key.joint]} in block {key.block} of '{key.run}' ({w:.2g})" for key, w in worst)
    told = [
        Finding(
            "down-weighted",
            "info",
            f"{count} of {total} blocks (one joint in one stretch of time) have a reduced weight, in brackets: "
            + shown
            + (", …" if count > MOST_REPORTED else ""),
        )
    ]
    if count > FEW * total:
        told.append(
            Finding(
                "many-down-weighted",
                "warning",
                f"{count / total:.0%} of the blocks fit badly: this indicates an incomplete model, not outliers",
                fix="add the terms that the residual shows, or raise the threshold",
            )
        )
    if not fit.converged:
        told.append(
            Finding(
                "not-converged",
                "warning",
                f"the weights of the blocks still change after {fit.iterations} iterations",
                fix="raise the threshold, or exclude the stretches of time that fit worst",
            )
        )
    return tuple(told)
