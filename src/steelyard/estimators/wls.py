"""Weighted least squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from steelyard.estimators.estimator import Estimate, Estimator
from steelyard.estimators.least_squares import joint_deviations, solve
from steelyard.model.base_parameters import BaseParameters
from steelyard.regression.information import Information
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem


@final
@dataclass(frozen=True)
class WLS(Estimator):
    """Weighted least squares, one σ_j per joint from its own least squares (P0 §III).

    θ̂ = argmin Σ_j ‖y_j − W_j θ‖² / σ_j²
    """

    name: ClassVar[str] = "wls"

    def estimate(
        self, problem: Problem | None, base: BaseParameters, information: Information, progress: Progress | None = None
    ) -> Estimate:
        sigma = joint_deviations(information, base)
        return solve(information, base, 1.0 / sigma)
