"""Mass, centre of mass and inertia about it of a body, with error bars, from its ten parameters.

c = mc / M        J = I − (‖mc‖² 1 − mc mcᵀ) / M        cov = H C Hᵀ   with   H = ∂(M, c, J)/∂(ten parameters)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from steelyard._arrays import Array
from steelyard.identification.result import Identification
from steelyard.model.parameters import INERTIAL
from steelyard.physical.consistency import com_inertia, link_columns

BODY = ("mass", "com x", "com y", "com z", *(f"inertia {symbol.lower()}" for symbol in INERTIAL[:6]))
BODY_UNITS = ("kg", *["m"] * 3, *["kg.m2"] * 6)

_UPPER = np.triu_indices(3)


def body_values(vector: Array) -> Array:
    """M, c and the upper triangle of J (10,) in the order of `BODY`; c is NaN without mass."""
    com = vector[6:9] / vector[9] if vector[9] else np.full(3, np.nan)
    return np.concatenate([[vector[9]], com, com_inertia(vector)[_UPPER]])


def body_slope(vector: Array) -> Array:
    """H (10, 10), rows M, c, J; NaN where the mass is zero."""
    mass, com, out = vector[9], body_values(vector)[1:4], np.zeros((10, 10))
    out[0, 9] = 1.0
    out[1:4, 6:9] = np.eye(3) / mass if mass else np.nan
    out[1:4, 9] = -com / mass if mass else np.nan
    out[4:, :6] = np.eye(6)
    for k, axis in enumerate(np.eye(3)):
        out[4:, 6 + k] = -(2.0 * com[k] * np.eye(3) - np.outer(axis, com) - np.outer(com, axis))[_UPPER]
    out[4:, 9] = (com @ com * np.eye(3) - np.outer(com, com))[_UPPER]
    return out


def deviations(slope: Array, covariance: Array) -> Array:
    """√ of the diagonal of H C Hᵀ, computed row by row over the parameters that the row depends on.

    Otherwise NaN · 0 would make a value NaN because of parameters that do not affect it.
    """
    parts = [np.flatnonzero(row) for row in slope]
    return np.array([np.sqrt(row[k] @ covariance[np.ix_(k, k)] @ row[k]) for row, k in zip(slope, parts, strict=True)])


@dataclass(frozen=True)
class PayloadBody:
    """A payload in a result: ten parameters about its own frame (10,), NaN where the runs do not separate them.

    `stated` holds value and σ of the parameters known beforehand (σ = 0: exact); `link` is empty where it was not
    stated.
    """

    name: str
    link: str
    stated: dict[str, tuple[float, float]]
    value: Array
    covariance: Array

    @cached_property
    def body(self) -> Array:
        """M [kg], c [m], J [kg·m²] in the order of `BODY`, (10,)."""
        return body_values(self.value)

    @cached_property
    def std(self) -> Array:
        """Their σ to first order, (10,)."""
        return deviations(body_slope(self.value), self.covariance)


def payload_bodies(result: Identification, links: Mapping[str, str] | None = None) -> tuple[PayloadBody, ...]:
    """The payloads identified with a robot, in the order of its layout.

    `links` are the links that carry them, by payload name; an empty text is the robot's last link as in a project file.
    A base parameter is assigned to the payload only if it contains no other parameter. Stated values are treated as
    independent of the estimates: where gains were scaled by a stated mass, the errors of M and mc are correlated, and σ
    of c is too large rather than too small.
    """
    layout, base = result.base.layout, result.base
    last = next(column.owner for column in reversed(layout.columns) if column.kind == "link")
    own = {k: i for i, k in enumerate(base.kept) if np.count_nonzero(base.map[i]) == 1}
    out = []
    for name, columns in link_columns(layout).items():
        if layout.columns[columns[0]].kind != "payload":
            continue
        known = {c.symbol: (c.nominal or 0.0, c.width or 0.0) for c in (layout.columns[k] for k in columns) if c.known}
        value, covariance = np.full(10, np.nan), np.zeros((10, 10))
        found = [j for j, k in enumerate(columns) if k in own]
        rows = [own[int(columns[j])] for j in found]
        value[found] = result.value[rows]
        covariance[np.ix_(found, found)] = result.covariance[np.ix_(rows, rows)]
        for symbol, (x, deviation) in known.items():
            j = INERTIAL.index(symbol)
            value[j], covariance[j, j] = x, deviation**2
        link = "" if links is None else links.get(name) or last
        out.append(PayloadBody(name, link, known, value, covariance))
    return tuple(out)
