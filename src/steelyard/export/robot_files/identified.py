"""The robot files of an identified model: the user's own file edited, or a new one."""

from __future__ import annotations

from pathlib import Path

from steelyard.export.export import Export
from steelyard.export.parameter_set import IdentifiedModel
from steelyard.export.robot_files.mjcf import edited_mjcf
from steelyard.export.robot_files.mjcf_new import generated_mjcf
from steelyard.export.robot_files.urdf import edited_urdf
from steelyard.export.robot_files.urdf_new import generated_urdf


def urdf(identified: IdentifiedModel, source: str | Path) -> Export:
    """The user's URDF `source` with the identified links and joint friction; the rest stays as it is."""
    return edited_urdf(identified.model, identified.bearing, Path(source), identified.load)


def mjcf(identified: IdentifiedModel, source: str | Path) -> Export:
    """The user's MJCF `source` with the identified links and drives; the rest stays as it is."""
    return edited_mjcf(identified.model, identified.bearing, Path(source), identified.load)


def new_urdf(identified: IdentifiedModel) -> Export:
    """A URDF made from the kinematics of the model's robot and the identified values."""
    return generated_urdf(identified.model, identified.bearing, identified.load)


def new_mjcf(identified: IdentifiedModel) -> Export:
    """An MJCF made from the kinematics of the model's robot and the identified values."""
    return generated_mjcf(identified.model, identified.bearing, identified.load)
