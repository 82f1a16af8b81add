"""Section: a part of the report as one object, and the pieces it is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from steelyard.identification.prediction import Prediction
from steelyard.identification.result import Identification
from steelyard.report.table import Table

if TYPE_CHECKING:
    from steelyard.export.file_fit.worth import FileWorth


@dataclass(frozen=True)
class ReportSubject:
    """What a report is about: the result, efforts row by row, the page's title, and the link that carries each payload.

    `predictions` are those of the fitted runs, then of the unseen ones; none where no rows were kept. `files` holds
    the scores of robot files that were asked for, by the name of their format.
    """

    result: Identification
    predictions: tuple[Prediction, ...] = ()
    title: str = ""
    links: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, FileWorth] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """A Plotly figure as plain data, {"data": […], "layout": {…}}, with its caption as text.

    The page sets colours and fonts for its light or dark scheme. A trace is coloured by its role in `meta`: "measured",
    "predicted", "nominal", "residual" or "unscored"; without a role it keeps its own line. Plotly interprets markup in
    texts: put no name of a user's file or joint into one.
    """

    figure: Mapping[str, Any]
    caption: str = ""


@dataclass(frozen=True)
class FigureChoice:
    """Figures of which a reader picks one: first a group (a run), then one in it (a joint).

    `groups` has {"name": …, "joints": [{"name", "figure", "caption"}]}; only the selected figure is drawn.
    """

    groups: tuple[Mapping[str, Any], ...]


# A text becomes an escaped paragraph; Markup is inserted as HTML.
Piece = str | Markup | Table | Figure | FigureChoice


@dataclass(frozen=True)
class Section:
    """A part of the report.

    name    its anchor in the page, report.html#NAME: lower-case letters, digits and hyphens
    title   its heading
    pieces  what it shows about a subject, in order; none where it does not apply, which leaves the section out
    link    its name in the page's navigation; the title where it is empty
    """

    name: str
    title: str
    pieces: Callable[[ReportSubject], Sequence[Piece]]
    link: str = ""
