"""The rows of a result with every column that a robot file can hold, and the models of such files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import SteelyardError
from steelyard.identification.prediction import as_identified
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.parameters import Layout
from steelyard.model.payload import UNLOADED
from steelyard.model.terms import Coulomb, OnJoints, Rotor, Springs, Term, Viscous
from steelyard.regression.information import Information
from steelyard.regression.observe import Progress, observe
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples

# Friction of a robot file: τ = Fv q̇ + Fc sign(q̇), and with rotors all that any file says of a joint.
FRICTION: tuple[type[Viscous | Coulomb], ...] = (Viscous, Coulomb)
WRITTEN: tuple[type[Rotor | Viscous | Coulomb], ...] = (Rotor, *FRICTION)
# Terms without friction; all others are friction, those of users included.
NO_FRICTION = frozenset(("rotor", "offset", "drift", "ripple", "coupling", "compensator", "springs"))
# Reads the runs that were not fitted.
UnseenRuns = Callable[[], Sequence[Samples]]


@dataclass(frozen=True)
class LoggedRows:
    """Triangles of the fitted rows and of the unseen ones (None without any) over the columns of `model` and those of
    every robot file, in torques. `unseen_fault` says why unseen runs are missing that the project lists, `payloads`
    names the bodies of the model that some runs carry; every other load is a label, and its body part of the robot.
    `under` reads the same rows for the robot in another gravity (3,) [m/s²]."""

    fitted: Information
    unseen: Information | None = None
    mask: str = ""
    unseen_fault: str = ""
    payloads: frozenset[str] = frozenset()
    under: Callable[[Array], LoggedRows] | None = None

    @property
    def layout(self) -> Layout:
        return self.fitted.layout

    def carrying(self, load: str) -> tuple[Information | None, Information | None]:
        """The fitted and the unseen rows of the runs with this load case; None where there are none."""
        return self._of_load(self.fitted, load), None if self.unseen is None else self._of_load(self.unseen, load)

    def _of_load(self, information: Information, load: str) -> Information | None:
        times = [time for time in information.times if bare_load(time[1], self.payloads) == load]
        return information.at(times) if times else None


def bare_load(load: str, payloads: Collection[str]) -> str:
    """The payload that a run carries; none where its load is only a label."""
    return load if load in payloads else UNLOADED


# Reads the logs of a result again.
ReadRows = Callable[[], LoggedRows]


def rows_or_fault(rows: ReadRows | None) -> LoggedRows | str:
    """The rows of a result, or why there are none, as a clause."""
    if rows is None:
        return "the logs of the result were not given"
    try:
        return rows()
    except (SteelyardError, OSError) as error:
        return f"the logs of the result cannot be read again ({clause(error)})"


def clause(error: Exception) -> str:
    """The message of an error as a part of a sentence."""
    return str(error).rstrip(".")


def logged_rows(
    problem: Problem,
    result: Identification,
    unseen: UnseenRuns | None = None,
    progress: Progress | None = None,
    gravity: Array | None = None,
) -> LoggedRows:
    """The rows of the problem of a fit, and of the runs that `unseen` reads: one pass over each log.

    An unseen log that cannot be read costs its score, not the fit. `gravity` (3,) replaces that of the robot [m/s²].
    """

    def under(gravity: Array) -> LoggedRows:
        return logged_rows(given, result, unseen, progress, gravity)

    given, problem = problem, as_identified(problem, result)
    if gravity is not None:
        robot = problem.model.robot.with_gravity(gravity.tolist())
        problem = replace(problem, model=replace(problem.model, robot=robot))
    added = _with_own_options(problem.model, WRITTEN)
    added += (Springs(),) if problem.model.robot.springs and Springs.name not in _names(problem.model.terms) else ()
    kept = [term for term in problem.model.terms if term.name not in _names(added)]
    problem = replace(problem, model=replace(problem.model, terms=(*kept, *added)))
    payloads = frozenset(payload.name for payload in problem.model.payloads)
    rows = LoggedRows(observe(problem, progress=progress), mask=problem.mask, payloads=payloads, under=under)
    try:
        runs = () if unseen is None else unseen()
        return replace(rows, unseen=observe(problem.with_runs(runs), progress=progress)) if runs else rows
    except (SteelyardError, OSError) as error:
        return replace(rows, unseen_fault=clause(error))


def file_model(model: Model, holds: Collection[str]) -> Model:
    """The model that a file can compute which holds these terms: friction of all joints where the model or the robot
    file has any, rotors and springs as in the model, no inertia between rotors."""
    own = [term for term in model.terms if term.name in holds and term.name in (Rotor.name, Springs.name)]
    in_file = any(joint.drive.viscous or joint.drive.coulomb for joint in model.robot.joints)
    rubs = in_file or any(term.name not in NO_FRICTION for term in model.terms)
    friction = _with_own_options(model, [kind for kind in FRICTION if kind.name in holds]) if rubs else ()
    return Model(replace(model.robot, coupling=None), (*own, *friction), payloads=model.payloads)


def reader_model(model: Model) -> Model:
    """The model whose nominal values are all that a reader of its robot's file computes: bodies, rotors, friction and
    springs."""
    terms = _with_own_options(model, WRITTEN) + ((Springs(),) if model.robot.springs else ())
    return Model(replace(model.robot, coupling=None), terms, payloads=model.payloads)


def _with_own_options(model: Model, kinds: Sequence[type[Rotor | Viscous | Coulomb]]) -> tuple[Term, ...]:
    """These terms on all joints, with the options that they have in the model."""
    inner = {term.name: term.term if isinstance(term, OnJoints) else term for term in model.terms}
    return tuple(inner.get(kind.name, kind()) for kind in kinds)


def _names(terms: Iterable[Term]) -> set[str]:
    return {term.name for term in terms}


def moved_to(layout: Layout, theta: Array, own: Layout) -> Array:
    """theta (C,) of the columns of `own` on those of `layout` by name, zero for all others."""
    out = np.zeros(len(layout))
    for name, value in zip(own.names, theta, strict=True):
        if name in layout:
            out[layout.index(name)] = value
    return out
