"""Tables of predictions: torque and band per joint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.identification.prediction import Prediction
from steelyard.model.parameters import Layout
from steelyard.report.table import Table, TableColumn, table
from steelyard.report.tables.errors import effort_unit


@dataclass(frozen=True)
class JointTorque:
    """The predicted effort of one joint over a motion [N·m | N].

    rms       root mean square of the prediction
    largest   largest |prediction| + half width of the band
    half      median half width of the band
    inside    fraction of the measured efforts in the band; NaN where none was measured
    """

    joint: str
    rms: float
    largest: float
    half: float
    inside: float
    rows: int


def torque_summary(found: Prediction, measured: bool) -> list[JointTorque]:
    """One entry per joint, over the rows with a band."""
    assert found.half is not None
    out = []
    for j, joint in enumerate(found.joints):
        own = found.scored[j] & np.isfinite(found.half[j])
        torque, half = found.predicted[j], found.half[j][own]
        if not own.any():
            rms = float(np.sqrt(np.mean(torque**2))) if len(torque) else np.nan
            out.append(JointTorque(joint, rms, np.nan, np.nan, np.nan, 0))
            continue
        largest = float(np.max(np.abs(torque[own]) + half))
        inside = float(np.mean(found.inside[j][own])) if measured else np.nan
        rms = float(np.sqrt(np.mean(torque**2)))
        out.append(JointTorque(joint, rms, largest, float(np.median(half)), inside, int(own.sum())))
    return out


def prediction_table(rows: Sequence[JointTorque], layout: Layout) -> Table:
    """One row per joint."""
    columns = (
        TableColumn("joint", "Joint"),
        TableColumn("rms", "RMS", "number", group="Torque"),
        TableColumn("largest", "largest with band", "number", group="Torque"),
        TableColumn("half", "95 % band ±", "number"),
        TableColumn("inside", "Measured in band", "share", shown=any(np.isfinite(row.inside) for row in rows)),
        TableColumn("rows", "Rows with a band", "count"),
        TableColumn("unit", "Unit", "unit"),
    )
    cells = [
        (row.joint, row.rms, row.largest, row.half, row.inside, row.rows, effort_unit(layout, row.joint))
        for row in rows
    ]
    notes = ("The band holds 95 % of efforts that are measured and filtered as in the fit; median over the motion.",)
    return table("prediction", "Predicted torque", columns, cells, notes=notes)
