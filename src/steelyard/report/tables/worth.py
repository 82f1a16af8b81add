"""Table of the errors of an exported file on fitted and unseen rows, and what it lacks, per joint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.report.table import Emphasis, Table, TableColumn, table
from steelyard.report.tables.errors import scored

if TYPE_CHECKING:
    from steelyard.export.file_fit.worth import FileWorth

_HEADINGS = {"file": "this file", "identified": "identified", "original": "file before"}


def worth_table(worth: FileWorth, title: str = "Torque error of the file, as its reader computes it") -> Table:
    """One row per joint, then the total: ‖y − ŷ‖/‖y‖ of the exported file, the identified model and the file before."""
    sets = [("fitted", "Fitted rows", worth.fitted), ("unseen", "Unseen motion", worth.unseen)]
    columns = [TableColumn("joint", "Joint")]
    columns += [
        TableColumn(f"{what}_{key}", heading, "share", group=group, shown=key in scores)
        for what, group, scores in sets
        for key, heading in _HEADINGS.items()
    ]
    columns.append(
        TableColumn("lacking", "Lacks of the identified, rms [N·m or N]", "number", digits=2, shown=bool(worth.lacking))
    )
    rows = []
    _, judged = worth.judged
    for joint in (*judged["file"].joints, "total"):
        errors = [
            np.nan if key not in scores else scores[key].total if joint == "total" else scores[key].joints[joint]
            for _, _, scores in sets
            for key in _HEADINGS
        ]
        rows.append((joint, *errors, worth.lacking.get(joint, np.nan)))
    weights: list[Emphasis] = ["total" if row[0] == "total" else "" for row in rows]
    notes = (scored(judged["file"].mask),)
    return table("worth", title, tuple(columns), rows, weights, notes)
