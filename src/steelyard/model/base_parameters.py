"""Base parameters: linear combinations of standard parameters that motion can determine (P0 §III, Gautier 1991)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from steelyard._arrays import Array, single_threaded
from steelyard.errors import ModelError
from steelyard.model.model import Model
from steelyard.model.parameters import INERTIAL, Layout

STRUCTURAL_TOLERANCE = 1e-8
# Columns that `independent_columns` projects at once.
_PANEL = 64
# Up to this many columns all rows are compared as they are. Reducing them first moves columns by rounding errors, which
# matter where a kept column is almost dependent (joints that follow each other): later ones may seem independent.
_WIDE = 800
# Attribute of a (frozen) model that caches its base parameters, as `cached_property` would.
_KEPT = "_base_parameters"


@dataclass(frozen=True)
class Independence:
    """Result of a pass over columns from left to right: which are kept, and how clear the decision was."""

    kept: tuple[int, ...]
    dropped: tuple[int, ...]
    smallest_kept: float
    largest_dropped: float


def independent_columns(matrix: Array, tolerance: float) -> Independence:
    """Gautier's rule: a column is dropped when it lies in the span of the columns kept before it.

    Columns are scaled to unit norm, so `tolerance` is the sine of the angle to that span. Columns are orthogonalised
    twice, which keeps the sines of dropped columns at rounding level: against the kept columns of earlier panels with
    the whole panel at once, which is many times faster on wide matrices, then one by one within the panel.
    """
    norms = np.linalg.norm(matrix, axis=0)
    scaled = matrix / np.where(norms > 0.0, norms, 1.0)
    count = matrix.shape[1]
    if count and matrix.shape[0] >= count:
        # fast path if all are independent, from one factorisation: |R_kk| is the sine of column k
        plain = np.abs(np.diagonal(np.linalg.qr(scaled, mode="r")))
        if plain.min() > tolerance:
            return Independence(tuple(range(count)), (), float(plain.min()), 0.0)
    basis = np.zeros((matrix.shape[0], min(matrix.shape)), order="F")
    kept: list[int] = []
    dropped: list[int] = []
    sines = np.zeros(count)
    for first in range(0, count, _PANEL):
        before = len(kept)
        panel = _outside(basis[:, :before], scaled[:, first : first + _PANEL])
        for k, column in enumerate(panel.T, start=first):
            rest = _outside(basis[:, before : len(kept)], column)
            sines[k] = np.linalg.norm(rest)
            if sines[k] > tolerance and len(kept) < basis.shape[1]:
                basis[:, len(kept)] = rest / sines[k]
                kept.append(k)
            else:
                dropped.append(k)
    return Independence(
        tuple(kept),
        tuple(dropped),
        float(min(sines[kept], default=np.inf)),
        float(max(sines[dropped], default=0.0)),
    )


def _outside(basis: Array, x: Array) -> Array:
    """The part of x orthogonal to orthonormal columns; projected twice, as rounding leaves some after the first."""
    for _ in range(2):
        x = x - basis @ (basis.T @ x)
    return x


@dataclass(frozen=True)
class BaseParameters:
    """χ_b = B χ: `map` B (b, C) with an identity on the kept columns, so that W = W[:, kept] B.

    A base parameter has the name of its kept column; `expression` gives its linear combination.
    """

    layout: Layout
    zero: tuple[int, ...]
    kept: tuple[int, ...]
    map: Array
    smallest_kept: float
    largest_dropped: float

    def __len__(self) -> int:
        return len(self.kept)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.layout.names[k] for k in self.kept)

    def theta(self, value: Array) -> Array:
        """A standard vector (C,) with these base values (b,) on the kept columns, known values, and zero elsewhere.

        It predicts exactly the torque of the base parameters; it is not a physical set.
        """
        out = self.layout.known.copy()
        out[list(self.kept)] = np.nan_to_num(value)
        return out

    @cached_property
    def units(self) -> tuple[str, ...]:
        return tuple(self.layout.units[k] for k in self.kept)

    @cached_property
    def regroupings(self) -> dict[str, dict[str, float]]:
        """{base parameter: {column: coefficient}}, the kept column itself first with coefficient 1."""
        out: dict[str, dict[str, float]] = {}
        for row, lead in zip(self.map, self.kept, strict=True):
            others = {self.layout.names[c]: float(row[c]) for c in np.flatnonzero(row) if c != lead}
            out[self.layout.names[lead]] = {self.layout.names[lead]: 1.0} | others
        return out

    @cached_property
    def expressions(self) -> tuple[str, ...]:
        """Base parameters as sums of standard ones, e.g. `link1.ZZ + joint1.Ia + 0.07*link3.MZ`."""
        return tuple(_expression(group) for group in self.regroupings.values())


def _expression(group: dict[str, float]) -> str:
    parts = []
    for name, x in group.items():
        size = f"{abs(x):.6g}"
        term = name if size == "1" else f"{size}*{name}"
        parts.append(("- " if x < 0 else "+ ") + term)
    return " ".join(parts).removeprefix("+ ")


def elimination_order(model: Model) -> list[int]:
    """Columns in order of preference: an earlier one is kept rather than a later one.

    For equal legs, the same parameter of all legs is grouped together, after the columns that belong to no leg, so that
    a parameter is kept for all legs or for none (P3 eq. 23): [W_platform  W_χ1,legs  W_χ2,legs …]. Payloads come last.
    """
    columns, place = model.layout.columns, model.robot.leg_places
    symbols = list(dict.fromkeys((*INERTIAL, *(column.symbol for column in columns))))

    def key(k: int) -> tuple[int, ...]:
        column = columns[k]
        if column.kind == "payload":
            return (2, k)
        if column.owner not in place:
            return (0, k)
        step, leg = place[column.owner]
        return (1, step, symbols.index(column.symbol), leg)

    return sorted(range(len(columns)), key=key)


def base_parameters(model: Model, without: Sequence[str] = ()) -> BaseParameters:
    """Structural base parameters from random states within the limits: a property of the model, cached in it.

    Zero columns are dropped first, by absolute norm: scaling them up would make noise look independent. `without`
    leaves out columns by symbol (`off`) or by full name (`joint3.Fc`); columns known beforehand are left out too. With
    payloads the states are those of robots with and without them, whose links are the same (P2 eq. 10). Columns are
    taken in the layout's order, those of equal legs parameter by parameter (`elimination_order`).
    """
    kept = vars(model).setdefault(_KEPT, {})
    if (left_out := tuple(without)) not in kept:
        kept[left_out] = _computed(model, left_out)
    return kept[left_out]


@single_threaded
def _computed(model: Model, without: tuple[str, ...]) -> BaseParameters:
    layout = model.layout
    left_out = {k for k, c in enumerate(layout.columns) if c.known or c.symbol in without or c.name in without}
    count = max(64, 6 * len(layout) // model.robot.dof)
    rows = model.random_regressor(np.random.default_rng(1), count).transpose(0, 2, 1)
    if not np.all(np.isfinite(rows)):
        raise ModelError(f"The geometry or gravity of '{model.robot.name}' is too large: check its lengths and units.")
    stacked = rows.reshape(-1, len(layout)) if len(layout) <= _WIDE else _triangle(rows)
    silent = np.logical_not(model.nonzero.any(axis=0))
    zero = [int(k) for k in np.flatnonzero(silent) if k not in left_out]
    live = [k for k in elimination_order(model) if not silent[k] and k not in left_out]
    result = independent_columns(stacked[:, live], STRUCTURAL_TOLERANCE)
    kept = [live[k] for k in result.kept]
    if not kept:
        raise ModelError(
            f"'{model.robot.name}' has no base parameters: no moving body or term has an effect on an effort."
        )
    dropped = [live[k] for k in result.dropped]
    mapping = np.zeros((len(kept), len(layout)))
    mapping[np.arange(len(kept)), kept] = 1.0
    if dropped:
        size, scale = np.linalg.norm(stacked[:, dropped], axis=0), np.linalg.norm(stacked[:, kept], axis=0)
        q, r = np.linalg.qr(stacked[:, kept] / scale)
        share = solve_triangular(r, q.T @ (stacked[:, dropped] / size))
        # rounding, and its effect on columns after the dropped one
        share[(np.abs(share) < 1e-10) | np.greater.outer(result.kept, result.dropped)] = 0.0
        mapping[:, dropped] = np.round(share * size / scale[:, None], 13)
    listed = np.argsort(kept)
    mapping = mapping[listed]
    mapping.flags.writeable = False  # shared by all callers
    return BaseParameters(
        layout,
        tuple(zero),
        tuple(kept[k] for k in listed),
        mapping,
        result.smallest_kept,
        result.largest_dropped,
    )


def _triangle(rows: Array) -> Array:
    """R (≤ 2C, C) with RᵀR = Σ_j W_jᵀW_j for rows W_j (n, m, C) of the joints, from joints with few columns on.

    The columns of a joint are mostly those of the links that it moves. So the rows of a finger, then of its hand, then
    of the arm are reduced to a triangle, and only the last reductions are as wide as the robot.
    """
    reach: NDArray[np.bool_] = np.any(rows, axis=1)
    parts: list[tuple[NDArray[np.bool_], Array]] = []
    for j in np.argsort(reach.sum(axis=1), kind="stable"):
        shared = [part for part in parts if np.any(part[0] & reach[j])]
        parts = [part for part in parts if not np.any(part[0] & reach[j])]
        columns = np.logical_or.reduce([reach[j], *(own for own, _ in shared)])
        gathered = np.concatenate([rows[j], *(part for _, part in shared)])
        # reduced often enough to stay small, and no oftener: a reduction costs as much for few new rows as for many
        parts.append((columns, _reduced(gathered, columns) if len(gathered) > 2 * columns.sum() else gathered))
    return np.concatenate([part for _, part in parts])


def _reduced(rows: Array, columns: NDArray[np.bool_]) -> Array:
    """R (at most as many rows as columns marked, C) of rows (m, C) that are zero outside the columns marked."""
    r = np.linalg.qr(rows[:, columns], mode="r")
    out = np.zeros((len(r), rows.shape[1]))
    out[:, columns] = r
    return out
