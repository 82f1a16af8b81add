"""Sections of numbers per parameter: base parameters, standard set, drive gains, legs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.physical.certificates import judged_set
from steelyard.report import numerals
from steelyard.report.figures.forest import correlation_figure, forest_figure, singular_figure, singular_values
from steelyard.report.section import Figure, FigureChoice, Piece, ReportSubject, Section
from steelyard.report.tables.links import link_table
from steelyard.report.tables.parameters import (
    QUALITIES,
    gain_table,
    leg_table,
    nominal_values,
    parameter_table,
    quality_counts,
    weak_table,
)
from steelyard.report.templates import fragment


def _parameters(subject: ReportSubject) -> Sequence[Piece]:
    result = subject.result
    table = parameter_table(result)
    missing = [] if result.nominal else ["No nominal column: no nominal inertias in the robot file."]
    sums = [row for row in table.records() if row["terms"] > 3]
    counts = {name: QUALITIES[name] for name in quality_counts(table)}
    legend = fragment("sections/parameters.html", clusters=result.clusters, qualities=counts, sums=sums)
    return [*_forest(subject), *_weak(subject), *missing, table, legend]


def _forest(subject: ReportSubject) -> list[Piece]:
    """Parameters with σ below half the value, link by link."""
    result = subject.result
    owners = _owners(result, subject.model)
    known = np.asarray(result.relative_std < 0.5) & np.isfinite(result.value)
    low, high = result.interval()
    nominal = np.array(nominal_values(result))
    columns = result.base.layout.columns
    joints: list[dict[str, Any]] = []
    for owner in dict.fromkeys(owners):
        own = [k for k in np.flatnonzero(known).tolist() if owners[k] == owner]
        if own:
            symbols = [columns[result.base.kept[k]].symbol for k in own]
            units = [result.base.units[k] for k in own]
            figure = forest_figure(symbols, result.value[own], low[own], high[own], nominal[own], units)
            joints.append({"name": owner, "figure": figure, "caption": ""})
    if not joints:
        return []
    note = "Parameters with σ below half the value, with 95 % intervals. Weak ones are listed below."
    return [FigureChoice(({"name": "", "joints": joints, "note": note},))]


def _owners(result: Identification, model: Model | None) -> list[str]:
    """The group of every base parameter: its link with the joint that moves it, or its own owner."""
    groups: dict[str, str] = {}
    if model is not None:
        for joint, link in zip(model.robot.joints, model.robot.links, strict=True):
            groups |= {joint.name: f"{link.name} · {joint.name}", link.name: f"{link.name} · {joint.name}"}
    names = [result.base.layout.columns[k].owner for k in result.base.kept]
    return [groups.get(name, name) for name in names]


def _weak(subject: ReportSubject) -> list[Piece]:
    """Weak parameters, split into those near zero and those that the motion does not show."""
    pieces: list[Piece] = []
    for title, table in weak_table(subject.result, subject.model):
        pieces.append(fragment("sections/folded.html", title=f"{title} ({len(table.rows)})", table=table))
    return pieces


def _separation(subject: ReportSubject) -> Sequence[Piece]:
    result = subject.result
    values = singular_values(result.covariance_classical)
    if len(values) < 3:
        return []
    caption = (
        "Correlation of the errors of every two parameters (classical), grouped. Blue or orange: read them together."
    )
    ratio = numerals.number(float(values[0] / max(values[-1], 1e-300)), 3)
    spread = f"Singular values of the weighted regressor with columns of length one; first over last: {ratio}."
    return [
        Figure(correlation_figure(result.base.names, result.covariance_classical), caption),
        Figure(singular_figure(values), spread),
    ]


def _standard(subject: ReportSubject) -> Sequence[Piece]:
    result = subject.result
    if result.standard is None:
        return []
    judged = judged_set(result.base.layout, result.standard, result.drive_std)
    note = (
        f"{judged.reason} One of the standard sets with these base parameters ({result.standard_rule}); J is the "
        "inertia about the centre of mass, Σ_c the second moments about it. 'Needs' is the tolerance with which a body "
        "passes."
    )
    return [link_table("Bodies of the standard set", judged.links).with_notes(note)]


def _gains(subject: ReportSubject) -> Sequence[Piece]:
    table = gain_table(subject.result)
    return [table] if table.rows else []


def _legs(subject: ReportSubject) -> Sequence[Piece]:
    table = leg_table(subject.result)
    note = "p is the probability of such differences between identical legs, corrected for their number."
    return [table.with_notes(note)] if table.rows else []


PARAMETERS = Section("parameters", "Base parameters", _parameters, "Parameters")
SEPARATION = Section("separation", "What the motion separates", _separation, "Correlations")
STANDARD = Section("standard", "Standard set", _standard)
GAINS = Section("gains", "Drive gains", _gains, "Gains")
LEGS = Section("legs", "Legs that are declared identical", _legs, "Legs")
