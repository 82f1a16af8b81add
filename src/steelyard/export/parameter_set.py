"""IdentifiedModel: the full standard set of a result that is exported; physical unless `allow_infeasible` is given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.errors import ModelError, choices
from steelyard.export.parity import random_states
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.model.terms import TIME
from steelyard.physical.certificates import smallest_eigenvalues, unphysical
from steelyard.physical.consistency import link_columns
from steelyard.physical.nearest import NOISE_SIGMA, nearest_feasible, scatter

# Torques of two standard sets that differ by less than this are the same except for rounding.
SAME_TORQUE = 1e-9
# A physical set that changes torques by more than this fraction is another robot and is refused; beyond `FAR_SIGMA` σ a
# tenth of the fraction is enough.
OTHER_ROBOT, FAR_SIGMA = 0.3, 100.0
# A body heavier than HEAVY times the whole robot of the file, or than HEAVIEST kg, was not identified.
HEAVY, HEAVIEST = 1e3, 1e6


@dataclass(frozen=True)
class IdentifiedModel:
    """A model with standard parameters theta (C,) [SI] and the load case it is exported with.

    `rule` says how the set was chosen, `estimator` which estimator found it. The cost of a physical set:
    `distance_sigma`, the distance of its base values from the result's, and `torque_change` ‖τ(θ) − τ_result‖ /
    ‖τ_result‖ on random states. `remarks` are further sentences for the readers of a file.
    """

    model: Model
    theta: Array
    rule: str
    load: str = UNLOADED
    estimator: str = ""
    distance_sigma: float = 0.0
    torque_change: float = 0.0
    remarks: tuple[str, ...] = ()

    @property
    def bearing(self) -> Array:
        """theta (C,) with the payload of the load case made part of the link that carries it."""
        return self.model.bearing(self.theta, self.load)

    @cached_property
    def smallest(self) -> dict[str, float]:
        """The certificate: smallest eigenvalue of every body's pseudo-inertia [SI], payloads included."""
        return smallest_eigenvalues(self.model.layout, self.theta)

    @cached_property
    def physical(self) -> bool:
        return not unphysical(self.model.layout, self.theta)

    @property
    def certificate(self) -> str:
        """One sentence on whether such a robot can exist."""
        name = min(self.smallest, key=lambda name: self.smallest[name])
        least = f"smallest eigenvalue of a pseudo-inertia {self.smallest[name]:.3g} ({name})"
        if self.physical:
            return f"Certified: every body can exist, friction and rotor inertias are not negative; {least}."
        wrong = ", ".join(unphysical(self.model.layout, self.theta))
        return f"Not physical ({wrong}): it predicts torque, and must not be simulated; {least}."

    @property
    def cost(self) -> str:
        """The change caused by choosing this set, in σ and in torque; empty if there is none."""
        if self.distance_sigma == 0.0 and self.torque_change <= SAME_TORQUE:
            return ""
        beyond = "" if self.distance_sigma <= NOISE_SIGMA else ", more than noise explains: see steelyard consistency"
        return (
            f"Its base values lie {self.distance_sigma:.3g} σ from the result's{beyond}; torques differ by "
            f"{self.torque_change:.2g} (relative, random states)."
        )


def identified_model(
    model: Model, result: Identification, load: str = UNLOADED, allow_infeasible: bool = False
) -> IdentifiedModel:
    """The standard set of a result for export: its own where that is physical, else the nearest that is.

    The nearest has the same base values if a physical robot can have them; if not, those nearest in σ, and `cost` says
    how far away they are. `allow_infeasible` takes the result's own set, or its base values on the kept columns, as
    they are. `load` names a payload of the model that the export carries.
    """
    if model.robot.floats:
        raise ModelError(
            f"The base of '{model.robot.name}' floats, and its limbs' efforts do not determine the base's own "
            "parameters: there is no complete set to export. The identified values are in result.json and standard.csv."
        )
    if result.carried is not None:
        model = replace(model, carried=result.carried)
    if model.layout.names != result.base.layout.names:
        raise ModelError(
            f"The model of '{model.robot.name}' has other columns than the result: its terms or payloads differ from "
            "those of the fit. Reopen the result with its own project."
        )
    if load not in (UNLOADED, *model.loads):
        raise ModelError(choices("load", load, (UNLOADED, *model.loads)))
    own = result.standard
    wrong = () if own is None else unphysical(model.layout, own)
    if own is not None and (allow_infeasible or not wrong):
        change = _torque_change(model, own, result.theta, load)
        # the rule of a result may promise what fails here: a law that was registered after the fit adds a bound
        rule = (
            f"the identified values, not physical: {', '.join(wrong)}"
            if wrong
            else f"the result's own: {result.standard_rule}"
        )
        chosen = IdentifiedModel(model, own, rule, load, result.estimator_chosen, 0.0, change)
        return chosen if allow_infeasible else _sane(chosen)
    if allow_infeasible:
        unknown = [name for name, x in zip(result.base.names, result.value, strict=True) if not np.isfinite(x)]
        if unknown:
            raise ModelError(f"These base parameters have no value: {', '.join(unknown)}. Leave allow_infeasible out.")
        rule = "the base values on their own columns, zero elsewhere"
        return IdentifiedModel(model, result.theta, rule, load, result.estimator_chosen)
    found = nearest_feasible(result.base, result.value, _spread(result))
    if wrong := unphysical(model.layout, found.theta):
        raise ModelError(
            f"No physical set was found for this result: {', '.join(wrong)} of the nearest one is not physical. "
            "Correct the stated parameters of a payload, or look at the result (steelyard consistency). C and "
            "Python can be written with the values as identified (--allow-infeasible)."
        )
    prior = "smallest" if result.base.layout.nominal is None else "nearest to the nominal values"
    values = "the result's base values" if found.possible else "the possible base values nearest to the result's"
    rule = f"the physical set {prior} with {values}"
    if _cancelled(result).any():
        rule += " (cancelled ones counted as zero, as firmly as the best known of their unit)"
    # parameters without a value are taken from the prior and do not count as a change
    reference = result.base.theta(np.where(np.isfinite(result.value), result.value, result.base.map @ found.theta))
    change = _torque_change(model, found.theta, reference, load)
    return _sane(IdentifiedModel(model, found.theta, rule, load, result.estimator_chosen, found.distance_sigma, change))


def _cancelled(result: Identification) -> NDArray[np.bool_]:
    """Base parameters (b,) that have a value and no error bar."""
    return np.isfinite(result.value) & ~np.isfinite(np.diagonal(result.covariance_classical))


def _spread(result: Identification) -> Array:
    """Covariance (b, b) of the base values.

    A parameter that the estimator cancelled is zero by decision and has no error bar. It is held there as firmly as the
    best known one of its unit, without correlation; else the file's value would come back in its place.
    """
    spread = scatter(result.std, result.covariance_classical)
    variance, cancelled = np.diagonal(spread), _cancelled(result)
    if not cancelled.any():
        return spread
    base = result.base
    units = np.array([base.layout.columns[k].unit for k in base.kept])
    spread = np.where(cancelled[:, None] | cancelled[None, :], 0.0, spread)
    for k in np.flatnonzero(cancelled):
        alike = variance[np.isfinite(variance) & (units == units[k])]
        best = alike if alike.size else variance[np.isfinite(variance)]
        spread[k, k] = best.min(initial=np.inf)
    return spread


def _sane(chosen: IdentifiedModel) -> IdentifiedModel:
    """The set; an error if it describes another robot than the result, because such a file would mislead."""
    layout = chosen.model.layout
    masses = {name: float(chosen.theta[columns[9]]) for name, columns in link_columns(layout).items()}
    nominal = None if layout.nominal is None else sum(layout.nominal[c[9]] for c in link_columns(layout).values())
    bound = min(HEAVIEST, HEAVY * nominal) if nominal else HEAVIEST
    heavy = [f"{name} of {mass:.3g} kg" for name, mass in masses.items() if mass > bound]
    far = chosen.distance_sigma > FAR_SIGMA
    why = f"has {', '.join(heavy)}" if heavy else ""
    if not chosen.torque_change <= (0.1 if far else 1.0) * OTHER_ROBOT:  # NaN too
        away = f" and its base values lie {chosen.distance_sigma:.3g} σ away" if chosen.distance_sigma else ""
        why = why or f"changes torques by {100.0 * chosen.torque_change:.3g} %{away}"
    if why:
        raise ModelError(
            f"The set to export ({chosen.rule}) {why}: that is not the robot that was measured. Look at the result "
            "first (steelyard consistency): a gain, a unit, the kinematics or the excitation is wrong. C and Python "
            "can be written with the values as identified (--allow-infeasible)."
        )
    return chosen


def _torque_change(model: Model, theta: Array, own: Array, load: str) -> float:
    """‖τ(theta) − τ(own)‖ / ‖τ(own)‖ on random states, at the start of a run."""
    states = random_states(model)
    t = np.zeros(states.q.shape[1]) if TIME in model.uses else None
    reference = model.torque(*states, own, t, load=load)
    return float(np.linalg.norm(model.torque(*states, theta, t, load=load) - reference) / np.linalg.norm(reference))
