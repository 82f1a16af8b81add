"""Commands that judge results and logs: `validate`, `crossvalidate`, `delays`, `compare` and `twin`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer

from steelyard.cli import option_values
from steelyard.cli.console import (
    EpisodeOption,
    JsonFlag,
    PageOption,
    RowsOption,
    SecondsOption,
    check_page,
    check_part,
    emit,
    percent,
    progress_bar,
    say,
    say_findings,
    write_page,
)
from steelyard.cli.door.exit_codes import ExitCode, exit_if_errors
from steelyard.cli.tables import show
from steelyard.errors import ProjectError

if TYPE_CHECKING:
    from steelyard.identification.result import Identification
    from steelyard.regression.problem import Problem
    from steelyard.validation import Comparison, CrossValidation, Twin, Validation


def validate_logs(
    result: Annotated[Path, typer.Argument(help="Run folder or its result.json.")],
    logs: Annotated[
        list[Path], typer.Argument(help="Logs that were not used in the fit, with the columns of its project.")
    ],
    fail_above: Annotated[
        float | None,
        typer.Option(help="Largest total relative error [fraction, e.g. 0.05]; above it the exit code is 1."),
    ] = None,
    load: Annotated[
        str, typer.Option(help="Payload that the robot carries in these logs: a name of the project.")
    ] = option_values.UNLOADED,
    rows: RowsOption = None,
    seconds: SecondsOption = None,
    episode: EpisodeOption = None,
    simulated: Annotated[
        bool,
        typer.Option(
            "--simulate",
            help="Also simulate the identified robot under its controller, with the references of the logs.",
        ),
    ] = False,
    page: PageOption = None,
    as_json: JsonFlag = False,
) -> None:
    """The scores of the nominal model, if there is one, are printed next to those of the result."""
    from steelyard.identification.prediction import predict
    from steelyard.project.documents import record
    from steelyard.project.reopen import reopen
    from steelyard.report.pages.judged import validation_page
    from steelyard.validation import forward_validation, validate

    check_page(page)

    if fail_above is not None and not 0.0 < fail_above < float("inf"):
        raise ProjectError(f"--fail-above must be a positive fraction, e.g. 0.05 for 5 %, not {fail_above:g}.")
    check_part(logs, rows, seconds, episode)
    reopened = reopen(result, logs, rows=rows, seconds=seconds, episode=episode, load=load)
    with progress_bar() as progress:
        problem, runs = reopened.problem(progress)
        judged = validate(reopened.result, problem, runs, progress)
        driven = forward_validation(reopened.result, problem, progress) if simulated else None
        found = reopened.result
        rows_of = [] if page is None else [predict(found, problem.with_runs([run]), run) for run in runs]
    findings = judged.findings + reopened.load_findings(runs)
    total = judged.relative_error["total"]
    failed = fail_above is not None and not total <= fail_above
    if as_json:
        emit(
            record(
                "steelyard.validation/1",
                judged,
                logs=[{"name": run.name, "source": run.source, "sha256": run.sha256} for run in runs],
                findings=findings,
                simulated=driven,
                verdict=judged.verdict,
                fail_above=fail_above,
                failed=failed,
            )
        )
    say_findings(findings)
    _show_validation(judged)
    if driven is not None:
        say(driven.verdict, "bold")
    write_page(page, lambda: validation_page(judged, found, rows_of, findings))
    if failed:
        say(f"Relative error {percent(total)} is above {percent(fail_above or 0.0)}.", "bold red")
        raise typer.Exit(ExitCode.JUDGED)
    exit_if_errors(findings)


def crossvalidate(
    project: Annotated[Path, typer.Argument(help="Project file (TOML).")],
    folds: Annotated[
        str, typer.Option(help="Number of time blocks (about), or 'runs' to leave out one run at a time.")
    ] = "10",
    page: PageOption = None,
    as_json: JsonFlag = False,
) -> None:
    from steelyard.identification.first_fit import to_scale
    from steelyard.identification.term_selection import with_terms
    from steelyard.project.automatic import resolve_auto, selected_terms
    from steelyard.project.documents import record
    from steelyard.project.project import AUTO, read_project
    from steelyard.report.pages.judged import cross_validation_page
    from steelyard.validation import cross_validate_choice, cross_validate_problem

    check_page(page)

    chosen = _folds(folds)
    described = read_project(project)
    if described.spec.select and chosen != "runs":
        raise ProjectError(
            "A project that selects terms on left-out runs is scored on left-out runs only: use --folds runs."
        )
    # delays are estimated again in every fold, from the rows that it may use
    aligned = described.spec.prepare.delay == AUTO
    estimator = described.estimator()
    # except with unknown gains: their torques are not known before the fit
    settle_delays = aligned and described.identifies_gains
    with progress_bar() as progress:
        explicit = resolve_auto(described, progress, delays=settle_delays, terms=False)
        problem = explicit.problem
        aligned = aligned and not settle_delays and problem.lowpass_hz is not None
        if described.spec.select:

            def choose(fitted: Problem) -> Problem:
                chosen = selected_terms(explicit.project, to_scale(fitted, estimator))
                return with_terms(fitted, chosen)

            judged = cross_validate_choice(problem, estimator, choose, aligned, progress)
        else:
            judged = cross_validate_problem(problem, estimator, chosen, progress, delays=aligned)
    if as_json:
        emit(
            record(
                "steelyard.crossvalidation/1", judged,
                robot=explicit.model.robot.name, verdict=judged.verdict, findings=explicit.findings,
            )
        )  # fmt: skip
    say_findings(explicit.findings)
    _show_cross_validation(judged)
    write_page(page, lambda: cross_validation_page(judged, explicit.model.robot.name, explicit.findings))


def delays(project: Annotated[Path, typer.Argument(help="Project file (TOML).")], as_json: JsonFlag = False) -> None:
    """Estimated after a fit with friction, because friction looks like a delay."""
    from steelyard.identification.delays import estimate_delays
    from steelyard.identification.first_fit import to_scale, with_load
    from steelyard.project.automatic import resolve_auto
    from steelyard.project.documents import record
    from steelyard.project.project import read_project
    from steelyard.report.tables.validation import delay_table

    with progress_bar() as progress:
        explicit = resolve_auto(read_project(project), progress, delays=False)
        model = explicit.model
        every = replace(explicit.problem, delay=())
        every = with_load(to_scale(every, explicit.project.estimator(), progress), progress)
        found = {run.name: estimate_delays(every.with_runs([run]), progress=progress) for run in explicit.runs}
    if as_json:
        emit(record("steelyard.delays/1", {"robot": model.robot.name, "runs": found}))
    show(delay_table(found, model.robot.axis_names))


def compare_results(
    results: Annotated[list[Path], typer.Argument(help="Two run folders, BEFORE AFTER; or more, for the table only.")],
    page: PageOption = None,
    as_json: JsonFlag = False,
) -> None:
    from steelyard.project.result_file import read_result
    from steelyard.report.pages.compared import comparison_page
    from steelyard.report.tables.validation import results_table
    from steelyard.validation import compare

    check_page(page)
    if len(results) < 2:
        raise ProjectError("compare needs at least two results: BEFORE AFTER, each a run folder or its result.json.")
    found = [read_result(path) for path in results]
    tests = [compare(found[0], other) for other in found[1:]]
    integrity = tests[0] if len(found) == 2 else None
    if as_json:
        emit(_comparison_document(results, found, integrity))
    show(results_table([str(path) for path in results], found))
    if len({(one.estimator, str(one.estimator_options)) for one in found}) > 1:
        say("warning: the results come from different estimators or options, which may explain differences", "yellow")
    write_page(page, lambda: comparison_page([str(path) for path in results], found, integrity))
    if integrity is not None:
        _show_integrity(integrity)
        if integrity.changed:
            raise typer.Exit(ExitCode.JUDGED)


def twin_command(
    result: Annotated[Path, typer.Argument(help="Run folder or its result.json; its logs must still be in place.")],
    runs: Annotated[int, typer.Option(help="Number of simulated experiments.")] = option_values.TWIN_RUNS,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for the noise.")] = 0,
    page: PageOption = None,
    as_json: JsonFlag = False,
) -> None:
    from steelyard.project.documents import record
    from steelyard.project.reopen import reopen
    from steelyard.report.pages.compared import twin_page
    from steelyard.validation.twin import twin

    check_page(page)
    # without other logs: those of the fit are read again
    reopened = reopen(result, [])
    with progress_bar() as progress:
        problem = reopened.fit_problem(progress)
        found = twin(reopened.result, problem, reopened.project.estimator(), runs, seed, progress)
    if as_json:
        more = {"verdict": found.verdict, "coverage": found.coverage, "sigma_ratio": found.sigma_ratio}
        emit(record("steelyard.twin/1", found, **more))
    _show_twin(found)
    write_page(page, lambda: twin_page(found))


def _folds(asked: str) -> int | Literal["runs"]:
    if asked == "runs":
        return "runs"
    if not asked.isdecimal() or not 2 <= int(asked) <= 10_000:
        raise ProjectError(f"--folds must be 'runs' or a whole number from 2 to 10000, not '{asked}'.")
    return int(asked)


# --- Shown to people --------------------------------------------------------------------------------------------------


def _show_validation(judged: Validation) -> None:
    from steelyard.report.tables.validation import validated_runs_table, validation_table

    show(validation_table(judged))
    if len(judged.by_run) > 1:
        show(validated_runs_table(judged))
    if judged.seen:
        say(f"warning: the fit used {', '.join(judged.seen)}: this is not a score on unseen motion", "yellow")
    say(judged.verdict, "bold")


def _show_cross_validation(judged: CrossValidation) -> None:
    from steelyard.report.tables.validation import cross_validation_table

    show(cross_validation_table(judged))
    for fold in judged.folds:
        if fold.not_excited:
            say(f"warning: without {fold.name} the data do not excite {', '.join(fold.not_excited)}", "yellow")
    say(judged.verdict, "bold")


def _comparison_document(
    paths: Sequence[Path], found: Sequence[Identification], integrity: Comparison | None
) -> dict[str, Any]:
    from steelyard.project.documents import plain, record
    from steelyard.report.tables.validation import side_by_side

    results = [
        {"path": path, "estimator": x.estimator, "clusters": x.clusters, "relative_error": x.relative_error.total}
        for path, x in zip(paths, found, strict=True)
    ]
    parameters = [
        {"name": name, "unit": unit, "values": [value for value, _ in pairs], "std": [std for _, std in pairs]}
        for name, unit, pairs in side_by_side(found)
    ]
    tested = None if integrity is None else plain(integrity) | {"verdict": integrity.verdict}
    table = {"robot": found[0].robot, "results": results, "parameters": parameters, "integrity": tested}
    return record("steelyard.comparison/1", table)


def _show_integrity(tested: Comparison) -> None:
    from steelyard.report.tables.validation import change_table

    show(change_table(tested))
    for label, names in (("before", tested.only_before), ("after", tested.only_after)):
        if names:
            say(f"only in the result {label}: {', '.join(names)}")
    if tested.untested:
        say(f"not compared (no value or error bar): {', '.join(tested.untested)}")
    if not np.isfinite(tested.freedom):
        say(
            "warning: too few time blocks for robust error bars; classical ones are used, which give false alarms",
            "yellow",
        )
    say(tested.verdict, "bold")


def _show_twin(found: Twin) -> None:
    from steelyard.report.tables.validation import twin_table

    show(twin_table(found))
    say(
        f"Motion: {found.motion}. Relative error {percent(found.twin_relative_error)} in simulation, "
        f"{percent(found.relative_error)} in the fit."
    )
    say_findings(found.findings)
    say(found.verdict, "bold")
