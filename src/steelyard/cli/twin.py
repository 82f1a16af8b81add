"""Command that doubts: `twin`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

from steelyard.cli import option_values
from steelyard.cli.console import JsonFlag, emit, number, people, percent, progress_bar, say, say_findings
from steelyard.errors import DataError

if TYPE_CHECKING:
    from steelyard.project.reopen import Reopened
    from steelyard.regression.observe import Progress
    from steelyard.regression.problem import Problem
    from steelyard.validation.twin import Twin


def twin_command(
    result: Annotated[Path, typer.Argument(help="A run folder or its result.json; its logs must be where they were.")],
    runs: Annotated[int, typer.Option(help="Simulated experiments.")] = option_values.TWIN_RUNS,
    seed: Annotated[int, typer.Option(min=0, help="Of the noise.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Identify simulated experiments like the real one, with known truth: bias, coverage, detectable change."""
    from steelyard.project.documents import record
    from steelyard.project.reopen import reopen
    from steelyard.validation.twin import twin

    # without other logs: those of the fit are read again
    reopened = reopen(result, [])
    with progress_bar() as progress:
        problem = _fitted(reopened, progress)
        found = twin(reopened.result, problem, reopened.project.estimator(), runs, seed, progress)
    if as_json:
        more = {"verdict": found.verdict, "coverage": found.coverage, "sigma_ratio": found.sigma_ratio}
        emit(record("steelyard.twin/1", found, **more))
    _show(found)


def _fitted(reopened: Reopened, progress: Progress) -> Problem:
    """The problem of the fit on its own runs."""
    project = reopened.as_fitted
    samples = project.samples(reopened.model.robot, "identify", progress)
    known = {one.name: one.sha256 for one in reopened.result.runs}
    for run in samples:
        if known.get(run.name, run.sha256) != run.sha256:
            raise DataError(f"The log of run '{run.name}' has changed since the fit. Identify again.")
    return project.problem(reopened.model, samples)


def _show(found: Twin) -> None:
    table = Table(
        Column("parameter", no_wrap=True), "truth", "bias", "± its σ", "spread", "reported σ", "coverage", "detectable",
        "unit",
    )  # fmt: skip
    for one in found.parameters:
        numbers = (one.truth, one.bias, one.bias_error, one.spread, one.reported)
        table.add_row(
            one.name, *map(number, numbers), percent(one.coverage), number(one.detectable), one.unit,
            style="yellow" if one.is_biased else "",
        )  # fmt: skip
    people.print(table)
    say(f"Moved by {found.motion}; relative error {percent(found.twin_relative_error)}, of the fit "
        f"{percent(found.relative_error)}.")  # fmt: skip
    say_findings(found.findings)
    say(found.verdict, "bold")
