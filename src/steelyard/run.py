"""run: a project from its files to a run folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from steelyard.base_parameters import base_parameters
from steelyard.estimators import named_estimator
from steelyard.estimators.huber import robust_fit
from steelyard.identification import Identification
from steelyard.identify import identify
from steelyard.load import with_load
from steelyard.observe import Progress, observe
from steelyard.outliers import outlying_blocks, outlying_findings
from steelyard.prediction import correlation_finding, predict
from steelyard.project import Project
from steelyard.report.page import render
from steelyard.results import REPORT, RESULT, check_folder, document, text, write_folder
from steelyard.settle import settled


@dataclass(frozen=True)
class RunResult:
    """What `run` gives back: the identification, its document, and the folder it was written to."""

    identification: Identification
    document: dict[str, Any]
    folder: Path


def run(
    project: Project,
    out: Path | None = None,
    estimator: str | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """Settle and identify a project and write its run folder: result.json and report.html, both or neither."""
    folder = out or project.run_folder
    check_folder(folder)
    chosen = project.estimator() if estimator is None else named_estimator(estimator)
    explicit = settled(project, progress)
    project, model = explicit.project, explicit.project.model()
    problem = with_load(project.problem(model, explicit.runs), progress)
    unseen = project.samples(model.robot, "validate", progress)
    held_out = problem.with_runs(unseen) if unseen else None
    information = observe(problem, progress=progress)
    result = identify(problem, chosen, information, held_out, progress)
    fitted = tuple(predict(problem, samples, result.theta) for samples in problem.runs)
    scored = tuple(predict(held_out, samples, result.theta) for samples in held_out.runs) if held_out else ()
    robust = robust_fit(base_parameters(problem.model), information)
    result = result.with_findings(
        explicit.findings
        + outlying_findings(problem, information, outlying_blocks(information, robust.theta))
        + correlation_finding(fitted, result.clusters)
    )
    used = {"name": result.estimator, "options": result.estimator_options}
    data = document(result, msgspec.to_builtins(project.spec) | {"estimator": used}) | {
        # what it takes to build the same rows again, wherever the folder is moved together with the project
        "project_folder": os.path.relpath(project.path.resolve().parent, folder.resolve()),
        "rest_speeds": problem.rest_speeds.tolist(),
        "robot_sha256": model.robot.sha256,
        "selection": explicit.selection,
    }
    write_folder(folder, {RESULT: text(data), REPORT: render(result, fitted + scored, project.name)})
    return RunResult(result, data, folder)
