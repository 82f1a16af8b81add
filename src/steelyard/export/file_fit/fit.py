"""The best values of a robot file: a fit over what the format can hold, not the identified values without the rest.

    θ̂ = argmin Σ_j ‖y_j − W_j θ‖² / σ_j² + λ Σ_l tr((P₀ₗ⁻¹(P_l − P₀ₗ))²)   with   P_l ⪰ 0.3 P₀ₗ,  Ia, Fv, Fc ≥ 0

over the columns of the format. P₀ are the bodies of the robot file; λ is the largest that hardly costs (weight "slack"
of `consistent`). Masses stay within the width of their prior: motion hardly determines them, and without a bound they
make up for what the format lacks. Bounds that contradict the data are left out.

Identified inertias are traded against offsets and rotors: where a file drops these, they are no longer the best ones.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from steelyard._arrays import Array
from steelyard.estimators.auto import AT_BOUND, KEPT_SHARE, bounds_cost, links_at_share
from steelyard.estimators.consistent.consistent import Consistent
from steelyard.estimators.estimator import Estimate
from steelyard.export.file_fit.rows import LoggedRows, file_model
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.model.model import Model
from steelyard.physical.constraints import PHYSICAL, Constraints
from steelyard.physical.prior import Widths


@dataclass(frozen=True)
class FileFit:
    """A physical standard set theta (C,) of the `model` that a file computes, with its estimate.

    `weight` λ of the pull to the reference bodies; `share` of each of them that a body keeps, and `mass_width`, the
    relative change of a mass that is allowed: 0 and infinite where these bounds contradict the data.
    """

    model: Model
    base: BaseParameters
    estimate: Estimate
    share: float
    mass_width: float

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
        held = [f"at least {self.share:.0%} of each"] if self.share else []
        held += [f"masses within {self.mass_width:.0%}"] if np.isfinite(self.mass_width) else []
        return (
            "fitted to the logged rows over what the format holds; physical bodies, pulled to those of the robot file "
            f"as far as it hardly costs (weight {self.weight:.3g}{''.join(f'; {one}' for one in held)})"
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
    own = rows.fitted.without_known().on(base.layout)

    def found(share: float, mass_width: float) -> Estimate:
        masses = {**_mass_bounds(base, mass_width), **constraints.masses}
        asked = replace(constraints, nominal_share=share, nonnegative=None, masses=masses)
        return Consistent("slack", "pull-back", constraints=asked).estimate(None, base, own)

    share, width = KEPT_SHARE, Widths().mass
    bounded = found(share, width)
    if _masses_at_bound(base, bounded, width):
        without = found(share, np.inf)
        if bounds_cost(base, own, bounded, without):
            bounded, width = without, np.inf
    if links_at_share(base, bounded):
        without = found(0.0, width)
        if bounds_cost(base, own, bounded, without):
            bounded, share = without, 0.0
    return FileFit(held, base, bounded, share, width)


def _masses(base: BaseParameters) -> dict[str, tuple[int, float]]:
    """Column and nominal value of the mass of every link that has one in the file."""
    columns = enumerate(base.layout.columns)
    return {c.owner: (k, c.nominal) for k, c in columns if c.kind == "link" and c.symbol == "M" and c.nominal}


def _mass_bounds(base: BaseParameters, width: float) -> dict[str, tuple[float, float]]:
    if not np.isfinite(width):
        return {}
    return {link: ((1.0 - width) * mass, (1.0 + width) * mass) for link, (_, mass) in _masses(base).items()}


def _masses_at_bound(base: BaseParameters, found: Estimate, width: float) -> bool:
    assert found.standard is not None
    changes = [abs(found.standard[k] / mass - 1.0) for k, mass in _masses(base).values()]
    return max(changes, default=0.0) > (1.0 - AT_BOUND) * width


def base_moves(base: BaseParameters, value: Array, std: Array, theta: Array) -> tuple[tuple[str, float, float], ...]:
    """Identified base values (b,) and those of theta (C,), (name, identified, written), largest change in σ first.

    Changes of less than 3 σ are left out, and parameters without a value.
    """
    written = base.map @ theta
    with np.errstate(invalid="ignore", divide="ignore"):
        moves = np.abs(written - value) / std
    order = [int(k) for k in np.argsort(-np.nan_to_num(moves, nan=-1.0)) if moves[k] > 3.0]
    return tuple((base.names[k], float(value[k]), float(written[k])) for k in order)
