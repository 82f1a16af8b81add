"""Bases: whether a robot is bolted down or floats, where the user says so and where its file only looks like it."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, cast

from steelyard.errors import RobotError, choices
from steelyard.findings import Finding
from steelyard.formats.robots.assembly import WORLD
from steelyard.formats.robots.holding import bolted
from steelyard.model.floating.appearance import signs_of_a_free_base
from steelyard.model.robot import Robot

Base = Literal["fixed", "floating"]
BASES: tuple[Base, ...] = ("fixed", "floating")


def checked_base(stated: str | None) -> Base | None:
    """A base as a user states it."""
    if stated is None or stated in BASES:
        return cast("Base | None", stated)
    raise RobotError(choices("base", stated, BASES))


def on_base(robot: Robot, base: Base | None) -> Robot:
    """The robot on the base that was asked for; by default as its file has it, with a finding if that seems wrong."""
    if checked_base(base) == "floating" and not robot.floats:
        raise RobotError(
            f"The file of '{robot.name}' fixes its base, and only a URDF or SDF is read as floating without a free "
            'joint. In MJCF give the first body a <freejoint/>; in a table begin with a [[joint]] of kind = "free".'
        )
    if base == "fixed":
        return bolted(robot)
    signs = signs_of_a_free_base(robot) if base is None and robot.base != WORLD else ""
    if not signs:
        return robot
    found = Finding(
        "base-assumed-fixed",
        "warning",
        f"'{robot.name}' is read as bolted down at '{robot.base}', and looks as if it were not: {signs}",
        robot.base,
        'state base = "floating" (--base floating) and record the motion of the base, or base = "fixed" if it did not '
        "move in the recordings",
    )
    return replace(robot, findings=(*robot.findings, found))
