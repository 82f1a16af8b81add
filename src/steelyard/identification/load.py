"""What the gears carry: inertias behind the term `load`, from the robot file or from a first fit without that term."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from steelyard._arrays import Array
from steelyard.estimators import WLS
from steelyard.estimators.estimator import estimated
from steelyard.estimators.standard_set import minimum_norm
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.terms import LOAD, uses
from steelyard.regression.information import Information
from steelyard.regression.observe import Progress, observe
from steelyard.regression.problem import Problem


def without_load(problem: Problem) -> Problem:
    """The same problem without the terms that ask what the gears carry."""
    model = problem.model
    plain = [term for term in model.terms if LOAD not in uses(term)]
    return replace(problem, model=Model(model.robot, plain, payloads=model.payloads))


def carried_links(model: Model, information: Information) -> Array:
    """Inertial parameters (n, 10) with which a fit of the model explains the efforts.

    They reproduce its base parameters with the smallest norm (P0 eq. 26): τ_rigid depends on base parameters alone.
    """
    base = base_parameters(model)
    estimate = estimated(WLS(), base, information)
    return minimum_norm(base, np.nan_to_num(estimate.value))[model.inertial_index]


def with_load(
    problem: Problem,
    progress: Progress | None = None,
    seen: Callable[[Information], Information] = lambda whole: whole,
) -> Problem:
    """The problem with the inertias its term `load` needs: unchanged where the robot file gives them, else from fits.

    The first fit is without load friction, the second with the load of the first, since what load friction leaves over
    bends the inertias. These passes are the price of a robot file without nominal inertias. `seen` picks the part of
    the information that may tell them (a fold must not know what it is scored on).
    """
    if problem.model.knows_load:
        return problem
    first = without_load(problem)
    links = carried_links(first.model, seen(observe(first, progress=progress)))
    problem = replace(problem, model=replace(problem.model, carried=links))
    links = carried_links(problem.model, seen(observe(problem, progress=progress)))
    return replace(problem, model=replace(problem.model, carried=links))
