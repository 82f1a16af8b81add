"""Tables of numbers per parameter: base parameters, standard set, correlations, drive gains, legs."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from steelyard._arrays import Array
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.report import numerals
from steelyard.report.table import Table, TableColumn, table

# Relative standard deviation below which a parameter is well known, and below which it is known.
GOOD, FAIR = 0.1, 0.5
# A weak parameter that can make at most this part of an effort is near zero.
NEGLIGIBLE = 0.02
QUALITIES = {
    "good": "σ below 10% of the value",
    "fair": "σ below 50% of the value",
    "weak": "σ above 50% of the value: the value is near zero, or this motion hardly shows it",
    "no error bar": "seen in a single block of time only",
    "cancelled": "not essential: held at zero",
    "not excited": "this motion does not show it on its own",
}


def parameter_table(result: Identification) -> Table:
    """Every base parameter in the order of the layout."""
    base, nominal = result.base, nominal_values(result)
    columns = (
        TableColumn("name", "Parameter", "code"),
        TableColumn("value", "Value", "value", of=("std",)),
        TableColumn("std", "± σ", "deviation", of=("value",)),
        TableColumn("std_classical", "Classical σ", "number", pale=True, digits=2),
        TableColumn("relative_std", "Relative σ", "gauge", of=("quality",)),
        TableColumn("nominal", "Nominal", "given", pale=True, shown=result.nominal is not None),
        TableColumn("unit", "Unit", "unit"),
        TableColumn("expression", "Stands for", "expression", of=("terms",)),
        TableColumn("terms", "Terms", "count", shown=False),
        TableColumn("quality", "Quality", shown=False),
        TableColumn("status", "Status", shown=False),
    )
    rows = []
    for k, name in enumerate(base.names):
        value, relative, excited = float(result.value[k]), float(result.relative_std[k]), bool(result.excited[k])
        cancelled = name in result.cancelled
        rows.append(
            (
                name,
                value,
                result.std[k],
                result.std_classical[k],
                relative,
                nominal[k],
                base.units[k],
                base.expressions[k],
                len(base.regroupings[name]),
                "cancelled" if cancelled else quality(value if excited else math.nan, relative),
                "cancelled" if cancelled else "estimated" if excited else "not excited",
            )
        )
    return table("parameters", "Base parameters", columns, rows, choose_by="quality")


def quality(value: float, relative: float) -> str:
    """The key of `QUALITIES` for a value and its relative standard deviation."""
    if math.isnan(value):
        return "not excited"
    if math.isnan(relative):
        return "no error bar"
    return "good" if relative < GOOD else "fair" if relative < FAIR else "weak"


def quality_counts(parameters: Table) -> dict[str, int]:
    """Number of parameters per quality, best first; qualities that do not occur are left out."""
    count = Counter(parameters.cell(row, "quality") for row in parameters)
    return {name: count[name] for name in QUALITIES if count[name]}


def standard_table(result: Identification) -> Table:
    """The full standard set; no rows where there is none."""
    columns = (
        TableColumn("name", "Parameter", "code"),
        TableColumn("value", "Value", "number"),
        TableColumn("unit", "Unit", "unit"),
        # CSV and Parquet have no notes
        TableColumn("standard_rule", "Rule", shown=False),
    )
    layout, standard = result.base.layout, result.standard
    rule = result.standard_rule
    rows = [] if standard is None else [(*row, rule) for row in zip(layout.names, standard, layout.units, strict=True)]
    notes = [f"Chosen by this rule: {result.standard_rule}."] if result.standard_rule else []
    return table("standard", "Standard parameters", columns, rows, notes=notes)


def correlation_table(result: Identification) -> Table:
    """Pairs of parameters that the data hardly separates."""
    columns = (
        TableColumn("a", "Parameter", "code"),
        TableColumn("b", "Other parameter", "code"),
        TableColumn("correlation", "Correlation", "number"),
    )
    return table("correlations", "Strong correlations", columns, result.strong_correlations())


def gain_table(result: Identification) -> Table:
    """Every drive gain; stated gains are shown if there are any, gains at the joint if they differ from those of the
    motor."""
    gains = result.gains
    if gains is None:
        return Table("gains", "Drive gains", (), ())
    known, geared = bool(np.isfinite(gains.stated).any()), bool(np.any(gains.joint_side != gains.value))
    columns = (
        TableColumn("joint", "Motor"),
        TableColumn("value", "Identified", "value", of=("std",)),
        TableColumn("std", "± σ", "deviation", of=("value",)),
        TableColumn("relative_std", "σ/|g|", "share"),
        TableColumn("std_bootstrap", "σ bootstrap", "number", digits=2),
        TableColumn("std_classical", "σ classical", "number", digits=2),
        TableColumn("joint_side", "At the joint", "number", shown=geared),
        TableColumn("unit", "Unit", "unit"),
        TableColumn("stated", "Stated", "given", shown=known),
        TableColumn("error", "|e|", "share", shown=known),
        TableColumn("depends_on", "Depends on"),
    )
    rows = []
    for k, joint in enumerate(gains.joints):
        value, std = float(gains.value[k]), float(gains.std[k])
        depends = [f"{one.parameter} (σ × {one.inflation:.3g})" for one in gains.dependences if one.joint == joint]
        rows.append(
            (
                joint,
                value,
                std,
                std / abs(value) if value else math.nan,
                gains.std_bootstrap[k],
                gains.std_classical[k],
                gains.joint_side[k],
                gains.units[k],
                gains.stated[k],
                gains.error[k],
                ", ".join(depends) or numerals.DASH,
            )
        )
    notes = (
        "Torque = gain × current. "
        + ("|e| is the distance from the stated gain. " if known else "")
        + ("At the joint the gear ratio is included, in the same unit. " if geared else "")
        + "The last column: how much σ would grow without this payload parameter."
    )
    return table("gains", "Drive gains", columns, rows, notes=[notes])


def weak_table(result: Identification, model: Model | None = None) -> list[tuple[str, Table]]:
    """Weak parameters with a title: those that are near zero, and those that the motion does not show.

    A parameter is near zero if |value| + 2σ makes at most NEGLIGIBLE of the effort of every joint on random motion
    within the joint limits. Without a model they are not split.
    """
    columns = (
        TableColumn("name", "Parameter", "code"),
        TableColumn("value", "Value", "value", of=("std",)),
        TableColumn("std", "± σ", "deviation", of=("value",)),
        TableColumn("unit", "Unit", "unit"),
        TableColumn("share", "Up to this part of an effort", "share", shown=model is not None),
    )
    weak = [k for k in range(len(result.base)) if result.relative_std[k] >= FAIR and np.isfinite(result.value[k])]
    shares = np.full(len(result.base), math.nan) if model is None else _effort_shares(result, model)
    base = result.base
    rows = [(base.names[k], result.value[k], result.std[k], base.units[k], shares[k]) for k in weak]
    split = [
        ("Weak parameters", [row for row in rows if math.isnan(row[-1])], ()),
        (
            "Near zero: no motion makes them matter",
            [row for row in rows if row[-1] <= NEGLIGIBLE],
            (f"|value| + 2σ makes at most {NEGLIGIBLE:.0%} of any joint's effort on random motion within the limits.",),
        ),
        (
            "Not shown by this motion: another one may",
            [row for row in rows if row[-1] > NEGLIGIBLE],
            ("Do not use their values one by one. `steelyard excite` designs a motion that shows them.",),
        ),
    ]
    return [(title, table("weak", title, columns, own, notes=notes)) for title, own, notes in split if own]


def _effort_shares(result: Identification, model: Model) -> Array:
    """The largest part (b,) of a joint's RMS effort that |value| + 2σ of each base parameter makes on random motion."""
    w = model.random_regressor(np.random.default_rng(0), 200)
    effort = np.einsum("jcs,c->js", w, np.nan_to_num(result.theta))
    size = np.sqrt(np.mean(effort**2, axis=1))
    columns = np.sqrt(np.mean(w[:, list(result.base.kept)] ** 2, axis=2)) / np.maximum(size, 1e-300)[:, None]
    return columns.max(axis=0) * (np.abs(result.value) + 2.0 * result.std)


def leg_table(result: Identification) -> Table:
    """The same parameter of every leg, and whether the legs differ (P3 §3.1)."""
    legs = result.legs
    places = range(1, len(legs[0].names) + 1) if legs else ()
    columns = (
        TableColumn("name", "Parameter of leg 1", "code"),
        *(
            column
            for k in places
            for column in (
                TableColumn(f"leg{k}", f"Leg {k} ± σ", "estimate", of=(f"leg{k}_std",)),
                TableColumn(f"leg{k}_std", f"σ of leg {k}", "number", shown=False),
            )
        ),
        TableColumn("unit", "Unit", "unit"),
        TableColumn("p", "p", "number", digits=2),
        TableColumn("differ", "Differ", "flag"),
    )
    rows = [
        (
            one.names[0],
            *(x for pair in zip(one.values, one.std, strict=True) for x in pair),
            one.unit,
            one.p,
            one.differ,
        )
        for one in legs
    ]
    return table("legs", "Legs", columns, rows, ["strong" if one.differ else "" for one in legs])


def nominal_values(result: Identification) -> list[float]:
    """χ_b = B χ of the robot file; NaN without nominal inertias and where the leading column has no value."""
    base = result.base
    nominal = base.layout.nominal
    if result.nominal is None or nominal is None:
        return [math.nan] * len(base)
    values = base.map @ nominal
    # Terms that cancel leave rounding errors; a value below them is zero.
    values[np.abs(values) < 1e-12 * (np.abs(base.map) @ np.abs(nominal))] = 0.0
    return [
        math.nan if base.layout.columns[k].nominal is None else float(x) for k, x in zip(base.kept, values, strict=True)
    ]
