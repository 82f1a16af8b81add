"""Command that looks for faults of logs and channel maps before a fit: `check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.console import JsonFlag, emit, progress_bar, say, say_findings
from steelyard.cli.door.exit_codes import ExitCode


def check_project(
    project: Annotated[Path, typer.Argument(help="Project file (TOML).")],
    as_json: JsonFlag = False,
) -> None:
    from steelyard.project.checks import check
    from steelyard.project.documents import record
    from steelyard.project.project import read_project

    with progress_bar() as progress:
        found = check(read_project(project), progress)
    if as_json:
        emit(record("steelyard.check/1", found, verdict=found.verdict, failed=found.failed))
    say(found.verdict, "bold red" if found.failed else "bold green")
    say_findings(found.findings)
    if found.failed:
        raise typer.Exit(ExitCode.JUDGED)
