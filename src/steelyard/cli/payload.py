"""Command that identifies a payload: `payload`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    progress_bar,
    say,
    say_findings,
    write_page,
)
from steelyard.cli.tables import show
from steelyard.errors import ProjectError, choices

if TYPE_CHECKING:
    from steelyard.identification.weighing import PayloadResult, Quantity

DOCUMENT = "payload.json"


def payload_command(
    result: Annotated[Path, typer.Argument(help="Run folder or result.json of the robot without the payload.")],
    logs: Annotated[
        list[Path], typer.Argument(help="Logs of the robot with the payload, with the columns of the fit.")
    ],
    link: Annotated[str, typer.Option(help="Link that carries the payload. Default: the last.")] = "",
    known: Annotated[
        list[str] | None,
        typer.Option(help="Known parameter of the payload [SI], e.g. M=2.8; may be repeated.", metavar="NAME=VALUE"),
    ] = None,
    free: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Robot parameters to fit again on these logs: {', '.join(option_values.FREE)}; may be repeated.",
            autocompletion=option_values.completing(option_values.FREE),
        ),
    ] = None,
    rows: RowsOption = None,
    seconds: SecondsOption = None,
    episode: EpisodeOption = None,
    name: Annotated[str, typer.Option(help="Name of the payload in the output.")] = "payload",
    out: Annotated[Path | None, typer.Option(help=f"Folder to write {DOCUMENT} to. Default: no file.")] = None,
    page: PageOption = None,
    as_json: JsonFlag = False,
) -> None:
    from steelyard.identification.weighing import weigh_payload
    from steelyard.model.payload import Payload
    from steelyard.project.documents import text
    from steelyard.project.output_folder import check_folder, write_folder
    from steelyard.project.reopen import reopen
    from steelyard.report.pages.compared import payload_page

    check_page(page)
    check_part(logs, rows, seconds, episode)
    body = Payload(name, link, known=_known(known or ()))
    if out is not None:
        check_folder(out, (DOCUMENT,))
    reopened = reopen(result, logs, rows=rows, seconds=seconds, episode=episode)
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
    write_page(page, lambda: payload_page(found, reopened.result.robot, found.verdict))
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
    from steelyard.project.documents import plain, record

    body, payload = found.physical, found.payload

    def with_std(quantities: Sequence[Quantity]) -> list[dict[str, Any]]:
        return [plain(one) | {"std": one.std} for one in quantities]

    return record(
        "steelyard.payload/2",
        {
            "robot": found.robot,
            "name": payload.name,
            "link": payload.link,
            "known": payload.known,
            "verdict": found.verdict,
            "body": with_std(found.body),
            "parameters": with_std(found.parameters),
            "covariance_log": found.covariance_log,
            "covariance_robot": found.covariance_robot,
            "clusters": found.clusters,
            "physical": None if body is None else {"passes": body.passes, "verdict": body.verdict},
            "unphysical_by_sigma": found.unphysical_by,
            "relative_error": found.relative_error,
            "unloaded": found.unloaded,
            "fitted": found.fitted,
            "unexplained": found.unexplained,
            "refitted": {name: one._asdict() for name, one in found.refitted.items()},
            "findings": found.findings,
        },
    )


# --- Shown to people --------------------------------------------------------------------------------------------------


def _show(found: PayloadResult) -> None:
    from steelyard.report.tables.weighing import (
        body_quantity_table,
        inertial_table,
        refitted_table,
        weighing_error_table,
    )

    show(body_quantity_table(found))
    show(inertial_table(found))
    show(weighing_error_table(found))
    show(refitted_table(found))
    say_findings(found.findings)
    say(found.verdict, "bold")
