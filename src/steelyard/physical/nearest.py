"""Feasibility: whether *base* values belong to a physical robot, and the one nearest to the prior (P0 §I, §V.B).

Infinitely many standard sets share the base values χ_b = B θ. The question is whether one of them is physical:

    find θ   with   B θ = χ_b,   P_l(θ) ⪰ ε·1 for every link l,   Ia, Fv, Fc ≥ 0,   m⁻ ≤ M ≤ m⁺,   c⁻ M ≤ mc ≤ c⁺ M

P_l is the 4×4 pseudo-inertia, linear in θ, so this is a convex (semidefinite) problem. A payload is treated as a link;
its stated parameters, such as the mass, are held at their values. Clarabel solves the problem, see `cones`; its result
is checked with numpy only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space, solve_triangular

from steelyard._arrays import Array, single_threaded
from steelyard.errors import EstimationError
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters
from steelyard.model.parameters import Layout
from steelyard.physical.certificates import CERTIFIED, smallest_eigenvalues, unphysical
from steelyard.physical.cones import (
    Answer,
    Block,
    ConeScales,
    blocks_of,
    clipped,
    column_scales,
    least_squares,
    minimise,
    status_text,
    violation,
)
from steelyard.physical.consistency import ABSURD, held_columns
from steelyard.physical.constraints import PHYSICAL, Constraints
from steelyard.physical.prior import search_widths

# Rounding errors of the solver are moved this far inside.
FLOOR = 1e-2 * CERTIFIED
# The solver is asked to stay this far inside where there is an interior, so that its own error does not matter.
INSIDE = 1e-7
# Columns without effect and without prior: width in the norm relative to the others, with which they are nearly free.
FREE_WIDTH = 1e3
# For infeasible base values: relative increase of the smallest distance allowed to come nearer to the prior.
SLACK = 1e-3
# In the search for the smallest distance: cost [σ] of a column that moves by its own size from the prior.
WEAK_WEIGHT = 1e-4
# Within this many σ of the feasible set, noise can explain why base values are infeasible.
NOISE_SIGMA = 3.0
# A result's own standard set has its base values if they differ by at most this fraction of the largest.
SAME = 1e-9

OWN = "Own"
GOOD = ("Solved", "AlmostSolved", "Closed form", OWN)
IMPOSSIBLE = "PrimalInfeasible"
# For infeasible base values: the smallest distance was found, but not the set nearest to the prior.
FAR = "Far"


@dataclass(frozen=True)
class Feasibility:
    """The result of `nearest_feasible`, with its standard set.

    theta (C,): the feasible standard set nearest to the prior; for infeasible base values, that of the nearest feasible
    ones. base_values (b,) = B theta.  distance_sigma: √ of the smallest (Bθ − χ_b)ᵀ C⁻¹ (Bθ − χ_b), else 0; worst: the
    base parameter that had to move most, and by how many of its own σ.  prior_distance: ‖D⁻¹(θ − θ_ref)‖. smallest:
    link → smallest eigenvalue of its pseudo-inertia [SI], the certificate.  violation: largest violation of a
    constraint by theta, each scaled to its link. Both are computed by numpy, independent of the solver's status.
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
                f"no physical robot has these base values; the nearest physical ones are {self.distance_sigma:.3g} σ "
                f"away (largest: {name}, {move:+.2g} σ)"
            )
            advice = (
                "noise explains it: use the nearest feasible set"
                if noise
                else "look for a missing term, a wrong gain or wrong kinematics before you use the nearest feasible set"
            )
            found.append(Finding("base-not-physical", "info" if noise else "warning", message, name, advice))
        if self.violation > CERTIFIED or self.status not in GOOD:
            message = f"the solver stopped early ({status_text(self.status)}): a nearer set may exist"
            advice = "state mass bounds or a prior, or a small tolerance"
            found.append(Finding("solver-inaccurate", "warning", message, fix=advice))
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
    """The physical standard set with these base values nearest to the prior, or their distance from the feasible set.

        feasible:    min ‖D⁻¹(θ − θ_ref)‖  with  B θ = χ_b
        else first   d² = min (Bθ − χ_b)ᵀ C⁻¹ (Bθ − χ_b),  then  min ‖D⁻¹(θ − θ_ref)‖  at a distance ≤ (1 + SLACK) d

    all over the physical θ. `values` χ_b (b,), NaN where unknown; `covariance` C (b, b), or σ (b,), by
    default σ = 1 SI unit; `prior` θ_ref (C,), by default the layout's nominal values, else zero (minimum norm);
    `widths` D (C,), by default those of the prior's values (`search_widths`), as in the estimator `consistent`.
    Columns without effect are nearly free unless there is a prior. Stated columns keep their value; a body with all
    parameters stated is left out: `check_stated` says whether it is physical.
    """
    asked, blocks, answer = _exactly(_Question.of(base, values, covariance, prior, widths), constraints)
    if violation(answer.theta, blocks) <= CERTIFIED:
        return _result(asked, blocks, answer)
    distance, answer = _nearest_possible(asked, blocks, answer.iterations)
    worst = asked.worst_move(answer.theta)
    return replace(_result(asked, blocks, answer), possible=False, distance_sigma=distance, worst=worst)


def own_or_nearest(
    base: BaseParameters, values: Array, own: Array | None, covariance: Array, constraints: Constraints = PHYSICAL
) -> Feasibility:
    """The standard set of a result: its `own` (C,) if that is physical and has its base values (b,), else the nearest
    physical one."""
    if own is not None and not unphysical(base.layout, own, constraints.tolerance):
        known = np.isfinite(values) & np.isfinite(np.diagonal(covariance))
        if np.all(np.abs(base.map @ own - values)[known] <= SAME * np.abs(values[known]).max(initial=0.0)):
            return own_set(base, values, own, covariance, constraints)
    return nearest_feasible(base, values, covariance, constraints=constraints)


def own_set(
    base: BaseParameters, values: Array, own: Array, covariance: Array, constraints: Constraints = PHYSICAL
) -> Feasibility:
    """The `own` standard set (C,) of a result as it is, physical or not."""
    asked = _Question.of(base, values, covariance, None, None)
    found = _result(asked, cones_of(base.layout, constraints, asked.scales), Answer(own, OWN, 0))
    return replace(found, possible=not unphysical(base.layout, own, constraints.tolerance))


def _result(asked: _Question, blocks: Sequence[Block], answer: Answer) -> Feasibility:
    """The result where the base values are feasible."""
    theta = answer.theta
    return Feasibility(
        possible=True,
        theta=theta,
        base_values=asked.base.map @ theta,
        distance_sigma=0.0,
        worst=None,
        prior_distance=asked.from_prior(theta),
        smallest=smallest_eigenvalues(asked.base.layout, theta),
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
    """The checked arguments; `far` and `near` are (F, f) of the norms ‖Fθ + f‖ to base values and to the prior."""

    base: BaseParameters
    chi: Array
    known: NDArray[np.bool_]
    covariance: Array
    reference: Array
    width: Array
    held: NDArray[np.bool_]
    scales: ConeScales

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
        scales = column_scales(base, chi, reference)
        if widths is None:
            width = search_widths(base.layout, None if given is None else reference, scales.columns)
        else:
            width = _checked(widths, size, "widths")
        if not np.all(width > 0.0):
            raise EstimationError("Every width must be positive.")
        if given is None:
            width = np.where(base.map.any(axis=0), width, FREE_WIDTH * width)
        spread = np.ones(len(base)) if covariance is None else np.asarray(covariance, float)
        spread = np.diag(spread**2) if spread.ndim == 1 else spread
        if spread.shape != (len(base), len(base)):
            raise EstimationError(f"The covariance must be ({len(base)}, {len(base)}), or σ ({len(base)},).")
        # a cancelled parameter has a value but no error bar: it is not used in the distance
        known = np.isfinite(chi) & np.isfinite(np.diagonal(spread))
        chi = np.where(known, chi, np.nan)
        return _Question(base, chi, known, spread, reference, width, held, scales)

    @cached_property
    def span(self) -> Array:
        """(C, F): one column for each θ that may move, scaled to its size."""
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

    def from_prior(self, theta: Array) -> float:
        """‖D⁻¹(θ − θ_ref)‖."""
        return float(np.linalg.norm((theta - self.reference) / self.width))

    def distance(self, theta: Array) -> float:
        """√ of (Bθ − χ_b)ᵀ C⁻¹ (Bθ − χ_b)."""
        return float(np.linalg.norm(self.far[0] @ theta + self.far[1]))

    def worst_move(self, theta: Array) -> tuple[str, float]:
        """The base parameter that moved most, and by how many of its own σ."""
        sigma = np.sqrt(np.diagonal(self.covariance))
        moves = np.where(self.known, (self.base.map @ theta - self.chi) / sigma, 0.0)
        worst = int(np.argmax(np.abs(moves)))
        return self.base.names[worst], float(moves[worst])


def cones_of(layout: Layout, constraints: Constraints, scales: ConeScales) -> list[Block]:
    """The cones of the bodies that may move; a body with all parameters stated is left out."""
    free = ~held_columns(layout)
    blocks = blocks_of(layout, scales, constraints)
    return [block for block in blocks if block.cone != "psd" or block.matrix[:, free].any()]


def _checked(vector: Array, size: int, what: str) -> Array:
    vector = np.asarray(vector, float)
    if vector.shape != (size,) or not np.all(np.abs(vector) < ABSURD):
        raise EstimationError(
            f"The {what} must be {size} finite numbers below {ABSURD:g}, one per column, not {_shown(vector)}."
        )
    return vector


def _shown(vector: Array) -> str:
    return f"shape {vector.shape}, largest {np.nanmax(np.abs(vector), initial=0.0):g}"


# --- The search -------------------------------------------------------------------------------------------------------


def _exactly(asked: _Question, constraints: Constraints) -> tuple[_Question, list[Block], Answer]:
    """The best θ with B θ = χ_b, physical or not, with the cones that were used and the question in their scales."""
    base = asked.base
    blocks = cones_of(base.layout, constraints, asked.scales)
    answer = _without_cones(asked)
    if violation(answer.theta, blocks) > 0.0:
        answer = _with_base_values(asked, blocks, INSIDE)
    if CERTIFIED < violation(answer.theta, blocks) < 1.0:  # the prior may be far off: take the scales from theta
        asked = replace(asked, scales=column_scales(base, asked.chi, answer.theta))
        blocks = cones_of(base.layout, constraints, asked.scales)
        answer = _with_base_values(asked, blocks, INSIDE)
    if violation(answer.theta, blocks) > CERTIFIED or answer.status not in GOOD:
        # a body may be a point or a rod: the cone has no interior then
        answer = _nearer(asked, blocks, [answer, _with_base_values(asked, blocks, 0.0)])
    return asked, blocks, answer


def _without_cones(asked: _Question) -> Answer:
    """θ_ref + D (B D)⁺ (χ_b − B θ_ref): P0 eq. (30) in the weighted norm. If it is physical, nothing is nearer."""
    mapped, width = asked.base.map[asked.known], np.where(asked.held, 0.0, asked.width)
    lack = asked.chi[asked.known] - mapped @ asked.reference
    step = np.linalg.lstsq(mapped * width, lack, rcond=None)[0]
    return Answer(asked.reference + width * step, "Closed form", 0)


def _with_base_values(asked: _Question, blocks: Sequence[Block], inside: float) -> Answer:
    """The search in the null space of B, starting from eq. (30): B θ = χ_b holds to rounding for any result."""

    def free(span: Array) -> Array:
        scaled = asked.base.map[asked.known] @ span
        return span @ null_space(scaled / np.linalg.norm(scaled, axis=1, keepdims=True))

    return _searched(asked, blocks, _without_cones(asked).theta, free, inside)


def _searched(
    asked: _Question, blocks: Sequence[Block], start: Array, free: Callable[[Array], Array], inside: float
) -> Answer:
    """The set nearest to the prior, by three methods: a norm in units of column size or of width, or its square.

    The next method is tried where one ends badly. Of the physical sets found, the nearest is taken, independent of the
    solver's status.
    """
    answers, wide = [], np.diag(asked.width)[:, ~asked.held]
    for way, span in ((minimise, asked.span), (minimise, wide), (least_squares, asked.span)):
        answers.append(way(asked.near, blocks, start, free(span), inside=inside))
        status = answers[-1].status
        if status == IMPOSSIBLE or (status in GOOD and violation(answers[-1].theta, blocks) <= CERTIFIED):
            break
    return _nearer(asked, blocks, answers)


def _nearer(asked: _Question, blocks: Sequence[Block], answers: Sequence[Answer]) -> Answer:
    """Of the physical solutions the one nearest to the prior; if there are none, that of smallest violation."""
    return min(answers, key=lambda one: (max(violation(one.theta, blocks), CERTIFIED), asked.from_prior(one.theta)))


def _nearest_possible(asked: _Question, blocks: Sequence[Block], spent: int) -> tuple[float, Answer]:
    start, held = asked.base.layout.known, asked.held
    # A weak pull to the prior: the smallest distance may be approached as a mass grows without bound, and never be
    # reached.
    weak = WEAK_WEIGHT / asked.scales.columns
    squares = (np.vstack([asked.far[0], np.diag(weak)]), np.concatenate([asked.far[1], -weak * asked.reference]))
    # Ellipsoids and bodies with stated parameters cannot be clipped: stay inside. Without an interior the solver may
    # call one form of the problem infeasible and solve the other.
    for way, inside in ((minimise, 0.0), (minimise, INSIDE), (least_squares, 0.0), (least_squares, INSIDE)):
        first = way(squares, blocks, start, asked.span, inside=inside)
        theta = clipped(first.theta, blocks, FLOOR, held)
        if violation(theta, blocks) <= CERTIFIED:
            break
    if violation(theta, blocks) > CERTIFIED:
        stated = ", ".join(f"{c.name} = {c.nominal:g}" for c in asked.base.layout.columns if c.known)
        raise EstimationError(
            f"No standard set satisfies the constraints, for any base values ({first.status}). Widen the mass bounds "
            "and boxes, or lower the margin."
            + (f" Stated values, which may contradict each other: {stated}." if stated else "")
        )
    distance = asked.distance(theta)
    matrix, offset = asked.far
    radius = (1.0 + SLACK) * distance + 1e-6
    ball = Block("ball", np.vstack([np.zeros(matrix.shape[1]), matrix]), np.concatenate([[radius], offset]))
    iterations, nearest = spent + first.iterations, Answer(theta, FAR, 0)
    for inside in (INSIDE, 0.0):  # a body may be a point or a rod, or have no mass: the cone has no interior then
        second = _searched(asked, [*blocks, ball], start, np.asarray, inside)
        iterations += second.iterations
        nearer = second._replace(theta=clipped(second.theta, blocks, FLOOR, held))
        good = violation(nearer.theta, blocks) <= CERTIFIED and asked.distance(nearer.theta) <= 1.01 * radius
        if good and asked.from_prior(nearer.theta) <= asked.from_prior(nearest.theta):
            nearest = nearer
        if nearest.status in GOOD:
            break
    return distance, nearest._replace(iterations=iterations)
