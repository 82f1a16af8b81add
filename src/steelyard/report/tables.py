"""Rows of the report's tables, ready to print."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.findings import Finding
from steelyard.identification.bodies import PayloadBody, payload_bodies
from steelyard.identification.result import Identification
from steelyard.model.parameters import INERTIAL, Layout
from steelyard.physical.consistency import check_links
from steelyard.regression.scores import Score
from steelyard.report import numerals
from steelyard.report.numerals import DASH

# Relative standard deviation below which a parameter is well known, and below which it is known at all.
GOOD, FAIR = 0.1, 0.5
QUALITIES = {
    "good": "σ below 10% of the value",
    "fair": "σ below 50% of the value",
    "weak": "σ above 50% of the value: near zero, or hardly shown by this motion",
    "no error bar": "known from a single block of time only",
    "cancelled": "not essential: held at zero",
    "not excited": "this motion says nothing about it on its own",
}

KINDS = {
    "fitted": "identified, on the rows it was fitted to",
    "unseen": "identified, on unseen runs",
    "nominal": "nominal model, on the fitted rows",
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
class GainRow:
    """A drive gain in print, beside the stated one; `hangs` says which payload parameters give it its scale."""

    joint: str
    value: str
    deviation: str
    bootstrap: str
    classical: str
    relative: str
    unit: str
    stated: str
    error: str
    joint_side: str
    hangs: str


@dataclass(frozen=True)
class PayloadRow:
    """A payload in print; `body` are mass and centre of mass, each with its σ, empty where it is exact or not known."""

    name: str
    link: str
    stated: str
    body: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class BodyRow:
    """A body of a certified standard set in print: mass, centre of mass, principal moments, smallest eigenvalue."""

    name: str
    mass: str
    com: str
    moments: str
    smallest: str
    boundary: bool


@dataclass(frozen=True)
class ErrorCell:
    """One model on one set of rows: `kind` is fitted, unseen or nominal; `bar` [%] is relative to the worst of all."""

    kind: str
    relative: str
    rmse: str
    bar: float


@dataclass(frozen=True)
class ErrorRow:
    """How well one joint, or all of them, are explained; rows behind the fit and, where there are, unseen ones."""

    joint: str
    unit: str
    cells: tuple[ErrorCell, ...]
    rows: tuple[str, ...]


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
                quality="cancelled"
                if name in result.cancelled
                else quality(value if result.excited[k] else math.nan, relative),
                unit=numerals.unit(result.base.units[k]),
                nominal=numerals.given(nominal[k]),
                nominal_key=_key(nominal[k]),
                expression=result.base.expressions[k],
                terms=len(result.base.regroupings[name]),
            )
        )
    return tuple(rows)


def gain_rows(result: Identification) -> tuple[GainRow, ...]:
    """Every drive gain; none where they were not identified."""
    gains = result.gains
    if gains is None:
        return ()
    rows = []
    for k, joint in enumerate(gains.joints):
        value, deviation = float(gains.value[k]), float(gains.std[k])
        shown, shown_deviation = numerals.value_and_deviation(value, deviation)
        hangs = [f"{h.parameter} (σ × {h.inflation:.3g})" for h in gains.hangs if h.joint == joint]
        rows.append(
            GainRow(
                joint=joint,
                value=shown,
                deviation=shown_deviation,
                bootstrap=numerals.number(float(gains.std_bootstrap[k]), 2),
                classical=numerals.number(float(gains.std_classical[k]), 2),
                relative=numerals.share(deviation / abs(value) if value else math.nan),
                unit=numerals.unit(gains.units[k]),
                stated=numerals.given(float(gains.stated[k])),
                error=numerals.share(float(gains.error[k])),
                joint_side=numerals.number(float(gains.joint_side[k])),
                hangs=", ".join(hangs) or DASH,
            )
        )
    return tuple(rows)


def payload_rows(result: Identification, links: Mapping[str, str] | None = None) -> tuple[PayloadRow, ...]:
    """Every payload of the robot's runs, on the links of `links`."""
    return tuple(
        PayloadRow(
            one.name,
            one.link or DASH,
            _stated(one),
            tuple(
                numerals.value_and_deviation(x, deviation) if deviation > 0.0 else (numerals.given(x), "")
                for x, deviation in zip(one.body[:4].tolist(), one.std[:4].tolist(), strict=True)
            ),
        )
        for one in payload_bodies(result, links)
    )


def body_rows(result: Identification) -> tuple[BodyRow, ...]:
    """Every body of a standard set that was certified; none where there is no certificate."""
    certificate, theta = result.certificate, result.standard
    if certificate is None or theta is None:
        return ()
    rows = []
    for one in check_links(result.base.layout, theta).links:
        com = DASH if one.com is None else " ".join(numerals.number(x, 3) for x in one.com)
        moments = " ".join(numerals.number(x, 3) for x in one.eigenvalues)
        smallest = numerals.number(certificate.smallest[one.name], 3)
        boundary = one.name in certificate.boundary
        rows.append(BodyRow(one.name, numerals.number(one.mass), com, moments, smallest, boundary))
    return tuple(rows)


def price_in_words(result: Identification) -> str:
    """What a certificate cost: the residual that was minimised, a σ for each joint, and the relative error."""
    certificate = result.certificate
    if certificate is None:
        return ""
    weighted = f"weighted residual {certificate.price:+.2%}"
    if certificate.price_unweighted is None:
        return weighted
    now = result.relative_error.total
    return f"{weighted}, relative error {numerals.share(certificate.error_before(now))} → {numerals.share(now)}"


def _stated(payload: PayloadBody) -> str:
    """What was known beforehand: `M = 2.805 ± 0.002`, "all ten parameters" or "nothing"."""
    if len(payload.stated) == len(INERTIAL):
        return "all ten parameters"
    parts = (
        f"{symbol} = {numerals.given(x)}" + (f" ± {numerals.given(deviation)}" if deviation else "")
        for symbol, (x, deviation) in payload.stated.items()
    )
    return ", ".join(parts) or "nothing"


def quality_counts(rows: Sequence[ParameterRow]) -> dict[str, int]:
    """How many parameters are of each quality, best first, none left out that occurs."""
    count = Counter(row.quality for row in rows)
    return {name: count[name] for name in QUALITIES if count[name]}


def error_scores(result: Identification) -> dict[str, Score]:
    """The scores there are, by kind."""
    scores = {"fitted": result.relative_error, "unseen": result.unseen, "nominal": result.nominal}
    return {kind: score for kind, score in scores.items() if score is not None}


def error_rows(result: Identification) -> tuple[ErrorRow, ...]:
    """A row a joint, then the total."""
    scores = error_scores(result)
    shown = [x for score in scores.values() for x in score.joints.values()]
    worst = max(filter(math.isfinite, shown), default=0.0)
    rows = [
        ErrorRow(
            joint,
            numerals.unit(effort_unit(result.base.layout, joint)),
            tuple(_error_cell(kind, s.joints[joint], s.rmse[joint], worst) for kind, s in scores.items()),
            tuple(_count(s.rows[joint]) for kind, s in scores.items() if kind != "nominal"),
        )
        for joint in result.relative_error.joints
    ]
    total = ErrorRow(
        "all joints",
        "",
        tuple(_error_cell(kind, s.total, math.nan, worst) for kind, s in scores.items()),
        tuple(_count(sum(s.rows.values())) for kind, s in scores.items() if kind != "nominal"),
    )
    return (*rows, total)


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
    """`N.m` or `N` where the layout tells, both where it does not."""
    for column in layout.columns:
        if column.owner == joint and column.symbol in _EFFORT_SYMBOLS:
            return column.unit
    return "N.m | N"


def _error_cell(kind: str, relative: float, rmse: float, worst: float) -> ErrorCell:
    bar = round(100.0 * min(relative / worst, 1.0), 1) if worst > 0.0 and math.isfinite(relative) else 0.0
    return ErrorCell(kind, numerals.share(relative), numerals.number(rmse, 3), bar)


def _count(rows: int) -> str:
    return f"{rows:d}" if rows else DASH


def _nominal_values(result: Identification) -> list[float]:
    """χ_b = B χ of the robot file; NaN without nominal inertias and where it is silent about the leading column."""
    base = result.base
    nominal = base.layout.nominal
    if result.nominal is None or nominal is None:
        return [math.nan] * len(base)
    values = base.map @ nominal
    # Terms that cancel leave rounding; a value below it is zero.
    values[np.abs(values) < 1e-12 * (np.abs(base.map) @ np.abs(nominal))] = 0.0
    return [
        math.nan if base.layout.columns[k].nominal is None else float(x) for k, x in zip(base.kept, values, strict=True)
    ]


def _key(x: float) -> float | None:
    """What JavaScript sorts by: None, at the end, for what is not a number."""
    return None if math.isnan(x) else float(f"{max(min(x, 1e300), -1e300):.9g}")
