"""Cut-off frequencies of a project: from the spectrum, and higher on a log that would give too few rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from steelyard.findings import Finding
from steelyard.identification.filter_choice import FilterChoice, choose_filter
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.project.project import AUTO, Project
from steelyard.regression.observe import Progress, row_count
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from steelyard.signals.spectrum import HIGHEST, Cutoffs

# With more rows than this, a higher filter has nothing to add.
ENOUGH_ROWS = 500
# Rows that a joint needs beyond the number of its parameters.
SPARE_ROWS = 5


def with_cutoffs(
    project: Project, progress: Progress | None = None
) -> tuple[Project, tuple[Samples, ...] | None, Finding]:
    """The project with numbers for its automatic cut-offs, and the reason for them.

    Also the runs to identify, prepared with these; None if no filter was tried.
    """
    proposed = project.propose_cutoffs(progress)
    rule, chosen = proposed.rule, _with(project, proposed, 1.0)
    if project.spec.prepare.lowpass_hz != AUTO or project.identifies_gains:
        return chosen, None, _finding(rule)
    problem = _plain(chosen, progress)
    if sum(row_count(problem, run) for run in problem.runs) >= ENOUGH_ROWS:
        return chosen, tuple(problem.runs), _finding(rule)
    highest = HIGHEST * min(run.rate for run in problem.runs)
    tried = {1.0: (chosen, tuple(problem.runs))}

    def problem_at(multiple: float) -> Problem | None:
        if multiple == 1.0:
            return problem
        if multiple * proposed.lowpass_hz > highest:
            return None
        other = _with(project, proposed, multiple, highest)
        found = _plain(other, progress)
        tried[multiple] = other, tuple(found.runs)
        return found

    least = _parameters(chosen.model()) + SPARE_ROWS
    choice = choose_filter(problem_at, least, progress)
    if choice.chosen > 0:
        rule += f"; multiplied by {choice.multiple:.3g}, since {_reason(choice, least)}"
    return *tried[choice.multiple], _finding(rule)


def _finding(rule: str) -> Finding:
    return Finding("cutoffs", "info", rule, fix="set cutoff_hz and lowpass_hz in [prepare] to override")


def _reason(choice: FilterChoice, least: int) -> str:
    """Why the first filter was not taken."""
    errors = [trial.error for trial in choice.trials[: choice.chosen + 1] if np.isfinite(trial.error)]
    reasons = []
    if choice.trials[0].rows < least:
        reasons.append(f"a joint has {choice.trials[0].rows} rows otherwise and needs {least} for its parameters")
    if len(errors) > 1:
        told = f"{errors[-1]:.3g} instead of {errors[0]:.3g} N·m or N"
        reasons.append(f"that predicts left-out stretches with {told}")
    return " and ".join(reasons) or "the rows are too few otherwise"


def _with(project: Project, proposed: Cutoffs, factor: float, highest: float = np.inf) -> Project:
    """The project with the proposed cut-offs times a factor; cut-offs that it states stay as they are."""
    asked = project.spec.prepare
    open_ends = [name for name in ("cutoff_hz", "lowpass_hz") if getattr(asked, name) == AUTO]
    numbers = {name: min(factor * getattr(proposed, name), highest) for name in open_ends}
    return project.with_prepare(**{name: float(f"{x:.3g}") for name, x in numbers.items()})


def _plain(project: Project, progress: Progress | None) -> Problem:
    """The problem of the runs to identify with the plain terms, and with the usual rows: more are not worth more."""
    model = project.with_spec(terms="plain").model()
    problem = project.problem(model, project.samples(model.robot, "identify", progress))
    return replace(problem, decimate=None)


def _parameters(model: Model) -> int:
    """The largest number of base parameters that a joint's rows contain."""
    kept = model.nonzero[:, list(base_parameters(model).kept)]
    return int(kept.sum(axis=1).max())
