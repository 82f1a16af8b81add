"""Automatic settings: every choice a project leaves to the data, made and written down before the fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from steelyard.errors import EstimationError, ProjectError
from steelyard.estimators import WLS
from steelyard.findings import Finding
from steelyard.identification.delays import estimate_delays
from steelyard.identification.first_fit import to_scale, with_load
from steelyard.identification.term_selection import Selection, candidate_terms, select_terms, with_terms
from steelyard.model.model import Model
from steelyard.project.project import AUTO, Project, TermSpec
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem
from steelyard.signals.derivatives import choose_derivatives
from steelyard.signals.samples import Samples
from steelyard.validation.cross_validation import cross_validate_problem

FOLDS = 10


@dataclass(frozen=True)
class Resolved:
    """A project with numbers in the place of "auto", the problem of its runs to identify, and what was decided and why.

    `selection` holds the trials of the terms where the project asked for one.
    """

    project: Project
    problem: Problem
    findings: tuple[Finding, ...]
    selection: dict[str, Any] | None = None

    @property
    def model(self) -> Model:
        return self.problem.model

    @property
    def runs(self) -> tuple[Samples, ...]:
        """The prepared runs to identify."""
        return tuple(self.problem.runs)


def resolve_auto(
    project: Project, progress: Progress | None = None, *, delays: bool = True, terms: bool = True
) -> Resolved:
    """Cut-offs from the spectrum, derivatives by left-out stretches, terms by left-out runs, delays last.

    Delays come after friction, since what friction leaves over looks like a delay. `delays` or `terms` = False leave
    those open.

    Derivatives take two passes over the rows (`observe`), one for each kind, with the plain terms; delays one, which
    keeps shifted copies of the effort. None of them can stand in for the pass of the fit: that has all terms, and its
    rows reach nearer to the ends of a run than those with room for the shifts, and read efforts at the delay itself
    rather than between copies.
    """
    spec = project.spec
    findings: list[Finding] = []
    if AUTO in (spec.prepare.cutoff_hz, spec.prepare.lowpass_hz):
        proposed = project.propose_cutoffs(progress)
        open_ends = [name for name in ("cutoff_hz", "lowpass_hz") if getattr(spec.prepare, name) == AUTO]
        project = project.with_prepare(**{name: getattr(proposed, name) for name in open_ends})
        findings.append(Finding("cutoffs", "info", proposed.rule, fix="set cutoff_hz and lowpass_hz to override"))
    runs: tuple[Samples, ...] | None = None
    if spec.prepare.derivatives == AUTO:
        project, runs, told = _derivatives(project, progress)
        findings.append(told)
    model = project.model()
    if runs is None:
        runs = project.samples(model.robot, "identify", progress)
    problem = project.problem(model, runs)
    torques = to_scale(problem, project.estimator(), progress)
    if project.simulates_runs:
        findings += _approximations(problem)
    trials = None
    if terms and spec.select:
        torques, project, chosen, trials = _selected(project, torques, progress)
        findings += chosen
    # a list of terms stays what it is when the default set grows
    project = project.with_spec(terms=[TermSpec.of(term) for term in torques.model.terms])
    if trials is not None:  # how the runs were driven is tuned for the model
        problem = project.problem(project.model(), runs)
    if delays and spec.prepare.delay == AUTO:
        delay, late = _delay(torques, progress)
        project, problem = project.with_prepare(delay=delay), replace(problem, delay=delay)
        findings += late
    return Resolved(project, problem, tuple(findings), trials)


def _approximations(problem: Problem) -> tuple[Finding, ...]:
    """Why the runs are not driven by what was commanded."""
    if problem.experiment is None or not problem.experiment.approximate:
        return ()
    advice = "log what was commanded and map it as [channels] reference"
    return (Finding("approximate-reference", "warning", problem.experiment.approximate, fix=advice),)


def _derivatives(project: Project, progress: Progress | None) -> tuple[Project, tuple[Samples, ...] | None, Finding]:
    """Differences or the smoother, whichever explains left-out stretches better with the plain terms.

    Also the runs prepared with them, None where neither was tried.
    """
    prepared: dict[str, tuple[Samples, ...]] = {}

    def samples_of(which: str) -> tuple[Samples, ...]:
        prepared[which] = project.with_prepare(derivatives=which).samples(project.robot(), "identify", progress)
        return prepared[which]

    def left_with(which: str, message: str, fix: str = "") -> tuple[Project, tuple[Samples, ...] | None, Finding]:
        told = Finding("derivatives", "info", message, fix=fix)
        return project.with_prepare(derivatives=which), prepared.get(which), told

    if project.cutoff_hz() is None:
        return left_with("differences", "Derivatives by differences: the smoother needs cutoff_hz.")
    plain = project.with_spec(terms="plain").model()
    advice = "set derivatives to override"
    try:
        choice = choose_derivatives(
            samples_of,
            lambda runs: cross_validate_problem(
                to_scale(project.problem(plain, runs), project.estimator(), progress), WLS(), FOLDS, progress
            ),
        )
    except EstimationError as error:
        message = f"Derivatives by differences: the smoother could not be tried. {error}"
        return left_with("differences", message, advice)
    return left_with(choice.derivatives, f"{choice.verdict} (With the plain terms.)", advice)


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
    return problem, project.with_spec(select=False), selection.findings(), trials


def _delay(problem: Problem, progress: Progress | None) -> tuple[Sequence[float], tuple[Finding, ...]]:
    """What the efforts are read later by [s], and the delays with their error bars."""
    if problem.lowpass_hz is None:
        return [0.0] * problem.model.robot.dof, ()
    try:
        found = estimate_delays(with_load(problem, progress), progress=progress)
    except EstimationError as error:
        return [0.0] * problem.model.robot.dof, (Finding("delays", "info", f"delays were not looked for: {error}"),)
    return list(found.correction), found.findings()
