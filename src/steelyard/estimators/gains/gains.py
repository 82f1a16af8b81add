"""Drive gains by likelihood: the effort is the noisy response, the motion is exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from steelyard.estimators.estimator import GAINS, Estimate, Estimator
from steelyard.estimators.gains.error_bars import checked_ratio, gain_estimate
from steelyard.estimators.gains.solvers import linear_covariance, separable
from steelyard.model.base_parameters import BaseParameters
from steelyard.regression.information import Information
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem


@final
@dataclass(frozen=True)
class Gains(Estimator):
    """Drive gains and base parameters together, by the likelihood of the efforts.

    (ĝ, χ̂) = argmin Σ_j ‖e_j − (W_j χ + K_j)/g_j‖² / σ_j²

    K_j is the torque of the known parameters of the payload, which gives the scale. Separable in h = 1/g: variable
    projection. `ratio` cancels uncertain base parameters as `essential` does; None keeps all.
    """

    ratio: float | None = None
    name: ClassVar[str] = "gains"
    needs: ClassVar[frozenset[str]] = frozenset({GAINS})

    def __post_init__(self) -> None:
        checked_ratio(self.ratio)

    def estimate(
        self, problem: Problem | None, base: BaseParameters, information: Information, progress: Progress | None = None
    ) -> Estimate:
        return gain_estimate(base, information, separable, linear_covariance, self.ratio)
