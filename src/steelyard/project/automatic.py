"""Settle: every choice a project leaves to the data, made and written down before the fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import msgspec

from steelyard.errors import EstimationError, ProjectError
from steelyard.estimators import WLS
from steelyard.estimators.simulated.base import SimulatingEstimator
from steelyard.findings import Finding
from steelyard.identification.delays import estimate_delays
from steelyard.identification.first_fit import to_scale, with_load
from steelyard.identification.term_selection import Selection, candidate_terms, select_terms, with_terms
from steelyard.model.terms import OnJoints, Term
from steelyard.project.project import AUTO, NONE, Project, TermSpec
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem
from steelyard.signals.derivatives import choose_derivatives
from steelyard.signals.samples import Samples
from steelyard.validation.cross_validation import cross_validate_problem

FOLDS = 10


@dataclass(frozen=True)
class Settled:
    """A project with numbers in the place of "auto", its prepared runs, and what was decided and why.

    `selection` holds the trials of the terms where the project asked for one.
    """

    project: Project
    runs: tuple[Samples, ...]
    findings: tuple[Finding, ...]
    selection: dict[str, Any] | None = None


def settled(project: Project, progress: Progress | None = None, *, delays: bool = True, terms: bool = True) -> Settled:
    """Cut-offs from the spectrum, derivatives by left-out stretches, terms by left-out runs, delays last.

    Delays come after friction, since what friction leaves over looks like a delay. `delays` or `terms` = False leave
    those open.
    """
    spec = project.spec
    findings: list[Finding] = []
    if AUTO in (spec.prepare.cutoff_hz, spec.prepare.lowpass_hz):
        proposed = project.propose_cutoffs(progress)
        numbers = {
            name: getattr(proposed, name) for name in ("cutoff_hz", "lowpass_hz") if getattr(spec.prepare, name) == AUTO
        }
        project = _with(project, prepare=msgspec.structs.replace(spec.prepare, **numbers))
        findings.append(Finding("cutoffs", "info", proposed.rule, fix="set cutoff_hz and lowpass_hz to override"))
    if spec.prepare.derivatives == AUTO:
        project, told = _derivatives(project, progress)
        findings.append(told)
    model = project.model()
    runs = project.samples(model.robot, "identify", progress)
    problem = to_scale(project.problem(model, runs), project.estimator(), progress)
    if isinstance(project.estimator(), SimulatingEstimator):
        findings += _approximations(problem)
    trials = None
    if terms and spec.select:
        problem, project, chosen, trials = _selected(project, problem, progress)
        findings += chosen
    if delays and spec.prepare.delay == AUTO:
        delay, late = _delay(problem, progress)
        project = _with(project, prepare=msgspec.structs.replace(project.spec.prepare, delay=delay))
        findings += late
    # a list of terms stays what it is when the default set grows
    listed = [_spec(term) for term in problem.model.terms]
    return Settled(_with(project, terms=listed), runs, tuple(findings), trials)


def _approximations(problem: Problem) -> tuple[Finding, ...]:
    """Why the runs are not driven by what was commanded."""
    if problem.experiment is None or not problem.experiment.approximate:
        return ()
    advice = "log what was commanded and map it as [channels] reference"
    return (Finding("approximate-reference", "warning", problem.experiment.approximate, fix=advice),)


def _derivatives(project: Project, progress: Progress | None) -> tuple[Project, Finding]:
    """Differences or the smoother, whichever explains left-out stretches better with the plain terms."""

    def with_derivatives(which: str) -> Project:
        return _with(project, prepare=msgspec.structs.replace(project.spec.prepare, derivatives=which))

    robot = project.robot()
    if project.cutoff_hz() is None:
        message = "Derivatives by differences: the smoother needs cutoff_hz."
        return with_derivatives("differences"), Finding("derivatives", "info", message)
    plain = _with(project, terms="plain", prepare=msgspec.structs.replace(project.spec.prepare, delay=NONE)).model()
    advice = "set derivatives to override"
    try:
        choice = choose_derivatives(
            lambda which: with_derivatives(which).samples(robot, "identify", progress),
            lambda runs: cross_validate_problem(
                to_scale(project.problem(plain, runs), project.estimator(), progress), WLS(), FOLDS, progress
            ),
        )
    except EstimationError as error:
        message = f"Derivatives by differences: the smoother could not be tried. {error}"
        return with_derivatives("differences"), Finding("derivatives", "info", message, fix=advice)
    message = f"{choice.verdict} (With the plain terms.)"
    return with_derivatives(choice.derivatives), Finding("derivatives", "info", message, fix=advice)


def _with(project: Project, **changes: Any) -> Project:
    return replace(project, spec=msgspec.structs.replace(project.spec, **changes))


def selected_terms(project: Project, problem: Problem, progress: Progress | None = None) -> Selection:
    """The terms that the problem's runs choose among the default set and what is offered beside it."""
    cycles = project.spec.ripple_cycles
    if isinstance(cycles, dict):
        names = problem.model.robot.axis_names
        unknown = [name for name in names if name not in cycles]
        if unknown:
            raise ProjectError(f"ripple_cycles gives no value for {', '.join(unknown)}.")
        cycles = [cycles[name] for name in names]
    return select_terms(problem, candidate_terms(cycles), progress=progress)


def _selected(
    project: Project, problem: Problem, progress: Progress | None
) -> tuple[Problem, Project, tuple[Finding, ...], dict[str, Any]]:
    selection = selected_terms(project, problem, progress)
    problem = with_terms(problem, selection)
    trials = {"refused": selection.refused, "folds": selection.folds, "trials": [asdict(t) for t in selection.trials]}
    return problem, _with(project, select=False), selection.findings(), trials


def _spec(term: Term) -> TermSpec:
    """A term as a project file states it."""
    inner, joints = (term.term, list(term.joints)) if isinstance(term, OnJoints) else (term, None)
    options = {
        option.name: getattr(inner, option.name)
        for option in fields(inner)  # type: ignore[arg-type]
        if option.name == "width" or getattr(inner, option.name) != option.default  # else sign_width would fill it
    }
    return TermSpec(inner.name, options, joints)


def _delay(problem: Problem, progress: Progress | None) -> tuple[Sequence[float], tuple[Finding, ...]]:
    """What the efforts are read later by [s], and the delays with their error bars."""
    if problem.lowpass_hz is None:
        return [0.0] * problem.model.robot.dof, ()
    try:
        found = estimate_delays(with_load(problem, progress), progress=progress)
    except EstimationError as error:
        return [0.0] * problem.model.robot.dof, (Finding("delays", "info", f"delays were not looked for: {error}"),)
    return list(found.correction), found.findings()
