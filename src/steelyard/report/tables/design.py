"""Tables of a designed motion: the used part of each limit, and the expected σ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steelyard._arrays import Array
from steelyard.design.constraints import holds_always, used
from steelyard.design.forecast import Forecast
from steelyard.motion.bounds import LimitUse
from steelyard.report.table import Table, TableColumn, table


def limit_table(limits: Sequence[LimitUse], title: str = "Limits") -> Table:
    """One row per limit."""
    columns = (
        TableColumn("quantity", "Limit"),
        TableColumn("joint", "Of"),
        TableColumn("limit", "Allowed", "given"),
        TableColumn("value", "Reached", "given"),
        TableColumn("used", "Used", "share"),
        TableColumn("left", "Left", "given"),
        TableColumn("holds", "Holds"),
    )
    rows = [
        (
            row.quantity,
            row.joint,
            row.limit,
            row.value,
            used(row),
            -row.beyond,
            "for all t" if holds_always(row) else f"at {row.samples} samples",
        )
        for row in limits
    ]
    return table("limits", title, columns, rows)


def forecast_table(forecast: Forecast, values: Array, relative: Array, before: Forecast | None = None) -> Table:
    """One row per base parameter: its value (b,), the expected σ, that σ relative to the value (b,), and the present
    σ."""
    base = forecast.base
    columns = (
        TableColumn("name", "Parameter", "code"),
        TableColumn("value", "Value", "given"),
        TableColumn("std", "σ to expect", "number", digits=3),
        TableColumn("relative", "Relative σ", "share"),
        TableColumn("std_before", "σ now", "number", shown=before is not None, digits=3),
        TableColumn("unit", "Unit", "unit"),
    )
    now = np.full(len(base), np.nan) if before is None else before.std
    rows = list(zip(base.names, values, forecast.std, relative, now, base.units, strict=True))
    return table("forecast", "σ to expect", columns, rows)
