"""run: a project from its files to a run folder."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
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
from steelyard.project.automatic import resolve_auto
from steelyard.project.documents import text
from steelyard.project.output_folder import REPORT, RESULT, check_folder, write_folder
from steelyard.project.project import Project
from steelyard.project.result_file import document
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
    """Make the automatic settings, identify a project and write its run folder: result.json and report.html, both or
    neither.

    The fit takes one pass over the rows to identify and one over those to validate, besides those of `resolve_auto`;
    two more for load friction where the robot file gives no inertias, and one for torques where drive gains are found.
    """
    folder = out or project.run_folder
    check_folder(folder)
    explicit = resolve_auto(project if estimator is None else project.with_estimator(estimator), progress)
    project, chosen = explicit.project, explicit.project.estimator()
    problem = with_load_to_scale(explicit.problem, chosen, progress)
    unseen = project.samples(explicit.model.robot, "validate", progress)
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
    data = run_document(result, project, folder, problem.rest_speeds.tolist(), explicit.selection)
    links = {payload.name: payload.link for payload in explicit.model.payloads}
    write_folder(folder, {RESULT: text(data), REPORT: render(result, fitted + scored, project.name, links)})
    return RunResult(result, data, folder)


def run_document(
    result: Identification,
    project: Project,
    folder: Path,
    rest_speeds: Sequence[float],
    selection: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The document of a result in a run folder, with what it takes to build the same rows again (`reopen`), wherever
    the folder is moved together with the project; `rest_speeds` [rad/s | m/s] are those of the fit's mask."""
    used = {"name": result.estimator, "options": result.estimator_options}
    return document(result, msgspec.to_builtins(project.spec) | {"estimator": used}) | {
        "project_folder": os.path.relpath(project.path.resolve().parent, folder.resolve()),
        "rest_speeds": list(rest_speeds),
        "robot_sha256": project.robot().sha256,
        "selection": selection,
    }
