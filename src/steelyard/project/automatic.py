"""Automatic settings: every choice that a project leaves to the data, made and recorded before the fit."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from steelyard.errors import EstimationError, ProjectError
from steelyard.estimators import WLS
from steelyard.findings import Finding
from steelyard.identification.delays import Delays, estimate_delays
from steelyard.identification.first_fit import to_scale, with_load
from steelyard.identification.term_selection import Selection, candidate_terms, select_terms, with_terms
from steelyard.model.model import Model
from steelyard.project.cutoffs import with_cutoffs
from steelyard.project.project import AUTO, Project, TermSpec
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem
from steelyard.signals.derivatives import choose_derivatives
from steelyard.signals.samples import Samples
from steelyard.validation.cross_validation import cross_validate_problem

FOLDS = 10


@dataclass(frozen=True)
class Resolved:
    """A project with numbers instead of "auto", the problem of its runs to identify, and the decisions made.

    `selection` holds the trials of the terms if the project requested one, `delays` those that were estimated.
    """

    project: Project
    problem: Problem
    findings: tuple[Finding, ...]
    selection: dict[str, Any] | None = None
    delays: Delays | None = None

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

    Delays come after friction, since unmodelled friction looks like a delay. `delays` or `terms` = False leave those
    open.

    On a short log every filter that is tried takes a pass over the rows (`observe`) with the plain terms. Derivatives
    take two such passes, but only where velocities are logged or the clock is uneven; delays take one, which keeps
    shifted copies of the effort. None of them can replace the pass of the fit: that has all terms, its rows reach
    nearer to the ends of a run than those with shifts, and it reads efforts at the delay itself and not between copies.
    """
    spec = project.spec
    findings: list[Finding] = []
    runs: tuple[Samples, ...] | None = None
    if AUTO in (spec.prepare.cutoff_hz, spec.prepare.lowpass_hz):
        project, runs, finding = with_cutoffs(project, progress)
        findings.append(finding)
    if spec.prepare.derivatives == AUTO:
        project, runs, finding = _derivatives(project, runs, progress)
        findings.append(finding)
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
    # a list of terms stays the same when the default set grows
    project = project.with_spec(terms=[TermSpec.of(term) for term in torques.model.terms])
    if trials is not None:  # the experiment is tuned for the model
        problem = project.problem(project.model(), runs)
    late = None
    if delays and spec.prepare.delay == AUTO:
        late, told = _delays(torques, progress)
        delay = [0.0] * problem.model.robot.dof if late is None else list(late.correction)
        project, problem = project.with_prepare(delay=delay), replace(problem, delay=delay)
        findings += told
    return Resolved(project, problem, tuple(findings), trials, late)


def _approximations(problem: Problem) -> tuple[Finding, ...]:
    """Why the runs are not simulated with the commanded references."""
    if problem.experiment is None or not problem.experiment.approximate:
        return ()
    advice = "log the commanded positions and set reference in [channels]"
    return (Finding("approximate-reference", "warning", problem.experiment.approximate, fix=advice),)


def _derivatives(
    project: Project, runs: tuple[Samples, ...] | None, progress: Progress | None
) -> tuple[Project, tuple[Samples, ...] | None, Finding]:
    """Differences or the smoother, whichever predicts left-out stretches better with the plain terms.

    `runs` are prepared with differences, None if they are not prepared yet; also those prepared as decided. Without
    logged velocities and on an even clock the two are the same filter, and nothing is tried.
    """
    prepared = {} if runs is None else {"differences": runs}

    def samples_of(which: str) -> tuple[Samples, ...]:
        if which not in prepared:
            prepared[which] = project.with_prepare(derivatives=which).samples(project.robot(), "identify", progress)
        return prepared[which]

    def left_with(which: str, message: str, fix: str = "") -> tuple[Project, tuple[Samples, ...] | None, Finding]:
        told = Finding("derivatives", "info", message, fix=fix)
        return project.with_prepare(derivatives=which), prepared.get(which), told

    if project.cutoff_hz() is None:
        return left_with("differences", "Derivatives by differences: the smoother needs cutoff_hz.")
    if not any(run.resampled or run.velocity_noise.size for run in samples_of("differences")):
        message = "Derivatives by differences: on an even clock without logged velocities, the smoother is the same."
        return left_with("differences", message)
    plain = project.with_spec(terms="plain").model()
    advice = "set 'derivatives' in '[prepare]' to override"
    try:
        choice = choose_derivatives(
            samples_of,
            lambda runs: cross_validate_problem(
                to_scale(project.problem(plain, runs), project.estimator(), progress), WLS(), FOLDS, progress
            ),
        )
    except EstimationError as error:
        message = f"Derivatives by differences: the smoother could not be tested. {error}"
        return left_with("differences", message, advice)
    return left_with(choice.derivatives, f"{choice.verdict} (Compared with the plain terms.)", advice)


def selected_terms(project: Project, problem: Problem, progress: Progress | None = None) -> Selection:
    """The terms chosen by the problem's runs from the default set and the other candidates."""
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


def _delays(problem: Problem, progress: Progress | None) -> tuple[Delays | None, tuple[Finding, ...]]:
    """The delays of the efforts with their error bars, None where they cannot be estimated, and what is to be said."""
    if problem.lowpass_hz is None:
        return None, ()
    try:
        found = estimate_delays(with_load(problem, progress), progress=progress)
    except EstimationError as error:
        return None, (Finding("delays", "info", f"delays were not estimated: {error}"),)
    return found, found.findings()
