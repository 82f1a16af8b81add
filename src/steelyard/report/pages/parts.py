"""parts_page: a page of any command from its verdict and its parts, as sections of the report are made of pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from steelyard.findings import Finding
from steelyard.report.page import embedded_script, piece_html, spoken
from steelyard.report.section import Figure, FigureChoice, Piece
from steelyard.report.table import Table
from steelyard.report.tables.provenance import ordered_findings
from steelyard.report.templates import file_text, fragment, rendered


class PagePart(NamedTuple):
    """A section of a page: its anchor, its heading and its pieces; left out if it has none."""

    name: str
    heading: str
    pieces: Sequence[Piece]


def parts_page(kicker: str, title: str, verdict: str, parts: Sequence[PagePart], facts: str = "") -> str:
    """One HTML page that needs no other file; the same arguments give the same bytes."""
    shown = [part for part in parts if any(not isinstance(piece, Table) or piece.rows for piece in part.pieces)]
    drawn = any(isinstance(piece, Figure | FigureChoice) for part in shown for piece in part.pieces)
    return rendered(
        "parts.html",
        title,
        kicker=kicker,
        verdict=spoken(verdict),
        facts=facts,
        parts=[(part.name, part.heading, Markup("\n").join(map(piece_html, part.pieces))) for part in shown],
        script=Markup(file_text("page.js")),
        plotly=embedded_script(get_plotlyjs()) if drawn else "",
    )


def findings_part(findings: Sequence[Finding]) -> PagePart:
    """The findings, the most severe first; no part without any."""
    ordered = ordered_findings(findings)
    return PagePart("findings", "Findings", [fragment("sections/findings.html", findings=ordered)] if ordered else [])
