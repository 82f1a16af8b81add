"""Export target `urdf`: the user's own URDF edited, or a new one."""

from __future__ import annotations

from pathlib import Path

from steelyard.export.export import Export
from steelyard.export.file_fit.values import FileFormat
from steelyard.export.parameter_set import IdentifiedModel
from steelyard.export.robot_files.urdf import edited_urdf
from steelyard.export.robot_files.urdf_new import generated_urdf
from steelyard.export.targets.target import ExportRequest, ExportTarget
from steelyard.formats.robots.urdf import read_urdf


def urdf(identified: IdentifiedModel, source: str | Path) -> Export:
    """The user's URDF `source` with the identified links and joint friction; the rest stays as it is."""
    return edited_urdf(identified.model, identified.bearing, Path(source), identified.load)


def new_urdf(identified: IdentifiedModel) -> Export:
    """A URDF made from the kinematics of the model's robot and the identified values."""
    return generated_urdf(identified.model, identified.bearing, identified.load)


def _make(request: ExportRequest) -> Export:
    identified = request.written
    return new_urdf(identified) if request.source is None else urdf(identified, request.source)


URDF = ExportTarget(
    "urdf",
    _make,
    ".urdf",
    frozenset({"source", "load", "exact"}),
    root="robot",
    form=FileFormat("URDF", ("viscous", "coulomb"), lambda content, path: read_urdf(content, str(path))),
)
