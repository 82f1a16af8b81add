"""Sections about the origin of the result: preparation of the data, inputs and versions."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.report import numerals
from steelyard.report.section import Piece, ReportSubject, Section
from steelyard.report.table import TableColumn, table
from steelyard.report.templates import fragment


def _data(subject: ReportSubject) -> Sequence[Piece]:
    result = subject.result
    return [fragment("sections/data.html", runs=result.runs, mask=result.relative_error.mask)]


def _provenance(subject: ReportSubject) -> Sequence[Piece]:
    result, base = subject.result, subject.result.base
    options = "".join(f", {key} = {value}" for key, value in result.estimator_options.items())
    kept, dropped = numerals.number(base.smallest_kept, 2), numerals.number(base.largest_dropped, 2)
    rows = [
        ("Robot", result.robot),
        ("Estimator", f"{result.estimator}{options}"),
        ("Blocks left out in turn", str(result.clusters or numerals.DASH)),
        ("Columns", f"{len(base.layout)} standard, {len(base.zero)} without effect on the effort, {len(base)} base"),
        ("Rank decision", f"smallest sine kept {kept}, largest dropped {dropped}"),
        (
            "Condition number",
            f"{numerals.number(result.condition)}, with scaled columns {numerals.number(result.condition_scaled)}",
        ),
        *((f"SHA-256 of {run.name}", run.sha256 or numerals.DASH) for run in result.runs),
        ("Versions", ", ".join(f"{package} {version}" for package, version in result.versions.items())),
    ]
    return [table("provenance", "Provenance", (TableColumn("what", "What"), TableColumn("value", "Value")), rows)]


DATA = Section("data", "What was done to the data", _data, "Data")
PROVENANCE = Section("provenance", "Provenance", _provenance)
