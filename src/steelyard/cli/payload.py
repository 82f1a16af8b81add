"""Command that weighs: `payload`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from steelyard.cli import option_values
from steelyard.cli.console import JsonFlag, emit, number, people, percent, progress_bar, say, say_findings
from steelyard.errors import ProjectError, choices

if TYPE_CHECKING:
    from steelyard.identification.weighing import PayloadResult, Quantity

DOCUMENT = "payload.json"


def payload_command(
    result: Annotated[Path, typer.Argument(help="A run folder or its result.json: the robot as identified.")],
    logs: Annotated[list[Path], typer.Argument(help="Logs of the robot carrying the payload, columns as in the fit.")],
    link: Annotated[str, typer.Option(help="The link that carries it; default the last.")] = "",
    known: Annotated[
        list[str] | None, typer.Option(help="What is known of it, e.g. M=2.8; may be repeated.", metavar="NAME=VALUE")
    ] = None,
    free: Annotated[
        list[str] | None,
        typer.Option(help=f"Fit anew on these logs: {', '.join(option_values.FREE)}; may be repeated."),
    ] = None,
    rows: Annotated[tuple[int, int] | None, typer.Option(help="First and last row of the log to use.")] = None,
    seconds: Annotated[tuple[float, float] | None, typer.Option(help="From and to, by the log's clock.")] = None,
    name: Annotated[str, typer.Option(help="A name for the payload.")] = "payload",
    out: Annotated[Path | None, typer.Option(help=f"Folder to write {DOCUMENT} to.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Weigh an unknown payload with a robot that is already identified: mass, centre of mass, inertia."""
    from steelyard.identification.weighing import weigh_payload
    from steelyard.model.payload import Payload
    from steelyard.project.documents import text
    from steelyard.project.output_folder import check_folder, write_folder
    from steelyard.project.reopen import reopen

    if rows is not None and seconds is not None:
        raise ProjectError("--rows and --seconds both bound the log; keep one.")
    if len(logs) > 1 and (rows is not None or seconds is not None):
        raise ProjectError("--rows and --seconds belong to one log; weigh the logs one by one.")
    body = Payload(name, link, known=_known(known or ()))
    if out is not None:
        check_folder(out, (DOCUMENT,))
    reopened = reopen(result, logs, rows=rows, seconds=seconds)
    with progress_bar() as progress:
        problem, runs = reopened.problem(progress)
        found = weigh_payload(reopened.result, problem, body, tuple(dict.fromkeys(free or ())), progress)
    logs_read = [{"name": run.name, "source": run.source, "sha256": run.sha256} for run in runs]
    document = _document(found) | {"logs": logs_read}
    if out is not None:
        write_folder(out, {DOCUMENT: text(document)}, (DOCUMENT,))
    if as_json:
        emit(document)
    _show(found)
    if out is not None:
        say(f"Payload: {out / DOCUMENT}")


def _known(given: Sequence[str]) -> dict[str, float]:
    """{"M": 2.8} from "M=2.8"."""
    from steelyard.model.parameters import INERTIAL

    out: dict[str, float] = {}
    for one in given:
        symbol, _, value = (part.strip() for part in one.partition("="))
        if symbol not in INERTIAL:
            raise ProjectError(
                f"--known {one}: {choices('parameter', symbol, INERTIAL)} M is the mass; MX, MY, MZ are the mass times "
                "the centre of mass."
            )
        try:
            out[symbol] = float(value)
        except ValueError:
            raise ProjectError(f"--known takes NAME=VALUE with a number, e.g. M=2.8, not '{one}'.") from None
    return out


def _document(found: PayloadResult) -> dict[str, Any]:
    from steelyard.project.documents import record

    body, payload = found.physical, found.payload

    def plain(quantities: Sequence[Quantity]) -> list[dict[str, Any]]:
        return [{**asdict(one), "std": one.std} for one in quantities]

    return record(
        "steelyard.payload/1",
        {
            "robot": found.robot,
            "name": payload.name,
            "link": payload.link,
            "known": dict(payload.known),
            "verdict": found.verdict,
            "body": plain(found.body),
            "parameters": plain(found.parameters),
            "covariance_log": found.covariance_log,
            "covariance_robot": found.covariance_robot,
            "clusters": found.clusters,
            "physical": None if body is None else {"passes": body.passes, "verdict": body.verdict},
            "impossible_by_sigma": found.impossible_by,
            "relative_error": asdict(found.relative_error),
            "unloaded": asdict(found.unloaded),
            "fitted": asdict(found.fitted),
            "unexplained": list(found.unexplained),
            "refitted": {name: one._asdict() for name, one in found.refitted.items()},
            "findings": [asdict(finding) for finding in found.findings],
        },
    )


# --- Shown to people --------------------------------------------------------------------------------------------------


def _show(found: PayloadResult) -> None:
    for title, quantities in (("body", found.body), ("about the payload's frame", found.parameters)):
        table = Table(Column(title, no_wrap=True), "value", "± σ", "σ of the log", "σ of the robot", "unit")
        for one in quantities:
            numbers = (one.value, one.std, one.std_log, one.std_robot)
            table.add_row(one.name, *map(number, numbers), one.unit)
        people.print(table)
    scores = (found.unloaded, found.relative_error, found.fitted)
    errors = Table("relative error", "without payload", "with", "in the fit", "rows")
    for joint, rows in found.relative_error.rows.items():
        style = "red" if joint in found.unexplained else None
        errors.add_row(joint, *(percent(score.joints[joint]) for score in scores), str(rows), style=style)
    totals = [percent(score.total) for score in scores]
    errors.add_row("total", *totals, str(sum(found.relative_error.rows.values())), style="bold")
    people.print(errors)
    if found.refitted:
        anew = Table(Column("fitted anew", no_wrap=True), "identified", "here", "± σ", "unit")
        for name, one in found.refitted.items():
            anew.add_row(name, *map(number, one[:3]), one.unit)
        people.print(anew)
    say(f"Scored: {found.relative_error.mask}")
    say_findings(found.findings)
    say(found.verdict, "bold")
