"""Joints of a robot file that its logs do not have: `init` proposes to hold them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from steelyard.findings import Finding
from steelyard.model.robot import Robot
from steelyard.signals.guess.choose import EFFORTS, POSITIONS
from steelyard.signals.guess.names import Group, groups


def absent_joints(columns: Sequence[str], robot: Robot) -> tuple[str, ...]:
    """The axes without a column for position and effort, if others have both; empty if the columns fit all axes, or
    fit none.

    Columns named after joints say which are missing. Numbered columns do so only where the last axes have another name
    than the others, which differ by their numbers alone: six columns are not those of an arm of seven joints, but seven
    are those of an arm with `joint1` to `joint7` and two joints `finger1`, `finger2`.
    """
    found = groups(columns, robot, None)
    missing: list[set[str]] = []
    for kinds in (POSITIONS, EFFORTS):
        measured = [one for one in found if one.meaning.kind in kinds and not one.meaning.commanded]
        fitting = [one for one in measured if not one.surplus and (one.is_complete or _says_which(one, robot))]
        if not fitting or any(one.is_complete for one in fitting):
            return ()
        missing.append(set(min(fitting, key=lambda one: len(one.missing)).missing))
    return tuple(name for name in robot.axis_names if name in missing[0] & missing[1])


def _says_which(group: Group, robot: Robot) -> bool:
    """Whether the joints that the group leaves out are certain."""
    if "*" in group.words:
        return True
    absent = {_stem(name) for name in group.missing}
    present = {_stem(name) for name in robot.axis_names if name not in group.missing}
    return len(present) == 1 and not present & absent


def _stem(name: str) -> str:
    return re.sub(r"\d+", "", name)


def absence_finding(listed: str) -> Finding:
    """What is said about joints that are held, at the positions `listed`, because the log does not have them."""
    return Finding(
        "joints-held",
        "info",
        f"in the robot file and not in the log, so held, as if fixed: {listed}",
        "hold",
        'write hold = ["JOINT=POSITION"] [rad | m], or --hold, if they were elsewhere; if they moved, log them',
    )
