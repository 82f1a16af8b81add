"""Section of findings, the most severe first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from steelyard.findings import Finding
from steelyard.report.section import Piece, ReportSubject, Section
from steelyard.report.tables.provenance import SEVERITIES, ordered_findings
from steelyard.report.templates import fragment


def _pieces(subject: ReportSubject) -> Sequence[Piece]:
    findings = ordered_findings(subject.result.findings)
    return [fragment("sections/findings.html", findings=findings)] if findings else ["Nothing to report."]


def finding_counts(findings: Sequence[Finding]) -> str:
    """`1 error, 2 warnings, 1 info`."""
    count = Counter(finding.severity for finding in findings)
    parts = [f"{count[s]} {s}{'s' if count[s] != 1 and s != 'info' else ''}" for s in SEVERITIES if count[s]]
    return ", ".join(parts) or "none"


FINDINGS = Section("findings", "Findings", _pieces)
