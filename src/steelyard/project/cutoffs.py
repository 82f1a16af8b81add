"""Cut-off frequencies of a project: from the spectrum, and higher on a log that would give too few rows."""

from __future__ import annotations

import numpy as np

from steelyard.findings import Finding
from steelyard.identification.filter_choice import FilterChoice, choose_filter
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.project.project import AUTO, Project
from steelyard.regression.observe import Progress, row_count
from steelyard.regression.problem import Problem
from steelyard.signals.spectrum import HIGHEST, Cutoffs

# With more rows than this, a higher filter has nothing to add.
ENOUGH_ROWS = 500
# Multiples of the proposed cut-offs that a short log tries.
RAISED = (1.0, 1.4, 2.0, 2.8, 4.0, 5.6)
# Rows that a joint needs beyond the number of its parameters.
SPARE_ROWS = 5


def with_cutoffs(project: Project, progress: Progress | None = None) -> tuple[Project, Finding]:
    """The project with numbers for its automatic cut-offs, and the reason for them."""
    proposed = project.propose_cutoffs(progress)
    rule = proposed.rule
    chosen = _with(project, proposed, 1.0)
    if project.spec.prepare.lowpass_hz == AUTO and not project.identifies_gains:
        problem = _plain(chosen, progress)
        if sum(row_count(problem, run) for run in problem.runs) < ENOUGH_ROWS:
            highest = HIGHEST * min(run.rate for run in problem.runs)
            factors = [1.0, *(x for x in RAISED[1:] if x * proposed.lowpass_hz <= highest)]
            others = [_plain(_with(project, proposed, factor, highest), progress) for factor in factors[1:]]
            choice = choose_filter([problem, *others], progress)
            k, reason = _sufficient(choice, _parameters(chosen.model()))
            if k > 0:
                chosen = _with(project, proposed, factors[k], highest)
                rule += f"; multiplied by {factors[k]:g}, since {reason}"
    return chosen, Finding("cutoffs", "info", rule, fix="set cutoff_hz and lowpass_hz in [prepare] to override")


def _with(project: Project, proposed: Cutoffs, factor: float, highest: float = np.inf) -> Project:
    """The project with the proposed cut-offs times a factor; cut-offs that it states stay as they are."""
    asked = project.spec.prepare
    open_ends = [name for name in ("cutoff_hz", "lowpass_hz") if getattr(asked, name) == AUTO]
    numbers = {name: min(factor * getattr(proposed, name), highest) for name in open_ends}
    return project.with_prepare(**{name: float(f"{x:.3g}") for name, x in numbers.items()})


def _plain(project: Project, progress: Progress | None) -> Problem:
    """The problem of the runs to identify with the plain terms."""
    model = project.with_spec(terms="plain").model()
    return project.problem(model, project.samples(model.robot, "identify", progress))


def _parameters(model: Model) -> int:
    """The largest number of base parameters that a joint's rows contain."""
    kept = model.nonzero[:, list(base_parameters(model).kept)]
    return int(kept.sum(axis=1).max())


def _sufficient(choice: FilterChoice, parameters: int) -> tuple[int, str]:
    """The chosen trial, or the first with rows enough for all parameters if it has too few; and the reason."""
    enough = [k for k, trial in enumerate(choice.trials) if trial.rows >= parameters + SPARE_ROWS]
    if choice.chosen in enough or not enough:
        better = choice.trials[choice.chosen].error, choice.trials[0].error
        return (
            choice.chosen,
            f"that predicts left-out stretches with {better[0]:.3g} instead of {better[1]:.3g} N·m or N",
        )
    return enough[0], f"a joint has {choice.trials[0].rows} rows otherwise, for up to {parameters} parameters"
