"""Weighted least squares shrunk to zero: for robots without nominal values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from steelyard.estimators.estimator import Estimate, Estimator
from steelyard.estimators.least_squares import joint_deviations
from steelyard.estimators.regularised.fit import checked_weight, regularised
from steelyard.model.base_parameters import BaseParameters
from steelyard.regression.information import Information, stacked
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem


@final
@dataclass(frozen=True)
class Ridge(Estimator):
    """Weighted least squares with the inertial base parameters shrunk to zero, for robots without nominal values.

    θ̂ = argmin Σ_j ‖y_j − W_j θ‖² / σ_j² + weight · Σ_i ‖w_i‖² θ_i² / r

    The penalty of a parameter is the effect of its column w_i (weighted, r rows) on the efforts, so it does not depend
    on units. Friction, rotors and offsets are free. `weight` None is chosen as in map. Zero is not a physical robot:
    expect bias.
    """

    weight: float | None = None
    name: ClassVar[str] = "ridge"

    def __post_init__(self) -> None:
        checked_weight(self.weight)

    def estimate(
        self, problem: Problem | None, base: BaseParameters, information: Information, progress: Progress | None = None
    ) -> Estimate:
        weights = 1.0 / joint_deviations(information, base)
        w = stacked(information, base.kept, np.where(np.isfinite(weights), weights, 0.0))[:, :-1]
        size = np.linalg.norm(w, axis=0) / np.sqrt(information.rows().sum())
        pulled = [k for k, c in enumerate(base.kept) if base.layout.columns[c].kind == "link" and size[k] > 0.0]
        prior = np.zeros((len(pulled), len(base) + 1))
        prior[np.arange(len(pulled)), pulled] = size[pulled]
        return regularised(information, base, prior, self.weight)
