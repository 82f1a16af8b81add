"""Export: the files that a writer made, as bytes. Nothing is on disk yet: what fails a check is not written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.export.file_fit.worth import FileWorth
from steelyard.export.parity import Parity
from steelyard.export.robot_files.changes import FileChange
from steelyard.export.robot_files.friction_line import FrictionLine


@dataclass(frozen=True)
class Export:
    """The files of an export by name: their content, what the format cannot hold (sentences), and what changed.

    `name` is the format: urdf, mjcf, c, python, latex, or that of a registered target. `changes` is empty unless a file
    of the user was edited. `parity` says how closely the torques of the files, read back, agree with the identified
    model; for robot files, without friction. `read_back` is a sentence on how the files were compared where there is no
    parity; empty where they were not. `friction` lists the joints whose friction a robot file holds in part. `notes`
    are sentences for the users of the files. `companions` lists files that must be in the same folder (meshes,
    textures). `worth` are the errors of the file on the user's own logs; where it is None, `unscored` is a sentence on
    why.
    """

    name: str
    files: Mapping[str, bytes]
    left_out: tuple[str, ...] = ()
    changes: tuple[FileChange, ...] = ()
    parity: Parity | None = None
    friction: tuple[FrictionLine, ...] = ()
    notes: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    read_back: str = ""
    worth: FileWorth | None = None
    unscored: str = ""
