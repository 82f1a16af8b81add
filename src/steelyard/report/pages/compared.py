"""Pages of a comparison, a twin and a weighed payload."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steelyard.identification.result import Identification
from steelyard.identification.weighing import PayloadResult
from steelyard.report import numerals
from steelyard.report.composed import ComposedPart, compose
from steelyard.report.figures.changes import bars_figure, change_figure, trend_figure
from steelyard.report.pages.findings import findings_part
from steelyard.report.section import Figure, FigureChoice, Piece
from steelyard.report.tables.validation import change_table, results_table, side_by_side, twin_table
from steelyard.report.tables.weighing import body_quantity_table, inertial_table, refitted_table, weighing_error_table
from steelyard.validation.comparison import Comparison
from steelyard.validation.twin import Twin

# Parameters with a trend of their own.
MOST_TRENDS = 24


def comparison_page(names: Sequence[str], found: Sequence[Identification], tested: Comparison | None) -> str:
    """Two results: a forest of changes in units of their σ; several: the parameters that differ most, over the
    results."""
    robot = found[0].robot
    pieces: list[Piece] = []
    if tested is not None and tested.changes:
        ordered = sorted(tested.changes, key=lambda one: -abs(one.t))
        figure = change_figure([one.name for one in ordered], np.array([one.t for one in ordered]), tested.changed)
        caption = (
            "Change over its σ, the largest first; dotted: ± 2 σ. In colour: significant, corrected for the count."
        )
        pieces += [Figure(figure, caption), change_table(tested)]
    verdict = f"{len(found)} results side by side." if tested is None else tested.verdict
    parts = (
        ComposedPart("changes", "Changes", pieces),
        ComposedPart("trends", "Parameters over the results", _trends(names, found)),
        ComposedPart("results", "All parameters", [results_table(names, found)]),
    )
    return compose(robot, "Steelyard · comparison", verdict, f"Results: {', '.join(names)}", parts)


def _trends(names: Sequence[str], found: Sequence[Identification]) -> list[Piece]:
    """Small multiples of the parameters that differ most between results, relative to their σ."""
    if len(found) < 3:
        return []
    rows = []
    for name, unit, pairs in side_by_side(found):
        value, std = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
        known = np.isfinite(value) & np.isfinite(std) & (std > 0.0)
        if known.sum() > 1:
            rows.append((float(np.ptp(value[known]) / np.sqrt(np.mean(std[known] ** 2))), name, unit, value, std))
    rows.sort(key=lambda row: -row[0])
    joints = [
        {
            "name": name,
            "figure": trend_figure(value, std, numerals.unit(unit)),
            "caption": f"Range {numerals.number(spread, 2)} times σ.",
        }
        for spread, name, unit, value, std in rows[:MOST_TRENDS]
    ]
    note = "Numbers on the axis: " + ", ".join(f"{k} {name}" for k, name in enumerate(names, 1)) + "."
    return [FigureChoice(({"name": "", "joints": joints, "note": note},))] if joints else []


def twin_page(found: Twin) -> str:
    """Bias and coverage of every parameter over simulated copies of the experiment."""
    ordered = sorted(found.parameters, key=lambda one: -abs(one.bias / one.spread) if one.spread else 0.0)
    bias = np.array([one.bias / one.spread if one.spread else 0.0 for one in ordered])
    figure = change_figure(
        [one.name for one in ordered], bias, [one.name for one in ordered if one.is_biased], "bias over spread", 1.0
    )
    caption = "Bias over the spread of the estimates, the largest first; dotted: ± 1. In colour: significant."
    parts = (
        findings_part(found.findings),
        ComposedPart("bias", "Bias", [Figure(figure, caption)]),
        ComposedPart("twin", "Every parameter", [twin_table(found)]),
    )
    facts = f"{found.runs} simulated experiments of {found.robot}, estimator {found.estimator}, moved by {found.motion}"
    return compose(f"{found.robot}, simulated", "Steelyard · twin", found.verdict, facts, parts)


def payload_page(found: PayloadResult, robot: str, verdict: str) -> str:
    """The body that was weighed, and the errors without and with it."""
    scores = {"without payload": found.unloaded, "with payload": found.relative_error, "in the fit": found.fitted}
    joints = list(found.relative_error.joints)
    lines = {name: [score.joints[joint] for joint in joints] for name, score in scores.items()}
    parts = (
        findings_part(found.findings),
        ComposedPart("body", "Body", [body_quantity_table(found), inertial_table(found)]),
        ComposedPart(
            "errors",
            "Errors per joint",
            [Figure(bars_figure(joints, lines, "relative error")), weighing_error_table(found)],
        ),
        ComposedPart("refitted", "Fitted again", [refitted_table(found)]),
    )
    return compose(f"Payload of {robot}", "Steelyard · payload", verdict, "", parts)
