"""Prior: the standard parameters given by a CAD model or a URDF, and their uncertainty."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.model.base_parameters import BaseParameters
from steelyard.model.parameters import INERTIAL, Layout
from steelyard.physical.consistency import pseudo_inertia
from steelyard.regression.information import Information

# A body cannot exist if its pseudo-inertia has an eigenvalue below this fraction of the largest, with a minus sign.
IMPOSSIBLE = 1e-6


@dataclass(frozen=True)
class Widths:
    """Standard deviations of a prior, relative to the parameters.

    mass        σ_M = mass · M
    moment      σ_MX = moment · |MX| + reach · M            `reach` [m]: error of a centre of mass
    inertia     σ_XX = inertia · (tr I / 2 + reach² · M)     the same for all six entries of a link
    rotor       σ_Ia = rotor · Ia
    friction    σ_F = friction · rms(y_j) / rms(column): friction and offsets are around the file's values, else around
                zero, with an error of at most that fraction of the joint's effort. It keeps columns that the motion
                cannot separate from growing against each other. A coefficient with a unit is judged at the speed of
                the fastest joint: a joint that moved slowly in this log must not have any friction at higher speeds.
    The column of a term (e.g. a compensator) states its own width.
    """

    mass: float = 0.2
    moment: float = 0.2
    reach: float = 0.05
    inertia: float = 0.2
    rotor: float = 0.2
    friction: float = 0.5

    def __post_init__(self) -> None:
        if not all(1e-6 <= x <= 1e6 for x in vars(self).values()):
            raise EstimationError(f"The widths of a prior must be positive, from 1e-6 to 1e6, not {self}.")


@dataclass(frozen=True)
class Prior:
    """θ ~ N(reference, diag(width²)) over the standard columns; an infinite width means no prior for that column.

    `half` H (C, C), where columns are correlated, gives the covariance H Hᵀ; it is zero where the width is infinite.
    """

    reference: Array
    width: Array
    half: Array | None = None

    @property
    def has_prior(self) -> NDArray[np.bool_]:
        """The columns that have a prior, (C,)."""
        return np.isfinite(self.width)

    @property
    def root(self) -> Array:
        """H (C, C) of the covariance H Hᵀ, zero for columns without a prior."""
        return np.diag(np.where(self.has_prior, self.width, 0.0)) if self.half is None else self.half

    @property
    def rows(self) -> Array:
        """[H⁻¹ | H⁻¹ θ_ref] (k, C + 1) of the k columns with a prior: rows of unit standard deviation."""
        informed = np.flatnonzero(self.has_prior)
        out = np.zeros((len(informed), len(self.width) + 1))
        out[:, informed] = np.linalg.inv(self.root[np.ix_(informed, informed)])
        out[:, -1] = out[:, :-1] @ self.reference
        return out

    def in_base(self, base: BaseParameters) -> Array:
        """Rows [P | p] (k, b + 1) with unit standard deviation: the prior of the base parameters.

        χ_b = Bθ ~ N(B θ_ref, B H Hᵀ Bᵀ). A base parameter that contains a column without a prior gets none; the others
        are marginal, which for a normal distribution means taking their block of the covariance.
        """
        known = np.array([np.all(self.has_prior[row != 0.0]) for row in base.map])
        b = base.map[known]
        half = b @ self.root
        root = cholesky(half @ half.T, lower=True)
        rows = np.zeros((len(b), len(base) + 1))
        rows[:, np.flatnonzero(known)] = solve_triangular(root, np.eye(len(b)), lower=True)
        rows[:, -1] = solve_triangular(root, b @ self.reference, lower=True)
        return rows


def with_friction(prior: Prior, information: Information, share: float) -> Prior:
    """The prior with a width for friction and offsets, from the size of efforts and columns in the data.

    σ = share · rms(y_j) / rms(w_c) over the rows of the joints j that the column c affects; rms(w_c) is the largest of
    all joints with a column of that symbol and unit, if that is an effort or an effort per speed. Fractions of a load
    keep their own rms. Rotor inertias are unchanged: an unknown one is not a small effect.
    """
    layout = information.layout
    effort, size, rows = (np.zeros(len(layout)) for _ in range(3))
    for own, triangle in zip(information.columns, information.joint_triangles, strict=True):
        size[own] += np.sum(triangle.r[:, : len(own)] ** 2, axis=0)
        effort[own] += np.sum(triangle.r[:, len(own)] ** 2)
        rows[own] += triangle.rows
    largest: dict[tuple[str, str], float] = {}
    for k, column in enumerate(layout.columns):
        if rows[k]:
            kind = column.symbol, column.unit
            largest[kind] = max(largest.get(kind, 0.0), size[k] / rows[k])
    width = prior.width.copy()
    for k, column in enumerate(layout.columns):
        is_friction = column.kind == "term" and column.symbol != "Ia"
        if is_friction and not np.isfinite(width[k]) and size[k] > 0.0:
            of_load = not column.unit.startswith("N")
            square = size[k] / rows[k] if of_load else largest[column.symbol, column.unit]
            width[k] = share * np.sqrt(effort[k] / rows[k] / square)
    return replace(prior, width=width)


def nominal_prior(layout: Layout, widths: Widths) -> Prior:
    """The prior of a robot file: its nominal values with the stated widths."""
    if layout.nominal is None:
        missing = sorted({c.owner for c in layout.columns if c.kind == "link" and c.nominal is None})
        raise EstimationError(
            f"The robot file gives no nominal inertias for {', '.join(missing)}, so there is no prior. Add them to the "
            "robot file, or use the estimator wls or ridge."
        )
    negative = [c.name for c in layout.columns if c.symbol in ("M", "Ia") and (c.nominal or 0.0) < 0.0]
    if negative:
        raise EstimationError(
            f"The robot file gives a negative {', '.join(negative)}. Fix it before you use it as a prior."
        )
    if not any(c.nominal for c in layout.columns if c.symbol == "M"):
        raise EstimationError("The robot file gives no masses, so there is no prior. Use the estimator wls.")
    return Prior(layout.nominal, column_widths(layout, layout.nominal, widths))


def search_widths(layout: Layout, reference: Array | None, sizes: Array, widths: Widths | None = None) -> Array:
    """The unit (C,) in which searches measure the distance of a standard set from that of the file, or from a reference
    (C,).

    `column_widths` where there is a prior; the column's own size (C,) where there is none.
    """
    if reference is None:
        return sizes
    stated = column_widths(layout, reference, widths or Widths())
    return np.where(np.isfinite(stated) & (stated > 0.0), stated, sizes)


def column_widths(layout: Layout, nominal: Array, widths: Widths) -> Array:
    """Standard deviation of every column [SI]; inf where there is no prior, as for payloads."""
    out = np.full(len(layout), np.inf)
    links: dict[str, dict[str, int]] = {}
    for k, column in enumerate(layout.columns):
        if column.kind == "payload":
            continue  # a payload has no prior
        if column.width is not None:
            out[k] = column.width
        elif column.symbol in INERTIAL:
            links.setdefault(column.owner, {})[column.symbol] = k
        elif column.symbol == "Ia" and column.nominal:  # files without rotor data state zero
            out[k] = widths.rotor * column.nominal
    heaviest = max(nominal[place["M"]] for place in links.values())
    for place in links.values():
        values = {symbol: nominal[k] for symbol, k in place.items()}
        # A link without any value may still have some mass. Values of a body that cannot exist are sums over several
        # links, as identified elsewhere: they say nothing about the mass, and no more about the others than the
        # heaviest link's.
        body = np.linalg.eigvalsh(pseudo_inertia(np.array([values[symbol] for symbol in INERTIAL])))
        exists = body[0] >= -IMPOSSIBLE * body[-1]
        mass = max(values["M"], (1e-3 if exists else 1.0) * heaviest)
        size = 0.5 * abs(values["XX"] + values["YY"] + values["ZZ"]) + widths.reach**2 * mass
        for symbol, k in place.items():
            if symbol == "M":
                out[k] = widths.mass * mass
            elif symbol in ("MX", "MY", "MZ"):
                out[k] = widths.moment * abs(values[symbol]) + widths.reach * mass
            else:
                out[k] = widths.inertia * size
    return out
