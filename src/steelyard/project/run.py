"""run: a project from its files to a run folder."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from steelyard._arrays import single_threaded
from steelyard.errors import SteelyardError
from steelyard.estimators.huber import robust_fit
from steelyard.identification.first_fit import with_load_to_scale
from steelyard.identification.identify import identify
from steelyard.identification.prediction import Prediction, as_identified, predict
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import base_parameters
from steelyard.project.automatic import resolve_auto
from steelyard.project.documents import text
from steelyard.project.output_folder import REPORT, RESULT, RUN_FILES, check_folder, write_folder
from steelyard.project.project import Project
from steelyard.project.reopen import reopen
from steelyard.project.result_file import document, read_document
from steelyard.regression.observe import Progress, observe
from steelyard.regression.outliers import outlying_blocks, outlying_findings
from steelyard.report.page import render
from steelyard.report.printers import TABLE_FILES, check_ending, table_files
from steelyard.validation.lack_of_fit import lack_of_fit
from steelyard.validation.run_differences import as_clusters, run_differences
from steelyard.validation.score_correlation import correlation_finding

# Rows of a run that its figures show.
SHOWN_ROWS = 4000


@dataclass(frozen=True)
class RunResult:
    """What `run` returns: the identification, its document, the folder they were written to, and a sentence per section
    of the report that failed."""

    identification: Identification
    document: dict[str, Any]
    folder: Path
    section_faults: tuple[str, ...] = ()


@single_threaded
def run(
    project: Project,
    out: Path | None = None,
    estimator: str | None = None,
    progress: Progress | None = None,
    tables: Sequence[str] = (),
) -> RunResult:
    """Make the automatic settings, identify a project and write its run folder: result.json and report.html, with every
    table in the formats `tables` (".csv", ".parquet", …), all or none.

    The fit takes one pass over the rows to identify and one over those to validate, in addition to those of
    `resolve_auto`; two more for load friction where the robot file gives no inertias, and one for torques where drive
    gains are found.
    """
    folder = out or project.run_folder
    for ending in tables:
        check_ending(ending)
    own = _own_files(folder)
    check_folder(folder, own)
    explicit = resolve_auto(project if estimator is None else project.with_estimator(estimator), progress)
    project, chosen = explicit.project, explicit.project.estimator()
    problem = with_load_to_scale(explicit.problem, chosen, progress)
    unseen = project.samples(explicit.model.robot, "validate", progress)
    held_out = problem.with_runs(unseen) if unseen else None
    information = observe(problem, progress=progress)
    result = identify(problem, chosen, information, held_out, progress)
    torque = as_identified(problem, result)
    fitted = tuple(predict(result, problem, samples, SHOWN_ROWS) for samples in problem.runs)
    scored = tuple(predict(result, problem.with_runs([samples]), samples, SHOWN_ROWS) for samples in unseen)
    rest = information if result.gains is None else observe(torque, progress=progress)
    rest = rest.without_known()
    robust = robust_fit(base_parameters(problem.model), rest)
    result = result.with_findings(
        explicit.findings
        + outlying_findings(problem, rest, outlying_blocks(rest, robust.theta))
        + correlation_finding(result, rest)
        + lack_of_fit(fitted).findings
        + run_differences(result, rest).findings(as_clusters(rest))
    )
    data = run_document(result, project, folder, problem.rest_speeds.tolist(), explicit.selection)
    links = {payload.name: payload.link for payload in explicit.model.payloads}
    faults: list[str] = []
    extra = table_files(result, tables, links)
    data["table_files"] = list(extra)
    files = {RESULT: text(data), REPORT: render(result, fitted + scored, project.name, links, faults.append)}
    write_folder(folder, files | extra, own)
    return RunResult(result, data, folder, tuple(faults))


@single_threaded
def page_again(
    place: Path, without_logs: bool = False, progress: Progress | None = None
) -> tuple[str, tuple[str, ...]]:
    """The report of a result as HTML, the same bytes as from `run` unless the program or its sections have changed, and
    a sentence per section that failed.

    `without_logs` leaves out the figures and tables that need the logs of the fit.
    """
    reopened = reopen(place, [])
    result, faults = reopened.result, list[str]()
    predictions: tuple[Prediction, ...] = ()
    if not without_logs:
        problem = reopened.fit_problem(progress)
        unseen = reopened.fitted_samples("validate", progress)
        predictions = tuple(
            predict(result, problem.with_runs([run]), run, SHOWN_ROWS) for run in (*problem.runs, *unseen)
        )
    links = {payload.name: payload.link for payload in reopened.model.payloads}
    return render(result, predictions, reopened.project.name, links, faults.append), tuple(faults)


def _own_files(folder: Path) -> tuple[str, ...]:
    """The files of a run folder that a new run may replace: tables only if the folder's result.json lists them, because
    a user's file may have the same name."""
    try:
        if not (folder / RESULT).is_file():  # also a named pipe, which must not be opened
            return RUN_FILES
        found = read_document(folder)
    except (SteelyardError, OSError, ValueError):  # `check_folder` says what is wrong
        return RUN_FILES
    listed = found.get("table_files")
    if not str(found.get("schema")).startswith("steelyard.result/") or not isinstance(listed, list):
        return RUN_FILES
    return (*RUN_FILES, *(name for name in TABLE_FILES if name in listed))


def run_document(
    result: Identification,
    project: Project,
    folder: Path,
    rest_speeds: Sequence[float],
    selection: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The document of a result in a run folder, with what `reopen` needs to build the same rows again, also after the
    folder was moved together with the project; `rest_speeds` [rad/s | m/s] are those of the fit's mask."""
    used = {"name": result.estimator, "options": result.estimator_options}
    return document(result, msgspec.to_builtins(project.spec) | {"estimator": used}) | {
        "project_folder": os.path.relpath(project.path.resolve().parent, folder.resolve()),
        "project_file": project.path.name,
        "rest_speeds": list(rest_speeds),
        "robot_sha256": project.robot().sha256,
        "selection": selection,
    }
