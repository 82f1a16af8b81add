"""Export target `mjcf`: the user's own MJCF edited, or a new one."""

from __future__ import annotations

from pathlib import Path

from steelyard.export.export import Export
from steelyard.export.file_fit.values import FileFormat
from steelyard.export.parameter_set import IdentifiedModel
from steelyard.export.robot_files.mjcf import edited_mjcf, mjcf_robot
from steelyard.export.robot_files.mjcf_new import generated_mjcf
from steelyard.export.targets.target import ExportRequest, ExportTarget


def mjcf(identified: IdentifiedModel, source: str | Path) -> Export:
    """The user's MJCF `source` with the identified links and drives; the rest stays as it is."""
    return edited_mjcf(identified.model, identified.bearing, Path(source), identified.load)


def new_mjcf(identified: IdentifiedModel) -> Export:
    """An MJCF made from the kinematics of the model's robot and the identified values."""
    return generated_mjcf(identified.model, identified.bearing, identified.load)


def _make(request: ExportRequest) -> Export:
    identified = request.written
    return new_mjcf(identified) if request.source is None else mjcf(identified, request.source)


MJCF = ExportTarget(
    "mjcf",
    _make,
    ".xml",
    frozenset({"source", "load", "exact"}),
    root="mujoco",
    form=FileFormat("MJCF", ("rotor", "viscous", "coulomb", "springs"), mjcf_robot, has_gravity=True),
)
