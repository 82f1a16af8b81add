"""`check`: faults of logs and channel maps, before any fit."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.console import JsonFlag, emit, progress_bar, say, say_findings

FAULTY = 1


def check_project(
    project: Annotated[Path, typer.Argument(help="The project file (TOML).")],
    as_json: JsonFlag = False,
) -> None:
    """Look for wrong units, signs, columns, ratios, delays and signals before any fit (exit code 1 if there are)."""
    from steelyard.project.checks import check
    from steelyard.project.project import read_project

    with progress_bar() as progress:
        found = check(read_project(project), progress)
    if as_json:
        emit(
            {
                "schema": "steelyard.check/1",
                "project": found.project,
                "robot": found.robot,
                "runs": list(found.runs),
                "verdict": found.verdict,
                "failed": found.failed,
                "relative_error": found.relative_error,
                "findings": [asdict(finding) for finding in found.findings],
            }
        )
    say_findings(found.findings)
    say(found.verdict, "bold red" if found.failed else "bold green")
    if found.failed:
        raise typer.Exit(FAULTY)
