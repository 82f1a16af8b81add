"""Command that begins a project: `init`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

from steelyard.cli.console import FAILED, JsonFlag, emit, people, say, say_findings

if TYPE_CHECKING:
    from steelyard.project.draft import Draft
    from steelyard.signals.guess import Guess


def init(
    robot: Annotated[str, typer.Argument(help="A built-in name, or a .toml, .urdf or MJCF file.")],
    logs: Annotated[list[Path], typer.Argument(help="Logs of that robot with the same columns, a run each.")],
    out: Annotated[Path, typer.Option(help="Project file to write.")] = Path("project.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a project file that exists.")] = False,
    topic: Annotated[str | None, typer.Option(help="Topic of a ROS bag.")] = None,
    episode: Annotated[int | None, typer.Option(help="Episode of a LeRobot file.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Guess what the columns of logs are, say why, and write a commented project file."""
    from steelyard.project.draft import draft_project, write_draft

    draft = draft_project(robot, logs, out, topic=topic, episode=episode)
    write_draft(draft, force)
    if as_json:
        emit(_document(draft))
    _show(draft)
    if any(one.severity == "error" for one in draft.guess.findings):
        raise typer.Exit(FAILED)


def _document(draft: Draft) -> dict[str, object]:
    guess = {name: value for name, value in asdict(draft.guess).items() if name != "findings"}
    return {
        "schema": "steelyard.init/1",
        "project": str(draft.path),
        "robot": draft.robot.name,
        "joints": list(draft.robot.axis_names),
        "guess": guess,
        "questions": [asdict(one) for one in draft.guess.findings],
    }


def _show(draft: Draft) -> None:
    from steelyard.signals.guess.names import range_of

    guess = draft.guess
    table = Table("signal", Column("columns", no_wrap=True), "unit", "side", "because")
    table.add_row("time", guess.time.column, guess.time.unit, "", "\n".join(guess.time.why))
    for label, one in guess.signals.items():
        units = ", ".join(dict.fromkeys(one.units))
        table.add_row(label, range_of(one.columns), units, one.side, "\n".join(one.why))
    if guess.left_out:
        table.add_row("v", "—", "", "", f"left out, positions are differentiated: {guess.left_out}")
    people.print(table)
    _show_others(guess)
    say_findings(guess.findings)
    blank = any(one.severity == "error" for one in guess.findings)
    say(f"Project: {draft.path}" + (" (fill in what is missing, then identify)" if blank else ""), "bold")


def _show_others(guess: Guess) -> None:
    from steelyard.signals.guess.names import range_of

    for label, one in {"time": guess.time, **guess.signals}.items():
        for other in one.others:
            say(f"not taken for {label}: {range_of(other.columns)} ({other.why})")
