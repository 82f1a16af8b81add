"""The strongest prior that hardly costs: for a fit whose model is too small, so that evidence and folds mislead."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from steelyard.estimators.consistent.fit import ROUNDING, Data
from steelyard.model.base_parameters import BaseParameters
from steelyard.physical.cones import Answer

# Relative increase of the misfit ‖(y − Wθ)/σ‖ above the smallest of the path that a prior may cost.
SLACK = 0.05
# Range of log₁₀ of the weight, and how finely it is searched.
LOWEST, HIGHEST, STEP = -6.0, 10.0, 0.125


def strongest_weight(data: Data, base: BaseParameters, solved: Callable[[float], Answer]) -> float:
    """The largest weight λ whose fit θ(λ) = `solved`(λ) has a misfit within SLACK of that of the smallest weight.

    The misfit grows with λ, so that bisection finds it. Folds of a log do not: neighbouring parts of a periodic motion
    repeat each other, with the same error of the model, and always prefer the smallest weight.
    """

    def misfit(exponent: float) -> float:
        return data.residual(base.map @ solved(10.0**exponent).theta)

    allowed = max((1.0 + SLACK) * misfit(LOWEST), ROUNDING * data.effort)
    low, high = 0, round((HIGHEST - LOWEST) / STEP)
    if misfit(HIGHEST) <= allowed:
        return 10.0**HIGHEST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if misfit(LOWEST + STEP * middle) <= allowed else (low, middle)
    return float(np.power(10.0, LOWEST + STEP * low))
