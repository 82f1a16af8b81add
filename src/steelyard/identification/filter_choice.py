"""Filter choice: which of several parallel filters predicts left-out stretches of a short log best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steelyard._arrays import Array, single_threaded
from steelyard.errors import EstimationError
from steelyard.estimators import WLS
from steelyard.estimators.estimator import estimated
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.regression.folds import guarded_folds
from steelyard.regression.information import Information, Time
from steelyard.regression.observe import Progress, observe
from steelyard.regression.problem import Problem

# Stretches of time that are left out in turn.
FOLDS = 8
# A higher filter must lower the error by this fraction, and by one standard error of the folds.
LEAST_GAIN = 0.1


@dataclass(frozen=True)
class FilterTrial:
    """A parallel filter: its RMS error on left-out stretches, scored below the lowest filter [N·m | N]; rows per joint.

    `error` is NaN where the rows were too few for an estimate.
    """

    lowpass_hz: float
    error: float
    rows: int


@dataclass(frozen=True)
class FilterChoice:
    """The trials, and the index of the one that was chosen."""

    trials: tuple[FilterTrial, ...]
    chosen: int


@single_threaded
def choose_filter(problems: Sequence[Problem], progress: Progress | None = None) -> FilterChoice:
    """The first of `problems` unless a later one is better by 10 % and by one standard error of the folds.

    The problems have the same runs and model and increasing parallel filters. Parameters are fitted to the rows of
    each, without a stretch of time and a gap of three periods of the lowest filter to both sides, and scored on the
    rows of the lowest filter in that stretch: what a higher filter adds to its own rows does not count.
    """
    base = base_parameters(problems[0].model)
    passes = [observe(problem, progress=progress) for problem in problems]
    reference = passes[0]
    groups = reference.clusters(FOLDS)
    errors = [_left_out(base, information, reference, groups) for information in passes]
    rows = int(reference.rows().sum())
    trials = tuple(
        FilterTrial(problem.lowpass_hz or 0.0, float(np.sqrt(error.sum() / rows)), int(np.median(information.rows())))
        for problem, error, information in zip(problems, errors, passes, strict=True)
    )
    usable = [k for k, error in enumerate(errors) if np.all(np.isfinite(error))]
    if not usable:
        return FilterChoice(trials, 0)
    first, best = usable[0], min(usable, key=lambda k: float(errors[k].sum()))
    gain = errors[first] - errors[best]
    clear = errors[best].sum() < (1.0 - LEAST_GAIN) ** 2 * errors[first].sum()
    significant = len(gain) > 1 and gain.sum() > np.std(gain, ddof=1) * np.sqrt(len(gain))
    return FilterChoice(trials, best if clear and significant else first)


def _left_out(
    base: BaseParameters,
    information: Information,
    reference: Information,
    groups: Sequence[Sequence[Time]],
) -> Array:
    """Squared residuals (folds,) of the reference rows, by parameters fitted to other stretches of `information`."""
    out = np.full(len(groups), np.nan)
    for k, fold in enumerate(guarded_folds(information, groups, reference)):
        try:
            estimate = estimated(WLS(), None, base, information.at(fold.kept))
        except EstimationError:
            return out
        out[k] = _squares(reference, base.theta(np.nan_to_num(estimate.value)), fold.scored)
    return out


def _squares(information: Information, theta: Array, times: Sequence[Time]) -> float:
    total = 0.0
    for j, own in enumerate(information.columns):
        r = information.gathered(j, times).r
        rest = r[:, len(own)] - information.known(r) - r[:, : len(own)] @ theta[own]
        total += float(rest @ rest)
    return total
