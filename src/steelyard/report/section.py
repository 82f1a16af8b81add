"""Section: a part of the report as one object, and the pieces it is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from steelyard.identification.delays import Delays
from steelyard.identification.prediction import Prediction
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.report.figures.spectrum import RunSpectra
from steelyard.report.lamps import Lamp
from steelyard.report.table import Table
from steelyard.validation.estimator_scores import EstimatorScores

if TYPE_CHECKING:
    from steelyard.export.file_fit.worth import FileWorth


@dataclass(frozen=True)
class Repeat:
    """What is needed to make a result again: the text of its project, with numbers for automatic settings; its file
    name; the date of the fit; the robot as `read_robot` takes it; the filters [Hz]."""

    project: str
    file: str
    date: str
    robot: str
    robot_sha256: str = ""
    cutoff_hz: float | None = None
    lowpass_hz: float | None = None


@dataclass(frozen=True)
class ReportSubject:
    """What a report is about: the result, efforts row by row, the page's title, and the link that carries each payload.

    `predictions` are those of the fitted runs, then of the unseen ones; none where no rows were kept. `model` is that
    of the fit, `spectra` those of its logs before any filter, `repeat` what is needed to make the result again, `lamps`
    the answers on its top, `files` the scores of robot files that were asked for, by format, `delays` those of the
    efforts, `estimators` the scores of others on the same rows. Without one of these, what it shows is left out.
    """

    result: Identification
    predictions: tuple[Prediction, ...] = ()
    title: str = ""
    links: Mapping[str, str] = field(default_factory=dict)
    model: Model | None = None
    spectra: tuple[RunSpectra, ...] = ()
    repeat: Repeat | None = None
    lamps: tuple[Lamp, ...] = ()
    files: Mapping[str, FileWorth] = field(default_factory=dict)
    delays: Delays | None = None
    estimators: EstimatorScores | None = None


@dataclass(frozen=True)
class Figure:
    """A Plotly figure as plain data, {"data": […], "layout": {…}}, with its caption as text.

    The page sets colours and fonts for its light or dark scheme. A trace is coloured by its role in `meta`: "measured",
    "predicted", "nominal" or "residual" for lines, "dots" for points; without a role it keeps its own colours. Plotly
    interprets markup in texts: put no name of a user's file or joint into one.
    """

    figure: Mapping[str, Any]
    caption: str = ""


@dataclass(frozen=True)
class FigureChoice:
    """Groups of figures next to each other, one per joint; a reader chooses the group, e.g. a run.

    `groups` has {"name": …, "joints": [{"name", "figure", "caption"}]} and optionally a "note" on all its figures.
    `label` says what a group is. `linked` figures have one range of x: a zoom in one applies to all. A figure is drawn
    when it comes into view.
    """

    groups: tuple[Mapping[str, Any], ...]
    label: str = "Run"
    linked: bool = False


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
