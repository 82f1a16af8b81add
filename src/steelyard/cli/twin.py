"""Command that repeats an experiment in simulation: `twin`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli import option_values
from steelyard.cli.console import (
    JsonFlag,
    PageOption,
    check_page,
    emit,
    percent,
    progress_bar,
    say,
    say_findings,
    write_page,
)
from steelyard.cli.tables import show

if TYPE_CHECKING:
    from steelyard.validation.twin import Twin


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
    _show(found)
    write_page(page, lambda: twin_page(found))


def _show(found: Twin) -> None:
    from steelyard.report.tables.validation import twin_table

    show(twin_table(found))
    say(
        f"Motion: {found.motion}. Relative error {percent(found.twin_relative_error)} in simulation, "
        f"{percent(found.relative_error)} in the fit."
    )
    say_findings(found.findings)
    say(found.verdict, "bold")
