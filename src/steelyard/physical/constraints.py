"""Constraints: knowledge of a robot's bodies beyond the data, for every search of a physical standard set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull, QhullError

from steelyard._arrays import Array
from steelyard.errors import ModelError, choices
from steelyard.model.parameters import Layout
from steelyard.model.terms.registry import nonnegative_symbols
from steelyard.physical.consistency import pseudo_inertia

Vector = Sequence[float] | Array
Bounds = tuple[float | None, float | None]
Box = tuple[Vector, Vector]
Ellipsoid = tuple[Vector, Vector | Sequence[Vector]]
# Upper bounds of masses and sizes [SI]; the solver fails on larger numbers.
LARGEST = 1e9


@dataclass(frozen=True)
class Constraints:
    """Constraints on the standard parameters of a robot.

    margin ε ≥ 0 [SI]: P ⪰ ε·1, for ε > 0 strictly inside the cone.  tolerance t ≥ 0 [kg·m²]: Σ + t·1 in place of Σ, the
    tolerance of `check_links`.  nominal_share κ: P ⪰ κ·P₀ of a link whose body in the robot file, P₀, is physical: it
    keeps links from becoming points, rods or plates.  nonnegative: symbols of drive columns that are ≥ 0, or names of
    single columns (`joint4.Ia`); None: those of all known terms, registered ones included, at the time of use
    (`bounded`).  masses: link → (m⁻, m⁺) [kg].  total_mass: bounds of the sum of all moving links, payloads excluded
    [kg].

    The centre of mass c of a link lies, in its own frame [m], in
        boxes        (c⁻ (3,), c⁺ (3,))                 c⁻ ≤ c ≤ c⁺
        ellipsoids   (c₀ (3,), A)                       c = c₀ + A u, ‖u‖ ≤ 1; A (3, 3), or three half-axes
        hulls        points (k, 3), e.g. of its mesh     c in their convex hull
    """

    margin: float = 0.0
    tolerance: float = 0.0
    nominal_share: float = 0.0
    nonnegative: Sequence[str] | None = None
    masses: Mapping[str, Bounds] = field(default_factory=dict)
    boxes: Mapping[str, Box] = field(default_factory=dict)
    ellipsoids: Mapping[str, Ellipsoid] = field(default_factory=dict)
    hulls: Mapping[str, Sequence[Vector] | Array] = field(default_factory=dict)
    total_mass: float | None = None

    def __post_init__(self) -> None:
        for what, value in (("margin", self.margin), ("tolerance", self.tolerance)):
            if not 0.0 <= value <= LARGEST:
                raise ModelError(f"The {what} must be a number between 0 and {LARGEST:g}, not {value!r}.")
        if not 0.0 <= self.nominal_share < 1.0:
            raise ModelError(f"The nominal_share must be at least 0 and below 1, not {self.nominal_share!r}.")
        if self.total_mass is not None and not 0.0 < self.total_mass <= LARGEST:
            raise ModelError(f"The total mass must be positive and at most {LARGEST:g} kg, not {self.total_mass!r}.")
        for link, bounds in self.masses.items():
            mass_bounds(link, bounds)
        for link, box in self.boxes.items():
            box_corners(link, box)
        for link, ellipsoid in self.ellipsoids.items():
            ellipsoid_axes(link, ellipsoid)
        for link, points in self.hulls.items():
            hull_faces(link, points)

    def bounded(self, layout: Layout) -> tuple[int, ...]:
        """Indices of the drive columns that are ≥ 0."""
        asked = nonnegative_symbols() if self.nonnegative is None else tuple(self.nonnegative)
        valid = dict.fromkeys((*nonnegative_symbols(), *(column.symbol for column in layout.columns)))
        for name in asked:
            if name not in valid and name not in layout:
                raise ModelError(choices("symbol", name, valid))
        return tuple(k for k, column in enumerate(layout.columns) if column.symbol in asked or column.name in asked)

    def shift(self, layout: Layout, columns: NDArray[np.int64]) -> Array:
        """t·diag(1,1,1,0) − ε·1 − κ·P₀ (4, 4), added to the pseudo-inertia of the body with these ten columns."""
        shift = self.tolerance * np.diag([1.0, 1.0, 1.0, 0.0]) - self.margin * np.eye(4)
        nominal = [layout.columns[k].nominal for k in columns]
        if self.nominal_share and layout.columns[columns[0]].kind == "link" and None not in nominal:
            body = pseudo_inertia(np.array(nominal, float))
            if np.linalg.eigvalsh(body)[0] >= 0.0:
                return shift - self.nominal_share * body
        return shift

    @property
    def links(self) -> tuple[str, ...]:
        """The links with a constraint."""
        return tuple(dict.fromkeys((*self.masses, *self.boxes, *self.ellipsoids, *self.hulls)))


PHYSICAL = Constraints()


def mass_bounds(link: str, bounds: Bounds) -> tuple[float, float]:
    """m⁻ and m⁺ [kg]; None means unbounded."""
    try:
        low, high = bounds
        low, high = 0.0 if low is None else float(low), np.inf if high is None else float(high)
    except (TypeError, ValueError):
        low, high = np.nan, np.nan
    if not (0.0 <= low <= min(high, LARGEST) and _sizes(high)):
        raise ModelError(
            f"Mass bounds of '{link}' must be two numbers, 0 ≤ lower ≤ upper ≤ {LARGEST:g} [kg], not {bounds}."
        )
    return low, high


def box_corners(link: str, box: Box) -> tuple[Array, Array]:
    """c⁻ (3,) and c⁺ (3,) [m]; infinite entries are unbounded."""
    try:
        low, high = (np.asarray(corner, float) for corner in box)
    except (TypeError, ValueError):
        low, high = np.empty(0), np.empty(0)
    if low.shape != (3,) or high.shape != (3,) or not (np.all(low <= high) and _sizes(low, high)):
        raise ModelError(
            f"The box of '{link}' needs two corners of three numbers [m], lower ≤ upper, up to {LARGEST:g}, not {box}."
        )
    return low, high


def _sizes(*values: float | Array) -> bool:
    """Whether all finite numbers are plausible; an infinite one is unbounded."""
    return all(np.all((np.abs(x) <= LARGEST) | np.isinf(x)) for x in values)


def ellipsoid_axes(link: str, ellipsoid: Ellipsoid) -> tuple[Array, Array]:
    """Centre c₀ (3,) and A (3, 3) of c = c₀ + A u, ‖u‖ ≤ 1 [m]."""
    try:
        centre, axes = (np.asarray(part, float) for part in ellipsoid)
    except (TypeError, ValueError):
        centre, axes = np.empty(0), np.empty(0)
    axes = np.diag(axes) if axes.shape == (3,) else axes
    shaped = centre.shape == (3,) and axes.shape == (3, 3)
    if not shaped or not np.all(np.abs([*centre, *axes.ravel()]) <= LARGEST) or np.linalg.matrix_rank(axes) < 3:
        raise ModelError(
            f"The ellipsoid of '{link}' needs a centre of three numbers [m] and three half-axes > 0 [m], or a 3×3 "
            f"matrix with these as columns, not {ellipsoid}."
        )
    return centre, axes


def hull_faces(link: str, points: Sequence[Vector] | Array) -> tuple[Array, Array]:
    """Faces n (f, 3), d (f,) of the convex hull of points (k, 3) [m]: n·c + d ≤ 0 inside, ‖n‖ = 1."""
    try:
        corners = np.asarray(points, float)
        if corners.ndim != 2 or corners.shape[1] != 3 or not np.all(np.abs(corners) <= LARGEST):
            raise ValueError
        faces = np.unique(np.round(ConvexHull(corners).equations, 12), axis=0)
    except (TypeError, ValueError, QhullError):
        raise ModelError(
            f"The hull of '{link}' needs at least four points that span a volume, three numbers each [m]."
        ) from None
    return faces[:, :3], faces[:, 3]
