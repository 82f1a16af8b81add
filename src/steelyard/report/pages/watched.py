"""Page of a followed log: parameters over its time, ranked by change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steelyard.identification.result import Identification
from steelyard.online.change_cause import Change
from steelyard.online.history import Curve
from steelyard.report import numerals
from steelyard.report.composed import ComposedPart, compose
from steelyard.report.figures.history import history_figure, moved
from steelyard.report.pages.findings import findings_part
from steelyard.report.section import FigureChoice
from steelyard.report.table import Table, TableColumn, table


def watched_page(result: Identification, curves: Sequence[Curve], title: str, change: Change | None = None) -> str:
    """Parameters over the time of the log, those that changed most first; the same arguments give the same bytes."""
    ranked = sorted((curve for curve in curves if len(curve.t)), key=lambda curve: -moved(curve))
    at = None if change is None else change.t
    figures = [
        {"name": curve.name, "figure": history_figure(curve, at), "caption": f"Last: {_last(curve)}"}
        for curve in ranked
    ]
    note = "Lines are estimates, bands ± 2 σ. Each scale is chosen for the last three quarters of the log."
    if change is not None:
        note += " The dotted line marks the change; the parameters are those before it."
    parts = (
        findings_part(result.findings),
        ComposedPart(
            "history",
            "Over the time of the log",
            [FigureChoice(({"name": "", "joints": figures, "note": note},), linked=True)] if figures else [],
        ),
        ComposedPart("changes", "Ranked by change", [ranking_table(ranked)]),
    )
    runs = ", ".join(run.name for run in result.runs)
    facts = f"Robot {result.robot} · estimator {result.estimator} · {runs}"
    verdict = result.verdict if change is None else change.verdict
    return compose(title, "Steelyard · history of an online identification", verdict, facts, parts)


def ranking_table(curves: Sequence[Curve]) -> Table:
    """One row per curve: its last value, and the range of its later refreshes over their σ."""
    columns = (
        TableColumn("name", "Parameter", "code"),
        TableColumn("value", "Last value", "value", of=("std",)),
        TableColumn("std", "± σ", "deviation", of=("value",)),
        TableColumn("moved", "Range / σ", "number", digits=3),
        TableColumn("unit", "Unit", "unit"),
    )
    rows = []
    for curve in curves:
        value, std = _last_pair(curve)
        rows.append((curve.name, value, std, moved(curve) if np.isfinite(std) else np.nan, curve.unit))
    note = "Range of the estimates in the last three quarters of the log, over their mean σ."
    return table("changes", "Parameters by change", columns, rows, notes=[note])


def _last_pair(curve: Curve) -> tuple[float, float]:
    """The last known value and its σ."""
    seen = np.flatnonzero(np.isfinite(curve.y))
    return (float(curve.y[seen[-1]]), float(0.5 * curve.half[seen[-1]])) if len(seen) else (np.nan, np.nan)


def _last(curve: Curve) -> str:
    value, std = _last_pair(curve)
    said = numerals.estimate(value, std) if np.isfinite(std) and std > 0.0 else numerals.number(value)
    return said if curve.unit == "1" else f"{said} {numerals.unit(curve.unit)}"
