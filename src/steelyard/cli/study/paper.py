"""Command that repeats the experiment of a paper: `paper`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli import option_values
from steelyard.cli.console import JsonFlag, emit, progress_bar, say
from steelyard.cli.door.exit_codes import ExitCode
from steelyard.cli.tables import show


def paper_command(
    name: Annotated[
        str,
        typer.Argument(
            help=f"Paper: {', '.join(option_values.PAPERS)}.",
            autocompletion=option_values.completing(option_values.PAPERS),
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with the project file of a recording, which gets a section.", metavar="FOLDER"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer simulated experiments: under two minutes.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for motions and noise.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the page and the numbers. Default: runs/paper-NAME.")
    ] = None,
    as_json: JsonFlag = False,
) -> ExitCode:
    """p0: consistent standard parameters (TX-40); p1: recursive estimation (planar arm); p2: drive gains and spring
    balancer (KR270); p3: parallel robots and control (Orthoglide); p4: instrumental variables and DIDIM (TX-40)."""
    from steelyard.project.output_folder import REPORT, check_folder
    from steelyard.project.papers.page.paper_page import PaperRequest, claim_table
    from steelyard.project.papers.registry import DOCUMENT, experiments_of, reproduced, write_page

    count = experiments_of(name, quick)
    folder = out or Path("runs") / f"paper-{name}"
    check_folder(folder, (REPORT, DOCUMENT))
    with progress_bar() as progress:
        page = reproduced(name, PaperRequest(count, seed, data, progress))
    report = write_page(page, folder)
    if as_json:
        emit(page.document())
    for own in page.tables.values():
        show(own)
    show(claim_table(page.claims))
    say(page.verdict, "bold")
    say(f"Page: {report}")
    return ExitCode.JUDGED if page.broken else ExitCode.DONE
