"""The error that a fit promises on other motion, by guarded folds, and the error that it has there.

Both are root mean squares [N·m | N] of the rows of the fit itself: after its own parallel filter, on moving rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from transfer import Trained

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators.estimator import estimated
from steelyard.model.base_parameters import base_parameters
from steelyard.regression.folds import guarded_folds
from steelyard.regression.information import Information, Time
from steelyard.regression.observe import observe
from steelyard.regression.scores import Score, score
from steelyard.signals.samples import Samples

FOLDS = 10


def promised_rmse(fitted: Trained) -> float:
    """What the identification expects on other motion; NaN if its rows are too few for folds."""
    if fitted.result.expected is not None:
        return rmse(fitted.result.expected)
    try:
        parts = [
            score(fitted.information.at(left_out), theta, "")
            for left_out, theta in guarded_fits(fitted, fitted.information.clusters(FOLDS))
        ]
    except EstimationError:
        return np.nan
    return rmse(*parts)


def actual_rmse(fitted: Trained, runs: Sequence[Samples]) -> float:
    """On unseen runs that are prepared as the fitted ones were."""
    other = observe(fitted.problem.with_runs(runs))
    return rmse(score(other, np.nan_to_num(fitted.result.theta), ""))


def rmse(*scores: Score) -> float:
    """Over all joints and rows [N·m | N]."""
    squares = sum(np.nan_to_num(one.rmse[j]) ** 2 * one.rows[j] for one in scores for j in one.joints)
    rows = sum(one.rows[j] for one in scores for j in one.joints)
    return float(np.sqrt(squares / rows)) if rows else np.nan


def guarded_fits(fitted: Trained, folds: Sequence[Sequence[Time]]) -> Iterator[tuple[Sequence[Time], Array]]:
    """Time blocks of each fold, and the parameters theta (C,) from rows at least 3/lowpass_hz away from them.

    Filters, delays and the load of the gears are those of the fit to all rows.
    """
    base = base_parameters(fitted.problem.model)
    for left_out in folds:
        estimate = estimated(fitted.estimator, None, base, away_from(fitted, left_out))
        yield left_out, base.theta(np.nan_to_num(estimate.value))


def away_from(fitted: Trained, left_out: Sequence[Time]) -> Information:
    """The information without the time blocks and their guard."""
    (fold,) = guarded_folds(fitted.information, [left_out])
    return fitted.information.at(fold.kept)
