"""Rows of the report's tables, ready to print."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.findings import Finding
from steelyard.identification import Identification
from steelyard.parameters import Layout
from steelyard.report import numerals
from steelyard.report.numerals import DASH

# Relative standard deviation below which a parameter is well known, and below which it is known at all.
GOOD, FAIR = 0.1, 0.5
QUALITIES = {
    "good": "σ below 10% of the value",
    "fair": "σ below 50% of the value",
    "weak": "σ above 50% of the value: near zero, or hardly shown by this motion",
    "no error bar": "known from a single block of time only",
    "not excited": "this motion says nothing about it on its own",
}

# The bar of relative σ is logarithmic from 0.1% to 1000%.
_BAR_FROM, _BAR_DECADES = 1e-3, 4.0
_SEVERITIES = ("error", "warning", "info")
# Columns that are an effort themselves, so that their unit is the joint's.
_EFFORT_SYMBOLS = ("off", "Fc", "Fcp", "Fcn")


@dataclass(frozen=True)
class ParameterRow:
    """A base parameter in print; `*_key` sort it, `bar` [%] is the length of its relative σ, `terms` counts columns."""

    name: str
    value: str
    value_key: float | None
    deviation: str
    deviation_key: float | None
    classical: str
    classical_key: float | None
    relative: str
    relative_key: float | None
    bar: float
    quality: str
    unit: str
    nominal: str
    nominal_key: float | None
    expression: str
    terms: int


@dataclass(frozen=True)
class ErrorRow:
    """How well one joint, or all of them, are explained; bars [%] are relative to the worst number of the table."""

    joint: str
    relative: str
    nominal_relative: str
    bar: float
    nominal_bar: float
    rmse: str
    nominal_rmse: str
    unit: str
    rows: str


def quality(value: float, relative: float) -> str:
    """One of `QUALITIES` for a value and its relative standard deviation."""
    if math.isnan(value):
        return "not excited"
    if math.isnan(relative):
        return "no error bar"
    return "good" if relative < GOOD else "fair" if relative < FAIR else "weak"


def bar_length(relative: float) -> float:
    """Where a relative σ lies on the logarithmic scale [%]; 0 for NaN."""
    if math.isnan(relative) or relative <= _BAR_FROM:
        return 0.0
    return round(min(100.0, 100.0 * math.log10(min(relative, 1e3) / _BAR_FROM) / _BAR_DECADES), 1)


def parameter_rows(result: Identification) -> tuple[ParameterRow, ...]:
    """Every base parameter in the order of the layout."""
    nominal = _nominal_values(result)
    rows = []
    for k, name in enumerate(result.base.names):
        value, deviation, classical, relative = (
            float(x[k]) for x in (result.value, result.std, result.std_classical, result.relative_std)
        )
        shown, shown_deviation = numerals.value_and_deviation(value, deviation)
        rows.append(
            ParameterRow(
                name=name,
                value=shown,
                value_key=_key(value),
                deviation=shown_deviation,
                deviation_key=_key(deviation),
                classical=numerals.number(classical, 2),
                classical_key=_key(classical),
                relative=numerals.share(relative),
                relative_key=_key(relative),
                bar=bar_length(relative),
                quality=quality(value, relative),
                unit=numerals.unit(result.base.units[k]),
                nominal=numerals.given(nominal[k]),
                nominal_key=_key(nominal[k]),
                expression=result.base.expressions[k],
                terms=len(result.base.regroupings[name]),
            )
        )
    return tuple(rows)


def quality_counts(rows: Sequence[ParameterRow]) -> dict[str, int]:
    """How many parameters are of each quality, best first, none left out that occurs."""
    count = Counter(row.quality for row in rows)
    return {name: count[name] for name in QUALITIES if count[name]}


def error_rows(result: Identification) -> tuple[ErrorRow, ...]:
    """A row a joint, then the total."""
    fit, nominal = result.relative_error, result.nominal
    worst = max((x for score in (fit, nominal) if score for x in score.joints.values() if math.isfinite(x)), default=0.0)
    rows = [
        _error_row(
            joint,
            (fit.joints[joint], nominal.joints[joint] if nominal else math.nan),
            (fit.rmse[joint], nominal.rmse[joint] if nominal else math.nan),
            effort_unit(result.base.layout, joint),
            fit.rows[joint],
            worst,
        )
        for joint in fit.joints
    ]
    total = (fit.total, nominal.total if nominal else math.nan)
    return (*rows, _error_row("all joints", total, (math.nan, math.nan), "", sum(fit.rows.values()), worst))


def ordered_findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The gravest first, otherwise in the order they came."""
    return tuple(sorted(findings, key=lambda finding: _SEVERITIES.index(finding.severity)))


def finding_counts(findings: Sequence[Finding]) -> str:
    """In words: `1 error, 2 warnings, 1 note`."""
    count = Counter(finding.severity for finding in findings)
    words = {"error": "error", "warning": "warning", "info": "note"}
    parts = [f"{count[s]} {words[s]}{'s' if count[s] != 1 else ''}" for s in _SEVERITIES if count[s]]
    return ", ".join(parts) or "none"


def effort_unit(layout: Layout, joint: str) -> str:
    """N·m or N where the layout tells, both where it does not."""
    for column in layout.columns:
        if column.owner == joint and column.symbol in _EFFORT_SYMBOLS:
            return numerals.unit(column.unit)
    return "N·m | N"


def _error_row(
    joint: str, relative: tuple[float, float], rmse: tuple[float, float], unit: str, rows: int, worst: float
) -> ErrorRow:
    bars = [round(100.0 * min(x / worst, 1.0), 1) if worst > 0.0 and math.isfinite(x) else 0.0 for x in relative]
    return ErrorRow(
        joint,
        *(numerals.share(x) for x in relative),
        *bars,
        *(numerals.number(x, 3) for x in rmse),
        unit,
        f"{rows:d}" if rows else DASH,
    )


def _nominal_values(result: Identification) -> list[float]:
    """χ_b = B χ of the robot file; NaN without nominal inertias, or where the file is silent about the leading column."""
    base = result.base
    nominal = base.layout.nominal
    if result.nominal is None or nominal is None:
        return [math.nan] * len(base)
    silent = [base.layout.columns[k].nominal is None for k in base.kept]
    return [math.nan if none else float(x) for none, x in zip(silent, base.map @ nominal, strict=True)]


def _key(x: float) -> float | None:
    """What JavaScript sorts by: None, at the end, for what is not a number."""
    return None if math.isnan(x) else float(f"{max(min(x, 1e300), -1e300):.9g}")
