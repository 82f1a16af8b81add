"""A result in the terminal: verdict and findings; its tables only where they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.console import say, say_findings
from steelyard.cli.tables import show
from steelyard.findings import Finding
from steelyard.report.table import Emphasis, Table, TableColumn, table

if TYPE_CHECKING:
    from steelyard.estimators.estimator import Certificate
    from steelyard.identification.result import Identification
    from steelyard.report.lamps import Lamp

_MARKS = {"yes": "[+]", "with care": "[!]", "no": "[x]", "not known": "[?]"}
_STYLES = {"yes": "green", "with care": "yellow", "no": "bold red", "not known": "cyan"}
TableFlag = Annotated[
    bool, typer.Option("--table", help="Print every table and note too: parameters, errors, bodies, gains.")
]


def show_result(
    result: Identification,
    links: Mapping[str, str] | None = None,
    every_table: bool = False,
    lamps: Iterable[Lamp] = (),
    selection: Mapping[str, Any] | None = None,
) -> None:
    """Print the verdict, the lamps and what needs action; with `every_table` also parameters, gains, payloads, bodies,
    errors, the terms that were tried, and notes."""
    if every_table:
        _show_tables(result, links)
        if selection is not None:
            show(_trial_table(selection))
    say(result.verdict, "bold")
    for lamp in lamps:
        say(f"{_MARKS[lamp.answer]} {lamp}", _STYLES[lamp.answer])
        say(f"    {lamp.command}")
    show_findings(result.findings, every_table)


def show_findings(findings: Iterable[Finding], notes: bool) -> None:
    """Print errors and warnings, then notes, or only their codes."""
    ordered = list(findings)
    say_findings(one for rank in ("error", "warning") for one in ordered if one.severity == rank)
    quiet = [one for one in ordered if one.severity == "info"]
    if notes:
        say_findings(quiet)
    elif quiet:
        codes = ", ".join(dict.fromkeys(one.code for one in quiet))
        say(f"{len(quiet)} note{'s' if len(quiet) > 1 else ''} in the report and with --table: {codes}")


def _show_tables(result: Identification, links: Mapping[str, str] | None) -> None:
    from steelyard.report.tables.bodies import body_table, payload_table
    from steelyard.report.tables.errors import error_table, scored
    from steelyard.report.tables.parameters import gain_table, leg_table, parameter_table

    show(parameter_table(result), without=("nominal", "expression"))
    show(gain_table(result), notes=False)
    show(payload_table(result, links), notes=False)
    show(leg_table(result))
    show(body_table(result))
    show(error_table(result), without=("rmse_unseen", "rmse_nominal", "rmse_nominal_unseen"), notes=False)
    say(scored(result.relative_error.mask))
    if result.certificate is not None:
        say(_certified(result.certificate, result))


def _certified(certificate: Certificate, result: Identification) -> str:
    from steelyard.physical.cones import status_text
    from steelyard.report.tables.bodies import cost_text

    return (
        f"Certified: {certificate.consistent_bodies} of {len(certificate.smallest)} bodies can exist (no eigenvalue of "
        f"the pseudo-inertia P is {certificate.bound_text}); {status_text(certificate.status)}.\n"
        f"Cost: {cost_text(result)}; {certificate.moved_text(len(result.base))}."
    )


def _trial_table(selection: Mapping[str, Any]) -> Table:
    """Every term that was tried, its effect on the error of left-out runs, and whether it was selected."""
    columns = (
        TableColumn("term", "Term"),
        TableColumn("joint", "Joint"),
        TableColumn("without", "without", "share", group="Error on left-out runs"),
        TableColumn("including", "with", "share", group="Error on left-out runs"),
        TableColumn("gain_percent", "Gain ± σ", "estimate", of=("std_percent",), unit="%"),
        TableColumn("std_percent", "σ", "number", unit="%", shown=False),
        TableColumn("folds", "Folds better", "share"),
        TableColumn("verdict", "Verdict"),
    )
    rows = [
        (
            t["label"],
            t["joint"],
            t["without"],
            t["including"],
            100 * t["gain"],
            100 * t["std"],
            t["folds"],
            t["verdict"],
        )
        for t in selection["trials"]
    ]
    weights: list[Emphasis] = ["strong" if t["verdict"] in ("taken", "dropped") else "" for t in selection["trials"]]
    return table("trials", "Terms that were tried", columns, rows, weights)
