"""Other estimators on the rows of a fit, scored on rows that they did not see: from triangles, without another pass."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from steelyard._arrays import single_threaded
from steelyard.errors import EstimationError
from steelyard.estimators import Estimator, named_estimator
from steelyard.estimators.estimator import GAINS, SIMULATION, estimated, in_torques, needs
from steelyard.identification.expected import fits_without_folds
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.regression.information import Information
from steelyard.regression.problem import Problem
from steelyard.regression.scores import Score, score

# What is compared where efforts are torques, and where drive gains are identified.
WITH_TORQUES = ("ls", "wls", "huber", "essential", "ridge", "map", "consistent")
WITH_GAINS = ("gains", "consistent-gains", "tls-mixed", "tls")
# Above this number of base parameters only the estimators that solve one triangle: others take time with its cube or
# more.
MOST_PARAMETERS = 150
DIRECT = ("ls", "wls", "gains")


@dataclass(frozen=True)
class EstimatorScore:
    """‖y − Wθ̂‖/‖y‖ of an estimator: `fitted` over all joints on its own rows, `total` and per joint on other rows; NaN
    with the `reason` where there is none. `used` is true for the estimator of the result."""

    estimator: str
    used: bool
    fitted: float = math.nan
    total: float = math.nan
    joints: dict[str, float] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True)
class EstimatorScores:
    """Estimators side by side. `rows` are those of the scores: of unseen runs, or left out in turn. `skipped` were not
    tried, since their cost grows too fast with the number of parameters."""

    rows: Literal["unseen", "left out"]
    scores: tuple[EstimatorScore, ...]
    skipped: tuple[str, ...] = ()

    @property
    def best(self) -> EstimatorScore | None:
        """The smallest error on other rows."""
        known = [one for one in self.scores if math.isfinite(one.total)]
        return min(known, key=lambda one: one.total) if known else None


@single_threaded
def estimator_scores(
    result: Identification,
    problem: Problem,
    estimator: Estimator,
    information: Information,
    held_out: Information | None = None,
) -> EstimatorScores:
    """The estimator of a result and those that apply to the same rows, each with its default options.

    Scored on `held_out`, the rows of unseen runs, else on guarded folds that are left out in turn. Everything is
    computed from the triangles. Estimators that simulate the runs would need passes of their own: they are listed only
    as that of the result.
    """
    base = base_parameters(problem.model)
    names = WITH_GAINS if needs(estimator, GAINS) else WITH_TORQUES
    tried = tuple(name for name in names if len(base) <= MOST_PARAMETERS or name in DIRECT)
    others = [named_estimator(name) for name in tried if name != estimator.name]
    if needs(estimator, SIMULATION):
        own = _of_result(result)
    else:
        own = _score(problem, base, estimator, information, held_out, True)
    found = (own, *(_score(problem, base, one, information, held_out, False) for one in others))
    skipped = tuple(name for name in names if name not in tried and name != estimator.name)
    return EstimatorScores("left out" if held_out is None else "unseen", found, skipped)


def _of_result(result: Identification) -> EstimatorScore:
    """The scores that the result has already."""
    other = result.unseen
    if other is None:
        reason = "it simulates whole runs, and none was left out"
        return EstimatorScore(result.estimator, True, result.relative_error.total, reason=reason)
    return EstimatorScore(result.estimator, True, result.relative_error.total, other.total, other.joints)


def _score(
    problem: Problem,
    base: BaseParameters,
    estimator: Estimator,
    information: Information,
    held_out: Information | None,
    used: bool,
) -> EstimatorScore:
    try:
        estimate = estimated(estimator, None, base, information)
        theta = base.theta(np.nan_to_num(estimate.value))
        fitted = score(in_torques(information, estimate), theta, problem.mask).total
        other: Score = (
            fits_without_folds(problem, base, information, estimator, estimate).score(base, problem.mask)
            if held_out is None
            else score(in_torques(held_out, estimate), theta, problem.mask)
        )
    except EstimationError as error:
        return EstimatorScore(estimator.name, used, reason=str(error).rstrip("."))
    return EstimatorScore(estimator.name, used, fitted, other.total, other.joints)
