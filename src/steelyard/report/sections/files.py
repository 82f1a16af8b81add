"""Section of robot files: the errors of a URDF or MJCF of this result on its logs."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.report.section import Piece, ReportSubject, Section
from steelyard.report.tables.worth import worth_table


def _files(subject: ReportSubject) -> Sequence[Piece]:
    """A table per format, with what the format lacks."""
    return [
        worth_table(worth, f"Torque error of a {form} file, as its reader computes it").with_notes(*worth.sentences)
        for form, worth in subject.files.items()
    ]


FILES = Section("files", "Errors of robot files", _files, "Robot files")
