"""Cross-validation from blocks of information: every row is scored once, by parameters fitted without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from steelyard._arrays import Array, single_threaded
from steelyard.errors import EstimationError
from steelyard.estimators import Estimate, Estimator
from steelyard.estimators.estimator import GAINS, SIMULATION, estimated, in_torques, needs
from steelyard.identification.delays import at_delays, effort_shifts, estimate_delays
from steelyard.identification.first_fit import with_load, without_load
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.regression.folds import GuardedFold, guarded_folds, stretches
from steelyard.regression.information import Information, Time
from steelyard.regression.observe import Progress, observe
from steelyard.regression.problem import Problem
from steelyard.regression.scores import Score, score, score_of


@dataclass(frozen=True)
class Fold:
    """A part of the rows scored with parameters fitted to all the others, or zero where those do not excite them."""

    name: str
    score: Score
    not_excited: tuple[str, ...] = ()


@dataclass(frozen=True)
class CrossValidation:
    """Every row scored once, by parameters fitted without it: per fold, and `pooled` over all folds.

    `nominal` is the nominal model on the same rows; `asked` the requested kind of folds.
    """

    estimator: str
    asked: str
    folds: tuple[Fold, ...]
    pooled: Score
    nominal: Score | None

    @property
    def worst(self) -> Fold:
        return max(self.folds, key=lambda fold: np.nan_to_num(fold.score.total))

    @property
    def verdict(self) -> str:
        nominal = "" if self.nominal is None else f", nominal model {self.nominal.total:.2%}"
        return (
            f"Relative error {self.pooled.total:.2%} on held-out rows, {len(self.folds)} folds (worst "
            f"{self.worst.score.total:.2%} on {self.worst.name}{nominal})."
        )


@single_threaded
def cross_validate(
    base: BaseParameters,
    information: Information,
    estimator: Estimator,
    folds: int | Literal["runs"] = 10,
    mask: str = "the rows of the information",
) -> CrossValidation:
    """Leave out each fold, fit the other blocks, score the fold's own triangles. No second pass over the data.

    `folds`: a number k makes about k stretches of time of equal rows, none across a run; "runs" leaves one run out at a
    time. The fit also leaves out the rows within three periods of the parallel filter of a fold. Stretches of one
    motion resemble each other, so use "runs" to assess unseen motion.
    """
    if _leaves_out_whole_runs(estimator):
        raise EstimationError(
            f"Estimator '{estimator.name}' simulates whole runs, which the information does not contain: "
            'use cross_validate_problem(problem, estimator, "runs").'
        )
    named = _folds(information, folds, _splits_every_load(estimator))
    done = [_fold(base, information, estimator, name, fold, mask) for name, fold in named]
    return _summed(estimator, folds, done)


@single_threaded
def cross_validate_problem(
    problem: Problem,
    estimator: Estimator,
    folds: int | Literal["runs"] = 10,
    progress: Progress | None = None,
    delays: bool = False,
) -> CrossValidation:
    """Cross-validation from a problem, observed here; with `delays`, efforts are also aligned.

    A fold must not use the rows it is scored on. So delays are estimated in every fold from the other rows (the pass
    keeps shifted copies of the effort), and where load friction needs a first fit, every fold makes its own and reads
    the data again with it.
    """
    by_load = _splits_every_load(estimator)
    if _leaves_out_whole_runs(estimator):
        return _by_runs(problem, estimator, folds, progress, by_load)
    if by_load and not problem.model.knows_load:
        raise EstimationError(
            "Load friction of a robot without nominal inertias needs torques, which each fold would have to estimate "
            "first: remove the term 'load' to cross-validate drive gains."
        )
    shifts = effort_shifts(problem) if delays else ()
    base = base_parameters(problem.model)
    if problem.model.knows_load:
        whole = observe(problem, progress=progress, shifts=shifts)
        looks = {name: (problem, whole) for name, _ in _folds(whole, folds, by_load)}
    else:
        whole = observe(without_load(problem), progress=progress, shifts=shifts)
        looks = {}
        for name, fold in _folds(whole, folds, by_load):
            own = with_load(problem, progress, lambda every, kept=fold.kept: every.at(kept))
            looks[name] = (own, observe(own, progress=progress, shifts=shifts))
    done = []
    for name, fold in _folds(whole, folds, by_load):
        own, information = looks[name]
        if delays:
            late = estimate_delays(own, information.at(fold.kept)).correction
            information = at_delays(information, shifts, late)
        done.append(_fold(base, information, estimator, name, fold, problem.mask))
    return _summed(estimator, folds, done)


def _splits_every_load(estimator: Estimator) -> bool:
    """Whether each fold has a part of every load case and none a whole one: without a payload, gains have no scale."""
    return needs(estimator, GAINS)


def _leaves_out_whole_runs(estimator: Estimator) -> bool:
    """Whether folds are whole runs: a part of a run cannot be simulated."""
    return needs(estimator, SIMULATION)


def _by_runs(
    problem: Problem, estimator: Estimator, folds: int | Literal["runs"], progress: Progress | None, by_load: bool
) -> CrossValidation:
    """One run left out at a time, the others simulated."""
    if folds != "runs":
        raise EstimationError(f"Estimator '{estimator.name}' simulates whole runs: use runs as folds (--folds runs).")
    whole, base, done = observe(problem, progress=progress), base_parameters(problem.model), []
    for name, fold in _folds(whole, folds, by_load):
        others = problem.with_runs([run for run in problem.runs if run.name != fold.scored[0][0]])
        estimate = estimated(estimator, others, base, whole.at(fold.kept), progress)
        done.append(_scored(base, whole.at(fold.scored), estimate, name, problem.mask))
    return _summed(estimator, folds, done)


@single_threaded
def cross_validate_choice(
    problem: Problem,
    estimator: Estimator,
    choose: Callable[[Problem], Problem],
    delays: bool = False,
    progress: Progress | None = None,
) -> CrossValidation:
    """Leave one run out at a time, with the model (e.g. its terms) chosen by `choose` from the other runs only."""
    if _leaves_out_whole_runs(estimator):
        raise EstimationError(
            f"Estimator '{estimator.name}' simulates the runs with a controller made for the stated terms: state the "
            "terms (select = false) to cross-validate it."
        )
    shifts = effort_shifts(problem) if delays else ()
    done = []
    for run in problem.runs:
        fitted = with_load(choose(problem.with_runs([other for other in problem.runs if other is not run])), progress)
        information = observe(fitted, progress=progress, shifts=shifts)
        if delays:
            late = estimate_delays(fitted, information).correction
            fitted, information = replace(fitted, delay=late), at_delays(information, shifts, late)
        left = observe(fitted.with_runs([run]), progress=progress)
        name = f"run '{run.name}'"
        together = replace(information, blocks={**information.blocks, **left.blocks})
        fold = GuardedFold(left.times, information.times)
        done.append(_fold(base_parameters(fitted.model), together, estimator, name, fold, problem.mask))
    return _summed(estimator, "runs", done)


def _fold(
    base: BaseParameters,
    information: Information,
    estimator: Estimator,
    name: str,
    fold: GuardedFold,
    mask: str,
) -> tuple[Fold, Score | None]:
    """A fold scored with the parameters from the rows that it keeps, and with the nominal ones."""
    try:
        estimate = estimated(estimator, None, base, information.at(fold.kept))
    except EstimationError as error:
        raise EstimationError(f"Without {name} there is no estimate: {error}") from None
    return _scored(base, information.at(fold.scored), estimate, name, mask)


def _scored(
    base: BaseParameters, information: Information, estimate: Estimate, name: str, mask: str
) -> tuple[Fold, Score | None]:
    """The information of a fold scored with an estimate made without it, and with the nominal values."""
    unknown = tuple(n for n, x in zip(base.names, estimate.value, strict=True) if not np.isfinite(x))
    own = in_torques(information, estimate)
    nominal = base.layout.nominal
    return (
        Fold(name, score(own, base.theta(estimate.value), mask), unknown),
        None if nominal is None else score(own, nominal, mask),
    )


def _summed(
    estimator: Estimator, folds: int | Literal["runs"], done: Sequence[tuple[Fold, Score | None]]
) -> CrossValidation:
    nominal = [score for _, score in done if score is not None]
    return CrossValidation(
        estimator.name,
        str(folds),
        tuple(fold for fold, _ in done),
        _pooled([fold.score for fold, _ in done]),
        _pooled(nominal) if nominal else None,
    )


def _folds(
    information: Information, folds: int | Literal["runs"], by_load: bool = False
) -> list[tuple[str, GuardedFold]]:
    """Names and folds; with `by_load` each has a part of every load case, and none a whole one."""
    cases = {
        load: [t for t in information.times if t[1] == load] for load in dict.fromkeys(t[1] for t in information.times)
    }
    if folds == "runs":
        found = [
            (f"run '{r}'", tuple(time for time in information.times if time[0] == r)) for r in information.block_rows
        ]
        alone = [name for name, times in found if any(set(case) <= set(times) for case in cases.values())]
        if by_load and alone:
            raise EstimationError(
                f"Without {alone[0]} no run of its load is left, so the scale of the gains is unknown: record the "
                "payload in two runs, or cross-validate with a number of folds (--folds 5)."
            )
    elif isinstance(folds, int) and folds >= 2:
        parts = stretches(information, folds, by_load)
        found = [(f"fold {k + 1}" if by_load else _stretch(times), times) for k, times in enumerate(parts)]
    else:
        raise EstimationError(f'folds must be "runs" or a whole number of at least 2, not {folds!r}.')
    for name, times in found:
        if not sum(triangle.rows for key, triangle in information.blocks.items() if key[:3] in set(times)):
            raise EstimationError(
                f"The fold of {name} contains no motion: no rows are left after filtering, decimation and the rest "
                "mask. Remove that run from the project."
            )
    if len(found) < 2:
        raise EstimationError(
            "There is only one fold, so no rows are left to fit. "
            + ("Give two runs or more, or a number of folds." if folds == "runs" else "Record longer or decimate less.")
        )
    parted = guarded_folds(information, [times for _, times in found])
    return [(name, fold) for (name, _), fold in zip(found, parted, strict=True)]


def _stretch(times: Sequence[Time]) -> str:
    first, last = times[0][2], times[-1][2]
    return f"'{times[0][0]}' block {first}" + ("" if first == last else f"–{last}")


def _pooled(scores: Sequence[Score]) -> Score:
    """One score over the rows of all folds."""
    joints = list(scores[0].joints)

    def squares(size: Callable[[Score], dict[str, float]]) -> Array:
        return np.array([sum(np.nan_to_num(size(one)[j]) ** 2 * one.rows[j] for one in scores) for j in joints])

    rows = np.array([sum(one.rows[j] for one in scores) for j in joints])
    return score_of(joints, squares(lambda one: one.rmse), squares(lambda one: one.effort), rows, scores[0].mask)
