"""The part of a page with its findings."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.findings import Finding
from steelyard.report.composed import ComposedPart
from steelyard.report.tables.provenance import ordered_findings
from steelyard.report.templates import fragment


def findings_part(findings: Sequence[Finding]) -> ComposedPart:
    """The findings, the most severe first; without pieces if there are none."""
    ordered = ordered_findings(findings)
    pieces = (fragment("sections/findings.html", findings=ordered),) if ordered else ()
    return ComposedPart("findings", "Findings", pieces)
