"""Read a robot from a built-in name, a table, URDF, MJCF or SDF."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np

from steelyard.errors import RobotError
from steelyard.formats.robots.bases import Base, on_base
from steelyard.formats.robots.holding import Hold, hold
from steelyard.formats.robots.mjcf import read_mjcf
from steelyard.formats.robots.sdf.reader import read_sdf
from steelyard.formats.robots.toml import read_table
from steelyard.formats.robots.urdf import expanded_xacro, read_urdf, root_tag
from steelyard.model.robot import Robot

SUFFIXES = (".toml", ".urdf", ".xml", ".mjcf", ".xacro", ".sdf")


def builtin_robots() -> tuple[str, ...]:
    """Names of the robots that come with Steelyard."""
    folder = files("steelyard.formats.robots").joinpath("library")
    return tuple(sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".toml")))


def read_robot(
    source: str | Path, gravity: Sequence[float] | None = None, held: Hold = (), base: Base | None = None
) -> Robot:
    """The robot described by a built-in name or a file (`.toml` table, `.urdf`, `.xml`/`.mjcf` of either kind, `.sdf`,
    `.xacro` where the package xacro is installed).

    A built-in name has priority over a file of the same name: write `./tx40` for the file. `gravity` [m/s²], in the
    world frame of the base, replaces the file's. `held` names joints that do not move, each with a position [rad | m]:
    ["finger*=0.02"] or {"finger*": 0.02}. `base` is "floating" if the robot is not bolted down and its file does not
    say so (URDF, SDF), "fixed" to read a base that floats as bolted down where it is; by default as the file has it.
    """
    name = str(source)
    if isinstance(source, str) and name in builtin_robots():
        content = files("steelyard.formats.robots").joinpath("library", f"{name}.toml").read_bytes()
        robot = _with_source(read_table(content, f"{name}.toml"), f"built-in robot '{name}'", content)
    else:
        content = _bytes_of(Path(source))
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is checked later and raises an error
            robot = _with_source(_parsed(Path(source), content, base), name, content)
    robot = hold(robot if gravity is None else robot.with_gravity(gravity), held)
    return on_base(robot, base)


def _with_source(robot: Robot, source: str, content: bytes) -> Robot:
    """The robot with its source; a file that it includes is not part of the hash."""
    return replace(robot, source=source, sha256=hashlib.sha256(content).hexdigest())


def _parsed(path: Path, content: bytes, base: Base | None) -> Robot:
    floating = base == "floating"
    suffix = path.suffix.lower()
    if suffix == ".toml":
        return read_table(content, str(path))
    if suffix == ".urdf":
        return read_urdf(content, str(path), floating=floating)
    if suffix == ".sdf":
        return read_sdf(content, str(path), floating=floating)
    if suffix == ".xacro":
        return read_urdf(expanded_xacro(path), str(path), floating=floating)
    if suffix in (".xml", ".mjcf"):
        tag = root_tag(content, str(path))
        if tag == "robot":
            return read_urdf(content, str(path), floating=floating)
        if tag == "mujoco":
            return read_mjcf(path)
        raise RobotError(
            f"'{path}' is XML but not a robot file: its root is <{tag}>, not <robot> (URDF) or <mujoco> (MJCF)."
        )
    raise RobotError(
        f"The robot file '{path}' has the unknown suffix '{suffix}'. Valid: {', '.join(SUFFIXES)}, or a built-in name: "
        f"{', '.join(builtin_robots())}."
    )


def _bytes_of(path: Path) -> bytes:
    try:
        if not path.exists():
            raise RobotError(
                f"The robot file '{path}' does not exist, and no built-in robot has that name. Built-in robots: "
                f"{', '.join(builtin_robots())}."
            )
        if not path.is_file():
            raise RobotError(f"'{path}' is not a file. Give the robot file itself: {', '.join(SUFFIXES)}.")
        content = path.read_bytes()
    except (OSError, ValueError) as problem:
        raise RobotError(f"Cannot read the robot file '{path}': {problem}.") from problem
    if not content.strip():
        raise RobotError(f"The robot file '{path}' is empty.")
    return content
