"""The best values of a robot file: a fit over what the format can hold, not the identified values without the rest.

    θ̂ = argmin Σ_j ‖y_j − W_j θ‖² / σ_j² + λ Σ_l tr((P₀ₗ⁻¹(P_l − P₀ₗ))²)   with   P_l ⪰ 0.3 P₀ₗ,  Ia, Fv, Fc ≥ 0

over the columns of the format. P₀ are the bodies of the robot file; λ is the largest that hardly costs (weight "slack"
of `consistent`). Identified inertias are traded against offsets and rotors: where a file drops these, the inertias are
no longer the best ones.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from steelyard._arrays import Array
from steelyard.estimators.auto import KEPT_SHARE, bounds_cost, links_at_share
from steelyard.estimators.consistent.consistent import Consistent
from steelyard.estimators.estimator import Estimate
from steelyard.export.file_fit.rows import LoggedRows, file_model
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.model.model import Model
from steelyard.physical.constraints import PHYSICAL, Constraints


@dataclass(frozen=True)
class FileFit:
    """A physical standard set theta (C,) of the `model` that a file computes, with its estimate.

    `weight` λ of the pull to the reference bodies; `share` of each of them that a body keeps, 0 where that bound
    contradicts the data.
    """

    model: Model
    base: BaseParameters
    estimate: Estimate
    share: float

    @property
    def theta(self) -> Array:
        assert self.estimate.standard is not None
        return self.estimate.standard

    @property
    def weight(self) -> float:
        assert self.estimate.certificate is not None
        return self.estimate.certificate.weight

    @property
    def rule(self) -> str:
        """How the values were chosen, as text."""
        bodies = "the file's bodies" if self.share else "the file's bodies, of which no share is kept"
        return (
            "fitted to the logged rows over what the format holds; physical bodies, pulled to "
            f"{bodies} as far as it hardly costs (weight {self.weight:.3g})"
        )


def fit_for_file(
    rows: LoggedRows,
    model: Model,
    holds: Collection[str],
    reference: Array | None = None,
    constraints: Constraints = PHYSICAL,
) -> FileFit:
    """The fit over the terms `holds`. `constraints` are those that the user stated for the identification.

    `reference` (C,) of the model gives the bodies to be pulled to if the robot file states none.
    """
    held = file_model(model, holds)
    fitted = held
    if held.layout.nominal is None and reference is not None:
        links = (
            link if link.virtual else replace(link, inertia=body)
            for link, body in zip(model.robot.links, model.link_inertias(reference), strict=True)
        )
        fitted = replace(held, robot=replace(held.robot, links=tuple(links)))
    base = base_parameters(fitted)
    own = rows.fitted.on(base.layout)

    def found(share: float) -> Estimate:
        asked = replace(constraints, nominal_share=share, nonnegative=None)
        return Consistent("slack", "pull-back", constraints=asked).estimate(None, base, own)

    bounded, share = found(KEPT_SHARE), KEPT_SHARE
    if links_at_share(base, bounded):
        without = found(0.0)
        if bounds_cost(base, own, bounded, without):
            bounded, share = without, 0.0
    return FileFit(held, base, bounded, share)


def base_moves(base: BaseParameters, value: Array, std: Array, theta: Array) -> tuple[tuple[str, float, float], ...]:
    """Identified base values (b,) and those of theta (C,), (name, identified, written), largest change in σ first.

    Changes of less than 3 σ are left out, and parameters without a value.
    """
    written = base.map @ theta
    with np.errstate(invalid="ignore", divide="ignore"):
        moves = np.abs(written - value) / std
    order = [int(k) for k in np.argsort(-np.nan_to_num(moves, nan=-1.0)) if moves[k] > 3.0]
    return tuple((base.names[k], float(value[k]), float(written[k])) for k in order)
