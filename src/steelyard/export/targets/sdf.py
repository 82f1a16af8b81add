"""Export target `sdf`: the user's own SDF edited, or a new one."""

from __future__ import annotations

from pathlib import Path

from steelyard.export.export import Export
from steelyard.export.file_fit.values import FileFormat
from steelyard.export.parameter_set import IdentifiedModel
from steelyard.export.robot_files.sdf.edited import edited_sdf
from steelyard.export.robot_files.sdf.generated import generated_sdf
from steelyard.export.targets.target import ExportRequest, ExportTarget
from steelyard.formats.robots.sdf.reader import read_sdf


def sdf(identified: IdentifiedModel, source: str | Path) -> Export:
    """The user's SDF `source` with the identified links and joint friction; the rest stays as it is."""
    return edited_sdf(identified.model, identified.bearing, Path(source), identified.load)


def new_sdf(identified: IdentifiedModel) -> Export:
    """An SDF made from the kinematics of the model's robot and the identified values."""
    return generated_sdf(identified.model, identified.bearing, identified.load)


def _make(request: ExportRequest) -> Export:
    identified = request.written
    return new_sdf(identified) if request.source is None else sdf(identified, request.source)


SDF = ExportTarget(
    "sdf",
    _make,
    ".sdf",
    frozenset({"source", "load", "exact"}),
    root="sdf",
    form=FileFormat("SDF", ("viscous", "coulomb"), lambda content, path: read_sdf(content, str(path))),
)
