"""The writing wall: an identified model into the files that simulators and controllers read.

`identified_model(model, result)` chooses the standard parameters, then one verb per format returns an `Export` with the
files as bytes: `c`, `python`, `urdf` and `mjcf` (the user's own file, edited), `new_urdf` and `new_mjcf`. `latex`
prints the base parameters of a result, `motion` writes a trajectory for a robot controller. Every file is read back and
compared before it is returned; nothing is written to disk.
"""

from __future__ import annotations

from steelyard.export.code.c import c_files as c
from steelyard.export.code.python import python_file as python
from steelyard.export.export import Export
from steelyard.export.latex import latex_table as latex
from steelyard.export.motions import export_motion as motion
from steelyard.export.parameter_set import IdentifiedModel, identified_model
from steelyard.export.parity import Parity
from steelyard.export.robot_files.identified import mjcf, new_mjcf, new_urdf, urdf

__all__ = [
    "Export",
    "IdentifiedModel",
    "Parity",
    "c",
    "identified_model",
    "latex",
    "mjcf",
    "motion",
    "new_mjcf",
    "new_urdf",
    "python",
    "urdf",
]
