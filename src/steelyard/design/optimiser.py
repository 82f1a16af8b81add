"""An interior-point minimiser for a smooth objective with a costly gradient and many cheap linear limits.

    minimise  f(x) − μ Σ log(slack of the linear limits)    for μ decreasing to almost zero

Every iterate is strictly within the limits. The curvature of the logarithms is exact; that of f is learnt from its
gradients, may be indefinite, and the step follows |eigenvalues| of the sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np

from steelyard._arrays import Array

# Weights of the limits' logarithms, stage by stage; a stage ends when the predicted decrease is below a fraction of its
# weight. Stages above the first lead to no better values and take longer.
STAGES = (3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5)
_PROMISE = 0.2
# Largest fraction of the distance to a limit in one step, and largest number of halvings of a step.
_NEAREST, _HALVINGS = 0.98, 20
_ARMIJO = 1e-4
_FAR = 1e300


class Slope(NamedTuple):
    """f(x) and its gradient, f infinite where x is out of bounds."""

    value: float
    gradient: Array


@final
@dataclass(frozen=True, eq=False)
class LinearLimits:
    """lower ≤ Γ x_i ≤ upper for each of m blocks x_i (K,) of x (m · K,); rows Γ (M, K), lower and upper (m, M).

    Infinite entries are unbounded. `weight` (M,) is the weight of each row in the sum of logarithms.
    """

    rows: Array
    lower: Array
    upper: Array
    weight: Array

    def _slacks(self, x: Array) -> tuple[Array, Array]:
        value = x.reshape(len(self.lower), -1) @ self.rows.T
        return value - self.lower, self.upper - value

    @cached_property
    def _counted(self) -> tuple[Array, Array]:
        return self.weight * np.isfinite(self.lower), self.weight * np.isfinite(self.upper)

    def value(self, x: Array) -> float:
        """The sum of logarithms, −Σ weight · log(slack); infinite where x is not strictly within the limits."""
        total = 0.0
        for slack, counted in zip(self._slacks(x), self._counted, strict=True):
            if slack.min() <= 0.0:
                return np.inf
            # avoid 0 · log(∞): an infinite slack contributes nothing
            total -= float(np.sum(counted * np.log(np.minimum(slack, _FAR))))
        return total

    def derivatives(self, x: Array) -> tuple[Array, Array]:
        """Gradient (m · K,) and the blocks (m, K, K) of the Hessian of the sum of logarithms."""
        (below, above), (low, high) = self._slacks(x), self._counted
        gradient = (high / above - low / below) @ self.rows
        bend = high / above**2 + low / below**2
        return gradient.ravel(), (bend[:, None, :] * self.rows.T) @ self.rows

    def longest(self, x: Array, step: Array) -> Array:
        """For every block the largest factor of its step that stays within the limits, (m,)."""
        below, above = self._slacks(x)
        way = step.reshape(len(self.lower), -1) @ self.rows.T
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(way > 0.0, above / way, np.where(way < 0.0, -below / way, np.inf))
        return np.min(factor, axis=1)


def minimise(
    objective: Callable[[Array, float], Slope],
    limits: LinearLimits,
    x: Array,
    iterations: int,
    on_step: Callable[[Array, Slope], None] | None = None,
) -> Array:
    """x (m · K,) near a local minimum of `objective` within the limits, from a start strictly inside.

    `objective(x, μ)` may contain its own barriers weighted by μ. `iterations` is the maximum for all stages together;
    `on_step` is called with every accepted x.
    """
    blocks, size = len(limits.lower), limits.rows.shape[1]
    learnt = np.zeros((len(x), len(x)))
    left = iterations
    wall = limits.value(x)
    for stage, mu in enumerate(STAGES):
        here = objective(x, mu)
        most = max(1, left // (len(STAGES) - stage)) * 2
        for _ in range(min(most, left)):
            gradient, bend = limits.derivatives(x)
            whole = learnt.copy()
            for i in range(blocks):
                own = slice(i * size, (i + 1) * size)
                whole[own, own] += mu * bend[i]
            total = here.gradient + mu * gradient
            eigen, axes = np.linalg.eigh(whole)
            curved = np.maximum(np.abs(eigen), 1e-6 * np.abs(eigen).max(initial=1e-300))
            step = -axes @ ((axes.T @ total) / curved)
            promised = -float(total @ step)
            if promised <= _PROMISE * mu:
                break
            left -= 1
            taken = _search(objective, limits, x, step, mu, here.value + mu * wall, promised)
            if taken is None:
                # the learnt curvature of f is wrong here: reset it once, stop if it was already empty
                if not learnt.any():
                    break
                learnt[:] = 0.0
                continue
            moved, there, wall = taken
            _learn(learnt, moved - x, there.gradient - here.gradient)
            x, here = moved, there
            if on_step is not None:
                on_step(x, here)
        if left <= 0:
            break
    return x


def _search(
    objective: Callable[[Array, float], Slope],
    limits: LinearLimits,
    x: Array,
    step: Array,
    mu: float,
    before: float,
    promised: float,
) -> tuple[Array, Slope, float] | None:
    """The first of decreasing steps that lowers the total by a fraction of its prediction; with its sum of logarithms.

    `before` is the total at x, f + μ · logarithms.
    """
    factor = min(1.0, _NEAREST * float(limits.longest(x, step).min()))
    for _ in range(_HALVINGS):
        moved = x + factor * step
        wall = limits.value(moved)
        if np.isfinite(wall):
            there = objective(moved, mu)
            if there.value + mu * wall <= before - _ARMIJO * factor * promised:
                return moved, there, wall
        factor *= 0.5
    return None


def _learn(learnt: Array, moved: Array, change: Array) -> None:
    """The smallest change with which `learnt` explains the change of the gradient; may be indefinite (Bofill 1994).

    With r the unexplained part and φ = cos² of the angle between r and the step s, it is φ times the rank-one update, r
    rᵀ / r·s, plus 1 − φ times Powell's, (r sᵀ + s rᵀ) / s² − (r·s) s sᵀ / s⁴: the first learns faster, the second stays
    bounded where r is nearly orthogonal to s. Searches reach lower values with both than with either.
    """
    rest = change - learnt @ moved
    along, length, left = float(rest @ moved), float(moved @ moved), float(rest @ rest)
    if left == 0.0:
        return
    cross = np.outer(rest, moved)
    share = along**2 / (left * length)
    learnt += (1.0 - share) * ((cross + cross.T) / length - along / length**2 * np.outer(moved, moved))
    # φ / (r·s), without dividing by a value that may be zero
    learnt += along / (left * length) * np.outer(rest, rest)
