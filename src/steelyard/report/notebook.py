"""Objects in a notebook: short HTML of the main types, their main table as a data frame, and figures for Plotly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape

from steelyard.design.design import Design
from steelyard.errors import OutputError
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.robot import BASE, Robot
from steelyard.regression.problem import Problem
from steelyard.report import numerals
from steelyard.report.printers import frame, html
from steelyard.report.section import Figure
from steelyard.report.table import Table, TableColumn, table
from steelyard.report.tables.design import limit_table
from steelyard.report.tables.errors import error_table
from steelyard.report.tables.parameters import parameter_table
from steelyard.report.tables.validation import validation_table
from steelyard.report.templates import file_text
from steelyard.signals.samples import Samples
from steelyard.validation.held_out import Validation

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import polars as pl


def html_of(shown: object) -> str:
    """A heading, a sentence and the main table of an object, with the styles of the report inside one element."""
    title, sentence, tables = _parts(shown)
    # the styles of the page apply to this element only
    style = file_text("style.css").replace(":root", ":scope")
    body = Markup("").join(html(one) for one in tables)
    return str(
        Markup('<div class="steelyard"><style>@scope {{ {} }}</style><h3>{}</h3><p>{}</p>{}</div>').format(
            Markup(style), escape(title), escape(sentence), body
        )
    )


def frame_of(shown: object) -> pl.DataFrame:
    """The main table of an object as a Polars frame; of samples the rows: run time t, then q, v, a, effort of every
    joint."""
    import polars as pl

    if isinstance(shown, Samples):
        return pl.DataFrame(_rows(shown))
    return frame(_parts(shown)[2][0])


def pandas_of(shown: object) -> Any:
    """The same as a pandas frame."""
    try:
        import pandas as pd  # type: ignore[import-not-found]
    except ModuleNotFoundError:
        raise OutputError("to_pandas() needs pandas: pip install pandas. to_polars() works without it.") from None
    return pd.DataFrame({name: column.to_list() for name, column in frame_of(shown).to_dict().items()})


def plotly_figure(figure: Figure | Mapping[str, Any]) -> go.Figure:
    """A figure of the report as a Plotly object, to show or change in a notebook; without the colours of the page."""
    import plotly.graph_objects as go

    return go.Figure(dict(figure.figure if isinstance(figure, Figure) else figure))


def _parts(shown: object) -> tuple[str, str, list[Table]]:
    """Title, sentence and tables, the main one first."""
    match shown:
        case Robot():
            return f"Robot {shown.name}", _robot_text(shown), [_joint_table(shown)]
        case Model():
            base = base_parameters(shown)
            terms = ", ".join(term.name for term in shown.terms) or "none"
            said = f"{len(shown.layout)} standard parameters, {len(base)} base parameters; terms: {terms}."
            return f"Model of {shown.robot.name}", said, [_column_table(shown)]
        case Samples():
            said = f"{shown.count} samples at {shown.rate:g} Hz, load case {shown.load}, from {shown.source}."
            return f"Samples {shown.name}", said, [_motion_table(shown)]
        case Problem():
            filters = "no low-pass" if shown.lowpass_hz is None else f"low-pass {shown.lowpass_hz:g} Hz"
            said = f"{len(shown.runs)} runs, {len(shown.model.layout)} columns, {filters}. {shown.mask}"
            return f"Problem for {shown.model.robot.name}", said, [_runs_table(shown)]
        case Identification():
            title = f"Identification of {shown.robot} by {shown.estimator}"
            return title, shown.verdict, [parameter_table(shown), error_table(shown)]
        case Validation():
            return "Validation", shown.verdict, [validation_table(shown)]
        case Design():
            said = f"{shown.criterion} {numerals.number(shown.value)}; limits hold: {'yes' if shown.holds else 'no'}."
            return "Designed motion", said, [_sigma_table(shown), limit_table(shown.limits)]
    raise TypeError(f"{type(shown).__name__} has no table")


def _robot_text(robot: Robot) -> str:
    return f"{robot.dof} axes, {len(robot.links)} links, {len(robot.loops)} loops; from {robot.source or 'memory'}."


def _joint_table(robot: Robot) -> Table:
    columns = (
        TableColumn("joint", "Joint", "code"),
        TableColumn("kind", "Kind"),
        TableColumn("link", "Moves link", "code"),
        TableColumn("parent", "On link", "code"),
        TableColumn("lower", "From", "given"),
        TableColumn("upper", "To", "given"),
        TableColumn("velocity", "Speed limit", "given"),
        TableColumn("mass", "Mass of the link", "given", unit="kg"),
    )
    rows = [
        (
            joint.name, joint.kind, link.name,
            robot.base if joint.parent == BASE else robot.links[joint.parent].name,
            joint.limits.lower, joint.limits.upper, joint.limits.velocity,
            np.nan if link.inertia is None else float(link.inertia[9]),
        )
        for joint, link in zip(robot.joints, robot.links, strict=True)
    ]  # fmt: skip
    return table("joints", "Joints", columns, rows)


def _column_table(model: Model) -> Table:
    columns = (
        TableColumn("name", "Parameter", "code"),
        TableColumn("nominal", "In the file", "given"),
        TableColumn("unit", "Unit", "unit"),
    )
    rows = [(one.name, np.nan if one.nominal is None else one.nominal, one.unit) for one in model.layout.columns]
    return table("columns", "Parameters", columns, rows)


def _motion_table(samples: Samples) -> Table:
    columns = (
        TableColumn("joint", "Joint", "code"),
        TableColumn("lowest", "From", "given"),
        TableColumn("highest", "To", "given"),
        TableColumn("top_speed", "Top speed", "given"),
    )
    rows = list(zip(samples.joints, samples.lowest, samples.highest, samples.top_speed, strict=True))
    return table("motion", "Motion", columns, rows)


def _runs_table(problem: Problem) -> Table:
    columns = (
        TableColumn("run", "Run"),
        TableColumn("samples", "Samples", "count"),
        TableColumn("rate_hz", "Rate", "given", unit="Hz"),
        TableColumn("load", "Load case"),
    )
    rows = [(run.name, run.count, run.rate, run.load) for run in problem.runs]
    return table("runs", "Runs", columns, rows)


def _sigma_table(design: Design) -> Table:
    columns = (
        TableColumn("name", "Parameter", "code"),
        TableColumn("std", "σ to expect", "number", digits=3),
        TableColumn("unit", "Unit", "unit"),
    )
    base = design.forecast.base
    return table("sigma", "σ to expect", columns, list(zip(base.names, design.forecast.std, base.units, strict=True)))


def _rows(samples: Samples) -> dict[str, np.ndarray]:
    pieces = list(samples.open())
    start = samples.stretches[0].start
    t = [
        samples.stretches[one.stretch].start - start + (one.first + np.arange(one.q.shape[1])) / samples.rate
        for one in pieces
    ]
    data = {"t": np.concatenate(t)}
    for name in ("q", "v", "a", "effort"):
        values = np.concatenate([getattr(one, name) for one in pieces], axis=1)
        data |= {f"{name}_{joint}": row for joint, row in zip(samples.joints, values, strict=True)}
    return data
