"""Physical consistency of links: mass, inertia at the centre of mass, pseudo-inertia, and M(q) (P0 §V).

A body is a density ρ ≥ 0, so its ten parameters are moments of ρ. Three tests, each stricter than the one before:

    mass             M > 0                                                          [kg]
    inertia          J ⪰ 0 about the centre of mass (36): eigenvalues, pivots, Sylvester minors     [kg·m²]
    pseudo-inertia   P = [[Σ, mc], [mcᵀ, M]] ⪰ 0 with Σ = ½ tr(I)·1 − I = ∫ρ r rᵀ

P0 stops at the second. The third adds the triangle inequality of the principal moments and is necessary *and*
sufficient: P ⪰ 0 exactly when a density with these moments exists.

Every test of a link takes one tolerance t ≥ 0 [kg·m²] and passes when its value is ≥ −t: the eigenvalues of J, the
pivots of J = L D Lᵀ, the eigenvalues of Σ_c = ½ tr(J)·1 − J. The mass has no tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.linalg import eigvalsh
from numpy.typing import NDArray

from steelyard._arrays import Array, single_threaded
from steelyard.errors import ModelError
from steelyard.findings import Finding
from steelyard.model.model import Model
from steelyard.model.parameters import INERTIAL, Layout, inertia_matrix, transformed_inertia
from steelyard.model.robot import Link, Robot
from steelyard.model.terms.registry import nonnegative_symbols

# Values below this fraction of the largest inertia about the link frame are rounding of Huygens' theorem.
ROUNDING = 1e-12
# Largest plausible parameter of a body [SI]; its square does not overflow.
ABSURD = 1e100

Verdict = Literal[
    "consistent",
    "on the boundary",
    "within tolerance",
    "massless",
    "inertia positive but not realisable",
    "not physical",
]
PASSING: tuple[Verdict, ...] = ("consistent", "on the boundary", "within tolerance", "massless")
Triple = tuple[float, float, float]


class NeededTolerance(NamedTuple):
    """Smallest tolerance t [kg·m²] at which each test passes; inf where none suffices (because the mass fails).

    `eigenvalues` is also the tolerance of Sylvester's test: the smallest t at which no minor of J + t·1 is negative.
    """

    eigenvalues: float
    pivots: float
    pseudo_inertia: float


@dataclass(frozen=True)
class LinkVerdict:
    """Results of the tests for one body.

    mass [kg]; com [m], None without mass; eigenvalues, pivots and second_moments [kg·m²] of J, of its LDLᵀ in the order
    x, y, z, and of Σ_c; minors, the leading ones of J [kg·m², its square, its cube]; pseudo_smallest, smallest
    eigenvalue of the 4×4 pseudo-inertia in SI (mixed units: only its sign is meaningful).
    """

    name: str
    mass: float
    com: Triple | None
    eigenvalues: Triple
    pivots: Triple
    minors: Triple
    second_moments: Triple
    pseudo_smallest: float
    needed: NeededTolerance
    rounding: float
    verdict: Verdict

    @property
    def passes(self) -> bool:
        return self.verdict in PASSING

    @property
    def positive_definite(self) -> bool:
        """P0's criterion: M > 0 and J ≻ 0, beyond rounding."""
        return self.mass > 0.0 and self.eigenvalues[0] > self.rounding

    def passes_inertia(self, tolerance: float = 0.0) -> bool:
        """P0's test at a tolerance [kg·m²]: M > 0 and every pivot of J at least −tolerance (Table III)."""
        return self.needed.pivots <= tolerance


@dataclass(frozen=True)
class Consistency:
    """The verdict on a standard set: per body, and the negative drive parameters."""

    links: tuple[LinkVerdict, ...]
    tolerance: float = 0.0
    negative: tuple[tuple[str, float], ...] = ()

    @property
    def consistent(self) -> bool:
        return all(link.passes for link in self.links) and not self.negative

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        found = [finding for link in self.links for finding in _link_findings(link)]
        return (*found, *(_negative(name, value) for name, value in self.negative))

    def __getitem__(self, name: str) -> LinkVerdict:
        return next(link for link in self.links if link.name == name)

    def __str__(self) -> str:
        passing = sum(link.passes for link in self.links)
        return f"{passing} of {len(self.links)} bodies are consistent at tolerance {self.tolerance:g} kg.m2."


@dataclass(frozen=True)
class MassMatrixFloor:
    """Smallest eigenvalue of M(q) over `count` random q within the limits, and the q (n,) [rad | m] where it occurs."""

    smallest: float
    q: tuple[float, ...]
    count: int

    @property
    def positive(self) -> bool:
        return self.smallest > 0.0

    @property
    def findings(self) -> tuple[Finding, ...]:
        if self.positive:
            return ()
        where = ", ".join(f"{x:.3g}" for x in self.q)
        message = f"M(q) has the eigenvalue {self.smallest:.3g} at q = ({where}): a simulation would diverge there"
        advice = "check the links; use the nearest feasible set (steelyard consistency)"
        return (Finding("mass-matrix-not-positive", "warning", message, fix=advice),)


# --- The matrices -----------------------------------------------------------------------------------------------------


def centre_of_mass(vector: Array) -> Array | None:
    """c = mc / M (3,) [m]; None for a body without mass."""
    return None if vector[9] == 0.0 else vector[6:9] / vector[9]


def com_inertia(vector: Array) -> Array:
    """J (3, 3) [kg·m²] about the centre of mass (P0 eq. 36 with entry (3,3) of its second matrix MX² + MY²):

        J = I − (‖mc‖² 1 − mc mcᵀ) / M

    A body without mass has no centre of mass: its I is returned as it stands.
    """
    inertia, moment, mass = inertia_matrix(vector), vector[6:9], vector[9]
    if mass == 0.0:
        return inertia
    return inertia - (moment @ moment * np.eye(3) - np.outer(moment, moment)) / mass


def second_moments(inertia: Array) -> Array:
    """Σ = ½ tr(I)·1 − I (3, 3) [kg·m²]: the density's ∫ρ r rᵀ about the point of `inertia`."""
    return 0.5 * np.trace(inertia) * np.eye(3) - inertia


def pseudo_inertia(vector: Array) -> Array:
    """P = [[Σ, mc], [mcᵀ, M]] (4, 4), linear in the ten parameters; P ⪰ 0 exactly when the body is physical.

    A body of mass 0 passes only if all ten are zero. Another link frame T gives T P Tᵀ: P ⪰ 0 is invariant.
    """
    out = np.empty((4, 4))
    out[:3, :3] = second_moments(inertia_matrix(vector))
    out[:3, 3] = out[3, :3] = vector[6:9]
    out[3, 3] = vector[9]
    return out


def pseudo_inertia_vector(matrix: Array) -> Array:
    """The ten parameters of a pseudo-inertia, I = tr(Σ)·1 − Σ."""
    sigma = matrix[:3, :3]
    inertia = np.trace(sigma) * np.eye(3) - sigma
    return np.concatenate([inertia[np.triu_indices(3)], matrix[:3, 3], matrix[3:, 3]])


def leading_minors(matrix: Array) -> Array:
    """Sylvester: a symmetric matrix is positive definite exactly when all leading minors are positive (P0 §V, [7])."""
    return np.array([np.linalg.det(matrix[:k, :k]) for k in range(1, len(matrix) + 1)])


def pivots(matrix: Array) -> Array:
    """D of A = L D Lᵀ in the natural order, without square roots: Cholesky that allows negative pivots (P0 §V).

        d_k = A_kk − Σ_{i<k} L_ki² d_i      (the ratio of neighbouring leading minors)

    The tolerance ε of P0 is compared with these: the matrix passes when min d_k ≥ −|ε|. A pivot that is zero to
    rounding is skipped if the rest of its column is zero too; if not, the matrix is indefinite: later pivots are −inf.
    """
    rest = np.array(matrix, float)
    scale = max(float(np.abs(rest).max()), np.finfo(float).tiny)
    out = np.zeros(len(rest))
    for k in range(len(rest)):
        out[k], column = rest[k, k], rest[k + 1 :, k]
        if abs(out[k]) > 1e-14 * scale:
            rest[k + 1 :, k + 1 :] -= np.outer(column, column) / out[k]
        elif column.size and np.abs(column).max() > 1e-7 * scale:  # a positive matrix may have it below √rounding
            out[k + 1 :] = -np.inf
            break
    return out


# --- Verdicts ---------------------------------------------------------------------------------------------------------


def link_columns(layout: Layout) -> dict[str, NDArray[np.int64]]:
    """The bodies of a layout: owner → indices (10,) of its inertial columns, for owners that have all ten."""
    owners = dict.fromkeys(column.owner for column in layout.columns)
    return {
        owner: np.array([layout.index(f"{owner}.{symbol}") for symbol in INERTIAL], np.int64)
        for owner in owners
        if all(f"{owner}.{symbol}" in layout for symbol in INERTIAL)
    }


def held_columns(layout: Layout) -> NDArray[np.bool_]:
    """Columns (C,) whose value is stated, e.g. of a payload that was weighed: they must not change."""
    return np.array([column.known for column in layout.columns], np.bool_)


def check_links(layout: Layout, theta: Array, tolerance: float = 0.0) -> Consistency:
    """The verdict on standard parameters theta (C,) in the order of `layout` [SI]; tolerance [kg·m²].

    Payloads are treated as links. Where a column is stated, the stated value replaces that of theta.
    """
    theta = np.asarray(theta, float)
    if theta.shape != (len(layout),):
        raise ModelError(f"theta must contain {len(layout)} standard parameters, not shape {theta.shape}.")
    theta = np.where(held_columns(layout), layout.known, theta)
    bodies = {name: theta[columns] for name, columns in link_columns(layout).items()}
    return check_bodies(bodies, tolerance, negative_drive(layout, theta))


def check_stated(layout: Layout, tolerance: float = 0.0) -> Consistency:
    """The verdict on the bodies with all ten parameters stated, which no fit can change. tolerance [kg·m²]."""
    held = held_columns(layout)
    whole = {name: layout.known[columns] for name, columns in link_columns(layout).items() if held[columns].all()}
    return check_bodies(whole, tolerance)


def negative_drive(layout: Layout, theta: Array) -> tuple[tuple[str, float], ...]:
    """Rotor inertias and friction coefficients below zero, by name."""
    nonnegative = nonnegative_symbols()
    return tuple(
        (column.name, float(x))
        for column, x in zip(layout.columns, theta, strict=True)
        if column.symbol in nonnegative and x < 0.0
    )


def check_bodies(
    bodies: Mapping[str, Array], tolerance: float = 0.0, negative: tuple[tuple[str, float], ...] = ()
) -> Consistency:
    """The verdict on named bodies, each ten parameters (10,); tolerance [kg·m²]."""
    if not (np.isfinite(tolerance) and tolerance >= 0.0):
        raise ModelError(f"The tolerance must be a number ≥ 0 [kg.m2], not {tolerance:g}.")
    return Consistency(tuple(check_body(n, v, tolerance) for n, v in bodies.items()), tolerance, negative)


def check_body(
    name: str, vector: Array, tolerance: float = 0.0, rounding: float = ROUNDING, boundary: float = ROUNDING
) -> LinkVerdict:
    """The verdict on one body of ten parameters (10,). As fractions of its largest inertia: a violation up to
    `rounding` is none, and a body nearer than `boundary` to a violation is on the boundary."""
    vector = np.asarray(vector, float)
    if vector.shape != (10,) or not np.all(np.abs(vector) < ABSURD):
        raise ModelError(f"'{name}' needs ten finite inertial parameters {' '.join(INERTIAL)}, each below {ABSURD:g}.")
    inertia, com = com_inertia(vector), centre_of_mass(vector)
    eigenvalues, factors, moments = eigvalsh(inertia), pivots(inertia), eigvalsh(second_moments(inertia))
    size = float(np.abs(np.concatenate([vector[:6], (inertia_matrix(vector) - inertia).ravel()])).max())

    def need(numbers: NDArray[np.floating]) -> float:
        if vector[9] <= 0.0:
            return np.inf if vector.any() else 0.0
        lack = -float(np.min(numbers))
        return 0.0 if lack <= rounding * size else lack

    needed = NeededTolerance(need(eigenvalues), need(factors), need(moments))
    return LinkVerdict(
        name=name,
        mass=float(vector[9]),
        com=None if com is None else _triple(com),
        eigenvalues=_triple(eigenvalues),
        pivots=_triple(factors),
        minors=_triple(leading_minors(inertia)),
        second_moments=_triple(moments),
        pseudo_smallest=float(eigvalsh(pseudo_inertia(vector))[0]),
        needed=needed,
        rounding=rounding * size,
        verdict=_verdict(vector, needed, min(eigenvalues[0], moments[0]) > boundary * size, tolerance),
    )


def _verdict(vector: Array, needed: NeededTolerance, strictly: bool, tolerance: float) -> Verdict:
    """The verdict by eigenvalues, not pivots: these depend neither on the frame nor on the order of the axes."""
    if not vector.any():
        return "massless"
    if needed.eigenvalues > tolerance:
        return "not physical"
    if needed.pseudo_inertia > tolerance:
        return "inertia positive but not realisable"
    if needed.pseudo_inertia > 0.0 or needed.eigenvalues > 0.0:
        return "within tolerance"
    return "consistent" if strictly else "on the boundary"


def robot_bodies(robot: Robot) -> tuple[dict[str, Array], tuple[str, ...]]:
    """The bodies of a robot file as stated, and the links whose inertia it does not give.

    Bodies on fixed joints are judged separately, not as part of the sum with the link that carries them. Frames have no
    mass and are left out.
    """
    bodies: dict[str, Array] = {}
    unknown: list[str] = []
    for link in (robot.links[i] for i in robot.bodies):
        if link.inertia is None:
            unknown.append(link.name)
            continue
        bodies |= _parts(link)
    return bodies, tuple(unknown)


def _parts(link: Link) -> dict[str, Array]:
    """A link of known inertia without the bodies fixed to it, and each of these bodies, all in their own frames."""
    assert link.inertia is not None
    fixed = [(lump, lump.inertia) for lump in link.lumps if lump.inertia is not None and lump.inertia.any()]
    own = link.inertia.copy()
    for lump, inertia in fixed:
        own -= transformed_inertia(inertia, lump.pose.rotation, lump.pose.position)
    if fixed:
        own[np.abs(own) <= ROUNDING * np.abs(link.inertia).max()] = 0.0
    return {link.name: own} | {lump.name: inertia for lump, inertia in fixed}


@single_threaded
def mass_matrix_floor(
    model: Model, theta: Array, count: int = 400, rng: np.random.Generator | None = None
) -> MassMatrixFloor:
    """Smallest eigenvalue of M(q) [kg·m² | kg] over random q within the limits (±π or ±1 m where there are none).

    A sample is not a proof: it can find a q where M fails, and cannot show that there is none. Consistent links with Ia
    ≥ 0 are a proof.
    """
    q = model.random_positions(np.random.default_rng(0) if rng is None else rng, count)
    smallest = eigvalsh(model.mass_matrix(q, theta).transpose(2, 0, 1))[:, 0]
    worst = int(np.argmin(smallest))
    return MassMatrixFloor(float(smallest[worst]), tuple(q[:, worst].tolist()), q.shape[1])


# --- Findings ---------------------------------------------------------------------------------------------------------


def _link_findings(link: LinkVerdict) -> tuple[Finding, ...]:
    if link.verdict in ("consistent", "massless"):
        return ()
    if link.verdict == "on the boundary":
        message = "its inertia is that of a point, a rod or a plate: any correction may make it non-physical"
        return (Finding("inertia-on-boundary", "info", message, link.name),)
    if link.verdict == "within tolerance":
        needed = max(link.needed.eigenvalues, link.needed.pseudo_inertia)
        message = f"passes only with a tolerance of {needed:.3g} kg.m2"
        return (Finding("inertia-within-tolerance", "info", message, link.name),)
    if link.mass < 0.0:
        return (Finding("negative-mass", "warning", f"its mass is {link.mass:.4g} kg", link.name),)
    if link.mass == 0.0:
        return (Finding("massless-inertia", "warning", "it has inertia or a first moment but no mass", link.name),)
    if link.verdict == "not physical":
        message = f"its inertia at the centre of mass has the eigenvalue {link.eigenvalues[0]:.3g} kg.m2"
        needed = max(link.needed.eigenvalues, link.needed.pseudo_inertia)
        advice = f"check its XX … ZZ, MX, MY, MZ and M; it passes with a tolerance of {needed:.2g} kg.m2"
        return (Finding("inertia-not-positive", "warning", message, link.name, advice),)
    low, mid, high = link.eigenvalues
    message = f"its principal moments {low:.3g}, {mid:.3g}, {high:.3g} kg.m2 violate the triangle inequality"
    needed = link.needed.pseudo_inertia
    advice = f"check its XX … ZZ, MX, MY, MZ and M; it passes with a tolerance of {needed:.2g} kg.m2"
    return (Finding("inertia-not-realisable", "warning", message, link.name, advice),)


def _negative(name: str, value: float) -> Finding:
    message = f"it is {value:.3g}: the drive would generate energy"
    advice = "hold it at zero, or identify with the estimator consistent"
    return Finding("negative-drive-parameter", "warning", message, name, advice)


def _triple(values: NDArray[np.floating]) -> Triple:
    x, y, z = (float(value) for value in values)
    return x, y, z
