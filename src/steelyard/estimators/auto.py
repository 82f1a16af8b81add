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
from steelyard.physical.prior import Widths
from steelyard.regression.information import Information
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem

# Bodies and rotors must be physical; friction may have any sign, since its terms are corrections of each other.
BODIES = Constraints(nonnegative=("Ia",))
# With nominal inertias, the weight of the prior is chosen by cross-validation, as `map` does.
WITH_INERTIAS = Consistent(weight="cross-validation", constraints=BODIES)
# Without them, friction and offsets are expected within this fraction of their joint's effort.
FRICTION = 0.15
WITHOUT_INERTIAS = Consistent(weight=1.0, widths=Widths(friction=FRICTION), constraints=BODIES)


@final
@dataclass(frozen=True)
class Auto(Estimator):
    """Weighted least squares over physical bodies with a prior: `consistent`, set as it predicts unseen motion best.

    θ̂ = argmin Σ_j ‖y_j − W_j θ‖² / σ_j² + weight · ‖D⁻¹(θ − θ₀)‖²   with   P_l(θ) ⪰ 0, Ia ≥ 0

    With nominal inertias, θ₀ are the values of the robot file and the weight is chosen by cross-validation. Without
    them, θ₀ = 0 for friction and offsets alone, within 15 % of their joint's effort. `wls` if no physical set is found.
    The choice was made on simulated robots that no setting was tuned for (`make generalise`).
    """

    name: ClassVar[str] = "auto"

    def estimate(
        self, problem: Problem | None, base: BaseParameters, information: Information, progress: Progress | None = None
    ) -> Estimate:
        with_inertias = base.layout.nominal is not None
        try:
            found = (WITH_INERTIAS if with_inertias else WITHOUT_INERTIAS).estimate(
                problem, base, information, progress
            )
        except EstimationError as error:
            plain = WLS().estimate(problem, base, information, progress)
            message = f"estimator auto used wls, since physical bodies could not be fitted: {error}"
            return plain.with_findings((Finding("estimator-choice", "warning", message),))
        prior = "the inertias of the robot file" if with_inertias else "small friction and offsets"
        message = f"estimator auto used consistent: physical bodies, with {prior} as the prior"
        return found.with_findings((Finding("estimator-choice", "info", message),))
