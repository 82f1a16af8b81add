"""Export: an identified model as the files that simulators and controllers read.

`identified_model(model, result)` chooses the standard parameters, then one function per format returns an `Export` with
the files as bytes: `c`, `python`, `casadi`, `urdf`, `mjcf` and `sdf` (the user's own file, edited), `new_urdf`,
`new_mjcf` and `new_sdf`. `latex` prints the base parameters of a result, `motion` writes a trajectory for a robot
controller. Every file is read back and compared before it is returned; nothing is written to disk.

`TARGETS` holds what `steelyard export --to NAME` can write; `register` adds a target of your own.
"""

from __future__ import annotations

from steelyard.export.code.c import c_files as c
from steelyard.export.code.casadi import casadi_file as casadi
from steelyard.export.code.python import python_file as python
from steelyard.export.export import Export
from steelyard.export.latex import latex_table as latex
from steelyard.export.motions import export_motion as motion
from steelyard.export.parameter_set import IdentifiedModel, identified_model
from steelyard.export.parity import Parity
from steelyard.export.targets.mjcf import mjcf, new_mjcf
from steelyard.export.targets.registry import TARGETS, named_target, register, unregister
from steelyard.export.targets.sdf import new_sdf, sdf
from steelyard.export.targets.target import ExportRequest, ExportTarget
from steelyard.export.targets.urdf import new_urdf, urdf

__all__ = [
    "TARGETS",
    "Export",
    "ExportRequest",
    "ExportTarget",
    "IdentifiedModel",
    "Parity",
    "c",
    "casadi",
    "identified_model",
    "latex",
    "mjcf",
    "motion",
    "named_target",
    "new_mjcf",
    "new_sdf",
    "new_urdf",
    "python",
    "register",
    "sdf",
    "unregister",
    "urdf",
]
