"""Instrumental variables: the columns of a simulated motion as instruments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators.estimator import Estimate
from steelyard.estimators.least_squares import (
    CLUSTERS,
    DATA_TOLERANCE,
    FEWEST_CLUSTERS,
    cluster_findings,
    excitation_findings,
    spread,
)
from steelyard.estimators.simulated.base import Begin, SimulatingEstimator, instrument_columns, iterate
from steelyard.estimators.simulated.exogeneity import durbin_wu_hausman
from steelyard.model.base_parameters import BaseParameters, independent_columns
from steelyard.regression.information import Information, stacked, triangular
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem
from steelyard.regression.statistics import jackknife_covariance


@final
@dataclass(frozen=True)
class IV(SimulatingEstimator):
    """Instrumental variables (IDIM-IV): θ̂ = (Zᵀ Ω W)⁻¹ Zᵀ Ω y, Ω = diag(1/σ_j²)   (P4 eq. 10)

    Z are the columns of the motion that the model with the last θ̂ makes under the same controller and reference: free
    of measurement noise and of its feedback into the measured motion. Simulated and solved again until values and
    residual change by less than `tolerance`, at most `most` times; `start` is "nominal" or "wls"; `ratio` cancels
    uncertain parameters first, as `essential` does.
    """

    name: ClassVar[str] = "iv"

    def _from(
        self,
        begin: Begin,
        problem: Problem,
        base: BaseParameters,
        information: Information,
        progress: Progress | None,
    ) -> Estimate:
        weights, used = begin.weights, begin.used

        def step(both: Information) -> tuple[Array, float]:
            theta, rest = instrumental(both, base, weights, used)
            return np.where(used, spread(theta, used), 0.0), rest

        done = iterate(problem, base, begin, step, self.tolerance, self.most, progress)
        found = with_error_bars(done.information, base, weights, begin.shown, used)
        findings = done.findings(self.name, self.tolerance)
        # instruments that carry the noise of the measurement test nothing, nor do those of a loop that did not settle
        if (
            found.clusters
            and done.converged
            and not (problem.experiment and problem.experiment.approximate)
            and np.all(np.isfinite(np.diagonal(found.covariance)[used]))
        ):
            findings += durbin_wu_hausman(base, done.information, weights, CLUSTERS, used).findings()
        return found.with_findings(findings)


def _columns(base: BaseParameters, used: NDArray[np.bool_]) -> NDArray[np.int64]:
    kept = np.array(base.kept)[used]
    return np.concatenate([instrument_columns(base, kept), kept])


def _solved(r: Array) -> Array:
    """θ from the triangle of [Z W y]: Zᵀ(Wθ − y) = R_zzᵀ(R_zw θ − r_zy), so R_zw θ = r_zy."""
    b = (r.shape[1] - 1) // 2
    return np.asarray(np.linalg.solve(r[:b, b:-1], r[:b, -1]), float)


def instrumental(
    information: Information, base: BaseParameters, weights: Array, used: NDArray[np.bool_]
) -> tuple[Array, float]:
    """θ̂ of the used parameters, and ‖y − Wθ̂‖ in units of σ."""
    r = stacked(information, _columns(base, used), weights)
    b = int(used.sum())
    try:
        theta = _solved(r)
    except np.linalg.LinAlgError:
        raise EstimationError(
            "The simulated motion is not correlated with the measured one: check the reference."
        ) from None
    return theta, float(np.linalg.norm(r[:, -1] - r[:, b:-1] @ theta))


def with_error_bars(
    information: Information,
    base: BaseParameters,
    weights: Array,
    shown: NDArray[np.bool_],
    used: NDArray[np.bool_],
) -> Estimate:
    """The instrumental estimate with the covariances s² (ZᵀW)⁻¹ ZᵀZ (WᵀZ)⁻¹ and by leaving out blocks of time in
    turn."""
    columns, b = _columns(base, used), int(used.sum())
    whole = stacked(information, columns, weights)
    theta = _solved(whole)
    rest = whole[:, -1] - whole[:, b:-1] @ theta
    rows = int(information.rows()[weights > 0].sum())
    inverse = np.linalg.inv(whole[:b, b:-1])
    classical = float(rest @ rest) / max(rows - b, 1) * inverse @ inverse.T
    groups = information.clusters(CLUSTERS)
    parts = [stacked(information, columns, weights, group) for group in groups]
    robust, one_cluster = _left_out(parts, theta)
    w = triangular(whole[:, b:-1])
    held = shown & ~used
    return Estimate(
        np.where(held, 0.0, spread(theta, used)),
        spread(classical if robust is None else robust, used),
        spread(classical, used),
        held,
        0 if robust is None else len(groups),
        float(np.linalg.cond(w)),
        float(np.linalg.cond(w / np.linalg.norm(w, axis=0))),
        excitation_findings(base, shown) + cluster_findings(base, np.array(base.kept)[used], one_cluster, len(groups)),
    )


def _left_out(parts: list[Array], theta: Array) -> tuple[Array | None, NDArray[np.bool_]]:
    """CR3 covariance with the same instruments, None with too few clusters; and parameters that need one cluster."""
    count, b = len(parts), len(theta)
    one_cluster = np.zeros(b, bool)
    if count < FEWEST_CLUSTERS:
        return None, one_cluster
    changes = []
    for g in range(count):
        r = triangular(np.concatenate([part for k, part in enumerate(parts) if k != g]))
        lost = list(independent_columns(r[:, b:-1], DATA_TOLERANCE).dropped)
        one_cluster[lost] = True
        left = np.setdiff1d(np.arange(b), lost)
        change = np.zeros(b)
        # a parameter that is not excited has neither a column nor an instrument of its own
        square = triangular(r[:, [*left, *(b + left), -1]])
        change[left] = _solved(square) - theta[left] if len(left) else 0.0
        changes.append(change)
    covariance = jackknife_covariance(np.array(changes))
    covariance[one_cluster, :] = np.nan
    covariance[:, one_cluster] = np.nan
    return covariance, one_cluster
