"""Every table of an identification, by name."""

from __future__ import annotations

from collections.abc import Mapping

from steelyard.identification.result import Identification
from steelyard.report.table import Table
from steelyard.report.tables.bodies import body_table, payload_table
from steelyard.report.tables.errors import error_table
from steelyard.report.tables.parameters import (
    correlation_table,
    gain_table,
    leg_table,
    parameter_table,
    standard_table,
)
from steelyard.report.tables.provenance import finding_table, run_table

# The tables that a result may have.
TABLE_NAMES = (
    "parameters", "errors", "standard", "gains", "payloads", "bodies", "legs", "correlations", "findings", "runs",
)  # fmt: skip


def tables_of(result: Identification, links: Mapping[str, str] | None = None) -> dict[str, Table]:
    """Every table of a result that has rows, by its name; `links` names the link that carries each payload."""
    made = (
        parameter_table(result),
        error_table(result),
        standard_table(result),
        gain_table(result),
        payload_table(result, links),
        body_table(result),
        leg_table(result),
        correlation_table(result),
        finding_table(result.findings),
        run_table(result),
    )
    return {one.name: one for one in made if one.rows}
