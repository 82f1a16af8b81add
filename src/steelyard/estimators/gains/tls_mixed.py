"""Drive gains by mixed total least squares: noise in the efforts only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from steelyard.estimators.estimator import GAINS, Estimate, Estimator
from steelyard.estimators.gains.error_bars import checked_ratio, gain_estimate
from steelyard.estimators.gains.solvers import linear_covariance, mixed_tls
from steelyard.model.base_parameters import BaseParameters
from steelyard.regression.information import Information
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem


@final
@dataclass(frozen=True)
class TLSMixed(Estimator):
    """Drive gains and base parameters by total least squares with exact W: noise in the efforts only.

    min Σ_j w_j² ‖g_j e_j − W_j χ − s K_j‖² / Σ_j w_j² r_j σ_j² g_j²,   then g/s, χ/s;   w_j = 1/(σ_j |g_j|)
    `ratio` cancels uncertain base parameters as `essential` does; None keeps all.
    """

    ratio: float | None = None
    name: ClassVar[str] = "tls-mixed"
    needs: ClassVar[frozenset[str]] = frozenset({GAINS})

    def __post_init__(self) -> None:
        checked_ratio(self.ratio)

    def estimate(
        self, problem: Problem | None, base: BaseParameters, information: Information, progress: Progress | None = None
    ) -> Estimate:
        return gain_estimate(base, information, mixed_tls, linear_covariance, self.ratio)
