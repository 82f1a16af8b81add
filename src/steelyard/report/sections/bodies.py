"""Sections of bodies: payloads, and the links of a certified standard set."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.report.section import Piece, ReportSubject, Section
from steelyard.report.tables.bodies import body_table, cost_text, payload_table


def _payloads(subject: ReportSubject) -> Sequence[Piece]:
    table = payload_table(subject.result, subject.links or None)
    return [table] if table.rows else []


def _bodies(subject: ReportSubject) -> Sequence[Piece]:
    result, table = subject.result, body_table(subject.result)
    certificate = result.certificate
    if certificate is None or not table.rows:
        return []
    verdict = (
        f"Every body can exist: no eigenvalue of its pseudo-inertia P is {certificate.bound_text}."
        if certificate.holds
        else f"Not every body can exist: an eigenvalue of its pseudo-inertia P is {certificate.bound_text}."
    )
    source = "estimate with the prior alone (map)" if certificate.weight else "unconstrained estimate"
    cost = f"Its cost: {cost_text(result)}; {certificate.moved_text(len(result.base))}."
    return [table.with_notes(f"{verdict} {cost} σ of the parameters is that of the {source}.")]


PAYLOADS = Section("payloads", "Payloads", _payloads)
BODIES = Section("bodies", "Bodies", _bodies)
