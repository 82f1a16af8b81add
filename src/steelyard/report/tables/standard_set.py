"""Table of a full standard set in the form of P0's Table II, with payloads and drive gains."""

from __future__ import annotations

import numpy as np

from steelyard._arrays import Array
from steelyard.identification.result import Identification
from steelyard.report.table import Table, TableColumn, table


def standard_set_table(result: Identification, theta: Array, kind: str) -> Table:
    """One row per standard parameter of theta (C,), payloads last, then the drive gains.

    Next to the value: that of the robot file (CAD), and the base parameter of that name with 2σ and 100 σ/|value|,
    which contains other parameters too where it is a sum. `kind` is the set: "own" or "nearest".
    """
    columns = (
        TableColumn("name", "Parameter", "code"),
        TableColumn("nominal", "CAD", "given"),
        TableColumn("base", "Base value", "value", of=("two_std",)),
        TableColumn("two_std", "2σ", "deviation", of=("base",)),
        TableColumn("relative_std", "σ [%]", "percent"),
        TableColumn("value", "Standard", "number", digits=6),
        TableColumn("unit", "Unit", "unit"),
        TableColumn("set", "Set", shown=False),
    )
    base, layout = result.base, result.base.layout
    at = {k: i for i, k in enumerate(base.kept)}
    rows = []
    for k, (column, value) in enumerate(zip(layout.columns, theta.tolist(), strict=True)):
        own = at.get(k)
        found = [np.nan] * 3 if own is None else [result.value[own], 2.0 * result.std[own], result.relative_std[own]]
        nominal = np.nan if column.nominal is None else column.nominal
        rows.append((column.name, nominal, *found, value, column.unit, kind))
    if (gains := result.gains) is not None:
        for name, stated, value, std, unit in zip(
            gains.joints, gains.stated, gains.value, gains.std, gains.units, strict=True
        ):
            rows.append((f"{name}.gain", stated, value, 2.0 * std, std / abs(value), value, unit, kind))
    titles = {"own": "Standard set as identified", "nearest": "Nearest physical standard set"}
    return table("standard_set", titles[kind], columns, rows)
