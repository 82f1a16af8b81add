"""Changes of an export to the user's file, number by number, for a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steelyard._arrays import Array
from steelyard.export.robot_files.drives import ARMATURE, DAMPING, FRICTION, UNITS
from steelyard.identification.bodies import BODY, BODY_UNITS, body_values
from steelyard.model.robot import Joint, Robot
from steelyard.model.terms.term import linear_unit
from steelyard.physical.consistency import robot_bodies

# Numbers that differ by less than this fraction of the body's largest are equal except for rounding.
SAME = 1e-12


@dataclass(frozen=True)
class FileChange:
    """One number of a link or joint, before → after; None where the file does not state it.

    `quantity` is one of `bodies.BODY` of a link ("mass", "com x", …), "armature", "damping" or "friction" of a joint,
    or "stiffness" of a spring.
    """

    owner: str
    quantity: str
    unit: str
    before: float | None
    after: float | None


def changes(before: Robot, after: Robot) -> tuple[FileChange, ...]:
    """Mass, centre of mass and inertia of every body, and the drives of every joint, where they differ.

    Bodies on fixed joints are listed separately, each in its own frame; joints and bodies in the order of `before`.
    """
    old, _ = robot_bodies(before)
    new, _ = robot_bodies(after)
    names = dict.fromkeys((*(name for link in before.links for name in (link.name, *_lumps(before, link.name))), *new))
    # a body on a fixed joint that has lost its mass is no longer listed
    gone = {name: np.zeros(10) for name in old if name not in new}
    found = [change for name in names for change in _of_body(name, old.get(name), (new | gone).get(name))]
    joints = {joint.name: joint for joint in after.joints}
    found += [change for joint in before.joints for change in _of_joint(joint, joints[joint.name])]
    return (*found, *_of_springs(before, after))


def _of_springs(before: Robot, after: Robot) -> Iterator[FileChange]:
    for name, value in before.nominal.items():
        new = after.nominal.get(name)
        if name.rpartition(".")[0] in [spring.name for spring in before.springs] and new != value:
            yield FileChange(name.rpartition(".")[0], "stiffness", "N/m", value, new)


def _lumps(robot: Robot, link: str) -> tuple[str, ...]:
    return tuple(lump.name for lump in robot.links[robot.link_index(link)].lumps)


def _of_body(name: str, before: Array | None, after: Array | None) -> Iterator[FileChange]:
    values = [np.full(10, np.nan) if vector is None else body_values(vector) for vector in (before, after)]
    sizes = [slice(0, 1), slice(1, 4), slice(4, 10)]
    for part in sizes:
        largest = max((float(np.nanmax(np.abs(x[part]))) for x in values if np.isfinite(x[part]).any()), default=0.0)
        for quantity, unit, x, y in zip(BODY[part], BODY_UNITS[part], *(v[part] for v in values), strict=True):
            if not abs(y - x) <= SAME * largest and not (np.isnan(x) and np.isnan(y)):
                yield FileChange(name, quantity, unit, _number(x), _number(y))


def _of_joint(before: Joint, after: Joint) -> Iterator[FileChange]:
    pairs = (
        (ARMATURE, before.drive.rotor, after.drive.rotor),
        (DAMPING, before.drive.viscous, after.drive.viscous),
        (FRICTION, before.drive.coulomb, after.drive.coulomb),
    )
    for quantity, x, y in pairs:
        if x != y:
            unit = UNITS[quantity]
            yield FileChange(before.name, quantity, linear_unit(unit) if before.is_prismatic else unit, x, y)


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
