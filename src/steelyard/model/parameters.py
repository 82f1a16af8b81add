"""Names of parameters: `Layout`, the single definition of column order, and inertial vectors.

The ten inertial parameters of a link are in the papers' order (P0 eq. 3)

    XX XY XZ YY YZ ZZ   inertia matrix about the link frame's origin  [kg·m²]
    MX MY MZ            first moment m·c                              [kg·m]
    M                   mass                                          [kg]

with XY = I[0, 1] the matrix *entry* (the product of inertia with its minus sign).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import ModelError, choices

Kind = Literal["link", "payload", "spring", "term"]

INERTIAL = ("XX", "XY", "XZ", "YY", "YZ", "ZZ", "MX", "MY", "MZ", "M")
_INERTIAL_UNIT = dict.fromkeys(INERTIAL[:6], "kg.m2") | dict.fromkeys(INERTIAL[6:9], "kg.m") | {"M": "kg"}


@dataclass(frozen=True)
class Column:
    """One column of the regressor: `owner.symbol`, e.g. `link3.MX`, `joint5.Fv`.

    `nominal` is the value in the robot file, None if there is none; `width` is the standard deviation for a prior if
    the term of the column defines its own. `kind` is the kind of owner: a link, a payload, a spring (or compensator),
    or another term. A `known` column is not identified: its nominal value holds, to ± width.
    """

    owner: str
    symbol: str
    unit: str
    nominal: float | None = None
    width: float | None = None
    kind: Kind = "term"
    known: bool = False

    @property
    def name(self) -> str:
        return f"{self.owner}.{self.symbol}"


@dataclass(frozen=True)
class Layout:
    """The ordered columns of a model."""

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        if len(self._index) != len(self.columns):
            twice = sorted({n for n in self.names if self.names.count(n) > 1})
            raise ModelError(f"Two columns have the same name: {', '.join(twice)}. Rename a link, a joint or a term.")

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def units(self) -> tuple[str, ...]:
        return tuple(column.unit for column in self.columns)

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.names)}

    @cached_property
    def known(self) -> Array:
        """The value of every column that is known beforehand, zero elsewhere, (C,)."""
        return np.array([(c.nominal or 0.0) if c.known else 0.0 for c in self.columns])

    def __len__(self) -> int:
        return len(self.columns)

    def __contains__(self, name: str) -> bool:
        return name in self._index

    def index(self, name: str) -> int:
        """Index of a column by name."""
        try:
            return self._index[name]
        except KeyError:
            raise ModelError(choices("parameter", name, self.names)) from None

    @cached_property
    def nominal(self) -> Array | None:
        """Nominal value of every column [SI], or None unless the robot file gives all ten of every link.

        Other values that the file does not give are zero in the nominal model.
        """
        if any(c.nominal is None and c.kind == "link" for c in self.columns):
            return None
        return np.array([c.nominal or 0.0 for c in self.columns])


def inertial_columns(
    owner: str, values: Sequence[float] | Array | None, kind: Literal["link", "payload"] = "link"
) -> tuple[Column, ...]:
    """The ten columns of a link or a payload, with its nominal values if it has any."""
    given: Iterable[float | None] = [None] * 10 if values is None else [float(x) for x in values]
    return tuple(Column(owner, s, _INERTIAL_UNIT[s], x, kind=kind) for s, x in zip(INERTIAL, given, strict=True))


def skew(r: Array) -> Array:
    """[r]ₓ with [r]ₓ s = r × s."""
    return np.array([[0.0, -r[2], r[1]], [r[2], 0.0, -r[0]], [-r[1], r[0], 0.0]])


def inertial_vector(mass: float, com: Array, inertia_com: Array) -> Array:
    """Ten parameters from mass [kg], centre of mass [m] and inertia about it [kg·m²] (Huygens: I₀ = I_c − m[c]ₓ²)."""
    about_origin = inertia_com - mass * skew(com) @ skew(com)
    upper = about_origin[np.triu_indices(3)]
    return np.concatenate([upper, mass * np.asarray(com, float), [mass]])


def inertia_matrix(vector: Array) -> Array:
    """The 3×3 inertia about the frame's origin held in the first six parameters."""
    xx, xy, xz, yy, yz, zz = vector[:6]
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def transformed_inertia(vector: Array, rotation: Array, position: Array) -> Array:
    """The ten parameters of a body known in frame B, expressed in frame A, with ᴬT_B = (rotation, position).

    I_A = R I_B Rᵀ − m[p]ₓ[p]ₓ − [p]ₓ[R mc]ₓ − [R mc]ₓ[p]ₓ   (exact for massless bodies too)
    """
    mass = vector[9]
    moment = rotation @ vector[6:9]
    p, h = skew(np.asarray(position, float)), skew(moment)
    inertia = rotation @ inertia_matrix(vector) @ rotation.T - mass * p @ p - p @ h - h @ p
    return np.concatenate([inertia[np.triu_indices(3)], moment + mass * np.asarray(position, float), [mass]])
