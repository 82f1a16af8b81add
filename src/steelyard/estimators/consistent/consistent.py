"""Least squares over physically consistent robots: a full standard set, with a certificate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, final, get_args

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import EstimationError, choices
from steelyard.estimators.consistent.fit import ROUNDING, Data, certified, fitted
from steelyard.estimators.consistent.priors import REGULARISERS, Pull, Regulariser, nominal_or_zero, pull, rope
from steelyard.estimators.consistent.slack import strongest_weight
from steelyard.estimators.estimator import Estimate, Estimator, Refit
from steelyard.estimators.least_squares import joint_deviations, solve
from steelyard.estimators.regularised.evidence import supported
from steelyard.estimators.regularised.fit import checked_weight, chosen_weight, corner_weight, regularised
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters
from steelyard.physical.cones import Answer, ConeScales, column_scales
from steelyard.physical.constraints import PHYSICAL, Constraints
from steelyard.physical.nearest import reconstruction
from steelyard.physical.prior import Prior, Widths
from steelyard.regression.information import Information, stacked
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem

Choice = Literal["cross-validation", "l-curve", "evidence", "slack"]
CHOICES: tuple[str, ...] = get_args(Choice)
# Weight zero is replaced by this weight: a prior a thousand times wider than stated, which decides only what data and
# constraints leave open.
ROPE = 1e-6
# Lower bound of that weight relative to the strongest row of data, so that it is not lost in rounding.
THINNEST = 1e-14
# Unconstrained least squares within this distance of the feasible set [σ] may itself be feasible.
AT_HAND = 1.0
# A value larger than this many standard deviations is certain enough to set the scale of its unit ...
SURE = 3.0
# ... if the motion excites it by more than this fraction of the best excited value of its unit.
HARDLY = 1e-6


@final
@dataclass(frozen=True)
class Consistent(Estimator):
    """Weighted least squares over the standard parameters of physically consistent robots.

    θ̂ = argmin Σ_j ‖y_j − W_j θ‖² / σ_j² + weight · d(θ, θ_nominal)   with   P_l(θ) ⪰ 0, Ia, Fv, Fc ≥ 0, `constraints`

    P_l is the pseudo-inertia of link or payload l. `weight` is a number, "cross-validation", "l-curve", "evidence",
    which also sets the widths by kind of parameter, or "slack", where bodies alone have a prior, and its weight is the
    largest that hardly costs (`strongest_weight`). With 0 there is no prior: of all sets that fit equally well, the
    one nearest to the robot file is taken. d is the `regulariser`: "euclidean" in `widths`, "entropic" or "pull-back".
    `weighting` "wls" uses one σ per joint, "ls" one for all.
    """

    weight: float | Choice = 0.0
    regulariser: Regulariser = "euclidean"
    weighting: Literal["wls", "ls"] = "wls"
    widths: Widths = Widths()
    constraints: Constraints = PHYSICAL
    name: ClassVar[str] = "consistent"

    def __post_init__(self) -> None:
        if isinstance(self.weight, str):
            if self.weight not in CHOICES:
                valid = ("a number", *CHOICES)
                raise EstimationError("Estimator 'consistent': " + choices("weight", self.weight, valid))
        elif self.weight != 0.0:
            checked_weight(self.weight)
        if self.regulariser not in REGULARISERS:
            raise EstimationError("Estimator 'consistent': " + choices("regulariser", self.regulariser, REGULARISERS))
        if (self.weight, self.regulariser) == ("evidence", "entropic"):
            raise EstimationError(
                "Estimator 'consistent': evidence is that of a normal distribution. Use the regulariser euclidean or "
                "pull-back, or another weight."
            )
        if self.weighting not in ("wls", "ls"):
            raise EstimationError("Estimator 'consistent': " + choices("weighting", self.weighting, ("wls", "ls")))

    def estimate(
        self, problem: Problem | None, base: BaseParameters, information: Information, progress: Progress | None = None
    ) -> Estimate:
        sigma = joint_deviations(information, base)
        if self.weighting == "ls":
            sigma = np.where(np.isfinite(sigma), np.sqrt(np.nanmean(sigma**2)), np.nan)
        weights = np.where(np.isfinite(sigma), 1.0 / sigma, 0.0)
        rows = stacked(information, base.kept, weights)
        if self.weight != 0.0:
            return self.constrained(base, information, weights, Data.solved(rows), None)
        free = solve(information, base, weights)
        return self.constrained(base, information, weights, Data(rows, free.value), free)

    def constrained(
        self, base: BaseParameters, information: Information, weights: Array, data: Data, free: Estimate | None
    ) -> Estimate:
        """The physical estimate from the rows of `data`, with the error bars of the unconstrained estimate `free`.

        Without `free`, the error bars come from the `information` with `weights` (n,) of its joints and the prior.
        These also choose the weight of the prior.
        """
        scales = believable_scales(base, data)
        thin = rope(base.layout, scales, self.widths)
        if self.weight == 0.0:
            assert free is not None
            answer = self._unpulled(base, data, thin, scales)
            found = certified(base, data, answer, free, 0.0, self.constraints, scales, information)

            def nearest(rows: Array) -> Array:
                return base.map @ self._unpulled(base, Data.solved(rows), thin, scales).theta

            return replace(found, refit=Refit(weights, nearest))
        pulled = pull(base.layout, information, scales, self.widths, self.regulariser)
        if self.weight == "slack":
            pulled, findings = pulled.of_bodies(base.layout), ()
            weight = strongest_weight(data, base, lambda one: self._pulled(base, data, pulled, one, thin, scales))
        else:
            pulled, weight, findings = self._weight(information, base, weights, pulled)
        in_base = pulled.prior.in_base(base)
        leaning = free or regularised(information, base, in_base, weight, weights)
        answer = self._pulled(base, data, pulled, weight, thin, scales)
        found = certified(base, data, answer, leaning, weight, self.constraints, scales, information, self.regulariser)

        def values(rows: Array) -> Array:
            return base.map @ self._pulled(base, Data.solved(rows), pulled, weight, thin, scales).theta

        return replace(found, refit=Refit(weights, values)).with_findings((*findings, *pulled.findings))

    def _weight(
        self, information: Information, base: BaseParameters, weights: Array, pulled: Pull
    ) -> tuple[Pull, float, tuple[Finding, ...]]:
        """The prior, with the widths of largest evidence if requested, its weight, and the reason."""
        if self.weight == "evidence":
            found = supported(information, base, weights, pulled.prior)
            return replace(pulled, prior=found.prior), found.weight, (found.finding(),)
        if not isinstance(self.weight, str):
            return pulled, float(self.weight), ()
        choose = chosen_weight if self.weight == "cross-validation" else corner_weight
        return pulled, *choose(information, base, weights, pulled.prior.in_base(base))

    def _unpulled(self, base: BaseParameters, data: Data, thin: Prior, scales: ConeScales) -> Answer:
        """The unconstrained base values if they are feasible, else the nearest feasible ones."""
        least = max(ROPE, THINNEST * float(np.abs(data.rows[:, :-1] @ base.map * thin.width).max()) ** 2)
        rows = np.vstack([data.standard(base), np.sqrt(least) * thin.rows])
        near = fitted(base, rows, self.constraints, scales)
        moved = data.moved(base.map @ near.theta)
        if moved > AT_HAND and moved > ROUNDING * data.effort:
            return near
        exact = reconstruction(data.shown(base), data.value, thin.reference, thin.width, self.constraints)
        return near if exact is None else exact

    def _pulled(
        self, base: BaseParameters, data: Data, pulled: Pull, weight: float, thin: Prior, scales: ConeScales
    ) -> Answer:
        entropies, informed = pulled.entropies(base.layout, weight, self.widths.inertia), pulled.prior.has_prior
        by_entropy = np.zeros(len(informed), bool)
        for entropy in entropies:
            by_entropy[entropy.columns] = True
        silent = replace(thin, width=np.where(informed, np.inf, thin.width))
        prior = np.sqrt(weight) * pulled.prior.rows
        squares = [data.standard(base), prior[~by_entropy[informed]], np.sqrt(ROPE) * silent.rows]
        nearly = prior[by_entropy[informed]] if entropies else None
        return fitted(base, np.vstack(squares), self.constraints, scales, entropies, nearly)


def believable_scales(base: BaseParameters, data: Data) -> ConeScales:
    """Scales of bodies and columns for the solver.

    Parameters that the motion hardly excites have arbitrary values, and bodies scaled by them would hide all others
    from the solver. Such values are limited to the largest value of their unit that is certain or stated in the robot
    file.
    """
    reference, value = nominal_or_zero(base.layout), np.nan_to_num(data.value)
    largest, seen = np.abs(base.map).max(axis=1), np.linalg.norm(data.rows[:, :-1], axis=0)
    size, file = np.abs(value) / largest, np.abs(base.map @ reference) / largest
    for unit in set(base.units):
        own = np.array([u == unit for u in base.units])
        sure = own & (np.abs(value) > SURE * data.std) & (seen > HARDLY * seen[own].max())
        most = max(size[sure].max(initial=0.0), file[own].max())
        if most > 0.0:
            size[own & ~sure] = np.minimum(size[own & ~sure], most)
    return column_scales(base, size * largest, reference)
