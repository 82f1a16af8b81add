"""Priors of a consistent estimate: three measures of the distance of a body from its nominal one in the robot file.

    euclidean   ‖D⁻¹(θ − θ₀)‖²                    D the widths of every column
    pull-back   tr((P₀⁻¹(P − P₀))²) / δ²           the metric of positive matrices, taken at the nominal body
    entropic    2 (tr(P₀⁻¹P) − log det(P₀⁻¹P) − 4) / δ²

P is a body's pseudo-inertia. The last two depend neither on units nor on the link's frame (Lee, Wensing, Park, 2020);
they agree to second order. Columns of the drives are regularised by their widths in all three.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import inv, sqrtm

from steelyard._arrays import Array
from steelyard.findings import Finding
from steelyard.model.parameters import Layout
from steelyard.physical.cones import ConeScales, Entropy
from steelyard.physical.consistency import link_columns, pseudo_inertia, pseudo_inertia_vector
from steelyard.physical.prior import Prior, Widths, nominal_prior, search_widths, with_friction
from steelyard.regression.information import Information

Regulariser = Literal["euclidean", "pull-back", "entropic"]
REGULARISERS: tuple[str, ...] = get_args(Regulariser)
# A nominal body whose smallest scaled pseudo-inertia eigenvalue is below this has no metric of its own ...
FLAT = 1e-6
# ... and is thickened to this value: a tenth of its length.
THICK = 1e-2
_ROW, _COLUMN = np.triu_indices(4)


@dataclass(frozen=True)
class Pull:
    """A prior, the bodies regularised by entropy instead (body → P₀^(−½)), and the repaired nominal bodies."""

    prior: Prior
    bodies: dict[str, Array]
    mended: tuple[str, ...] = ()

    def entropies(self, layout: Layout, weight: float, width: float) -> tuple[Entropy, ...]:
        """½ · weight · 2 D / δ² of every body."""
        links = link_columns(layout)
        return tuple(Entropy(links[name], whiten, weight / width**2) for name, whiten in self.bodies.items())

    def of_bodies(self, layout: Layout) -> Pull:
        """The prior of the bodies alone: the columns of the drives become free."""
        bodies = np.array([column.kind == "link" for column in layout.columns])
        width, half = np.where(bodies, self.prior.width, np.inf), self.prior.half
        return replace(self, prior=replace(self.prior, width=width, half=_within(half, bodies)))

    @property
    def findings(self) -> tuple[Finding, ...]:
        if not self.mended:
            return ()
        message = (
            f"{', '.join(self.mended)} of the robot file is not physical, or is a point, a rod or a plate: the prior "
            "uses the nearest body with some thickness"
        )
        return (
            Finding(
                "prior-repaired",
                "info",
                message,
                fix="fix the robot file: steelyard consistency ROBOT lists these bodies",
            ),
        )


def _within(half: Array | None, kept: NDArray[np.bool_]) -> Array | None:
    return None if half is None else np.where(kept[:, None] & kept[None, :], half, 0.0)


def nominal_or_zero(layout: Layout) -> Array:
    """Nominal value of every column (C,), zero where the robot file gives none; stated values as stated."""
    nominal = np.zeros(len(layout)) if layout.nominal is None else layout.nominal
    return np.where([column.known for column in layout.columns], layout.known, nominal)


def rope(layout: Layout, scales: ConeScales, widths: Widths) -> Prior:
    """The weak prior that decides only what data and constraints leave open. It covers every column, so that it always
    can."""
    return Prior(nominal_or_zero(layout), search_widths(layout, layout.nominal, scales.columns, widths))


def pull(
    layout: Layout, information: Information, scales: ConeScales, widths: Widths, regulariser: Regulariser
) -> Pull:
    """The robot file as a prior, in the requested measure. Payloads and columns without a nominal value are free.

    Without nominal inertias, friction and offsets alone have a prior.
    """
    plain = plain_prior(layout, information, widths)
    if layout.nominal is None or regulariser == "euclidean":
        return Pull(plain, {})
    reference, half, mended, whiten = plain.reference.copy(), plain.root, [], {}
    for name, columns in link_columns(layout).items():
        if not plain.has_prior[columns].all():
            continue
        body, thin = _body(reference[columns], scales.links[name])
        mended += [name] if thin else []
        reference[columns] = pseudo_inertia_vector(body)
        root = np.real(np.asarray(sqrtm(body)))
        half[np.ix_(columns, columns)] = widths.inertia * _around(root)
        if regulariser == "entropic":
            whiten[name] = inv(root)
    deviation = np.sqrt(np.sum(half**2, axis=1))
    width = np.where(plain.has_prior, deviation, np.inf)
    return Pull(replace(plain, reference=reference, width=width, half=half), whiten, tuple(mended))


def plain_prior(layout: Layout, information: Information, widths: Widths) -> Prior:
    """The prior in `widths`; without nominal inertias, only that of friction and offsets."""
    silent = Prior(np.zeros(len(layout)), np.full(len(layout), np.inf))
    told = silent if layout.nominal is None else nominal_prior(layout, widths)
    return with_friction(told, information, widths.friction)


def _body(vector: Array, scale: tuple[float, float]) -> tuple[Array, bool]:
    """The pseudo-inertia of a nominal body, thickened if it has no inverse; and whether that was needed."""
    size = np.sqrt(scale[0]) * np.array([scale[1], scale[1], scale[1], 1.0])
    values, vectors = np.linalg.eigh(pseudo_inertia(vector) / np.outer(size, size))
    if values[0] > FLAT:
        return pseudo_inertia(vector), False
    thick = (vectors * np.maximum(values, THICK)) @ vectors.T
    return thick * np.outer(size, size), True


def _around(root: Array) -> Array:
    """(10, 10): θ of P₀^½ N P₀^½ for ten unit symmetric N, off the diagonal 1/√2 twice: ‖N‖ of all is one."""
    columns = []
    for i, j in zip(_ROW, _COLUMN, strict=True):
        unit = np.zeros((4, 4))
        unit[i, j] = unit[j, i] = 1.0 if i == j else np.sqrt(0.5)
        columns.append(pseudo_inertia_vector(root @ unit @ root))
    return np.column_stack(columns)
