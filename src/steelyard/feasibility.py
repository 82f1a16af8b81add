"""Feasibility: can a set of *base* values belong to any robot at all, and to which one near the prior (P0 §I, §V.B)?

Infinitely many standard sets share the base values χ_b = B θ. The question is whether one of them is physical:

    find θ   with   B θ = χ_b,   P_l(θ) ⪰ ε·1 for every link l,   Ia, Fv, Fc ≥ 0,   m⁻ ≤ M ≤ m⁺,   c⁻ M ≤ mc ≤ c⁺ M

P_l is the 4×4 pseudo-inertia, linear in θ, so this is a convex (semidefinite) problem with a definite answer. A payload
is a body like a link; what is stated of it, as its mass, is no unknown: θ_k is held there.
Clarabel solves it, behind `cones`; what it returns is checked again with numpy alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space, solve_triangular

from steelyard.base_parameters import BaseParameters
from steelyard.body_constraints import PHYSICAL, Constraints
from steelyard.cones import Answer, Block, Scales, blocks_of, clipped, minimise, violation
from steelyard.consistency import ABSURD, held_columns, link_columns, pseudo_inertia
from steelyard.errors import EstimationError
from steelyard.findings import Finding
from steelyard.parameters import Array, Layout
from steelyard.threads import single_threaded

# A standard set counts as feasible when it misses no constraint, scaled to the size of its link, by more than this.
CERTIFIED = 1e-8
# What the solver misses by its last digits is brought this far inside.
FLOOR = 1e-2 * CERTIFIED
# The solver is asked to stay this far inside where there is room, so that its own error does not matter.
INSIDE = 1e-7
# The size of a link lies between these [m].
LENGTHS = (0.02, 2.0)
# Columns without effect and without prior: their width in the norm, times the others', so that they are all but free.
FREE_WIDTH = 1e3
# Where the base values are impossible: how much of the smallest distance may be spent on coming nearer to the prior.
SLACK = 1e-3
# In the search for the least distance: what a column moved by its own size from the prior counts [σ].
ROPE = 1e-4
# Inside this many σ of the possible, noise explains that a set of base values is impossible.
NOISE_SIGMA = 3.0

GOOD = ("Solved", "AlmostSolved", "Closed form")


@dataclass(frozen=True)
class Feasibility:
    """The answer, with the standard set that carries it.

    theta (C,): the feasible standard set nearest to the prior; where the base values are impossible, of the nearest
    possible ones. base_values (b,) = B theta.  distance_sigma: √ of the least (Bθ − χ_b)ᵀ C⁻¹ (Bθ − χ_b), else 0;
    worst: the base parameter that had to move most, and by how many of its own σ.  prior_distance: ‖D⁻¹(θ − θ_ref)‖.
    smallest: link → smallest eigenvalue of its pseudo-inertia [SI], the certificate.  violation: how far theta misses
    its worst constraint, each scaled to its link. Both are computed by numpy, whatever the solver said.
    """

    possible: bool
    theta: Array
    base_values: Array
    distance_sigma: float
    worst: tuple[str, float] | None
    prior_distance: float
    smallest: dict[str, float]
    violation: float
    status: str
    iterations: int

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        found = []
        if not self.possible:
            name, move = self.worst or ("", 0.0)
            noise = self.distance_sigma <= NOISE_SIGMA
            message = (
                f"No physical robot has these base values; the nearest possible ones lie {self.distance_sigma:.3g} σ "
                f"away (most: {name}, {move:+.2g} σ)."
            )
            advice = (
                "Noise explains it: use the nearest feasible set."
                if noise
                else "Look for a missing term, a wrong gain or wrong kinematics before using the nearest feasible set."
            )
            found.append(Finding("base-values-impossible", "info" if noise else "warning", message, name, advice))
        if self.violation > CERTIFIED or self.status not in GOOD:
            message = f"The solver stopped early ({self.status}): the nearest set may not be the nearest."
            advice = "Give mass bounds or a prior, or a small tolerance."
            found.append(Finding("feasibility-inaccurate", "warning", message, fix=advice))
        return tuple(found)


@single_threaded
def nearest_feasible(
    base: BaseParameters,
    values: Array,
    covariance: Array | None = None,
    prior: Array | None = None,
    widths: Array | None = None,
    constraints: Constraints = PHYSICAL,
) -> Feasibility:
    """The physical standard set with these base values nearest to the prior, or how far they are from possible.

        possible:    min ‖D⁻¹(θ − θ_ref)‖  with  B θ = χ_b
        else first   d² = min (Bθ − χ_b)ᵀ C⁻¹ (Bθ − χ_b),  then  min ‖D⁻¹(θ − θ_ref)‖  at a distance ≤ (1 + SLACK) d

    all of them over the physical θ. `values` χ_b (b,), NaN where nothing is known; `covariance` C (b, b), or σ (b,), by
    default σ = 1 SI unit; `prior` θ_ref (C,), by default the layout's nominal values, else zero (minimum norm);
    `widths` D (C,), by default 1. Columns without effect are all but free unless there is a prior. Stated columns keep
    their value; a body that is stated whole is not looked at: `judge` says whether it can exist.
    """
    asked, blocks, answer = _exactly(_Question.of(base, values, covariance, prior, widths), constraints)
    possible = violation(answer.theta, blocks) <= CERTIFIED
    distance = 0.0
    if not possible:
        distance, answer = _nearest_possible(asked, blocks, answer.iterations)
    theta = answer.theta
    return Feasibility(
        possible=possible,
        theta=theta,
        base_values=base.map @ theta,
        distance_sigma=distance,
        worst=None if possible else asked.worst_move(theta),
        prior_distance=float(np.linalg.norm((theta - asked.reference) / asked.width)),
        smallest={
            name: float(np.linalg.eigvalsh(pseudo_inertia(theta[columns]))[0])
            for name, columns in link_columns(base.layout).items()
        },
        violation=violation(theta, blocks),
        status=answer.status,
        iterations=answer.iterations,
    )


@single_threaded
def reconstruction(
    base: BaseParameters, values: Array, prior: Array, widths: Array, constraints: Constraints = PHYSICAL
) -> Answer | None:
    """The physical standard set with exactly these base values nearest to the prior, None where there is none.

    The first half of `nearest_feasible`, with the same arguments.
    """
    _, blocks, answer = _exactly(_Question.of(base, values, None, prior, widths), constraints)
    return answer if violation(answer.theta, blocks) <= CERTIFIED else None


def scatter(std: Array, classical: Array) -> Array:
    """A covariance (b, b) of full rank: robust standard deviations (b,) with the correlations of the classical one.

    The robust covariance of G clusters has rank G − 1 at most, less than the number of parameters: it has no inverse.
    """
    sigma = np.sqrt(np.diagonal(classical))
    ratio = np.where(np.isfinite(std) & (std > 0.0), std, sigma) / sigma
    return classical * np.outer(ratio, ratio)


# --- The question -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Question:
    """What was asked, checked; `far` and `near` are (F, f) of the norms ‖Fθ + f‖ to base values and to the prior."""

    base: BaseParameters
    chi: Array
    known: NDArray[np.bool_]
    covariance: Array
    reference: Array
    width: Array
    held: NDArray[np.bool_]
    scales: Scales

    @staticmethod
    def of(
        base: BaseParameters, values: Array, covariance: Array | None, prior: Array | None, widths: Array | None
    ) -> _Question:
        size, chi = len(base.layout), np.asarray(values, float)
        if chi.shape != (len(base),) or np.any(np.abs(chi) >= ABSURD):
            raise EstimationError(
                f"Give {len(base)} base values below {ABSURD:g}, NaN where one is unknown, not {_shown(chi)}."
            )
        given = prior if prior is not None else base.layout.nominal
        held = held_columns(base.layout)
        reference = np.zeros(size) if given is None else _checked(given, size, "prior")
        reference = np.where(held, base.layout.known, reference)
        width = np.ones(size) if widths is None else _checked(widths, size, "widths")
        if not np.all(width > 0.0):
            raise EstimationError("Every width must be positive.")
        if given is None:
            width = np.where(base.map.any(axis=0), width, FREE_WIDTH * width)
        spread = np.ones(len(base)) if covariance is None else np.asarray(covariance, float)
        spread = np.diag(spread**2) if spread.ndim == 1 else spread
        if spread.shape != (len(base), len(base)):
            raise EstimationError(f"The covariance must be ({len(base)}, {len(base)}), or σ ({len(base)},).")
        # a cancelled parameter has a value but no error bar: it says nothing about what is possible
        known = np.isfinite(chi) & np.isfinite(np.diagonal(spread))
        chi = np.where(known, chi, np.nan)
        return _Question(base, chi, known, spread, reference, width, held, column_scales(base, chi, reference))

    @cached_property
    def span(self) -> Array:
        """(C, F): a column for each θ that may move, of its own size."""
        return np.diag(self.scales.columns)[:, ~self.held]

    @cached_property
    def near(self) -> tuple[Array, Array]:
        return np.diag(1.0 / self.width), -self.reference / self.width

    @cached_property
    def far(self) -> tuple[Array, Array]:
        covariance = self.covariance[np.ix_(self.known, self.known)]
        sigma = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
        try:
            if not np.all(sigma > 0.0):
                raise np.linalg.LinAlgError
            factor = np.linalg.cholesky(covariance / np.outer(sigma, sigma))
        except np.linalg.LinAlgError:
            raise EstimationError(
                "The covariance of the base values must be finite and positive definite; pass σ alone, or scatter(…)."
            ) from None
        whiten = solve_triangular(factor, np.diag(1.0 / sigma), lower=True)
        return whiten @ self.base.map[self.known], -whiten @ self.chi[self.known]

    def distance(self, theta: Array) -> float:
        """√ of (Bθ − χ_b)ᵀ C⁻¹ (Bθ − χ_b)."""
        return float(np.linalg.norm(self.far[0] @ theta + self.far[1]))

    def worst_move(self, theta: Array) -> tuple[str, float]:
        """The base parameter that moved most, and by how many of its own σ."""
        sigma = np.sqrt(np.diagonal(self.covariance))
        moves = np.where(self.known, (self.base.map @ theta - self.chi) / sigma, 0.0)
        worst = int(np.argmax(np.abs(moves)))
        return self.base.names[worst], float(moves[worst])


def cones_of(layout: Layout, constraints: Constraints, scales: Scales) -> list[Block]:
    """The cones of what may move; a body that is stated whole is not looked at."""
    free = ~held_columns(layout)
    blocks = blocks_of(layout, scales, constraints)
    return [block for block in blocks if block.cone != "psd" or block.matrix[:, free].any()]


def _checked(vector: Array, size: int, what: str) -> Array:
    vector = np.asarray(vector, float)
    if vector.shape != (size,) or not np.all(np.abs(vector) < ABSURD):
        raise EstimationError(
            f"The {what} must hold {size} finite numbers below {ABSURD:g}, one a column, not {_shown(vector)}."
        )
    return vector


def _shown(vector: Array) -> str:
    return f"shape {vector.shape}, largest {np.nanmax(np.abs(vector), initial=0.0):g}"


def column_scales(base: BaseParameters, chi: Array, reference: Array) -> Scales:
    """A link's mass and length by its prior, kept within reason of those that the base values suggest for the robot."""

    # a base value is as large as its largest part: nearly parallel axes give coefficients of a million
    size = np.nan_to_num(np.abs(chi)) / np.abs(base.map).max(axis=1)

    def largest(unit: str) -> float:
        return max((float(x) for x, u in zip(size, base.units, strict=True) if u == unit), default=0.0)

    inertia, moment = largest("kg.m2"), largest("kg.m")
    length = float(np.clip(inertia / moment, *LENGTHS)) if inertia and moment else 0.3
    mass = max(largest("kg"), moment / length, inertia / length**2) or 1.0
    columns = np.ones(len(base.layout))
    columns[list(base.kept)] = np.maximum(size, 1e-2)
    links = {}
    for name, index in link_columns(base.layout).items():
        own_mass, own_length, spread = mass, length, float(reference[index[[0, 3, 5]]].max())
        if reference[index[9]] > 0.0 and spread > 0.0:
            own_mass = float(np.clip(reference[index[9]], 0.01 * mass, 100.0 * mass))
            own_length = float(np.clip(np.sqrt(spread / own_mass), *LENGTHS))
        links[name] = (own_mass, own_length)
        columns[index] = own_mass * np.array([own_length**2] * 6 + [own_length] * 3 + [1.0])
    return Scales(links, columns)


# --- The search -------------------------------------------------------------------------------------------------------


def _exactly(asked: _Question, constraints: Constraints) -> tuple[_Question, list[Block], Answer]:
    """The best with B θ = χ_b, physical or not, with the cones it was held to and the question in their scales."""
    base = asked.base
    blocks = cones_of(base.layout, constraints, asked.scales)
    answer = _without_cones(asked)
    if violation(answer.theta, blocks) > 0.0:
        answer = _with_base_values(asked, blocks, INSIDE)
    if CERTIFIED < violation(answer.theta, blocks) < 1.0:  # a prior may be far off: take the sizes that came out
        asked = replace(asked, scales=column_scales(base, asked.chi, answer.theta))
        blocks = cones_of(base.layout, constraints, asked.scales)
        answer = _with_base_values(asked, blocks, INSIDE)
    if violation(answer.theta, blocks) > CERTIFIED:  # a body may be a point or a rod: no room inside
        answer = _with_base_values(asked, blocks, 0.0)
    return asked, blocks, answer


def _without_cones(asked: _Question) -> Answer:
    """θ_ref + D (B D)⁺ (χ_b − B θ_ref): P0 eq. (30) in the weighted norm. If it is physical, nothing is nearer."""
    mapped, width = asked.base.map[asked.known], np.where(asked.held, 0.0, asked.width)
    lack = asked.chi[asked.known] - mapped @ asked.reference
    step = np.linalg.lstsq(mapped * width, lack, rcond=None)[0]
    return Answer(asked.reference + width * step, "Closed form", 0)


def _with_base_values(asked: _Question, blocks: Sequence[Block], inside: float) -> Answer:
    """The search runs in the null space of B, from eq. (30) on: B θ = χ_b holds to rounding, whatever comes out."""
    scaled = asked.base.map[asked.known] @ asked.span
    free = null_space(scaled / np.linalg.norm(scaled, axis=1, keepdims=True))
    return minimise(asked.near, blocks, _without_cones(asked).theta, asked.span @ free, inside)


def _nearest_possible(asked: _Question, blocks: Sequence[Block], spent: int) -> tuple[float, Answer]:
    start, held = asked.base.layout.known, asked.held
    # A rope to the prior: the least distance may be approached as a mass grows without end, and never be reached.
    rope = ROPE / asked.scales.columns
    roped = (np.vstack([asked.far[0], np.diag(rope)]), np.concatenate([asked.far[1], -rope * asked.reference]))
    for inside in (0.0, INSIDE):  # ellipsoids, and bodies of which something is stated, cannot be clipped: stay inside
        first = minimise(roped, blocks, start, asked.span, inside)
        theta = clipped(first.theta, blocks, FLOOR, held)
        if violation(theta, blocks) <= CERTIFIED:
            break
    if violation(theta, blocks) > CERTIFIED:
        stated = ", ".join(f"{c.name} = {c.nominal:g}" for c in asked.base.layout.columns if c.known)
        raise EstimationError(
            f"Found no standard set that satisfies the constraints, whatever the base values ({first.status}). "
            "Widen the mass bounds and boxes, or lower the margin."
            + (f" Stated, and perhaps impossible together: {stated}." if stated else "")
        )
    distance = asked.distance(theta)
    matrix, offset = asked.far
    radius = (1.0 + SLACK) * distance + 1e-6
    ball = Block("ball", np.vstack([np.zeros(matrix.shape[1]), matrix]), np.concatenate([[radius], offset]))
    second = minimise(asked.near, [*blocks, ball], start, asked.span, INSIDE)
    nearer = clipped(second.theta, blocks, FLOOR, held)
    good = violation(nearer, blocks) <= CERTIFIED and asked.distance(nearer) <= 1.01 * radius
    iterations = spent + first.iterations + second.iterations
    return distance, Answer(nearer if good else theta, second.status if good else first.status, iterations)
