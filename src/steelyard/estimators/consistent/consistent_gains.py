"""Drive gains and a physically consistent standard set, by the likelihood of the efforts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np

from steelyard._arrays import Array
from steelyard.estimators.consistent.consistent import Choice, Consistent
from steelyard.estimators.consistent.fit import Data
from steelyard.estimators.consistent.priors import Regulariser
from steelyard.estimators.estimator import GAINS, Estimate, Estimator, GainEstimate, in_torques
from steelyard.estimators.gains.equations import DriveEquations, GainSolution
from steelyard.estimators.gains.error_bars import gain_estimate, scaled_blocks
from steelyard.estimators.gains.solvers import linear_covariance, separable
from steelyard.estimators.least_squares import joint_deviations
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters
from steelyard.physical.constraints import PHYSICAL, Constraints
from steelyard.physical.prior import Widths
from steelyard.regression.information import Information, stacked, triangular
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem

# Steps end when no gain changes by more than this relative amount.
TOLERANCE, MOST_STEPS = 1e-7, 20
# A remaining change matters above this fraction of a gain's σ.
SETTLED = 0.01


@final
@dataclass(frozen=True)
class ConsistentGains(Estimator):
    """Drive gains as in gains, parameters as in consistent, estimated together.

    (ĝ, θ̂) = argmin Σ_j ‖e_j − (W_j θ + K_j)/g_j‖² / σ_j² + weight · d(θ, θ_nominal)   with   P_l(θ) ⪰ 0, Ia, Fv, Fc ≥ 0

    K_j is the torque of the known parameters of the payload, which gives the scale. The problem is linear in θ for
    given gains: Gauss–Newton from the unconstrained estimate, each step a convex problem. Options as in consistent.
    """

    weight: float | Choice = 0.0
    regulariser: Regulariser = "euclidean"
    widths: Widths = Widths()
    constraints: Constraints = PHYSICAL
    name: ClassVar[str] = "consistent-gains"
    needs: ClassVar[frozenset[str]] = frozenset({GAINS})

    def __post_init__(self) -> None:
        self._of_torques()

    def _of_torques(self) -> Consistent:
        return Consistent(self.weight, self.regulariser, widths=self.widths, constraints=self.constraints)

    def estimate(
        self, problem: Problem | None, base: BaseParameters, information: Information, progress: Progress | None = None
    ) -> Estimate:
        free = gain_estimate(base, information, separable, linear_covariance, None)
        assert free.gains is not None
        blocks, _ = scaled_blocks(base, information)
        equations, motors = blocks.whole, list(blocks.motors)
        torques = in_torques(information, free).without_known()
        sigma = joint_deviations(torques, base)
        weights = np.where(np.isfinite(sigma), 1.0 / sigma, 0.0)
        # the combinations into which the unexcited parameters enter for this motion, independent of the gains
        shares = Data(stacked(torques, base.kept, weights), free.value).shares[blocks.excited]
        at = GainSolution(free.gains.factor[motors], free.value[blocks.excited])
        found, moves = free, np.full(len(motors), np.inf)
        for _ in range(MOST_STEPS):
            data = Data(_marginal(equations, at, shares), free.value)
            found = self._of_torques().constrained(base, torques, weights, data, free)
            value = shares @ found.value
            factor = _gains(equations, value)
            moves, at = np.abs(factor / at.factor - 1.0), GainSolution(factor, value)
            if np.all(moves <= TOLERANCE):
                break
        factors = free.gains.factor.copy()
        factors[motors] = at.factor
        found = replace(found, gains=replace(free.gains, factor=factors))
        parts = moves * at.factor / _deviations(free.gains)[motors]
        if np.all((moves <= TOLERANCE) | (parts <= SETTLED)):
            return found
        message = (
            f"the gains still change by a relative {moves.max():.1g}, {np.nanmax(parts):.1g} σ, after {MOST_STEPS} "
            "steps"
        )
        advice = "compare with the estimator gains; use a heavier payload, or state more of its parameters"
        return found.with_findings([Finding("gains-not-converged", "warning", message, fix=advice)])


def _deviations(gains: GainEstimate) -> Array:
    """σ of the gains (n,): the robust one, or the classical one where there is no robust one."""
    count = len(gains.factor)
    robust, classical = (np.sqrt(np.diagonal(c)[:count]) for c in (gains.covariance, gains.covariance_classical))
    return np.where(np.isfinite(robust) & (robust > 0.0), robust, classical)


def _marginal(equations: DriveEquations, at: GainSolution, shares: Array) -> Array:
    """Rows [R | y] (b + 1, b + 1) of all base parameters, with the best gains for each: linearised at (g, χ)."""
    count = len(at.value)
    jacobian = equations.jacobian(at)
    y = jacobian[:, :count] @ at.value + equations.residual(at)
    r = triangular(np.column_stack([jacobian[:, count:], jacobian[:, :count] @ shares, y]))
    return r[len(at.factor) :, len(at.factor) :]


def _gains(equations: DriveEquations, value: Array) -> Array:
    """g_j = ‖t_j‖² / (t_j · e_j), the best gains for torques t = W χ + K."""
    torque = equations.torque(value)
    squares, products = (np.bincount(equations.motor, x) for x in (torque**2, torque * equations.effort))
    return squares / products
