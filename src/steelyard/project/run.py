"""run: a project from its files to a run folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from steelyard._arrays import single_threaded
from steelyard.estimators.huber import robust_fit
from steelyard.identification.first_fit import with_load_to_scale
from steelyard.identification.identify import identify
from steelyard.identification.prediction import as_identified, correlation_finding, predict
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import base_parameters
from steelyard.project.automatic import settled
from steelyard.project.documents import text
from steelyard.project.project import Project
from steelyard.project.result_file import REPORT, RESULT, check_folder, document, write_folder
from steelyard.regression.observe import Progress, observe
from steelyard.regression.outliers import outlying_blocks, outlying_findings
from steelyard.report.page import render


@dataclass(frozen=True)
class RunResult:
    """What `run` gives back: the identification, its document, and the folder it was written to."""

    identification: Identification
    document: dict[str, Any]
    folder: Path


@single_threaded
def run(
    project: Project,
    out: Path | None = None,
    estimator: str | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """Settle and identify a project and write its run folder: result.json and report.html, both or neither."""
    folder = out or project.run_folder
    check_folder(folder)
    explicit = settled(project if estimator is None else project.with_estimator(estimator), progress)
    project, model, chosen = explicit.project, explicit.project.model(), explicit.project.estimator()
    problem = with_load_to_scale(project.problem(model, explicit.runs), chosen, progress)
    unseen = project.samples(model.robot, "validate", progress)
    held_out = problem.with_runs(unseen) if unseen else None
    information = observe(problem, progress=progress)
    result = identify(problem, chosen, information, held_out, progress)
    torque = as_identified(problem, result)
    fitted = tuple(predict(torque, samples, result.theta) for samples in problem.runs)
    scored = tuple(predict(torque.with_runs([samples]), samples, result.theta) for samples in unseen)
    rest = information if result.gains is None else observe(torque, progress=progress)
    rest = rest.without_known()
    robust = robust_fit(base_parameters(problem.model), rest)
    result = result.with_findings(
        explicit.findings
        + outlying_findings(problem, rest, outlying_blocks(rest, robust.theta))
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
    links = {payload.name: payload.link for payload in model.payloads}
    write_folder(folder, {RESULT: text(data), REPORT: render(result, fitted + scored, project.name, links)})
    return RunResult(result, data, folder)
