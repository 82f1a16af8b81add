"""Filter choice: whether a higher parallel filter predicts left-out stretches of a short log better."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from steelyard._arrays import Array, single_threaded
from steelyard.errors import EstimationError
from steelyard.estimators.consistent.priors import plain_prior
from steelyard.estimators.least_squares import joint_deviations, refit
from steelyard.estimators.regularised.evidence import supported
from steelyard.identification.expected import refitted
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.physical.prior import Widths
from steelyard.regression.folds import guarded_folds
from steelyard.regression.information import Information, Time
from steelyard.regression.observe import Progress, observe
from steelyard.regression.problem import Problem

# Stretches of time that are left out in turn.
FOLDS = 8
# A filter that leaves too few rows is raised by this factor, one that leaves enough by the second for a trial.
STEP, HIGHER = 1.2, 2.0
# A higher filter must lower the error by this fraction, and by one standard error of the folds.
LEAST_GAIN = 0.03


@dataclass(frozen=True)
class FilterTrial:
    """A parallel filter, as a multiple of the first: its RMS error on left-out stretches, scored below the first filter
    with enough rows [N·m | N]; rows per joint.

    `error` is NaN where the rows were too few.
    """

    multiple: float
    error: float
    rows: int


@dataclass(frozen=True)
class FilterChoice:
    """The trials, and the index of the one that was chosen."""

    trials: tuple[FilterTrial, ...]
    chosen: int

    @property
    def multiple(self) -> float:
        return self.trials[self.chosen].multiple


@single_threaded
def choose_filter(
    problem_at: Callable[[float], Problem | None], least_rows: int, progress: Progress | None = None
) -> FilterChoice:
    """The lowest parallel filter that leaves `least_rows` rows per joint, doubled as long as that predicts better.

    `problem_at` gives the problem with a multiple of the first filter, None where that is too high; runs and model are
    the same in all. Better is an error on left-out stretches that is smaller by 3 % and by one standard error of the
    stretches. Parameters are fitted to the rows of each filter without a stretch of time and a gap of three periods of
    the lowest filter to both sides, with the prior of the default estimator, and scored on the rows of the lowest
    filter in that stretch: what a higher filter adds to its own rows does not count.
    """
    trials: list[FilterTrial] = []
    chosen, best, multiple = -1, np.empty(0), 1.0
    reference, groups = None, ()
    while (problem := problem_at(multiple)) is not None:
        try:
            information = observe(problem, progress=progress).without_known()
        except EstimationError:  # no rows at all
            trials.append(FilterTrial(multiple, np.nan, 0))
            multiple *= STEP
            continue
        base, rows = base_parameters(problem.model), int(np.median(information.rows()))
        first = reference if reference is not None else information
        if reference is None:
            groups = information.clusters(FOLDS)
        error = _left_out(base, information, first, groups) if rows >= least_rows else np.array([np.nan])
        size = float(np.sqrt(error.sum() / first.rows().sum()))
        trials.append(FilterTrial(multiple, size, rows))
        if np.isfinite(size) and (reference is None or _better(error, best)):
            reference, chosen, best = first, len(trials) - 1, error
            multiple *= HIGHER
        elif reference is None:
            multiple *= STEP
        else:
            break
    if chosen < 0 and trials:
        chosen = max(range(len(trials)), key=lambda k: trials[k].rows)
    return FilterChoice(tuple(trials), chosen)


def _better(error: Array, than: Array) -> bool:
    """Whether squared errors of folds are clearly smaller than others."""
    gain = than - error
    clear = error.sum() < (1.0 - LEAST_GAIN) ** 2 * than.sum()
    return bool(clear and len(gain) > 1 and gain.sum() > np.std(gain, ddof=1) * np.sqrt(len(gain)))


def _left_out(
    base: BaseParameters,
    information: Information,
    reference: Information,
    groups: Sequence[Sequence[Time]],
) -> Array:
    """Squared residuals (folds,) of the reference rows, by parameters fitted to other stretches of `information`.

    σ_j and the prior, with the widths that the data support, are those of all rows. NaN where there are too few rows.
    """
    try:
        weights = 1.0 / joint_deviations(information, base)
        found = supported(information, base, weights, plain_prior(base.layout, information, Widths()))
    except EstimationError:
        return np.full(len(groups), np.nan)
    prior = np.sqrt(found.weight) * found.prior.in_base(base)
    again = refit(weights, np.ones(len(base), bool), extra=prior)
    folds = guarded_folds(information, groups, reference)
    values = refitted(information, base, folds, again)
    parts = zip(folds, values, strict=True)
    return np.array([_squares(reference, base.theta(v), fold.scored) if fold.kept else np.nan for fold, v in parts])


def _squares(information: Information, theta: Array, times: Sequence[Time]) -> float:
    total = 0.0
    for j, own in enumerate(information.columns):
        r = information.gathered(j, times).r
        rest = r[:, len(own)] - r[:, : len(own)] @ theta[own]
        total += float(rest @ rest)
    return total
