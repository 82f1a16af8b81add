"""Gains and base parameters with noise in the efforts only: mixed TLS, and the likelihood, which starts from it."""

from __future__ import annotations

import numpy as np

from steelyard._arrays import Array
from steelyard.estimators.gains.equations import DriveEquations, GainSolution, least_squares, regression
from steelyard.estimators.least_squares import DATA_TOLERANCE
from steelyard.regression.information import triangular

# Steps end when no gain changes by more than this relative amount; a step is halved at most this many times.
TOLERANCE, MOST_STEPS, MOST_HALVINGS = 1e-10, 100, 40
# A smaller relative increase of the cost is rounding.
ROUNDING = 1e-12


def mixed_tls(equations: DriveEquations, start: GainSolution | None = None, steps: int = MOST_STEPS) -> GainSolution:
    """Mixed TLS, repeated with the weights of the new gains until they settle: the result does not depend on units."""
    at = regression(equations) if start is None else start
    for _ in range(steps):
        before, at = at.factor, _smallest(equations, 1.0 / (equations.deviation * np.abs(at.factor)))
        if np.all(np.abs(at.factor - before) <= TOLERANCE * np.abs(before)):
            break
    return at


def _smallest(equations: DriveEquations, weight: Array) -> GainSolution:
    """Mixed TLS with rows times weight_j: QR of [W K | E], the smallest singular vector of R₂₂, back-substitution.

    The columns of E, e_j/(σ_j √r_j), have noise of unit norm.
    """
    scale = equations.deviation * np.sqrt(equations.rows)
    rows = weight[equations.motor][:, None]
    exact = rows * np.column_stack([equations.w, equations.known.sum(axis=1)])
    norms = np.linalg.norm(exact, axis=0)
    norms[norms == 0.0] = 1.0
    noisy = equations.by_motor(equations.effort / scale[equations.motor])
    r = triangular(np.column_stack([exact / norms, noisy]))
    count = exact.shape[1]
    u = np.linalg.svd(r[count:, count:])[2][-1]
    x = np.linalg.lstsq(r[:count, :count], r[:count, count:] @ u, rcond=1e-9)[0] / norms
    return GainSolution(u / (weight * scale) / x[-1], x[:-1] / x[-1])


def separable(equations: DriveEquations, start: GainSolution | None = None, steps: int = MOST_STEPS) -> GainSolution:
    """Gauss–Newton in h = 1/g on the cost with the best χ for h.

    h may pass through zero, so that a start of the wrong sign can be corrected.
    """
    at = mixed_tls(equations) if start is None else start
    rest = equations.residual(at)
    cost = float(rest @ rest)
    for _ in range(steps):
        h = 1.0 / at.factor
        step = least_squares(equations.jacobian(at), equations.residual(at))[0][-len(h) :]
        for _ in range(MOST_HALVINGS):
            value, lower = _projected(equations, h + step)
            if lower <= cost * (1.0 + ROUNDING):
                break
            step = 0.5 * step
        else:
            break
        at, cost = GainSolution(1.0 / (h + step), value), lower
        if np.all(np.abs(step) <= TOLERANCE * np.abs(h)):
            break
    return at


def _projected(equations: DriveEquations, h: Array) -> tuple[Array, float]:
    """The best χ for given h, and the cost with it."""
    weight = 1.0 / equations.deviation[equations.motor]
    rows = (weight * h[equations.motor])[:, None]
    known = h[equations.motor] * equations.known.sum(axis=1)
    return least_squares(rows * equations.w, weight * (equations.effort - known))


def linear_covariance(equations: DriveEquations, at: GainSolution) -> Array:
    """C = s² (JᵀJ)⁻¹ of (g, χ), J that of the efforts h (W χ + K) in units of σ_j, s² = ‖ρ‖²/(r − b − n).

    It holds if the noise is in the efforts only: to first order in that noise, mixed TLS is the same estimator.
    """
    jacobian = equations.jacobian(at)
    norms = np.linalg.norm(jacobian, axis=0)
    norms[norms == 0.0] = 1.0
    inverse = np.linalg.pinv(triangular(jacobian / norms), rcond=DATA_TOLERANCE) / norms[:, None]
    b = len(at.value)
    # ∂g/∂h = −g²
    inverse = np.concatenate([-(at.factor[:, None] ** 2) * inverse[b:], inverse[:b]])
    rest = equations.residual(at)
    freedom = max(int(equations.rows.sum()) - jacobian.shape[1], 1)
    return float(rest @ rest) / freedom * inverse @ inverse.T


def relative_deviations(equations: DriveEquations, at: GainSolution) -> Array:
    """σ(g_j)/|g_j| by the classical formula, (n,)."""
    n = len(at.factor)
    return np.sqrt(np.diagonal(linear_covariance(equations, at))[:n]) / np.abs(at.factor)
