"""Commands that judge: `validate`, `crossvalidate` and `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer
from rich.table import Column, Table

from steelyard.cli import option_values
from steelyard.cli.console import JsonFlag, emit, number, people, percent, progress_bar, say, say_findings
from steelyard.errors import ProjectError

if TYPE_CHECKING:
    from steelyard.identification.result import Identification
    from steelyard.regression.problem import Problem
    from steelyard.validation import Comparison, CrossValidation, Validation

DIFFERS = 1


def validate_logs(
    result: Annotated[Path, typer.Argument(help="A run folder or its result.json.")],
    logs: Annotated[list[Path], typer.Argument(help="Logs the fit has not seen, with the columns of its project.")],
    fail_above: Annotated[
        float | None, typer.Option(help="Exit with 1 if the total relative error exceeds this fraction, e.g. 0.05.")
    ] = None,
    load: Annotated[str, typer.Option(help="What the logs carry: a payload of the project.")] = option_values.UNLOADED,
    simulated: Annotated[
        bool, typer.Option("--simulate", help="Also drive the identified robot by the logs' references.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Score a result on other logs, beside the nominal model."""
    from steelyard.project.documents import record
    from steelyard.project.reopen import reopen
    from steelyard.validation import forward_validation, validate

    if fail_above is not None and not 0.0 < fail_above < float("inf"):
        raise ProjectError(f"--fail-above takes a positive fraction, e.g. 0.05 for 5 %, not {fail_above:g}.")
    reopened = reopen(result, logs, load=load)
    with progress_bar() as progress:
        problem, runs = reopened.problem(progress)
        judged = validate(reopened.result, problem, runs, progress)
        driven = forward_validation(reopened.result, problem, progress) if simulated else None
    findings = reopened.load_findings(runs)
    total = judged.relative_error["total"]
    failed = fail_above is not None and not total <= fail_above
    if as_json:
        verdict = {"verdict": judged.verdict, "fail_above": fail_above, "failed": failed}
        logs_read = [{"name": run.name, "source": run.source, "sha256": run.sha256} for run in runs]
        told = [asdict(finding) for finding in findings]
        emit(
            record(
                "steelyard.validation/1",
                judged,
                logs=logs_read,
                findings=told,
                simulated=driven and asdict(driven),
                **verdict,
            )
        )
    say_findings(findings)
    _show_validation(judged)
    if driven is not None:
        say(driven.verdict, "bold")
    if failed:
        say(f"Relative error {percent(total)} is above {percent(fail_above or 0.0)}.", "bold red")
        raise typer.Exit(DIFFERS)


def crossvalidate(
    project: Annotated[Path, typer.Argument(help="The project file (TOML).")],
    folds: Annotated[str, typer.Option(help="About so many stretches of time, or 'runs' to leave one run out.")] = "10",
    as_json: JsonFlag = False,
) -> None:
    """Score every row of a project by parameters fitted without it."""
    from steelyard.identification.first_fit import to_scale
    from steelyard.identification.term_selection import with_terms
    from steelyard.project.automatic import resolve_auto, selected_terms
    from steelyard.project.documents import record
    from steelyard.project.project import AUTO, read_project
    from steelyard.validation import cross_validate_choice, cross_validate_problem

    chosen = _folds(folds)
    described = read_project(project)
    if described.spec.select and chosen != "runs":
        raise ProjectError("Terms chosen by left-out runs are judged by left-out runs only: use --folds runs.")
    # delays are found anew in every fold, from the rows it may see
    aligned = described.spec.prepare.delay == AUTO
    estimator = described.estimator()
    # but with unknown gains, whose torques are not known before
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
        findings = [asdict(finding) for finding in explicit.findings]
        emit(
            record(
                "steelyard.crossvalidation/1", judged,
                robot=explicit.model.robot.name, verdict=judged.verdict, findings=findings,
            )
        )  # fmt: skip
    say_findings(explicit.findings)
    _show_cross_validation(judged)


def delays(
    project: Annotated[Path, typer.Argument(help="The project file (TOML).")], as_json: JsonFlag = False
) -> None:
    """How far each joint's effort lags behind its position, for every log, after friction."""
    from steelyard.identification.delays import estimate_delays
    from steelyard.identification.first_fit import to_scale, with_load
    from steelyard.project.automatic import resolve_auto
    from steelyard.project.documents import record
    from steelyard.project.project import read_project

    with progress_bar() as progress:
        explicit = resolve_auto(read_project(project), progress, delays=False)
        model = explicit.model
        every = replace(explicit.problem, delay=())
        every = with_load(to_scale(every, explicit.project.estimator(), progress), progress)
        found = {run.name: estimate_delays(every.with_runs([run]), progress=progress) for run in explicit.runs}
    if as_json:
        emit(
            record("steelyard.delays/1", {"robot": model.robot.name, "runs": {n: asdict(d) for n, d in found.items()}})
        )
    table = Table(Column("delay ± σ [ms]", no_wrap=True), *model.robot.axis_names, "all joints")
    for name, late in found.items():
        cells = [f"{1e3 * d:+.2f} ± {1e3 * s:.2f}" for d, s in zip(late.seconds, late.std, strict=True)]
        table.add_row(name, *cells, f"{1e3 * late.common:+.2f} ± {1e3 * late.common_std:.2f}")
    people.print(table)


def compare_results(
    results: Annotated[list[Path], typer.Argument(help="Two run folders (before, after), or more to tabulate.")],
    as_json: JsonFlag = False,
) -> None:
    """Put results side by side; of two, say whether the robot has changed (exit code 1 if it has)."""
    from steelyard.project.result_file import read_result
    from steelyard.validation import compare

    if len(results) < 2:
        raise ProjectError("compare takes two results or more: BEFORE AFTER, each a run folder or its result.json.")
    found = [read_result(path) for path in results]
    tests = [compare(found[0], other) for other in found[1:]]
    integrity = tests[0] if len(found) == 2 else None
    if as_json:
        emit(_comparison_document(results, found, integrity))
    _show_results(results, found)
    if len({(one.estimator, str(one.estimator_options)) for one in found}) > 1:
        say("warning: the results come from different estimators or options: differences may be theirs", "yellow")
    if integrity is not None:
        _show_integrity(integrity)
        if integrity.changed:
            raise typer.Exit(DIFFERS)


def _folds(asked: str) -> int | Literal["runs"]:
    if asked == "runs":
        return "runs"
    if not asked.isdecimal() or not 2 <= int(asked) <= 10_000:
        raise ProjectError(f"--folds takes 'runs' or a whole number from 2, not '{asked}'.")
    return int(asked)


# --- Shown to people --------------------------------------------------------------------------------------------------


def _show_validation(judged: Validation) -> None:
    table = Table("joint", "relative error", "nominal", "RMSE", "R²", "rows", "raw effort", "nominal", "correlation")
    fit, raw = judged.filtered, judged.raw
    for key in fit.relative_error:
        white = judged.whiteness.get(key)
        table.add_row(
            key,
            percent(fit.relative_error[key]),
            "—" if judged.nominal_filtered is None else percent(judged.nominal_filtered.relative_error[key]),
            number(fit.rmse[key]),
            number(fit.r2[key]),
            str(fit.rows[key]),
            percent(raw.relative_error[key]),
            "—" if judged.nominal_raw is None else percent(judged.nominal_raw.relative_error[key]),
            "" if white is None else f"{number(white.correlation_rows)} rows, {percent(white.outside)} of lags",
        )
    people.print(table)
    if len(judged.by_run) > 1:
        runs = Table("run", "relative error", "R²", "rows")
        for name, one in judged.by_run.items():
            runs.add_row(name, percent(one.relative_error["total"]), number(one.r2["total"]), str(one.rows["total"]))
        people.print(runs)
    say(f"Scored: {fit.mask}\nRaw: {raw.mask}")
    if judged.seen:
        say(f"warning: {', '.join(judged.seen)} also went into the fit: this is no unseen motion", "yellow")
    say(judged.verdict, "bold")


def _show_cross_validation(judged: CrossValidation) -> None:
    joints = list(judged.pooled.joints)
    table = Table(Column("fold", overflow="fold"), "total", *joints, "rows")
    for name, one in [*((fold.name, fold.score) for fold in judged.folds), ("all folds", judged.pooled)]:
        table.add_row(name, percent(one.total), *(percent(one.joints[j]) for j in joints), str(sum(one.rows.values())))
    people.print(table)
    for fold in judged.folds:
        if fold.not_excited:
            say(f"warning: without {fold.name} nothing shows {', '.join(fold.not_excited)}", "yellow")
    say(f"Scored: {judged.pooled.mask}")
    say(judged.verdict, "bold")


def _comparison_document(
    paths: Sequence[Path], found: Sequence[Identification], integrity: Comparison | None
) -> dict[str, Any]:
    from steelyard.project.documents import record

    results = [
        {"path": str(path), "estimator": x.estimator, "clusters": x.clusters, "relative_error": x.relative_error.total}
        for path, x in zip(paths, found, strict=True)
    ]
    parameters = [
        {"name": name, "unit": unit, "values": [value for value, _ in pairs], "std": [std for _, std in pairs]}
        for name, unit, pairs in _side_by_side(found)
    ]
    tested = None if integrity is None else {**asdict(integrity), "verdict": integrity.verdict}
    table = {"robot": found[0].robot, "results": results, "parameters": parameters, "integrity": tested}
    return record("steelyard.comparison/1", table)


def _side_by_side(found: Sequence[Identification]) -> list[tuple[str, str, list[tuple[float, float]]]]:
    """Every base parameter and drive gain of any result: name, unit, and (value, σ) in each, NaN where it has none."""
    from steelyard.validation import Row, compared_rows

    tables = [{row.name: row for row in compared_rows(one)} for one in found]
    units = {row.name: row.unit for table in tables for row in table.values()}
    unknown = Row("", "", np.nan, np.nan, {})
    return [
        (name, unit, [(row.value, row.std) for row in (table.get(name, unknown) for table in tables)])
        for name, unit in units.items()
    ]


def _show_results(paths: Sequence[Path], found: Sequence[Identification]) -> None:
    table = Table("parameter", *(f"{path} ({one.estimator})" for path, one in zip(paths, found, strict=True)), "unit")
    for name, unit, pairs in _side_by_side(found):
        table.add_row(name, *(f"{number(value)} ± {number(std)}" for value, std in pairs), unit)
    people.print(table)


def _show_integrity(tested: Comparison) -> None:
    if tested.changed:
        table = Table("changed", "difference", "± σ", "t", "p", "p (Holm)", "unit")
        for one in sorted(tested.changes, key=attrgetter("p_holm")):
            if one.name in tested.changed:
                numbers = (one.difference, one.std, one.t, one.p, one.p_holm)
                table.add_row(one.name, *map(number, numbers), one.unit)
        people.print(table)
    for label, names in (("before", tested.only_before), ("after", tested.only_after)):
        if names:
            say(f"only in the result {label}: {', '.join(names)}")
    if tested.untested:
        say(f"not compared (no value or error bar): {', '.join(tested.untested)}")
    if not np.isfinite(tested.freedom):
        say("warning: too few blocks of time; classical error bars give false alarms", "yellow")
    say(tested.verdict, "bold")
