"""The default estimator: physical bodies, and a prior that the robot file or the size of the efforts gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from steelyard.errors import EstimationError
from steelyard.estimators.consistent.consistent import Consistent
from steelyard.estimators.estimator import Estimate, Estimator
from steelyard.estimators.wls import WLS
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters
from steelyard.physical.constraints import Constraints
from steelyard.regression.information import Information
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem

# Bodies and rotors must be physical; friction may have any sign, since its terms are corrections of each other.
PHYSICAL_BODIES = Consistent(weight="evidence", constraints=Constraints(nonnegative=("Ia",)))


@final
@dataclass(frozen=True)
class Auto(Estimator):
    """Weighted least squares over physical bodies, with a prior as wide as the data support: `consistent` by evidence.

    θ̂ = argmin Σ_j ‖y_j − W_j θ‖² / σ_j² + ‖D⁻¹(θ − θ₀)‖² / τ   with   P_l(θ) ⪰ 0, Ia ≥ 0

    θ₀ are the values of the robot file, and zero for friction and offsets that it does not state; inertias have a prior
    only if it states them. The widths D by kind of parameter, and the share τ of independent rows, are those of largest
    evidence. `wls` if no physical set is found. Compared with other choices on simulated robots that no setting was
    tuned for (`make generalise`).
    """

    name: ClassVar[str] = "auto"

    def estimate(
        self, problem: Problem | None, base: BaseParameters, information: Information, progress: Progress | None = None
    ) -> Estimate:
        with_inertias = base.layout.nominal is not None
        try:
            found = PHYSICAL_BODIES.estimate(problem, base, information, progress)
        except EstimationError as error:
            plain = WLS().estimate(problem, base, information, progress)
            message = f"estimator auto used wls, since physical bodies could not be fitted: {error}"
            return plain.with_findings((Finding("estimator-choice", "warning", message),))
        prior = "the inertias of the robot file" if with_inertias else "the size of the efforts"
        message = f"estimator auto used consistent: physical bodies, with {prior} as the prior"
        return found.with_findings((Finding("estimator-choice", "info", message),))
