"""Feasibility: can a set of *base* values belong to any robot at all, and to which one near the prior (P0 §I, §V.B)?

Infinitely many standard sets share the base values χ_b = B θ. The question is whether one of them is physical:

    find θ   with   B θ = χ_b,   P_l(θ) ⪰ ε·1 for every link l,   Ia, Fv, Fc ≥ 0,   m⁻ ≤ M ≤ m⁺,   c⁻ M ≤ mc ≤ c⁺ M

P_l is the 4×4 pseudo-inertia, linear in θ, so this is a convex (semidefinite) problem with a definite answer.
Clarabel solves it; what it returns is checked again here with numpy alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import clarabel
import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular

from steelyard.base_parameters import BaseParameters
from steelyard.consistency import NONNEGATIVE, link_columns, pseudo_inertia
from steelyard.errors import EstimationError, ModelError, choices
from steelyard.findings import Finding
from steelyard.parameters import Array, Layout
from steelyard.threads import single_threaded

# A standard set counts as feasible when no constraint, each scaled to the size of its link, is missed by more than this.
CERTIFIED = 1e-9
# Columns without effect and without prior: their width in the norm, times the others', so that they are all but free.
FREE_WIDTH = 1e3
# Where the base values are impossible: how much of the smallest distance may be spent on coming nearer to the prior.
SLACK = 1e-3
# Inside this many σ of the possible, noise explains that a set of base values is impossible.
NOISE_SIGMA = 3.0

Bounds = tuple[float, float]
Box = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True)
class Constraints:
    """What a robot must satisfy.

    margin ε ≥ 0 [SI]: P ⪰ ε·1, with ε > 0 a body strictly inside the cone.  tolerance t ≥ 0 [kg·m²]: Σ + t·1 in place of
    Σ, the tolerance of `consistency.judge`.  nonnegative: symbols of drive columns that are ≥ 0.  masses: link → (m⁻, m⁺)
    [kg].  boxes: link → (c⁻ (3,), c⁺ (3,)), corners of the box its centre of mass lies in, in its own frame [m].
    """

    margin: float = 0.0
    tolerance: float = 0.0
    nonnegative: Sequence[str] = NONNEGATIVE
    masses: Mapping[str, Bounds] = field(default_factory=dict)
    boxes: Mapping[str, Box] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what, value in (("margin", self.margin), ("tolerance", self.tolerance)):
            if not (np.isfinite(value) and value >= 0.0):
                raise ModelError(f"The {what} must be a number ≥ 0, not {value!r}.")
        for link, (low, high) in self.masses.items():
            if not 0.0 <= low <= high:
                raise ModelError(f"Mass bounds of '{link}' must satisfy 0 ≤ lower ≤ upper [kg], not {low:g}, {high:g}.")
        for link, box in self.boxes.items():
            low, high = (np.asarray(corner, float) for corner in box)
            if low.shape != (3,) or high.shape != (3,) or not np.all(low <= high):
                raise ModelError(
                    f"The box of '{link}' needs two corners of three numbers [m], lower ≤ upper, not {box}."
                )


@dataclass(frozen=True)
class Feasibility:
    """The answer, with the standard set that carries it.

    theta (C,): the feasible standard set nearest to the prior; where the base values are impossible, of the nearest
    possible ones. base_values (b,) = B theta.  distance_sigma: √ of the least (Bθ − χ_b)ᵀ C⁻¹ (Bθ − χ_b), zero if possible;
    worst: the base parameter that had to move most, with its move in its own σ.  prior_distance: ‖D⁻¹(θ − θ_ref)‖.
    smallest: link → smallest eigenvalue of its pseudo-inertia by numpy [SI], the certificate.  violation: how far theta
    misses any constraint, each scaled to its link.
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
                f"No physical robot has these base values; the nearest that one has lie {self.distance_sigma:.3g} σ away "
                f"(most: {name}, {move:+.2g} σ)."
            )
            advice = (
                "Noise explains it: use the nearest feasible set."
                if noise
                else "Look for a missing term, a wrong gain or wrong kinematics before using the nearest feasible set."
            )
            found.append(Finding("base-values-impossible", "info" if noise else "warning", message, name, advice))
        if self.violation > CERTIFIED:
            message = f"The solver stopped ({self.status}) with a constraint missed by {self.violation:.2g}."
            advice = "Give mass bounds or a prior, or a small tolerance."
            found.append(Finding("feasibility-inaccurate", "warning", message, fix=advice))
        return tuple(found)


class _Block(NamedTuple):
    """G θ + h ∈ cone."""

    matrix: Array
    offset: Array
    cone: Any


class _Answer(NamedTuple):
    theta: Array
    value: float
    status: str
    iterations: int


@single_threaded
def nearest_feasible(
    base: BaseParameters,
    values: Array,
    covariance: Array | None = None,
    prior: Array | None = None,
    widths: Array | None = None,
    constraints: Constraints = Constraints(),
) -> Feasibility:
    """The physical standard set with these base values that is nearest to the prior, or how far they are from possible.

        possible:      min ‖D⁻¹(θ − θ_ref)‖        with B θ = χ_b
        else first     d² = min (Bθ − χ_b)ᵀ C⁻¹ (Bθ − χ_b),     then     min ‖D⁻¹(θ − θ_ref)‖ with that distance ≤ (1 + 10⁻³) d

    both over the physical θ. `values` χ_b (b,), NaN where nothing is known; `covariance` C (b, b), or σ (b,), by default
    σ = 1 SI unit; `prior` θ_ref (C,), by default the layout's nominal values, else zero (the minimum norm); `widths` D (C,),
    by default 1. Columns without effect are all but free unless there is a prior.
    """
    layout = base.layout
    given = prior if prior is not None else layout.nominal
    reference = np.zeros(len(layout)) if given is None else _vector(given, len(layout), "prior")
    width = np.ones(len(layout)) if widths is None else _vector(widths, len(layout), "widths")
    if not np.all(width > 0.0):
        raise EstimationError("Every width must be positive.")
    if given is None:
        width = np.where(base.map.any(axis=0), width, width * FREE_WIDTH)
    chi = np.asarray(values, float)
    if chi.shape != (len(base),) or np.isinf(chi).any():
        raise EstimationError(f"Give {len(base)} base values, NaN where unknown, not shape {chi.shape}.")
    known = np.isfinite(chi)
    scales = _Scales.of(base, chi, reference)
    blocks = _blocks(layout, constraints, scales)
    to_prior = (np.diag(1.0 / width), -reference / width)

    # B is the identity on the kept columns, so B θ = χ_b is solved for them once and holds to rounding.
    kept = np.array(base.kept, int)[known]
    start = np.zeros(len(layout))
    start[kept] = chi[known]
    span = np.eye(len(layout))
    span[kept] -= base.map[known]
    free = np.setdiff1d(np.arange(len(layout)), kept)
    answer = _minimise(*to_prior, blocks, start, span[:, free], scales.columns[free])
    missed = _violation(answer.theta, blocks)
    distance, worst = 0.0, None
    if missed > CERTIFIED:
        whiten = _whitener(covariance, known, len(base))
        far = (whiten @ base.map[known], -whiten @ chi[known])
        everything = (np.zeros(len(layout)), np.eye(len(layout)), scales.columns)
        first = _minimise(*far, blocks, *everything)
        distance = float(np.linalg.norm(far[0] @ first.theta + far[1]))
        ball = _ball(*far, (1.0 + SLACK) * distance + 1e-6)
        second = _minimise(*to_prior, [*blocks, ball], *everything)
        better = _violation(second.theta, blocks) <= max(CERTIFIED, _violation(first.theta, blocks))
        chosen = second if better else first
        iterations = answer.iterations + first.iterations + second.iterations
        answer = replace_answer(chosen, iterations)
        worst = _worst(base, known, answer.theta, chi, covariance)
    theta = answer.theta
    return Feasibility(
        possible=bool(missed <= CERTIFIED),
        theta=theta,
        base_values=base.map @ theta,
        distance_sigma=distance,
        worst=worst,
        prior_distance=float(np.linalg.norm((theta - reference) / width)),
        smallest={
            name: float(np.linalg.eigvalsh(pseudo_inertia(theta[columns]))[0])
            for name, columns in link_columns(layout).items()
        },
        violation=_violation(theta, blocks),
        status=answer.status,
        iterations=answer.iterations,
    )
