"""Tables of the findings and the runs of a result."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.findings import Finding
from steelyard.identification.result import Identification
from steelyard.report.table import Table, TableColumn, table

SEVERITIES = ("error", "warning", "info")


def finding_table(findings: Sequence[Finding]) -> Table:
    """The most severe first, otherwise in the order they came."""
    columns = (
        TableColumn("severity", "Severity"),
        TableColumn("code", "Code", "code"),
        TableColumn("where", "Where"),
        TableColumn("message", "Finding"),
        TableColumn("fix", "What to do"),
    )
    rows = [(one.severity, one.code, one.where, one.message, one.fix) for one in ordered_findings(findings)]
    return table("findings", "Findings", columns, rows)


def ordered_findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The most severe first, otherwise in the order they came."""
    return tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))


def run_table(result: Identification) -> Table:
    """Every run used."""
    columns = (
        TableColumn("name", "Run"),
        TableColumn("role", "Role"),
        TableColumn("load", "Load case"),
        TableColumn("rate_hz", "Rate", "given", unit="Hz"),
        TableColumn("source", "Source"),
        TableColumn("sha256", "SHA-256", "code", shown=False),
    )
    rows = [(one.name, one.role, one.load, one.rate_hz, one.source, one.sha256) for one in result.runs]
    return table("runs", "Runs", columns, rows)
