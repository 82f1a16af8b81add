"""Sections of numbers per parameter: base parameters, drive gains, legs."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.report.section import Piece, ReportSubject, Section
from steelyard.report.tables.parameters import QUALITIES, gain_table, leg_table, parameter_table, quality_counts
from steelyard.report.templates import fragment


def _parameters(subject: ReportSubject) -> Sequence[Piece]:
    result = subject.result
    table = parameter_table(result)
    missing = [] if result.nominal else ["No nominal column: no nominal inertias in the robot file."]
    sums = [row for row in table.records() if row["terms"] > 3]
    counts = {name: QUALITIES[name] for name in quality_counts(table)}
    legend = fragment("sections/parameters.html", clusters=result.clusters, qualities=counts, sums=sums)
    return [*missing, table, legend]


def _gains(subject: ReportSubject) -> Sequence[Piece]:
    table = gain_table(subject.result)
    return [table] if table.rows else []


def _legs(subject: ReportSubject) -> Sequence[Piece]:
    table = leg_table(subject.result)
    note = "p is the probability of such differences between identical legs, corrected for their number."
    return [table.with_notes(note)] if table.rows else []


PARAMETERS = Section("parameters", "Base parameters", _parameters, "Parameters")
GAINS = Section("gains", "Drive gains", _gains, "Gains")
LEGS = Section("legs", "Legs that are declared identical", _legs, "Legs")
