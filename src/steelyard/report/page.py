"""render: an identification as one HTML page that needs no server, no network and no other file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from steelyard.identification.delays import Delays
from steelyard.identification.prediction import Prediction
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.report import numerals
from steelyard.report.figures.spectrum import RunSpectra
from steelyard.report.lamps import Lamp
from steelyard.report.packing import embedded_figures
from steelyard.report.printers import html
from steelyard.report.registry import BUILT_IN, SECTIONS
from steelyard.report.section import Figure, FigureChoice, Piece, Repeat, ReportSubject, Section
from steelyard.report.sections.findings import finding_counts
from steelyard.report.table import Table
from steelyard.report.tables.parameters import parameter_table, quality_counts
from steelyard.report.templates import file_text, fragment, rendered
from steelyard.validation.estimator_scores import EstimatorScores

if TYPE_CHECKING:
    from steelyard.export.file_fit.worth import FileWorth


def render(
    result: Identification,
    predictions: tuple[Prediction, ...],
    title: str,
    links: Mapping[str, str] | None = None,
    on_fault: Callable[[str], None] | None = None,
    *,
    model: Model | None = None,
    spectra: tuple[RunSpectra, ...] = (),
    repeat: Repeat | None = None,
    lamps: tuple[Lamp, ...] = (),
    files: Mapping[str, FileWorth] | None = None,
    delays: Delays | None = None,
    estimators: EstimatorScores | None = None,
) -> str:
    """The page: key numbers, then every section of `SECTIONS` that applies; `links` names the link that carries each
    payload. `on_fault` receives a sentence per section of the user that failed, which the page also shows. The other
    arguments are those of `ReportSubject`.

    The same arguments give the same bytes.
    """
    subject = ReportSubject(
        result, predictions, title, links or {}, model, spectra, repeat, lamps, files or {}, delays, estimators
    )
    parts = [(section, pieces) for section in SECTIONS.values() if (pieces := _pieces(section, subject, on_fault))]
    drawn = any(isinstance(piece, Figure | FigureChoice) for _, pieces in parts for piece in pieces)
    return rendered(
        "page.html",
        title,
        result=result,
        repeat=repeat,
        lamps=lamps,
        verdict=spoken(result.verdict),
        quality_counts=quality_counts(parameter_table(result)),
        finding_counts=finding_counts(result.findings),
        rows=sum(result.relative_error.rows.values()),
        sections=[(section, Markup("\n").join(piece_html(piece) for piece in pieces)) for section, pieces in parts],
        script=Markup(file_text("page.js")),
        plotly=embedded_script(get_plotlyjs()) if drawn else "",
    )


def _pieces(section: Section, subject: ReportSubject, on_fault: Callable[[str], None] | None = None) -> Sequence[Piece]:
    """The pieces of a section. If a section of the user fails, the page shows the error, and the rest of the page is
    written."""
    if section.name in BUILT_IN:
        return section.pieces(subject)
    try:
        pieces = _listed(section.pieces(subject))
        for piece in pieces:
            piece_html(piece)
    except Exception as error:
        fault = f"Section '{section.name}' failed ({type(error).__name__}: {error}): fix its `pieces` function."
        if on_fault is not None:
            on_fault(fault)
        return [fault]
    return pieces


def _listed(made: Any) -> list[Piece]:
    """What a function `pieces` returned as a list: a single piece is a list of one."""
    if isinstance(made, Piece):
        return [made]
    if made is None or isinstance(made, Mapping) or not isinstance(made, Iterable):
        raise TypeError(f"it returned {type(made).__name__}, not a list of pieces; return [] to leave the section out")
    return list(made)


def piece_html(piece: Piece) -> Markup:
    """A piece of a section as HTML; texts are escaped."""
    if isinstance(piece, Table):
        return html(piece, with_csv=True)
    if isinstance(piece, Figure):
        own = {"name": "", "figure": piece.figure, "caption": piece.caption}
        return piece_html(FigureChoice(({"name": "", "joints": [own]},)))
    if isinstance(piece, FigureChoice):
        single = len(piece.groups) == 1 and len(piece.groups[0]["joints"]) == 1
        return fragment(
            "figure.html",
            groups=piece.groups,
            label=piece.label,
            linked=piece.linked,
            single=single,
            data=embedded_figures(piece.groups),
        )
    if isinstance(piece, Markup):
        return piece
    if isinstance(piece, str):
        return Markup('<p class="note">{}</p>').format(piece)
    raise TypeError(f"a piece of a section is a text, Markup, Table or Figure, not {type(piece).__name__}")


def spoken(sentence: str) -> str:
    """A sentence without NaN: a number that does not exist is a dash."""
    return re.sub(r"\bnan\b%?", numerals.DASH, sentence)


def embedded_script(source: str) -> Markup:
    """Program text that may stand inside a script element; `<\\/` is `</` in a JavaScript string or pattern."""
    return Markup(source.replace("</script", "<\\/script").replace("<!--", "<\\!--"))
