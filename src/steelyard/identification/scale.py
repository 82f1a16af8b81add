"""The scale of efforts: drive gains from a first fit, for every step that must compare efforts with torques."""

from __future__ import annotations

from dataclasses import replace

from steelyard._arrays import single_threaded
from steelyard.estimators import Estimator
from steelyard.estimators.estimator import estimated, finds_gains
from steelyard.identification.load import with_load, without_load
from steelyard.model.base_parameters import base_parameters
from steelyard.regression.observe import Progress, observe
from steelyard.regression.problem import Problem


@single_threaded
def to_scale(problem: Problem, estimator: Estimator, progress: Progress | None = None) -> Problem:
    """The problem with efforts turned into torques by the gains of a first fit, where the estimator finds gains.

    Delays, derivatives and terms are chosen by fits that take efforts for torques: with gains unknown, one parameter
    would have another size in every joint's rows.
    """
    if not finds_gains(estimator):
        return problem
    plain = without_load(replace(problem, factor=()))
    found = estimated(estimator, base_parameters(plain.model), observe(plain, progress=progress))
    assert found.gains is not None
    return replace(problem, factor=tuple(found.gains.factor.tolist()))


def with_load_to_scale(problem: Problem, estimator: Estimator, progress: Progress | None = None) -> Problem:
    """`with_load` where efforts may not be torques yet; their scale is left as it was."""
    if problem.model.knows_load:
        return problem
    return replace(problem, model=with_load(to_scale(problem, estimator, progress), progress).model)
