"""Tables of a weighed payload."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.identification.weighing import PayloadResult, Quantity
from steelyard.report.table import Table, TableColumn, TableRow, table
from steelyard.report.tables.errors import scored


def body_quantity_table(found: PayloadResult) -> Table:
    """Mass, centre of mass and inertia about it."""
    return _quantity_table("body", "Body", found.body)


def inertial_table(found: PayloadResult) -> Table:
    """The ten inertial parameters about the payload's frame."""
    return _quantity_table("parameters", "About the payload's frame", found.parameters)


def _quantity_table(name: str, title: str, quantities: Sequence[Quantity]) -> Table:
    columns = (
        TableColumn("name", title, "code"),
        TableColumn("value", "Value", "value", of=("std",)),
        TableColumn("std", "± σ", "deviation", of=("value",)),
        TableColumn("std_log", "σ of the log", "number", digits=2),
        TableColumn("std_robot", "σ of the robot", "number", digits=2),
        TableColumn("unit", "Unit", "unit"),
    )
    rows = [(one.name, one.value, one.std, one.std_log, one.std_robot, one.unit) for one in quantities]
    return table(name, "", columns, rows)


def weighing_error_table(found: PayloadResult) -> Table:
    """Relative error per joint without and with the payload, and in the fit; joints not explained are highlighted."""
    scores = (found.unloaded, found.relative_error, found.fitted)
    columns = (
        TableColumn("joint", "Joint"),
        TableColumn("unloaded", "without payload", "share", group="Relative error"),
        TableColumn("loaded", "with", "share", group="Relative error"),
        TableColumn("fitted", "in the fit", "share", group="Relative error"),
        TableColumn("rows", "Rows", "count"),
    )
    counts = found.relative_error.rows
    rows = [
        TableRow(
            (joint, *(score.joints[joint] for score in scores), count), "bad" if joint in found.unexplained else ""
        )
        for joint, count in counts.items()
    ]
    total = TableRow(("all joints", *(score.total for score in scores), sum(counts.values())), "total")
    return Table("errors", "", columns, (*rows, total), (scored(found.relative_error.mask),))


def refitted_table(found: PayloadResult) -> Table:
    """Columns of the robot that were fitted again on these logs."""
    columns = (
        TableColumn("name", "Fitted again", "code"),
        TableColumn("identified", "Identified", "number"),
        TableColumn("refitted", "Here", "value", of=("std",)),
        TableColumn("std", "± σ", "deviation", of=("refitted",)),
        TableColumn("unit", "Unit", "unit"),
    )
    rows = [(name, *one) for name, one in found.refitted.items()]
    return table("refitted", "", columns, rows)
