"""Known: information on the base parameters from earlier logs, or a result of these, before the next motion is run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators.estimator import Estimate
from steelyard.estimators.least_squares import joint_deviations, solve
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import BaseParameters
from steelyard.regression.information import Information, stacked
from steelyard.regression.scores import score


@final
@dataclass(frozen=True, eq=False)
class Known:
    """Information F = rᵀ r on the base parameters of a model, and the noise of its rows.

    root       r (≤ b, b) in units of one standard deviation; a column of zeros where nothing is known
    noise      σ_j (n,) of a row [N·m | N], NaN for a joint without rows
    effort     root mean square (n,) of the efforts of these rows [N·m | N]
    inflation  κ ≥ 1, by which correlated residuals widen the error bars; already included in `root` and `noise`
    source     where it comes from, as text
    """

    base: BaseParameters
    root: Array
    noise: Array
    effort: Array
    inflation: float
    source: str

    @property
    def information(self) -> Array:
        """F (b, b)."""
        return self.root.T @ self.root


def known(earlier: Known | Information | Identification, base: BaseParameters, noise: Array | None = None) -> Known:
    """The information of observed logs or a result on the base parameters of a model.

    A forecast should match the σ that the next identification reports, which are valid for correlated residuals (CR3).
    Residuals of real robots are correlated: their CR3 σ are two to five times the classical ones. The information, and
    the noise of the future rows, are therefore those of independent rows with the same error bars:

        C = κ² C_classical,   σ_j = κ · residual of joint j,   κ = max(1, median over parameters of σ_CR3 / σ_classical)

    One κ for all, because with twelve blocks a single ratio has a scatter of a fifth. It holds for the next motion when
    its rows are as far apart in time as those of the earlier logs. A stated `noise` σ_j (n,) replaces this for observed
    rows; a result's covariance is unchanged.
    """
    if isinstance(earlier, Information):
        return _of_logs(earlier, base, noise)
    found = earlier if isinstance(earlier, Known) else _of_result(earlier, base)
    if found.base.names != base.names:
        raise EstimationError(_OTHER)
    return found if noise is None else replace(found, noise=noise)


def inflation(estimate: Estimate | Identification) -> float:
    """κ = max(1, median of σ_CR3 / σ_classical) over the parameters that have both."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt(np.diagonal(estimate.covariance) / np.diagonal(estimate.covariance_classical))
    ratio = ratio[np.isfinite(ratio)]
    return max(1.0, float(np.median(ratio))) if len(ratio) else 1.0


def _of_logs(information: Information, base: BaseParameters, noise: Array | None) -> Known:
    """Rows of earlier logs, weighted as in weighted least squares."""
    if information.layout.names != base.layout.names:
        raise EstimationError(_OTHER)
    runs = "logs " + ", ".join(dict.fromkeys(key.run for key in information.blocks))
    left = information.without_known()
    effort = np.array(list(score(information, np.zeros(len(base.layout)), "").effort.values()))
    if noise is not None:
        return Known(base, _rows(information, base, noise), noise, effort, 1.0, f"{runs}, σ of their rows as given")
    sigma = joint_deviations(left, base)
    estimate = solve(left, base, 1.0 / sigma)
    fitted = int(np.isfinite(estimate.value).sum())
    whole = stacked(left, base.kept, _weights(sigma))
    # the residual of the joint fit is larger than those of separate fits: σ̂² = ‖ρ‖² / (r − b) of P0 eq. 11
    common = abs(whole[-1, -1]) / np.sqrt(left.rows().sum() - fitted) if len(whole) > len(base) else 1.0
    kappa = inflation(estimate)
    sigma = kappa * common * sigma
    return Known(base, _rows(information, base, sigma), sigma, effort, kappa, runs + _widened(kappa))


def _of_result(result: Identification, base: BaseParameters) -> Known:
    """The inverse of the classical covariance; parameters without σ in the result are unknown.

    A result does not hold their correlation with others, which therefore seem better known than they are. If the logs
    are available, `observe` them. If the estimator had a prior, it is included.
    """
    places = _places(result.base, base)
    told = np.isfinite(np.diagonal(result.covariance_classical))
    if not told.any():
        raise EstimationError(
            f"The result of '{result.robot}' by {result.estimator} has no error bars: identify its logs by 'wls', or "
            "pass the Information of `observe`."
        )
    covariance = result.covariance_classical[np.ix_(told, told)]
    scale = np.sqrt(np.diagonal(covariance))
    try:
        factor = cholesky(covariance / np.outer(scale, scale), lower=True)
    except LinAlgError:
        raise EstimationError(
            f"The covariance in the result of '{result.robot}' is numerically singular: its motion hardly separates "
            "some parameters. Pass the Information of `observe` on the logs instead."
        ) from None
    kappa, count, rows = inflation(result), int(told.sum()), sum(result.relative_error.rows.values())
    root = np.zeros((count, len(base)))
    root[:, places[told]] = solve_triangular(factor, np.eye(count), lower=True) / (kappa * scale)
    rmse, effort = (np.array(list(x.values())) for x in (result.relative_error.rmse, result.relative_error.effort))
    # a root mean square divides by the rows, a covariance by the degrees of freedom
    noise = kappa * np.sqrt(rows / max(rows - count, 1)) * rmse
    fitted = ", ".join(run.name for run in result.runs if run.role == "identify")
    said = f"result of {fitted} by {result.estimator}" + _widened(kappa)
    if count < len(base):
        said += f"; it has no σ of {len(base) - count} of the {len(base)} base parameters"
    return Known(base, root, noise, effort, kappa, said)


def _rows(information: Information, base: BaseParameters, noise: Array) -> Array:
    """Square root (≤ b, b) of F of observed rows with σ_j (n,)."""
    return stacked(information, base.kept, _weights(noise))[:, :-1]


def _weights(sigma: Array) -> Array:
    return np.where(np.isfinite(sigma), 1.0 / sigma, 0.0)


_OTHER = "The prior knowledge is of another model: observe or identify the earlier logs with this one."


def _places(have: BaseParameters, wanted: BaseParameters) -> NDArray[np.int64]:
    """Indices of the base parameters of a result among those of a model, which may have more (a payload's)."""
    groups = wanted.regroupings
    for name, group in have.regroupings.items():
        there = groups.get(name, {})
        same = there and all(np.isclose(x, there.get(c, 0.0), rtol=1e-6, atol=1e-9) for c, x in group.items())
        if not same:
            raise EstimationError(
                f"The result's base parameter {name} is not a parameter of this model, or is another linear "
                "combination there: its robot "
                "or its terms differ. " + _OTHER
            )
    return np.array([wanted.names.index(name) for name in have.names])


def _widened(kappa: float) -> str:
    return "" if kappa == 1.0 else f", with σ {kappa:.3g} times the classical ones, as residuals are correlated"
