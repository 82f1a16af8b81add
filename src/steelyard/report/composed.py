"""compose: a page of given parts, where there is no single result to report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from steelyard.report.page import embedded_script, piece_html
from steelyard.report.section import Figure, FigureChoice, Piece
from steelyard.report.table import Table
from steelyard.report.templates import file_text, rendered


@dataclass(frozen=True)
class ComposedPart:
    """A part of a composed page: its anchor, its heading, and its pieces."""

    name: str
    title: str
    pieces: tuple[Piece, ...]


def compose(title: str, kicker: str, verdict: str, facts: str, parts: Sequence[ComposedPart]) -> str:
    """The page as one HTML file without a server; the same arguments give the same bytes."""
    drawn = any(isinstance(piece, Figure | FigureChoice) for part in parts for piece in part.pieces)
    bodies = [(part, Markup("\n").join(_headed(piece) for piece in part.pieces)) for part in parts]
    return rendered(
        "composed.html",
        title,
        kicker=kicker,
        verdict=verdict,
        facts=facts,
        parts=bodies,
        script=Markup(file_text("page.js")),
        plotly=embedded_script(get_plotlyjs()) if drawn else "",
    )


def _headed(piece: Piece) -> Markup:
    """A piece as HTML, a table under its title."""
    made = piece_html(piece)
    return Markup("<h3>{}</h3>\n{}").format(piece.title, made) if isinstance(piece, Table) and piece.title else made
