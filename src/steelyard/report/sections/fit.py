"""Sections of the fit: efforts over time, and errors per joint."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.report.figures.effort import run_figures, unseen_first
from steelyard.report.section import FigureChoice, Piece, ReportSubject, Section
from steelyard.report.tables.errors import error_table


def _effort(subject: ReportSubject) -> Sequence[Piece]:
    if not subject.predictions:
        return ["No rows were predicted for this report."]
    layout = subject.result.base.layout
    groups = tuple(run_figures(prediction, layout) for prediction in unseen_first(subject.predictions))
    return [FigureChoice(groups, linked=True)]


def _errors(subject: ReportSubject) -> Sequence[Piece]:
    missing = [] if subject.result.nominal else ["No comparison: no nominal inertias in the robot file."]
    return [*missing, error_table(subject.result)]


EFFORT = Section("effort", "Measured and predicted effort", _effort, "Fit")
ERRORS = Section("errors", "Errors per joint", _errors, "Errors")
