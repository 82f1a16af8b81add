"""What the gears carry: inertias behind the term `load`, from the robot file or from a first fit without that term."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from steelyard.base_parameters import base_parameters
from steelyard.estimators import WLS
from steelyard.information import Information
from steelyard.model import Model
from steelyard.observe import Progress, observe
from steelyard.parameters import Array
from steelyard.problem import Problem
from steelyard.standard import minimum_norm
from steelyard.terms import LOAD, uses


def without_load(problem: Problem) -> Problem:
    """The same problem without the terms that ask what the gears carry."""
    model = problem.model
    plain = Model(model.robot, [term for term in model.terms if LOAD not in uses(term)])
    return replace(problem, model=plain)


def carried_links(first: Model, information: Information) -> Array:
    """Inertial parameters (n, 10) with which a first fit of the model without load friction explains the efforts.

    They reproduce its base parameters with the smallest norm (P0 eq. 26): τ_rigid depends on base parameters alone.
    """
    base = base_parameters(first)
    estimate = WLS().estimate(base, information)
    return minimum_norm(base, np.nan_to_num(estimate.value))[first.inertial_index]


def with_load(problem: Problem, progress: Progress | None = None) -> Problem:
    """The problem with the inertias its term `load` needs: unchanged where the robot file gives them, else from a fit.

    The second pass over the data that this costs is the price of a robot file without nominal inertias.
    """
    if problem.model.knows_load:
        return problem
    first = without_load(problem)
    links = carried_links(first.model, observe(first, progress=progress))
    return replace(problem, model=replace(problem.model, carried=links))
