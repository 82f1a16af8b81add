"""Drive gains by total least squares, as published (P2 eqs 12–21, P3 eqs 33–39)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from steelyard._arrays import Array
from steelyard.estimators.estimator import GAINS, Estimate, Estimator
from steelyard.estimators.gains.equations import DriveEquations, GainSolution
from steelyard.estimators.gains.error_bars import checked_ratio, gain_estimate
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters
from steelyard.regression.information import Information, triangular
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem

SCALING = Finding(
    "tls-scaling",
    "warning",
    "total least squares assumes errors of equal size in every column, so its result depends on the units of the "
    "parameters and of the efforts: columns with large numbers absorb the noise of the efforts",
    fix="use the estimator gains, which does not depend on units; use tls for comparison only",
)


@final
@dataclass(frozen=True)
class TLS(Estimator):
    """Drive gains and base parameters by total least squares with rows weighted by 1/σ_j, as published.

    min ‖W_tot x‖ / ‖x‖,   W_tot = [E −W −K],   x = (g, χ, 1) scaled to a last entry of 1   (P2 eqs 12–17)
    The result depends on units: a finding says so. `ratio` cancels uncertain base parameters as `essential` does; None
    keeps all.
    """

    ratio: float | None = None
    name: ClassVar[str] = "tls"
    needs: ClassVar[frozenset[str]] = frozenset({GAINS})

    def __post_init__(self) -> None:
        checked_ratio(self.ratio)

    def estimate(
        self, problem: Problem | None, base: BaseParameters, information: Information, progress: Progress | None = None
    ) -> Estimate:
        found = gain_estimate(base, information, total_least_squares, tls_covariance, self.ratio)
        return found.with_findings((SCALING,))


def total_least_squares(equations: DriveEquations, start: GainSolution | None = None, steps: int = 1) -> GainSolution:
    """The last right singular vector of W_tot, scaled to a last entry of 1 (P2 eqs 16–17); no start and no steps."""
    x = np.linalg.svd(_total(equations))[2][-1]
    n = len(equations.rows)
    return GainSolution(x[:n] / x[-1], x[n:-1] / x[-1])


def tls_covariance(equations: DriveEquations, at: GainSolution) -> Array:
    """C ≈ σ_W² (1 + ‖x‖²) (ŴᵀŴ)⁻¹ over (g, χ) without the last column, σ_W = s_c/√(r − c)   (P2 eqs 19–20)."""
    _, s, v = np.linalg.svd(_total(equations))
    nearest = (s[:, None] * v)[:-1, :-1]
    variance = s[-1] ** 2 / max(int(equations.rows.sum()) - len(s), 1)
    inverse = np.linalg.pinv(nearest)
    return variance * (1.0 + float(at.factor @ at.factor + at.value @ at.value)) * inverse @ inverse.T


def _total(equations: DriveEquations) -> Array:
    """The square triangle of W_tot (P2 eq. 13), rows in units of σ_j."""
    weight = 1.0 / equations.deviation[equations.motor]
    columns = [equations.by_motor(equations.effort), -equations.w, -equations.known.sum(axis=1)]
    r = triangular(weight[:, None] * np.column_stack(columns))
    square = np.zeros((r.shape[1], r.shape[1]))
    square[: len(r)] = r
    return square
