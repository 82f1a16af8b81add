"""Command that begins a project: `init`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli import option_values
from steelyard.cli.console import JsonFlag, emit, say, say_findings
from steelyard.cli.door.exit_codes import exit_if_errors
from steelyard.cli.tables import show
from steelyard.report.table import TableColumn, table

if TYPE_CHECKING:
    from steelyard.project.draft import Draft
    from steelyard.signals.guess import Guess


def init(
    robot: Annotated[
        str,
        typer.Argument(help="Built-in robot, or a table, URDF, MJCF or SDF file.", autocompletion=option_values.robots),
    ],
    logs: Annotated[
        list[Path], typer.Argument(help="Logs of that robot, all with the same columns; each becomes a run.")
    ],
    out: Annotated[Path, typer.Option(help="Project file to write.")] = Path("project.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing project file.")] = False,
    topic: Annotated[str | None, typer.Option(help="Topic to read (ROS bags).")] = None,
    episode: Annotated[
        int | None, typer.Option(help="Episode to read (LeRobot datasets). Default: a run for each.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="Column of the clock. Default: found by name or values.", metavar="COLUMN")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Rows per second of logs without a clock [Hz].")] = None,
    hold: Annotated[list[str] | None, typer.Option(help=option_values.HOLD_HELP)] = None,
    base: Annotated[str | None, typer.Option(help=option_values.BASE_HELP)] = None,
    as_json: JsonFlag = False,
) -> None:
    """Each guess is printed with its reason; what cannot be guessed is left open in the file."""
    from steelyard.formats.robots.bases import checked_base
    from steelyard.project.draft import draft_project, refuse_existing, write_draft

    refuse_existing(out, force)
    draft = draft_project(
        robot,
        logs,
        out,
        topic=topic,
        episode=episode,
        time=time,
        rate_hz=rate,
        held=option_values.listed(hold),
        base=checked_base(base),
    )
    write_draft(draft, force)
    if as_json:
        emit(_document(draft))
    _show(draft)
    exit_if_errors(draft.guess.findings)


def _document(draft: Draft) -> dict[str, object]:
    from steelyard.project.documents import plain, record

    guess = plain(draft.guess)
    questions = guess.pop("findings")
    robot = draft.robot
    known = {"project": draft.path, "robot": robot.name, "joints": robot.axis_names}
    runs = plain(draft.runs)
    found = plain(robot.findings)
    return record("steelyard.init/2", known, guess=guess, **runs, robot_findings=found, questions=questions)


def _show(draft: Draft) -> None:
    from steelyard.signals.guess.names import range_of

    guess = draft.guess
    columns = (
        TableColumn("signal", "Signal"),
        TableColumn("columns", "Columns"),
        TableColumn("unit", "Unit"),
        TableColumn("side", "Side"),
        TableColumn("why", "Because"),
    )
    rows = [("time", guess.time.column, guess.time.unit, "", "\n".join(guess.time.why))]
    for label, one in guess.signals.items():
        units = ", ".join(dict.fromkeys(one.units))
        rows.append((label, range_of(one.columns), units, one.side, "\n".join(one.why)))
    if guess.left_out:
        rows.append(("v", "—", "", "", f"left out, positions are differentiated: {guess.left_out}"))
    show(table("guess", "", columns, rows))
    _show_others(guess)
    for note in draft.runs.notes:
        say(note)
    say_findings((*draft.robot.findings, *guess.findings))
    blank = any(one.severity == "error" for one in guess.findings)
    say(f"Project: {draft.path}" + (" (fill in the missing entries, then identify)" if blank else ""), "bold")


def _show_others(guess: Guess) -> None:
    from steelyard.signals.guess.names import range_of

    for label, one in {"time": guess.time, **guess.signals}.items():
        for other in one.others:
            say(f"not used for {label}: {range_of(other.columns)} ({other.why})")
