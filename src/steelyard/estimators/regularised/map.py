"""Weighted least squares with a prior: maximum a posteriori."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from steelyard.estimators.estimator import Estimate, Estimator
from steelyard.estimators.least_squares import joint_deviations
from steelyard.estimators.regularised.evidence import supported
from steelyard.estimators.regularised.fit import checked_weight, regularised
from steelyard.model.base_parameters import BaseParameters
from steelyard.physical.prior import Widths, nominal_prior, with_friction
from steelyard.regression.information import Information
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem


@final
@dataclass(frozen=True)
class MAP(Estimator):
    """Weighted least squares with the robot file's nominal values as a prior.

    θ̂ = argmin Σ_j ‖y_j − W_j θ‖² / σ_j² + weight · ‖D⁻¹(θ − θ_nominal)‖²

    `weight` None is chosen from the data: ten blocks of time are left out in turn, and the largest weight is taken
    whose error is within one standard error of the smallest. D holds the `widths`. The error bars then use the widths
    that the data support (`evidence`) for the error of the file, on which the weight says nothing.
    """

    weight: float | None = None
    widths: Widths = Widths()
    name: ClassVar[str] = "map"

    def __post_init__(self) -> None:
        checked_weight(self.weight)

    def estimate(
        self, problem: Problem | None, base: BaseParameters, information: Information, progress: Progress | None = None
    ) -> Estimate:
        prior = with_friction(nominal_prior(base.layout, self.widths), information, self.widths.friction)
        believed = None
        if self.weight is None:
            # a weight that is chosen says nothing about the widths that were stated; the data do
            weights = 1.0 / joint_deviations(information, base)
            believed = supported(information, base, weights, prior).prior.in_base(base)
        return regularised(information, base, prior.in_base(base), self.weight, believed=believed)
