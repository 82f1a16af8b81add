"""Ordinary least squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from steelyard.estimators.estimator import Estimate, Estimator
from steelyard.estimators.least_squares import solve
from steelyard.model.base_parameters import BaseParameters
from steelyard.regression.information import Information
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem


@final
@dataclass(frozen=True)
class LS(Estimator):
    """Ordinary least squares: every joint's N·m has the same weight.   θ̂ = argmin Σ_j ‖y_j − W_j θ‖²"""

    name: ClassVar[str] = "ls"

    def estimate(
        self, problem: Problem | None, base: BaseParameters, information: Information, progress: Progress | None = None
    ) -> Estimate:
        return solve(information, base, np.ones(len(information.joints)))
