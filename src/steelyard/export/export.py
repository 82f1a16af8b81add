"""Export: what a writer hands back. Nothing is on disk yet, so that what does not agree is never written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.export.parity import Parity
from steelyard.export.robot_files.changes import FileChange
from steelyard.export.robot_files.friction_line import FrictionLine


@dataclass(frozen=True)
class Export:
    """Files by name with their content, what the format cannot hold (sentences), and what changed in the file.

    `name` is the format: urdf, mjcf, c, python, latex. `changes` is empty where no file of the user's was edited.
    `parity` says how well what the format holds, read back, agrees with the identified model; of robot files it is
    without friction. `friction` are the joints whose friction such a file holds in part. `notes` are sentences on what
    to mind when the files are used, and `beside` the files they look for beside them (meshes, textures).
    """

    name: str
    files: Mapping[str, bytes]
    left_out: tuple[str, ...] = ()
    changes: tuple[FileChange, ...] = ()
    parity: Parity | None = None
    friction: tuple[FrictionLine, ...] = ()
    notes: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
