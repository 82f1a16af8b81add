"""Springs and balancers as [[spring]] tables of robot and project files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np

from steelyard.errors import RobotError, choices
from steelyard.formats.robots.assembly import carrier_of
from steelyard.formats.robots.toml_values import Angle, Vector, radians
from steelyard.model.robot import Robot
from steelyard.model.springs import Anchor, ConstantForceSpring, CrankSpring, JointSpring, Spring, TensionSpring


class SpringTable(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """[[spring]]: see the kinds of `steelyard.robot.Spring` [m, rad]. `name` owns the columns.

    joint            joint, free (the position where it is relaxed)
    crank            joint, anchor_below, anchor_above, angle, free (a length)
    tension          links and points of its two ends, free (a length)
    constant-force   links and points of its two ends
    Without `free` the relaxed position or length is unknown, and one more column is identified. Links may be bodies on
    fixed joints, or the base, whose points are in the world frame.
    """

    kind: str
    name: str = "spring"
    joint: str | None = None
    anchor_below: float | None = None
    anchor_above: float | None = None
    angle: Angle | None = None
    links: tuple[str, str] | None = None
    points: tuple[Vector, Vector] | None = None
    free: Angle | None = None


# Keys of every kind of spring: those it must have, then those it may have.
SPRINGS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "joint": (("joint",), ("free",)),
    "crank": (("joint", "anchor_below", "anchor_above", "angle"), ("free",)),
    "tension": (("links", "points"), ("free",)),
    "constant-force": (("links", "points"), ()),
}


def with_springs(robot: Robot, tables: Sequence[SpringTable]) -> Robot:
    """The robot with more springs, and `springs` among its suggested terms: for URDF, which has no springs."""
    if not tables:
        return robot
    terms = robot.terms
    if terms is not None and "springs" not in terms:
        terms = (*terms, "springs")
    return replace(robot, springs=(*robot.springs, *(spring_of(robot, table) for table in tables)), terms=terms)


def spring_of(robot: Robot, table: SpringTable) -> Spring:
    if table.kind not in SPRINGS:
        raise RobotError(f"spring '{table.name}': {choices('kind', table.kind, SPRINGS)}")
    what = f"spring '{table.name}' of kind '{table.kind}'"
    needed, allowed = SPRINGS[table.kind]
    given = [key for key in SpringTable.__struct_fields__ if getattr(table, key) is not None]
    for key in given:
        if key not in ("kind", "name", *needed, *allowed):
            raise RobotError(f"{what}: {choices('key', key, ('name', *needed, *allowed))}")
    if isinstance(table.free, str) and table.kind != "joint":
        raise RobotError(f"{what}: free is a length in metres, not '{table.free}'.")
    free = None if table.free is None else radians(table.free, f"{what}, free")
    if table.kind == "joint" and table.joint is not None:
        return JointSpring(table.name, table.joint, free)
    below, above = table.anchor_below, table.anchor_above
    if table.joint is not None and below is not None and above is not None and table.angle is not None:
        angle = radians(table.angle, f"{what}, angle")
        return CrankSpring(table.name, table.joint, below, above, angle, free)
    if table.links is not None and table.points is not None:
        ends = zip(table.links, table.points, strict=True)
        first, second = (_anchor(robot, link, point, what) for link, point in ends)
        if table.kind == "tension":
            return TensionSpring(table.name, (first, second), free)
        return ConstantForceSpring(table.name, (first, second))
    raise RobotError(f"{what} lacks {', '.join(key for key in needed if key not in given)}.")


def _anchor(robot: Robot, link: str, point: Vector, what: str) -> Anchor:
    """The point on the moving link that carries it, or on the base."""
    name, pose = carrier_of(robot, link, what)
    return Anchor(name, pose.rotation @ np.array(point, float) + pose.position)
