"""First fits: values that must be known before the final fit.

These are the inertias for the term `load`, where the robot file gives none, and drive gains, for every step that must
compare efforts with torques.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from steelyard._arrays import Array, single_threaded
from steelyard.estimators import WLS, Estimator
from steelyard.estimators.estimator import GAINS, estimated, needs
from steelyard.estimators.standard_set import minimum_norm
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.terms import LOAD, uses
from steelyard.regression.information import Information
from steelyard.regression.observe import Progress, observe
from steelyard.regression.problem import Problem


def without_load(problem: Problem) -> Problem:
    """The problem without the terms that need the load of the gears."""
    model = problem.model
    plain = [term for term in model.terms if LOAD not in uses(term)]
    return replace(problem, model=Model(model.robot, plain, payloads=model.payloads))


def carried_links(model: Model, information: Information) -> Array:
    """Inertial parameters (n, 10) from a fit of the model.

    They reproduce its base parameters with the smallest norm (P0 eq. 26): τ_rigid depends on base parameters alone.
    """
    base = base_parameters(model)
    estimate = estimated(WLS(), None, base, information)
    return minimum_norm(base, np.nan_to_num(estimate.value))[model.inertial_index]


def with_load(
    problem: Problem,
    progress: Progress | None = None,
    seen: Callable[[Information], Information] = lambda whole: whole,
) -> Problem:
    """The problem with the inertias that its term `load` needs: those of the robot file, else from fits.

    The first fit is without load friction, the second with the load of the first, since unmodelled load friction biases
    the inertias. These passes are the cost of a robot file without nominal inertias. `seen` selects the part of the
    information that may be used (a fold must not use the rows it is scored on).
    """
    if problem.model.knows_load:
        return problem
    first = without_load(problem)
    links = carried_links(first.model, seen(observe(first, progress=progress)))
    problem = replace(problem, model=replace(problem.model, carried=links))
    links = carried_links(problem.model, seen(observe(problem, progress=progress)))
    return replace(problem, model=replace(problem.model, carried=links))


def finds_scale(estimator: Estimator) -> bool:
    """Whether the scale of the efforts may be unknown: the estimator finds it, as drive gains."""
    return needs(estimator, GAINS)


@single_threaded
def to_scale(problem: Problem, estimator: Estimator, progress: Progress | None = None) -> Problem:
    """The problem with efforts converted to torques by the gains of a first fit, if the estimator finds gains.

    Delays, derivatives and terms are chosen by fits that treat efforts as torques: with gains unknown, the same
    parameter would have a different size in every joint's rows.
    """
    if not finds_scale(estimator):
        return problem
    plain = without_load(replace(problem, factor=()))
    found = estimated(estimator, plain, base_parameters(plain.model), observe(plain, progress=progress), progress)
    assert found.gains is not None
    return replace(problem, factor=tuple(found.gains.factor.tolist()))


def with_load_to_scale(problem: Problem, estimator: Estimator, progress: Progress | None = None) -> Problem:
    """`with_load` where efforts may not be torques yet; their scale is left unchanged."""
    if problem.model.knows_load:
        return problem
    return replace(problem, model=with_load(to_scale(problem, estimator, progress), progress).model)
