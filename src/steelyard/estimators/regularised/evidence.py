"""Evidence: how wide a prior should be, as the data themselves support it (empirical Bayes).

The widths of a prior are guesses. Given the rows of all joints in units of their σ, y = A θ + e, and a prior
θ ~ N(θ₀, diag(s_g d²)) with one factor s_g per kind of parameter g, the data have the density

    y − A θ₀ ~ N(0, K),   K = 1 + Σ_g s_g A_g diag(d_g²) A_gᵀ

The factors that maximise it (MacKay, 1992) widen a prior that the data contradict and narrow one that they confirm: a
term that no joint needs gets a small factor, and its parameters stay near zero. Nothing is left out and fitted again:
a periodic motion, whose blocks resemble each other, does not mislead it as it does cross-validation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space

from steelyard._arrays import Array
from steelyard.estimators.least_squares import solve
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters
from steelyard.model.parameters import Layout
from steelyard.physical.prior import Prior
from steelyard.regression.information import Information, stacked

# Bounds of the factors: a hundredth and a hundred times the stated width.
FACTORS = (1e-4, 1e4)
# The stated widths are right within a factor of ten: log s_g ~ N(0, SPREAD²). Where few parameters of a kind happen to
# be near their reference, this keeps their width from collapsing below what the data resolve, and error bars honest.
SPREAD = 2.0 * np.log(10.0)
# The iteration ends when no factor changes by more than this fraction; it does within about 20 rounds.
SETTLED, ROUNDS = 1e-2, 100
# Rows count for at least this fraction: a fit with fewer independent rows has no evidence to speak of.
LEAST_SHARE = 0.02
# The prior has this many times the weight that noise alone would give it. What a model lacks (the shape of friction,
# elasticity) leaves the same residual in every block of time, so no block that is left out shows it, but it is an error
# on other motion. Chosen by the error on unseen motion of 40 simulated robots (evidence/generalise.py, seed 20261118):
# 3 to 10 are equal within 3 %, and leaving any one robot out chooses 3 to 5 (true torques) or 7 to 15 (measured ones).
REPEATED = 5.0
# Directions of the data that columns without a prior explain, to this relative accuracy.
RANK = 1e-10
# Widths of the file's inertias that had to grow by more than this say that it describes another robot.
CONTRADICTED = 10.0


@dataclass(frozen=True)
class Evidence:
    """A prior with the widths that the data support.

    prior       the stated prior with its widths times √s_g
    share       τ: the fraction of the rows that is independent; the prior has the weight REPEATED/τ against all rows
    factors     kind of parameter → √s_g
    """

    prior: Prior
    share: float
    factors: dict[str, float]

    @property
    def weight(self) -> float:
        return REPEATED / self.share

    def finding(self) -> Finding:
        widths = ", ".join(f"{kind} {factor:.2g}" for kind, factor in self.factors.items())
        message = (
            f"widths of the prior that the data support, relative to the stated ones: {widths or 'none'}; "
            f"{self.share:.0%} of the rows count as independent"
        )
        if self.factors.get(INERTIAS, 0.0) > CONTRADICTED:
            advice = "the inertias of the robot file contradict the data: check the file, its units and drive gains"
            return Finding("prior-weight", "warning", message, fix=advice)
        return Finding("prior-weight", "info", message)


# The kind of all inertial parameters of the links.
INERTIAS = "inertias"


def supported(information: Information, base: BaseParameters, weights: Array, prior: Prior) -> Evidence:
    """The prior with the widths of largest evidence; `weights` (n,) = 1/σ_j of the joints' rows.

    Residuals that are correlated in time make rows look more certain than they are. Their share τ is the median ratio
    of classical to leave-one-block-out variances of a first fit; the evidence then counts rows with √τ.
    """
    weights = np.where(np.isfinite(weights), weights, 0.0)
    rows = stacked(information, base.kept, weights)[: len(base)]
    kinds, kind = _kinds(base.layout, prior)
    first = _widened(prior, kind, _factors(rows, base, prior, kind, len(kinds)))
    share = _independent(information, base, weights, first)
    factors = _factors(np.sqrt(share) * rows, base, prior, kind, len(kinds))
    return Evidence(_widened(prior, kind, factors), share, dict(zip(kinds, np.sqrt(factors).tolist(), strict=True)))


def _kinds(layout: Layout, prior: Prior) -> tuple[list[str], NDArray[np.int64]]:
    """The names of the kinds, and the kind of every column (C,), −1 where its width stays as stated or is infinite.

    One kind for all inertias of the links, one per symbol of the drives, over all joints: a single joint has too few
    parameters of a kind to judge its width.
    """
    names: dict[str, int] = {}
    out = np.full(len(layout), -1)
    for k, column in enumerate(layout.columns):
        stated = column.known or column.width is not None or column.kind not in ("link", "term")
        if prior.has_prior[k] and not stated:
            name = INERTIAS if column.kind == "link" else column.symbol
            out[k] = names.setdefault(name, len(names))
    return list(names), out


def _factors(rows: Array, base: BaseParameters, prior: Prior, kind: NDArray[np.int64], count: int) -> Array:
    """s_g (count,) of largest evidence: Σ (hᵀK⁻¹r)² − Σ hᵀK⁻¹h = 2 log s_g / SPREAD², over the columns h of A H.

    Solved by s ← s √(left terms / right terms), the logarithm on the side where it is positive.

    Columns without a prior are projected out: the limit of an infinite width.
    """
    factors = np.ones(count)
    matrix = rows[:, :-1] @ base.map
    rest = rows[:, -1] - matrix @ np.where(prior.has_prior, prior.reference, base.layout.known)
    free = ~prior.has_prior & ~np.array([column.known for column in base.layout.columns])
    if free.any():
        outside = null_space(matrix[:, free].T, rcond=RANK)
        matrix, rest = outside.T @ matrix, outside.T @ rest
    if not count or not len(rest):
        return factors
    half = matrix @ prior.root
    fixed = np.eye(len(rest)) + half[:, kind < 0] @ half[:, kind < 0].T
    for _ in range(ROUNDS):
        scaled = half * np.sqrt(np.where(kind < 0, 0.0, factors[kind]))
        solved = np.linalg.solve(fixed + scaled @ scaled.T, np.column_stack([scaled, rest]))
        surprise, expected = (scaled.T @ solved[:, -1]) ** 2, np.sum(scaled * solved[:, :-1], axis=0)
        shown, chance = (np.bincount(kind[kind >= 0], x[kind >= 0], count) for x in (surprise, expected))
        pull = 2.0 * np.log(factors) / SPREAD**2
        ratio = np.sqrt((shown + np.maximum(-pull, 0.0)) / np.maximum(chance + np.maximum(pull, 0.0), 1e-300))
        following = np.clip(factors * np.where(chance > 0.0, ratio, 1.0), *FACTORS)
        done = np.all(np.abs(np.log(following / factors)) < SETTLED)
        factors = following
        if done:
            break
    return factors


def _widened(prior: Prior, kind: NDArray[np.int64], factors: Array) -> Prior:
    if not len(factors):
        return prior
    size = np.sqrt(np.where(kind < 0, 1.0, factors[kind]))
    half = None if prior.half is None else size[:, None] * prior.half
    return replace(prior, width=prior.width * size, half=half)


def _independent(information: Information, base: BaseParameters, weights: Array, prior: Prior) -> float:
    """τ, the fraction of the rows that is independent; 1 where blocks of time are too few to show it."""
    # by blocks of time: REPEATED stands for the errors that repeat themselves
    found = solve(information, base, weights, prior=prior.in_base(base), phases=False)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.diagonal(found.covariance_classical) / np.diagonal(found.covariance)
    ratio = ratio[np.isfinite(ratio)]
    return float(np.clip(np.median(ratio), LEAST_SHARE, 1.0)) if len(ratio) else 1.0
