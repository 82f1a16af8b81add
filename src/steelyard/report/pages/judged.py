"""Pages of validation and cross-validation."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.findings import Finding
from steelyard.identification.prediction import Prediction
from steelyard.identification.result import Identification
from steelyard.identification.verdict import effort_unit
from steelyard.report.composed import ComposedPart, compose
from steelyard.report.figures.changes import bars_figure
from steelyard.report.figures.effort import run_figures
from steelyard.report.figures.friction import friction_groups
from steelyard.report.pages.findings import findings_part
from steelyard.report.section import Figure, FigureChoice
from steelyard.report.tables.validation import cross_validation_table, validated_runs_table, validation_table
from steelyard.validation.cross_validation import CrossValidation
from steelyard.validation.held_out import Validation


def validation_page(
    judged: Validation,
    result: Identification,
    predictions: Sequence[Prediction],
    findings: Sequence[Finding] = (),
) -> str:
    """Errors on logs that were not fitted, and the efforts of these logs row by row."""
    layout = result.base.layout
    units = [effort_unit(layout, joint) for joint in predictions[0].joints] if predictions else []
    efforts = tuple(run_figures(one, layout) for one in predictions)
    friction = friction_groups(predictions, units)
    drawn = [FigureChoice(efforts, linked=True)] if efforts else []
    parts = (
        findings_part(findings),
        ComposedPart("errors", "Errors", [validation_table(judged), validated_runs_table(judged)]),
        ComposedPart("effort", "Measured and predicted effort", drawn),
        ComposedPart("friction", "Friction", [FigureChoice(friction, label="Against")] if friction else []),
    )
    facts = f"Robot {result.robot} · estimator {result.estimator} · logs: {', '.join(one.run for one in predictions)}"
    return compose(f"{result.robot} on other logs", "Steelyard · validation", judged.verdict, facts, parts)


def cross_validation_page(judged: CrossValidation, robot: str, findings: Sequence[Finding] = ()) -> str:
    """Errors on rows left out, fold by fold."""
    names = [str(k) for k in range(1, len(judged.folds) + 1)]
    joints = list(judged.pooled.joints)
    lines = {joint: [fold.score.joints[joint] for fold in judged.folds] for joint in joints}
    figure = bars_figure(names, lines, "relative error", [fold.score.total for fold in judged.folds])
    parts = (
        findings_part(findings),
        ComposedPart(
            "folds",
            "Errors on rows left out",
            [Figure(figure, "Folds in the order of the table; line: all joints."), cross_validation_table(judged)],
        ),
    )
    return compose(f"{robot}, rows left out in turn", "Steelyard · cross-validation", judged.verdict, "", parts)
