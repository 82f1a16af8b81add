"""Loops of parallel robots as [[loop]] tables, with their driven joints, home posture and equal legs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import msgspec
import numpy as np

from steelyard._arrays import Array
from steelyard.errors import RobotError, choices
from steelyard.formats.robots.assembly import carrier_of, pose_from_rpy, refuse_adrift
from steelyard.formats.robots.toml_values import Angle, Vector, radians
from steelyard.model.loops import AXIS, COMPONENTS, FRAME, POINT, Attachment, Component, FrameLoop, JointLoop, Loop
from steelyard.model.robot import Robot

Angles = tuple[Angle, Angle, Angle]
Home = dict[str, Angle | dict[str, Angle]]


class LoopTable(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """[[loop]]: see `steelyard.robot.FrameLoop` and `JointLoop` [m, rad]. `name` defaults to "loop1", "loop2", …

    point   links, points: a ball joint that was cut
    axis    links, points, rpy: a revolute joint about z that was cut
    frame   links, points, rpy: a rigid connection
    joint   joint, other, polynomial: a joint that follows another, q_joint = Σ_k polynomial[k] · q_other^k
    `components`, e.g. ["x", "y", "rz"], may replace `kind`: the constrained components, one by one. `points` and
    `rpy` place a frame on each of the two links (default zero). Links may be bodies on fixed joints, or the base, whose
    frames are relative to the world.
    """

    name: str | None = None
    kind: str | None = None
    components: tuple[str, ...] | None = None
    links: tuple[str, str] | None = None
    points: tuple[Vector, Vector] | None = None
    rpy: tuple[Angles, Angles] | None = None
    joint: str | None = None
    other: str | None = None
    polynomial: tuple[Angle, ...] | None = None


# Constrained components of each kind; a joint that follows another has no frames.
KINDS: dict[str, tuple[Component, ...]] = {"point": POINT, "axis": AXIS, "frame": FRAME, "joint": ()}
ON_FRAMES = (("links",), ("points", "rpy"))
ON_JOINTS = (("joint", "other"), ("polynomial",))


def with_loops(
    robot: Robot,
    tables: Sequence[LoopTable],
    actuated: tuple[str, ...] | None,
    home: Home | None,
    legs: tuple[tuple[str, ...], ...],
) -> Robot:
    """The open robot closed by the loops of its file."""
    loops = tuple(loop_of(robot, table, f"loop{i + 1}") for i, table in enumerate(tables))
    if home is not None and not loops:
        raise RobotError(
            "home defines how the loops are assembled, and there is no [[loop]]. Add the loops, or remove home."
        )
    closed = replace(robot, loops=loops, actuated=actuated, home=_home(robot, home), legs=legs)
    refuse_adrift(closed)
    return closed


def loop_of(robot: Robot, table: LoopTable, default_name: str) -> Loop:
    name = default_name if table.name is None else table.name
    what = f"loop '{name}'"
    if (table.kind is None) == (table.components is None):
        raise RobotError(f"{what} needs either a kind ({', '.join(KINDS)}) or the components that it constrains.")
    if table.kind is not None and table.kind not in KINDS:
        raise RobotError(f"{what}: {choices('kind', table.kind, KINDS)}")
    needed, allowed = ON_JOINTS if table.kind == "joint" else ON_FRAMES
    given = [key for key in LoopTable.__struct_fields__ if getattr(table, key) is not None]
    for key in given:
        if key not in ("name", "kind", "components", *needed, *allowed):
            raise RobotError(f"{what} of kind '{table.kind}': {choices('key', key, ('name', *needed, *allowed))}")
    if table.joint is not None and table.other is not None:
        polynomial = (0.0, 1.0) if table.polynomial is None else table.polynomial
        if not polynomial:
            raise RobotError(f"{what}: the polynomial is empty. Give its coefficients, the constant term first.")
        return JointLoop(name, table.joint, table.other, tuple(radians(c, f"{what}, polynomial") for c in polynomial))
    if table.links is not None:
        points = table.points or ((0.0, 0.0, 0.0),) * 2
        rpy = table.rpy or ((0.0, 0.0, 0.0),) * 2
        first, second = (_attachment(robot, table.links[k], points[k], rpy[k], what) for k in range(2))
        components = KINDS[table.kind] if table.kind is not None else _components(table.components or (), what)
        return FrameLoop(name, (first, second), components)
    raise RobotError(f"{what} lacks {', '.join(key for key in needed if key not in given)}.")


def _components(names: tuple[str, ...], what: str) -> tuple[Component, ...]:
    for name in names:
        if name not in COMPONENTS:
            raise RobotError(f"{what}: {choices('component', name, COMPONENTS)}")
    return cast(tuple[Component, ...], names)


def _attachment(robot: Robot, link: str, point: Vector, rpy: Angles, what: str) -> Attachment:
    """The frame on the moving link that carries it, or on the base."""
    name, pose = carrier_of(robot, link, what)
    return Attachment(name, pose @ pose_from_rpy(point, [radians(angle, f"{what}, rpy") for angle in rpy]))


def _home(robot: Robot, table: Home | None) -> Array | None:
    """Positions (n_t,) by joint name, zero where the table gives none.

    A name with a dot (a coordinate of a free body) is written "platform.z" = 0.3 or platform.z = 0.3 (which TOML reads
    as a table).
    """
    if table is None:
        return None
    values = np.zeros(len(robot.joints))
    for name, value in _flat(table).items():
        if name not in robot.joint_names:
            raise RobotError(f"home: {choices('joint', name, robot.joint_names)}")
        values[robot.joint_names.index(name)] = radians(value, f"home, {name}")
    return values


def _flat(table: Mapping[str, Angle | dict[str, Angle]]) -> dict[str, Angle]:
    flat: dict[str, Angle] = {}
    for name, value in table.items():
        inner = {f"{name}.{key}": number for key, number in value.items()} if isinstance(value, dict) else {name: value}
        for key, number in inner.items():
            if key in flat:
                raise RobotError(f"home gives '{key}' twice.")
            flat[key] = number
    return flat
