"""run: a project from its files to a run folder."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from steelyard._arrays import single_threaded
from steelyard.errors import OutputError, SteelyardError, choices
from steelyard.estimators.huber import robust_fit
from steelyard.export.file_fit.worth import FileWorth
from steelyard.export.targets.registry import TARGETS, named_target
from steelyard.findings import Finding
from steelyard.identification.first_fit import with_load_to_scale
from steelyard.identification.identify import identify
from steelyard.identification.prediction import Prediction, as_identified, predict
from steelyard.identification.result import Identification
from steelyard.identification.verdict import FEW_ROWS
from steelyard.model.base_parameters import base_parameters
from steelyard.model.terms import Rotor
from steelyard.project.automatic import resolve_auto
from steelyard.project.checks.check import check
from steelyard.project.checks.first_look import NOT_TRIED
from steelyard.project.documents import plain, text, toml_text
from steelyard.project.output_folder import REPORT, RESULT, RUN_FILES, check_folder, write_folder
from steelyard.project.project import Project
from steelyard.project.reopen import Reopened, reopen
from steelyard.project.result_file import document, read_document
from steelyard.regression.observe import Progress, observe
from steelyard.regression.outliers import outlying_blocks, outlying_findings
from steelyard.report.figures.spectrum import RunSpectra, run_spectra
from steelyard.report.lamps import Lamp, ResultFiles, lamps
from steelyard.report.page import render
from steelyard.report.printers import TABLE_FILES, check_ending, table_files
from steelyard.report.section import Repeat
from steelyard.validation.estimator_scores import estimator_scores
from steelyard.validation.lack_of_fit import lack_of_fit
from steelyard.validation.run_differences import as_clusters, run_differences
from steelyard.validation.score_correlation import correlation_finding

# Rows of a run that its figures show.
SHOWN_ROWS = 4000


@dataclass(frozen=True)
class RunResult:
    """What `run` returns: the identification, its document, the folder they were written to, a sentence per section of
    the report that failed, and the three lamps."""

    identification: Identification
    document: dict[str, Any]
    folder: Path
    section_faults: tuple[str, ...] = ()
    lamps: tuple[Lamp, ...] = ()


@single_threaded
def run(
    project: Project,
    out: Path | None = None,
    estimator: str | None = None,
    progress: Progress | None = None,
    tables: Sequence[str] = (),
    with_data: bool = True,
) -> RunResult:
    """Make the automatic settings, identify a project and write its run folder: result.json and report.html, with every
    table in the formats `tables` (".csv", ".parquet", …), all or none. `with_data` = False leaves raw signals out of
    the report.

    The fit takes one pass over the rows to identify and one over those to validate, in addition to those of
    `resolve_auto`; two more for load friction where the robot file gives no inertias, and one for torques where drive
    gains are found.
    """
    folder = out or project.run_folder
    for ending in tables:
        check_ending(ending)
    own = _own_files(folder)
    check_folder(folder, own)
    asked = project if estimator is None else project.with_estimator(estimator)
    explicit = resolve_auto(asked, progress)
    project, chosen = explicit.project, explicit.project.estimator()
    problem = with_load_to_scale(explicit.problem, chosen, progress)
    unseen = project.samples(explicit.model.robot, "validate", progress)
    held_out = problem.with_runs(unseen) if unseen else None
    information = observe(problem, progress=progress)
    other = None if held_out is None else observe(held_out, progress=progress)
    result = identify(problem, chosen, information, held_out, progress, other)
    estimators = estimator_scores(result, problem, chosen, information, other)
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
        + _more_motion(result, folder)
    )
    result = result.with_findings(_faults(asked, result, progress))
    data = run_document(result, project, folder, problem.rest_speeds.tolist(), explicit.selection)
    lit = lamps(result, project.spec.lamps, place_of(project, folder))
    data |= plain({"lamps": lit, "delays": explicit.delays, "estimators": estimators})
    links = {payload.name: payload.link for payload in explicit.model.payloads}
    faults: list[str] = []
    extra = table_files(result, tables, links)
    data["table_files"] = list(extra)
    shown = (*fitted, *scored) if with_data else ()
    page = render(
        result, shown, _title(result, data["date"]), links, faults.append,
        model=explicit.model, spectra=_spectra(project, with_data, progress),
        repeat=_repeat(project, data["date"], data["project"]), lamps=lit, delays=explicit.delays,
        estimators=estimators,
    )  # fmt: skip
    files = {RESULT: text(data), REPORT: page}
    write_folder(folder, files | extra, own)
    return RunResult(result, data, folder, tuple(faults), lit)


def _faults(project: Project, result: Identification, progress: Progress | None) -> tuple[Finding, ...]:
    """The errors that `check` finds in the logs and the map, and what was not looked for."""
    try:
        found = check(project, progress, thorough=False)
    except SteelyardError as error:
        return (Finding("checks-left-out", "info", f"the logs were not checked for faults: {error}"),)
    known = {(finding.code, finding.where) for finding in result.findings}
    told = [f for f in found.findings if f.severity == "error" and (f.code, f.where) not in known]
    if not found.thorough:
        told.append(
            Finding("checks-left-out", "info", f"not looked for, since the log raised no suspicion: {NOT_TRIED}")
        )
    return tuple(told)


def _more_motion(result: Identification, folder: Path) -> tuple[Finding, ...]:
    """The command that designs the next motion, where the rows are few for the parameters."""
    judged = result.judged
    if not judged.needs_more_motion:
        return ()
    message = (
        f"{judged.rows_each:.2g} rows per parameter, {FEW_ROWS:g} are needed: the errors on other motion are large"
    )
    return (Finding("few-rows", "warning", message, fix=f"steelyard excite --given {shlex.quote(str(folder))}"),)


@single_threaded
def page_again(
    place: Path, without_logs: bool = False, progress: Progress | None = None, files: Sequence[str] = ()
) -> tuple[str, tuple[str, ...]]:
    """The report of a result as HTML, the same bytes as from `run` unless the program or its sections have changed, and
    a sentence per section that failed.

    `without_logs` leaves out the figures and tables that need the logs of the fit. `files` are export targets of robot
    files whose worth the page is to show.
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
    worth = _worth_of_files(reopened, files, progress)
    project, date = reopened.as_fitted, reopened.date
    page = render(
        result, predictions, _title(result, date), links, faults.append, model=reopened.model,
        spectra=_spectra(project, not without_logs, progress), repeat=_repeat(project, date, reopened.stated),
        lamps=reopened.lamps, files=worth, delays=reopened.delays, estimators=reopened.estimators,
    )  # fmt: skip
    return page, tuple(faults)


def _worth_of_files(reopened: Reopened, files: Sequence[str], progress: Progress | None) -> dict[str, FileWorth]:
    """The scores of robot files of a result, by the name of their format."""
    rows, out = cache(lambda: reopened.logged_rows(progress)), {}
    for name in files:
        target = named_target(name)
        if target.form is None:
            valid = [one.name for one in TARGETS.values() if one.form is not None]
            raise OutputError(choices("robot file", name, valid))
        made = target.export(target.request(reopened.model, reopened.result, rows, reopened.constraints))
        if made.worth is None:
            raise OutputError(f"{target.form.name}: {made.unscored}")
        out[target.form.name] = made.worth
    return out


def place_of(project: Project, folder: Path) -> ResultFiles:
    """Where commands find a result: its project file, its run folder and its robot file; and its terms but rotor."""
    robot, rotorless = project.robot_file, project.terms_without(Rotor.name)
    return ResultFiles(str(project.path), str(folder), "" if robot is None else str(robot), rotorless)


def _title(result: Identification, date: str) -> str:
    return f"{result.robot} · {date}" if date else result.robot


def _repeat(project: Project, date: str, stated: Any) -> Repeat:
    """`stated` is the project as result.json holds it."""
    robot = project.robot()
    return Repeat(
        toml_text(plain(msgspec.to_builtins(stated))), project.path.name, date, project.spec.robot, robot.sha256,
        project.cutoff_hz(), project.lowpass_hz(),
    )  # fmt: skip


def _spectra(project: Project, wanted: bool, progress: Progress | None) -> tuple[RunSpectra, ...]:
    """Spectra of the fitted logs as they are before any filter."""
    if not wanted:
        return ()
    found = (run_spectra(run) for run in project.unfiltered(progress))
    return tuple(one for one in found if one is not None)


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
        "date": datetime.now().date().isoformat(),
        "robot_sha256": project.robot().sha256,
        "selection": selection,
    }
