"""Section of the estimators that apply to the same rows, side by side."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.report.figures.changes import bars_figure
from steelyard.report.section import Figure, Piece, ReportSubject, Section
from steelyard.report.tables.estimators import HEADINGS, estimator_table


def _estimators(subject: ReportSubject) -> Sequence[Piece]:
    found = subject.estimators
    if found is None or found.best is None:
        return []
    scored = [one for one in found.scores if one.joints]
    joints = list(scored[0].joints)
    lines = {one.estimator: [one.joints[name] for name in joints] for one in scored}
    figure = bars_figure(joints, lines, f"relative error, {HEADINGS[found.rows].lower()}")
    return [Figure(figure, "A click on an estimator in the legend hides it."), estimator_table(found)]


ESTIMATORS = Section("estimators", "Estimators on the same rows", _estimators, "Estimators")
