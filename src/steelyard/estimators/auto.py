"""The default estimator: physical bodies, and a prior that the robot file or the size of the efforts gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators.consistent.consistent import Consistent
from steelyard.estimators.estimator import LEAST_ERROR, Estimate, Estimator
from steelyard.estimators.wls import WLS
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters
from steelyard.physical.constraints import Constraints
from steelyard.regression.information import Information
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem
from steelyard.regression.scores import score

ROTOR = "Ia"
# A bound that raises the error of its joint by more than this fraction contradicts the data.
COSTLY = 0.25


@final
@dataclass(frozen=True)
class Auto(Estimator):
    """Weighted least squares over physical bodies, with a prior as wide as the data support: `consistent` by evidence.

    θ̂ = argmin Σ_j ‖y_j − W_j θ‖² / σ_j² + λ ‖D⁻¹(θ − θ₀)‖²   with   P_l(θ) ⪰ 0, Ia ≥ 0

    θ₀ are the values of the robot file, and zero for friction and offsets that it does not state; inertias have a prior
    only if it states them. The widths D by kind of parameter are those of largest evidence, λ counts independent rows
    and errors of the model. Where the bound of a rotor inertia raises the error of its joint by more than a quarter,
    rotors have no bound: efforts measured behind the gears do not contain them. `wls` if no physical set is found.
    Compared with other choices on simulated robots that no setting was tuned for (`make generalise`).
    """

    name: ClassVar[str] = "auto"

    def estimate(
        self, problem: Problem | None, base: BaseParameters, information: Information, progress: Progress | None = None
    ) -> Estimate:
        with_inertias = base.layout.nominal is not None
        try:
            found, free = _physical(base, information)
        except EstimationError as error:
            plain = WLS().estimate(problem, base, information, progress)
            message = f"estimator auto used wls, since physical bodies could not be fitted: {error}"
            return plain.with_findings((Finding("estimator-choice", "warning", message),))
        prior = "the inertias of the robot file" if with_inertias else "the size of the efforts"
        message = f"estimator auto used consistent: physical bodies, with {prior} as the prior"
        if not free:
            return found.with_findings((Finding("estimator-choice", "info", message),))
        names = ", ".join(free)
        message += (
            f"; rotor inertias of {names} may be negative, since that bound raises the error of a joint by more than "
            f"{COSTLY:.0%}"
        )
        advice = f"if the efforts are measured behind the gears, remove the term rotor from {names}"
        return found.with_findings((Finding("estimator-choice", "warning", message, names, advice),))


def physical_bodies(rotors: tuple[str, ...] = (ROTOR,)) -> Consistent:
    """Physical bodies with a prior by evidence; the `rotors` must be positive.

    Friction may have any sign, since its terms are corrections of each other.
    """
    return Consistent(weight="evidence", constraints=Constraints(nonnegative=rotors))


def _physical(base: BaseParameters, information: Information) -> tuple[Estimate, tuple[str, ...]]:
    """The estimate, and the joints whose rotor inertia may be negative."""
    found = physical_bodies().estimate(None, base, information)
    assert found.certificate is not None
    rotors = [column for column in base.layout.columns if column.symbol == ROTOR]
    at_zero = {column.owner for column in rotors if column.name in found.certificate.boundary}
    if not at_zero:
        return found, ()
    unbounded = physical_bodies(()).estimate(None, base, information)
    assert unbounded.standard is not None
    negative = {column.owner for column in rotors if unbounded.standard[base.layout.index(column.name)] < 0.0}
    worse = _errors(base, information, found) > (1.0 + COSTLY) * _errors(base, information, unbounded)
    costly = {joint for joint, yes in zip(information.joints, worse, strict=True) if yes}
    against = at_zero & negative
    # one robot measures its efforts on one side of the gears
    free = tuple(joint for joint in information.joints if joint in against) if against & costly else ()
    kept = tuple(column.name for column in rotors if column.owner not in free)
    return (physical_bodies(kept).estimate(None, base, information) if free else found), free


def _errors(base: BaseParameters, information: Information, estimate: Estimate) -> Array:
    """RMS error of every joint on the fitted rows (n,) [N·m | N], at least the rounding of its effort."""
    fit = score(information, base.theta(np.nan_to_num(estimate.value)), "")
    return np.array([max(fit.rmse[joint], LEAST_ERROR * fit.effort[joint]) for joint in information.joints])
