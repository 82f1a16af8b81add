"""Tables of validation, cross-validation, delays, comparison and twin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

import numpy as np

from steelyard.identification.delays import Delays
from steelyard.identification.result import Identification
from steelyard.report.table import Emphasis, Table, TableColumn, table
from steelyard.report.tables.errors import scored
from steelyard.validation.comparison import Comparison, Row, compared_rows
from steelyard.validation.cross_validation import CrossValidation
from steelyard.validation.held_out import Validation
from steelyard.validation.twin import Twin


def validation_table(judged: Validation) -> Table:
    """One row per joint, then the total: errors of filtered rows and raw effort, and correlation of residuals in
    time."""
    fit, raw, nominal = judged.filtered, judged.raw, judged.nominal_filtered
    has_nominal = nominal is not None and judged.nominal_raw is not None
    columns = (
        TableColumn("joint", "Joint"),
        TableColumn("relative_error", "identified", "share", group="Relative error"),
        TableColumn("nominal", "nominal", "share", group="Relative error", shown=has_nominal),
        TableColumn("rmse", "RMSE", "number"),
        TableColumn("r2", "R²", "number"),
        TableColumn("in_band", "In 95 % band", "share", shown=bool(judged.in_band)),
        TableColumn("rows", "Rows", "count"),
        TableColumn("raw", "identified", "share", group="Raw effort"),
        TableColumn("raw_nominal", "nominal", "share", group="Raw effort", shown=has_nominal),
        TableColumn("correlation_rows", "rows", "number", group="Residuals correlated"),
        TableColumn("correlated_lags", "of lags", "share", group="Residuals correlated"),
    )
    rows = []
    for key in fit.relative_error:
        white = judged.whiteness.get(key)
        rows.append(
            (
                key,
                fit.relative_error[key],
                np.nan if nominal is None else nominal.relative_error[key],
                fit.rmse[key],
                fit.r2[key],
                judged.in_band.get(key, np.nan),
                fit.rows[key],
                raw.relative_error[key],
                np.nan if judged.nominal_raw is None else judged.nominal_raw.relative_error[key],
                None if white is None else white.correlation_rows,
                None if white is None else white.outside,
            )
        )
    notes = (scored(fit.mask), f"Raw: {raw.mask}.")
    weights: list[Emphasis] = ["total" if row[0] == "total" else "" for row in rows]
    return table("validation", "Errors on these logs", columns, rows, weights, notes)


def validated_runs_table(judged: Validation) -> Table:
    """One row per run."""
    columns = (
        TableColumn("run", "Run"),
        TableColumn("relative_error", "Relative error", "share"),
        TableColumn("r2", "R²", "number"),
        TableColumn("rows", "Rows", "count"),
    )
    rows = [
        (name, one.relative_error["total"], one.r2["total"], one.rows["total"]) for name, one in judged.by_run.items()
    ]
    return table("validated_runs", "Errors per run", columns, rows)


def cross_validation_table(judged: CrossValidation) -> Table:
    """One row per fold, then all folds together."""
    joints = list(judged.pooled.joints)
    columns = (
        TableColumn("fold", "Left out"),
        TableColumn("total", "Relative error", "share"),
        *(TableColumn(f"joint_{joint}", joint, "share") for joint in joints),
        TableColumn("rows", "Rows", "count"),
    )
    scores = [*((fold.name, fold.score) for fold in judged.folds), ("all folds", judged.pooled)]
    rows = [(name, one.total, *(one.joints[joint] for joint in joints), sum(one.rows.values())) for name, one in scores]
    weights: list[Emphasis] = ["total" if row is rows[-1] else "" for row in rows]
    note = scored(judged.pooled.mask)
    return table("folds", "Errors on rows left out", columns, rows, weights, [note])


def delay_table(found: Mapping[str, Delays], joints: Sequence[str]) -> Table:
    """One row per run: the delay of effort behind position per joint, and of all joints together."""
    columns = (
        TableColumn("run", "Delay ± σ"),
        *(
            column
            for key, heading in [*((f"joint_{joint}", joint) for joint in joints), ("all", "all joints")]
            for column in (
                TableColumn(f"{key}_ms", heading, "estimate", of=(f"{key}_std_ms",), unit="ms"),
                TableColumn(f"{key}_std_ms", f"σ of {heading}", "number", unit="ms", shown=False),
            )
        ),
    )
    rows = [
        (
            name,
            *(
                1e3 * x
                for pair in zip((*one.seconds, one.common), (*one.std, one.common_std), strict=True)
                for x in pair
            ),
        )
        for name, one in found.items()
    ]
    return table("delays", "Delay of the effort behind the position", columns, rows)


def side_by_side(found: Sequence[Identification]) -> list[tuple[str, str, list[tuple[float, float]]]]:
    """Every base parameter and drive gain of any result: name, unit, and (value, σ) in each, NaN where it has none."""
    tables = [{row.name: row for row in compared_rows(one)} for one in found]
    units = {row.name: row.unit for own in tables for row in own.values()}
    unknown = Row("", "", np.nan, np.nan, {})
    return [
        (name, unit, [(row.value, row.std) for row in (own.get(name, unknown) for own in tables)])
        for name, unit in units.items()
    ]


def results_table(names: Sequence[str], found: Sequence[Identification]) -> Table:
    """Results side by side, each under its name and estimator."""
    columns = (
        TableColumn("name", "Parameter", "code"),
        *(
            column
            for k, (name, one) in enumerate(zip(names, found, strict=True), 1)
            for column in (
                TableColumn(f"result{k}", f"{name} ({one.estimator})", "estimate", of=(f"result{k}_std",)),
                TableColumn(f"result{k}_std", f"σ of {name}", "number", shown=False),
            )
        ),
        TableColumn("unit", "Unit", "unit"),
    )
    rows = [(name, *(x for pair in pairs for x in pair), unit) for name, unit, pairs in side_by_side(found)]
    return table("results", "Results", columns, rows)


def change_table(tested: Comparison) -> Table:
    """The changes, most significant first; no rows if there are none."""
    columns = (
        TableColumn("name", "Changed", "code"),
        TableColumn("difference", "Difference", "value", of=("std",)),
        TableColumn("std", "± σ", "deviation", of=("difference",)),
        TableColumn("t", "t", "number"),
        TableColumn("p", "p", "number", digits=2),
        TableColumn("p_holm", "p (Holm)", "number", digits=2),
        TableColumn("unit", "Unit", "unit"),
    )
    rows = [
        (one.name, one.difference, one.std, one.t, one.p, one.p_holm, one.unit)
        for one in sorted(tested.changes, key=attrgetter("p_holm"))
        if one.name in tested.changed
    ]
    return table("changes", "Changes", columns, rows)


def twin_table(found: Twin) -> Table:
    """One row per base parameter; biased ones are highlighted."""
    columns = (
        TableColumn("name", "Parameter", "code"),
        TableColumn("truth", "Truth", "number"),
        TableColumn("bias", "Bias", "value", of=("bias_error",)),
        TableColumn("bias_error", "± its σ", "deviation", of=("bias",)),
        TableColumn("spread", "Spread", "number", digits=3),
        TableColumn("reported", "Reported σ", "number", digits=3),
        TableColumn("coverage", "Coverage", "share"),
        TableColumn("detectable", "Detectable", "number", digits=3),
        TableColumn("unit", "Unit", "unit"),
    )
    rows = [
        (
            one.name,
            one.truth,
            one.bias,
            one.bias_error,
            one.spread,
            one.reported,
            one.coverage,
            one.detectable,
            one.unit,
        )
        for one in found.parameters
    ]  # fmt: skip
    weights: list[Emphasis] = ["warning" if one.is_biased else "" for one in found.parameters]
    return table("twin", "Simulated copies of the experiment", columns, rows, weights)
