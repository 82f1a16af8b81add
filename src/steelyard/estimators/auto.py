"""The default estimator: physical bodies, and a prior that the robot file or the size of the efforts gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from scipy.linalg import eigh

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators.consistent.consistent import Consistent
from steelyard.estimators.estimator import LEAST_ERROR, Estimate, Estimator
from steelyard.estimators.wls import WLS
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters
from steelyard.physical.consistency import link_columns, pseudo_inertia
from steelyard.physical.constraints import Constraints
from steelyard.regression.information import Information
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem
from steelyard.regression.scores import score

ROTOR = "Ia"
# A bound that raises the error of a joint by more than this fraction contradicts the data.
COSTLY = 0.25
# Links keep this share of the pseudo-inertia of the robot file, so that none becomes a rod or a plate. On 40 simulated
# robots (evidence/generalise.py, seed 20261118) and five real ones 0 to 0.5 predict equally well, within 1 %.
KEPT_SHARE = 0.3
# A body within this fraction of its bound is on it.
AT_BOUND = 1e-3


@final
@dataclass(frozen=True)
class Auto(Estimator):
    """Weighted least squares over physical bodies, with a prior as wide as the data support: `consistent` by evidence.

    θ̂ = argmin Σ_j ‖y_j − W_j θ‖² / σ_j² + λ ‖D⁻¹(θ − θ₀)‖²   with   P_l(θ) ⪰ 0.3 P_l(θ₀), Ia ≥ 0

    θ₀ are the values of the robot file, and zero for friction and offsets that it does not state; inertias have a prior
    only if it states them, else P_l(θ) ⪰ 0. The widths D by kind of parameter are those of largest evidence, λ counts
    independent rows and errors of the model. Bounds that raise the error of a joint by more than a quarter are left
    out: those of rotors (efforts measured behind the gears do not contain them), then the share of the file's bodies.
    `wls` if no physical set is found. Compared with other choices on simulated robots that no setting was tuned for
    (`make generalise`).
    """

    name: ClassVar[str] = "auto"

    def estimate(
        self, problem: Problem | None, base: BaseParameters, information: Information, progress: Progress | None = None
    ) -> Estimate:
        try:
            found = _physical(base, information)
        except EstimationError as error:
            plain = WLS().estimate(problem, base, information, progress)
            message = f"estimator auto used wls, since physical bodies could not be fitted: {error}"
            return plain.with_findings((Finding("estimator-choice", "warning", message),))
        return found


def physical_bodies(rotors: tuple[str, ...] = (ROTOR,), share: float = KEPT_SHARE) -> Consistent:
    """Physical bodies with a prior by evidence; the `rotors` must be positive, links keep a share of the file's bodies.

    Friction may have any sign, since its terms are corrections of each other.
    """
    return Consistent(weight="evidence", constraints=Constraints(nonnegative=rotors, nominal_share=share))


def _physical(base: BaseParameters, information: Information) -> Estimate:
    """The estimate within all bounds that the data do not contradict, with the finding that reports the choice."""
    found, rotors, free = physical_bodies().estimate(None, base, information), (ROTOR,), ()
    against = _rotors_at_zero(base, found)
    if against:
        without = physical_bodies(()).estimate(None, base, information)
        against &= _negative_rotors(base, without)
        if against and bounds_cost(base, information, found, without):
            # one robot measures its efforts on one side of the gears, so all joints are judged together
            free = tuple(joint for joint in information.joints if joint in against)
            columns = [column for column in base.layout.columns if column.symbol == ROTOR]
            rotors = tuple(column.name for column in columns if column.owner not in free)
            found = physical_bodies(rotors).estimate(None, base, information)
    share = KEPT_SHARE
    if links_at_share(base, found):
        without = physical_bodies(rotors, 0.0).estimate(None, base, information)
        if bounds_cost(base, information, found, without):
            found, share = without, 0.0
    return found.with_findings((_choice(base, found, free, share),))


def _choice(base: BaseParameters, found: Estimate, free: tuple[str, ...], share: float) -> Finding:
    prior = "the size of the efforts" if base.layout.nominal is None else "the inertias of the robot file"
    message, advice = f"estimator auto used consistent: physical bodies, with {prior} as the prior", []
    if free:
        names = ", ".join(free)
        message += f"; rotor inertias of {names} may be negative: their bound raises the error of a joint by more than "
        message += f"{COSTLY:.0%}"
        advice.append(f"if the efforts are measured behind the gears, remove the term rotor from {names}")
    if not share:
        message += "; bodies may be thinner than those of the robot file: keeping to these raises the error of a joint "
        message += f"by more than {COSTLY:.0%}"
        advice.append("check the inertias of the robot file, their units, and the gains of the efforts")
    if advice:
        return Finding("estimator-choice", "warning", message, ", ".join(free), "; ".join(advice))
    held = links_at_share(base, found)
    if held:
        message += f"; bodies held at {share:.0%} of the file's in some direction: {', '.join(held)}"
    return Finding("estimator-choice", "info", message)


def _rotors_at_zero(base: BaseParameters, found: Estimate) -> set[str]:
    """The joints whose rotor inertia is on its bound."""
    assert found.certificate is not None
    columns = [column for column in base.layout.columns if column.symbol == ROTOR]
    return {column.owner for column in columns if column.name in found.certificate.boundary}


def _negative_rotors(base: BaseParameters, found: Estimate) -> set[str]:
    assert found.standard is not None
    columns = zip(base.layout.columns, found.standard, strict=True)
    return {column.owner for column, value in columns if column.symbol == ROTOR and value < 0.0}


def links_at_share(base: BaseParameters, found: Estimate) -> tuple[str, ...]:
    """The links on the bound P ⪰ κ P₀: the smallest λ of P v = λ P₀ v is κ."""
    assert found.standard is not None
    if base.layout.nominal is None:
        return ()
    out = []
    for name, columns in link_columns(base.layout).items():
        body, filed = (pseudo_inertia(x[columns]) for x in (found.standard, base.layout.nominal))
        if base.layout.columns[columns[0]].kind == "link" and np.linalg.eigvalsh(filed)[0] > 0.0:
            least = eigh(body, filed, eigvals_only=True)[0]
            out += [name] if least < (1.0 + AT_BOUND) * KEPT_SHARE else []
    return tuple(out)


def bounds_cost(base: BaseParameters, information: Information, bounded: Estimate, without: Estimate) -> bool:
    """Whether bounds raise the error of any joint on the fitted rows by more than COSTLY."""
    errors = [_errors(base, information, estimate) for estimate in (bounded, without)]
    return bool(np.any(errors[0] > (1.0 + COSTLY) * errors[1]))


def _errors(base: BaseParameters, information: Information, estimate: Estimate) -> Array:
    """RMS error of every joint on the fitted rows (n,) [N·m | N], at least the rounding of its effort."""
    fit = score(information, base.theta(np.nan_to_num(estimate.value)), "")
    return np.array([max(fit.rmse[joint], LEAST_ERROR * fit.effort[joint]) for joint in information.joints])
