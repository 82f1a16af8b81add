"""The rows of a result with every column that a robot file can hold, and the model of such a file."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from steelyard._arrays import Array
from steelyard.identification.prediction import as_identified
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.parameters import Layout
from steelyard.model.terms import Coulomb, OnJoints, Rotor, Springs, Term, Viscous
from steelyard.regression.information import Information
from steelyard.regression.observe import Progress, observe
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples

# Friction of a robot file: τ = Fv q̇ + Fc sign(q̇).
FRICTION: tuple[type[Viscous | Coulomb], ...] = (Viscous, Coulomb)
# Terms without friction; all others are friction, those of users included.
NO_FRICTION = frozenset(("rotor", "offset", "drift", "ripple", "coupling", "compensator", "springs"))


@dataclass(frozen=True)
class LoggedRows:
    """Triangles of the fitted rows and of the unseen ones (None without any) over the columns of `model` and those of
    friction in a robot file, in torques."""

    fitted: Information
    unseen: Information | None = None
    mask: str = ""


def logged_rows(
    problem: Problem, result: Identification, unseen: Sequence[Samples] = (), progress: Progress | None = None
) -> LoggedRows:
    """The rows of the problem of a fit, and of `unseen` runs: one pass over each log."""
    problem = as_identified(problem, result)
    added = _own_or_new(problem.model, [kind.name for kind in FRICTION])
    names = [term.name for term in added]
    kept = [term for term in problem.model.terms if term.name not in names]
    problem = replace(problem, model=replace(problem.model, terms=(*kept, *added)))
    fitted = observe(problem, progress=progress).without_known()
    other = observe(problem.with_runs(unseen), progress=progress).without_known() if unseen else None
    return LoggedRows(fitted, other, problem.mask)


def file_model(model: Model, holds: Collection[str]) -> Model:
    """The model that a file computes which holds these terms: friction of all joints where the model or the robot file
    has any, rotors and springs as in the model, no inertia between rotors."""
    own = [term for term in model.terms if term.name in holds and term.name in (Rotor.name, Springs.name)]
    friction = _own_or_new(model, [kind.name for kind in FRICTION if kind.name in holds])
    return Model(replace(model.robot, coupling=None), (*own, *friction), payloads=model.payloads)


def _own_or_new(model: Model, names: Sequence[str]) -> tuple[Term, ...]:
    """The named friction terms on all joints, with the options they have in the model; none where neither the model nor
    the robot file has any friction, which an edited file would keep."""
    in_file = any(joint.drive.viscous or joint.drive.coulomb for joint in model.robot.joints)
    if all(term.name in NO_FRICTION for term in model.terms) and not in_file:
        return ()
    inner = {term.name: term.term if isinstance(term, OnJoints) else term for term in model.terms}
    return tuple(inner.get(kind.name, kind()) for kind in FRICTION if kind.name in names)


def moved_to(layout: Layout, theta: Array, own: Layout) -> Array:
    """theta (C,) of the columns of `own` on those of `layout` by name, zero for all others."""
    out = np.zeros(len(layout))
    for name, value in zip(own.names, theta, strict=True):
        if name in layout:
            out[layout.index(name)] = value
    return out
